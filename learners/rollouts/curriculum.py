"""Selection of the tasks and the random seed of each step."""

from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, islice, pairwise
from random import Random
from typing import Any, NamedTuple, TypeVar

import numpy as np

from resume_gym.synthesis.ladder import climb, draw
from resume_gym.synthesis.procedural import generate_task

Group = TypeVar("Group")
_GOLDEN = (5**0.5 - 1) / 2
Results = Callable[[int], Mapping[int, float]]
"""Function that returns the mean reward of each group of an earlier step, by group number."""


class Drawn(NamedTuple):
    """Tasks and seed of an environment in a step.

    Attributes:
        tasks: the tasks of the environment's groups, then of its spare groups; see `Curriculum`.
        seed: seed of the step's episodes.
        level: highest level of difficulty that can be drawn; None without `LadderCurriculum`.
    """

    tasks: list[Any]
    seed: int
    level: int | None = None


def places_of(shares: Sequence[float], groups: int, seed: int, step: int) -> list[range]:
    """Return, for each environment, the range of indices of the step's groups that it plays.

    An environment with the share s gets s * `groups` groups, rounded down or up. The groups are
    points on a line, 1 apart. The line has the length `groups`, and each environment owns a segment
    of it whose length is proportional to its share. The first point, in [0, 1), moves from step to
    step by the golden ratio, so that the shares also hold over few steps, and an environment with a
    small share is drawn at regular intervals.

    Args:
        shares: share of each environment; their sum is 1.
        groups: number of groups in the step.
        seed: random seed, which determines the first point of step 0.
        step: number of the step.
    """
    first = (Random(f"{seed}:shares").random() + step * _GOLDEN) % 1
    # the last end is left out: its rounding error could leave the last point to no environment
    ends = [share * groups for share in accumulate(shares)][:-1]
    owners = [bisect(ends, place + first) for place in range(groups)]
    starts = [bisect(owners, index - 1) for index in range(len(shares) + 1)]
    return [range(*pair) for pair in pairwise(starts)]


@dataclass(frozen=True)
class Curriculum:
    """Sampler of one environment's tasks in each step.

    A run of several environments has a curriculum for each. All have the same `seed`, `groups`,
    `spare` and `shares`, so that each group belongs to one environment.

    With the setting `replace_equal`, a step has spare groups, which replace groups whose rollouts
    all earn the same. A spare group may have the same task as another group.

    Attributes:
        seed: random seed of the run.
        groups: number of groups per step, of all environments; the groups of an environment play
            different tasks if there are enough tasks.
        group_size: number of rollouts per task.
        spare: number of spare groups per step, which replace groups that give no gradient.
        shares: share of each environment in the groups; their sum is 1.
        index: index of this environment in `shares`.
    """

    seed: int
    groups: int
    group_size: int
    spare: int = 0
    shares: Sequence[float] = field(default=(1.0,), kw_only=True)
    index: int = field(default=0, kw_only=True)

    def numbers(self, step: int) -> range:
        """Return the unique numbers of a step's groups, including its spare groups."""
        drawn = self.groups + self.spare
        return range((step - 1) * drawn, step * drawn)

    def own(self, step: int) -> tuple[range, range]:
        """Return the numbers of this environment's groups in a step, and of its spare groups."""
        numbers = self.numbers(step)
        groups, spares = numbers[: self.groups], numbers[self.groups :]
        return self._share(groups, step), self._share(spares, step)

    def _share(self, numbers: range, step: int) -> range:
        place = places_of(self.shares, len(numbers), self.seed, step)[self.index]
        return numbers[place.start : place.stop]

    def _all(self, step: int) -> list[int]:
        return [number for part in self.own(step) for number in part]

    def draw(self, tasks: Sequence[object], step: int, results: Results) -> Drawn:
        """Return the tasks of a step's groups, and the seed of its episodes.

        Tasks and seed depend only on the run's seed and the step, except that `LadderCurriculum`
        also uses the rewards of steps that had ended before this step began. A resumed run reads
        these rewards from disk, and so draws the same tasks.
        """
        own, spare = map(len, self.own(step))
        rng = np.random.default_rng([self.seed, step, self.index])
        chosen = rng.choice(len(tasks), own, replace=len(tasks) < own).tolist()
        seed = int(rng.integers(2**62))
        chosen += rng.choice(len(tasks), spare).tolist()
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
        numbers = (len(tasks) + n for n in self._all(step))
        made = [generate_task(self.seed, n, "train", self.size) for n in numbers]
        return Drawn(made, self._episode_seed(step))


@dataclass(frozen=True)
class LadderCurriculum(Curriculum):
    """Generator of new tasks, whose difficulty depends on earlier rewards; see `synthesis.ladder`.

    Attributes:
        size: size of the generated tasks, "full" or "mini".
        sequence: random seed of the tasks; each group plays a new task.
        lag: number of previous steps whose rewards are not used, as these steps may not have ended.
        highest: function that returns the highest reward that a task offers.
    """

    size: str = "full"
    sequence: int = 0
    lag: int = 0
    highest: Callable[[Any], float] = lambda task: 1.0
    _steps: dict[int, tuple[int, list[int], list[Any]]] = field(default_factory=dict, repr=False)

    def draw(self, tasks: Sequence[object], step: int, results: Results) -> Drawn:
        """Generate the tasks of a step, and ignore `tasks`; see `Curriculum.draw`."""
        top, _, made = self._step(step, results)
        return Drawn(made, self._episode_seed(step), top)

    def _step(self, step: int, results: Results) -> tuple[int, list[int], list[Any]]:
        """Return a step's highest level, and the level and the task of each group."""
        if step not in self._steps:
            past = []
            for one in range(1, step - self.lag):
                _, levels, tasks = self._step(one, results)
                of = dict(zip(self._all(one), zip(levels, tasks, strict=True), strict=True))
                for number, mean in sorted(results(one).items()):
                    if number in of:
                        level, task = of[number]
                        past.append((level, mean / self.highest(task)))
            top, numbers = climb(past), self._all(step)
            levels = draw(top, len(numbers), Random(f"{self.seed}:{step}"))
            made = [
                generate_task(self.sequence, n, "train", self.size, level)
                for n, level in zip(numbers, levels, strict=True)
            ]
            self._steps[step] = top, levels, made
        return self._steps[step]


class Planned(NamedTuple):
    """A group to play: its number, the name of its environment (see `Rollout`) and its task."""

    number: int
    env: str
    task: Any


def planned_groups(
    step: int, curricula: Mapping[str, Curriculum], drawn: Mapping[str, Drawn]
) -> tuple[list[Planned], list[Planned]]:
    """Return the groups of a step, and its spare groups, both sorted by number.

    Args:
        step: number of the step.
        curricula: curriculum of each environment, by its name.
        drawn: what each curriculum has drawn for the step.
    """
    groups: list[Planned] = []
    spares: list[Planned] = []
    for env, one in drawn.items():
        own, spare = curricula[env].own(step)
        tasks = iter(one.tasks)
        groups += [Planned(number, env, next(tasks)) for number in own]
        spares += [Planned(number, env, next(tasks)) for number in spare]
    return groups, spares


def first_of(
    groups: Iterable[Group], env_of: Callable[[Group], str], counts: Mapping[str, int]
) -> list[Group]:
    """Return the first `counts[env]` groups of each environment; `groups` are sorted by number."""
    own = groupby(groups, env_of)
    return [one for env, groups in own for one in islice(groups, counts.get(env, 0))]
