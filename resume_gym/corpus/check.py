"""Is a file of tasks fit to train on? `resume-gym data check FILE` says so, and why not.

What is looked for is in `findings`, and the limits are there. A task that a generator made may
share bullets with others of its split; what both splits share would flatter an evaluation.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from resume_gym.arguments import add_json, add_parser, positive, print_json
from resume_gym.corpus.difficulty import PAGE_LINES, PAGE_WIDTH, Difficulty, difficulty
from resume_gym.corpus.findings import (
    Finding,
    blank_texts,
    broken_fixes,
    idle_repairs,
    named_weaknesses,
    other_jobs,
    page_fit,
    shared_content,
    similar_texts,
    ungrounded_figures,
    weak_and_strong,
    weak_share,
    weakness_balance,
)
from resume_gym.document import wrapped_lines
from resume_gym.judges.rubric import RubricJudge
from resume_gym.tasks import SPLITS, WEAKNESSES, Task, TaskError, load_tasks

THRESHOLD = 0.8
SAMPLE = 1000
"""Tasks whose difficulty is measured, drawn at random; it takes some milliseconds each."""
JUDGED = 100
"""Tasks whose fixes are judged, and whose job is compared with the resume, drawn likewise; it
takes some tens of milliseconds each."""


@dataclass(frozen=True)
class Report:
    """What there is, and what is wrong with it.

    Attributes:
        tasks: good rows; all else is about these.
        splits: for each split, tasks of each weakness.
        lines: for each number of lines after wrapping, resumes of that length.
        page_lines: lines of the page.
        threshold: similarity from which texts are near-duplicates, in [0, 1].
        with_evidence: tasks that have documents about the candidate.
        weak_share: mean share of bullets that fixes touch, in [0, 1]; None without fixes.
        difficulty: of at most `SAMPLE` tasks.
        findings: errors first.
    """

    tasks: int
    splits: Mapping[str, Mapping[str, int]]
    lines: Mapping[int, int]
    page_lines: int
    threshold: float
    with_evidence: int
    weak_share: float | None
    difficulty: tuple[Difficulty, ...]
    findings: tuple[Finding, ...]

    @property
    def fit(self) -> bool:
        """Whether the tasks can be trained on: there are some, and no errors."""
        return self.tasks > 0 and not any(one.severity == "error" for one in self.findings)

    def count(self, kind: str) -> int:
        """How many of a kind of finding there are."""
        return sum(one.count for one in self.findings if one.kind == kind)

    def to_json(self) -> dict[str, Any]:
        """The report as one JSON object."""
        measured = [one._asdict() for one in self.difficulty]
        return {"fit": self.fit, **asdict(self), "difficulty": measured}


def check(
    source: Sequence[Task] | Path, threshold: float = THRESHOLD, page_lines: int = PAGE_LINES
) -> Report:
    """Check tasks, or the rows of a JSONL file.

    Args:
        source: tasks, or a file, bad rows of which are findings while the others are checked.
        threshold: least similarity of near-duplicates, in (0, 1].
        page_lines: lines of the page; 20 for tasks of the small size.

    Raises:
        ModuleNotFoundError: a package is missing; the message names the extra to install.
        OSError: the file cannot be read.
    """
    if not 0 < threshold <= 1:
        raise TaskError(f"threshold: expected a number over 0, at most 1; got {threshold}")
    bad: list[Finding] = []
    if isinstance(source, Path):
        tasks, bad = read_rows([source])
    else:
        tasks, bad = _distinct(source)
    return _report(tasks, bad, threshold, page_lines)


def _report(
    tasks: Sequence[Task], bad: Sequence[Finding], threshold: float, page_lines: int
) -> Report:
    judged = _sample(tasks, JUDGED)
    findings = [
        *bad,
        *blank_texts(tasks),
        *named_weaknesses(tasks),
        *similar_texts(tasks, threshold),
        *shared_content(tasks),
        *page_fit(tasks, page_lines),
        *broken_fixes(tasks, page_lines),
        *idle_repairs(judged, RubricJudge()),
        *other_jobs(judged),
        *ungrounded_figures(tasks),
        *weak_and_strong(tasks),
        *weakness_balance(tasks),
    ]
    lines = Counter(wrapped_lines(task.resume, PAGE_WIDTH) for task in tasks)
    return Report(
        tasks=len(tasks),
        splits={split: _weaknesses(tasks, split) for split in SPLITS},
        lines=dict(sorted(lines.items())),
        page_lines=page_lines,
        threshold=threshold,
        with_evidence=sum(bool(task.evidence) for task in tasks),
        weak_share=weak_share(tasks),
        difficulty=tuple(difficulty(task, page_lines) for task in _sample(tasks, SAMPLE)),
        findings=tuple(sorted(findings, key=lambda one: one.severity != "error")),
    )


def _sample(tasks: Sequence[Task], most: int) -> Sequence[Task]:
    # drawn, not every n-th, since generators deal the weaknesses in turn
    return Random(0).sample(tasks, most) if len(tasks) > most else tasks


def _weaknesses(tasks: Sequence[Task], split: str) -> dict[str, int]:
    counts = Counter(task.weakness for task in tasks if task.split == split)
    return {name: counts[name] for name in WEAKNESSES}


def _distinct(tasks: Sequence[Task]) -> tuple[list[Task], list[Finding]]:
    first: dict[str, Task] = {}
    again = [task.task_id for task in tasks if first.setdefault(task.task_id, task) is not task]
    return list(first.values()), _rows("duplicate_id", "tasks with the id of an earlier one", again)


def read_rows(files: Sequence[Path]) -> tuple[list[Task], list[Finding]]:
    """The tasks of JSONL files, and what is wrong with the rows that are none.

    Raises:
        OSError: a file cannot be read.
    """
    tasks: dict[str, Task] = {}
    places: dict[str, str] = {}
    bad, again = [], []
    for place, row in _lines(files):
        try:
            task = Task.from_row(json.loads(row))
        except (ValueError, RecursionError) as problem:
            bad.append(f"{place}: {problem}")
            continue
        if task.task_id in tasks:
            again.append(f"{place}: {task.task_id!r} stands in {places[task.task_id]}")
        else:
            tasks[task.task_id], places[task.task_id] = task, place
    findings = _rows("bad_row", "rows that are no task", bad)
    return list(tasks.values()), findings + _rows("duplicate_id", "rows with a used id", again)


def _lines(files: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        with file.open("rb") as opened:
            for number, line in enumerate(opened, start=1):
                if line.strip():
                    yield f"{file}, line {number}", line


def _rows(kind: str, text: str, found: Sequence[str]) -> list[Finding]:
    """A finding with all its rows, since each has to be repaired."""
    return [Finding("error", kind, len(found), text, tuple(found))] if found else []


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `check`."""
    command = add_parser(
        commands,
        "check",
        "say whether tasks are fit to train on",
        "Say whether tasks are fit to train on: bad rows, near-duplicates, leaks between the "
        "splits, pages that do not fit, fixes that do not apply, figures without evidence.",
        ["data check tasks.jsonl", "data check mini --page-lines 20 --json"],
        done="they are fit",
        failed="they are not fit, or it failed",
    )
    add = command.add_argument
    add(
        "files",
        nargs="+",
        metavar="FILE",
        help="JSONL files, checked as one; or one other source of tasks: default, mini, ...",
    )
    add(
        "--threshold",
        type=float,
        default=THRESHOLD,
        metavar="X",
        help="similarity from which texts are near-duplicates (default: %(default)s)",
    )
    add(
        "--page-lines",
        type=positive,
        default=PAGE_LINES,
        metavar="N",
        help="lines of the page; 20 for the small size (default: %(default)s)",
    )
    add_json(add)
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from rich.console import Console

    from resume_gym.corpus.check_table import print_report

    if not 0 < options.threshold <= 1:
        raise TaskError(f"--threshold: expected over 0, at most 1; got {options.threshold:g}")
    files = [Path(file) for file in options.files]
    if len(files) > 1 or files[0].is_file():
        if missing := [file for file in files if not file.is_file()]:
            raise TaskError(f"check: there is no file {str(missing[0])!r}")
        tasks, bad = read_rows(files)
    else:
        tasks, bad = list(load_tasks(options.files[0])), []
    report = _report(tasks, bad, options.threshold, options.page_lines)
    if options.json:
        print_json(report.to_json())
    else:
        print_report(Console(), report)
    return 0 if report.fit else 1
