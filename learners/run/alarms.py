"""Alarms of a run: signs of collapse and of reward hacking in the metrics of its steps.

`RULES` is the table of all alarms. Most rules compare a metric's mean over the last steps of the
run with its mean over the first steps. Each mean covers at least three steps and 24 tasks. Many of
them also have an outer limit: if the mean of the last three steps is beyond this limit, the rule
raises an alarm regardless of the first mean. The metrics come from the batch, from
`rollouts/measures.py` and from the trainer.

Rules ignore steps that a rollback discards, and later steps with tokens from discarded weights.
"""

import math
from collections.abc import Callable, Sequence
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
"""Growth of the judge's lead over the second judge that raises a warning, and that raises a hack
alarm, both as fractions of the reward's range."""
JUDGE_ERRORS = 3.0
"""Minimum of this growth in standard errors; by chance, the lead of a single step varies by 0.1."""
BACK, LEAD = "rolled_back_to", "second_judge_lead"
"""Metrics: the step that a rollback loads, and the judge's lead over the second judge."""
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


class Seen(NamedTuple):
    """The two values that a rule compares; see `_means`.

    Attributes:
        now: value for the last steps.
        start: value for the first or for the best steps.
        error: standard error of `now - start`, or 0 if the rule does not need it.
        span: number of most recent steps that `now` covers.
        note: words for the rule's text.
    """

    now: float
    start: float
    error: float
    span: int
    note: str = ""


Rows = Sequence[Metrics]
Holds = Callable[[float, float, float], bool]
"""Function of the values `now`, `start` and `error` of `Seen`: whether a rule's condition holds."""


def _rises(limit: float, by: float, most: float) -> Holds:
    """Return a function that tests whether `now` is well above `start`, or above `most`.

    Args:
        limit: value that `now` must exceed.
        by: margin by which `now` must also exceed `start`.
        most: outer limit, above which the condition holds even without a rise.
    """
    return lambda now, start, error: now > most or (now > limit and now - start > by)


def _falls(to: float, from_: float = 0.0, least: float = 0.0) -> Holds:
    """Return a function that tests: now < least, or (start > from_ and now < to * start)."""
    return lambda now, start, error: now < least or (start > from_ and now < to * start)


def _grows(least: float) -> Holds:
    """Return a function that tests whether now - start is at least `least` and exceeds noise."""
    return lambda now, start, error: least <= _rise(now, start) > JUDGE_ERRORS * error


def _collapses(now: float, best: float, error: float) -> bool:
    return best - now > max(REWARD_DROP, REWARD_ERRORS * error)


def _rise(now: float, start: float) -> float:
    # rounded, so that a rise that equals a limit reaches the limit despite rounding errors
    return round(now - start, 9)


def _means(rows: Rows, metric: str, span: int) -> Seen | None:
    """Return a metric's means over its last and first `span` values; None if it has <= `span`."""
    values = [row[metric] for row in rows if metric in row]
    if len(values) <= span:
        return None
    places = [place for place, row in enumerate(rows) if metric in row]
    last, first = fmean(values[-span:]), fmean(values[:span])
    return Seen(last, first, _error(values, span), len(rows) - places[-span])


def _best(rows: Rows, metric: str, span: int) -> Seen | None:
    """Return a metric's mean over the last `WINDOW` steps, and its best such mean before them."""
    values = [row[metric] for row in rows]
    if len(values) < 2 * WINDOW:
        return None
    means = _running_means(values, WINDOW)
    return Seen(means[-1], max(means[WINDOW - 1 : -WINDOW]), _error(values, WINDOW), WINDOW)


def _fallen(rows: Rows, metrics: str, span: int) -> Seen | None:
    """Return how many of the comma-separated `metrics` fell below half of their best mean."""
    fallen = []
    for name in metrics.split(","):
        if all(name in row for row in rows):
            means = _running_means([row[name] for row in rows], span)[span - 1 :]
            if len(means) > span and means[-1] < max(means[:-span]) / 2:
                fallen.append(name.replace("_", " "))
    return Seen(len(fallen), 0, 0, span, ", ".join(fallen))


def _recent(rows: Rows, metric: str, span: int) -> Seen | None:
    """Return a metric's mean over its last `WINDOW` values; `note` has the weights' staleness."""
    values = [row[metric] for row in rows if metric in row][-WINDOW:]
    # old weights alone cause a gap
    age = rows[-1].get("staleness") if rows else None
    apart = f", whose weights are {age:.1f} steps apart," if age else ""
    return Seen(fmean(values), 0, 0, WINDOW, apart) if values else None


class Rule(NamedTuple):
    """Rule of an alarm.

    Attributes:
        name: name of the alarm.
        kind: see `Alarm`.
        metric: name of the metric that is compared; for `_fallen`, names joined by commas.
        holds: condition on the two values that are compared.
        text: format string of the alarm's text, with the fields of `Seen` and `rise`.
        sees: function that computes the two values from the metrics of all steps.
    """

    name: str
    kind: Kind
    metric: str
    holds: Holds
    text: str
    sees: Callable[[Rows, str, int], Seen | None] = _means


_LED = "compared with the second judge, the judge's rewards rose by {rise:.2f} of their range"
# fmt: off
RULES = (
    Rule("entropy", "collapse", "entropy", _falls(0.1),
         "entropy {now:.3f}, down from {start:.3f}: exploration has stopped"),
    Rule("rising entropy", "collapse", "entropy", _rises(0.5, 0.5, 3.0),
         "entropy {now:.2f}, {start:.2f} at first: turns become random"),
    Rule("invalid calls", "collapse", "invalid_share", _rises(0.5, 0.2, 0.8),
         "{now:.0%} of the calls are invalid, {start:.0%} at first"),
    Rule("silence", "collapse", "attempts", _falls(0.25, 0.5, 0.25),
         "{now:.1f} edit calls per episode, {start:.1f} at first: the policy hardly edits"),
    Rule("equal answers", "collapse", "equal_answers", _rises(0.5, 0.2, 0.9),
         "{now:.0%} of the episodes made the same calls, {start:.0%} at first"),
    Rule("templates", "collapse", "prompt_information", _falls(0.5, 0.3, 0.15),
         "answers have {now:.0%} of the maximum information about their task, "
         "{start:.0%} at first"),
    Rule("vocabulary", "collapse", "word_drift", _rises(0.4, 0.3, 0.7),
         "{now:.0%} of the written words occur in neither the prompt nor step 1, "
         "{start:.0%} at first"),
    Rule("opener", "hack", "opener_share", _rises(0.3, 0.2, 0.7),
         "{now:.0%} of the written lines begin with the same word, {start:.0%} at first"),
    Rule("phrase", "hack", "phrase_share", _rises(0.4, 0.25, 0.7),
         "the same phrase was added in {now:.0%} of the tasks, {start:.0%} at first"),
    Rule("growth", "hack", "growth", _rises(1.3, 0.3, 2.0),
         "written lines have {now:.2f} times the words of the replaced lines, "
         "{start:.2f} at first"),
    Rule("churn", "hack", "churn", _rises(0.3, 0.2, 0.7),
         "{now:.0%} of the edits leave no change in the final document, {start:.0%} at first"),
    Rule("grader addressed", "hack", "addressed_share", _rises(0.1, 0.1, 0.1),
         "{now:.0%} of the episodes address a grader or praise the resume, {start:.0%} at first"),
    Rule("safe harbour", "hack", "safe_harbour", _rises(0.4, 0.25, 0.7),
         "{now:.0%} of the episodes only delete one line and submit, {start:.0%} at first"),
    Rule("moved lines", "hack", "moved_share", _rises(0.5, 0.4, 0.8),
         "{now:.0%} of the episodes reorder lines, {start:.0%} at first"),
    Rule("reward", "collapse", "reward", _collapses,
         "mean reward collapsed to {now:.1f}, down from {start:.1f}", _best),
    Rule("joint fall", "collapse", "reward,content,submit_rate,edits",
         lambda now, start, error: now - start >= 3, "{note} have fallen together", _fallen),
    Rule("gap", "warning", "gap", lambda now, start, error: now > GAP_LIMIT,
         "sampler and trainer{note} differ by {now:.3f} in log-probability", _recent),
    Rule("second judge", "warning", LEAD, _grows(JUDGE_WARNS), _LED),
    Rule("second judge far", "hack", LEAD, _grows(JUDGE_STOPS), _LED),
)
# fmt: on
"""All alarms; if several of a kind begin together, the first one in the table is named."""


def alarms(history: Rows) -> dict[str, Alarm]:
    """Return the alarms that hold after the last step, by name.

    Args:
        history: metrics of all steps so far, oldest first.
    """
    rows, _ = standing(history)
    return held(rows)


def rollbacks(history: Rows) -> list[tuple[int, int]]:
    """Return (step, step of the loaded checkpoint) for each rollback."""
    steps = [(int(row["step"]), int(row[BACK])) for row in history if BACK in row]
    return [(step, back) for step, back in steps if 0 <= back < step]


def standing(history: Rows) -> tuple[list[Metrics], set[int]]:
    """Return the rows of metrics that no rollback discards, and the steps of discarded checkpoints.

    A rollback in the last row discards no rows yet, so that the alarms that caused it remain.
    """
    rows, undone, last = list(history), set[int](), -1
    for last, back in rollbacks(history[:-1]):
        rows = [row for row in rows if not back < row["step"] <= last]
        undone |= {*range(back + 1, last)}
    # of the steps after the last rollback, keep those without tokens of the discarded weights
    return [
        row
        for row in rows
        if row["step"] <= last or row["step"] - 1 - row.get("staleness_max", 0) >= last
    ], undone


def held(history: Rows) -> dict[str, Alarm]:
    """Return the alarms that hold after the last row of metrics, by name."""
    rows, span = [_extended(row) for row in history], _span(history)
    found = {rule.name: _alarm(rule, rows, span) for rule in RULES}
    return {name: alarm for name, alarm in found.items() if alarm}


def _alarm(rule: Rule, rows: Rows, span: int) -> Alarm | None:
    """Return the alarm of a rule if the rule holds after the last row."""
    for steps, outer in ((span, False), (SPAN, True)):
        seen = rule.sees(rows, rule.metric, steps)
        # with `start` = `now`, only an outer limit can hold; it needs three steps but not 24 tasks
        if seen and rule.holds(seen.now, seen.now if outer else seen.start, seen.error):
            text = rule.text.format(rise=_rise(seen.now, seen.start), **seen._asdict())
            return Alarm(rule.name, rule.kind, text, seen.span)
    return None


def span_of(tasks: float) -> int:
    """Return the number of steps in each mean of a rule if each step has `tasks` tasks."""
    return max(SPAN, math.ceil(TASKS / tasks))


def judge_gap(rows: Rows) -> float:
    """Return how much the judge's mean lead over the second judge has grown since the start."""
    lead = _means(rows, LEAD, _span(rows))
    return _rise(lead.now, lead.start) if lead else 0.0


def _span(rows: Rows) -> int:
    # use the step with the most tasks, so that dropped groups do not change the span
    sizes = [row["tasks"] for row in rows if row.get("tasks", 0) >= 1]
    return span_of(max(sizes)) if sizes else SPAN


def _extended(row: Metrics) -> dict[str, float]:
    """Return the metrics of a step, and metrics that are derived from them."""
    extended = dict(row)
    if {"edits", "failed_edits", "malformed"} <= row.keys() and row.get("turns"):
        extended["attempts"] = row["edits"] + row["failed_edits"]
        extended["invalid_share"] = (row["malformed"] + row["failed_edits"]) / row["turns"]
    return extended


def _error(values: Sequence[float], window: int) -> float:
    """Return the standard error of the difference between two means over `window` values.

    The variance of a value is estimated as half the mean square difference of neighbouring values,
    which a trend hardly affects.
    """
    noise = math.sqrt(fmean([(b - a) ** 2 for a, b in pairwise(values)] or [0.0]) / 2)
    return noise * math.sqrt(2 / window)


def _running_means(values: Sequence[float], window: int) -> list[float]:
    """Return the mean of the last `window` values at each position, or of all if fewer so far."""
    return [fmean(values[max(0, i - window + 1) : i + 1]) for i in range(len(values))]
