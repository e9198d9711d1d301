"""Harmless edits that improve nothing: what they earn is the floor of a useful policy's reward."""

import re
from random import Random

_BULLET = re.compile(r"^[-*+] .+$", re.MULTILINE)
_SWAPS = (("the", "this"), ("and", "plus"), ("with", "using"), ("for", "toward"), ("on", "upon"))


def bullets(text: str) -> list[str]:
    """Return the bullets that occur exactly once in the text, as `str_replace` requires."""
    found = [match[0] for match in _BULLET.finditer(text)]
    return [bullet for bullet in found if text.count(bullet) == 1]


def floor_edit(text: str, original: str, rng: Random) -> tuple[str, str] | None:
    """Swap one function word of a random bullet that has not been edited, else add one.

    Returns:
        The edit (old, new); None if all bullets have been edited.
    """
    fresh = [bullet for bullet in bullets(text) if bullet in original.split("\n")]
    for bullet in rng.sample(fresh, len(fresh)):
        for old, new in _SWAPS:
            if f" {old} " in bullet:
                return bullet, bullet.replace(f" {old} ", f" {new} ", 1)
    return (fresh[0], f"{fresh[0]} too") if fresh else None
