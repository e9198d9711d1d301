"""What a run has finished, on disk before it goes on: one JSON line a task, in their order.

The file can be cut off anywhere. A last line without its end is dropped when it is opened again.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from resume_gym.tasks import Task, TaskError

Row = dict[str, Any]
# lines of progress in all; tasks between two of them, at least and at most
_LINES, _OFTEN, _SELDOM = 20, 10, 100
_HEAD = b'{"settings": '


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

    One run at a time holds it, until `close`.

    Attributes:
        path: of the file.
        count: how many tasks are settled, made or skipped.
        failures: kind and message for each question without an answer, by its label.

    Args:
        path: the file; made if there is none.
        settings: what all rows are made with.

    Raises:
        TaskError: the file is of other settings, or no journal, or another run holds it.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.count = 0
        self.failures: dict[str, tuple[str, str]] = {}
        self._file = path.open("ab")
        try:
            self._open(settings)
        except BaseException:
            self.close()
            raise

    def _open(self, settings: Mapping[str, Any]) -> None:
        """Take hold of the file, and read what an earlier run left."""
        _lock(self._file, self.path)
        _repair(self.path)
        lines = _lines(self.path)
        head = next(lines, None)
        if head is None:
            self._write({"settings": dict(settings)})
        else:
            check_settings(self.path, head["settings"], settings)
        for line in lines:
            if "failure" in line:
                self.failures[line["failure"]] = (line["kind"], line["text"])
            self.count += "task" in line

    def close(self) -> None:
        """Let another run have the file."""
        self._file.close()

    def rows(self) -> Iterator[Row]:
        """The rows, in the order of the tasks."""
        return (line for line in _lines(self.path) if "task" in line)

    def append(self, row: Row) -> None:
        """Keep a row."""
        self._write(row)
        self.count += 1

    def fail(self, label: str, kind: str, text: str) -> None:
        """Keep that a question has no answer."""
        self.failures[label] = (kind, text)
        self._write({"failure": label, "kind": kind, "text": text})

    def _write(self, row: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


class Meter:
    """Progress on stderr: a bar on a terminal, elsewhere a line every so many tasks.

    Args:
        name: of what makes the tasks.
        out: the file of tasks.
        wanted: tasks.
        journal: how far it is.
    """

    def __init__(self, name: str, out: Path, wanted: int, journal: Journal) -> None:
        self._out, self._wanted, self._journal = out, wanted, journal
        self._every = min(_SELDOM, max(_OFTEN, wanted // _LINES))
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[cost]}"),
        )
        self._console = Console(stderr=True)
        disable = not self._console.is_terminal
        self._bar = Progress(*columns, console=self._console, transient=True, disable=disable)
        self._task = self._bar.add_task(name, total=wanted, completed=journal.count, cost="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, cost: str = "") -> None:
        """One more task is settled, and so much is paid."""
        self._bar.update(self._task, advance=1, cost=cost)
        done = self._journal.count
        if self._bar.disable and done % self._every == 0 and done < self._wanted:
            text = f"{self._out}: {done} of {self._wanted} tasks" + f", {cost}" * bool(cost)
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def made(rows: Iterable[Row]) -> Iterator[bytes]:
    """The lines of the file of tasks that rows of a journal make."""
    tasks = (row["task"] for row in rows if row.get("task"))
    return (json.dumps(task, ensure_ascii=False).encode() + b"\n" for task in tasks)


def is_made_of(out: Path, journal: Path) -> bool:
    """Whether a file of tasks is that of a journal, whose run was cut off in its last moments."""
    digest = hashlib.sha256()
    try:
        for line in made(_lines(journal)):
            digest.update(line)
    except (TaskError, OSError):
        return False
    return digest.hexdigest() == sha256(out)


def sha256(path: Path) -> str:
    """The digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lines(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
            except ValueError as problem:
                raise TaskError(f"{path}, line {number}: {problem}") from None
            if not isinstance(row, dict):
                raise TaskError(f"{path}, line {number}: expected an object")
            yield row


def check_settings(path: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Whether a file was made with the settings of this run.

    Raises:
        TaskError: it was not; names the first setting that differs.
    """
    # which settings there are depends on the generator
    names = sorted(there.keys() | here.keys(), key=lambda name: (name != "generator", name))
    for name in names:
        if there.get(name) != here.get(name):
            raise TaskError(
                f"{path} was made with {name} {there.get(name)!r}, not {here.get(name)!r}; "
                "choose another --out, or delete it"
            )


def _lock(file: BinaryIO, path: Path) -> None:
    """Hold a file as long as it is open.

    Raises:
        TaskError: another run does.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        held = False  # the file is gone when the other run has just finished
    if not held:
        raise TaskError(f"{path}: another run is at it; wait for its end, or choose another --out")


def _repair(path: Path) -> None:
    """Cut off a last line that was not written to its end.

    Raises:
        TaskError: the file is no journal.
    """
    with path.open("rb+") as file:
        if not _HEAD.startswith(file.read(len(_HEAD))):
            raise TaskError(f"{path}: expected what an earlier run left, got something else")
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
