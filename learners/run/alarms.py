"""Alarms of a run: signs of collapse and of reward hacking in the metrics of its steps.

A rule compares the mean of the last three steps with that of the first three, so a fault is named
within three steps. The measures are those of `rollouts/measures.py` and of the batch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Literal, NamedTuple

from learners.run.folder import Metrics

SPAN = 3
"""Steps whose mean is compared."""
WINDOW = 5
"""Steps per running mean of the reward, which is noisier than shares."""
REWARD_DROP = 1.0
"""Fall of the mean reward below its best that counts as a collapse, if it exceeds the noise."""
REWARD_ERRORS = 5.0
"""Minimum of that fall in standard errors; about one run of 50 steps of pure noise in 150 falls so
far."""
GAP_LIMIT = 0.015
"""Largest acceptable mean absolute difference of sampler and trainer log-probabilities."""


class Alarm(NamedTuple):
    """A sign that a run goes wrong.

    Attributes:
        name: name of the rule.
        kind: "collapse", "hack" or "engine".
        text: what has been measured, without a full stop.
    """

    name: str
    kind: Literal["collapse", "hack", "engine"]
    text: str


class _Rule(NamedTuple):
    """A limit of a metric.

    Attributes:
        metric: name of the metric.
        kind: see `Alarm`.
        text: what it means, with places for the mean of the last steps and of the first.
        holds: whether the means of the last and of the first steps raise the alarm.
    """

    metric: str
    kind: Literal["collapse", "hack"]
    text: str
    holds: Callable[[float, float], bool]


def _rises(limit: float, by: float) -> Callable[[float, float], bool]:
    """Return a rule: the metric exceeds a limit, and its start by a difference."""
    return lambda now, start: now > limit and now - start > by


def _falls(to: float, from_: float = 0.0) -> Callable[[float, float], bool]:
    """Return a rule: the metric falls below a share of its start, which is not small itself."""
    return lambda now, start: start > from_ and now < to * start


_RULES: Mapping[str, _Rule] = {
    "entropy": _Rule(
        "entropy",
        "collapse",
        "entropy {:.3f}, down from {:.3f}: exploration has stopped",
        _falls(0.1),
    ),
    "rising entropy": _Rule(
        "entropy",
        "collapse",
        "entropy {:.2f}, up from {:.2f}: turns become random",
        _rises(0.5, 0.5),
    ),
    "invalid calls": _Rule(
        "invalid_share",
        "collapse",
        "{:.0%} of the calls are invalid, up from {:.0%}",
        _rises(0.5, 0.2),
    ),
    "silence": _Rule(
        "attempts",
        "collapse",
        "{:.1f} edit calls an episode, down from {:.1f}: the policy hardly edits",
        _falls(0.25, 0.5),
    ),
    "equal answers": _Rule(
        "equal_answers",
        "collapse",
        "{:.0%} of the episodes made the same calls, up from {:.0%}",
        _rises(0.5, 0.2),
    ),
    "templates": _Rule(
        "prompt_information",
        "collapse",
        "answers say {:.0%} about their task, down from {:.0%} of what is possible",
        _falls(0.5, 0.3),
    ),
    "vocabulary": _Rule(
        "word_drift",
        "collapse",
        "{:.0%} of the written words are new, up from {:.0%}: neither on the page nor in step 1",
        _rises(0.3, 0.2),
    ),
    "opener": _Rule(
        "opener_share",
        "hack",
        "{:.0%} of the written lines begin with one word, up from {:.0%}",
        _rises(0.3, 0.2),
    ),
    "phrase": _Rule(
        "phrase_share",
        "hack",
        "one phrase was added to {:.0%} of the documents, up from {:.0%}",
        _rises(0.4, 0.25),
    ),
    "growth": _Rule(
        "growth",
        "hack",
        "lines have {:.2f} times the words of those that they replace, up from {:.2f}",
        _rises(1.3, 0.3),
    ),
    "churn": _Rule(
        "churn",
        "hack",
        "{:.0%} of the edits leave nothing in the document, up from {:.0%}",
        _rises(0.3, 0.2),
    ),
    "grader addressed": _Rule(
        "addressed_share",
        "hack",
        "{:.0%} of the episodes write to whoever grades them, up from {:.0%}",
        _rises(0.1, 0.1),
    ),
    "safe harbour": _Rule(
        "safe_harbour",
        "hack",
        "{:.0%} of the episodes delete one line and submit, up from {:.0%}",
        _rises(0.4, 0.25),
    ),
    "moved lines": _Rule(
        "moved_share",
        "hack",
        "{:.0%} of the episodes reorder lines, up from {:.0%}",
        _rises(0.5, 0.4),
    ),
}
_FALLING_TOGETHER = ("reward", "content", "submit_rate", "edits")


def alarms(history: Sequence[Metrics]) -> dict[str, Alarm]:
    """Return the alarms that hold after the last step, by name.

    Args:
        history: metrics of all steps so far, oldest first.
    """
    rows = [_extended(row) for row in history]
    found = {}
    for name, rule in _RULES.items():
        values = [row[rule.metric] for row in rows if rule.metric in row]
        if len(values) > SPAN:
            now, start = fmean(values[-SPAN:]), fmean(values[:SPAN])
            if rule.holds(now, start):
                found[name] = Alarm(name, rule.kind, rule.text.format(now, start))
    if collapse := _collapse([row["reward"] for row in rows]):
        text = "mean reward collapsed to {:.1f}, down from {:.1f}".format(*collapse)
        found["reward"] = Alarm("reward", "collapse", text)
    if fallen := _fallen(rows):
        text = f"{', '.join(fallen)} have fallen together"
        found["joint fall"] = Alarm("joint fall", "collapse", text)
    gaps = [row["gap"] for row in rows if "gap" in row]
    if gaps and (gap := fmean(gaps[-WINDOW:])) > GAP_LIMIT:
        # a gap is normal if the sampler's weights are older, so the sentence states their age
        age = rows[-1].get("staleness")
        apart = f", {age:.1f} steps apart," if age else ""
        text = f"sampler and trainer{apart} differ by {gap:.3f} in log-probability"
        found["gap"] = Alarm("gap", "engine", text)
    return found


def _extended(row: Metrics) -> dict[str, float]:
    """Return the metrics of a step with those that follow from several others."""
    extended = dict(row)
    if "failed_edits" in row and row.get("turns"):
        extended["attempts"] = row["edits"] + row["failed_edits"]
        extended["invalid_share"] = (row["malformed"] + row["failed_edits"]) / row["turns"]
    return extended


def _fallen(rows: Sequence[Metrics]) -> list[str]:
    """Return metrics that have all fallen to less than half of their best; empty unless three."""
    names = [name for name in _FALLING_TOGETHER if all(name in row for row in rows)]
    fallen = []
    for name in names:
        means = _running_means([row[name] for row in rows], SPAN)[SPAN - 1 :]
        if len(means) > SPAN and means[-1] < max(means[:-SPAN]) / 2:
            fallen.append(name.replace("_", " "))
    return fallen if len(fallen) >= 3 else []


def _collapse(rewards: Sequence[float]) -> tuple[float, float] | None:
    """Return the mean of the last window and the best of one, if the fall is no noise."""
    if len(rewards) < 2 * WINDOW:
        return None
    means = _running_means(rewards, WINDOW)
    # full windows that share no step with the last one
    best, now = max(means[WINDOW - 1 : -WINDOW]), means[-1]
    # a difference of neighbours has twice the variance of a step, whatever the trend
    noise = math.sqrt(fmean((b - a) ** 2 for a, b in pairwise(rewards)) / 2)
    error = noise * math.sqrt(2 / WINDOW)
    return (now, best) if best - now > max(REWARD_DROP, REWARD_ERRORS * error) else None


def _running_means(values: Sequence[float], window: int) -> list[float]:
    """Return the mean of the last `window` values, or of all if fewer, at each position."""
    return [fmean(values[max(0, i - window + 1) : i + 1]) for i in range(len(values))]
