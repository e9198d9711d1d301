"""Readers for the data of the figures: folders of training runs and of evaluations."""

import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_gym.evaluation.summary import outdated
from resume_gym.json_lines import (
    ChecksumError,
    check_figures,
    check_step,
    is_finite,
    read_bytes,
    read_lines,
    unseal,
)
from resume_gym.rewards import components
from resume_gym.tasks import TaskError

_NESTED = ("errors", "verdict", "by_weakness", "tasks_by_weakness")
_SETTINGS = ("env", "rules", "tasks", "split", "judge")


@dataclass(frozen=True)
class Run:
    """Training run.

    Attributes:
        name: name of the folder.
        config: settings; empty without a `config.toml`.
        metrics: metrics of each step, oldest first.
        summaries: metrics on held-out tasks `before` and `after` training and of the agent
            `floor`, where available.
        held_out: metrics on held-out tasks at each evaluated step.
        damage: sentences on lines that are left out.
    """

    name: str
    config: Mapping[str, Any]
    metrics: Sequence[Mapping[str, float]]
    summaries: Mapping[str, Mapping[str, Any]]
    held_out: Sequence[Mapping[str, Any]]
    damage: Sequence[str] = ()

    @property
    def title(self) -> str:
        """Folder name and model."""
        model = Path(str(self.config.get("model", ""))).name
        return f"{self.name} (model: {model})" if model else self.name


@dataclass(frozen=True)
class GradedEpisode:
    """Graded episode of an evaluation.

    Attributes:
        agent: name of the agent.
        task_id: ID of the task.
        weakness: weakness of the task; empty if tasks have none.
        reward: reward of the episode.
        parts: reward components (tool syntax, layout, content); empty without a ledger.
    """

    agent: str
    task_id: str
    weakness: str
    reward: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Evaluation:
    """One or several evaluations, merged.

    Attributes:
        title: environment and judge, where known.
        agents: names of the agents with a graded episode, in the given order.
        episodes: graded episodes.
        failed: number of ungraded episodes, which the figures leave out.
        differing: settings in which the evaluations differ, which limits their comparison.
        damage: sentences on lines that are left out or missing.
    """

    title: str
    agents: tuple[str, ...]
    episodes: Sequence[GradedEpisode]
    failed: int
    differing: tuple[str, ...]
    damage: Sequence[str] = ()

    @property
    def note(self) -> str:
        """Caveats for readers of the figures; usually empty."""
        notes = []
        if self.failed:
            notes.append(f"{self.failed} episodes could not be graded and are left out.")
        if self.differing:
            notes.append(f"The evaluations differ in: {', '.join(self.differing)}.")
        return " ".join(notes)

    def of(self, agent: str) -> list[GradedEpisode]:
        """Return the episodes of one agent."""
        return [episode for episode in self.episodes if episode.agent == agent]


def is_run(folder: Path) -> bool:
    """Return True for the folder of a run, False for that of an evaluation.

    Raises:
        TaskError: the folder holds neither, or does not exist.
    """
    if (folder / "metrics.jsonl").is_file():
        return True
    if (folder / "episodes.jsonl").is_file():
        return False
    problem = "there is no such folder"
    if folder.is_dir():
        problem = "it has neither metrics.jsonl nor episodes.jsonl"
    raise TaskError(f"{folder}: expected the folder of a run or an evaluation; {problem}")


def read_run(folder: Path) -> Run:
    """Read a training run, finished or not.

    Raises:
        OSError: a file cannot be read.
        TaskError: a file has an invalid format, or no step is finished.
    """
    damage: list[str] = []
    metrics = _steps(folder / "metrics.jsonl", damage)
    if not metrics:
        raise TaskError("; ".join([f"{folder}: the run has not finished a step yet", *damage[:1]]))
    config = _object(folder / "config.toml", lambda text: tomllib.loads(text.decode()))
    summaries = {when: _summary(folder / f"{when}.json") for when in ("before", "after", "floor")}
    known = {when: summary for when, summary in summaries.items() if summary}
    held_out = _steps(folder / "evaluations.jsonl", damage)
    return Run(folder.resolve().name, config, metrics, known, held_out, damage)


def read_evaluations(folders: Sequence[Path]) -> Evaluation:
    """Read and merge evaluations; the name of an agent in several of them includes the folder.

    Raises:
        OSError: a file cannot be read.
        TaskError: a file has an invalid format, or no episode is graded.
    """
    settings = [_object(folder / "settings.json") for folder in folders]
    damage: list[str] = []
    rows = [
        # a later line on an episode replaces an earlier one: it was played or graded again
        {_key(row): row for row in _rows(folder / "episodes.jsonl", _episode, damage)}
        for folder in folders
    ]
    occurrences = Counter(agent for by_key in rows for agent in {agent for agent, _, _ in by_key})
    episodes: list[GradedEpisode] = []
    for folder, setting, by_key in zip(folders, settings, rows, strict=True):
        file, rewards = folder / "evaluation.json", defaultdict(list)
        for row in by_key.values():
            if row["graded"]:
                rewards[row["agent"]].append(row["reward"])
        try:
            damage += (f"{file}: {told}" for told in outdated(_object(file), rewards))
        except ValueError as problem:
            raise TaskError(f"{file}: {problem}") from None
        agents = dict.fromkeys([*setting.get("agents", ()), *(agent for agent, _, _ in by_key)])
        for agent in agents:
            name = f"{agent} ({folder.resolve().name})" if occurrences[agent] > 1 else agent
            graded = [row for key, row in by_key.items() if key[0] == agent and row["graded"]]
            episodes += [_played(name, row) for row in graded]
    if not episodes:
        told = f"{', '.join(map(str, folders))}: no episode has been graded"
        raise TaskError("; ".join([told, *damage[:1]]))
    return Evaluation(
        title=_title(folders, settings),
        agents=tuple(dict.fromkeys(episode.agent for episode in episodes)),
        episodes=episodes,
        failed=sum(map(len, rows)) - len(episodes),
        differing=tuple(
            name
            for name in _SETTINGS
            if len({json.dumps(setting.get(name)) for setting in settings}) > 1
        ),
        damage=damage,
    )


def _title(folders: Sequence[Path], settings: Sequence[Mapping[str, Any]]) -> str:
    env, judge = (
        " / ".join(dict.fromkeys(str(setting[name]) for setting in settings if setting.get(name)))
        for name in ("env", "judge")
    )
    return (env or folders[0].resolve().name) + (f", judge: {judge}" if judge else "")


def _key(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["agent"], row["task_id"], row["rollout"]


def _played(agent: str, row: Mapping[str, Any]) -> GradedEpisode:
    ledger = row.get("ledger")
    return GradedEpisode(
        agent=agent,
        task_id=row["task_id"],
        weakness=row.get("weakness") or "",
        reward=row["reward"],
        parts=components(ledger) if ledger else {},
    )


def _steps(file: Path, notes: list[str]) -> list[dict[str, Any]]:
    """Return the rows of a file with a line per step, if it exists: finite figures, and errors."""
    earlier: set[int] = set()

    def read(row: dict[str, Any]) -> dict[str, Any]:
        earlier.add(check_step(row["step"], earlier))
        figures = {name: value for name, value in row.items() if is_finite(value)}
        errors = row.get("errors")
        known = errors if isinstance(errors, dict) else {}
        return {**figures, "errors": {name: float(error) for name, error in known.items()}}

    return list(_rows(file, read, notes)) if file.exists() else []


def _episode(row: dict[str, Any]) -> dict[str, Any]:
    """Validate the record of an episode; raise KeyError or TypeError if it is invalid."""
    hash(_key(row))
    if row.setdefault("graded", True) and not is_finite(row["reward"]):
        raise TypeError(f"reward: expected a finite number, got {row['reward']!r:.40}")
    if not isinstance(ledger := row.get("ledger") or {}, dict):
        raise TypeError(f"ledger: expected an object, got {ledger!r:.40}")
    check_figures(ledger, "ledger")
    return row


def _rows(
    file: Path, read: Callable[[dict[str, Any]], dict[str, Any]], notes: list[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSONL file, validated by `read`.

    Lines that are not as they were written are left out; each adds a sentence to `notes`.
    """
    for number, line in enumerate(read_lines(file, whole=False), 1):
        where = f"{file}, line {number}"
        try:
            yield read(unseal(line, required=False))
        except ChecksumError as problem:
            notes.append(f"{where} is left out: {problem}")
        except (KeyError, ValueError, TypeError, RecursionError) as problem:
            if not line.endswith(b"\n"):
                notes.append(f"{where} is left out: it is incomplete")
                return
            told = f"expected a key {problem}" if isinstance(problem, KeyError) else problem
            raise TaskError(f"{where}: {told}") from None


def _summary(file: Path) -> dict[str, Any]:
    """Return the figures of a summary; those that an earlier version did not have are left out."""
    figures = {name: value for name, value in _object(file).items() if value is not None}
    try:
        for name, value in figures.items():
            if isinstance(value, dict) != (name in _NESTED):
                raise ValueError(f"{name}: expected another type, got {value!r:.40}")
            check_figures(value, name)
    except ValueError as problem:
        raise TaskError(f"{file}: {problem}") from None
    return figures


def _object(file: Path, loads: Callable[[bytes], Any] = json.loads) -> dict[str, Any]:
    """Return the object of a file; empty if there is none."""
    if not file.exists():
        return {}
    text = read_bytes(file)
    try:
        value = loads(text)
    except (ValueError, RecursionError) as problem:
        raise TaskError(f"{file}: {problem}") from None
    if not isinstance(value, dict):
        raise TaskError(f"{file}: expected an object, got {value!r:.40}")
    return value
