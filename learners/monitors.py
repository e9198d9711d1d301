"""A run's folder, its journal, and what a person sees while it trains."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.table import Table

from learners.checkpoint import write_text
from learners.config import Config, ConfigError, differences, read_toml, to_toml
from learners.trajectories import Trajectories
from resume_gym.evaluation import Returns, Summary

__all__ = ["Metrics", "Progress", "RunFolder", "describe"]

Metrics = Mapping[str, float]
"""The figures of one step, `step` among them."""

WINDOW = 5
"""Steps of a running mean."""
ENTROPY_FLOOR = 0.1
"""Share of the first step's entropy under which a policy has stopped exploring."""
REWARD_DROP = 1.0
"""How far the mean reward may fall from its best before it is called a collapse."""
REWARD_LEVEL = 0.5
"""A best reward is told when it reaches another multiple of this."""
GAP_LIMIT = 0.015
"""Mean absolute difference of sampler and trainer log-probabilities that is still sound."""

_SHOWN_STEPS = 8
# where a run lies and how fast it is, not what it computes
_FREE = {
    *("name", "runs", "threads", "trainer_procs", "replicas", "offload", "async_save"),
    *("engine_urls", "engine_procs", "engine_gpus", "patience_s", "log_to"),
}


class RunFolder:
    """All files of a run.

    `config.toml`, `metrics.jsonl` (a step a line), `evaluations.jsonl` (one a line),
    `trajectories/` (a file a step, an episode a line), `journal.md`, `checkpoints/` and `logs/`;
    `before.json` and `after.json`, on held-out tasks, and `facts.json`, what the run is of.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.logs = path / "logs"
        self.trajectories = Trajectories(path / "trajectories")
        self._metrics = path / "metrics.jsonl"
        self._evaluations = path / "evaluations.jsonl"

    def configure(self, config: Config) -> None:
        """Write the configuration, or hold a resumed run to the one it began with.

        Raises:
            ConfigError: another configuration; more steps and other threads are no matter.
        """
        file = self.path / "config.toml"
        changed = differences(read_toml(file), config) if file.exists() else {}
        told = [
            f"{name} was {before!r}, is {now!r}"
            for name, (before, now) in changed.items()
            if name not in _FREE and not (name == "steps" and now > before)
        ]
        if told:
            raise ConfigError(
                f"{self.path} holds another run: {', '.join(told)}; choose another name"
            )
        write_text(file, to_toml(config))

    def append(self, metrics: Metrics) -> None:
        """Add a step's metrics.

        Raises:
            ValueError: a figure is not finite; nothing is written.
        """
        wrong = {name: value for name, value in metrics.items() if not math.isfinite(value)}
        if wrong:
            told = ", ".join(f"{name} is {value}" for name, value in wrong.items())
            raise ValueError(f"step {metrics['step']:.0f}: expected finite metrics, {told}")
        _append(self._metrics, metrics)

    def append_evaluation(self, evaluation: Mapping[str, Any]) -> None:
        """Add an evaluation, `step` among its figures."""
        _append(self._evaluations, evaluation)

    def metrics(self) -> list[dict[str, float]]:
        """The metrics of all steps."""
        return _lines(self._metrics)

    def evaluations(self) -> list[dict[str, Any]]:
        """The evaluations, in the order in which they ended."""
        return _lines(self._evaluations)

    def result(self, when: str) -> Returns | None:
        """The figures on held-out tasks "before" or "after" training, if they are there.

        Raises:
            ConfigError: another version has written them.
        """
        file = self.path / f"{when}.json"
        if not file.exists():
            return None
        read = json.loads(file.read_text())
        try:
            return Summary(**read) if "score" in read else Returns(**read)
        except TypeError:
            told = f"{file} was written by another version"
            raise ConfigError(f"{told}; choose another name") from None

    def write_result(self, when: str, result: Returns) -> None:
        """Keep the figures that `result` gives."""
        write_text(self.path / f"{when}.json", json.dumps(asdict(result), indent=1) + "\n")

    def set_aside(self, step: int) -> None:
        """Rename what a run that now goes on left at its end, `after.json`, by its last step."""
        file = self.path / "after.json"
        if file.exists():
            file.rename(self.path / f"after-{step:06d}.json")

    def truncate(self, step: int) -> None:
        """Forget the figures of what came after a checkpoint's step; its rollouts stay."""
        for file in (self._metrics, self._evaluations):
            if file.exists():
                kept = [json.dumps(one) + "\n" for one in _lines(file) if one["step"] <= step]
                write_text(file, "".join(kept))

    def note(self, sentence: str) -> None:
        """Add a sentence to the journal."""
        file = self.path / "journal.md"
        title = "" if file.exists() else f"# Journal of {self.path.name}\n\n"
        with file.open("a", encoding="utf-8") as journal:
            journal.write(f"{title}- {datetime.now():%Y-%m-%d %H:%M:%S} {sentence}\n")


def _append(file: Path, value: Mapping[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(dict(value)) + "\n")


def _lines(file: Path) -> list[dict[str, Any]]:
    """The values of a file; a last line that was cut short does not count."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]


def describe(history: Sequence[Metrics]) -> list[str]:
    """Sentences on what the last step of a run brought: milestones and warnings, each told once.

    Args:
        history: the metrics of all steps so far, oldest first.
    """
    if len(history) < 2:
        return []
    step = f"Step {history[-1]['step']:.0f}"
    return [f"{step}: {one}." for one in (*_milestones(history), *_warnings(history))]


def _milestones(history: Sequence[Metrics]) -> list[str]:
    told = []
    for name, label in (("submit_rate", "submit rate"), ("layout_pass", "layout pass rate")):
        *before, now = (one.get(name, 0.0) for one in history)
        passed = [bar for bar in (0.5, 0.9) if max(before) < bar <= now]
        if passed:
            told.append(f"the {label} passed {100 * passed[-1]:.0f} %")
    *before, now = (one.get("failed_share", 1.0) for one in history)
    if now < 0.1 <= min(before):
        told.append("fewer than 10 % of the edits fail")
    *before, now = (one["reward"] for one in history)
    if now // REWARD_LEVEL > max(before) // REWARD_LEVEL:
        told.append(f"mean reward {now:.1f}, best so far")
    return told


def _warnings(history: Sequence[Metrics]) -> list[str]:
    """What has become wrong with the last step, and was not wrong the step before."""
    now, before = _ills(history), _ills(history[:-1])
    return [f"warning, {told}" for ill, told in now.items() if ill not in before]


def _ills(history: Sequence[Metrics]) -> dict[str, str]:
    ills = {}
    rewards = _running([one["reward"] for one in history])
    if rewards[-1] < max(rewards) - REWARD_DROP:
        ills["reward"] = f"mean reward {rewards[-1]:.1f}, down from {max(rewards):.1f}: a collapse"
    entropies = [one["entropy"] for one in history if "entropy" in one]
    if entropies and _running(entropies)[-1] < ENTROPY_FLOOR * entropies[0]:
        now, first = entropies[-1], entropies[0]
        ills["entropy"] = f"entropy {now:.3f}, {first:.3f} at first: the policy explores no more"
    gaps = [one["gap"] for one in history if "gap" in one]
    if gaps and (gap := _running(gaps)[-1]) > GAP_LIMIT:
        age = history[-1].get("staleness")  # weights of another step differ, and should
        apart = f", {age:.1f} steps apart," if age else ""
        ills["gap"] = f"sampler and trainer{apart} differ by {gap:.3f} in log-probability"
    return ills


def _running(values: Sequence[float]) -> list[float]:
    """Means over the last `WINDOW` values, once there are so many; before, over all."""
    return [fmean(values[max(0, i - WINDOW + 1) : i + 1]) for i in range(len(values))]


_COLUMNS = (
    ("step", "step", "{:.0f}"),
    ("reward", "reward", "{:.2f}"),
    ("tool_syntax", "tools", "{:.2f}"),
    ("layout", "layout", "{:.2f}"),
    ("content", "content", "{:.2f}"),
    ("submit_rate", "submit", "{:.0%}"),
    ("failed_share", "failed", "{:.0%}"),
    ("entropy", "entropy", "{:.3f}"),
    ("tokens_per_s", "tokens/s", "{:,.0f}"),
)


class Progress:
    """The live display of a run; in a log, one plain line a step.

    >>> with Progress(total=30) as progress:
    ...     progress.update(metrics)

    Args:
        total: steps of the run.
        done: steps done before; a resumed run goes on from there.
        console: where to show it; standard output if not given.
    """

    def __init__(self, total: int, done: int = 0, console: Console | None = None) -> None:
        self._console = console or Console()
        self._total = total
        self._rows: list[Metrics] = []
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        # one step may take minutes: the speed is that of the whole run
        self._bar = Bar(*columns, console=self._console, speed_estimate_period=math.inf)
        self._task = self._bar.add_task("training", total=total, completed=done)
        self._live = Live(get_renderable=self._view, console=self._console)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def update(self, metrics: Metrics) -> None:
        """Show a finished step."""
        self._rows = [*self._rows, metrics][-_SHOWN_STEPS:]
        self._bar.update(self._task, completed=int(metrics["step"]))
        if not self._console.is_terminal:
            self._console.print(self._line(metrics), soft_wrap=True, highlight=False)

    def say(self, sentence: str) -> None:
        """Show a sentence above the display."""
        self._console.print(sentence, soft_wrap=True, highlight=False, markup=False)

    def _view(self) -> Group:
        table = Table(box=None, pad_edge=False, header_style="bold")
        shown = [one for one in _COLUMNS if any(one[0] in row for row in self._rows)]
        for _, label, _ in shown:
            table.add_column(label, justify="right")
        for row in self._rows:
            table.add_row(*(_cell(row, name, form) for name, _, form in shown))
        return Group(table, self._bar.get_renderable())

    def _line(self, metrics: Metrics) -> str:
        shown = [one for one in _COLUMNS[1:] if one[0] in metrics]
        cells = (f"{label} {_cell(metrics, name, form)}" for name, label, form in shown)
        seconds = self._bar.tasks[0].time_remaining
        left = "" if seconds is None else f"  left {timedelta(seconds=round(seconds))}"
        return f"step {metrics['step']:.0f}/{self._total}  {'  '.join(cells)}{left}"


def _cell(metrics: Metrics, name: str, form: str) -> str:
    return form.format(metrics[name]) if name in metrics else ""
