"""Read the data of the figures from the folders of training runs and evaluations."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_gym.apps.viewer.data import FolderContents
from resume_gym.support.json_lines import check_figures, is_finite
from resume_gym.support.user_errors import TaskError, number_of

_SETTINGS = ("env", "rules", "tasks", "split", "judge")
Summaries = Mapping[str, Mapping[str, Any]]
"""Fields of `Summary`, by agent (evaluation) or by "before", "after" and "floor" (run)."""


@dataclass(frozen=True)
class Run:
    """Data of a training run.

    Attributes:
        name: name of the run's folder.
        config: settings of the run; empty if the folder has no `config.toml`.
        metrics: metrics of each step, oldest first.
        summaries: metrics on held-out tasks, where available: those `before` and `after` training,
            and those of the agent `floor`.
        held_out: metrics on held-out tasks at each evaluated step.
        damage: notes on invalid lines of the run's files, which are left out.
    """

    name: str
    config: Mapping[str, Any]
    metrics: Sequence[Mapping[str, float]]
    summaries: Summaries
    held_out: Sequence[Mapping[str, Any]]
    damage: Sequence[str] = ()

    @property
    def title(self) -> str:
        """Title of the run's figures: folder name and model."""
        model = Path(str(self.config.get("model", ""))).name
        return f"{self.name} (model: {model})" if model else self.name


@dataclass(frozen=True)
class Evaluation:
    """Data of one or several finished evaluations, merged.

    Attributes:
        title: title of the figures: environment and judge, where known.
        summaries: summary of each agent that has a graded episode.
        note: note printed below the figures; usually empty.
        damage: notes on unreadable episodes, and on summaries that disagree with the episodes.
    """

    title: str
    summaries: Summaries
    note: str
    damage: Sequence[str] = ()


def read_run(contents: FolderContents) -> Run:
    """Read a training run, which need not be finished.

    Raises:
        OSError: a file cannot be read.
        TaskError: a file has an invalid format, or no step is finished.
    """
    folder, damage = contents.path, list[str]()
    metrics, held_out = (
        [_figures(row) for row in contents.steps(name, damage)]
        for name in ("metrics.jsonl", "evaluations.jsonl")
    )
    damage = [f"{folder}: {told}" for told in damage]
    if not metrics:
        raise TaskError("; ".join([f"{folder}: the run has not finished a step yet", *damage[:1]]))
    summaries = {when: contents.summary(when) for when in ("before", "after", "floor")}
    known = {when: _checked(one, f"{folder}/{when}.json") for when, one in summaries.items() if one}
    return Run(folder.resolve().name, contents.settings, metrics, known, held_out, damage)


def read_evaluations(several: Sequence[FolderContents]) -> Evaluation:
    """Merge evaluations; an agent that occurs in several folders is named "AGENT (FOLDER)".

    Raises:
        OSError: a file cannot be read.
        TaskError: a file has an invalid format, or no episode is graded.
    """
    damage: list[str] = []
    failed = 0
    read = [contents.figures() for contents in several]
    occurrences = Counter(agent for one in read for agent in one["figures"])
    summaries, floors, fewer = {}, {}, []
    for contents, one in zip(several, read, strict=True):
        contents.refresh()
        damage += (f"{contents.path}: {told}" for told in contents.damage())
        failed += sum(row.reward is None for row in contents.rows)
        for agent, summary in one["figures"].items():
            many = occurrences[agent] > 1
            name = f"{agent} ({contents.path.resolve().name})" if many else agent
            summaries[name] = _checked(summary, f"{contents.path}/evaluation.json: {agent}")
            over = one["statistics"].get(agent, {})
            floors[name] = over.get("floor", contents.settings.get("floor"))
            tasks, of_tasks = summary.get("tasks"), over.get("of_tasks")
            if is_finite(tasks) and is_finite(of_tasks) and tasks < of_tasks:
                fewer.append(f"{name}: {tasks} of {of_tasks} tasks.")
    if not summaries:
        folders = ", ".join(str(contents.path) for contents in several)
        wanted = "expected an evaluation.json with graded episodes; `resume-gym eval` writes it"
        raise TaskError("; ".join([f"{folders}: {wanted} when it ends", *damage[:1]]))
    settings = [contents.settings for contents in several]
    differing = [
        name for name in _SETTINGS if len({json.dumps(one.get(name)) for one in settings}) > 1
    ]
    notes = [f"Left out, not graded: {number_of(failed, 'episode')}."] * bool(failed)
    notes += fewer
    levels = [f"{floor:.2f}" for floor in floors.values() if is_finite(floor)]
    if len({*levels}) > 1:  # an agent lacks tasks
        levels = [f"{name} {level}" for name, level in zip(floors, levels, strict=False)]
    if len(levels) == len(floors) and (len({*levels}) == 1 or len(several) == 1):
        told = ", ".join(dict.fromkeys(levels))
        notes.append(f"Floor, the reward of an agent that improves nothing: {told}.")
    notes += [f"The evaluations differ in: {', '.join(differing)}."] * bool(differing)
    return Evaluation(_title(several), summaries, " ".join(notes), damage)


def _title(several: Sequence[FolderContents]) -> str:
    settings = [one.settings for one in several]
    env, judge = (
        " / ".join(dict.fromkeys(str(one[name]) for one in settings if one.get(name)))
        for name in ("env", "judge")
    )
    return (env or several[0].path.resolve().name) + (f", judge: {judge}" if judge else "")


def _figures(row: Mapping[str, object]) -> dict[str, Any]:
    """Return a step's row and its dict `errors` without values that are not finite numbers."""
    errors = row.get("errors")
    known = errors if isinstance(errors, dict) else {}
    finite = ({name: one for name, one in of.items() if is_finite(one)} for of in (row, known))
    figures, errors = finite
    return {**figures, "errors": errors}


def _checked(summary: Mapping[str, object], where: str) -> dict[str, Any]:
    """Return a summary without its None values; raise TaskError if another value is invalid."""
    figures = {name: value for name, value in summary.items() if value is not None}
    try:
        check_figures(figures)
    except ValueError as problem:
        raise TaskError(f"{where}: {problem}") from None
    return figures
