"""Line diffs between two versions of a resume."""

import difflib
from collections.abc import Iterator, Sequence

_ALIKE = 0.25  # minimum Jaccard similarity, by words, of a line and its new version
_MOST = 250_000  # maximum number of line pairs compared in one changed passage


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
