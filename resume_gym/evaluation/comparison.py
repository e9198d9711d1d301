"""How even an agent is, and whether one is better than another: statistics over tasks.

Rollouts of one task are no independent draws, so a task counts once, with the mean of its
rollouts. Agents are compared on the tasks that both played: Wilcoxon's signed-rank test, two-sided,
for the p-value, and a BCa bootstrap over tasks for the 95 % interval of the mean difference; both
are scipy's (`pip install resume-gym[eval]`).
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from resume_gym.evaluation.figures import Episode
from resume_gym.rewards import components

Interval = tuple[float, float]
METHOD = (
    "Over tasks, by the mean of each task's rollouts: Wilcoxon signed-rank test, two-sided; "
    "95 % intervals by BCa bootstrap, 9,999 resamples; Holm's correction over all pairs."
)
_RESAMPLES = 9_999
_BATCH = 1_000  # resamples at a time, for the memory they take
_LEVEL = 0.95
_MEASURES: Mapping[str, Callable[[Episode], float]] = {
    "reward": lambda one: one.reward,
    "submitted": lambda one: float(one.submitted),
    "failed_edits": lambda one: float(one.failed_edits),
    "fits": lambda one: float(one.fits),
    "words": lambda one: float(one.words),
}


@dataclass(frozen=True, slots=True)
class OnTask:
    """An agent's rollouts on one task.

    Attributes:
        reward: mean.
        sd: standard deviation (n - 1); None of a single one.
        rollouts: how many were graded.
    """

    reward: float
    sd: float | None
    rollouts: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the mean over all episodes does not show of an agent.

    Attributes:
        by_task: for each task.
        within_sd: standard deviation (n - 1) of the reward among the rollouts of a task, mean over
            tasks; None if no task has two rollouts.
        between_sd: standard deviation (n) of the tasks' mean rewards.
        interval: 95 % interval of the mean reward over tasks; None without scipy, or of one task.
        wins: tasks on which its mean reward is above every other agent's; None if it is alone.
        ties: tasks on which it shares the best mean reward; None if it is alone.
        shared: tasks on which all agents have a number, of which those are; None if it is alone.
        failed: episodes without a number: the agent could not act, or there was no verdict.
    """

    by_task: Mapping[str, OnTask]
    within_sd: float | None
    between_sd: float
    interval: Interval | None = None
    wins: int | None = None
    ties: int | None = None
    shared: int | None = None
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of two agents, paired over tasks.

    Attributes:
        mean: of the second agent minus the first, over tasks.
        interval: its 95 % interval; None for one task.
        p: Wilcoxon signed-rank, two-sided.
        p_holm: the same, corrected for all pairs of agents that are compared.
    """

    mean: float
    interval: Interval | None
    p: float
    p_holm: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two agents on the tasks that both have played.

    Attributes:
        first, second: names of the agents.
        tasks: how many they share.
        wins, ties, losses: tasks on which the second's mean reward is above, at, below the first's.
        figures: differences of reward, submit rate (submitted), failed edits, layout pass rate
            (fits), words, the parts of the reward, and each of the judge's fields (verdict_*).
        method: how p-values and intervals were made.
    """

    first: str
    second: str
    tasks: int
    wins: int
    ties: int
    losses: int
    figures: Mapping[str, Difference]
    method: str = METHOD


def statistics_of(
    agents: Mapping[str, Sequence[Episode]], sure: bool = True
) -> dict[str, Statistics]:
    """The statistics of agents that are shown side by side.

    Args:
        agents: graded episodes by agent; at least one each.
        sure: whether to make the intervals of the means, which takes scipy.
    """
    found = {name: _alone(played, sure) for name, played in agents.items()}
    if len(found) > 1:
        shared = set.intersection(*(set(one.by_task) for one in found.values()))
        holders = [
            _best({n: one.by_task[task].reward for n, one in found.items()}) for task in shared
        ]
        for name, one in found.items():
            wins = sum(who == [name] for who in holders)
            ties = sum(name in who and len(who) > 1 for who in holders)
            found[name] = replace(one, wins=wins, ties=ties, shared=len(shared))
    return found


def _best(rewards: Mapping[str, float]) -> list[str]:
    """Who has the highest."""
    most = max(rewards.values())
    return [name for name, reward in rewards.items() if _exact(most - reward) == 0]


def _alone(played: Sequence[Episode], sure: bool) -> Statistics:
    rewards = _by_task(played, _MEASURES["reward"])
    by_task = {
        # of a sample, not of all that there could be: hence n - 1
        task: OnTask(
            statistics.fmean(some), statistics.stdev(some) if len(some) > 1 else None, len(some)
        )
        for task, some in rewards.items()
    }
    spreads = [one.sd for one in by_task.values() if one.sd is not None]
    means = [one.reward for one in by_task.values()]
    return Statistics(
        by_task=by_task,
        within_sd=statistics.fmean(spreads) if spreads else None,
        between_sd=statistics.pstdev(means),
        interval=intervals([means])[0] if sure else None,
    )


def compare(agents: Mapping[str, Sequence[Episode]]) -> tuple[Comparison, ...]:
    """Every pair of agents, on the tasks that both have played; none if they share no task.

    Raises:
        ModuleNotFoundError: scipy is not installed.
    """
    pairs = [_pair(a, b, agents[a], agents[b]) for a, b in combinations(agents, 2)]
    found = [one for one in pairs if one.tasks]
    for name in {name for one in found for name in one.figures}:
        having = [one for one in found if name in one.figures]
        corrected = holm([one.figures[name].p for one in having])
        for one, p in zip(having, corrected, strict=True):
            figures: Any = one.figures
            figures[name] = replace(figures[name], p_holm=p)
    return tuple(found)


def _pair(first: str, second: str, a: Sequence[Episode], b: Sequence[Episode]) -> Comparison:
    differing = {name: _differences(a, b, measure) for name, measure in _measures(a, b).items()}
    rewards = differing["reward"]
    signs = [(one > 0) - (one < 0) for one in rewards]
    wins, ties, losses = (signs.count(sign) for sign in (1, 0, -1))
    figures = {}
    if rewards:
        found = intervals(list(differing.values()))
        for (name, values), between in zip(differing.items(), found, strict=True):
            p = signed_rank(values)
            figures[name] = Difference(statistics.fmean(values), between, p, p_holm=p)
    return Comparison(first, second, len(rewards), wins, ties, losses, figures)


def _measures(a: Sequence[Episode], b: Sequence[Episode]) -> dict[str, Callable[[Episode], float]]:
    """What is compared: also the parts of the reward and the judge's fields that both have."""

    def part(name: str) -> Callable[[Episode], float]:
        return lambda one: components(one.ledger)[name]

    def field(name: str) -> Callable[[Episode], float]:
        return lambda one: one.verdict[name]

    parts = {name: part(name) for name in components({})}
    both = [name for name in a[0].verdict if name in b[0].verdict]
    return {**_MEASURES, **parts, **{f"verdict_{name}": field(name) for name in both}}


def _by_task(
    played: Iterable[Episode], measure: Callable[[Episode], float]
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for one in played:
        found.setdefault(one.task_id, []).append(measure(one))
    return found


def _differences(
    a: Sequence[Episode], b: Sequence[Episode], measure: Callable[[Episode], float]
) -> list[float]:
    """Mean of the second minus mean of the first, for each task that both have played."""
    one, other = _by_task(a, measure), _by_task(b, measure)
    return [
        _exact(statistics.fmean(other[task]) - statistics.fmean(one[task]))
        for task in one
        if task in other
    ]


def _exact(difference: float) -> float:
    """Without what rounding left: means of 15 and of 16 rollouts may differ by it alone."""
    return round(difference, 9)


def signed_rank(differences: Sequence[float]) -> float:
    """The p-value of Wilcoxon's signed-rank test, two-sided; 1 if nothing differs.

    Raises:
        ModuleNotFoundError: scipy is not installed.
    """
    # scipy drops zeros as well, but counts them where it chooses between exact and approximate
    differing = [one for one in differences if one]
    if not differing:
        return 1.0
    from scipy.stats import wilcoxon

    return float(wilcoxon(differing).pvalue)


def intervals(rows: Sequence[Sequence[float]]) -> list[Interval | None]:
    """The 95 % interval of the mean of each row of independent values; None of fewer than two.

    Args:
        rows: as long as each other.

    Raises:
        ModuleNotFoundError: scipy is not installed.
    """
    if len(rows[0]) < 2:
        return [None] * len(rows)
    import numpy as np
    from scipy.stats import bootstrap

    # of values that are all the same the method is undefined, and nothing is unsure
    found: list[Interval | None] = [(row[0], row[0]) for row in rows]
    varied = [i for i, row in enumerate(rows) if min(row) < max(row)]
    if varied:
        between = bootstrap(
            (np.asarray([rows[i] for i in varied]),),
            np.mean,
            n_resamples=_RESAMPLES,
            batch=_BATCH,
            axis=-1,
            confidence_level=_LEVEL,
            method="BCa",
            rng=np.random.default_rng(0),
        ).confidence_interval
        for i, low, high in zip(varied, between.low, between.high, strict=True):
            found[i] = float(low), float(high)
    return found


def holm(ps: Sequence[float]) -> list[float]:
    """p-values, corrected for how many there are (Holm, 1979)."""
    corrected = [0.0] * len(ps)
    worst = 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        worst = max(worst, min(1.0, (len(ps) - rank) * ps[i]))
        corrected[i] = worst
    return corrected
