"""English verbs that open bullets, with their past tenses, nouns of action and prepositions.

The lists of these words are in `verbs.toml`.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from resume_gym.text.lines import GLUE, LEXICON, stem

_TABLE: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("verbs.toml").read_text(encoding="utf-8")
)

NOUNS: Mapping[str, str] = _TABLE["nouns"]
"""Past tense of the verb that belongs to a noun of action: "migration" -> "migrated"."""

PLURAL_NOUNS: Mapping[str, str] = _TABLE["plural_nouns"]
"""Like `NOUNS`, for plural nouns at the end of compounds ("bug fixes"): "fixes" -> "fixed"."""

FRAMES: Mapping[str, frozenset[str]] = {
    preposition: frozenset(verbs) for preposition, verbs in _TABLE["frames"].items()
}
"""For each preposition, the past tenses that the preposition may follow directly."""

STATIVE = frozenset(_TABLE["stative"]["words"])
"""Past tenses that are often adjectives at the start of a bullet: "Based on", "Skilled in"."""

FIELDS = frozenset(_TABLE["gerunds"]["fields"])
"""Words ending in -ing that name fields of work rather than actions: "billing"."""

GOALS = frozenset(_TABLE["gerunds"]["goals"])
"""Words ending in -ing that name results: "Responsible for growing" does not imply "Grew"."""

ERRANDS = tuple(_TABLE["gerunds"]["errands"])
"""Verbs that open bullets without naming an achievement: "Printed", "Reserved"."""

ROUTINE = tuple(_TABLE["gerunds"]["routine"])
"""Verbs of routine work; an achievement in the same bullet matters more than such work."""

_PAST: Mapping[str, str] = _TABLE["past"]


def past_tense(gerund: str) -> str:
    """Return the past tense of a verb, given its -ing form.

    >>> past_tense("carrying"), past_tense("planning"), past_tense("leading")
    ('carried', 'planned', 'led')
    """
    stem = gerund.removesuffix("ing")
    return _PAST.get(gerund, re.sub(r"(?<=[^aeiou])y$", "i", stem) + "ed")


def past_of_base(base: str) -> str:
    """Return the past tense of a verb, given its base form.

    >>> past_of_base("write"), past_of_base("plan"), past_of_base("carry"), past_of_base("move")
    ('wrote', 'planned', 'carried', 'moved')
    """
    forms = (f"{base}ing", f"{base.removesuffix('e')}ing", f"{base}{base[-1]}ing")
    if known := next((_PAST[form] for form in forms if form in _PAST), ""):
        return known
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", base):
        base += base[-1]
    return re.sub(r"(?<=[^aeiou])y$", "i", base).removesuffix("e") + "ed"


def is_base(word: str) -> bool:
    """Return whether a lower-case word is the base form of a verb of the word lists."""
    return past_of_base(word) in KNOWN_VERBS and word not in PAST_TENSES


def gerund(past: str) -> str:
    """Return the -ing form of a verb, given its past tense.

    >>> gerund("wrote"), gerund("planned"), gerund("carried"), gerund("freed")
    ('writing', 'planning', 'carrying', 'freeing')
    """
    return _GERUNDS.get(past) or re.sub("i$", "y", past.removesuffix("ed")) + "ing"


_GERUNDS = {past: form for form, past in _PAST.items()}

PAST_TENSES = frozenset(_PAST.values())
"""Past tenses that `past_tense` looks up instead of forming them by rule."""

VERBS = frozenset(
    word
    for group in (*LEXICON["rings"]["verbs"], LEXICON["verbs"]["strong"], LEXICON["verbs"]["known"])
    for word in group
) | frozenset().union(*FRAMES.values())
"""Known verbs, mostly in the past tense."""

KNOWN_VERBS = VERBS | PAST_TENSES

VERB_STEMS = frozenset(map(stem, KNOWN_VERBS))
"""Stems of `KNOWN_VERBS`."""

_AUXILIARIES = frozenset(LEXICON["words"]["auxiliaries"])
_SUBJECTS = frozenset(LEXICON["words"]["subjects"])
_BASES = frozenset(past for gerund, past in _PAST.items() if gerund.startswith(past))
# Past tenses except adjectives, auxiliaries ("had") and those that equal the present ("put").
_ANY_PAST = "|".join((r"[a-z]+[^e]ed", *sorted(PAST_TENSES - STATIVE - _AUXILIARIES - _BASES)))

FAULTS = tuple(
    re.compile(
        pattern.replace("PAST", _ANY_PAST).replace(
            "DET", "|".join(LEXICON["words"]["determiners"])
        ),
        re.IGNORECASE | re.VERBOSE,
    )
    for pattern in LEXICON["faults"]["patterns"]
)
"""Patterns of ungrammatical English."""


def is_finite(words: Sequence[str]) -> bool:
    """Return whether a clause has a finite verb, according to the word lists."""
    return any(
        word in _AUXILIARIES
        or word in PAST_TENSES
        or word.endswith(("ed", "n't"))
        or (last in _SUBJECTS and word not in GLUE and len(words) > 2)
        for last, word in pairwise(words)
    )
