"""How a line is written: the verb that opens it, its filler, and its form beside the others."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from resume_gym.judges.lines import GLUE, LEXICON, Content, Line, any_of, read, stem

_FAULTS: Mapping[str, float] = LEXICON["faults"]
_VERBS = LEXICON["verbs"]
_SKIP = frozenset(_VERBS["skip"])
_HEDGE, _WEAK = any_of(_VERBS["hedges"]), any_of(_VERBS["hedges"] + _VERBS["weak"])
_CHARGE = any_of(_VERBS["charge"])
_FILLER = any_of(LEXICON["words"]["filler"])
_ASIDE = re.compile(r"(?:as|in|at|during|while|after|for)\b[^,]{1,60}, (?=\w)", re.IGNORECASE)
_NO_ENGLISH = re.compile(
    r"\b(?:an?|the) (?=(?:an?|the|of|in|at|by|for|from|with|to|and|or|i|was|were)\b|$)"
    r"|\b(?:of|for|from|with|at|to) (?=(?:of|for|to|and|or|was|were)\b|$)"
    r"|\b(?:and|or) (?=(?:and|or|of)\b|$)"
    r"|\b(\w{3,}|i) (?=\1\b)"
    r"|(?<=[a-z]) \w{3,}ed (?=[a-z]{3,}ed\b)",
    re.IGNORECASE,
)
_SPACING = re.compile(r"\S[ \t]{2,}\S|\t|\s$")
_SEPARATOR = re.compile(r"\d{4} ?(-{1,2}|\u2013|\u2014|to|until) ?(?=\w)", re.IGNORECASE)

VAGUE = frozenset(
    stem(word) for word in (*LEXICON["words"]["filler"], *_VERBS["weak"]) if " " not in word
)
"""Stems of words that say nothing."""


class Head(NamedTuple):
    """How a line opens.

    Attributes:
        kind: "hedge" (somebody helped), "weak" (who did it is hidden), or "plain".
        at: the index of the verb of the deed among the tokens, which is behind a weak opening.
        charge: whether it says that the candidate had charge of something, and no verb follows.
    """

    kind: str
    at: int
    charge: bool = False


@lru_cache(maxsize=8192)
def head(content: Content) -> Head:
    """The opening of a line."""
    tokens = content.tokens
    aside = _ASIDE.match(content.body) if not _WEAK.match(" ".join(tokens[:8])) else None
    start = len(read(aside[0]).tokens) if aside else 0
    while start < len(tokens) - 1 and (tokens[start] in _SKIP or tokens[start].endswith("ly")):
        start += 1
    passive = start > 0 and tokens[start - 1] in ("was", "were", "been", "got")
    text = " ".join(tokens[start : start + 8])
    found = _WEAK.match(text)
    if not found:
        weak = passive and bool(tokens) and tokens[start].endswith("ed")
        return Head("weak" if weak else "plain", start)
    kind = "hedge" if _HEDGE.match(text) else "weak"
    at = start + len(found[0].split())
    # behind "Was asked to assist in" stands a second weak opening
    while at < len(tokens) and (tokens[at] in GLUE or _WEAK.match(tokens[at])):
        kind = "hedge" if _HEDGE.match(tokens[at]) else kind
        at += 1
    # "helped build a booking system" has its verb at once, "helped with the timely booking" later
    near = 6 if at > start + len(found[0].split()) or tokens[at - 1] in GLUE else 1
    verbs = (n for n in range(at, min(at + near, len(tokens))) if tokens[n].endswith("ing"))
    verb = next(verbs, -1)
    charge = verb < 0 and _CHARGE.match(text) is not None
    return Head(kind, min(max(verb, at) if verb >= 0 else at, len(tokens) - 1), charge)


def is_weak(content: Content) -> bool:
    """Whether a line opens with words that hide who did the work."""
    return bool(content.tokens) and head(content).kind != "plain"


@lru_cache(maxsize=8192)
def fillers(body: str) -> int:
    """How many words of a plain line fill space."""
    return len(_FILLER.findall(body.lower()))


def garbled(body: str) -> int:
    """Number of pairs of neighbouring words in a line that do not occur in English."""
    return len(_NO_ENGLISH.findall(body))


def is_filler(word: str) -> bool:
    """Whether a lower-case word fills space by itself."""
    return _FILLER.fullmatch(word) is not None


@lru_cache(maxsize=8192)
def core(content: Content) -> frozenset[str]:
    """The keys of a line that carry meaning: without filler, weak opening and small words."""
    body = content.body.lower()
    bare = read(_FILLER.sub(" ", body)) if _FILLER.search(body) else content
    start = head(bare).at if is_weak(bare) else 0
    return frozenset(bare.keys[start:]).intersection(bare.telling) - VAGUE


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
    faults = _FAULTS["spacing"] * bool(_SPACING.search(line.raw))
    if line.kind == "bullet":
        faults += _FAULTS["punctuation"] * (line.body.endswith(".") != habits.period)
        lower = line.body[:1].islower() and habits.capital
        faults += _FAULTS["case"] * (lower or line.body.isupper())
    if line.kind in ("bullet", "skills") and line.style:
        faults += _FAULTS["marker"] * (line.style != habits.marker)
    elif line.kind == "heading":
        faults += _FAULTS["heading"] * (line.style != habits.heading)
    elif line.kind == "entry" and line.content.dates:
        faults += _FAULTS["date"] * (_dates(line) != habits.dates)
    return faults
