"""English verbs as they open bullets: past tenses, nouns of action, and the prepositions they take.

The lists are in `verbs.toml`.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TABLE: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("verbs.toml").read_text(encoding="utf-8")
)

NOUNS: Mapping[str, str] = _TABLE["nouns"]
"""Past tenses of the verbs behind nouns of action: "migrated" for "migration"."""

PLURAL_NOUNS: Mapping[str, str] = _TABLE["plural_nouns"]
"""The same for plurals that end compounds: "fixed" for "fixes", as in "bug fixes"."""

FRAMES: Mapping[str, frozenset[str]] = {
    preposition: frozenset(verbs) for preposition, verbs in _TABLE["frames"].items()
}
"""For each preposition, the past tenses that it may follow directly."""

STATIVE = frozenset(_TABLE["stative"]["words"])
"""Past tenses that are as often adjectives at the head of a bullet: "Based on", "Skilled in"."""

FIELDS = frozenset(_TABLE["gerunds"]["fields"])
"""Words in -ing that name fields rather than deeds: "billing"."""

GOALS = frozenset(_TABLE["gerunds"]["goals"])
"""Words in -ing that name results: who was responsible for growing something may not have."""

ERRANDS = tuple(_TABLE["gerunds"]["errands"])
"""Openings that name no achievement: "Printed", "Reserved"."""

_PAST: Mapping[str, str] = _TABLE["past"]


def past_tense(gerund: str) -> str:
    """Return the past tense of a verb, given its -ing form.

    >>> past_tense("carrying"), past_tense("planning"), past_tense("leading")
    ('carried', 'planned', 'led')
    """
    stem = gerund.removesuffix("ing")
    return _PAST.get(gerund, re.sub(r"(?<=[^aeiou])y$", "i", stem) + "ed")


PAST_TENSES = frozenset(_PAST.values())
"""Past tenses that do not end in "ed"."""
