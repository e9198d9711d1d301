"""Faults of English that a rewritten line has and its original had not.

The checks know verbs and their prepositions (`text.verbs`), not grammar in general: a word that is
in no list is never accused.
"""

import re
from collections.abc import Set as AbstractSet
from itertools import pairwise

from resume_gym.text.lines import GLUE, LEXICON, Content, stem
from resume_gym.text.style import head
from resume_gym.text.thresholds import FEW
from resume_gym.text.verbs import FRAMES, PAST_TENSES, STATIVE

_DANGLING = frozenset(LEXICON["words"]["dangling"])
_FRAGMENTS = frozenset(LEXICON["words"]["fragments"])
_AUXILIARIES = frozenset(LEXICON["words"]["auxiliaries"])
_VERBS = frozenset(
    word
    for group in (*LEXICON["rings"]["verbs"], LEXICON["verbs"]["strong"], LEXICON["verbs"]["known"])
    for word in group
) | frozenset().union(*FRAMES.values())
_STEMS = frozenset(map(stem, _VERBS | PAST_TENSES))
# a clause that needs a verb, up to the next clause
_CLAUSE = re.compile(r"\b(?:which|who|that|until|because|so that|where|once)\b([^,;:.]*)")
# neighbouring words that English does not allow: "a the", "of to", "the the"
_NO_ENGLISH = re.compile(
    r"\b(?:an?|the) (?=(?:an?|the|of|in|at|by|for|from|with|to|and|or|i|was|were)\b|$)"
    r"|\b(?:of|for|from|with|at|to) (?=(?:of|for|to|was|were)\b|$)"
    r"|\b(?:and|or) (?=(?:and|or|of)\b|$)"
    r"|\b(\w{2,}|i) (?=\1\b)",
    re.IGNORECASE,
)
_HANGING = re.compile(r"\b(?:a|an|the|of|with|against|into|and|or)[,;](?= )")
_FAULTS = (_NO_ENGLISH, _HANGING)


def broken(old: Content, new: Content) -> bool:
    """Return whether a line has a fault of English that its original has not."""
    return bool(
        _left_behind(old, new)
        or _joined_words(old, new)
        or _verbless(old, new)
        or any(len(fault.findall(new.body)) > len(fault.findall(old.body)) for fault in _FAULTS)
        or cut_off(old, new)
        or (new.tokens[:1] != old.tokens[:1] and not _FRAGMENTS.isdisjoint(new.tokens[:1]))
    )


def cut_off(old: Content, new: Content) -> bool:
    """Return whether a line ends in the middle of a phrase, unlike its original."""
    ends = new.tokens[-1:] != old.tokens[-1:] or new.tokens[-2:-1] != old.tokens[-2:-1]
    return ends and not _DANGLING.isdisjoint(new.tokens[-1:])


def _left_behind(old: Content, new: Content) -> bool:
    """Find an old verb's preposition after one that does not take it: "Prepared to the board"."""
    if len(new.tokens) < 3:
        return False
    at = min(head(new).at, len(new.tokens) - 3)
    verb, preposition, follows = new.tokens[at : at + 3]
    if verb not in _VERBS or verb in STATIVE or verb in FRAMES.get(preposition, (verb,)):
        return False
    before = [
        old.keys[n - 1] if n else ""
        for n, pair in enumerate(pairwise(old.tokens))
        if pair == (preposition, follows)
    ]
    return bool(before) and new.keys[at] not in before


def _joined_words(old: Content, new: Content) -> bool:
    """Find a word made of the start of one word and the end of the next: "untilbody"."""
    pairs = list(pairwise(old.words))
    return any(
        first.startswith(word[:cut]) and second.endswith(word[cut:])
        for word in set(new.words).difference(old.words)
        if word.isalpha() and stem(word) not in old.keys
        for cut in range(FEW, len(word) - FEW + 1)
        for first, second in pairs
    )


def _verbless(old: Content, new: Content) -> bool:
    """Find a clause that has lost its verb: "which were then replaced" becomes "which then"."""
    clauses = [
        [frozenset(re.findall(r"[a-z']+", clause)) for clause in _CLAUSE.findall(body.lower())]
        for body in (new.body, old.body)
    ]
    return any(
        words < known and not _has_verb(words) and _has_verb(known - words)
        for words in clauses[0]
        for known in clauses[1]
    )


def _has_verb(words: AbstractSet[str]) -> bool:
    return any(
        word in _AUXILIARIES
        or word in PAST_TENSES
        or (word not in GLUE and (word.endswith(("ed", "n't")) or stem(word) in _STEMS))
        for word in words
    )
