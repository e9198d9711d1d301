"""Goals and budgets of a run: conditions on named metrics that end the run.

A goal is text such as "eval.reward >= 1.5 and eval.submit_rate >= 0.95". All functions are pure: if
a goal or budget has ended a run, and the run is restarted, it ends again for the same reason.
"""

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from learners.errors import ConfigError
from resume_gym.support.user_errors import did_you_mean

JUDGE_COSTS = ("judge_tokens", "judge_dollars")
SPENT = ("tokens", "hours", *JUDGE_COSTS)
"""Quantities that a budget can limit."""
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_NUMBER = r"[+-]?(?:\d+(?:_\d+)*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?"  # every match is a float
_CONDITION = re.compile(rf"([a-z]\w*(?:[-./:]\w+)*) *([<>]=?) *({_NUMBER})", re.IGNORECASE)


class Condition(NamedTuple):
    """A comparison of a named metric with a number."""

    name: str
    sign: str
    limit: float

    def holds(self, figures: Mapping[str, float]) -> bool:
        """Return whether the condition holds; False if `figures` lacks the condition's metric."""
        return self.name in figures and _SIGNS[self.sign](figures[self.name], self.limit)

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {self.limit:g}"


def conditions(text: str, what: str) -> tuple[Condition, ...]:
    """Parse conditions joined by `and`; an empty text contains no conditions.

    Args:
        text: conditions joined by `and`.
        what: name of the setting, for error messages.

    Raises:
        ConfigError: the text does not consist of conditions joined by `and`.
    """
    found = []
    for part in re.split(r"\s+and\s+", text.strip()) if text.strip() else ():
        match = _CONDITION.fullmatch(part)
        if not match or math.isinf(float(match[3])):  # such as 1e999
            expected = "conditions such as 'NAME >= NUMBER', joined by 'and'"
            raise ConfigError(f"{what}: expected {expected}; got {part!r}")
        found.append(Condition(match[1], match[2], float(match[3])))
    return tuple(found)


def check_names(wanted: Sequence[Condition], known: Collection[str], what: str) -> None:
    """Raise a ConfigError, which lists the known metrics, if a condition has an unknown metric."""
    for name in (one.name for one in wanted if one.name not in known):
        near = did_you_mean(name, known)
        raise ConfigError(f"{what}: expected one of {', '.join(known)}; got {name!r}{near}")


def budget(text: str) -> tuple[Condition, ...]:
    """Parse a budget, whose conditions are upper limits; see `conditions`."""
    limits = conditions(text, "budget")
    check_names(limits, SPENT, "budget")
    for limit in limits:
        if limit.sign not in ("<", "<="):
            raise ConfigError(f"budget: expected '{limit.name} <= NUMBER', got '{limit}'")
    return limits


def spent(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return how much a run has used of each quantity in `SPENT`; unknown judge costs are left out.

    Args:
        rows: metrics of the steps; token counts are per step, hours and judge costs are cumulative.
    """
    sampled = (row.get("sampled_tokens", 0) + row.get("replaced_tokens", 0) for row in rows)
    last = rows[-1] if rows else {}
    return {
        "tokens": sum(sampled),
        "hours": last.get("seconds_total", 0.0) / 3600,
        **{name: last[name] for name in JUDGE_COSTS if name in last},
    }


def figures(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of an evaluation by their names in goals, such as `eval.reward`."""
    verdict = {f"verdict_{name}": value for name, value in evaluation.get("verdict", {}).items()}
    named = {**evaluation, **verdict}
    return {f"eval.{name}": v for name, v in named.items() if isinstance(v, int | float)}


def holds(goal: Sequence[Condition], evaluation: Mapping[str, object]) -> bool:
    """Return whether all conditions of a goal hold in an evaluation."""
    named = figures(evaluation)
    return all(one.holds(named) for one in goal)


class End(NamedTuple):
    """Reason why a run ends before its last step.

    Attributes:
        kind: "goal" or "budget".
        text: the reason as a sentence without a full stop.
    """

    kind: Literal["goal", "budget"]
    text: str


def ended(
    goal: Sequence[Condition],
    limits: Sequence[Condition],
    steps: int,
    rows: Sequence[Mapping[str, float]],
    evaluations: Sequence[Mapping[str, object]],
) -> End | None:
    """Return why the goal or the budget ends a run, or None if the run continues.

    Args:
        goal: conditions that must all hold in two evaluations in a row.
        limits: conditions of the budget; the run ends early if a condition becomes false.
        steps: number of steps of the run.
        rows: metrics of the steps so far, oldest first.
        evaluations: evaluations on held-out tasks so far, in any order.
    """
    by_step = sorted(evaluations, key=itemgetter("step"))
    for first, second in pairwise(by_step) if goal else ():
        if holds(goal, first) and holds(goal, second):
            after = f"after steps {first['step']} and {second['step']}"
            return End("goal", f"the goal is reached: {' and '.join(map(str, goal))} {after}")
    if rows and rows[-1]["step"] < steps:
        used = spent(rows)
        for limit in limits:
            if limit.name not in used:
                unknown = f"{limit.name} is unknown: the judge's server reports no tokens"
                return End("budget", f"the budget cannot be kept: {unknown}")
            if not limit.holds(used):
                used_up = f"the budget is used up: {used[limit.name]:,.6g} {limit.name}"
                return End("budget", f"{used_up}, expected {limit.sign} {limit.limit:,g}")
    return None
