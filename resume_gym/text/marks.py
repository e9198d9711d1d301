"""Limits for runs of combining marks, which Unicode normalization sorts in quadratic time."""

import re
import unicodedata
from collections.abc import Set as AbstractSet
from functools import lru_cache

MOST_MARKS = 30
"""Maximum number of combining marks in a row in the Stream-Safe Text Format (UAX #15)."""


def stacked(text: str) -> re.Match[str] | None:
    """Return the first run of more than `MOST_MARKS` combining marks, or None."""
    marks = _marks(text)
    return _runs(marks).search(text) if marks else None


def stream_safe(text: str) -> str:
    """Return a text with each run of combining marks truncated to `MOST_MARKS` marks."""
    marks = _marks(text)
    return _runs(marks).sub(lambda run: run[0][:MOST_MARKS], text) if marks else text


def _marks(text: str) -> AbstractSet[str]:
    return frozenset() if text.isascii() else frozenset(filter(_is_mark, set(text)))


@lru_cache(maxsize=4096)
def _is_mark(char: str) -> bool:
    # some marks, such as U+0F73, have class 0, but decompose into marks of other classes
    return unicodedata.combining(unicodedata.normalize("NFKD", char)[0]) > 0


@lru_cache(maxsize=64)
def _runs(marks: AbstractSet[str]) -> re.Pattern[str]:
    anyone = "".join(map(re.escape, sorted(marks)))
    return re.compile(f"[{anyone}]{{{MOST_MARKS + 1},}}")
