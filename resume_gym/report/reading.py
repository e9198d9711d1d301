"""What the pictures are drawn from, read from the folder of a run or of an evaluation."""

import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_gym.rewards import components
from resume_gym.tasks import TaskError

_SETTINGS = ("env", "rules", "tasks", "split", "judge")


@dataclass(frozen=True)
class Run:
    """The folder of a training run.

    Attributes:
        title: its name and model.
        metrics: the figures of each step, oldest first.
        summaries: the figures on held-out tasks, of those of `before` and `after` that there are.
    """

    title: str
    metrics: Sequence[Mapping[str, float]]
    summaries: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Played:
    """One graded episode of an evaluation.

    Attributes:
        agent: who played it.
        task_id: the task.
        weakness: what kind of task it is; empty if there are no kinds.
        reward: of the episode.
        parts: of the reward: tool syntax, layout, content; empty without a ledger.
        turns: actions taken; None if they are not recorded.
        words: that the agent wrote in its actions; None likewise.
    """

    agent: str
    task_id: str
    weakness: str
    reward: float
    parts: Mapping[str, float]
    turns: int | None
    words: int | None


@dataclass(frozen=True)
class Evaluation:
    """One or several folders of evaluations.

    Attributes:
        title: the environment and who judged, where known.
        agents: with at least one graded episode, in the order in which they were given.
        episodes: that were graded.
        failed: episodes that could not be graded, and are in no figure.
        differing: settings that the folders do not share, so that they do not compare well.
    """

    title: str
    agents: tuple[str, ...]
    episodes: Sequence[Played]
    failed: int
    differing: tuple[str, ...]

    @property
    def note(self) -> str:
        """What a reader of the figures must know; mostly nothing."""
        told = [f"{self.failed} episodes could not be graded and are left out."] * bool(self.failed)
        if self.differing:
            told.append(f"The evaluations differ in: {', '.join(self.differing)}.")
        return " ".join(told)

    def of(self, agent: str) -> list[Played]:
        """The episodes of one agent."""
        return [one for one in self.episodes if one.agent == agent]


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, not an evaluation.

    Raises:
        TaskError: it holds neither, or is no folder.
    """
    if (folder / "metrics.jsonl").is_file():
        return True
    if (folder / "episodes.jsonl").is_file():
        return False
    what = "has neither metrics.jsonl nor episodes.jsonl"
    raise TaskError(
        f"{folder}: expected the folder of a run or an evaluation; "
        f"{f'it {what}' if folder.is_dir() else 'there is no such folder'}"
    )


def read_run(folder: Path) -> Run:
    """Read a run, also one that still goes on.

    Raises:
        OSError: a file cannot be read.
        TaskError: a file is not what a run writes.
    """
    metrics = list(_rows(folder / "metrics.jsonl", _figures))
    if not metrics:
        raise TaskError(f"{folder}: the run has not finished a step yet")
    config = folder / "config.toml"
    name = folder.resolve().name
    if config.is_file():
        try:
            model = tomllib.loads(config.read_text(encoding="utf-8")).get("model", "")
        except ValueError as problem:
            raise TaskError(f"{config}: {problem}") from None
        name = f"{name} (model: {Path(str(model)).name})" if model else name
    summaries = {
        when: _object(folder / f"{when}.json")
        for when in ("before", "after")
        if (folder / f"{when}.json").is_file()
    }
    return Run(name, metrics, summaries)


def read_evaluations(folders: Sequence[Path]) -> Evaluation:
    """Read evaluations as one; an agent that is in several is named with its folder.

    Raises:
        OSError: a file cannot be read.
        TaskError: a file is not what an evaluation writes, or nothing was graded.
    """
    settings = [_settings(folder) for folder in folders]
    rows = [
        # the later of two lines on one episode counts: it has been played or graded since
        {_key(row): row for row in _rows(folder / "episodes.jsonl", _episode)}
        for folder in folders
    ]
    times = Counter(agent for one in rows for agent in {agent for agent, _, _ in one})
    episodes: list[Played] = []
    for folder, about, found in zip(folders, settings, rows, strict=True):
        own = dict.fromkeys([*about.get("agents", ()), *(agent for agent, _, _ in found)])
        for agent in own:
            name = f"{agent} ({folder.resolve().name})" if times[agent] > 1 else agent
            graded = [row for key, row in found.items() if key[0] == agent and row["graded"]]
            episodes += [_played(name, row) for row in graded]
    if not episodes:
        raise TaskError(f"{', '.join(map(str, folders))}: no episode has been graded")
    return Evaluation(
        title=_title(folders, settings),
        agents=tuple(dict.fromkeys(one.agent for one in episodes)),
        episodes=episodes,
        failed=sum(map(len, rows)) - len(episodes),
        differing=tuple(
            name for name in _SETTINGS if len({json.dumps(one.get(name)) for one in settings}) > 1
        ),
    )


def _settings(folder: Path) -> Mapping[str, Any]:
    """What an evaluation is about, also while it is played; nothing of single episodes."""
    file = folder / "settings.json"
    return _object(file) if file.is_file() else {}


def _title(folders: Sequence[Path], settings: Sequence[Mapping[str, Any]]) -> str:
    told = {
        name: " / ".join(dict.fromkeys(str(one[name]) for one in settings if one.get(name)))
        for name in ("env", "judge")
    }
    judge = f", judge: {told['judge']}" if told["judge"] else ""
    return f"{told['env'] or folders[0].resolve().name}{judge}"


def _key(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["agent"], row["task_id"], row["rollout"]


def _played(agent: str, row: Mapping[str, Any]) -> Played:
    ledger = row.get("ledger")
    return Played(
        agent=agent,
        task_id=row["task_id"],
        weakness=row.get("weakness") or "",
        reward=row["reward"],
        parts=components(ledger) if ledger else {},
        turns=row.get("turns"),
        words=row.get("words"),
    )


def _figures(row: dict[str, Any]) -> dict[str, float]:
    """The finite numbers of a step.

    Raises:
        KeyError: it has no step.
    """
    if not isinstance(row["step"], int | float):
        raise TypeError(f"step: expected a number, got {row['step']!r}")
    return {
        name: value
        for name, value in row.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _episode(row: dict[str, Any]) -> dict[str, Any]:
    """An episode's record, if it is one.

    Raises:
        KeyError: something is missing.
        TypeError: it is of another kind.
    """
    _key(row)
    if row.setdefault("graded", True) and not isinstance(row["reward"], int | float):
        raise TypeError(f"reward: expected a number, got {row['reward']!r}")
    return row


def _rows(file: Path, read: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The lines of a file; a last line that is being written, or was cut short, does not count."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise TypeError(f"expected an object, got {row!r:.40}")
                yield read(row)
            except KeyError as problem:
                raise TaskError(f"{file}, line {number}: expected a key {problem}") from None
            except (ValueError, TypeError) as problem:
                raise TaskError(f"{file}, line {number}: {problem}") from None


def _object(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise TaskError(f"{file}: {problem}") from None
    if not isinstance(value, dict):
        raise TaskError(f"{file}: expected an object, got {value!r:.40}")
    return value
