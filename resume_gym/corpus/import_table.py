"""Format the report of an import: tasks, notes and failures.

The output contains file names, counts, shares and section headings, but no other text of a resume.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from rich.table import Table

from resume_gym.corpus.assembling import ImportReport, Made
from resume_gym.support.terminal import Terminal
from resume_gym.support.user_errors import number_of

_COLUMNS = {
    "too_long": "lines",
    "vague_bullets": "vague",
    "no_metrics": "bare",
    "wrong_emphasis": "aside",
    "weak_verbs": "verbs",
    "formatting_inconsistent": "form",
}
_KEY = (
    "fit: % of the job that the resume covers. lines: lines after wrapping; more than 55 are "
    "too_long. vague, aside, verbs: % of the bullets with vague_bullets, wrong_emphasis, "
    "weak_verbs. bare (no_metrics): % of the bullets without a figure, whatever their weakness. "
    "form: % of the lines with formatting_inconsistent. * marks the weakness of the task.\n"
)


def to_json(report: ImportReport) -> dict[str, Any]:
    """Return the report of an import as JSON values."""
    tasks = [
        {
            "task_id": row.task.task_id,
            "split": row.task.split,
            "resume": str(row.resume),
            "job": str(row.job),
            "fit": row.fit,
            "weakness": row.task.weakness,
            "lines": row.diagnosis.lines,
            "shares": dict(row.diagnosis.shares),
            "bare": row.diagnosis.bare,
        }
        for row in report.made
    ]
    notes = [{"file": str(path), "note": note} for path, note in report.notes]
    failed = [{"file": str(path), "why": why} for path, why in report.failed]
    return {"tasks": tasks, "notes": notes, "failed": failed}


def print_report(report: ImportReport, out: Path) -> None:
    """Print the report of an import; `out` is the path of the task file."""
    console = Terminal()
    if report.made:
        console.print(_tasks(report.made))
        console.print(_KEY, style="dim", highlight=False)
    for path, note in report.notes:
        console.print(f"note: {path}: {note}", highlight=False, soft_wrap=True)
    for path, why in report.failed:
        text = f"not used: {path}: {why}"
        console.print(text, style="red", highlight=False)
    if report.made:
        splits = Counter(task.split for task in report.tasks)
        parts = ", ".join(f"{count} {split}" for split, count in splits.items())
        text = f"{number_of(len(report.made), 'task')} ({parts}) in {out}"
        console.print(text, highlight=False, soft_wrap=True)


def _tasks(made: list[Made]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("resume", overflow="fold")
    table.add_column("job", overflow="fold")
    for name in ("fit", *_COLUMNS.values()):
        table.add_column(name, justify="right")
    for row in made:
        diagnosis = row.diagnosis
        shares = {**diagnosis.shares, "no_metrics": diagnosis.bare}
        shown = {name: f"{100 * shares[name]:.0f}" if name in shares else "-" for name in _COLUMNS}
        shown["too_long"] = str(diagnosis.lines)
        cells = (shown[name] + "*" * (name == row.task.weakness) for name in _COLUMNS)
        table.add_row(row.resume.name, row.job.name, f"{100 * row.fit:.0f}", *cells)
    return table
