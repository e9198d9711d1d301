"""Line diffs between two versions of a resume."""

import difflib
from collections.abc import Sequence


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
