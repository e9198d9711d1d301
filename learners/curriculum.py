"""Which tasks are worth a step: those whose groups differ among themselves.

A group in which all earn the same teaches nothing. How far rewards spread within the groups of a
task is remembered, relative to the other groups of the same step, so that neither the scale of
the rewards matters nor how it changes while a policy learns.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

HALF_LIFE = 20
"""Steps after which half of what a group told of its task is forgotten: policies change."""
LOOK_BACK = 10 * HALF_LIFE
"""Steps before these count for nothing."""
LEAST = 0.1
"""Weight of a task whose groups told nothing, against one that is as usual."""

Spreads = Sequence[tuple[int, float]]
"""Of one step: for each group the number of its task, and its rewards' standard deviation."""


def weights(history: Iterable[tuple[int, Spreads]], tasks: int, step: int) -> NDArray[np.float64]:
    """How much more often than others each task should be drawn.

    Args:
        history: of earlier steps, each with its number.
        tasks: how many there are.
        step: to draw for.

    Returns:
        [tasks]; 1 for a task that is as usual, or of which nothing is known.
    """
    told, known = np.zeros(tasks), np.zeros(tasks)
    for before, groups in history:
        usual = float(np.mean([spread for _, spread in groups])) if groups else 0.0
        fresh = 0.5 ** ((step - before) / HALF_LIFE)
        for task, spread in groups if usual > 0 else ():
            told[task] += fresh * spread / usual
            known[task] += fresh
    # one group's worth of doubt: a task is as usual until its groups say otherwise
    return np.maximum((told + 1.0) / (known + 1.0), LEAST)
