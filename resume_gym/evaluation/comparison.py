"""Statistics over tasks: variance, confidence intervals and paired tests of agents.

Rollouts of one task are not independent samples, so each task counts once, with the mean of its
rollouts. Two agents are compared on the tasks that both played. P-values are from the two-sided
Wilcoxon signed-rank test; 95 % confidence intervals are from a BCa bootstrap over tasks. The test
and the bootstrap require scipy (`pip install -e .[eval]`). The main functions are
`statistics_of` and `compare`.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from resume_gym.evaluation.estimator import by_task
from resume_gym.evaluation.records import Episode
from resume_gym.evaluation.summary import FIGURES, RATIOS, task_figures

Interval = tuple[float, float]
METHOD = (
    "Each task counts once, with the mean of its rollouts. Two-sided Wilcoxon signed-rank test; "
    "95 % BCa bootstrap intervals, 9,999 resamples; Holm's correction over all pairs of agents."
)
_Measures = Mapping[str, Mapping[str, float]]  # values by measure and task id
_RESAMPLES = 9_999
_BATCH = 1_000  # number of bootstrap resamples computed at once, to limit memory
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of one agent over tasks.

    Attributes:
        within_sd: standard deviation (divisor n - 1) of the reward among the rollouts of a task,
            averaged over tasks; None if no task has two rollouts.
        between_sd: standard deviation (divisor n) of the tasks' mean rewards.
        of_tasks: number of tasks that the agent was to play.
        interval: 95 % confidence interval of the mean reward over tasks; None without scipy or
            with a single task.
        failed: number of episodes without a reward, because the agent or the judge failed.
        floor: mean reward of the agent `floor` on the tasks with a graded episode, if known.
    """

    within_sd: float | None
    between_sd: float
    of_tasks: int
    interval: Interval | None = None
    failed: int = 0
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of one measure between two agents, paired by task.

    Attributes:
        mean: mean over tasks of the second agent's value minus the first agent's value.
        interval: 95 % confidence interval of `mean`; None for a single task.
        p: p-value of the two-sided Wilcoxon signed-rank test.
        p_holm: the p-value with Holm's correction over all compared pairs of agents.
    """

    mean: float
    interval: Interval | None
    p: float
    p_holm: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two agents on the tasks that both played.

    Attributes:
        first, second: names of the compared agents.
        tasks: number of tasks that both played.
        of_tasks: number of tasks that either agent was to play.
        wins, ties, losses: numbers of tasks on which the second agent's mean reward is above,
            equal to, or below the first agent's.
        figures: differences by measure: the figures of `summary.FIGURES` except ratios, and each
            field of the verdict (verdict_*).
        method: description of the statistical tests and intervals.
    """

    first: str
    second: str
    tasks: int
    of_tasks: int
    wins: int
    ties: int
    losses: int
    figures: Mapping[str, Difference]
    method: str = METHOD


def statistics_of(
    played: Sequence[Episode],
    sure: bool = True,
    failed: int = 0,
    of_tasks: int | None = None,
    floor: Mapping[str, float] | None = None,
) -> Statistics:
    """Compute the statistics of an agent over tasks.

    Args:
        played: graded episodes of the agent, at least one.
        sure: whether to compute the confidence interval, which requires scipy.
        failed: number of further episodes, which ended without a reward.
        of_tasks: number of tasks that the agent was to play; by default, those that it played.
        floor: reward of the agent `floor` on each task, if known.
    """
    tasks = by_task((one.task_id, {"reward": one.reward}) for one in played)["reward"]
    groups = tasks.values()
    # `stdev` divides by n - 1, since rollouts are a sample of the agent's behaviour on a task
    spreads = [statistics.stdev(group) for group in groups if len(group) > 1]
    means = [statistics.fmean(group) for group in groups]
    return Statistics(
        within_sd=statistics.fmean(spreads) if spreads else None,
        between_sd=statistics.pstdev(means),
        interval=intervals([means])[0] if sure else None,
        failed=failed,
        of_tasks=of_tasks or len(tasks),
        floor=statistics.fmean(floor[task] for task in tasks) if floor else None,
    )


def compare(
    agents: Mapping[str, Sequence[Episode]], of_tasks: int | None = None
) -> tuple[Comparison, ...]:
    """Compare every pair of agents on the tasks that both played.

    Pairs of agents without a common task are left out.

    Args:
        agents: graded episodes of each agent.
        of_tasks: number of tasks that the agents were to play; by default, those that any played.

    Raises:
        ModuleNotFoundError: scipy is not installed.
    """
    of_tasks = of_tasks or len({one.task_id for played in agents.values() for one in played})
    measures = {name: _measures(played) for name, played in agents.items()}
    pairs = [_pair(a, b, measures[a], measures[b], of_tasks) for a, b in combinations(agents, 2)]
    comparisons = [comparison for comparison in pairs if comparison.tasks]
    # correct the p-values of each measure for the number of pairs of agents that have this measure
    for name in {name for comparison in comparisons for name in comparison.figures}:
        having = [comparison for comparison in comparisons if name in comparison.figures]
        corrected = holm([comparison.figures[name].p for comparison in having])
        for comparison, p in zip(having, corrected, strict=True):
            figures: Any = comparison.figures
            figures[name] = replace(figures[name], p_holm=p)
    return tuple(comparisons)


def _pair(
    first: str, second: str, before: _Measures, after: _Measures, of_tasks: int
) -> Comparison:
    differing = {
        name: [
            # rounded, since equal means of 15 and of 16 rollouts may differ by rounding errors
            round(after[name][task] - mean, 9)
            for task, mean in before[name].items()
            if task in after[name]
        ]
        for name in before
        if name in after
    }
    rewards = differing["reward"]
    signs = [(reward > 0) - (reward < 0) for reward in rewards]
    wins, ties, losses = (signs.count(sign) for sign in (1, 0, -1))
    figures = {}
    if rewards:
        bounds = intervals(list(differing.values()))
        for (name, values), between in zip(differing.items(), bounds, strict=True):
            p = signed_rank(values)
            figures[name] = Difference(statistics.fmean(values), between, p, p_holm=p)
    return Comparison(first, second, len(rewards), of_tasks, wins, ties, losses, figures)


def _measures(played: Sequence[Episode]) -> _Measures:
    """Return each measure on each task; measures that some task lacks are left out."""
    figures = task_figures(played)
    return {
        name: tasks
        for name, tasks in figures.items()
        if (name in FIGURES or name.startswith("verdict_"))
        and name not in RATIOS
        and tasks.keys() == figures["reward"].keys()
    }


def signed_rank(differences: Sequence[float]) -> float:
    """Return the p-value of the two-sided signed-rank test; 1 if all differences are 0."""
    # drop zeros here: scipy drops them only after it has chosen its exact or asymptotic method
    differing = [difference for difference in differences if difference]
    if not differing:
        return 1.0
    from scipy.stats import wilcoxon

    return float(wilcoxon(differing).pvalue)


def intervals(rows: Sequence[Sequence[float]]) -> list[Interval | None]:
    """Return the 95 % bootstrap confidence interval of the mean of each row.

    Args:
        rows: values [rows, n]; the values within a row are independent.

    Returns:
        One interval per row; None for rows with fewer than two values.
    """
    if len(rows[0]) < 2:
        return [None] * len(rows)
    import numpy as np
    from scipy.stats import bootstrap

    # BCa is undefined for constant rows; their interval has zero width
    bounds: list[Interval | None] = [(row[0], row[0]) for row in rows]
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
            bounds[i] = float(low), float(high)
    return bounds


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust p-values for multiple comparisons (Holm, 1979)."""
    corrected = [0.0] * len(ps)
    worst = 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        worst = max(worst, min(1.0, (len(ps) - rank) * ps[i]))
        corrected[i] = worst
    return corrected
