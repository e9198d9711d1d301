"""Folder of a run or an evaluation: table rows, single episodes, metrics and settings.

Rows stay in memory; episodes stay on disk and are read by byte offset. Folders may grow while they
are viewed: `FolderContents.refresh` reads the new lines.
"""

import json
import re
import secrets
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any

from resume_gym.apps.viewer import episode
from resume_gym.apps.viewer.rows import EpisodeRow, env_of, make_row
from resume_gym.apps.viewer.tasks import Tasks, tasks_by_env
from resume_gym.evaluation.estimator import by_task
from resume_gym.evaluation.stored import outdated, stored
from resume_gym.folders.jobs import RUN, job_of, stamp, status
from resume_gym.folders.reader import INCOMPLETE, FolderReader, GrowingFile
from resume_gym.support.json_lines import check_step, unseal
from resume_gym.support.trust import is_remembered
from resume_gym.support.user_errors import TaskError, number_of

_NAMED = 3  # maximum number of invalid lines or names quoted in a note

_PROBLEMS = (
    *(ValueError, LookupError, TypeError, AttributeError),
    *(RecursionError, ArithmeticError),
)
"""Exceptions that reading a malformed record of an episode may raise."""


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
        job = job_of(path)
        if job is None:
            inside = path.is_file() and job_of(path.parent)
            hint = f"; did you mean its folder {str(path.parent)!r}?" if inside else ""
            raise TaskError(
                "expected the folder of a run (metrics.jsonl, trajectories) or of an evaluation "
                f"(episodes.jsonl); {str(path)!r} is neither{hint}"
            )
        self.path = path
        self.is_run = job == RUN
        self.kind = job.kind
        self._lock = Lock()
        self._reader = FolderReader(path, trusted)
        self.settings = self._read_settings()
        self._reader.trusted = trusted or is_remembered(path, self.settings)
        self._forget()

    def _forget(self) -> None:
        """Forget all episodes, to read them anew."""
        self.rows: list[EpisodeRow] = []
        self.unreadable: list[str] = []
        self._places: list[tuple[Path, int, int]] = []  # file, start and length of each record
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._growing: dict[Path, GrowingFile] = {}
        self._changed: list[int] = []  # row number of each line that was read
        self._name = secrets.token_hex(8)

    @cached_property
    def tasks(self) -> Mapping[str, Tasks]:
        """Tasks by environment, see `tasks_by_env`; loaded at the first access."""
        env, source = (str(self.settings.get(name) or "") for name in ("env", "tasks"))
        return tasks_by_env(env, source, self._reader.trusted)

    def _tasks_of(self, record: Mapping[str, Any]) -> Tasks:
        return self.tasks.get(env_of(record), Tasks())

    def _read_settings(self) -> Mapping[str, Any]:
        if not self.is_run:  # evaluation.json is written at the end of the evaluation
            settings = self._reader.object("evaluation.json")
            settings = settings or self._reader.object("settings.json")
            try:
                for part in ("summary", "statistics"):
                    stored(settings, part)
            except ValueError as problem:
                raise TaskError(f"{self.path / 'evaluation.json'}: {problem}") from None
            return settings
        text = self._reader.content("config.toml") or b""
        try:
            config = tomllib.loads(text.decode())
            # convert TOML's infinities and dates, which JSON lacks, to strings
            return dict(json.loads(json.dumps(config, default=str), parse_constant=str))
        except (ValueError, RecursionError) as problem:
            raise TaskError(f"{self.path / 'config.toml'}: {problem}") from None

    @property
    def edition(self) -> object:
        """Value of `tasks.EDITION` recorded when the folder was written; 1 if none is recorded."""
        facts = self._reader.object("facts.json") if self.is_run else self.settings
        return facts.get("edition") or 1

    def files(self) -> list[Path]:
        """Return the sorted episode files; a run's files on held-out tasks ("eval-") come first."""
        if self.is_run:
            folder = self.path / "trajectories"
            found = sorted([*folder.glob("eval-*.jsonl"), *folder.glob("step-*.jsonl")])
            return [self._reader.file(f"trajectories/{file.name}") for file in found]
        return [self._reader.file("episodes.jsonl")]

    def version(self) -> str:
        """Return a string that changes when the folder's files change; no episode file is read."""
        found = [file.stat() for file in self.files() if file.is_file()]
        written = max((one.st_mtime_ns for one in found), default=0)
        sizes = len(found), sum(one.st_size for one in found), written
        return repr((stamp(self.path), sizes, status(self.path)))

    def refresh(self, progress: Callable[[], object] = lambda: None) -> None:
        """Read the episodes added since the last call; if files were rewritten, read all again.

        Args:
            progress: callback that is called after each file of episodes.
        """
        with self._lock:  # the server handles each request in its own thread
            if any(file.is_rewritten() for file in self._growing.values()):
                self._forget()
            for file in self.files():
                self._extend(self._growing.setdefault(file, GrowingFile(file)))
                progress()

    def _extend(self, growing: GrowingFile) -> None:
        for line in growing.read():
            if line.problem == INCOMPLETE:
                continue
            told = line.problem
            if not told:
                try:
                    self._add(growing.file, line.record, (growing.file, line.start, line.length))
                except _PROBLEMS as problem:
                    told = f"{type(problem).__name__}: {problem}"
            if told:
                self.unreadable.append(f"{growing.file.name}, line {line.number}: {told:.200}")

    def _add(self, file: Path, record: Mapping[str, object], place: tuple[Path, int, int]) -> None:
        found = re.search(r"(step|eval)-(\d+)", file.name) if self.is_run else None
        row = make_row(record, int(found[2]) if found else None, self._tasks_of(record))
        if found and found[1] == "eval":  # eval-N.jsonl: held-out tasks after step N
            row = row._replace(group=f"eval {row.group}", flags=("held-out", *row.flags))
        number = self._numbers.setdefault((row.agent, row.group, row.member), len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
            self._places.append(place)
        else:  # an episode's later, graded line replaces its ungraded line
            self.rows[number], self._places[number] = row, place
        self._changed.append(number)

    def line(self, number: int) -> bytes:
        """Return the stored line of the episode in row `number`.

        Raises:
            IndexError: there is no row of this number.
        """
        if not 0 <= number < len(self._places):
            raise IndexError(number)
        file, start, length = self._places[number]
        with file.open("rb") as opened:
            opened.seek(start)
            return opened.read(length)

    def record(self, number: int) -> dict[str, Any]:
        """Return the stored record of the episode in row `number`.

        Raises:
            IndexError: there is no row of this number.
            UnreadableError: the file of the episode has changed since `refresh`.
        """
        line = self.line(number)
        with unreadable():
            record = unseal(line, required=False)
            if str(record["task_id"]) != self.rows[number].task:
                raise ValueError("the file of the episode has changed")
            return record

    def episode(self, number: int) -> dict[str, Any]:
        """Return the data that the page needs to show the episode in row `number`.

        Raises:
            IndexError: there is no row of this number.
            UnreadableError: the record of the episode is invalid.
        """
        record = self.record(number)
        with unreadable():
            tasks, task = self._tasks_of(record), None
            with suppress(KeyError):
                task = tasks.find(str(record["task_id"]))
            return sendable(episode.episode(record, task))

    @property
    def seen(self) -> str:
        """Identifier of the rows that have been read, to pass to a later call of `index`."""
        return f"{self._name}-{len(self._changed)}"

    def index(self, seen: str = "") -> dict[str, Any]:
        """Return the rows, settings, metrics and summaries of the folder, as JSON values.

        Each row begins with its number.

        Args:
            seen: earlier value of the property `seen`. Rows that have not changed since are left
                out, and `continues` is true. If `refresh` has read all rows again since, all rows
                are returned, and `continues` is false.
        """
        with self._lock:
            name, _, count = seen.partition("-")
            since = int(count) if name == self._name and re.fullmatch(r"\d{1,9}", count) else 0
            numbers = sorted({*self._changed[since:]})
            rows = [[number, *self.rows[number]] for number in numbers]
        common = {
            "kind": self.kind,
            "name": self.path.resolve().name,
            "status": status(self.path),
            "columns": ["number", *EpisodeRow._fields],
            "rows": rows,
            "continues": since > 0,
            "system_prompts": {env: tasks.system_prompt for env, tasks in self.tasks.items()},
        }
        try:
            figures = self.figures()
            told = filter(None, (tasks.note for tasks in self.tasks.values()))
            notes = [*told, *self.damage(), *figures["notes"]]
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
        cut = [file.name for file, growing in self._growing.items() if growing.incomplete]
        notes += (f"The last line of {name} is incomplete." for name in cut)
        if not self.is_run:
            graded = ((row.task, row.agent, row.reward) for row in self.rows)
            rewards = by_task(
                (task, {agent: one}) for task, agent, one in graded if one is not None
            )
            notes += (f"evaluation.json: {told}." for told in outdated(self.settings, rewards))
        return notes

    def summary(self, when: str) -> dict[str, Any]:
        """Return held-out results; `when` is "before", "after", or "floor" for the agent."""
        return self._reader.object(f"{when}.json")

    def steps(self, name: str, notes: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the valid rows of a file with a line per step; append notes on invalid lines."""
        steps: set[int] = set()
        for line in self._reader.lines(name):
            problem = line.problem
            try:
                steps.add(check_step(line.record.get("step"), steps))
            except ValueError as wrong:
                problem = problem or str(wrong)
            if problem:
                notes.append(f"{name}, line {line.number} is left out: {problem}.")
            else:
                yield line.record

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
                if not result or row["step"] != step:
                    continue
                wrong = [name for name in result if row.get(name, result[name]) != result[name]]
                if wrong:
                    told = f"{when}.json differs from evaluations.jsonl at step {step}"
                    notes.append(f"{told}: {', '.join(wrong[:_NAMED])}.")
                # only evaluations.jsonl has the figures of each environment
                result |= {name: row[name] for name in row if "/" in name}
        between = {
            f"step {row['step']}": {name: row[name] for name in row if name != "step"}
            for row in held_out
            # skip the first and the last evaluation, which before.json and after.json repeat
            if not any(result and result.items() <= row.items() for result in (before, after))
        }
        figures = {"before": before, **between, "after": after, "floor": floor}
        text = (self._reader.content("journal.md") or b"").decode(errors="replace")
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


def sendable(value: dict[str, object]) -> dict[str, Any]:
    """Return the value unchanged; raise RecursionError if it is too deeply nested for JSON."""
    json.dumps([[[[value]]]])  # nest the value more deeply than any response does
    return value
