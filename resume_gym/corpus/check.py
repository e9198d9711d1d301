"""Check whether tasks are fit for training; the core of `resume-gym data check FILE`.

`check` runs the problem detectors of the module `findings`. Tasks of a split may share bullets.
Bullets that occur in both splits are reported, since they would inflate evaluation scores.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

from resume_gym.corpus.findings import (
    Finding,
    blank_texts,
    broken_fixes,
    idle_repairs,
    named_weaknesses,
    page_fit,
    shared_bullets,
    similar_texts,
    unfit_pages,
    ungrounded_figures,
)
from resume_gym.episode.editing import Rules
from resume_gym.episode.tasks import SPLITS, WEAKNESSES, Task
from resume_gym.judges.rubric import RubricJudge

THRESHOLD = 0.8
PAGE_LINES = Rules().page_lines
JUDGED = 100
"""Maximum number of randomly drawn tasks whose fixes are judged; each task takes tens of ms."""
_STYLES = {"error": "bold red", "warning": "yellow"}


@dataclass(frozen=True)
class CheckReport:
    """Statistics of a set of tasks, and the problems found in it.

    Attributes:
        tasks: number of valid tasks; all other statistics cover valid tasks only.
        splits: number of tasks by split and weakness.
        page_lines: lines per page.
        threshold: minimum similarity of near-duplicates, in (0, 1].
        with_evidence: number of tasks with documents about the candidate.
        findings: problems of the tasks, and invalid rows; errors come before warnings.
    """

    tasks: int
    splits: Mapping[str, Mapping[str, int]]
    page_lines: int
    threshold: float
    with_evidence: int
    findings: tuple[Finding, ...]

    @property
    def fit(self) -> bool:
        """Whether the tasks are fit for training: at least one task and no errors."""
        return self.tasks > 0 and not any(finding.severity == "error" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {"fit": self.fit, **asdict(self)}


def check(
    tasks: Sequence[Task],
    bad: Sequence[Finding] = (),
    threshold: float = THRESHOLD,
    page_lines: int = PAGE_LINES,
) -> CheckReport:
    """Run all detectors on tasks and return the statistics and findings.

    Args:
        tasks: valid tasks with distinct IDs.
        bad: findings about invalid rows, from `read_rows`.
        threshold: minimum similarity of near-duplicates, in (0, 1].
        page_lines: lines per page; 55 for full-size tasks, 20 for generated "mini" tasks.
    """
    # Sample at random: weaknesses recur in a cycle, so taking every n-th task could miss some.
    judged = Random(0).sample(tasks, JUDGED) if len(tasks) > JUDGED else tasks
    findings = [
        *bad,
        *blank_texts(tasks),
        *unfit_pages(tasks),
        *named_weaknesses(tasks),
        *similar_texts(tasks, threshold),
        *shared_bullets(tasks),
        *page_fit(tasks, page_lines),
        *broken_fixes(tasks, page_lines),
        *idle_repairs(judged, RubricJudge()),
        *ungrounded_figures(tasks),
    ]
    counts = Counter((task.split, task.weakness) for task in tasks)
    return CheckReport(
        tasks=len(tasks),
        splits={split: {name: counts[split, name] for name in WEAKNESSES} for split in SPLITS},
        page_lines=page_lines,
        threshold=threshold,
        with_evidence=sum(bool(task.evidence) for task in tasks),
        findings=tuple(sorted(findings, key=lambda finding: finding.severity != "error")),
    )


def read_rows(files: Sequence[Path]) -> tuple[list[Task], list[Finding]]:
    """Read JSONL files; return the valid tasks and the findings about invalid rows.

    Raises:
        OSError: a file cannot be read.
    """
    tasks: dict[str, Task] = {}
    places: dict[str, str] = {}
    bad, repeated = [], []
    for place, row in _lines(files):
        try:
            task = Task.from_row(json.loads(row))
        except (ValueError, RecursionError) as problem:
            bad.append(f"{place}: {problem}")
            continue
        if task.task_id in tasks:
            repeated.append(f"{place}: {task.task_id!r} is already in {places[task.task_id]}")
        else:
            tasks[task.task_id], places[task.task_id] = task, place
    findings = _rows("bad_row", "rows that are not valid tasks", bad)
    return list(tasks.values()), findings + _rows("duplicate_id", "rows that repeat IDs", repeated)


def _lines(files: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        with file.open("rb") as opened:
            for number, line in enumerate(opened, start=1):
                if line.strip():
                    yield f"{file}, line {number}", line


def _rows(kind: str, text: str, rows: Sequence[str]) -> list[Finding]:
    """Return a list with one error that has all `rows` as examples; [] if there are no rows."""
    return [Finding("error", kind, len(rows), text, tuple(rows))] if rows else []


def print_report(console: Console, report: CheckReport) -> None:
    """Print the task counts and the findings of a report."""
    show = partial(console.print, highlight=False, soft_wrap=True)
    if report.tasks:
        grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold cyan")
        grid.add_column("Tasks")
        for split in report.splits:
            grid.add_column(split, justify="right")
        for name in WEAKNESSES:
            grid.add_row(f"  {name}", *(str(counts[name]) for counts in report.splits.values()))
        grid.add_row("  all", *(str(sum(counts.values())) for counts in report.splits.values()))
        show(grid)
        show(f"Tasks with evidence: {report.with_evidence}\n")
    for finding in report.findings:
        show(f"{finding.severity:<7}", style=_STYLES[finding.severity], end="")
        show(f" {finding.text}: {finding.count}")
        for example in finding.shown:
            show(f"          {example}")
    if not report.findings:
        show("No problems found.")
    verdict, style = ("fit", "bold green") if report.fit else ("not fit", "bold red")
    show(verdict, style=style, end="")
    errors = sum(finding.severity == "error" for finding in report.findings)
    warnings = len(report.findings) - errors
    show(f" to train on; tasks: {report.tasks}, kinds of errors: {errors}, of warnings: {warnings}")
