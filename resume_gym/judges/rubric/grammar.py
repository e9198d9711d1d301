"""Detect grammatical errors and truncated words that a rewritten line has but its original lacks.

The checks use lists of verbs and their prepositions (`text.verbs`) instead of a part-of-speech
tagger, whose models are separate downloads.
"""

import re
from itertools import pairwise

from resume_gym.text.lines import GLUE, LEXICON, Content, stem
from resume_gym.text.style import head, is_weak
from resume_gym.text.thresholds import FEW
from resume_gym.text.verbs import (
    FAULTS,
    FRAMES,
    PAST_TENSES,
    STATIVE,
    VERB_STEMS,
    VERBS,
    is_base,
    is_finite,
    past_of_base,
)

_WORDS = {name: frozenset(words) for name, words in LEXICON["words"].items()}
_UNITS = frozenset(way for ways in LEXICON["units"].values() for way in ways)
# matches a subordinate clause, which needs a verb, up to the start of the next clause
_CLAUSE = re.compile(
    r"((?:\b(?:in|on|at|by|for|from|with|of|to|into|so) )?)"
    r"\b(which|who|that|until|because|where|once|when|what)\b([^,;:.]*)"
)


def broken(old: Content, new: Content) -> bool:
    """Return whether a line has a grammatical error or truncated word that its original lacks."""
    return bool(
        _left_behind(old, new)
        or _truncated(old, new)
        or _verbless(old, new)
        or _without_object(old, new)
        or _without_verb(old, new)
        or any(len(fault.findall(new.body)) > len(fault.findall(old.body)) for fault in FAULTS)
        or _doubled(new) - _doubled(old)
        or (
            new.tokens[-2:] != old.tokens[-2:]
            and not _WORDS["dangling"].isdisjoint(new.tokens[-1:])
        )
        or (new.tokens[:1] != old.tokens[:1] and not _WORDS["fragments"].isdisjoint(new.tokens[:1]))
    )


def _left_behind(old: Content, new: Content) -> bool:
    """Return whether part of the old opening follows the new verb, as in "Priced duties of"."""
    first = int(new.tokens[:1] == ("i",))
    if len(new.tokens) < 3 or old.tokens[first : first + 1] == new.tokens[first : first + 1]:
        return False
    at, was = min(head(new).at, len(new.tokens) - 3), head(old).at
    verb, second, third = new.tokens[at : at + 3]
    opening = old.tokens[: was + 2 * (not is_weak(old))]
    # "Wrote for the brief" wrongly keeps the "for" of "responsible for writing the brief"
    charge = head(old).charge and second in FRAMES
    object_at = was if charge else was + 1
    around = (second, third) == (*opening[-1:], *old.tokens[object_at : object_at + 1])
    if (
        is_weak(old)
        and not is_weak(new)
        and (around or not _WORDS["duties"].isdisjoint({second, third} & {*opening}))
    ):
        return True
    takes = FRAMES.get(second, (verb,))
    if is_weak(new) or verb not in VERBS or verb in STATIVE:
        return False
    if verb in takes or (is_base(verb) and past_of_base(verb) in takes):
        return False
    pairs = enumerate(pairwise(old.tokens))
    before = [old.keys[n - 1] for n, pair in pairs if n and pair == (second, third)]
    new_pair = (verb, second) not in pairwise(old.tokens)
    return (new_pair and (second == "of" or second in opening)) or (
        bool(before) and new.keys[at] not in before
    )


def _truncated(old: Content, new: Content) -> bool:
    """Return whether a word is cut off, as in "ema" for "email"."""
    places = [*zip(("", *old.words), old.words, (*old.words[1:], ""), strict=False)]
    beside = {*pairwise(new.words)}
    # a word counts as cut off if the word beside it stayed: "reminder email" -> "reminder ema"
    return any(
        lost.startswith(word)
        and ((before, word) in beside or ((word, after) in beside and after not in FRAMES))
        for word in set(new.words).difference(old.words, VERBS, GLUE, _UNITS)
        if word.isalpha() and stem(word) not in old.keys
        for before, lost, after in places
    )


def _without_object(old: Content, new: Content) -> bool:
    """Return whether a verb lost its object: "Shortened builds with" becomes "Shortened with"."""
    at = head(new).at
    verb, after = (*new.tokens[at : at + 2], "", "")[:2]
    opening = old.tokens[: head(old).at + 2]
    taken = {word for word in FRAMES if verb in FRAMES[word]}.difference(opening)
    if verb not in VERBS - STATIVE or after not in FRAMES or after in taken:
        return False
    was = {two for one, two in zip(old.keys, old.tokens[1:], strict=False) if one == new.keys[at]}
    was = {word for word in was if word != "it" and not word.endswith("ly")}
    return bool(was) and was.isdisjoint(FRAMES)


def _without_verb(old: Content, new: Content) -> bool:
    """Return whether a verb between two words was lost: "to read a note" becomes "to a note"."""
    pairs = set(pairwise(new.tokens)).difference(pairwise(old.tokens))
    return any(
        (first, last) in pairs
        and (
            (first in _WORDS["before_verbs"] and stem(verb) in VERB_STEMS)
            or (last in _WORDS["determiners"] and (verb in PAST_TENSES or verb.endswith("ed")))
        )
        for first, verb, last in zip(old.tokens, old.tokens[1:], old.tokens[2:], strict=False)
    )


def _doubled(content: Content) -> set[str]:
    """Return the stems that two adjacent words share, as in "cleaned cleaning"."""
    return {one for one, other in pairwise(content.keys) if one == other and one not in GLUE}


def _verbless(old: Content, new: Content) -> bool:
    """Return whether a clause, or any sentence after the first, lost its verb.

    "Which were then replaced" becomes "which then". A sentence counts only if it lost fewer than
    `FEW` words.
    """
    later = [
        [re.findall(r"[a-z']+", one) for one in re.split(r"[.;]\s", content.body.lower())[1:]]
        for content in (new, old)
    ]
    clauses = [
        # The conjunction may be the subject ("which fell"), but not after a preposition ("in
        # which").
        [
            ["" if before else conjunction, *re.findall(r"[a-z']+", clause)]
            for before, conjunction, clause in _CLAUSE.findall(content.body.lower())
        ]
        for content in (new, old)
    ]
    return any(
        {*words} < {*known} and is_finite(known) and not is_finite(words)
        for words in clauses[0]
        for known in clauses[1]
    ) or any(
        {*words} < {*known} and len(known) - len(words) < FEW and not is_finite(words)
        for words in later[0]
        for known in filter(is_finite, later[1])
    )
