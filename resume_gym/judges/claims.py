"""What a revised resume claims, and whether the original or the evidence supports it.

The job description supports nothing. A claim is looked for where it belongs: a known figure on
another line, or a known employer under another job, is as wrong as an invented one.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rapidfuzz import fuzz

from resume_gym.judges.lines import LEXICON, Content, Line, Number, any_of, parts, read, stem
from resume_gym.judges.reference import Reference, Teller, similarity, strays

_SIMILARITY = LEXICON["similarity"]
_WORDS = LEXICON["words"]
_CLAIMS = LEXICON["claims"]
_TOOLS = frozenset(_CLAIMS["tools"])
_LABELS = frozenset(_CLAIMS["labels"] + _WORDS["sections"] + _WORDS["stop"])
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
    windows = [known[:size] for known in reference.heads for size in (1, 2, 3)]
    missing = (_missing(line.content, window) for window in windows or [()])
    for word in min(missing, key=len):
        shown = re.search(re.escape(word), line.body, re.IGNORECASE)
        quote = shown[0] if shown else word
        known = any(map(reference.knows, quote.lower().split()))
        what = "stands elsewhere in the original" if known else "is nowhere in the original"
        yield "entry", quote, f'"{quote}" in "{cut(line.body)}" {what}.', 0.9


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
    yield from _number_claims(content, reference)
    yield from _name_claims(line, reference)
    yield from _word_claims(content, reference)
    if line.kind in ("bullet", "text"):
        yield from _inflation(content, told, reference)
        yield from _invention(content, told, reference)


def _number_claims(content: Content, reference: Reference) -> Iterator[Claim]:
    for number in content.numbers:
        owners = [
            teller
            for known, teller in reference.owners.get(number.value, ())
            if _backs(known, number, teller)
        ]
        if not owners:
            reason = f'The figure "{number.quote}" is neither in the original nor in the evidence.'
            yield "number", number.quote, reason, 0.97
        elif not any(_belongs(content, teller, reference) for teller in owners):
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


def _belongs(content: Content, teller: Teller, reference: Reference) -> bool:
    """Whether a line tells of a statement, or of the original line that the statement is about."""
    about = [teller.content]
    if teller.unit >= 0:
        about.append(reference.lines[teller.unit].content)
    return any(similarity(content, s, reference) >= _SIMILARITY["aligned"] for s in about)


def _name_claims(line: Line, reference: Reference) -> Iterator[Claim]:
    for name in line.content.names:
        word = name.text.lower().removesuffix("'s")
        if reference.knows(word):
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


def _told(words: Sequence[str], reference: Reference) -> bool:
    """Whether one true statement contains all these words."""
    wanted = {stem(word) for word in words}
    return any(wanted <= set(map(stem, teller.content.words)) for teller in reference.tellers)


def _inflation(content: Content, told: tuple[int, ...], reference: Reference) -> Iterator[Claim]:
    """A helper who became a leader; a team that nobody has heard of."""
    text = " ".join(content.words)
    lead = _LEADS.search(text)
    if not lead:
        return
    known = [statement for unit in told for statement in reference.told[unit]]
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


def _invention(content: Content, told: tuple[int, ...], reference: Reference) -> Iterator[Claim]:
    """Prose that is from the job description, or from nowhere."""
    new = {s for s in content.stems if s not in reference.vocabulary and s not in _PLAIN_WORDS}
    own = {s for unit in told for statement in reference.told[unit] for s in statement.stems}
    for wanted in reference.job:
        shared = wanted.stems & content.stems - own
        if len(shared) < 3 or len(shared) < _SIMILARITY["pasted"] * len(wanted.stems - own):
            continue
        if fuzz.partial_ratio(wanted.body.lower(), content.body.lower()) >= 85:
            reason = f'"{cut(wanted.body)}" is pasted from the job description.'
            yield "pasted", cut(wanted.body), reason, 0.9
            return
    if len(content.stems) < 3:
        return
    share = len(new) / len(content.stems)
    if share >= 0.5 and (not told or (len(new) >= _SIMILARITY["novel"] and share >= 0.75)):
        yield "invention", cut(content.body), f'Nothing supports "{cut(content.body)}".', 0.6


def cut(text: str, size: int = 80) -> str:
    """The text, shortened for a quotation."""
    return text if len(text) <= size else text[: size - 3].rsplit(" ", 1)[0] + "..."
