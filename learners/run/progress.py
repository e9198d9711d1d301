"""Progress of a run for people: milestones and warnings as sentences, and the terminal display."""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from statistics import fmean

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

from learners.run.folder import Metrics
from resume_gym.terminal import Terminal

WINDOW = 5
"""Steps per running mean."""
ENTROPY_FLOOR = 0.1
"""Fraction of the first step's entropy below which the policy no longer explores."""
REWARD_DROP = 1.0
"""Fall of the mean reward below its best that counts as a collapse, if it exceeds the noise."""
REWARD_ERRORS = 5.0
"""Minimum of that fall in standard errors; about one run of 50 steps of pure noise in 150 falls so
far."""
REWARD_LEVEL = 0.5
"""A new best reward is reported when it passes a multiple of this."""
GAP_LIMIT = 0.015
"""Largest acceptable mean absolute difference of sampler and trainer log-probabilities."""


def describe(history: Sequence[Metrics]) -> list[str]:
    """Return sentences on the milestones and new warnings of the last step.

    Args:
        history: metrics of all steps so far, oldest first.
    """
    if len(history) < 2:
        return []
    now, before = _warnings(history), _warnings(history[:-1])
    new = [f"warning, {text}" for kind, text in now.items() if kind not in before]
    return [f"Step {history[-1]['step']:.0f}: {text}." for text in (*_milestones(history), *new)]


def _milestones(history: Sequence[Metrics]) -> list[str]:
    reached = []
    for name, label in (("submit_rate", "submit rate"), ("layout_pass", "layout pass rate")):
        *before, now = (row.get(name, 0.0) for row in history)
        passed = [bar for bar in (0.5, 0.9) if max(before) < bar <= now]
        if passed:
            reached.append(f"the {label} passed {100 * passed[-1]:.0f} %")
    *before, now = (row.get("failed_share", 1.0) for row in history)
    if now < 0.1 <= min(before):
        reached.append("fewer than 10 % of the edits fail")
    *before, now = (row["reward"] for row in history)
    if now // REWARD_LEVEL > max(before) // REWARD_LEVEL:
        reached.append(f"mean reward {now:.1f}, best so far")
    return reached


def _warnings(history: Sequence[Metrics]) -> Mapping[str, str]:
    """Return the warnings that hold after the last step, by kind."""
    warnings = {}
    if collapse := _collapse([row["reward"] for row in history]):
        best, now = collapse
        warnings["reward"] = f"mean reward collapsed to {now:.1f}, down from {best:.1f}"
    entropies = [row["entropy"] for row in history if "entropy" in row]
    if entropies and _running_means(entropies)[-1] < ENTROPY_FLOOR * entropies[0]:
        warnings["entropy"] = (
            f"entropy {entropies[-1]:.3f}, down from {entropies[0]:.3f}: exploration has stopped"
        )
    gaps = [row["gap"] for row in history if "gap" in row]
    if gaps and (gap := _running_means(gaps)[-1]) > GAP_LIMIT:
        # a gap is normal if the sampler's weights are older, so the sentence states their age
        age = history[-1].get("staleness")
        apart = f", {age:.1f} steps apart," if age else ""
        warnings["gap"] = f"sampler and trainer{apart} differ by {gap:.3f} in log-probability"
    return warnings


def _collapse(rewards: Sequence[float]) -> tuple[float, float] | None:
    """Return the best mean of a window and that of the last one, if the fall is no noise."""
    if len(rewards) < 2 * WINDOW:
        return None
    means = _running_means(rewards)
    # full windows that share no step with the last one
    best, now = max(means[WINDOW - 1 : -WINDOW]), means[-1]
    # a difference of neighbours has twice the variance of a step, whatever the trend
    noise = math.sqrt(fmean((b - a) ** 2 for a, b in pairwise(rewards)) / 2)
    error = noise * math.sqrt(2 / WINDOW)
    return (best, now) if best - now > max(REWARD_DROP, REWARD_ERRORS * error) else None


def _running_means(values: Sequence[float]) -> list[float]:
    """Return the mean of the last `WINDOW` values, or of all if fewer, at each position."""
    return [fmean(values[max(0, i - WINDOW + 1) : i + 1]) for i in range(len(values))]


_SHOWN_STEPS = 8
# metric, column label, format
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
    ("judge_tokens", "judge tokens", "{:,.0f}"),
    ("judge_dollars", "dollars", "{:.2f}"),
)


class Progress:
    """Live display of a run on a terminal; one plain line per step elsewhere.

    >>> progress = Progress(total=30)
    >>> progress.start()
    >>> progress.update(metrics)
    >>> progress.stop()

    Args:
        total: steps of the run.
        done: steps that an earlier process has completed.
        console: output; standard output if None.
    """

    def __init__(self, total: int, done: int = 0, console: Console | None = None) -> None:
        self._console = console or Terminal()
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
        # a step can take minutes, so the speed is estimated over the whole run
        self._bar = Bar(*columns, console=self._console, speed_estimate_period=math.inf)
        self._task = self._bar.add_task("training", total=total, completed=done)
        self._live = Live(get_renderable=self._view, console=self._console)

    def start(self) -> None:
        """Start the live display; no effect if it runs or the console is not a terminal."""
        if self._console.is_terminal and not self._live.is_started:
            self._live.start()

    def stop(self) -> None:
        """Stop the live display; its last state remains visible. No effect if it is stopped."""
        if self._live.is_started:
            self._live.stop()

    def update(self, metrics: Metrics) -> None:
        """Show a completed step."""
        self._rows = [*self._rows, metrics][-_SHOWN_STEPS:]
        self._bar.update(self._task, completed=int(metrics["step"]))
        if not self._console.is_terminal:
            self._console.print(self._line(metrics), soft_wrap=True, highlight=False)

    def say(self, sentence: str) -> None:
        """Print a sentence above the display."""
        self._console.print(sentence, soft_wrap=True, highlight=False, markup=False)

    def _view(self) -> Group:
        table = Table(box=None, pad_edge=False, header_style="bold")
        shown = [column for column in _COLUMNS if any(column[0] in row for row in self._rows)]
        for _, label, _ in shown:
            table.add_column(label, justify="right")
        for row in self._rows:
            table.add_row(*(_cell(row, name, form) for name, _, form in shown))
        return Group(table, self._bar.get_renderable())

    def _line(self, metrics: Metrics) -> str:
        cells = [
            f"{label} {_cell(metrics, name, form)}"
            for name, label, form in _COLUMNS[1:]
            if name in metrics
        ]
        seconds = self._bar.tasks[0].time_remaining
        remaining = "" if seconds is None else f"  left {timedelta(seconds=round(seconds))}"
        return f"step {metrics['step']:.0f}/{self._total}  {'  '.join(cells)}{remaining}"


def _cell(metrics: Metrics, name: str, form: str) -> str:
    return form.format(metrics[name]) if name in metrics else ""
