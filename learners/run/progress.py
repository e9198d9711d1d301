"""Progress of a run for people: a line per step, and sentences on milestones and warnings."""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from statistics import fmean

from learners.run.folder import Metrics

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


# metric, column label, format
_COLUMNS = (
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


def line(metrics: Metrics, total: int, step_s: float) -> str:
    """Return a completed step as one line.

    Args:
        metrics: metrics of the step.
        total: number of steps of the run.
        step_s: mean time of a step in seconds.
    """
    cells = [
        f"{label} {form.format(metrics[name])}" for name, label, form in _COLUMNS if name in metrics
    ]
    left = timedelta(seconds=round(step_s * (total - metrics["step"])))
    return f"step {metrics['step']:.0f}/{total}  {'  '.join(cells)}  left {left}"
