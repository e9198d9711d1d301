"""Faults of English that a rewritten line has and its original had not.

The checks know verbs and their prepositions (`text.verbs`), not grammar in general: a word that is
in no list is never accused.
"""

import re
from collections.abc import Sequence
from itertools import combinations, pairwise

from resume_gym.text.lines import GLUE, LEXICON, Content, stem
from resume_gym.text.style import head, is_weak
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
VERB_STEMS = frozenset(map(stem, _VERBS | PAST_TENSES))
"""Stems of the verbs that the lists know."""
# a clause that needs a verb, up to the next clause
_CLAUSE = re.compile(
    r"((?:\b(?:in|on|at|by|for|from|with|of|to|into|so) )?)"
    r"\b(which|who|that|until|because|where|once|when)\b([^,;:.]*)"
)
_FAULTS = (
    # neighbouring words that English does not allow: "a the", "of to", "the the", "can with"
    re.compile(
        r"\b(?:an?|the) (?=(?:an?|the|of|in|at|by|for|from|with|to|and|or|i|was|were)\b|$)"
        r"|\b(?:of|for|from|with|at|to) (?=(?:of|for|to|was|were)\b|$)"
        r"|\b(?:and|or) (?=(?:and|or|of)\b|$)|\b(\w{2,}|i) (?=\1\b)|\bit an?\b|\ban? \w+ an?\b"
        r"|\b(?:can|could|will|would|may|must|should) (?:with|of|for|to|at|from|by|and|the|an?)\b",
        re.IGNORECASE,
    ),
    # phrases that end too early: "with, ", "Kept, on", "and it"; "Debugged fixed the"
    re.compile(
        r"\b(?:an?|the|of|with|against|into|and|or|from|than|after|their|its|our)[,;](?= )"
        r"|^[A-Z][a-z]+, (?:on|in|at|of|which|with|for)\b|\band (?:it|them)$"
        r"|^[A-Z][a-z]+ed [a-z]+ed (?:an?|the)\b"
    ),
)
_DUTIES = frozenset(LEXICON["words"]["duties"])
_SUBJECTS = frozenset(LEXICON["words"]["subjects"])


def broken(old: Content, new: Content) -> bool:
    """Return whether a line has a fault of English that its original has not."""
    return bool(
        _left_behind(old, new)
        or _joined_words(old, new)
        or _verbless(old, new)
        or any(len(fault.findall(new.body)) > len(fault.findall(old.body)) for fault in _FAULTS)
        or _doubled(new) - _doubled(old)
        or (new.tokens[-2:] != old.tokens[-2:] and not _DANGLING.isdisjoint(new.tokens[-1:]))
        or (new.tokens[:1] != old.tokens[:1] and not _FRAGMENTS.isdisjoint(new.tokens[:1]))
    )


def _left_behind(old: Content, new: Content) -> bool:
    """Find what is left of an old opening: "Prepared to the board", "Priced duties of"."""
    if len(new.tokens) < 3 or old.tokens[:1] == new.tokens[:1]:
        return False
    at, was = min(head(new).at, len(new.tokens) - 3), head(old).at
    verb, second, third = new.tokens[at : at + 3]
    opening = old.tokens[: was + 2 * (not is_weak(old))]
    # "responsible for writing the brief" -> "Wrote for the brief"
    around = (second, third) == (*opening[-1:], *old.tokens[was + 1 : was + 2])
    if (
        is_weak(old)
        and not is_weak(new)
        and (around or not _DUTIES.isdisjoint({second, third} & {*opening}))
    ):
        return True
    if is_weak(new) or verb not in _VERBS or verb in STATIVE or verb in FRAMES.get(second, (verb,)):
        return False
    pairs = enumerate(pairwise(old.tokens))
    before = [old.keys[n - 1] for n, pair in pairs if n and pair == (second, third)]
    return second == "of" or second in opening or (bool(before) and new.keys[at] not in before)


def _joined_words(old: Content, new: Content) -> bool:
    """Find a word made of the start of one word and the end of a later one: "untilbody"."""
    gone = [word for word in old.words if word not in new.words]
    pairs = [*pairwise(old.words), *combinations(gone, 2)]
    return any(
        first.startswith(word[:cut]) and second.endswith(word[cut:])
        for word in set(new.words).difference(old.words, _VERBS)
        if word.isalpha() and stem(word) not in old.keys
        for cut in range(FEW + 1, len(word) - FEW + 1)
        for first, second in pairs
    )


def _doubled(content: Content) -> set[str]:
    """Return the words that follow another form of themselves: "cleaned cleaning"."""
    return {one for one, other in pairwise(content.keys) if one == other and one not in GLUE}


def _verbless(old: Content, new: Content) -> bool:
    """Find a clause that has lost its verb: "which were then replaced" becomes "which then"."""
    clauses = [
        # the conjunction counts only as a subject: "which fell", but "from which"
        [
            ["" if before else conjunction, *re.findall(r"[a-z']+", clause)]
            for before, conjunction, clause in _CLAUSE.findall(content.body.lower())
        ]
        for content in (new, old)
    ]
    return any(
        {*words} < {*known} and _finite(known) and not _finite(words)
        for words in clauses[0]
        for known in clauses[1]
    )


def _finite(words: Sequence[str]) -> bool:
    """Return whether a clause has a verb."""
    return any(
        word in _AUXILIARIES
        or word in PAST_TENSES
        or word.endswith(("ed", "n't"))
        or (last in _SUBJECTS and word not in GLUE and len(words) > 2)
        for last, word in pairwise(words)
    )
