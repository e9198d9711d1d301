"""Line diffs between two versions of a resume, and hunks that a user can accept or reject."""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_ALIKE = 0.25  # minimum Jaccard similarity, by words, of a line and its new version
_REWORDED = 0.4  # minimum Jaccard similarity of the two versions of a line that was moved
_MOST = 250_000  # maximum number of line pairs compared in one changed passage


class Span(NamedTuple):
    """Lines [start, stop) of the original and the lines that replace them; either may be empty."""

    start: int
    stop: int
    old: tuple[str, ...]
    new: tuple[str, ...]


Hunk = tuple[Span, ...]


def unified(before: str, after: str, context: int) -> str:
    """Return a unified diff without file names; empty if the texts are equal."""
    old, new = (text.removesuffix("\n").split("\n") for text in (before, after))
    rows = difflib.unified_diff(old, new, n=context, lineterm="")
    return "\n".join(list(rows)[2:])  # without the two header rows with file names


def merge_moves(rows: Sequence[str]) -> list[str]:
    """Return the non-blank rows of a diff; a line both removed and added becomes a "moved" row."""
    bodies = {sign: {row[1:] for row in rows if row[0] == sign} for sign in "+-"}
    merged: list[str] = []
    for row in filter(lambda row: row[1:].strip(), rows):
        if row[1:] in bodies["+"] & bodies["-"]:
            bodies["+"].discard(row[1:])
            merged.append(f"moved {'up' if row[0] == '+' else 'down'}: {row[1:]}")
        elif f"moved up: {row[1:]}" not in merged and f"moved down: {row[1:]}" not in merged:
            merged.append(row)
    return merged


def find_hunks(original: str, revised: str) -> list[Hunk]:
    """Return the hunks between two texts, in the order of their first lines.

    A hunk is a line with its new version, or a passage of adjacent lines that have no counterpart
    in the other text. If a line was moved (and perhaps reworded), both its places form one hunk.
    """
    old, new = original.split("\n"), revised.split("\n")
    hunks: list[Hunk] = []
    for i, stop, j, end in changed_spans(old, new):
        span = Span(i, stop, tuple(old[i:stop]), tuple(new[j:end]))
        moved = [hunk for hunk in hunks if _linked(hunk, span)]
        hunks = [hunk for hunk in hunks if hunk not in moved]
        hunks.append((*(one for hunk in moved for one in hunk), span))
    return sorted(hunks)


def apply_hunks(original: str, hunks: Sequence[Hunk]) -> str:
    """Return the original with the given hunks applied."""
    lines = original.split("\n")
    for span in sorted((span for hunk in hunks for span in hunk), reverse=True):
        lines[span.start : span.stop] = span.new
    return "\n".join(lines)


def _linked(hunk: Hunk, span: Span) -> bool:
    """Return whether a line was moved, and perhaps reworded, between `hunk` and `span`."""
    for one in hunk:
        if any(line.strip() for line in {*one.old} & {*span.new} | {*one.new} & {*span.old}):
            return True
        paired = _versions(one.old, one.new) or _versions(span.old, span.new)
        if not paired and (_reworded(one.old, span.new) or _reworded(span.old, one.new)):
            return True
    return False


def changed_spans(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield (i, stop, j, end) per changed passage, in order: new[j:end] replaces old[i:stop].

    A reworded line and its new version form one passage. Adjacent changed lines that have no
    counterpart in the other text form one passage.
    """
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, i, stop, j, end in matcher.get_opcodes():
        if kind == "equal":
            continue
        first, second = i, j
        for a, b in _versions(old[i:stop], new[j:end]):
            if first < i + a or second < j + b:
                yield first, i + a, second, j + b
            first, second = i + a + 1, j + b + 1
            yield first - 1, first, second - 1, second
        if first < stop or second < end:
            yield first, stop, second, end


def _reworded(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether any of the new lines rewords any of the old lines."""
    if len(old) * len(new) > _MOST:
        return False
    left, right = ([{*re.findall(r"\w+", one.lower())} for one in lines] for lines in (old, new))
    return any(len(a & b) > _REWORDED * len(a | b) for a in left for b in right)


def _versions(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Align old and new lines for maximum total similarity; return pairs of their indices."""
    if len(old) * len(new) > _MOST:
        return []
    words = [[frozenset(line.lower().split()) for line in lines] for lines in (old, new)]
    # best[a][b]: similarity and index pairs of the best alignment of old[:a] with new[:b]
    best: list[list[tuple[float, tuple[tuple[int, int], ...]]]] = [[(0.0, ())] * (len(new) + 1)]
    for a, left in enumerate(words[0]):
        best.append([(0.0, ())])
        for b, right in enumerate(words[1]):
            alike = len(left & right) / max(1, len(left | right))
            score, pairs = best[a][b]
            options = [best[a][b + 1], best[a + 1][b]]
            if alike >= _ALIKE:
                options.append((score + alike, (*pairs, (a, b))))
            best[a + 1].append(max(options))
    return [*best[-1][-1][1]]
