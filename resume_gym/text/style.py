"""Writing style of a line: opening verb, fillers, and formatting compared with other lines."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from resume_gym.text.lines import GLUE, LEXICON, Content, Line, any_of, read, stem
from resume_gym.text.thresholds import WINDOW
from resume_gym.text.verbs import FIELDS, NOUNS, PAST_TENSES, PLURAL_NOUNS

_VERBS = LEXICON["verbs"]
_SKIP = frozenset(_VERBS["skip"])
# "Supported 200 users" says what was done; "supported the team with" says only that somebody
# helped.
_SUPPORTED = (
    r"support(?:ed|ing)?\s(?:in|with)\b|support(?:ed|ing)\s(?:\w+ing\b|(?:\w+\s){0,3}?"
    rf"(?:{'|'.join([*_VERBS['supported'], *NOUNS])})\b)"
)
HEDGE = re.compile(rf"{any_of(_VERBS['hedges']).pattern}|(?<![\w-])(?:{_SUPPORTED})")
"""Pattern of hedges in lower-case text: words that say that somebody only helped."""
_WEAK = re.compile(rf"{any_of(_VERBS['weak']).pattern}|{HEDGE.pattern}")
_NOT_NOUNS = PAST_TENSES.union(_VERBS["strong"], _VERBS["neutral"]) - NOUNS.keys()
_LIGHT = frozenset(map(stem, _VERBS["light"]))
_IRREGULAR = LEXICON["irregular"].keys() - {"people", "children", "men", "women", "analyses"}
_NO_VERBS = frozenset(("including", "during", "concerning", "regarding"))
_BE = frozenset(("was", "were", "is", "are"))
_CLAUSES = frozenset(("which", "who", "that", "so", "because", "when", "where", "while"))
_CHARGE = any_of(_VERBS["charge"])
_FILLER = any_of(LEXICON["words"]["filler"])
_SOFT = frozenset(map(stem, LEXICON["words"]["soft"]))
_CHORES = _SOFT.union(map(stem, LEXICON["words"]["chores"]))
_ABSTRACT = rf"\b(?:{'|'.join(LEXICON['words']['abstract'])})\b"
_EMPTIES = [phrase.replace("VAGUE", _ABSTRACT) for phrase in LEXICON["words"]["empty"]]
_EMPTY = re.compile("|".join(_EMPTIES))
# the empty phrases that may contain any words; they extend to the start or the end of the line
_OPEN = re.compile("|".join(phrase for phrase in _EMPTIES if "^" in phrase or "$" in phrase))
# an introductory phrase before the verb: "As a volunteer, ...", "Tasks: ..."
_ASIDE = re.compile(
    r"(?:as|in|at|during|while|after|for)\b[^,]{1,60}, (?=\w)"
    r"|(?:\w+ )?(?:tasks|duties|responsibilities): (?=\w)",
    re.IGNORECASE,
)
_SPACING = re.compile(r"\S[ \t]{2,}\S|\t|\s$")
_SEPARATOR = re.compile(r"\d{4} ?(-{1,2}|\u2013|\u2014|to|until) ?(?=\w)", re.IGNORECASE)

VAGUE = frozenset(
    stem(word) for word in (*LEXICON["words"]["filler"], *_VERBS["weak"]) if " " not in word
)
"""Stems of vague words."""


class Head(NamedTuple):
    """How a line opens, and where its main verb is.

    Attributes:
        kind: "hedge" (the candidate only helped), "weak" (hides who did the work), "noun" (a noun
            of action: "Migration of"), or "plain".
        at: index, in the tokens of the line, of the main verb or noun of action, which follows any
            weak opening.
        charge: whether the opening names a responsibility ("In charge of") and no verb follows.
    """

    kind: str
    at: int
    charge: bool = False


@lru_cache(maxsize=8192)
def head(content: Content) -> Head:
    """Parse the opening of a line."""
    tokens = content.tokens
    aside = _ASIDE.match(content.body) if not _WEAK.match(" ".join(tokens[:8])) else None
    start = len(read(aside[0]).tokens) if aside else 0
    while start < len(tokens) - 1 and (tokens[start] in _SKIP or tokens[start].endswith("ly")):
        if tokens[start + 1] == "of":  # "Assembly of"
            break
        start += 1
    passive = start > 0 and tokens[start - 1] in ("was", "were", "been", "got")
    text = " ".join(tokens[start : start + 8])
    found = _WEAK.match(text)
    if not found:
        if passive and bool(tokens) and tokens[start].endswith("ed"):
            return Head("weak", start)
        # An opening before a colon is a label: "Conversion of the landing pages: up 2 %".
        at = _action(tokens[start : start + 5]) if ":" not in content.body else -1
        return Head("noun", start + at) if at >= 0 else Head("plain", start)
    kind = "hedge" if HEDGE.match(text) else "weak"
    at = start + len(found[0].split())
    # weak openings may be chained, as in "Was asked to assist in"
    while at < len(tokens) and (tokens[at] in GLUE or _WEAK.match(tokens[at])):
        kind = "hedge" if HEDGE.match(tokens[at]) else kind
        at += 1
    # After a function word, the first -ing form among the next six words is the main verb:
    # "booking" in "helped with the timely booking". Otherwise, only the next word can be the main
    # verb: "helped build".
    near = 6 if at > start + len(found[0].split()) or tokens[at - 1] in GLUE else 1
    near_by = range(at, min(at + near, len(tokens)))
    verbs = (n for n in near_by if _is_doing(tokens[n]) and tokens[n - 1] != "by")
    verb = next(verbs, -1)
    noun = _action(tokens[at : at + 4])
    if noun >= 0 and (verb < 0 or at + noun < verb):
        return Head(kind, at + noun)
    free = verb < 0 or tokens[at] in FIELDS  # "Responsible for banking and closing"
    charge = free and _CHARGE.search(text) is not None
    return Head(kind, min(max(verb, at) if verb >= 0 else at, len(tokens) - 1), charge)


def _is_doing(token: str) -> bool:
    return token.endswith("ing") and token not in _NO_VERBS


def _action(tokens: Sequence[str]) -> int:
    """Return the index of the noun of action that opens a line; -1 if there is none."""
    for at, token in enumerate(tokens[:-1]):
        follows = tokens[at + 1]
        if token.endswith("ing") and follows == "of" and not at:
            return at
        if token in NOUNS and follows in ("of", "for", "and"):
            return at
        if token in PLURAL_NOUNS and at == 1 and follows in GLUE:
            return at
        if token.endswith("ed") or token in GLUE or token in _NOT_NOUNS:
            break
    return -1


def is_weak(content: Content) -> bool:
    """Return whether the opening of a line hides who did the work."""
    return bool(content.tokens) and head(content).kind in ("hedge", "weak")


@lru_cache(maxsize=8192)
def fillers(body: str) -> int:
    """Count the fillers and empty phrases in a line without markup."""
    return len(_FILLER.findall(body.lower())) + empties(body)


@lru_cache(maxsize=8192)
def empties(body: str) -> int:
    """Count the phrases in a line that say nothing, such as "in a timely manner"."""
    return len(_EMPTY.findall(body.lower()))


def filler_spans(body: str) -> list[tuple[int, int]]:
    """Return where the fillers and empty phrases of a line start and end."""
    found = (pattern.finditer(body.lower()) for pattern in (_FILLER, _EMPTY))
    return [match.span() for matches in found for match in matches]


def is_filler(text: str) -> bool:
    """Return whether a text is nothing but a filler or an empty phrase."""
    spans = {text, f" {text}"}
    return any(pattern.fullmatch(one) for one in spans for pattern in (_FILLER, _EMPTY))


def is_open(text: str) -> bool:
    """Return whether a text is an empty phrase that may contain any words."""
    return _OPEN.fullmatch(text) is not None


def is_soft(body: str) -> bool:
    """Return whether a text consists of praise: "a quick learner with excellent people skills"."""
    return _consists(body, _SOFT)


def is_chore(body: str) -> bool:
    """Return whether a text consists of praise and of chores that come with any job."""
    return _consists(body, _CHORES)


def _consists(body: str, stems: frozenset[str]) -> bool:
    """Return whether a text has content words, all of which are fillers or have these stems."""
    content = read(body)
    telling = [k for t, k in zip(content.tokens, content.keys, strict=True) if t not in GLUE]
    return bool(telling) and all(k in stems or k[0] == "~" or fillers(k) for k in telling)


@lru_cache(maxsize=8192)
def passive(content: Content) -> int:
    """Return the index of the verb of a line that opens in the passive voice; -1 if it does not.

    "The runbook was written": the words before "was" contain no other verb.
    """
    tokens = content.tokens
    place = next((n for n, token in enumerate(tokens[:10]) if token in _BE), 0)
    # a past tense may open the line as an adjective: "Broken seats were replaced"
    plain = _CLAUSES.isdisjoint(tokens[:place]) and not any(map(is_past, tokens[1:place]))
    done = place + 1 < len(tokens) and is_past(tokens[place + 1])
    return place + 1 if place and tokens[0] != "i" and plain and done else -1


def is_past(token: str) -> bool:
    """Return whether a word may be a past tense."""
    return (
        token in PAST_TENSES
        or token in _IRREGULAR
        or (token.endswith("ed") and len(token) > WINDOW - 1)
    )


def light(content: Content) -> bool:
    """Return whether a line opens with a light verb, as "Performed an audit" does."""
    return bool(content.tokens) and content.keys[head(content).at] in _LIGHT


def gerund(content: Content) -> bool:
    """Return whether a line opens with the -ing form of a verb: "Handling escalations"."""
    first, second = (*content.tokens[:2], "", "")[:2]
    return first.endswith("ing") and len(first) > WINDOW and first not in FIELDS and second != "of"


@lru_cache(maxsize=8192)
def core(content: Content) -> frozenset[str]:
    """Return the stems of a line's content words except fillers, vague words and a weak opening."""
    body = content.body.lower()
    plain = _FILLER.sub(" ", _EMPTY.sub(" ", body))
    bare = content if plain == body else read(plain)
    start = head(bare).at if is_weak(bare) else 0
    return frozenset(bare.keys[start:]).intersection(bare.telling) - VAGUE


@dataclass(frozen=True, slots=True)
class Formatting:
    """The most common formatting among the lines of a text."""

    marker: str
    heading: str
    period: bool
    date: str
    range: str
    capital: bool


def habits(lines: Sequence[Line]) -> Formatting:
    """Return the formatting that most lines of a text share."""
    bullets = [line for line in lines if line.kind in ("bullet", "skills") and line.style]
    prose = [line for line in bullets if line.kind == "bullet"]
    entries = [line for line in lines if line.kind == "entry"]
    ranges = [found for line in entries if (found := _range(line))]
    return Formatting(
        marker=_usual([line.style for line in bullets], "-"),
        heading=_usual([line.style for line in lines if line.kind == "heading"], "##"),
        period=sum(line.body.endswith(".") for line in prose) * 2 > len(prose),
        date=_first([date for line in entries for date in sorted(line.content.dates)]),
        range=_first(ranges),
        capital=sum(line.body[:1].isupper() for line in prose) * 2 >= len(prose),
    )


def _usual(styles: Sequence[str], preferred: str) -> str:
    """Return the most frequent style; ties go to `preferred`."""
    counts = Counter(styles)
    return max(counts, key=lambda s: (counts[s], s == preferred, s), default=preferred)


def _first(found: Sequence[str]) -> str:
    """Return the most frequent text, in a tie the first one; empty if there are no texts."""
    return Counter(found).most_common(1)[0][0] if found else ""


def _range(line: Line) -> str:
    """Return the separator of a line's date range, such as "-" or "to"; empty if there is none."""
    found = _SEPARATOR.search(line.raw)
    return found[1].lower() if found else ""


def format_faults(line: Line, habits: Formatting) -> int:
    """Count the formatting faults of a line, including deviations from `habits`."""
    faults = [_SPACING.search(line.raw) is not None]
    if line.kind == "bullet":
        lower = line.body[:1].islower() and habits.capital
        faults += [line.body.endswith(".") != habits.period, lower or line.body.isupper()]
    if line.kind in ("bullet", "skills") and line.style:
        faults.append(line.style != habits.marker)
    elif line.kind == "heading":
        faults.append(line.style != habits.heading)
    elif line.kind == "entry":
        faults.append(not line.content.dates <= {habits.date})
        faults.append(_range(line) not in ("", habits.range))
    return sum(faults)
