"""Labelled pairs: revisions whose verdict is known."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_gym.rewards import GRADED_FIELDS, VERDICT_FIELDS, Verdict
from resume_gym.tasks import Task, TaskError

PAIRS = Path(__file__).with_name("pairs.jsonl")
FABRICATIONS = (
    "number", "tool", "employer", "title", "degree", "date", "moved_number", "prose_claim",
)  # fmt: skip
HALVES = ("dev", "test")

_KINDS = (*FABRICATIONS, "honest_rewrite", *GRADED_FIELDS)


@dataclass(frozen=True, slots=True)
class Pair:
    """A revision whose verdict is known.

    Attributes:
        pair_id: its name.
        task: the original, and what is true.
        revised: the revision.
        kind: a fabrication, "honest_rewrite", or the field that the revision is about.
        half: "dev", with which the rubric judge was made, or "test", which only measures.
        labels: the right value of each field of a verdict.
    """

    pair_id: str
    task: Task
    revised: str
    kind: str
    half: str
    labels: Mapping[str, int]

    @property
    def honest(self) -> bool:
        """Whether the revision claims nothing without support."""
        return self.labels["hallucination"] == 1


def load_pairs(path: Path = PAIRS, half: str | None = None) -> tuple[Pair, ...]:
    """The labelled pairs of a file; its first line says what they are.

    The other lines hold either `task`, `half` and `source`, or a pair: `id`, `task_id`, `kind`,
    `labels` and `edits`, each an old text that occurs once and the new one.

    Raises:
        TaskError: a line is bad; the message names file and line.
    """
    tasks: dict[str, tuple[Task, str]] = {}
    pairs: dict[str, Pair] = {}
    for number, text in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            row = json.loads(text)
            if "task" in row:
                task = Task.from_row(row["task"])
                tasks[task.task_id] = (task, row["half"])
            elif "id" in row:
                if row["id"] in pairs:
                    raise TaskError(f"id: {row['id']!r} stands twice")
                pairs[row["id"]] = _pair(row, *tasks[row["task_id"]])
        except KeyError as problem:
            raise TaskError(f"{path}, line {number}: {problem.args[0]}: missing") from None
        except (ValueError, TypeError, RecursionError) as problem:
            raise TaskError(f"{path}, line {number}: {problem}") from None
    found = tuple(pair for pair in pairs.values() if half in (None, pair.half))
    if not found:
        raise TaskError(f"{path}: no labelled pairs{f' in half {half!r}' if half else ''}")
    return found


def _pair(row: Mapping[str, Any], task: Task, half: str) -> Pair:
    revised = task.resume
    for old, new in row["edits"]:
        if revised.count(old) != 1:
            raise TaskError(f"edits: {old!r} occurs {revised.count(old)} times, expected once")
        revised = revised.replace(old, new)
    labels = Verdict(**row["labels"])  # its checks are those of the labels
    if row["kind"] not in _KINDS:
        raise TaskError(f"kind: expected one of {', '.join(_KINDS)}; got {row['kind']!r}")
    return Pair(row["id"], task, revised, row["kind"], half, values(labels))


def values(verdict: Verdict) -> dict[str, int]:
    """The fields of a verdict, without its reasons."""
    return {field: getattr(verdict, field) for field in VERDICT_FIELDS}
