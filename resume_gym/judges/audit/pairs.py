"""Labelled pairs of an original and a revision, for the calibration of judges."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from resume_gym.episode.rewards import GRADED_FIELDS, VERDICT_FIELDS, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.support.user_errors import TaskError

PAIRS = Path(__file__).with_name("pairs.jsonl")
FABRICATIONS = (
    "number", "tool", "employer", "title", "degree", "date", "moved_number", "prose_claim",
)  # fmt: skip
HALVES = ("dev", "test")

_KINDS = (*FABRICATIONS, "honest_rewrite", *GRADED_FIELDS)


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A revision with its correct verdict.

    Attributes:
        pair_id: unique id.
        task: the original with its facts and evidence.
        revised: the revision.
        kind: one of `FABRICATIONS`, "honest_rewrite", or the graded field that the revision tests.
        half: "dev" or "test", which share no resume; the rubric judge was developed on both.
        labels: correct value of each field of the verdict.
    """

    pair_id: str
    task: Task
    revised: str
    kind: str
    half: str
    labels: Mapping[str, int]

    @property
    def honest(self) -> bool:
        """Whether the revision has no unsupported claim."""
        return self.labels["hallucination"] == 1


def load_pairs(path: Path = PAIRS, half: str | None = None) -> tuple[LabelledPair, ...]:
    """Load the labelled pairs of a JSONL file, or only those of one half ("dev" or "test").

    The first line describes the data. The other lines hold either a task (`task`, `half` and
    `source`) or a pair (`id`, `task_id`, `kind`, `labels` and `edits`). An edit is a list of two
    texts: a passage that occurs exactly once in the resume, and its replacement.

    Raises:
        TaskError: a line is invalid, or there are no pairs; the message names file and line.
    """
    tasks: dict[str, tuple[Task, str]] = {}
    pairs: dict[str, LabelledPair] = {}
    for number, text in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            row = json.loads(text)
            if "task" in row:
                task = Task.from_row(row["task"])
                tasks[task.task_id] = (task, row["half"])
            elif "id" in row:
                if row["id"] in pairs:
                    raise TaskError(f"id: {row['id']!r} occurs twice")
                pairs[row["id"]] = _pair(row, *tasks[row["task_id"]])
        except KeyError as problem:
            raise TaskError(f"{path}, line {number}: {problem.args[0]}: missing") from None
        except (ValueError, TypeError, RecursionError) as problem:
            raise TaskError(f"{path}, line {number}: {problem}") from None
    selected = tuple(pair for pair in pairs.values() if half in (None, pair.half))
    if not selected:
        raise TaskError(f"{path}: no labelled pairs{f' in half {half!r}' if half else ''}")
    return selected


def _pair(row: Mapping[str, Any], task: Task, half: str) -> LabelledPair:
    revised = task.resume
    for old, new in row["edits"]:
        if revised.count(old) != 1:
            raise TaskError(f"edits: {old!r} occurs {revised.count(old)} times, expected once")
        revised = revised.replace(old, new)
    labels = Verdict(**row["labels"])  # validates the labels
    if row["kind"] not in _KINDS:
        raise TaskError(f"kind: expected one of {', '.join(_KINDS)}; got {row['kind']!r}")
    return LabelledPair(row["id"], task, revised, row["kind"], half, values(labels))


def write_pairs(path: Path, pairs: Sequence[LabelledPair], about: Mapping[str, str]) -> None:
    """Write pairs in the format of `load_pairs`; `about` is the first line of the file."""
    tasks = {pair.task.task_id: {"task": pair.task.to_row(), "half": pair.half} for pair in pairs}
    rows = [
        {
            "id": pair.pair_id,
            "task_id": pair.task.task_id,
            "kind": pair.kind,
            "labels": dict(pair.labels),
            "edits": [[pair.task.resume, pair.revised]],
        }
        for pair in pairs
    ]
    lines = (json.dumps(row, ensure_ascii=False) for row in (about, *tasks.values(), *rows))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def values(verdict: Verdict) -> dict[str, int]:
    """Return the fields of a verdict, without reasons and confidence."""
    return {field: getattr(verdict, field) for field in VERDICT_FIELDS}


def spread(pairs: Sequence[LabelledPair], limit: int | None) -> Sequence[LabelledPair]:
    """Select `limit` pairs (None: all pairs), about equally many of each kind, in file order."""
    if limit is None or limit >= len(pairs):
        return pairs
    order = list(pairs)
    Random(0).shuffle(order)
    seen: Counter[str] = Counter()
    ranked = []
    for pair in order:
        ranked.append((seen[pair.kind], pair.pair_id))
        seen[pair.kind] += 1
    taken = {name for _, name in sorted(ranked)[:limit]}
    return [pair for pair in pairs if pair.pair_id in taken]
