"""Terminal summary of a revision: edits, results, warnings and output files."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from resume_gym.apps.revise.diffs import merge_moves
from resume_gym.apps.revise.report import by_rule, outcome
from resume_gym.apps.revise.revision import AppliedEdit, Revision
from resume_gym.render import visible
from resume_gym.terminal import Terminal

_MAX_LINES = 4
_MAX_REASON = 300  # characters
_COLOURS = {"-": "red", "+": "green", "m": "cyan"}  # m: moved lines


def print_summary(
    revision: Revision, notes: Sequence[str], files: Iterable[str], *, edits: bool
) -> None:
    """Print the summary.

    Args:
        revision: revision to describe.
        notes: notes on the input files.
        files: paths of the written files.
        edits: whether to print the edits, unless the user has just seen them.
    """
    console = Terminal(highlight=False)
    for change in revision.changes if edits else ():
        _print_change(console, change)
    for name, value in outcome(revision).items():
        console.print(Text.assemble((f"{name}: ", "dim"), visible(value)))
    for note in notes:
        console.print(Text(f"note: {visible(note)}", "yellow"))
    for line, claims in revision.flagged.items():
        console.print(Text(f"without support: {visible(line)}", "red"))
        for claim in claims:
            text = Text(visible(f"edit {claim.edit}: {claim.reason}"))
            console.print(Padding(text, (0, 0, 0, 2), expand=False))
    for warning in revision.warnings:
        console.print(Text(f"WARNING: {visible(warning)}", "bold red"))
    for file in files:
        console.print(Text(visible(file)), soft_wrap=True)


def print_rows(console: Console, rows: Sequence[str]) -> None:
    """Print the changed rows of a diff, the first few of each kind."""
    merged = merge_moves(rows)
    for sign, colour in _COLOURS.items():
        lines = [row for row in merged if row[0] == sign]
        for row in lines[:_MAX_LINES]:
            console.print(Text(visible(row), colour))
        if len(lines) > _MAX_LINES:
            console.print(Text(f"{sign} and {len(lines) - _MAX_LINES} lines more", colour))


def reason_of(change: AppliedEdit) -> str:
    """Return the agent's reason for an edit, as one line."""
    reason = " ".join((change.said or change.thought).split())
    if len(reason) > _MAX_REASON:
        reason = f"{reason[:_MAX_REASON]}..."
    return visible(reason) or "the agent gave no reason"


def _print_change(console: Console, change: AppliedEdit) -> None:
    console.print(Text(f"edit {change.number}", "bold"))
    print_rows(console, change.rows)
    console.print(Text(f"why: {reason_of(change)}", "italic"))
    console.print(Text(f"by rule: {visible(by_rule(change))}", "dim"))
    console.print()
