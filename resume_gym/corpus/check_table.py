"""Format the report of `check`: for a terminal, and as text histograms for a dataset card."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from resume_gym.corpus.check import Report
from resume_gym.corpus.difficulty import Difficulty
from resume_gym.corpus.findings import Finding
from resume_gym.tasks import WEAKNESSES

BAR = 40
_BINS = 12
_STYLES = {"error": "bold red", "warning": "yellow"}


def print_report(console: Console, report: Report) -> None:
    """Print a report: counts, lengths, difficulty and findings."""
    show = partial(console.print, highlight=False, soft_wrap=True)
    if report.tasks:
        show(_counts(report))
        for title, rows in histograms(report):
            show("", title, *rows, sep="\n")
        if report.weak_share is not None:
            show(f"\nBullets that the fixes touch: {report.weak_share:.0%}")
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


def _counts(report: Report) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold cyan")
    grid.add_column("Tasks")
    for split in report.splits:
        grid.add_column(split, justify="right")
    for name in WEAKNESSES:
        grid.add_row(f"  {name}", *(str(counts[name]) for counts in report.splits.values()))
    grid.add_row("  all", *(str(sum(counts.values())) for counts in report.splits.values()))
    return grid


def histograms(report: Report) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and rows of each histogram: lengths, then each measure of difficulty."""
    yield (
        f"Lines of the resumes, wrapped; the page has {report.page_lines}",
        _bars(report.lines),
    )
    every, measured = report.tasks, report.difficulty
    sample = f" (of {len(measured)} of {every} tasks)" if len(measured) < every else ""
    titles = {
        "weak_bullets": "Bullets that a fix rewrites",
        "lines_over": "Lines over the page",
        "distractors": "Lines that the page can spare",
        "job_distance": "Share of the job's words that the resume lacks, weighted, in percent",
    }
    for name in Difficulty._fields:
        values = [getattr(measures, name) for measures in measured]
        if name == "job_distance":
            # percent in buckets of 5, where 100 belongs to the last one
            values = [min(99, int(100 * value)) // 5 * 5 for value in values]
        yield titles[name] + sample, _bars(Counter(values), 5 if name == "job_distance" else 1)


def _bars(counts: Mapping[int, int], step: int = 1) -> list[str]:
    """Return at most `_BINS` text bars; `step` is the distance between possible values."""
    if not counts:
        return []
    least, most = min(counts), max(counts) + step - 1
    # -(-a // b) is the ceiling of a / b.
    width = step * -(-(most - least + 1) // (step * _BINS))
    sums: Counter[int] = Counter()
    for value, count in counts.items():
        sums[(value - least) // width] += count
    tallest = max(sums.values())
    rows = []
    for place in range(max(sums) + 1):
        first, count = least + place * width, sums[place]
        label = str(first) if width == 1 else f"{first}-{first + width - 1}"
        bar = "█" * -(-count * BAR // tallest)
        rows.append(f"  {label:>7}  {bar:<{BAR}} {count:>5}".rstrip())
    return rows


def as_text(values: Sequence[str]) -> str:
    """Return rows as a Markdown code block, which preserves the alignment."""
    return "\n".join(["```text", *values, "```"])
