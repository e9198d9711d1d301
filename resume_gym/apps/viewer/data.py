"""Folder of a run or an evaluation: table rows, single episodes, metrics and settings.

Rows stay in memory; episodes stay on disk and are read by byte offset. Folders may grow while they
are viewed: `Results.refresh` reads the new lines.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from resume_gym.apps.viewer import episode
from resume_gym.apps.viewer.rows import Row, make_row
from resume_gym.apps.viewer.tasks import Tasks, find_decoder, find_tasks
from resume_gym.tasks import TaskError

_PROBLEMS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Exceptions that malformed records of episodes raise."""


class UnreadableError(ValueError):
    """Raised for an episode whose record cannot be parsed."""


class _Place(NamedTuple):
    file: Path
    start: int
    length: int


class Results:
    """Contents of the folder of a run or an evaluation.

    Args:
        path: folder to read.

    Raises:
        TaskError: the folder holds neither, or its settings are invalid.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            is_inside = path.is_file() and (_is_run(path.parent) or _is_evaluation(path.parent))
            hint = f", did you mean its folder {str(path.parent)!r}?" if is_inside else ""
            raise TaskError(f"view: there is no folder {str(path)!r}{hint}")
        self.path = path
        self.is_run = _is_run(path)
        if not self.is_run and not _is_evaluation(path):
            raise TaskError(
                "view: expected a run (metrics.jsonl, trajectories) or an evaluation "
                f"(episodes.jsonl); {str(path)!r} has neither"
            )
        self.rows: list[Row] = []
        self._places: list[_Place] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._offsets: dict[Path, int] = {}
        self._unreadable = 0
        self._lock = Lock()
        self._settings = self._read_settings()
        env, source = (str(self._settings.get(name) or "") for name in ("env", "tasks"))
        self.tasks = find_tasks(env, source) if env else Tasks()
        self._decode: Callable[[int], str] | None = None

    def _read_settings(self) -> Mapping[str, Any]:
        if not self.is_run:  # evaluation.json is written at the end
            return _json(self.path / "evaluation.json") or _json(self.path / "settings.json")
        file = self.path / "config.toml"
        try:
            config = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
            # JSON has neither the infinities nor the dates of TOML
            return dict(json.loads(json.dumps(config, default=str), parse_constant=str))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
            raise TaskError(f"{file}: {problem}") from None

    def files(self) -> list[Path]:
        """Return the episode files, oldest first."""
        if self.is_run:
            folder = self.path / "trajectories"
            return sorted([*folder.glob("eval-*.jsonl"), *folder.glob("step-*.jsonl")])
        return [self.path / "episodes.jsonl"]

    def refresh(self, progress: Callable[[], object] = lambda: None) -> None:
        """Read the episodes added since the last call.

        Args:
            progress: callback after each file.
        """
        with self._lock:  # the server handles each request in a thread
            for file in self.files():
                self._extend(file)
                progress()

    def _extend(self, file: Path) -> None:
        start = self._offsets.get(file, 0)
        with file.open("rb") as opened:
            opened.seek(start)
            for line in opened:
                if not line.endswith(b"\n"):
                    break  # still being written, or cut short
                try:
                    self._add(file, _loads(line), _Place(file, start, len(line)))
                except _PROBLEMS:
                    self._unreadable += 1
                start += len(line)
        self._offsets[file] = start

    def _add(self, file: Path, record: Mapping[str, Any], place: _Place) -> None:
        found = re.search(r"(step|eval)-(\d+)", file.name) if self.is_run else None
        row = make_row(record, int(found[2]) if found else None, self.tasks)
        if found and found[1] == "eval":  # after that step, on held-out tasks
            row = row._replace(group=f"eval {row.group}", flags=("held-out", *row.flags))
        number = self._numbers.setdefault((row.agent, row.group, row.member), len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
            self._places.append(place)
        else:  # a later line replaces an earlier one: the episode was graded meanwhile
            self.rows[number], self._places[number] = row, place

    def record(self, number: int) -> dict[str, Any]:
        """Return the recorded episode of a row.

        Raises:
            IndexError: the number is out of range.
            UnreadableError: the file has changed since it was read.
        """
        if not 0 <= number < len(self._places):
            raise IndexError(number)
        file, start, length = self._places[number]
        with file.open("rb") as opened:
            opened.seek(start)
            line = opened.read(length)
        try:
            record: dict[str, Any] = _loads(line)
        except ValueError as problem:
            raise UnreadableError(f"{file}: has been changed since ({problem})") from None
        return record

    def episode(self, number: int) -> dict[str, Any]:
        """Return the data of the page for the episode of a row.

        Raises:
            IndexError: the number is out of range.
            UnreadableError: the record is invalid.
        """
        record = self.record(number)
        try:
            task_id = str(record["task_id"])
            task, original = self.tasks.by_id.get(task_id), self.tasks.original(task_id)
            data = episode.episode(record, task, original)
        except _PROBLEMS as problem:
            raise UnreadableError(f"{type(problem).__name__}: {problem}") from None
        return {**data, "has_tokens": bool(record.get("tokens"))}

    def tokens(self, number: int) -> dict[str, Any]:
        """Return the response tokens of an episode, with texts if the tokenizer is found."""
        tokens = self.record(number).get("tokens") or {}
        if self._decode is None:  # a running job may still write its tokenizer
            self._decode = find_decoder(self.path, str(self._settings.get("model") or ""))
        ids = tokens.get("response", [])
        return {
            "prompt": len(tokens.get("prompt", [])),
            "ids": ids,
            "texts": [self._decode(token) for token in ids] if self._decode else None,
            **{name: tokens.get(name, []) for name in ("sampled", "logprobs", "versions")},
        }

    def index(self) -> dict[str, Any]:
        """Return everything but the episodes themselves, as JSON values."""
        with self._lock:
            rows = [list(row) for row in self.rows]
        notes = [self.tasks.note] if self.tasks.note else []
        if self._unreadable:
            notes.append(f"{self._unreadable} lines of the files of episodes could not be read.")
        common = {
            "kind": "run" if self.is_run else "evaluation",
            "name": self.path.resolve().name,
            "columns": list(Row._fields),
            "rows": rows,
            "notes": notes,
        }
        return common | (self._of_run() if self.is_run else self._of_evaluation())

    def _of_run(self) -> dict[str, Any]:
        before, after = _json(self.path / "before.json"), _json(self.path / "after.json")
        between = {
            f"step {row.get('step')}": {name: row[name] for name in row if name != "step"}
            for row in _lines(self.path / "evaluations.jsonl")
            # the first and the last are the results before and after training, too
            if not any(result and result.items() <= row.items() for result in (before, after))
        }
        figures = {"before": before, **between, "after": after}
        journal = self.path / "journal.md"
        text = journal.read_text(encoding="utf-8", errors="replace") if journal.is_file() else ""
        return {
            "settings": self._settings,
            "metrics": [
                row
                for row in _lines(self.path / "metrics.jsonl")
                if isinstance(row.get("step"), int | float)
            ],
            "figures": {name: summary for name, summary in figures.items() if summary},
            "journal": [line[2:] for line in text.split("\n") if line.startswith("- ")],
        }

    def _of_evaluation(self) -> dict[str, Any]:
        self._settings = settings = self._read_settings()
        agents = {
            name: agent
            for name, agent in (settings.get("agents") or {}).items()
            if isinstance(agent, Mapping) and agent.get("summary")
        }
        separate = ("agents", "comparisons", "format")
        return {
            "settings": {name: value for name, value in settings.items() if name not in separate},
            "figures": {name: agent["summary"] for name, agent in agents.items()},
            "statistics": {
                name: {key: v for key, v in agent["statistics"].items() if key != "by_task"}
                for name, agent in agents.items()
                if agent.get("statistics")
            },
            "comparisons": settings.get("comparisons") or [],
            "metrics": [],
            "journal": [],
        }


def _is_run(folder: Path) -> bool:
    return (folder / "trajectories").is_dir() or (folder / "metrics.jsonl").is_file()


def _is_evaluation(folder: Path) -> bool:
    return (folder / "episodes.jsonl").is_file()


def _json(file: Path) -> dict[str, Any]:
    """Return the JSON object of a file; empty if the file does not exist yet.

    Raises:
        TaskError: the file holds no JSON object.
    """
    try:
        value = _loads(file.read_bytes()) if file.is_file() else {}
    except ValueError as problem:
        raise TaskError(f"{file}: {problem}") from None
    if not isinstance(value, dict):
        raise TaskError(f"{file}: expected an object, got {type(value).__name__}")
    return value


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSONL file; skip invalid lines and an incomplete last line."""
    if not file.is_file():
        return
    for line in file.read_bytes().split(b"\n")[:-1]:
        try:
            value = _loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def _loads(text: bytes) -> Any:
    """Parse JSON; NaN and infinities, which standard JSON lacks, become None."""
    return json.loads(text, parse_constant=lambda constant: None)
