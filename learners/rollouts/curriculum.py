"""Selection of the tasks and the random seed of each step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import numpy as np

from resume_gym.synthesis.ladder import climb, draw
from resume_gym.synthesis.procedural import generate_task

Results = Callable[[int], Mapping[int, float]]
"""Function that returns the mean reward of each group of an earlier step, by group number."""


class Drawn(NamedTuple):
    """Tasks and seed of a step.

    Attributes:
        tasks: the tasks of the step's groups, then of its spare groups; see `Curriculum`.
        seed: seed of the step's episodes.
        level: highest level of difficulty that can be drawn; None without `LadderCurriculum`.
    """

    tasks: list[Any]
    seed: int
    level: int | None = None


@dataclass(frozen=True)
class Curriculum:
    """Sampler of the tasks of each step.

    With the setting `replace_equal`, a step has spare groups, which replace groups whose rewards
    are all equal. The task of a spare group may be that of another group.

    Attributes:
        seed: random seed of the run.
        groups: number of groups per step; each plays its own task if there are enough tasks.
        group_size: number of rollouts per task.
        spare: number of spare groups per step, which replace groups with equal rewards.
    """

    seed: int
    groups: int
    group_size: int
    spare: int = 0

    def numbers(self, step: int) -> range:
        """Return the unique numbers of a step's groups, including its spare groups."""
        drawn = self.groups + self.spare
        return range((step - 1) * drawn, step * drawn)

    def draw(self, tasks: Sequence[object], step: int, results: Results) -> Drawn:
        """Return the tasks of a step's groups, and the seed of its episodes.

        Tasks and seed depend only on the run's seed and the step, except that `LadderCurriculum`
        also uses the rewards of steps that had ended before this step began. A resumed run reads
        these rewards from disk, and so draws the same tasks.
        """
        rng = np.random.default_rng([self.seed, step])
        chosen = rng.choice(len(tasks), self.groups, replace=len(tasks) < self.groups).tolist()
        seed = int(rng.integers(2**62))
        chosen += rng.choice(len(tasks), self.spare).tolist()
        return Drawn([tasks[i] for i in chosen], seed)

    def _episode_seed(self, step: int) -> int:
        return int(np.random.default_rng([self.seed, step]).integers(2**62))


@dataclass(frozen=True)
class FreshCurriculum(Curriculum):
    """Generator of new tasks of the usual difficulty: no task is played in two steps.

    Attributes:
        size: size of the generated tasks, "full" or "mini".
    """

    size: str = "full"

    def draw(self, tasks: Sequence[object], step: int, results: Results) -> Drawn:
        """Generate the tasks of a step, none of which is in `tasks`; see `Curriculum.draw`."""
        numbers = (len(tasks) + n for n in self.numbers(step))
        made = [generate_task(self.seed, n, "train", self.size) for n in numbers]
        return Drawn(made, self._episode_seed(step))


@dataclass(frozen=True)
class LadderCurriculum(Curriculum):
    """Generator of new tasks, whose difficulty depends on earlier rewards; see `synthesis.ladder`.

    Attributes:
        size: size of the generated tasks, "full" or "mini".
        sequence: random seed of the tasks; each group plays a new task.
        lag: number of previous steps whose rewards are not used, as these steps may not have ended.
        highest: highest possible reward of an episode.
    """

    size: str = "full"
    sequence: int = 0
    lag: int = 0
    highest: float = 1.0
    _levels: dict[int, tuple[int, list[int]]] = field(default_factory=dict, repr=False)

    def draw(self, tasks: Sequence[object], step: int, results: Results) -> Drawn:
        """Generate the tasks of a step, and ignore `tasks`; see `Curriculum.draw`."""
        top, levels = self._draw_levels(step, results)
        pairs = zip(self.numbers(step), levels, strict=True)
        made = [generate_task(self.sequence, n, "train", self.size, level) for n, level in pairs]
        return Drawn(made, self._episode_seed(step), top)

    def _draw_levels(self, step: int, results: Results) -> tuple[int, list[int]]:
        """Return a step's highest level, and the level of each group's task."""
        if step not in self._levels:
            past = []
            for one in range(1, step - self.lag):
                of = dict(zip(self.numbers(one), self._draw_levels(one, results)[1], strict=True))
                past += [(of[n], mean / self.highest) for n, mean in sorted(results(one).items())]
            top = climb(past)
            rng = Random(f"{self.seed}:{step}")
            self._levels[step] = top, draw(top, self.groups + self.spare, rng)
        return self._levels[step]
