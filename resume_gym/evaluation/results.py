"""Output folder of an evaluation; an interrupted evaluation continues from its folder.

`settings.json` is written first. `episodes.jsonl` receives a line as each episode ends; if an
episode has several lines, only the last counts. `evaluation.json`, written last, holds statistics.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from resume_gym.episode.editing import AnySession
from resume_gym.episode.tasks import Task
from resume_gym.evaluation.records import COUNTS, counts
from resume_gym.folders.jobs import EVALUATION
from resume_gym.folders.reader import INCOMPLETE, FolderReader
from resume_gym.folders.writer import FolderWriter
from resume_gym.judges import plain_spec
from resume_gym.support.json_lines import parse
from resume_gym.support.user_errors import TaskError

Key = tuple[str, str, int]
"""Key of an episode: agent, task id, rollout."""
RECORD_ERRORS = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError),
    *(RuntimeError, TypeError, ValueError),
)
"""Exceptions that the replay of an invalid record may raise."""
_CHECKED = (*COUNTS, "weakness", "score", "ledger", "graded")


def row_of(
    agent: str, rollout: int, session: AnySession, failure: str = "", **more: object
) -> dict[str, Any]:
    """Return the content of an episode's line in `episodes.jsonl`.

    Args:
        agent: name of the agent.
        rollout: index of the episode among those of its task.
        session: session of the episode, possibly unfinished or without a verdict.
        failure: error message of a failed episode, else empty.
        more: further values of the line; empty values are left out.
    """
    record = session.record()
    row = {
        "agent": agent,
        "rollout": rollout,
        "weakness": session.task.weakness,
        "score": session.score if record["graded"] else None,
        **counts(session),
        **record,
    }
    return row | {name: value for name, value in {"failure": failure, **more}.items() if value}


def check_row(row: Mapping[str, Any], session: AnySession, rollouts: int) -> None:
    """Check that a replay of an episode's actions gives the figures in the episode's line.

    Args:
        row: line of the episode in `episodes.jsonl`.
        session: session replayed from the actions in the line.
        rollouts: number of episodes of each task.

    Raises:
        KeyError: a figure is missing.
        ValueError: the rollout or failure is invalid, or a figure differs in value or type.
    """
    if type(row["rollout"]) is not int or row["rollout"] not in range(rollouts):
        raise ValueError(f"rollout: expected 0 to {rollouts - 1}, got {row['rollout']!r:.40}")
    if not isinstance(row.get("failure", ""), str):
        raise ValueError(f"failure: expected text, got {row['failure']!r:.40}")
    for name, value in row_of(row["agent"], row["rollout"], session).items():
        if name in _CHECKED and json.dumps(row[name]) != json.dumps(value):
            raise ValueError(f"{name}: expected the replay's {value!r:.40}, got {row[name]!r:.40}")


def digest(tasks: Sequence[Any]) -> str:
    """Return a short hash of the contents of tasks, which are `Task`s or other dataclasses."""
    values = [task.to_row() if isinstance(task, Task) else asdict(task) for task in tasks]
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def choose(tasks: Sequence[Any], limit: int | None) -> Sequence[Any]:
    """Choose at most `limit` tasks by hashes of their ids, independently of seed and order.

    A higher limit chooses all tasks of a lower limit, and more.
    """
    order = sorted(tasks, key=lambda task: hashlib.sha256(repr(task.task_id).encode()).digest())
    chosen = {task.task_id for task in order[:limit]}
    return [task for task in tasks if task.task_id in chosen]


class Results:
    """Writer of an evaluation's folder; as a context manager, it locks the folder.

    Args:
        folder: output folder, created if missing.
        settings: settings of the evaluation as JSON values. If the folder already holds an
            evaluation, the settings may only add agents or rollouts to it, or raise its limit.
        tasks: tasks of the evaluation, at most as many as the setting `limit`.

    Attributes:
        is_new: whether the folder held no evaluation when the context was entered.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, object], tasks: Sequence[object] = ()
    ) -> None:
        self.folder = folder
        self._reader, self._writer = FolderReader(folder), FolderWriter(folder)
        # convert tuples to lists, so that the settings can be compared with stored JSON
        self._settings: dict[str, Any] = json.loads(json.dumps(settings))
        self._tasks = tasks
        self.is_new = False
        self._lock = ExitStack()

    def __enter__(self) -> Self:
        """Lock the output folder and write `settings.json`.

        Raises:
            OSError: the folder cannot be written.
            TaskError: the folder holds a training run, another evaluation, or results without
                `settings.json`; or another process has locked the folder.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._check()
        with ExitStack() as locked:
            locked.enter_context(self._writer.lock(EVALUATION.lock, signed=False))
            self._check()  # another process may have written before the lock was taken
            self._writer.mend(EVALUATION.lock)
            self.is_new = not (self.folder / "settings.json").exists()
            self._writer.replace("settings.json", json.dumps(self._settings, indent=1) + "\n")
            self._lock = locked.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def _check(self) -> None:
        """Check that the folder is unused or holds an evaluation with matching settings."""
        file, made = self.folder / "settings.json", (*EVALUATION.files, EVALUATION.last)
        for name in (file.name, *made):
            self._reader.file(name)
        if (self.folder / "metrics.jsonl").exists():
            # the commands `plot` and `view` show a folder with `metrics.jsonl` as a training run
            raise TaskError(f"{self.folder} holds a training run; choose another folder")
        content = self._reader.content(file.name)
        if content is None:
            for name in made:
                # an empty file is left by a process that was killed before it wrote the settings
                if (self.folder / name).exists() and (self.folder / name).stat().st_size:
                    raise TaskError(f"{self.folder} holds {name}, but no settings.json")
            return
        try:
            before = parse(content)
            changed = _differences(before, self._limited(before.get("limit")))
        except (ValueError, TypeError, AttributeError, KeyError) as problem:
            message = f"expected settings of an evaluation: {type(problem).__name__}: {problem}"
            raise TaskError(f"{file}: {message}") from None
        if changed:
            message = f"{self.folder} holds another evaluation: {', '.join(changed)}"
            raise TaskError(f"{message}; choose another folder")

    def _limited(self, limit: int | None) -> Mapping[str, Any]:
        """Return the settings, with their limit on tasks reduced to `limit` if `limit` is lower."""
        now = self._settings.get("limit")
        if limit is None or (now is not None and now <= limit):
            return self._settings
        lower = {"limit": limit, "tasks_digest": digest(choose(self._tasks, limit))}
        return {**self._settings, **lower}

    def append(self, row: Mapping[str, object]) -> None:
        """Append the line of an episode, graded or failed."""
        self._writer.append_row("episodes.jsonl", row)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the last line of each episode, in file order."""
        # read the file twice, so that memory holds only line numbers, not all lines
        last: dict[Key, int] = {}
        for number, row in self._lines():
            last[key_of(row)] = number
        for number, row in self._lines():
            if last[key_of(row)] == number:
                yield row

    def _lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        # lines of earlier versions have no checksum; a replay checks all but the verdict
        for line in self._reader.lines("episodes.jsonl"):
            if line.problem == INCOMPLETE:
                continue
            problem = line.problem
            try:
                hash(key_of(line.record))
            except (KeyError, TypeError) as error:
                problem = problem or f"{type(error).__name__}: {error}"
            if problem:
                place = f"{self.folder / 'episodes.jsonl'}, line {line.number}"
                raise TaskError(f"{place}: expected an episode: {problem}")
            yield line.number, line.record

    def finish(self, evaluation: Mapping[str, object]) -> None:
        """Write the results of an evaluation and the current time to `evaluation.json`."""
        created = {"created": datetime.now(UTC).isoformat(timespec="seconds")}
        text = json.dumps({**evaluation, **created}, indent=1, ensure_ascii=False, allow_nan=False)
        self._writer.replace(EVALUATION.last, text + "\n")


def key_of(row: Mapping[str, Any]) -> Key:
    """Return the unique key of an episode from its line."""
    return row["agent"], row["task_id"], row["rollout"]


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    apart = ("agents", "rollouts", "tasks_digest")
    names = [name for name in {**before, **now} if name not in apart]
    differences = [
        f"{name} was {before.get(name)!r}, is now {now.get(name)!r}"
        for name in names
        if plain_spec(before.get(name)) != plain_spec(now.get(name))
    ]
    if not differences and before.get("tasks_digest") != now.get("tasks_digest"):
        differences.append(f"the content of the tasks {now.get('tasks')!r} has changed")
    if before["rollouts"] > now["rollouts"]:
        fewer = f"rollouts was {before['rollouts']}, is now {now['rollouts']}, but may only grow"
        differences.append(fewer)
    agents = now["agents"]
    for name, spec in before["agents"].items():
        if name not in agents:
            differences.append(f"it has the agent {name!r}, which this command lacks")
        elif plain_spec(agents[name]) != plain_spec(spec):
            differences.append(f"agent {name!r} was {spec!r}, is now {agents[name]!r}")
    return differences
