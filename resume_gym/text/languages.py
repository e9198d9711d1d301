"""Recognition of dates in several languages, and of English text."""

import re
import tomllib
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import Any

_LANGUAGES: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("languages.toml").read_text(encoding="utf-8")
)
_WORDS = {name: frozenset(words) for name, words in _LANGUAGES["words"].items()}
_MARKS = ".,;:!?()[]*_#|\"'“”„«»"
# the share of English function words is tested in texts of at least this many words
_LEAST_WORDS = 20
_LEAST_SHARE = 0.03


def _any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted({*words}, key=lambda word: (-len(word), word))))


def _months() -> set[str]:
    """Return the names of months, and their abbreviations of three to five letters."""
    names = " ".join(_LANGUAGES["months"].values()).split()
    short = {part for name in names for part in accumulate(name) if 3 <= len(part) <= 5}
    return short.union(names, *map(str.split, _LANGUAGES["whole_months"].values()))


_DATES = _LANGUAGES["dates"]
_YEAR = r"(?:19|20)\d\d"
_MONTH = rf"(?:{_any_of(_months())})(?!\w)\.?"
_DAY = r"(?:\d{1,2}(?:\.|st|nd|rd|th|er|º)?\s?(?:de\s)?)"
DATE = (
    rf"(?:(?:{_DAY}?(?:{_MONTH}|{_any_of(_DATES['seasons'])})(?:\s\d{{1,2}},)?,?\s?(?:de[l]?\s)?"
    rf"|(?:\d{{1,2}}[/.]\s?){{1,2}})?{_YEAR}(?:[-/.]\d\d?(?!\d)){{0,2}}|{_MONTH}\s?['’]\d\d"
    rf"|{_YEAR}年(?:\d{{1,2}}月)?)"
)
"""Pattern of a date in any supported language; needs `re.IGNORECASE` and single-spaced text."""

_OPEN = rf"(?:l['’])?(?:{_any_of(_DATES['open'])})(?!\w)"
_TO = rf"\s?(?:-{{1,3}}|–|—|~|/)\s?|\s(?:{_any_of(_DATES['to'])})\s"
SPAN = (
    rf"(?:(?:(?:{_any_of(_DATES['since'])})\s)?{DATE}(?:(?:{_TO})(?:{DATE}|{_OPEN}|\d\d)(?!\d)"
    rf"|\sto\sdate|\s?[-–—](?=\s?$))?|(?:{_any_of(_DATES['to'])})\s{DATE})"
)
"""Pattern of a date, or of a range of dates whose end may be open."""

_SPAN = re.compile(SPAN, re.IGNORECASE)
_NAMED_DAY = re.compile(rf"\d{{1,2}}\.\s?{_MONTH},?\s(?:de\s)?{_YEAR}(?!\d)", re.IGNORECASE)


def starts_with_day(line: str) -> bool:
    """Return whether a line starts with a date ("14. Oktober 2019") instead of a list number."""
    line = line.strip()[:100]
    return bool(_NAMED_DAY.match(line) or (line[:1].isdigit() and _SPAN.fullmatch(line)))


def is_english(text: str) -> bool:
    """Return whether a text may be in English, judging by its letters and function words."""
    letters = [char for char in text if char.isalpha()]
    latin = sum(char < "\u0250" or "\u1e00" <= char < "\u1f00" for char in letters)
    if 2 * latin < len(letters):
        return False
    # Parts of an e-mail or web address do not count as words.
    words = [word for raw in text.split() if (word := raw.strip(_MARKS)).isalpha()]
    # Use lower-case words only: a capitalized word may be part of a name, such as "Las Vegas".
    small = [word for word in words if word.islower()]
    headings = [word.lower() for word in words if len(word) > 5 and not word.islower()]
    english = sum(word in _WORDS["english"] for word in small)
    # Long words with capital letters, as in headings, count twice: they identify a language best.
    foreign = sum(word in _WORDS["foreign"] for word in (*small, *headings, *headings))
    shared = sum(word in _WORDS["shared"] for word in small)
    if foreign > max(english, 1):
        return False
    return len(small) < _LEAST_WORDS or english + shared >= _LEAST_SHARE * len(small)
