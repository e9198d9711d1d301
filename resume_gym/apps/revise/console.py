"""Terminal output of a revision: a summary, and a prompt per change as in `git add -p`."""

from collections.abc import Callable, Iterable, Sequence
from textwrap import fill

from rich.console import Console
from rich.text import Text

from resume_gym.apps.revise.diffs import Hunk, merge_moves
from resume_gym.apps.revise.report import by_rule, outcome
from resume_gym.apps.revise.revision import AppliedEdit, Revision
from resume_gym.support.printing import visible
from resume_gym.support.terminal import Terminal
from resume_gym.support.user_errors import number_of

_MAX_LINES = 4
_MAX_REASON = 300  # maximum number of characters of a printed reason
_COLOURS = {"-": "red", "+": "green", "m": "cyan"}  # "m" marks moved lines
_HELP = """\
y  take this change
n  keep the lines of your original
a  take this change and all after it
q  take neither this change nor any after it
"""


def print_summary(
    revision: Revision, notes: Sequence[str], files: Iterable[str], *, edits: bool
) -> None:
    """Print the summary of a revision.

    Args:
        revision: revision to describe.
        notes: notes on the input files.
        files: paths of the written files.
        edits: whether to print the edits; False if the user has seen them in `select`.
    """
    console = Terminal(highlight=False)
    for change in revision.changes if edits else ():
        console.print(Text(f"edit {change.number}", "bold"))
        _print_rows(console, change.rows)
        console.print(Text(f"why: {_reason(change)}", "italic"))
        console.print(Text(f"by rule: {visible(by_rule(change))}\n", "dim"))
    for name, value in outcome(revision).items():
        console.print(Text.assemble((f"{name}: ", "dim"), visible(value)))
    for note in notes:
        console.print(Text(f"note: {visible(note)}", "yellow"))
    for line, claims in revision.flagged.items():
        console.print(Text(f"without support: {visible(line)}", "red"))
        for claim in claims:
            text = visible(f"  edit {claim.edit}: {claim.short}")
            console.print(Text(fill(text, console.width, subsequent_indent="  ")))
    for warning in revision.warnings:
        console.print(Text(f"WARNING: {visible(warning)}", "bold red"))
    for file in files:
        console.print(Text(visible(file)), soft_wrap=True)


def select(
    revision: Revision, hunks: Sequence[Hunk], console: Console, read: Callable[[], str]
) -> list[Hunk]:
    """Ask the user about each hunk of a revision; return the hunks that the user takes.

    Args:
        revision: revision whose claims and reasons are shown with the hunks.
        hunks: hunks of the revision, see `find_hunks`.
        console: where hunks and questions are printed.
        read: function that returns the next line of input; "" (end of input) counts as "q".
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
    rows = [
        row for span in hunk for row in (*(f"-{x}" for x in span.old), *(f"+{x}" for x in span.new))
    ]
    _print_rows(console, rows)
    told = {row for row in rows if row[1:].strip()}
    for change in revision.changes:
        if not told.isdisjoint(change.rows):
            console.print(Text(f"why, edit {change.number}: {_reason(change)}", "italic"))
    for line, claims in revision.flagged.items():
        if any(row[0] == "+" and line in row for row in rows):
            for claim in claims:
                console.print(Text(f"without support: {visible(claim.short)}", "red"))


def _print_rows(console: Console, rows: Sequence[str]) -> None:
    """Print the removed, the added and the moved lines of a diff; at most `_MAX_LINES` of each."""
    merged = merge_moves(rows)
    for sign, colour in _COLOURS.items():
        lines = [row for row in merged if row[0] == sign]
        for row in lines[:_MAX_LINES]:
            console.print(Text(visible(row), colour))
        if len(lines) > _MAX_LINES:
            more = number_of(len(lines) - _MAX_LINES, "more line")
            console.print(Text(f"{sign} and {more}", colour))


def _reason(change: AppliedEdit) -> str:
    """Return the agent's reason for an edit on one line."""
    reason = " ".join((change.said or change.thought).split())
    if len(reason) > _MAX_REASON:
        reason = f"{reason[:_MAX_REASON]}..."
    return visible(reason) or "the agent gave no reason"
