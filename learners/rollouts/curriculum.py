"""Curriculum: sampling weights that prefer tasks whose rollouts earn different rewards.

A group of equal rewards has zero advantages and no gradient. The weight of a task is the reward
spread of its past groups relative to the mean of the same step, which makes it independent of the
scale of rewards and of its drift during training.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

HALF_LIFE = 20
"""Half-life, in steps, of the evidence from a group, which ages as the policy changes."""
LOOK_BACK = 10 * HALF_LIFE
"""Length of the history in steps; older evidence has decayed to less than 0.1 %."""
LEAST = 0.1
"""Minimum weight, for tasks without reward spread; an average task has weight 1."""

Spreads = Sequence[tuple[int, float]]
"""Index of the task and standard deviation of the rewards, for each group of one step."""


def weights(history: Iterable[tuple[int, Spreads]], tasks: int, step: int) -> NDArray[np.float64]:
    """Compute unnormalised sampling weights of all tasks.

    Args:
        history: step number and spreads of each earlier step.
        tasks: number of tasks.
        step: step for which tasks are drawn.

    Returns:
        Weights [tasks]; 1 for a task with average spread or without history.
    """
    spreads, evidence = np.zeros(tasks), np.zeros(tasks)
    for before, groups in history:
        usual = float(np.mean([spread for _, spread in groups])) if groups else 0.0
        fresh = 0.5 ** ((step - before) / HALF_LIFE)
        for task, spread in groups if usual > 0 else ():
            spreads[task] += fresh * spread / usual
            evidence[task] += fresh
    # a prior of one average group shrinks tasks with little evidence towards weight 1
    return np.maximum((spreads + 1.0) / (evidence + 1.0), LEAST)
