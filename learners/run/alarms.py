"""Alarms of a run: signs of collapse and of reward hacking in the metrics of its steps.

A rule compares a metric's mean over the last steps of the run with its mean over the first steps.
Each mean covers at least three steps and 24 tasks. Most rules also have an outer limit: if the mean
of the last three steps is beyond this limit, the rule raises an alarm regardless of the first mean.
The alarms "reward" and "gap" use means over five steps instead. The metrics come from the batch,
from `rollouts/measures.py` and from the trainer. `react` returns the reaction to new alarms.

Rules ignore steps that a rollback discards, and later steps with tokens from discarded weights.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Literal, NamedTuple

from learners.run.folder import Metrics

SPAN, TASKS = 3, 24
"""Minimum numbers of steps and of tasks in each of the two means that a rule compares."""
WINDOW = 5
"""Number of steps in running means of reward and gap, which are noisier than other metrics."""
REWARD_DROP = 1.0
"""Minimum drop of the mean reward below its best mean that counts as a collapse."""
REWARD_ERRORS = 5.0
"""Minimum drop in standard errors, which noise alone causes in 1 of 150 runs of 50 steps."""
GAP_LIMIT = 0.015
"""Maximum acceptable mean absolute difference between sampler and trainer log-probabilities."""
JUDGE_WARNS, JUDGE_STOPS = 0.05, 0.10
"""Minimum `_judge_gap` for a warning and for a hack alarm, as shares of the reward's range."""
JUDGE_ERRORS = 3.0
"""Minimum `_judge_gap` in standard errors; by chance, the lead of a single step varies by 0.1."""
ROLLBACKS = 3
"""Number of rollbacks after which another collapse stops the run."""
MARK = "alarm_"
"""Prefix of the names of alarm metrics; an alarm's metric is 1 while the alarm holds."""
_BACK, _LEAD = "rolled_back_to", "second_judge_lead"
Kind = Literal["collapse", "hack", "warning"]


class Alarm(NamedTuple):
    """Sign of a problem in a run.

    Attributes:
        name: name of the rule that raised the alarm.
        kind: "collapse" or "hack", for which a reaction can be configured; otherwise "warning".
        text: description of the measurement, without a full stop.
        span: number of most recent steps whose mean raised the alarm.
    """

    name: str
    kind: Kind
    text: str
    span: int


class Action(NamedTuple):
    """Reaction to the alarms of a step.

    Attributes:
        metrics: metrics of the reaction, to add to the metrics of the step.
        sentences: pairs (sentence for the journal, whether the terminal also shows it).
        back: step of the checkpoint to load; None to continue without a rollback.
        stop: why the run ends; empty if the run continues.
    """

    metrics: Metrics
    sentences: Sequence[tuple[str, bool]] = ()
    back: int | None = None
    stop: str = ""


class _Rule(NamedTuple):
    """Rule of an alarm: a metric, a test of its last and first mean, and the text of the alarm."""

    metric: str
    holds: Callable[[float, float], bool]
    text: str


def _rises(limit: float, by: float, most: float) -> Callable[[float, float], bool]:
    """Return a test that holds if a metric's last mean is well above its first, or above `most`.

    Args:
        limit: value that the mean over the last steps must exceed.
        by: margin by which this mean must also exceed the mean over the first steps.
        most: value above which the alarm holds even without a rise.
    """
    return lambda now, start: now > most or (now > limit and now - start > by)


def _falls(to: float, from_: float = 0.0, least: float = 0.0) -> Callable[[float, float], bool]:
    """Return a test of two means: last < `least`, or last < `to` * first and first > `from_`."""
    return lambda now, start: now < least or (start > from_ and now < to * start)


_COLLAPSES: Mapping[str, _Rule] = {
    "entropy": _Rule(
        "entropy", _falls(0.1), "entropy {:.3f}, down from {:.3f}: exploration has stopped"
    ),
    "rising entropy": _Rule(
        "entropy", _rises(0.5, 0.5, 3.0), "entropy {:.2f}, {:.2f} at first: turns become random"
    ),
    "invalid calls": _Rule(
        "invalid_share", _rises(0.5, 0.2, 0.8), "{:.0%} of the calls are invalid, {:.0%} at first"
    ),
    "silence": _Rule(
        "attempts",
        _falls(0.25, 0.5, 0.25),
        "{:.1f} edit calls per episode, {:.1f} at first: the policy hardly edits",
    ),
    "equal answers": _Rule(
        "equal_answers",
        _rises(0.5, 0.2, 0.9),
        "{:.0%} of the episodes made the same calls, {:.0%} at first",
    ),
    "templates": _Rule(
        "prompt_information",
        _falls(0.5, 0.3, 0.15),
        "answers have {:.0%} of the maximum information about their task, {:.0%} at first",
    ),
    "vocabulary": _Rule(
        "word_drift",
        _rises(0.4, 0.3, 0.7),
        "{:.0%} of the written words occur in neither the prompt nor step 1, {:.0%} at first",
    ),
}
_HACKS: Mapping[str, _Rule] = {
    "opener": _Rule(
        "opener_share",
        _rises(0.3, 0.2, 0.7),
        "{:.0%} of the written lines begin with the same word, {:.0%} at first",
    ),
    "phrase": _Rule(
        "phrase_share",
        _rises(0.4, 0.25, 0.7),
        "the same phrase was added in {:.0%} of the tasks, {:.0%} at first",
    ),
    "growth": _Rule(
        "growth",
        _rises(1.3, 0.3, 2.0),
        "written lines have {:.2f} times the words of the replaced lines, {:.2f} at first",
    ),
    "churn": _Rule(
        "churn",
        _rises(0.3, 0.2, 0.7),
        "{:.0%} of the edits leave no change in the final document, {:.0%} at first",
    ),
    "grader addressed": _Rule(
        "addressed_share",
        _rises(0.1, 0.1, 0.1),
        "{:.0%} of the episodes address a grader or praise the resume, {:.0%} at first",
    ),
    "safe harbour": _Rule(
        "safe_harbour",
        _rises(0.4, 0.25, 0.7),
        "{:.0%} of the episodes only delete one line and submit, {:.0%} at first",
    ),
    "moved lines": _Rule(
        "moved_share",
        _rises(0.5, 0.4, 0.8),
        "{:.0%} of the episodes reorder lines, {:.0%} at first",
    ),
}
_FALLING_TOGETHER = ("reward", "content", "submit_rate", "edits")


def span_of(tasks: float) -> int:
    """Return the number of steps in each mean of a rule if each step has `tasks` tasks."""
    return max(SPAN, math.ceil(TASKS / tasks))


def alarms(history: Sequence[Metrics]) -> dict[str, Alarm]:
    """Return the alarms that hold after the last step, by name.

    Args:
        history: metrics of all steps so far, oldest first.
    """
    return _held(_standing(history)[0])


def react(
    history: Sequence[Metrics],
    on_collapse: str = "warn",
    on_hack: str = "warn",
    saved: Sequence[int] = (),
) -> Action:
    """Return the reaction to the alarms that hold after the last step, but did not hold before it.

    The reaction depends only on the arguments, so a resumed run reacts in the same way.

    Args:
        history: metrics of all steps so far, oldest first.
        on_collapse: reaction to a collapse; see `Config.on_collapse`.
        on_hack: reaction to a hack; see `Config.on_hack`.
        saved: steps of the checkpoints.
    """
    standing, undone = _standing(history)
    if not standing or standing[-1] is not history[-1]:
        return Action({})
    now, before = _held(standing), _held(standing[:-1])
    metrics = {f"{MARK}{name.replace(' ', '_')}": 1.0 for name in now}
    if _LEAD in history[-1]:
        metrics["second_judge_gap"] = _judge_gap(standing)
    new = [alarm for name, alarm in now.items() if name not in before]
    kinds = {alarm.kind: alarm for alarm in reversed(new)}
    quiet = on_collapse == "note"
    told = [(f"warning, {one.text}", not (quiet and one.kind == "collapse")) for one in new]
    if (hack := kinds.get("hack")) and on_hack == "stop":
        return Action(metrics, told, stop=f"{hack.text} (on_hack = stop)")
    collapse = kinds.get("collapse")
    if not collapse or on_collapse not in ("rollback", "stop"):
        return Action(metrics, told)
    if on_collapse == "stop":
        return Action(metrics, told, stop=f"{collapse.text} (on_collapse = stop)")
    widest = max(one.span for one in new if one.kind == "collapse")
    begins = int(standing[-min(widest, len(standing))]["step"])
    # The checkpoint right before the first bad step is skipped: its weights sampled some of that
    # step's episodes and may be bad, unless they come from a rollback to an older checkpoint.
    earlier = {step for step, _ in _rollbacks(history[:-1])}
    old = (step for step in saved if step < begins - (step not in earlier))
    healthy = [step for step in old if step not in undone]
    if len(earlier) == ROLLBACKS:
        return Action(metrics, told, stop=f"{collapse.text}, after {ROLLBACKS} rollbacks")
    if not healthy:
        reason = f"{collapse.text}, and there is no checkpoint before step {begins - 1}"
        return Action(metrics, told, stop=reason)
    back = max(healthy)
    told.append((f"rolled back to the checkpoint of step {back}, at half the learning rate", True))
    return Action({**metrics, _BACK: back}, told, back=back)


def holding(row: Metrics) -> set[str]:
    """Return the names of the alarms that held after a step, given the step's metrics."""
    return {name.removeprefix(MARK).replace("_", " ") for name in row if name.startswith(MARK)}


def rolled_back(row: Metrics) -> bool:
    """Return whether the run was rolled back after a step."""
    return _BACK in row


def _rollbacks(history: Sequence[Metrics]) -> list[tuple[int, int]]:
    """Return (step, step of the loaded checkpoint) for each rollback."""
    steps = [(int(row["step"]), int(row[_BACK])) for row in history if _BACK in row]
    return [(step, back) for step, back in steps if 0 <= back < step]


def _standing(history: Sequence[Metrics]) -> tuple[list[Metrics], set[int]]:
    """Return the rows of metrics that no rollback discards, and the steps of discarded checkpoints.

    A rollback in the last row discards no rows yet, so that the alarms that caused it remain.
    """
    rows, undone, last = list(history), set[int](), -1
    for last, back in _rollbacks(history[:-1]):
        rows = [row for row in rows if not back < row["step"] <= last]
        undone |= {*range(back + 1, last)}
    # of the steps after the last rollback, keep those without tokens of the discarded weights
    return [
        row
        for row in rows
        if row["step"] <= last or row["step"] - 1 - row.get("staleness_max", 0) >= last
    ], undone


def _held(history: Sequence[Metrics]) -> dict[str, Alarm]:
    """Return the alarms that hold after the last row of metrics, by name."""
    rows, span = [_extended(row) for row in history], _span(history)
    found = {}
    for name, rule in {**_COLLAPSES, **_HACKS}.items():
        means = _means(rows, rule.metric, span)
        if not (means and rule.holds(means.last, means.first)):
            means = _means(rows, rule.metric, SPAN)
            # equal means can only violate the outer limit, which needs three steps but not 24 tasks
            if not (means and rule.holds(means.last, means.last)):
                continue
        kind: Kind = "collapse" if name in _COLLAPSES else "hack"
        found[name] = Alarm(name, kind, rule.text.format(means.last, means.first), means.steps)
    if collapse := _collapse([row["reward"] for row in rows]):
        text = "mean reward collapsed to {:.1f}, down from {:.1f}".format(*collapse)
        found["reward"] = Alarm("reward", "collapse", text, WINDOW)
    if fallen := _fallen(rows, span):
        text = f"{', '.join(fallen)} have fallen together"
        found["joint fall"] = Alarm("joint fall", "collapse", text, span)
    gaps = [row["gap"] for row in rows if "gap" in row]
    if gaps and (gap := fmean(gaps[-WINDOW:])) > GAP_LIMIT:
        # state the age of the sampler's weights, since old weights alone cause a gap
        age = rows[-1].get("staleness")
        apart = f", whose weights are {age:.1f} steps apart," if age else ""
        text = f"sampler and trainer{apart} differ by {gap:.3f} in log-probability"
        found["gap"] = Alarm("gap", "warning", text, WINDOW)
    lead, means = _judge_gap(rows), _means(rows, _LEAD, span)
    text = f"compared with the second judge, the judge's rewards rose by {lead:.2f} of their range"
    if means and lead > JUDGE_ERRORS * _error([row[_LEAD] for row in rows if _LEAD in row], span):
        if lead >= JUDGE_WARNS:
            found["second judge"] = Alarm("second judge", "warning", text, means.steps)
        if lead >= JUDGE_STOPS:
            found["second judge far"] = Alarm("second judge far", "hack", text, means.steps)
    return found


class _Means(NamedTuple):
    """Means of a metric's last and first values; the last values span the last `steps` steps."""

    last: float
    first: float
    steps: int


def _means(rows: Sequence[Metrics], metric: str, span: int) -> _Means | None:
    """Return a metric's means over `span` values; None if it has at most `span` values."""
    values = [(row[metric], len(rows) - n) for n, row in enumerate(rows) if metric in row]
    if len(values) <= span:
        return None
    last, first = (fmean(value for value, _ in part) for part in (values[-span:], values[:span]))
    return _Means(last, first, values[-span][1])


def _judge_gap(rows: Sequence[Metrics]) -> float:
    """Return how much the judge's mean lead over the second judge has grown since the start."""
    means = _means(rows, _LEAD, _span(rows))
    # rounded, so that a gap that equals a limit reaches the limit despite rounding errors
    return round(means.last - means.first, 9) if means else 0.0


def _span(rows: Sequence[Metrics]) -> int:
    # use the step with the most tasks, so that dropped groups do not change the span
    sizes = [row["tasks"] for row in rows if "tasks" in row]
    return span_of(max(sizes)) if sizes else SPAN


def _extended(row: Metrics) -> dict[str, float]:
    """Return the metrics of a step, and metrics that are derived from them."""
    extended = dict(row)
    if {"edits", "failed_edits", "malformed"} <= row.keys() and row.get("turns"):
        extended["attempts"] = row["edits"] + row["failed_edits"]
        extended["invalid_share"] = (row["malformed"] + row["failed_edits"]) / row["turns"]
    return extended


def _fallen(rows: Sequence[Metrics], span: int) -> list[str]:
    """Return the metrics that fell below half of their best mean; empty if fewer than three did."""
    names = [name for name in _FALLING_TOGETHER if all(name in row for row in rows)]
    fallen = []
    for name in names:
        means = _running_means([row[name] for row in rows], span)[span - 1 :]
        if len(means) > span and means[-1] < max(means[:-span]) / 2:
            fallen.append(name.replace("_", " "))
    return fallen if len(fallen) >= 3 else []


def _collapse(rewards: Sequence[float]) -> tuple[float, float] | None:
    """Return the last and the best mean reward if the reward has collapsed, otherwise None."""
    if len(rewards) < 2 * WINDOW:
        return None
    means = _running_means(rewards, WINDOW)
    # the best mean over `WINDOW` steps that are all earlier than the last `WINDOW` steps
    best, now = max(means[WINDOW - 1 : -WINDOW]), means[-1]
    error = _error(rewards, WINDOW)
    return (now, best) if best - now > max(REWARD_DROP, REWARD_ERRORS * error) else None


def _error(values: Sequence[float], window: int) -> float:
    """Return the standard error of the difference between two means over `window` values.

    The variance of a value is estimated as half the mean square difference of neighbouring values,
    which a trend hardly affects.
    """
    noise = math.sqrt(fmean([(b - a) ** 2 for a, b in pairwise(values)] or [0.0]) / 2)
    return noise * math.sqrt(2 / window)


def _running_means(values: Sequence[float], window: int) -> list[float]:
    """Return at each position the mean of the last `window` values, or of all values so far."""
    return [fmean(values[max(0, i - window + 1) : i + 1]) for i in range(len(values))]
