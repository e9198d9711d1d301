"""Measures of how close a rewritten line is to its original and its fix: words, order, figures."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, pairwise

from resume_gym.text.lines import LEXICON, Content, Number, stem
from resume_gym.text.style import core, fillers
from resume_gym.text.thresholds import HALF, WINDOW
from resume_gym.text.verbs import NOUNS, PLURAL_NOUNS

_NONE: frozenset[str] = frozenset()


def links(pairs: Iterable[tuple[Iterable[str], Iterable[str]]]) -> dict[str, frozenset[str]]:
    """Map the stem of each word in a pair's first group to the stems of all words in the second."""
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

    Content words that no statement contains are skipped. Moving whole phrases keeps the share high;
    shuffling words lowers it. If there are fewer than `WINDOW` pairs, the share is 1.
    """
    pairs = list(pairwise(key for key in new.telling if any(key in c.keys for c in statements)))
    near = {pair for content in statements for pair in pairwise(content.telling)}
    return sum(pair in near for pair in pairs) / len(pairs) if len(pairs) >= WINDOW else 1.0


def progress(old: Content, new: Content, fix: Content) -> float:
    """Return a line's progress from its original towards a fix, in [-1, 1].

    The progress is the larger of two values: the increase in F1 score (`_closeness`) with the fix,
    and min(made, dropped) - 0.5. Here, `made` is the share of the fix's core words that the line
    has, and `dropped` is the share of the words removed by the fix that the line lacks, too.
    """
    beside = core(old) - core(fix)
    dropped = sum(key not in new.keys for key in beside) / len(beside) if beside else 0.0
    share_made = min(1 - lost(fix, new), dropped) - HALF  # an addition alone does not count
    return max(_closeness(new, fix) - _closeness(old, fix), share_made)


def _closeness(content: Content, statement: Content) -> float:
    """Return the F1 score of two lines' content words, in [0, 1]."""
    keys, others = frozenset(content.telling), frozenset(statement.telling)
    return 2 * len(keys & others) / max(1, len(keys) + len(others))


def wordier(old: Content, new: Content) -> int:
    """Return the number of fillers in a line minus the number of fillers in its original."""
    return fillers(new.body) - fillers(old.body)
