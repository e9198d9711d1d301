"""Check whether tasks are fit for training; the core of `resume-gym data check FILE`.

Detectors yield occurrences of problems; `check` groups them by kind (`_KINDS`). Tasks of a split
may share bullets. Bullets that occur in both splits are reported, since they would inflate
evaluation scores.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from resume_gym.corpus.duplicates import bare, bare_resume, near_duplicates
from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.editing import Rules
from resume_gym.episode.rewards import WEAKNESS_METRIC
from resume_gym.episode.tasks import SPLITS, WEAKNESSES, Fix, Task, repair, repaired
from resume_gym.judges import JudgeRefused
from resume_gym.judges.rubric import RubricJudge
from resume_gym.text.languages import is_english
from resume_gym.text.lines import Line, Number, parse, plain, read

THRESHOLD = 0.8
PAGE_LINES = Rules().page_lines
NEAR_LIMIT = 0.05
"""Maximum share of near-duplicate resumes in a split, and of eval's bullets that are in train."""
BULLET_WORDS = 5
"""Bullets of fewer words are not compared, since train and eval may share them by chance."""
JUDGED = 100
"""Maximum number of randomly drawn tasks whose fixes are judged; each task takes tens of ms."""
_WIDTH = Rules().page_width
_ASIDE = ("language", "reference")  # sections whose lines recur in many resumes
_NAMED = re.compile(rf"(?<![a-z])(?:{'|'.join(WEAKNESSES)})(?![a-z])", re.IGNORECASE)
_EXAMPLES = 5
_SHOWN = 20  # a file of another format has thousands of invalid rows
_STYLES = {"error": "bold red", "warning": "yellow"}

Severity = Literal["error", "warning"]
Occurrence = tuple[str, str]
"""A kind of problem (a key of `_KINDS`) and the affected task, row or text."""

_MANY = f"(more than {NEAR_LIMIT:.0%} is an error)"
# Severity and text of each kind, in the order of the report. "limit" means a warning or, above
# `NEAR_LIMIT`, an error; `total` is the number of the texts or tasks that were compared or graded.
_KINDS: Mapping[str, tuple[Severity | Literal["limit"], str]] = {
    "no_tasks": ("error", "sources without a valid task"),
    "bad_row": ("error", "rows that are not valid tasks"),
    "duplicate_id": ("error", "rows that repeat IDs"),
    "blank": ("error", "blank values of task_id, job or resume"),
    "no_bullets": ("error", "tasks not fit for the rubric judge: the resume has no bullets"),
    "not_english": ("error", "tasks not fit for the rubric judge: the resume is not in English"),
    "named_weakness": ("error", "tasks with the name of a weakness in job, resume or evidence"),
    "same_task": ("error", "tasks with job and resume of an earlier task"),
    "repeated_resume": (
        "warning",
        "tasks with exactly the same resume as an earlier task of their split",
    ),
    **{
        f"near_resume_{split}": (
            "limit",
            f"near-duplicates of an earlier resume, among {{total}} resumes of {split} {_MANY}",
        )
        for split in SPLITS
    },
    "leaked_resume": ("error", "resumes of eval that are near-duplicates of a resume of train"),
    # An import may use one job in both splits, so similar jobs are only a warning.
    "leaked_job": ("warning", "jobs of eval that are near-duplicates of a job of train"),
    "shared_bullet": (
        "limit",
        "bullets that are also in train, among {total} bullets of eval with at least "
        f"{BULLET_WORDS} words {_MANY}",
    ),
    "fits": ("error", "too_long tasks with at most {page_lines} lines"),
    "overflows": (
        "error",
        "tasks with more than {page_lines} lines and a weakness other than too_long",
    ),
    "fix": ("error", "tasks whose fixes cannot all be applied in order"),
    "no_op_fix": ("error", "fixes that change nothing"),
    "fixed_overflows": ("error", "tasks with more than {page_lines} lines even after all fixes"),
    "no_fixes": ("warning", "tasks without fixes, in which the oracle agent only submits"),
    "idle_repair": (
        "warning",
        "tasks whose fixes do not improve the rubric judge's grade for their weakness, among "
        "{total} graded tasks",
    ),
    "invented_figure": (
        "error",
        "tasks whose fixes add figures that are neither in the facts nor in the evidence",
    ),
    "evidence_figure": (
        "error",
        "tasks whose fixes add figures that are in the facts but not in the evidence",
    ),
    "no_evidence": (
        "warning",
        "tasks without evidence whose fixes add figures, which no agent can know",
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of problem and its occurrences.

    Attributes:
        severity: "error" if the problem makes the tasks unfit for training, else "warning".
        kind: stable identifier, for programs.
        count: number of tasks, rows or texts affected.
        text: description of the affected tasks, rows or texts, in the plural.
        examples: some of the affected tasks or texts, or all invalid rows.
    """

    severity: Severity
    kind: str
    count: int
    text: str
    examples: tuple[str, ...] = ()

    @property
    def shown(self) -> list[str]:
        """The first examples, and a line such as "and 7 more" if there are other occurrences."""
        first = self.examples[:_SHOWN]
        more = self.count - len(first)
        return [*first, *([f"and {more:,} more"] if more and first else [])]


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
        """Whether the tasks are fit for training: no finding is an error."""
        return not any(finding.severity == "error" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {"fit": self.fit, **asdict(self)}


def check(
    tasks: Sequence[Task],
    bad: Sequence[Occurrence] = (),
    threshold: float = THRESHOLD,
    page_lines: int = PAGE_LINES,
) -> CheckReport:
    """Run all detectors on tasks and return the statistics and findings.

    Args:
        tasks: valid tasks with distinct IDs.
        bad: the invalid rows, from `read_rows`.
        threshold: minimum similarity of near-duplicates, in (0, 1].
        page_lines: lines per page; 55 for full-size tasks, 20 for generated "mini" tasks.
    """
    totals: dict[str, int] = {}
    found: dict[str, list[str]] = defaultdict(list)
    for kind, example in chain(
        [] if tasks else [("no_tasks", "expected at least one task, found none")],
        bad,
        *(_faults(task, page_lines) for task in tasks),
        _similar_texts(tasks, threshold, totals),
        _shared_bullets(tasks, totals),
        _idle_repairs(tasks, totals),
    ):
        found[kind].append(example)
    findings = []
    for kind, (severity, text) in _KINDS.items():
        if examples := found[kind]:
            total = totals.get(kind, 0)
            if severity == "limit":
                severity = "error" if len(examples) > NEAR_LIMIT * total else "warning"
            told = text.format(total=total, page_lines=page_lines)
            shown = examples[: None if kind in ("bad_row", "duplicate_id") else _EXAMPLES]
            findings.append(Finding(severity, kind, len(examples), told, tuple(shown)))
    counts = Counter((task.split, task.weakness) for task in tasks)
    return CheckReport(
        tasks=len(tasks),
        splits={split: {name: counts[split, name] for name in WEAKNESSES} for split in SPLITS},
        page_lines=page_lines,
        threshold=threshold,
        with_evidence=sum(bool(task.evidence) for task in tasks),
        findings=tuple(sorted(findings, key=lambda finding: finding.severity != "error")),
    )


def _faults(task: Task, page_lines: int) -> Iterator[Occurrence]:
    """Find the problems of a single task."""
    key = task.task_id
    for name in ("task_id", "job", "resume"):
        if not getattr(task, name).strip():
            yield "blank", f"{key!r}: {name}"
    if not any(_bullet_lines(task.resume)):
        yield "no_bullets", key
    if not is_english(task.resume):
        yield "not_english", key
    documents = (text for document in task.evidence for text in (document.title, document.text))
    if match := _NAMED.search("\n".join((task.job, task.resume, *documents))):
        yield "named_weakness", f"{key}: {match[0]}"
    lines, planted = wrapped_lines(task.resume, _WIDTH), task.weakness == "too_long"
    if planted != (lines > page_lines):
        yield "fits" if planted else "overflows", f"{key}: {lines}"
    for number, fix in enumerate(task.fixes):
        if fix.old == fix.new:
            yield "no_op_fix", f"{key}: fixes[{number}]: {fix.old[:60]!r}"
    if problem := _failed_fix(task):
        yield "fix", f"{key}: {problem}"
    elif not task.fixes:
        yield "no_fixes", key
    elif (lines := wrapped_lines(repaired(task), _WIDTH)) > page_lines:
        yield "fixed_overflows", f"{key}: {lines}"
    yield from _ungrounded_figures(task)


def _failed_fix(task: Task) -> str:
    """Describe the first fix that cannot be applied; an empty string if all can."""
    for number, (fix, (count, _)) in enumerate(zip(task.fixes, repair(task), strict=True)):
        if count != 1:
            return f"fixes[{number}].old: expected once, found {count} times: {fix.old[:60]!r}"
    return ""


def _ungrounded_figures(task: Task) -> Iterator[Occurrence]:
    """Find the figures that a task's fixes add and that its evidence does not contain."""
    added = [(number, fix) for fix in task.fixes for number in _added(fix)]
    evidence = task.evidence if added else ()
    # Only values are compared, not units: the evidence may write "8 screens" as "8 of them".
    values = {number.value for document in evidence for number in _figures(document.text)}
    unseen = [(number, fix) for number, fix in added if number.value not in values]
    unknown = [
        number
        for number, fix in unseen
        if not _backed(number, [n for fact in fix.facts for n in _figures(fact)])
    ]
    if unseen:
        kind = "evidence_figure" if task.evidence else "no_evidence"
        quotes = (number.quote for number in unknown or [number for number, _ in unseen])
        yield "invented_figure" if unknown else kind, f"{task.task_id}: {', '.join(quotes)}"


def _figures(text: str) -> list[Number]:
    lines = [line for line in text.split("\n") if any(map(str.isdigit, line))]
    return [number for line in lines for number in read(plain(line)).figures]


def _added(fix: Fix) -> list[Number]:
    """Return the figures that a fix adds."""
    known = _figures(fix.old)
    return [number for number in _figures(fix.new) if not _backed(number, known)]


def _backed(number: Number, known: Sequence[Number]) -> bool:
    return any(other.backs(number) for other in known)


def _similar_texts(
    tasks: Sequence[Task], threshold: float, totals: dict[str, int]
) -> Iterator[Occurrence]:
    """Find repeated tasks, similar resumes within a split, and similar texts across splits."""
    resumes = {task.task_id: bare_resume(task.resume, _names(task)) for task in tasks}
    jobs = {task.task_id: bare(task.job) for task in tasks}
    first: dict[tuple[str, str], str] = {}
    # Compare equal resumes only once, since an import may pair one resume with many jobs.
    once: dict[tuple[str, str], Task] = {}
    for task in tasks:
        key = task.task_id
        if (owner := first.setdefault((resumes[key], jobs[key]), key)) != key:
            yield "same_task", f"{key} and {owner}"
        if once.setdefault((task.split, task.resume), task) is not task:
            yield "repeated_resume", key
    train, held_out = (
        {task.task_id: resumes[task.task_id] for task in once.values() if task.split == split}
        for split in SPLITS
    )
    within, leaked = near_duplicates(train, held_out, threshold)
    repeated = near_duplicates(held_out, {}, threshold)[0]
    totals |= {"near_resume_train": len(train), "near_resume_eval": len(held_out)}
    train, held_out = (
        {task.task_id: jobs[task.task_id] for task in tasks if task.split == split}
        for split in SPLITS
    )
    for kind, pairs in (
        ("near_resume_train", within),
        ("near_resume_eval", repeated),
        ("leaked_resume", leaked),
        ("leaked_job", near_duplicates(train, held_out, threshold)[1]),
    ):
        for pair in sorted(pairs, key=lambda pair: -pair.similarity):
            yield kind, f"{pair.task_id} and {pair.other_id} ({pair.similarity:.2f})"


def _names(task: Task) -> list[str]:
    """Return the names of candidate and employer that a task's persona contains."""
    found = (task.persona.get(key) for key in ("name", "company"))
    return [name for name in found if isinstance(name, str)]


def _shared_bullets(tasks: Sequence[Task], totals: dict[str, int]) -> Iterator[Occurrence]:
    """Find bullets that are in both splits, before or after the fixes."""
    owners: dict[str, dict[str, str]] = {split: {} for split in SPLITS}
    for task in tasks:
        lines = [*_bullet_lines(task.resume), *_bullet_lines(repaired(task))]
        for line in lines:
            text = bare(line.body)
            aside = any(word in line.section for word in _ASIDE)
            if not aside and text.count(" ") >= BULLET_WORDS - 1:
                owners[task.split].setdefault(text, task.task_id)
    train, evaluation = owners["train"], owners["eval"]
    totals["shared_bullet"] = len(evaluation)
    for text in sorted(train.keys() & evaluation.keys()):
        yield "shared_bullet", f'"{text}" in {train[text]} and {evaluation[text]}'


def _bullet_lines(resume: str) -> Iterator[Line]:
    return (line for line in parse(resume) if line.kind == "bullet")


def _idle_repairs(tasks: Sequence[Task], totals: dict[str, int]) -> Iterator[Occurrence]:
    """Find tasks whose fixes do not improve the metric of the task's weakness."""
    judge = RubricJudge()
    totals["idle_repair"] = 0
    # Sample at random: weaknesses recur in a cycle, so taking every n-th task could miss some.
    for task in Random(0).sample(tasks, JUDGED) if len(tasks) > JUDGED else tasks:
        text = repaired(task)
        if text == task.resume or _failed_fix(task):
            continue
        try:
            verdict = judge.judge(task, text)
        except JudgeRefused:
            continue  # the resume is too long for the judge
        totals["idle_repair"] += 1
        metric = WEAKNESS_METRIC[task.weakness]
        if getattr(verdict, metric) != 1:
            yield "idle_repair", f"{task.task_id}: {task.weakness}, {metric}"


def read_rows(files: Sequence[Path]) -> tuple[list[Task], list[Occurrence]]:
    """Read JSONL files; return the valid tasks, and the invalid rows with what is wrong with them.

    Raises:
        OSError: a file cannot be read.
    """
    tasks: dict[str, Task] = {}
    places: dict[str, str] = {}
    bad: list[Occurrence] = []
    for place, row in _lines(files):
        try:
            task = Task.from_row(json.loads(row))
        except (ValueError, RecursionError) as problem:
            bad.append(("bad_row", f"{place}: {problem}"))
            continue
        if task.task_id in tasks:
            first = places[task.task_id]
            bad.append(("duplicate_id", f"{place}: {task.task_id!r} is already in {first}"))
        else:
            tasks[task.task_id], places[task.task_id] = task, place
    return list(tasks.values()), bad


def _lines(files: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        with file.open("rb") as opened:
            for number, line in enumerate(opened, start=1):
                if line.strip():
                    yield f"{file}, line {number}", line


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
