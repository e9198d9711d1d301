"""Tasks (resume, job, planted weakness and its fixes), and their JSONL files."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any

from resume_gym.episode.document import unix_lines
from resume_gym.episode.rewards import VERDICT_FIELDS, WEAKNESS_METRIC
from resume_gym.episode.tools import text_fault
from resume_gym.support.user_errors import TaskError

WEAKNESSES = tuple(WEAKNESS_METRIC)
SPLITS = ("train", "eval")
EVIDENCE_KINDS = ("project_notes", "performance_review", "portfolio")
ITEM_KINDS = ("figure", "skill", "section", "judged")
MOST_EVIDENCE = 100_000
"""Maximum number of characters in the evidence of a task."""
_ITEMS, _ITEM_CHARS, _ITEM_WEIGHT = 20, 500, 8

EDITION = 3
"""Edition of the tasks and the rubric judge; rewards of different editions are not comparable."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One edit that repairs part of the planted weakness.

    Attributes:
        old: weak text, which occurs exactly once in the resume when all earlier fixes have been
            applied.
        new: improved text; empty to delete `old`.
        facts: sentences that support what `new` claims beyond `old`.
        needs_evidence: whether `new` adds something that the resume does not state and only the
            evidence supports.
    """

    old: str
    new: str
    facts: tuple[str, ...] = ()
    needs_evidence: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """A document with true statements about the candidate and other people.

    Attributes:
        kind: kind of the document, one of `EVIDENCE_KINDS`.
        title: title of the document.
        text: text of the document, in Markdown or plain text.
    """

    kind: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """A rubric item: something that a revision may add, and the reward for it.

    Attributes:
        text: a figure ("13 TB"), a skill, the heading of a section, or for kind "judged" a
            statement about the revised resume; one line of at most 500 characters.
        weight: reward if the revision adds the item: a nonzero multiple of 0.25 from -8 to 8;
            negative for an undesired item.
        kind: one of `ITEM_KINDS`; a model grades "judged" items, and rules grade all others.
        writer: the model that wrote the item, and the prompt's version; empty if no model did.

    Raises:
        TaskError: An attribute has a wrong type or value.
    """

    text: str
    weight: float
    kind: str
    writer: str = ""

    def __post_init__(self) -> None:
        _check_text("text", self.text)
        _check_text("writer", self.writer)
        if not self.text.strip() or not self.text.isprintable() or len(self.text) > _ITEM_CHARS:
            expected = f"one line of 1 to {_ITEM_CHARS} characters"
            raise TaskError(f"text: expected {expected}, got {self.text[:40]!r}")
        if self.text in VERDICT_FIELDS:
            raise TaskError(f"text: expected no name of a verdict field, got {self.text!r}")
        weight = self.weight
        numeric = type(weight) in (int, float) and 0 < abs(weight) <= _ITEM_WEIGHT
        if not numeric or weight % 0.25:  # sums of multiples of 0.25 are exact
            expected = f"a multiple of 0.25 from -{_ITEM_WEIGHT} to {_ITEM_WEIGHT}, and not 0"
            raise TaskError(f"weight: expected {expected}; got {weight!r}")
        object.__setattr__(self, "weight", float(weight))
        if self.kind not in ITEM_KINDS:
            expected = ", ".join(ITEM_KINDS)
            raise TaskError(f"kind: expected one of {expected}; got {self.kind!r}")
        if self.kind == "figure" and not re.search(r"(?<![^\W_])\d", self.text):
            raise TaskError(f"text: expected a figure in digits, got {self.text!r}")


@dataclass(frozen=True, slots=True)
class Task:
    """A resume to revise for a job.

    The agent sees `job` and `resume`; in `ResumeEditEvidence-v0`, it can also search `evidence`.
    All other fields of a task are for the judge and the oracle agent.

    Attributes:
        task_id: identifier of the task, unique in its source.
        job: job description, plain text or Markdown.
        resume: resume in Markdown; line endings are converted to line feeds.
        weakness: planted or diagnosed weakness of the resume, one of `WEAKNESSES`.
        split: split of the task, "train" or "eval".
        fixes: edits that repair the weakness, in the order to apply them.
        persona: owner of the resume: role, level, vertical (industry), name and company.
        evidence: documents about the candidate that a revision may draw on; at most `MOST_EVIDENCE`
            characters in all.
        rubric: items that are rewarded in addition to the fields of the verdict.

    Raises:
        TaskError: A field has a wrong type or value, or contains a NUL or a lone surrogate.
    """

    task_id: str
    job: str
    resume: str
    weakness: str
    split: str = "train"
    fixes: tuple[Fix, ...] = ()
    persona: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    rubric: tuple[Item, ...] = ()

    def __post_init__(self) -> None:
        for name in ("task_id", "job", "resume"):
            _check_text(name, getattr(self, name))
            # the class is frozen, so a plain assignment would fail
            object.__setattr__(self, name, unix_lines(getattr(self, name)))
        for key, value in self.persona.items():
            _check_text(f"persona.{key}", value)
        for name, values in (("weakness", WEAKNESSES), ("split", SPLITS)):
            if getattr(self, name) not in values:
                expected = ", ".join(values)
                raise TaskError(f"{name}: expected one of {expected}; got {getattr(self, name)!r}")
        if (size := sum(len(one.text) for one in self.evidence)) > MOST_EVIDENCE:
            told = f"{size:,} characters, the limit is {MOST_EVIDENCE:,}"
            raise TaskError(f"evidence: the documents have {told}")
        if len(self.rubric) > _ITEMS:
            raise TaskError(f"rubric: expected at most {_ITEMS} items, got {len(self.rubric)}")
        texts = [item.text for item in self.rubric]
        if twice := [text for text in texts if texts.count(text) > 1]:
            raise TaskError(f"rubric: {twice[0]!r} occurs twice")

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts of all fixes: true statements that support the new texts of the fixes."""
        return tuple(fact for fix in self.fixes for fact in fix.facts)

    @property
    def judged(self) -> tuple[Item, ...]:
        """The rubric items that only a model judge can grade."""
        return tuple(item for item in self.rubric if item.kind == "judged")

    def to_row(self) -> dict[str, Any]:
        """Return the task as a JSON object of a JSONL file, without an empty rubric or writer."""
        row = asdict(self)
        if not self.rubric:
            del row["rubric"]
        for item in row.get("rubric", ()):
            if not item["writer"]:
                del item["writer"]
        return row

    @classmethod
    def from_row(cls, row: object) -> "Task":
        """Create a task from a JSON object.

        Raises:
            TaskError: A field is missing, unknown or invalid; the message names the field.
        """
        if not isinstance(row, dict):
            raise TaskError(f"expected a JSON object, got {type(row).__name__}")
        required = ("task_id", "job", "resume", "weakness")
        if missing := [name for name in required if name not in row]:
            raise TaskError(f"{missing[0]}: missing")
        if unknown := row.keys() - {field.name for field in fields(cls)}:
            raise TaskError(f"{min(unknown)}: unknown field")
        if not isinstance(row.get("persona", {}), dict):
            raise TaskError("persona: expected an object")
        readers = {"fixes": _fixes, "evidence": _evidence, "rubric": _rubric}
        lists = {name: tuple(read(row.get(name, []))) for name, read in readers.items()}
        return cls(**row | lists)


def repair(task: Task) -> Iterator[tuple[int, str]]:
    """Apply the fixes in order, except those whose `old` does not occur exactly once.

    Yields:
        For each fix, the number of occurrences of `old` before the fix, and the text after it.
    """
    text = task.resume
    for fix in task.fixes:
        count = text.count(fix.old) if fix.old else 0
        if count == 1:
            text = text.replace(fix.old, fix.new)
        yield count, text


def repaired(task: Task, fixes: int | None = None) -> str:
    """Return the resume after the first `fixes` fixes; None applies all. See `repair`."""
    return [task.resume, *(text for _, text in islice(repair(task), fixes))][-1]


def _objects(
    name: str, rows: object, *keys: str, optional: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path, such as "fixes[0]", and the value of each object in a list.

    Raises a TaskError if an object has unknown keys or lacks required ones.
    """
    if not isinstance(rows, list):
        raise TaskError(f"{name}: expected a list, got {type(rows).__name__}")
    for number, row in enumerate(rows):
        where = f"{name}[{number}]"
        if not isinstance(row, dict) or {*row} - {*optional} != {*keys} - {*optional}:
            wanted = f"{', '.join(keys[:-1])} and {keys[-1]}"
            raise TaskError(f"{where}: expected an object with {wanted}")
        yield where, row


def _evidence(rows: object) -> Iterator[Evidence]:
    for where, row in _objects("evidence", rows, "kind", "title", "text"):
        for name in ("kind", "title", "text"):
            _check_text(f"{where}.{name}", row[name])
        if row["kind"] not in EVIDENCE_KINDS:
            expected = ", ".join(EVIDENCE_KINDS)
            raise TaskError(f"{where}.kind: expected one of {expected}; got {row['kind']!r}")
        yield Evidence(row["kind"], row["title"], unix_lines(row["text"]))


def _rubric(rows: object) -> Iterator[Item]:
    keys = ("text", "weight", "kind", "writer")
    for where, row in _objects("rubric", rows, *keys, optional=("writer",)):
        try:
            yield Item(**row)
        except TaskError as problem:
            raise TaskError(f"{where}.{problem}") from None


def _fixes(rows: object) -> Iterator[Fix]:
    optional = ("facts", "needs_evidence")
    for where, row in _objects("fixes", rows, "old", "new", *optional, optional=optional):
        facts, needs_evidence = row.get("facts", []), row.get("needs_evidence", False)
        for name, value, kind, told in (
            ("needs_evidence", needs_evidence, bool, "a boolean"),
            ("facts", facts, list, "a list"),
        ):
            if not isinstance(value, kind):
                raise TaskError(f"{where}.{name}: expected {told}, got {type(value).__name__}")
        texts = [("old", row["old"]), ("new", row["new"]), *(("facts", fact) for fact in facts)]
        for name, text in texts:
            _check_text(f"{where}.{name}", text)
        old, new, *facts = (unix_lines(text) for _, text in texts)
        yield Fix(old, new, tuple(facts), needs_evidence)


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise TaskError(f"{name}: expected a string, got {type(text).__name__}")
    if text_fault(text):
        for number, line in enumerate(text.split("\n"), start=1):
            if fault := text_fault(line):
                raise TaskError(f"{name}, line {number}: {fault}")


def read_jsonl(path: Path) -> list[Task]:
    """Read the tasks of a JSONL file.

    Raises:
        TaskError: A row is invalid or a task_id occurs twice; the error names file, line and field.
    """
    tasks: dict[str, Task] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                task = Task.from_row(json.loads(line))
                if task.task_id in tasks:
                    raise TaskError(f"task_id: {task.task_id!r} occurs twice")
            # a RecursionError means that the JSON is nested too deeply
            except (ValueError, RecursionError) as problem:
                raise TaskError(f"{path}, line {number}: {problem}") from None
            tasks[task.task_id] = task
    return list(tasks.values())


def write_jsonl(path: Path, tasks: list[Task]) -> None:
    """Write tasks to a JSONL file, which `read_jsonl` can read."""
    rows = (json.dumps(task.to_row(), ensure_ascii=False) for task in tasks)
    # encode before writing, so that an error changes no file
    text = "".join(row + "\n" for row in rows).encode()
    path.write_bytes(text)
