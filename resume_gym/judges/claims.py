"""What a revised resume claims, and whether the original or the evidence supports it.

The job description supports nothing. A claim is looked for where it belongs: a known figure on
another line, or a known employer under another job, is as wrong as an invented one.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

from rapidfuzz import fuzz

from resume_gym.judges.lines import LEXICON, Content, Line, Number, any_of, parts, read, stem
from resume_gym.judges.reference import Reference, Teller, strays, tells

_SIMILARITY = LEXICON["similarity"]
_WORDS = LEXICON["words"]
_CLAIMS = LEXICON["claims"]
_IDLE = ("weak", "skip")  # tiers of verbs that say nothing
_TOOLS = frozenset(_CLAIMS["tools"])
_LABELS = frozenset(_CLAIMS["labels"] + _WORDS["sections"] + _WORDS["stop"])
_LOW_RANKS = frozenset(_CLAIMS["low_ranks"])
_ROLES = frozenset(_CLAIMS["title_words"])
_EMPTY = frozenset(
    stem(word)
    for group in (_WORDS["common"], _WORDS["filler"], *(LEXICON["verbs"][t] for t in _IDLE))
    for phrase in group
    for word in phrase.split()
)
_LEADING = frozenset(_CLAIMS["leading"] + _CLAIMS["heading"])
_HEADING = frozenset(_CLAIMS["heading"])
_PLAIN_WORDS = frozenset(
    stem(word)
    for group in (_WORDS["common"], _WORDS["filler"], *LEXICON["verbs"].values())
    if isinstance(group, list)
    for word in group
)


_CLAIM_WORDS = {
    "credential": any_of(_CLAIMS["credentials"]),
    "title": any_of(_CLAIMS["ranks"]),
    "scope": any_of(_CLAIMS["scope"]),
}
_TITLE = re.compile(
    rf"\b(?:{'|'.join(_CLAIMS['title_leads'])})\s(?:an?\s|the\s|our\s)?(?:[\w-]+\s){{0,3}}?"
    rf"(?:{'|'.join(_CLAIMS['title_words'])})\b"
)
_LEADS = re.compile(rf"(?<![\w-])({'|'.join(sorted(_LEADING))})(?![\w-])")
_CROWD = re.compile(
    rf"(?<![\w-])(?:{'|'.join(_CLAIMS['heading'])}) "
    r"(?:(?!of|for|with|to|by|in|on|from|that|and)[\w-]+ ){0,3}"
    rf"(?:{'|'.join(_CLAIMS['crowd'])})\b"
)
_FOLLOWING = "|".join(_CLAIMS["following"])
_MODEST = re.compile(rf"^(?:\w+ly |was |were |i )*(?:{'|'.join(_CLAIMS['modest'])})\b")


Claim = tuple[str, str, str, float]
"""Kind, quote, reason, confidence."""


class Finding(NamedTuple):
    """A claim that nothing supports."""

    line: int  # index among the lines of the revised resume
    kind: str
    quote: str
    reason: str
    confidence: float


def find_claims(
    lines: Sequence[Line], told: Sequence[tuple[int, ...]], reference: Reference
) -> list[Finding]:
    """The unsupported claims of a text.

    Args:
        lines: the text.
        told: for each line, the original lines that it tells of (see `align`).
        reference: what is true.
    """
    findings: list[Finding] = []
    for index, line in enumerate(lines):
        if line.body.casefold() in reference.bodies:
            continue
        checks = _entry_claims if line.kind == "entry" else _prose_claims
        findings += (
            Finding(index, kind, quote, reason, confidence)
            for kind, quote, reason, confidence in checks(line, told[index], reference)
        )
    return findings + list(_misplaced(lines, told, reference))


def _misplaced(
    lines: Sequence[Line], told: Sequence[tuple[int, ...]], reference: Reference
) -> Iterator[Finding]:
    for index, elsewhere in strays(lines, told, reference).items():
        if elsewhere:
            quote = cut(lines[index].body)
            reason = f'"{quote}" stands under another job than in the original.'
            yield Finding(index, "moved bullet", quote, reason, 0.7)


def _entry_claims(line: Line, told: tuple[int, ...], reference: Reference) -> Iterator[Claim]:
    """The head of a job, a school or the address: all of it must stand together in the original."""
    windows = [known[:size] for known in reference.heads for size in (1, 2, 3)] or [()]
    missing = [_missing(line.content, window) for window in windows]
    least = min(map(len, missing))
    best = [place for place, words in enumerate(missing) if len(words) == least]
    dropped = [_dropped_rank(line.content, windows[place]) for place in best]
    if not least and all(dropped):
        reason = f'"{cut(line.body)}" leaves out "{dropped[0]}".'
        yield "title", dropped[0], reason, 0.8
    for word in missing[best[0]]:
        shown = re.search(re.escape(word), line.body, re.IGNORECASE)
        quote = shown[0] if shown else word
        known = any(map(reference.knows, quote.lower().split()))
        what = "stands elsewhere in the original" if known else "is nowhere in the original"
        yield "entry", quote, f'"{quote}" in "{cut(line.body)}" {what}.', 0.9


def _dropped_rank(content: Content, heads: Sequence[Content]) -> str:
    """A low rank that stood before a word of the line, and is gone: "junior"; or nothing."""
    for head in heads:
        for rank, role in pairwise(head.words):
            if rank in _LOW_RANKS and rank not in content.words and role in content.words:
                return rank
    return ""


def _missing(content: Content, heads: Sequence[Content]) -> list[str]:
    known = {
        form for head in heads for word in head.words for p in parts(word) for form in (p, stem(p))
    }
    known |= {name.text.lower() for head in heads for name in head.names}
    numbers = [number for head in heads for number in head.numbers]
    words = [
        word
        for word in content.words
        if word not in _LABELS and not any(p in known or stem(p) in known for p in parts(word))
    ]
    urls = [n.text for n in content.names if "@" in n.text or "/" in n.text]
    words += [url for url in urls if url.lower() not in known]
    claimed = [n for n in content.numbers if not any(k.backs(n) for k in numbers)]
    return words + [number.quote for number in claimed]


def _prose_claims(line: Line, told: tuple[int, ...], reference: Reference) -> Iterator[Claim]:
    content = line.content
    yield from _number_claims(line, told, reference)
    yield from _name_claims(line, reference)
    yield from _word_claims(content, reference)
    if line.kind == "text":
        yield from _role_claims(content, reference)
    if line.kind in ("bullet", "text"):
        yield from _inflation(content, told, reference)
        yield from _invention(line, told, reference)


def _number_claims(line: Line, told: tuple[int, ...], reference: Reference) -> Iterator[Claim]:
    content = line.content
    for number in content.numbers:
        owners = [
            teller
            for known, teller in reference.owners.get(number.value, ())
            if _backs(known, number, teller)
        ]
        if not owners:
            reason = f'The figure "{number.quote}" is neither in the original nor in the evidence.'
            yield "number", number.quote, reason, 0.97
        elif not any(_belongs(line, told, teller, reference) for teller in owners):
            place = cut(owners[0].content.body)
            reason = (
                f'The figure "{number.quote}" belongs to "{place}", not to "{cut(content.body)}".'
            )
            yield "moved number", number.quote, reason, 0.85


def _backs(known: Number, claim: Number, teller: Teller) -> bool:
    if known.backs(claim):
        return True
    # "3 full weeks" backs "3 weeks".
    if known.unit or claim.unit not in teller.content.stems:
        return False
    return known.backs(Number(claim.value, "", claim.quote))


def _belongs(line: Line, told: tuple[int, ...], teller: Teller, reference: Reference) -> bool:
    """Whether a line tells of a statement, or of the original line that the statement is about."""
    if teller.unit in told:
        return True
    about = [teller.content]
    if teller.unit >= 0:
        about.append(reference.lines[teller.unit].content)
    # A figure that was moved must not speak for its new place.
    return any(tells(line.content, s, reference, figures=line.kind != "bullet") for s in about)


def _name_claims(line: Line, reference: Reference) -> Iterator[Claim]:
    for name in line.content.names:
        word = name.text.lower().removesuffix("'s")
        plainly = name.head and word not in reference.job_names
        if reference.knows(word) or (plainly and _starts_phrase(name.text, line.body)):
            continue
        # A capital at the head of a sentence may be the sentence's.
        sure = not name.head or line.kind == "skills" or word in reference.job_names
        reason = f'"{name.text}" is neither in the original nor in the evidence.'
        yield "name", name.text, reason, 0.9 if sure else 0.6
    if line.kind == "skills":
        for item in re.split(r"[,;:|()]| and ", line.body):
            words = [w for w in read(item.strip()).words if w not in _LABELS]
            if words and not all(map(reference.knows, words)):
                yield "skill", item.strip(), f'The skill "{item.strip()}" has no support.', 0.85
        return
    for word in line.content.words:
        if word in _TOOLS and not reference.knows(word):
            reason = f'The tool "{word}" is neither in the original nor in the evidence.'
            yield "tool", word, reason, 0.9


def _starts_phrase(word: str, body: str) -> bool:
    """Whether what follows a capital at the head of a sentence makes it a verb or an adjective."""
    return re.search(rf"\b{re.escape(word)} (?:{_FOLLOWING})\b", body) is not None


def _word_claims(content: Content, reference: Reference) -> Iterator[Claim]:
    """Titles, degrees and scope, also in lower case."""
    text = " ".join(content.words)
    for kind, pattern in _CLAIM_WORDS.items():
        for match in pattern.finditer(text):
            if not _told(match[0].split(), reference):
                yield kind, match[0], f'Nothing supports the {kind} "{match[0]}".', 0.75
    for match in _TITLE.finditer(text):
        words = [word for word in match[0].split() if word not in _LABELS]
        if not _told(words, reference):
            yield "title", match[0], f'Nothing supports the title in "{match[0]}".', 0.8


def _role_claims(content: Content, reference: Reference) -> Iterator[Claim]:
    """What a text about the candidate calls them."""
    for word in content.words:
        if word in _ROLES and word not in reference.words:
            yield "title", word, f'Nothing supports the title "{word}".', 0.75


def _told(words: Sequence[str], reference: Reference) -> bool:
    """Whether one true statement contains all these words."""
    wanted = {stem(word) for word in words}
    return any(wanted <= set(map(stem, teller.content.words)) for teller in reference.tellers)


def _grounds(content: Content, told: tuple[int, ...], reference: Reference) -> list[Content]:
    """The true statements that a line tells of."""
    placed = [statement for unit in told for statement in reference.told[unit]]
    return [*placed, *reference.backing(content)]


def _inflation(content: Content, told: tuple[int, ...], reference: Reference) -> Iterator[Claim]:
    """A helper who became a leader; a team that nobody has heard of."""
    text = " ".join(content.words)
    lead = _LEADS.search(text)
    if not lead:
        return
    known = _grounds(content, told, reference)
    words = {word for statement in known for word in statement.words}
    if stem(lead[1]) in set(map(stem, words)):
        return
    quote = " ".join(text[lead.start() :].split()[:6])
    modest = next((c for c in known if _MODEST.match(" ".join(c.words))), None)
    if modest and not words & _LEADING and text[: lead.start()].count(" ") < 3:
        reason = f'"{quote}" makes more of "{cut(modest.body)}" than it says.'
        yield "inflation", quote, reason, 0.75
    elif (crowd := _CROWD.search(text)) and not words & _HEADING:
        reason = f'Nothing says that the candidate "{crowd[0]}".'
        yield "inflation", crowd[0], reason, 0.75


def _invention(line: Line, told: tuple[int, ...], reference: Reference) -> Iterator[Claim]:
    """Prose that is from the job description, or from nowhere."""
    content = line.content
    grounded = told or reference.backing(content)
    plain_words = _PLAIN_WORDS if grounded else _EMPTY
    new = {s for s in content.stems if s not in reference.vocabulary and s not in plain_words}
    own = {s for statement in _grounds(content, told, reference) for s in statement.stems}
    for wanted in reference.job:
        shared = wanted.stems & content.stems - own
        if len(shared) < 3 or len(shared) < _SIMILARITY["pasted"] * len(wanted.stems - own):
            continue
        if fuzz.partial_ratio(wanted.body.lower(), content.body.lower()) >= 85:
            reason = f'"{cut(wanted.body)}" is pasted from the job description.'
            yield "pasted", cut(wanted.body), reason, 0.9
            return
    if told and (added := _surplus(line, told, reference)):
        yield "addition", added, f'Nothing supports "{added}" in "{cut(content.body)}".', 0.6
        return
    if len(content.stems) < 3:
        return
    share = len(new) / len(content.stems)
    if share >= 0.5 and (not told or (len(new) >= _SIMILARITY["novel"] and share >= 0.75)):
        yield "invention", cut(content.body), f'Nothing supports "{cut(content.body)}".', 0.6


def _surplus(line: Line, told: tuple[int, ...], reference: Reference) -> str:
    """Words that a line says beyond all that it is known to tell; nothing if they are few.

    Honest rewording puts words in the place of others, so only the surplus of a passage counts.
    """
    content = line.content
    grounds = _grounds(content, told, reference)
    own = {s for statement in grounds for s in statement.stems}
    words = [word for word in content.words if stem(word) in content.stems]
    new = [stem(word) for word in words]
    # What a bullet takes from elsewhere in the resume is half new; a summary may do so.
    known = 0.5 if line.kind == "bullet" else 0.0
    worth = {s: known if s in reference.vocabulary else 1.0 for s in new}
    worth |= dict.fromkeys(own | _EMPTY, 0.0)
    least, quote = math.inf, ""
    for statement in grounds:
        old = [stem(word) for word in statement.words if stem(word) in statement.stems]
        # A name that is gone leaves no room for a claim.
        gone = set(old) - set(new) - {stem(name.text.lower()) for name in statement.names}
        most, start, end = max(_surpluses(old, new, worth, gone), default=(0.0, 0, 0))
        if most < least:
            least, quote = most, " ".join(words[start:end])
    return quote if least >= _SIMILARITY["surplus"] else ""


def _surpluses(
    old: Sequence[str], new: Sequence[str], worth: Mapping[str, float], gone: AbstractSet[str]
) -> Iterator[tuple[float, int, int]]:
    """For each passage that is not in the old text: what it says beyond what it replaces."""
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind in ("insert", "replace"):
            yield sum(worth[s] for s in new[c:d]) - sum(s in gone for s in old[a:b]), c, d


def cut(text: str) -> str:
    """The text, shortened to at most 80 characters for a quotation."""
    return text if len(text) <= 80 else text[:77].rsplit(" ", 1)[0] + "..."
