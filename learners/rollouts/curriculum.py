"""Which tasks the groups of a step play, and with which random numbers."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")


class Curriculum(NamedTuple):
    """Draws the tasks of each step, without replacement if there are enough.

    Attributes:
        seed: random seed of the run.
        groups: tasks per step, each with one group of rollouts.
        group_size: rollouts per task.
    """

    seed: int
    groups: int
    group_size: int

    def draw(self, tasks: Sequence[T], step: int) -> tuple[list[T], int]:
        """Return the tasks of a step's groups, and the seed of its episodes.

        They depend only on the run's seed and the step, so a resumed run draws the same.
        """
        rng = np.random.default_rng([self.seed, step])
        chosen = rng.choice(len(tasks), self.groups, replace=len(tasks) < self.groups)
        return [tasks[i] for i in chosen], int(rng.integers(2**62))
