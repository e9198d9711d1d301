"""Choice of the changes to take: hunks of changed lines, and questions as in `git add -p`.

A hunk is a line with its new version, or a passage of adjacent lines without such. A line that
moved, reworded or not, is one hunk with the place that it left. A hunk that is not taken leaves
the lines of the original.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from resume_gym.apps.revise.diffs import changed_spans, has_versions, reworded
from resume_gym.apps.revise.revision import Revision
from resume_gym.apps.revise.summary import print_rows, reason_of
from resume_gym.render import visible

_HELP = """\
y  take this change
n  keep the lines of your original
a  take this change and all after it
q  keep your original here and after it
"""


class Span(NamedTuple):
    """Lines [start, stop) of the original and the lines that replace them; either may be empty."""

    start: int
    stop: int
    old: tuple[str, ...]
    new: tuple[str, ...]


Hunk = tuple[Span, ...]


def find_hunks(original: str, revised: str) -> list[Hunk]:
    """Return the hunks between two texts, in the order of their first lines."""
    old, new = original.split("\n"), revised.split("\n")
    hunks: list[Hunk] = []
    for i, stop, j, end in changed_spans(old, new):
        span = Span(i, stop, tuple(old[i:stop]), tuple(new[j:end]))
        moved = [hunk for hunk in hunks if _linked(hunk, span)]
        hunks = [hunk for hunk in hunks if hunk not in moved]
        hunks.append((*(one for hunk in moved for one in hunk), span))
    return sorted(hunks)


def _linked(hunk: Hunk, span: Span) -> bool:
    """Return whether a line that one place lost is added at the other, perhaps reworded."""
    for one in hunk:
        if any(line.strip() for line in {*one.old} & {*span.new} | {*one.new} & {*span.old}):
            return True
        paired = has_versions(one.old, one.new) or has_versions(span.old, span.new)
        if not paired and (reworded(one.old, span.new) or reworded(span.old, one.new)):
            return True
    return False


def apply_hunks(original: str, hunks: Sequence[Hunk]) -> str:
    """Return the original with these hunks of it applied."""
    lines = original.split("\n")
    for span in sorted((span for hunk in hunks for span in hunk), reverse=True):
        lines[span.start : span.stop] = span.new
    return "\n".join(lines)


def select(
    revision: Revision, hunks: Sequence[Hunk], console: Console, read: Callable[[], str]
) -> list[Hunk]:
    """Ask about each hunk of a revision; return those to take.

    Args:
        revision: revision whose claims and reasons are shown with the hunks.
        hunks: its hunks, see `find_hunks`.
        console: where hunks and questions are printed.
        read: returns the next answer with its line end; "" at the end of the input, which means q.
    """
    taken: list[Hunk] = []
    for number, hunk in enumerate(hunks, start=1):
        console.print(Text(f"\nchange {number} of {len(hunks)}", "bold"))
        _print_hunk(console, revision, hunk)
        answer = _ask(console, read)
        if answer == "a":
            return [*taken, *hunks[number - 1 :]]
        if answer == "q":
            break
        taken += [hunk] * (answer == "y")
    return taken


def _ask(console: Console, read: Callable[[], str]) -> str:
    while True:
        console.print(Text("take this change [y,n,a,q,?]? ", "bold blue"), end="")
        line = read()
        answer = line.strip().lower()[:1] if line else "q"
        if answer and answer in "ynaq":
            return answer
        console.print(Text(_HELP, "dim"), end="")


def _print_hunk(console: Console, revision: Revision, hunk: Hunk) -> None:
    rows = [row for span in hunk for row in _rows(span)]
    print_rows(console, rows)
    for change in revision.changes:
        if not {*filter(_told, rows)}.isdisjoint(change.rows):
            console.print(Text(f"why, edit {change.number}: {reason_of(change)}", "italic"))
    for line, claims in revision.flagged.items():
        if any(row[0] == "+" and line in row for row in rows):
            for claim in claims:
                console.print(Text(f"without support: {visible(claim.reason)}", "red"))


def _rows(span: Span) -> list[str]:
    return [*(f"-{line}" for line in span.old), *(f"+{line}" for line in span.new)]


def _told(row: str) -> bool:
    return bool(row[1:].strip())
