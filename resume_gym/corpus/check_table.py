"""Format the report of `check`."""

from functools import partial

from rich.console import Console
from rich.table import Table

from resume_gym.corpus.check import CheckReport
from resume_gym.corpus.findings import Finding
from resume_gym.tasks import WEAKNESSES

_STYLES = {"error": "bold red", "warning": "yellow"}


def print_report(console: Console, report: CheckReport) -> None:
    """Print a report: counts and findings."""
    show = partial(console.print, highlight=False, soft_wrap=True)
    if report.tasks:
        show(_counts(report))
        show(f"Tasks with evidence: {report.with_evidence}\n")
    for finding in report.findings:
        show(f"{finding.severity:<7}", style=_STYLES[finding.severity], end="")
        show(f" {finding.text}: {finding.count}")
        for example in shown(finding):
            show(f"          {example}")
    if not report.findings:
        show("Nothing is wrong.")
    verdict, style = ("fit", "bold green") if report.fit else ("not fit", "bold red")
    show(verdict, style=style, end="")
    errors = sum(finding.severity == "error" for finding in report.findings)
    warnings = len(report.findings) - errors
    show(f" to train on; tasks: {report.tasks}, kinds of errors: {errors}, of warnings: {warnings}")


def shown(finding: Finding) -> list[str]:
    """Return the examples of a finding, followed by the number of those omitted."""
    more = finding.count - len(finding.examples)
    return [*finding.examples, *([f"and {more} more"] if more and finding.examples else [])]


def _counts(report: CheckReport) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold cyan")
    grid.add_column("Tasks")
    for split in report.splits:
        grid.add_column(split, justify="right")
    for name in WEAKNESSES:
        grid.add_row(f"  {name}", *(str(counts[name]) for counts in report.splits.values()))
    grid.add_row("  all", *(str(sum(counts.values())) for counts in report.splits.values()))
    return grid
