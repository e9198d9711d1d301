"""Terminal output of a revision."""

from collections.abc import Iterable, Sequence
from textwrap import fill

from rich.text import Text

from resume_gym.apps.revise.edits import AppliedEdit
from resume_gym.apps.revise.report import by_rule, outcome
from resume_gym.apps.revise.revision import Revision
from resume_gym.support.printing import visible
from resume_gym.support.terminal import Terminal
from resume_gym.support.user_errors import number_of

_MAX_LINES = 4
_MAX_REASON = 300  # maximum number of characters of a printed reason
_COLOURS = {"-": "red", "+": "green", "m": "cyan"}  # "m" marks moved lines


def print_summary(revision: Revision, notes: Sequence[str], files: Iterable[str]) -> None:
    """Print the edits of a revision, its results, and the paths of the written files.

    Args:
        revision: revision to describe.
        notes: notes on the input files.
        files: paths of the written files.
    """
    console = Terminal(highlight=False)
    for change in revision.changes:
        console.print(Text(f"edit {change.number}", "bold"))
        _print_rows(console, change.rows)
        if reason := _reason(change):
            console.print(Text(f"why: {reason}", "italic"))
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


def _print_rows(console: Terminal, rows: Sequence[str]) -> None:
    """Print the removed, the added and the moved lines of a diff; at most `_MAX_LINES` of each."""
    for sign, colour in _COLOURS.items():
        lines = [row for row in rows if row[0] == sign]
        for row in lines[:_MAX_LINES]:
            console.print(Text(visible(row), colour))
        if len(lines) > _MAX_LINES:
            more = number_of(len(lines) - _MAX_LINES, "more line")
            console.print(Text(f"{sign} and {more}", colour))


def _reason(change: AppliedEdit) -> str:
    """Return the agent's reason for an edit on one line; empty if it gave none."""
    reason = " ".join((change.said or change.thought).split())
    if len(reason) > _MAX_REASON:
        reason = f"{reason[:_MAX_REASON]}..."
    return visible(reason)
