"""What a run has finished, on disk before it goes on: one JSON line a task, in their order.

The file can be cut off anywhere. A last line without its end is dropped when it is opened again.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from resume_gym.tasks import Task, TaskError

Row = dict[str, Any]


def settled(
    task_id: str,
    task: Task | None,
    attempts: int = 1,
    faults: Mapping[str, int] | None = None,
    reason: str = "",
) -> Row:
    """The row of a task that was made, or skipped for a reason."""
    return {
        "task_id": task_id,
        "task": task.to_row() if task else None,
        "attempts": attempts,
        "faults": dict(faults or {}),
        "reason": reason,
    }


class Journal:
    """A file of rows for tasks (`settled`), and of questions that have no answer.

    Attributes:
        path: of the file.
        count: how many tasks are settled, made or skipped.
        failures: kind and message for each question without an answer, by its label.

    Args:
        path: the file; made if there is none.
        settings: what all rows are made with.

    Raises:
        TaskError: the file is of other settings, or no journal.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.count = 0
        self.failures: dict[str, tuple[str, str]] = {}
        if path.exists():
            _repair(path)
        lines = self._lines()
        head = next(lines, None)
        if head is None:
            self._write({"settings": dict(settings)})
        elif "settings" not in head:
            raise TaskError(f"{path}: expected what an earlier run left, got something else")
        else:
            check_settings(path, head["settings"], settings)
        for line in lines:
            if "failure" in line:
                self.failures[line["failure"]] = (line["kind"], line["text"])
            self.count += "task" in line

    def rows(self) -> Iterator[Row]:
        """The rows, in the order of the tasks."""
        return (line for line in self._lines() if "task" in line)

    def append(self, row: Row) -> None:
        """Keep a row."""
        self._write(row)
        self.count += 1

    def fail(self, label: str, kind: str, text: str) -> None:
        """Keep that a question has no answer."""
        self.failures[label] = (kind, text)
        self._write({"failure": label, "kind": kind, "text": text})

    def _lines(self) -> Iterator[Row]:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield json.loads(line)
                except ValueError as problem:
                    raise TaskError(f"{self.path}, line {number}: {problem}") from None

    def _write(self, row: Mapping[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def check_settings(path: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Whether a file was made with the settings of this run.

    Raises:
        TaskError: it was not; names the first setting that differs.
    """
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            raise TaskError(
                f"{path} was made with {name} {there.get(name)!r}, not {here.get(name)!r}; "
                "choose another --out, or delete it"
            )


def write_whole(path: Path, chunks: Iterator[bytes]) -> None:
    """Write a file that is either there in full or not at all."""
    part = path.with_name(f"{path.name}.new")
    with part.open("wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _repair(path: Path) -> None:
    """Cut off a last line that was not written to its end."""
    with path.open("rb+") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 65536)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < size:
            file.truncate(end)
