"""The journal of a generation run, a JSONL file with a row per task, and its progress display.

Each row is synced to disk before the run continues. `Journal` drops an incomplete last line, left
by a crash, when it opens the file.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from resume_gym.tasks import Task, TaskError
from resume_gym.terminal import Terminal

Row = dict[str, Any]
# Target number of progress lines; minimum and maximum number of tasks between two.
_LINES, _OFTEN, _SELDOM = 20, 10, 100
_HEAD = b'{"settings": '


def settled(
    task_id: str,
    task: Task | None,
    attempts: int = 1,
    faults: Mapping[str, int] | None = None,
    reason: str = "",
) -> Row:
    """Return the journal row of a task that was made, or skipped if it is None."""
    return {
        "task_id": task_id,
        "task": task.to_row() if task else None,
        "attempts": attempts,
        "faults": dict(faults or {}),
        "reason": reason,
    }


class Journal:
    """A file of task rows (`settled`) and permanently failed requests, locked until `close`.

    Attributes:
        path: Path of the file.
        count: Number of settled tasks, made or skipped.
        failures: Error kind and message of each failed request, by label.

    Args:
        path: Path of the file; created if missing.
        settings: Settings of the run.

    Raises:
        TaskError: The file has other settings, is no journal, or is locked by another run.
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
        """Lock the file and load the state that an earlier run left."""
        # Without the lock, the repair could truncate a line that another run is writing.
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
        """Close the file and release its lock."""
        self._file.close()

    def rows(self) -> Iterator[Row]:
        """Return an iterator over the task rows, in task order."""
        return (line for line in _lines(self.path) if "task" in line)

    def append(self, row: Row) -> None:
        """Append a task row."""
        self._write(row)
        self.count += 1

    def fail(self, label: str, kind: str, text: str) -> None:
        """Record a permanently failed request."""
        self.failures[label] = (kind, text)
        self._write({"failure": label, "kind": kind, "text": text})

    def _write(self, row: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


class Meter:
    """Progress display on stderr: a bar on a terminal, otherwise a line every 10 to 100 tasks."""

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
        self._console = Terminal(stderr=True)
        disable = not self._console.is_terminal
        self._bar = Progress(*columns, console=self._console, transient=True, disable=disable)
        self._task = self._bar.add_task(name, total=wanted, completed=journal.count, cost="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, cost: str = "") -> None:
        """Show that one more task is settled, with the total cost so far."""
        self._bar.update(self._task, advance=1, cost=cost)
        done = self._journal.count
        if self._bar.disable and done % self._every == 0 and done < self._wanted:
            text = f"{self._out}: {done} of {self._wanted} tasks" + f", {cost}" * bool(cost)
            self._console.print(text, highlight=False, soft_wrap=True)


def made(rows: Iterable[Row]) -> Iterator[bytes]:
    """Convert journal rows to lines of the corpus, without skipped tasks."""
    tasks = (row["task"] for row in rows if row.get("task"))
    return (json.dumps(task, ensure_ascii=False).encode() + b"\n" for task in tasks)


def is_made_of(out: Path, journal: Path) -> bool:
    """Return whether a corpus equals its journal: the run died before it wrote the manifest."""
    digest = hashlib.sha256()
    try:
        for line in made(_lines(journal)):
            digest.update(line)
    except (TaskError, OSError):
        return False
    return digest.hexdigest() == sha256(out)


def sha256(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal."""
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
    """Check that a file was made with the settings of this run.

    Raises:
        TaskError: A setting differs; the message names the first one.
    """
    # Compare the generator first: the other settings depend on it.
    names = sorted(there.keys() | here.keys(), key=lambda name: (name != "generator", name))
    for name in names:
        if there.get(name) != here.get(name):
            raise TaskError(
                f"{path} was made with {name} {there.get(name)!r}, not {here.get(name)!r}; "
                "choose another --out, or delete it"
            )


def _lock(file: BinaryIO, path: Path) -> None:
    """Lock a file until it is closed; raise TaskError if another run holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Meanwhile the path may name another file than the open one.
        held = os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        held = False  # FileNotFoundError: another run has just finished and deleted the file
    if not held:
        raise TaskError(f"{path}: another run is at it; wait for its end, or choose another --out")


def _repair(path: Path) -> None:
    """Truncate an incomplete last line; raise TaskError if the file is not a journal."""
    with path.open("rb+") as file:
        # A run that died in its first write leaves a prefix of the head.
        if not _HEAD.startswith(file.read(len(_HEAD))):
            raise TaskError(f"{path}: expected what an earlier run left, got something else")
        size = end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            file.truncate(end)
