"""Tasks: what an episode is about, and where they come from."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from resume_gym.document import unix_lines
from resume_gym.rewards import WEAKNESS_METRIC
from resume_gym.tools import text_fault

WEAKNESSES = tuple(WEAKNESS_METRIC)
SPLITS = ("train", "eval")
BUNDLED = ("default", "mini")
EVIDENCE_KINDS = ("project_notes", "performance_review", "portfolio")

_DATA = Path(__file__).parent / "data"


class TaskError(ValueError):
    """A task, or a source of tasks, is not what it should be."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One edit that repairs part of the planted weakness.

    Attributes:
        old: the weak text; it occurs once in the resume (after the fixes before it).
        new: its strong form; empty to delete.
        facts: sentences that ground what `new` claims beyond `old`.
        needs_evidence: whether `new` says what the resume tells nowhere, so that only somebody
            who knows the evidence can make the edit.
    """

    old: str
    new: str
    facts: tuple[str, ...] = ()
    needs_evidence: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """A document about the candidate; what it says is true.

    Attributes:
        kind: one of `EVIDENCE_KINDS`.
        title: of the document.
        text: Markdown or plain text.
    """

    kind: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Task:
    """A resume to revise for a job.

    The agent sees `job` and `resume`. The rest is for the judge and the oracle.

    Attributes:
        task_id: unique in its source.
        job: the job description, plain text or Markdown.
        resume: the resume in Markdown; line ends become line feeds.
        weakness: one of `WEAKNESSES`.
        split: "train" or "eval".
        fixes: edits that repair the weakness, in the order to apply them.
        persona: who the resume is of: role, level, vertical, name, company.
        evidence: documents about the candidate, from which a revision may draw.

    Raises:
        TaskError: a field has another type or value, or holds a NUL or a lone surrogate.
    """

    task_id: str
    job: str
    resume: str
    weakness: str
    split: str = "train"
    fixes: tuple[Fix, ...] = ()
    persona: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()

    def __post_init__(self) -> None:
        for name in ("task_id", "job", "resume"):
            _check_text(name, getattr(self, name))
            object.__setattr__(self, name, unix_lines(getattr(self, name)))
        for key, value in self.persona.items():
            _check_text(f"persona.{key}", value)
        for name, known in (("weakness", WEAKNESSES), ("split", SPLITS)):
            if getattr(self, name) not in known:
                expected = ", ".join(known)
                raise TaskError(f"{name}: expected one of {expected}; got {getattr(self, name)!r}")

    @property
    def facts(self) -> tuple[str, ...]:
        """What is known of the candidate beyond the resume."""
        return tuple(fact for fix in self.fixes for fact in fix.facts)

    def to_row(self) -> dict[str, Any]:
        """The task as one JSON object of a JSONL file."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: Any) -> "Task":
        """The task of one JSON object.

        Raises:
            TaskError: a field is missing, unknown or wrong; the message names it.
        """
        if not isinstance(row, dict):
            raise TaskError(f"expected a JSON object, got {type(row).__name__}")
        required = ("task_id", "job", "resume", "weakness")
        if missing := [name for name in required if name not in row]:
            raise TaskError(f"{missing[0]}: missing")
        if unknown := row.keys() - {one.name for one in fields(cls)}:
            raise TaskError(f"{min(unknown)}: unknown field")
        if not isinstance(row.get("persona", {}), dict):
            raise TaskError("persona: expected an object")
        fixes, evidence = _fixes(row.get("fixes", [])), _evidence(row.get("evidence", []))
        return cls(**{**row, "fixes": fixes, "evidence": evidence})


def _evidence(rows: Any) -> tuple[Evidence, ...]:
    if not isinstance(rows, list):
        raise TaskError(f"evidence: expected a list, got {type(rows).__name__}")
    documents = []
    for number, row in enumerate(rows):
        where = f"evidence[{number}]"
        if not isinstance(row, dict) or row.keys() != {"kind", "title", "text"}:
            raise TaskError(f"{where}: expected an object with kind, title and text")
        for name in ("kind", "title", "text"):
            _check_text(f"{where}.{name}", row[name])
        if row["kind"] not in EVIDENCE_KINDS:
            expected = ", ".join(EVIDENCE_KINDS)
            raise TaskError(f"{where}.kind: expected one of {expected}; got {row['kind']!r}")
        documents.append(Evidence(row["kind"], row["title"], unix_lines(row["text"])))
    return tuple(documents)


def _fixes(rows: Any) -> tuple[Fix, ...]:
    if not isinstance(rows, list):
        raise TaskError(f"fixes: expected a list, got {type(rows).__name__}")
    fixes = []
    for number, row in enumerate(rows):
        optional = {"facts", "needs_evidence"}
        if not isinstance(row, dict) or row.keys() - optional != {"old", "new"}:
            raise TaskError(
                f"fixes[{number}]: expected an object with old, new, facts and needs_evidence"
            )
        unseen = row.get("needs_evidence", False)
        if not isinstance(unseen, bool):
            found = type(unseen).__name__
            raise TaskError(f"fixes[{number}].needs_evidence: expected a boolean, got {found}")
        facts = row.get("facts", [])
        if not isinstance(facts, list):
            raise TaskError(f"fixes[{number}].facts: expected a list, got {type(facts).__name__}")
        for name, text in [
            ("old", row["old"]),
            ("new", row["new"]),
            *(("facts", f) for f in facts),
        ]:
            _check_text(f"fixes[{number}].{name}", text)
        old, new, *told = map(unix_lines, (row["old"], row["new"], *facts))
        fixes.append(Fix(old, new, tuple(told), unseen))
    return tuple(fixes)


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, str):
        raise TaskError(f"{name}: expected a string, got {type(text).__name__}")
    if text_fault(text):
        for number, line in enumerate(text.split("\n"), start=1):
            if fault := text_fault(line):
                raise TaskError(f"{name}, line {number}: {fault}")


def load_tasks(source: str | Path, split: str | None = None) -> tuple[Task, ...]:
    """Tasks of a source, in order; read once a process.

    Args:
        source: a bundled name ("default", "mini"), the path of a JSONL file, of a folder in the
            format of Hugging Face's `datasets`, "hf://OWNER/NAME" on their hub, or
            "procedural:SEED:COUNT" / "procedural-mini:SEED:COUNT", which generates.
        split: "train" or "eval"; None for both.

    Raises:
        TaskError: there is no such source, a row is bad (the message names file, line and
            field), or the split is empty.
    """
    source = str(source)
    if split is not None and split not in SPLITS:
        raise TaskError(f"split: expected one of {', '.join(SPLITS)}; got {split!r}")
    tasks = tuple(task for task in _load(source, split) if split in (None, task.split))
    if not tasks:
        raise TaskError(f"{source}: no tasks in split {split!r}")
    return tasks


@lru_cache(maxsize=32)
def _load(source: str, split: str | None) -> tuple[Task, ...]:
    if source in BUNDLED:
        files = [_DATA / f"{source}_{name}.jsonl" for name in SPLITS if split in (None, name)]
        return tuple(task for file in files for task in read_jsonl(file))
    kind, *numbers = source.split(":")
    if kind in ("procedural", "procedural-mini"):
        return _generate(source, "mini" if kind.endswith("mini") else "full", numbers, split)
    path = Path(source)
    if source.startswith("hf://") or path.is_dir():
        from resume_gym.corpus import hub  # needs `datasets`

        return tuple(hub.load(source))
    if not path.is_file():
        known = ", ".join(BUNDLED)
        raise TaskError(
            f"tasks: expected {known}, procedural:SEED:COUNT, a JSONL file, a folder of datasets "
            f"or hf://OWNER/NAME; got {source!r}"
        )
    return tuple(read_jsonl(path))


def _generate(source: str, size: str, numbers: list[str], split: str | None) -> tuple[Task, ...]:
    from resume_gym.synthesis import generate_tasks  # the content bank is large

    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise TaskError(f"tasks: expected procedural:SEED:COUNT, got {source!r}")
    seed, count = map(int, numbers)
    splits = [split] if split else SPLITS
    return tuple(task for name in splits for task in generate_tasks(seed, count, name, size))


def read_jsonl(path: Path) -> list[Task]:
    """Tasks of a JSONL file.

    Raises:
        TaskError: a row is bad, or a task_id stands twice; names file, line and field.
    """
    tasks: dict[str, Task] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                task = Task.from_row(json.loads(line))
                if task.task_id in tasks:
                    raise TaskError(f"task_id: {task.task_id!r} stands twice")
            except (ValueError, RecursionError) as problem:
                raise TaskError(f"{path}, line {number}: {problem}") from None
            tasks[task.task_id] = task
    return list(tasks.values())


def write_jsonl(path: Path, tasks: list[Task]) -> None:
    """Write tasks as `read_jsonl` reads them."""
    rows = (json.dumps(task.to_row(), ensure_ascii=False) for task in tasks)
    text = "".join(row + "\n" for row in rows).encode()  # fails before the file is touched
    path.write_bytes(text)
