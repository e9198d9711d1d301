"""Measures of how close a rewritten line is to its original and to the task's own fix of it."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, pairwise

from resume_gym.text.lines import LEXICON, Content, Number, stem
from resume_gym.text.style import core, fillers
from resume_gym.text.thresholds import HALF, WINDOW
from resume_gym.text.verbs import NOUNS, PLURAL_NOUNS

_NONE: frozenset[str] = frozenset()


def links(pairs: Iterable[tuple[Iterable[str], Iterable[str]]]) -> dict[str, frozenset[str]]:
    """Return a table that maps each word of a pair's first group to the words of its second group.

    Keys and values of the table are word stems. If a word occurs in several pairs, its entry has
    the words of all these pairs.
    """
    table: dict[str, frozenset[str]] = {}
    for left, right in pairs:
        others = frozenset(map(stem, right))
        table |= {word: table.get(word, _NONE) | others for word in map(stem, left)}
    return table


def _rings() -> Iterable[Sequence[str]]:
    """Yield groups of words that may replace each other."""
    for rings in LEXICON["rings"].values():
        yield from rings
    for noun, verb in {**NOUNS, **PLURAL_NOUNS}.items():
        yield noun, verb.split()[0]
    for verb in {*LEXICON["verbs"]["known"], *NOUNS.values(), *chain(*LEXICON["rings"]["verbs"])}:
        yield verb, verb.replace("yzed", "ysed").replace("ized", "ised")  # British spelling


_RINGS = links((ring, ring) for ring in _rings())


def stands(key: str, keys: AbstractSet[str]) -> bool:
    """Return whether a set of `Content.keys` contains a key or one of its synonyms."""
    return key in keys or not _RINGS.get(key, _NONE).isdisjoint(keys)


def missing(content: Content, other: Content) -> list[Number]:
    """Return the figures of `content` that `other` lacks."""
    return [
        figure
        for figure in content.figures
        if figure.value not in other.values and not any(n.backs(figure) for n in other.numbers)
    ]


def lost(statement: Content, new: Content) -> float:
    """Return the share of a statement's core words that a line lacks; synonyms count as present."""
    core_keys, keys = core(statement), frozenset(new.keys)
    return sum(not stands(key, keys) for key in core_keys) / max(1, len(core_keys))


def order_kept(statements: Sequence[Content], new: Content) -> float:
    """Return the share of a line's pairs of adjacent content words that a statement contains.

    Content words that no statement contains are skipped. The share stays high if whole phrases are
    moved, and falls if single words are shuffled. If there are fewer than `WINDOW` pairs, the share
    is 1.
    """
    pairs = list(pairwise(key for key in new.telling if any(key in c.keys for c in statements)))
    near = {pair for content in statements for pair in pairwise(content.telling)}
    return sum(pair in near for pair in pairs) / len(pairs) if len(pairs) >= WINDOW else 1.0


def progress(old: Content, new: Content, fix: Content) -> float:
    """Return a line's progress from its original towards a fix, in [-1, 1].

    The progress is the larger of two values. The first is the F1 score (`_closeness`) of the line
    and the fix minus that of the original and the fix. The second is min(made, dropped) - 0.5,
    where `made` is the share of the fix's core words that the line has, and `dropped` is the share
    of the core words removed by the fix that the line has removed, too.
    """
    beside = core(old) - core(fix)
    dropped = sum(key not in new.keys for key in beside) / len(beside) if beside else 0.0
    # the share is negative for a line that only adds words
    share_made = min(1 - lost(fix, new), dropped) - HALF
    return max(_closeness(new, fix) - _closeness(old, fix), share_made)


def _closeness(content: Content, statement: Content) -> float:
    """Return the F1 score of two lines' content words, in [0, 1]."""
    keys, others = frozenset(content.telling), frozenset(statement.telling)
    return 2 * len(keys & others) / max(1, len(keys) + len(others))


def wordier(old: Content, new: Content) -> int:
    """Return the number of fillers in a line minus the number in its original."""
    return fillers(new.body) - fillers(old.body)
