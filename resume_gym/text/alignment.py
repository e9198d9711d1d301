"""Alignment of the lines of a revision with the lines of the original.

`align` maps each line to the original lines that it restates. `pair` does the same for rewards per
line, but one to one: it maps at most one line to each original line. `strays` finds bullets that
were moved to another job. In the code, `unit` always means the index of a line in the original,
counted without blank lines.
"""

from collections.abc import Sequence
from typing import Any

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from resume_gym.text.lines import Content, Line
from resume_gym.text.reference import PROSE, Reference, key
from resume_gym.text.thresholds import ALIKE, FEW, QUARTER, RIVAL


def align(lines: Sequence[Line], reference: Reference) -> tuple[tuple[int, ...], ...]:
    """Return, for each line of a text, the indices of the original lines that it restates.

    Equal lines are matched first, then similar lines; a line that merges several original lines is
    matched with up to three of them. Each remaining line is matched by its position: with the first
    unmatched original line between the matches of the lines before and after it, if both lines are
    of the same kind.
    """
    told: list[tuple[int, ...]] = [()] * len(lines)
    places: dict[str, list[int]] = {}
    # the indices of equal lines are in reverse order, so that `pop` takes the first of these lines
    for unit, known in reversed(list(enumerate(reference.lines))):
        places.setdefault(key(known), []).append(unit)
    for index, line in enumerate(lines):
        if units := places.get(key(line)):
            told[index] = (units.pop(),)
    free = {unit for units in places.values() for unit in units}
    changed = [index for index, units in enumerate(told) if not units]
    for index, near in _similar(lines, changed, free, reference).items():
        told[index] = near
        free.difference_update(near)
    _fill_gaps(lines, told, free, reference)
    return tuple(told)


def pair(lines: Sequence[Line], reference: Reference) -> tuple[tuple[int, ...], ...]:
    """Return, for each line of a text, the index of the original line that it restates, if any.

    Each original line is paired with at most one line, and the pairs of one line depend as little
    as possible on edits of other lines. Lines that equal an original line or its mended text are
    paired first: those in the order of the original, then moved ones. Further lines with the same
    text are copies and stay unpaired. Next, between two pairs that keep the order, similar lines
    are paired in order, such that the sum of their similarities is largest. Lines that were both
    moved and changed are paired last, if they keep most of their words.
    """
    names = [reference.names.get(key(line)) for line in lines]
    told, gaps = _equal(names, [key(line) for line in reference.lines])
    free = set(range(len(reference.lines))).difference(told.values())
    for near, units in gaps:
        changed = [index for index in near if names[index] is None]
        found = _in_order(lines, changed, [unit for unit in units if unit in free], reference)
        told.update(found)
        free.difference_update(found.values())
    changed = [index for index, name in enumerate(names) if name is None and index not in told]
    moved = [(_near(lines[n], unit, reference), n, unit) for n in changed for unit in free]
    for score, index, unit in sorted(moved, reverse=True):
        # a new line that shares two rare words with a deleted one is less similar
        if score >= 1 - QUARTER and index not in told and unit in free:
            told[index] = unit
            free.discard(unit)
    return tuple((told[index],) if index in told else () for index in range(len(lines)))


def _equal(
    names: Sequence[str | None], known: Sequence[str]
) -> tuple[dict[int, int], list[tuple[range, range]]]:
    """Pair lines with equal original lines.

    Args:
        names: for each line, the key of the original line that it equals, if any.
        known: key of each original line.

    Returns:
        A map from the index of each paired line to the index of its original line; and a list of
        (range of lines, range of original lines), one for each gap between pairs that are in the
        order of the original.
    """
    told: dict[int, int] = {}
    gaps = []
    end = last = 0
    # 0 stands for a line that equals no original line, since no key is 0
    for code in LCSseq.opcodes(known, [name or 0 for name in names]):
        for place, unit in enumerate(range(code.src_start, code.src_end), start=code.dest_start):
            if code.tag != "equal":
                break
            # of several equal lines, the first one counts
            index = names.index(known[unit], end, place + 1)
            gaps.append((range(end, index), range(last, unit)))
            told[index] = unit
            end, last = index + 1, unit + 1
    gaps.append((range(end, len(names)), range(last, len(known))))
    kept = set(told.values())
    places: dict[str | None, list[int]] = {}
    for unit in reversed(range(len(known))):
        if unit not in kept:
            places.setdefault(known[unit], []).append(unit)
    for index, name in enumerate(names):
        if index not in told and places.get(name):
            told[index] = places[name].pop()  # the line was moved
    return told, gaps


def _in_order(
    lines: Sequence[Line], changed: Sequence[int], units: Sequence[int], reference: Reference
) -> dict[int, int]:
    """Pair lines with original lines in order, such that the sum of similarities is largest.

    Returns:
        A map from the index of each paired line to the index of its original line.
    """
    # best[n]: the largest sum with the first n original lines, and its pairs as a linked list
    best: list[tuple[float, Any]] = [(0.0, None)] * (len(units) + 1)
    for index in changed:
        row = [best[0]]
        for place, unit in enumerate(units):
            score = _near(lines[index], unit, reference)
            total, pairs = best[place]
            paired = [(total + score, (index, unit, pairs))] if score >= QUARTER else []
            row.append(max(best[place + 1], row[-1], *paired, key=lambda one: one[0]))
        best = row
    found, pairs = {}, best[-1][1]
    while pairs:
        index, unit, pairs = pairs
        found[index] = unit
    return found


def _near(line: Line, unit: int, reference: Reference) -> float:
    """Return the highest similarity of a line to an original line, its fixes or their facts.

    For two headings, or two paragraphs, return at least `QUARTER`; for a heading and another kind
    of line, return 0.
    """
    original = reference.lines[unit]
    if _is_marked(original) != _is_marked(line):
        return 0.0
    least = QUARTER * (original.kind == line.kind and line.kind in ("heading", "text"))
    facts = (reference.similarity(line.content, fact) for fact in reference.facts.get(unit, ()))
    return max(least, _alike(line.content, unit, reference)[0], *facts)


def _is_marked(line: Line) -> bool:
    """Return whether a line is written as a heading."""
    return line.kind == "heading" or line.style[:1] == "#"


def _similar(
    lines: Sequence[Line], changed: Sequence[int], free: set[int], reference: Reference
) -> dict[int, tuple[int, ...]]:
    """Match changed lines with similar original lines, each of which is matched at most once.

    The result maps the index of each matched line to the indices of the original lines that it
    restates (more than one if it merges lines). `free` has the indices of the original lines that
    are not matched yet.
    """
    pairs = [
        (_alike(lines[index].content, unit, reference), index, unit)
        for index in changed
        for unit in free
        if (reference.lines[unit].kind in PROSE) == (lines[index].kind in PROSE)
    ]
    told: dict[int, list[int]] = {}
    taken: set[int] = set()
    pairs.sort()
    # by index of an original line: (similarity, line), most similar last
    rivals: dict[int, list[tuple[float, int]]] = {}
    for (score, _), index, unit in pairs:
        rivals.setdefault(unit, []).append((score, index))
    pairs.reverse()
    # In the first pass, a line that is already matched gets no further original line if an
    # unmatched line is nearly as similar to it. In the second pass, it does.
    for merging in (False, True):
        for (score, _), index, unit in pairs:
            enough = ALIKE if index in told else QUARTER
            if score < enough or unit in taken or len(told.get(index, ())) == FEW:
                continue
            if index in told and not merging:
                others = rivals[unit]
                while others and others[-1][1] in told:
                    others.pop()  # a matched line stays matched, so it is no rival later either
                if others and others[-1][0] >= RIVAL * score:
                    continue
            told.setdefault(index, []).append(unit)
            taken.add(unit)
    return {index: tuple(sorted(units)) for index, units in told.items()}


def _alike(content: Content, unit: int, reference: Reference) -> tuple[float, float]:
    """Return a line's similarity to an original line, in [0, 1], and a text ratio to break ties.

    The similarity is the highest of three kinds of values: `Reference.similarity` to the original
    line, the same to each of its fixes, and a scaled text ratio.
    """
    original = reference.lines[unit].content
    statements = (original, *reference.fixed.get(unit, ()))
    told = max(reference.similarity(content, statement) for statement in statements)
    ratio = fuzz.ratio(content.body, original.body)
    # a ratio of up to 40 percent counts as 0, since even unrelated lines share letters
    return max(told, (ratio - 40) / 60), ratio


def _fill_gaps(
    lines: Sequence[Line], told: list[tuple[int, ...]], free: set[int], reference: Reference
) -> None:
    last = -1
    for index, line in enumerate(lines):
        if not told[index] and line.kind in (*PROSE, "heading"):
            ahead = (min(units) for units in told[index + 1 :] if units)
            before = next(ahead, len(reference.lines))
            gap = [unit for unit in range(last + 1, before) if unit in free]
            if gap and reference.lines[gap[0]].kind == line.kind:
                told[index] = (gap[0],)
                free.discard(gap[0])
        if told[index]:
            last = max(told[index])


def strays(
    lines: Sequence[Line], told: Sequence[tuple[int, ...]], reference: Reference
) -> set[int]:
    """Return the indices of bullets that were moved to another job.

    Bullets below a heading that the original lacks, such as "Key achievements", are not returned.
    """
    heads, bullets = reference.runs
    jobs = set(bullets.values()) - {-1}
    found: set[int] = set()
    here: int | None = -1
    for index, line in enumerate(lines):
        runs = [heads[unit] for unit in told[index] if unit in heads]
        if runs:
            here = max(runs)
        elif line.kind in ("entry", "heading"):
            here = None
        elif here is not None:
            homes = {bullets[unit] for unit in told[index] if unit in bullets}
            if homes and here in jobs - homes:
                found.add(index)
    return found
