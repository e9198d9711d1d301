"""How a line is written: the verb that opens it, its wording, and its form beside the others."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from resume_gym.judges.lines import LEXICON, Content, Line, any_of, read, stem

_CLARITY: Mapping[str, float] = LEXICON["clarity"]
_VERBS = LEXICON["verbs"]
_FILLERS = LEXICON["words"]["filler"]
_TIERS: dict[str, float] = _VERBS["tiers"]
_SKIP = frozenset(_VERBS["skip"])
_NOT_VERBS = frozenset(_VERBS["not_verbs"])
_STRONG_STEMS = frozenset(stem(word) for word in _VERBS["strong"] if " " not in word)
_OPENERS = {name: any_of(_VERBS[name]) for name in ("weak", "neutral")}
_FILLER = any_of(_FILLERS)
_SPACING = re.compile(r"\S[ \t]{2,}\S|\t|\s$")
_SECOND = re.compile(r"\w+(?:[,;:]| -+)\s")
_ASIDE = re.compile(r"(?:as|in|at|during|while|after)\b[^,]{1,60}, ", re.IGNORECASE)
_PASSIVE = ("was", "were", "been", "got")
_SEPARATOR = re.compile(r"\d{4} ?(-{1,2}|\u2013|\u2014|to|until) ?(?=\w)", re.IGNORECASE)

VAGUE = frozenset(stem(word) for word in (*_FILLERS, *_VERBS["weak"]) if " " not in word)
"""Stems of words that say nothing."""


def tier(content: Content) -> str:
    """The tier of the verb that opens a bullet: strong, neutral, weak or none."""
    aside = _ASIDE.match(content.body)
    if aside and _tier(content.words) == "none":
        content = read(content.body[aside.end() :])
    words = list(content.words)
    passive = any(word in _PASSIVE for word in words[:2])
    while len(words) > 1 and (words[0] in _SKIP or words[0].endswith("ly")):
        del words[0]
    first = _tier(words)
    if passive and words[0].endswith("ed"):
        return "weak"
    # "Delivered and helped with" is no stronger than "Helped with".
    second = _tier(words[2:]) if words[1:2] == ["and"] else first
    if _SECOND.match(content.body):
        second = _tier(words[1:])
    weaker = min(first, second, key=_TIERS.__getitem__)
    return first if second == "none" else weaker


def _tier(words: Sequence[str]) -> str:
    text = " ".join(words[:4])
    for name, pattern in _OPENERS.items():
        if pattern.match(text):
            return name
    first = words[0] if words else ""
    if first in _NOT_VERBS:
        return "none"
    if first.endswith("ing"):
        return "neutral"
    return "strong" if first.endswith("ed") or stem(first) in _STRONG_STEMS else "none"


@lru_cache(maxsize=8192)
def fillers(body: str) -> int:
    """How many words of a plain line fill space."""
    return len(_FILLER.findall(body.lower()))


def wording_faults(content: Content, own: frozenset[str]) -> float:
    """How vague and how long a line is; `own` are the stems it can rightly tell."""
    telling = len((content.stems & own) - VAGUE)
    specific = min(0.6, 0.07 * telling) + 0.3 * bool(content.figures)
    specific += 0.2 * any(not n.head and stem(n.text.lower()) in own for n in content.names)
    faults = _CLARITY["vague"] * (1 - min(1.0, specific))
    faults += _CLARITY["filler"] * min(3, fillers(content.body))
    length = len(content.words) + len(content.numbers)
    faults += _CLARITY["length_per_word"] * max(0, length - _CLARITY["max_words"])
    return faults + _CLARITY["short"] * (length < _CLARITY["min_words"])


@dataclass(frozen=True, slots=True)
class Habits:
    """What most lines of a text do."""

    marker: str
    heading: str
    period: bool
    dates: tuple[frozenset[str], str]
    capital: bool


def habits(lines: Sequence[Line]) -> Habits:
    """The habits of a text: what a line has to do to look like the others."""
    bullets = [line for line in lines if line.kind in ("bullet", "skills") and line.style]
    prose = [line for line in bullets if line.kind == "bullet"]
    dated = [_dates(line) for line in lines if line.kind == "entry" and line.content.dates]
    return Habits(
        marker=_usual([line.style for line in bullets], "-"),
        heading=_usual([line.style for line in lines if line.kind == "heading"], "##"),
        period=sum(line.body.endswith(".") for line in prose) * 2 > len(prose),
        dates=Counter(dated).most_common(1)[0][0] if dated else (frozenset(), ""),
        capital=sum(line.body[:1].isupper() for line in prose) * 2 >= len(prose),
    )


def _usual(styles: Sequence[str], preferred: str) -> str:
    """The most frequent style; the preferred one of two equals."""
    counts = Counter(styles)
    return max(counts, key=lambda s: (counts[s], s == preferred, s), default=preferred)


def _dates(line: Line) -> tuple[frozenset[str], str]:
    separator = _SEPARATOR.search(line.raw)
    return line.content.dates, separator[1].lower() if separator else ""


def format_faults(line: Line, habits: Habits) -> float:
    """How far a line is out of form, by itself and beside the others."""
    faults = _CLARITY["spacing"] * bool(_SPACING.search(line.raw))
    if line.kind == "bullet":
        faults += _CLARITY["punctuation"] * (line.body.endswith(".") != habits.period)
        lower = line.body[:1].islower() and habits.capital
        faults += _CLARITY["case"] * (lower or line.body.isupper())
    if line.kind in ("bullet", "skills") and line.style:
        faults += _CLARITY["marker"] * (line.style != habits.marker)
    elif line.kind == "heading":
        faults += _CLARITY["heading"] * (line.style != habits.heading)
    elif line.kind == "entry" and line.content.dates:
        numeric = bool(line.content.dates & {"01/2020", "2020-01"})
        other = _dates(line) != habits.dates
        faults += _CLARITY["date"] * other + _CLARITY["numeric_date"] * numeric
    return faults
