"""Folder of a run or an evaluation: table rows, single episodes, metrics and settings.

Rows stay in memory; episodes stay on disk and are read by byte offset. Folders may grow while they
are viewed: `FolderContents.refresh` reads the new lines.
"""

import fcntl
import json
import math
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any

from resume_gym.apps.viewer import episode
from resume_gym.apps.viewer.rows import EpisodeRow, make_row
from resume_gym.apps.viewer.tasks import Tasks, find_tasks
from resume_gym.evaluation.estimator import by_task
from resume_gym.evaluation.stored import outdated, stored
from resume_gym.support.json_lines import check_regular, check_step, read_bytes, read_lines, unseal
from resume_gym.support.trust import FLAG, is_remembered
from resume_gym.support.user_errors import TaskError, number_of

_FIGURES = (
    *("metrics.jsonl", "evaluations.jsonl", "before.json", "after.json", "floor.json"),
    *("journal.md", "evaluation.json", "episodes.jsonl"),
)
"""Files that a running job writes, besides those in `trajectories`."""

_NAMED = 3  # maximum number of invalid lines or names quoted in a note

_PROBLEMS = (
    *(ValueError, LookupError, TypeError, AttributeError),
    *(RecursionError, ArithmeticError),
)
"""Exceptions that reading a malformed record of an episode may raise."""


_SILENT_S = 3600
"""Seconds without a write after which a job that holds its lock counts as stale."""


class UnreadableError(ValueError):
    """Raised for an episode whose record cannot be parsed."""


class FolderContents:
    """Contents of the folder of a run or an evaluation.

    Args:
        path: folder to read.
        trusted: whether to import any module and load any task source that the folder's settings
            name. A folder is always trusted if its job was started on this machine.

    Raises:
        TaskError: the folder is not that of a run or an evaluation, its settings are invalid, or
            the folder is not trusted and one of its files is a link that leads out of the folder.
    """

    def __init__(self, path: Path, trusted: bool = False) -> None:
        if not path.exists():
            raise TaskError(f"there is no folder {str(path)!r}")
        if not is_results(path):
            inside = path.is_file() and is_results(path.parent)
            hint = f"; did you mean its folder {str(path.parent)!r}?" if inside else ""
            raise TaskError(
                "expected the folder of a run (metrics.jsonl, trajectories) or of an evaluation "
                f"(episodes.jsonl); {str(path)!r} is neither{hint}"
            )
        self.path = path
        self.is_run = _is_run(path)
        self.kind = "run" if self.is_run else "evaluation"
        self.rows: list[EpisodeRow] = []
        self._places: list[tuple[Path, int, int]] = []  # file, start and length of each record
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._read: dict[Path, tuple[int, int]] = {}  # bytes and lines read so far, by file
        self._incomplete: set[Path] = set()
        self.unreadable: list[str] = []
        self._lock = Lock()
        self._trusted = trusted
        self.settings = self._read_settings()
        self._trusted = trusted or is_remembered(path, self.settings)

    @cached_property
    def tasks(self) -> Tasks:
        """Tasks of the environment; loaded on first access, since `Listing` needs no tasks."""
        env, source = (str(self.settings.get(name) or "") for name in ("env", "tasks"))
        return find_tasks(env, source, self._trusted) if env else Tasks()

    def _file(self, name: str) -> Path:
        """Return the path of a file in the folder; the file need not exist.

        Pipes are refused, since reading a pipe may never end. In an untrusted folder, links out
        of the folder are refused, too, since such a link could expose any file.
        """
        file = self.path / name
        check_regular(file)
        if not (self._trusted or file.resolve().is_relative_to(self.path.resolve())):
            raise TaskError(f"{file}: expected a file in the folder, got a link; see {FLAG}")
        return file

    def _read_settings(self) -> Mapping[str, Any]:
        if not self.is_run:  # evaluation.json is written at the end of the evaluation
            file = self._file("evaluation.json")
            settings = read_object(file) or read_object(self._file("settings.json"))
            try:
                for part in ("summary", "statistics"):
                    stored(settings, part)
            except ValueError as problem:
                raise TaskError(f"{file}: {problem}") from None
            return settings
        file = self._file("config.toml")
        text = read_bytes(file) if file.is_file() else b""
        try:
            config = tomllib.loads(text.decode())
            # convert TOML's infinities and dates, which JSON lacks, to strings
            return dict(json.loads(json.dumps(config, default=str), parse_constant=str))
        except (ValueError, RecursionError) as problem:
            raise TaskError(f"{file}: {problem}") from None

    @property
    def edition(self) -> object:
        """Value of `tasks.EDITION` recorded when the folder was written; 1 if none is recorded."""
        facts = read_object(self._file("facts.json")) if self.is_run else self.settings
        return facts.get("edition") or 1

    def files(self) -> list[Path]:
        """Return the sorted episode files; a run's files on held-out tasks ("eval-") come first."""
        if self.is_run:
            folder = self.path / "trajectories"
            found = sorted([*folder.glob("eval-*.jsonl"), *folder.glob("step-*.jsonl")])
            return [self._file(f"trajectories/{file.name}") for file in found]
        return [self._file("episodes.jsonl")]

    def version(self) -> str:
        """Return a string that changes when the folder's files change; no episode file is read."""
        sizes = [file.stat().st_size for file in self.files() if file.is_file()]
        return repr((stamp(self.path), len(sizes), sum(sizes), status(self.path)))

    def refresh(self, progress: Callable[[], object] = lambda: None) -> None:
        """Read the episodes that were added to the folder since the last call.

        Args:
            progress: callback that is called after each file of episodes.
        """
        with self._lock:  # the server handles each request in its own thread
            for file in self.files():
                self._extend(file)
                progress()

    def _extend(self, file: Path) -> None:
        start, number = self._read.get(file, (0, 0))
        self._incomplete.discard(file)
        for line in read_lines(file, start, whole=False):
            if not line.endswith(b"\n"):  # a job may still be writing this line
                self._incomplete.add(file)
                break
            number += 1
            try:
                self._add(file, _unseal(line), (file, start, len(line)))
            except _PROBLEMS as problem:
                told = f"{type(problem).__name__}: {problem}"
                self.unreadable.append(f"{file.name}, line {number}: {told:.200}")
            start += len(line)
        self._read[file] = start, number

    def _add(self, file: Path, record: Mapping[str, object], place: tuple[Path, int, int]) -> None:
        found = re.search(r"(step|eval)-(\d+)", file.name) if self.is_run else None
        row = make_row(record, int(found[2]) if found else None, self.tasks)
        if found and found[1] == "eval":  # eval-N.jsonl: held-out tasks after step N
            row = row._replace(group=f"eval {row.group}", flags=("held-out", *row.flags))
        number = self._numbers.setdefault((row.agent, row.group, row.member), len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
            self._places.append(place)
        else:  # an episode's later, graded line replaces its ungraded line
            self.rows[number], self._places[number] = row, place

    def record(self, number: int) -> dict[str, Any]:
        """Return the stored record of the episode in row `number`.

        Raises:
            IndexError: there is no row of this number.
            UnreadableError: the file of the episode has changed since `refresh`.
        """
        if not 0 <= number < len(self._places):
            raise IndexError(number)
        file, start, length = self._places[number]
        with unreadable(), file.open("rb") as opened:
            opened.seek(start)
            return _unseal(opened.read(length))

    def episode(self, number: int) -> dict[str, Any]:
        """Return the data that the page needs to show the episode in row `number`.

        Raises:
            IndexError: there is no row of this number.
            UnreadableError: the record of the episode is invalid.
        """
        record = self.record(number)
        with unreadable():
            task_id = str(record["task_id"])
            task, original = self.tasks.by_id.get(task_id), self.tasks.original(task_id)
            return sendable(episode.episode(record, task, original))

    def index(self) -> dict[str, Any]:
        """Return the rows, settings, metrics and summaries of the folder, as JSON values."""
        with self._lock:
            rows = [list(row) for row in self.rows]
        common = {
            "kind": self.kind,
            "name": self.path.resolve().name,
            "status": status(self.path),
            "columns": list(EpisodeRow._fields),
            "rows": rows,
            "system_prompt": self.tasks.system_prompt,
        }
        try:
            figures = self.figures()
            notes = [*filter(None, [self.tasks.note]), *self.damage(), *figures["notes"]]
            return sendable({**common, **figures, "notes": notes})
        except TaskError:
            raise
        except _PROBLEMS as problem:
            raise TaskError(f"{self.path}: {type(problem).__name__}: {problem}") from None

    def damage(self) -> list[str]:
        """Return notes on unreadable episodes, and on summaries that disagree with the episodes."""
        notes = []
        if self.unreadable:
            first = "; ".join(self.unreadable[:_NAMED])
            count = number_of(len(self.unreadable), "line")
            notes.append(f"{count} of the episode files could not be read: {first}.")
        notes += (f"The last line of {file.name} is incomplete." for file in self._incomplete)
        if not self.is_run:
            graded = ((row.task, row.agent, row.reward) for row in self.rows)
            rewards = by_task(
                (task, {agent: one}) for task, agent, one in graded if one is not None
            )
            notes += (f"evaluation.json: {told}." for told in outdated(self.settings, rewards))
        return notes

    def summary(self, when: str) -> dict[str, Any]:
        """Return held-out results: "before" or "after" training, or those of the agent "floor"."""
        return read_object(self._file(f"{when}.json"))

    def steps(self, name: str, notes: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the valid rows of a file with a line per step; append notes on invalid lines."""
        file = self._file(name)
        steps: set[int] = set()
        lines = read_lines(file, whole=False) if file.is_file() else ()
        for number, line in enumerate(lines, 1):
            try:
                row = _unseal(line)
                steps.add(check_step(row.get("step"), steps))
            except ValueError as problem:
                notes.append(f"{name}, line {number} is left out: {problem}.")
            else:
                yield row

    def figures(self) -> dict[str, Any]:
        """Return settings, metrics and summaries, as JSON values."""
        return self._of_run() if self.is_run else self._of_evaluation()

    def _of_run(self) -> dict[str, Any]:
        before, after, floor = map(self.summary, ("before", "after", "floor"))
        notes: list[str] = []
        metrics = list(self.steps("metrics.jsonl", notes))
        held_out = sorted(self.steps("evaluations.jsonl", notes), key=itemgetter("step"))
        last = max((row["step"] for row in metrics), default=0)
        for row in held_out:
            for when, result, step in (("before", before, 0), ("after", after, last)):
                wrong = [name for name in result if row.get(name, result[name]) != result[name]]
                if wrong and row["step"] == step:
                    told = f"{when}.json differs from evaluations.jsonl at step {step}"
                    notes.append(f"{told}: {', '.join(wrong[:_NAMED])}.")
        between = {
            f"step {row['step']}": {name: row[name] for name in row if name != "step"}
            for row in held_out
            # skip the first and the last evaluation, which before.json and after.json repeat
            if not any(result and result.items() <= row.items() for result in (before, after))
        }
        figures = {"before": before, **between, "after": after, "floor": floor}
        journal = self._file("journal.md")
        text = read_bytes(journal).decode(errors="replace") if journal.is_file() else ""
        return {
            "settings": self.settings,
            "metrics": metrics,
            "notes": notes,
            "figures": {name: summary for name, summary in figures.items() if summary},
            "journal": [line[2:] for line in text.split("\n") if line.startswith("- ")],
        }

    def _of_evaluation(self) -> dict[str, Any]:
        self.settings = settings = self._read_settings()
        separate = ("agents", "comparisons", "format")
        return {
            "settings": {name: value for name, value in settings.items() if name not in separate},
            "figures": stored(settings, "summary"),
            "statistics": stored(settings, "statistics"),
            "notes": [],
            "agents": list(settings.get("agents") or ()),
            "comparisons": settings.get("comparisons") or [],
            "metrics": [],
            "journal": [],
        }


@contextmanager
def unreadable() -> Iterator[None]:
    """Context manager that converts exceptions due to malformed records to UnreadableError."""
    try:
        yield
    except TaskError:
        raise
    except _PROBLEMS as problem:
        raise UnreadableError(f"{type(problem).__name__}: {problem}") from None


def is_results(folder: Path) -> bool:
    """Return whether a folder is that of a run or an evaluation."""
    return _is_run(folder) or (folder / "episodes.jsonl").is_file()


def stamp(folder: Path) -> tuple[int, int]:
    """Return the last write time (ns since 1970) and the total bytes of the files in `_FIGURES`.

    Both values are 0 if the folder has none of these files. No file is opened.
    """
    files = [file.stat() for name in _FIGURES if (file := folder / name).is_file()]
    return max((one.st_mtime_ns for one in files), default=0), sum(one.st_size for one in files)


def status(folder: Path) -> str:
    """Return the job's state: "running", "stale", "interrupted", "ended", or "" if unknown."""
    is_run = _is_run(folder)
    lock = folder / ("lock" if is_run else "episodes.jsonl")
    if _is_locked(lock):
        times = [file.lstat().st_mtime_ns for file in (folder / "trajectories").glob("*.jsonl")]
        silent_s = time.time() - max([*times, stamp(folder)[0]]) / 10**9
        return "stale" if silent_s > _SILENT_S else "running"
    if not lock.exists():  # imitation learning writes no lock file
        return ""
    last = folder / ("after.json" if is_run else "evaluation.json")
    return "ended" if last.is_file() else "interrupted"


def _is_locked(file: Path) -> bool:
    """Return whether a process holds the lock of a file, by trying to take a shared lock."""
    if not file.is_file() or file.is_symlink():
        return False
    with suppress(OSError), file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _is_run(folder: Path) -> bool:
    return (folder / "trajectories").is_dir() or (folder / "metrics.jsonl").is_file()


def read_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty dict if the file does not exist.

    Raises:
        TaskError: the file holds no JSON object.
    """
    text = read_bytes(file) if file.is_file() else b"{}"
    try:
        value = _loads(text)
    except ValueError as problem:
        raise TaskError(f"{file}: {problem}") from None
    if not isinstance(value, dict):
        raise TaskError(f"{file}: expected an object, got {type(value).__name__}")
    return value


def _unseal(line: bytes) -> dict[str, Any]:
    """Parse a line with or without a checksum; may raise the errors of `unseal` and `_loads`."""
    return unseal(line, required=False, loads=_loads)


def _loads(text: bytes) -> Any:
    """Parse JSON; NaN and infinities, which standard JSON lacks, become None.

    Raises:
        ValueError: the text is not JSON, is nested too deeply or has a number that overflows.
    """
    try:
        return json.loads(text, parse_constant=lambda constant: None, parse_float=_finite)
    except RecursionError:
        raise ValueError("expected less deeply nested JSON") from None


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"expected a finite number, got {text}")
    return number


def sendable(value: dict[str, object]) -> dict[str, Any]:
    """Return the value unchanged; raise RecursionError if it is too deeply nested for JSON."""
    json.dumps([[[[value]]]])  # nest the value more deeply than any response does
    return value
