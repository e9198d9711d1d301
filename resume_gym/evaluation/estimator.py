"""Estimates over tasks: each task counts once, with the mean of its graded episodes.

Rollouts of one task are not independent samples, so the sample is the tasks. An agent may have
fewer graded episodes of some tasks than of others, since episodes without a reward are left out.
"""

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

ByTask = Mapping[str, Sequence[float]]
"""Values of the episodes of each task, by task id; each task has at least one value."""


def by_task(rows: Iterable[tuple[str, Mapping[str, float]]]) -> dict[str, dict[str, list[float]]]:
    """Group pairs (task id, {name: value}) by name and task; return {name: {task id: values}}."""
    values: dict[str, dict[str, list[float]]] = {}
    for task, row in rows:
        for name, value in row.items():
            values.setdefault(name, {}).setdefault(task, []).append(value)
    return values


def task_means(values: ByTask) -> dict[str, float]:
    """Return the mean of each task's values, by task id."""
    return {task: statistics.fmean(own) for task, own in values.items()}


def mean(values: ByTask) -> float:
    """Return the mean over tasks of the tasks' means."""
    # the weights are relative to the largest number of episodes: if all tasks have the same
    # number, each weight is exactly 1, and the sum is rounded only once
    most = max(map(len, values.values()))
    weighted = (value * (most / len(own)) for own in values.values() for value in own)
    return math.fsum(weighted) / (most * len(values))


def deviation(values: ByTask) -> float:
    """Return the population standard deviation of the episodes' values about `mean`."""
    # exact sums, as in `statistics.pstdev`
    pairs = [(Fraction(value), len(own)) for own in values.values() for value in own]
    middle = sum((value / count for value, count in pairs), Fraction()) / len(values)
    squares = sum(((value - middle) ** 2 / count for value, count in pairs), Fraction())
    variance = squares / len(values)
    return float((Decimal(variance.numerator) / variance.denominator).sqrt())


def best_of(values: Sequence[float], k: int) -> float:
    """Return the expected maximum of k of a task's values, drawn without replacement.

    This is the unbiased estimator of pass@k (Chen et al., 2021, arXiv:2107.03374, section 2.1), for
    rewards instead of passes.

    Raises:
        ValueError: k is not from 1 to the number of values.
    """
    if not 1 <= k <= len(values):
        raise ValueError(f"k: expected 1 to {len(values)}, the number of values; got {k}")
    # the value at index i of the sorted values is the maximum of `comb(i, k - 1)` of all draws;
    # binomials are exact integers, so their ratio is rounded only once
    draws = math.comb(len(values), k)
    ranked = enumerate(sorted(values))
    return math.fsum(math.comb(i, k - 1) / draws * value for i, value in ranked)


def error(means: Collection[float]) -> float | None:
    """Return twice the standard error of the mean of the tasks' means; None for a single task."""
    return 2 * statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else None
