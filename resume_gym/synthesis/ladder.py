"""Difficulty curriculum: the level of tasks follows the success of the policy in training.

All episodes of a group play the same task. The level of this task is drawn from `WINDOW` adjacent
levels, the window. `climb` determines the top level, which is the highest level of the window. The
curriculum is adapted from RLVE (Zeng et al. 2025, arXiv:2511.07317), but the window has a constant
width and can also move down.
"""

from collections.abc import Iterable, Iterator
from random import Random

from resume_gym.episode.tasks import Task
from resume_gym.synthesis.procedural import TOP_LEVEL, generate_task, load_with

WINDOW = 3  # number of levels in the window
GROUPS = 8  # the top level is reconsidered after this number of groups at the top level
# the top level rises if these groups' mean reward is at least this share of the highest possible
UP = 0.8
# the top level falls if these groups' mean reward is below this share of the highest possible
DOWN = 0.6
COUNT = 60  # number of tasks per split that `load` yields


def climb(results: Iterable[tuple[int, float]]) -> int:
    """Return the top level of the window, given the results of a run's groups so far.

    Args:
        results: for each group in order, its level and its mean reward as a share of the highest
            possible reward.
    """
    top, shares = 1, []
    for level, share in results:
        if level != top:
            continue
        shares.append(share)
        if len(shares) == GROUPS:
            mean, shares = sum(shares) / GROUPS, []
            top = min(max(top + (mean >= UP) - (mean < DOWN), 1), TOP_LEVEL)
    return top


def draw(top: int, count: int, rng: Random) -> list[int]:
    """Draw the levels of `count` groups uniformly from the window whose highest level is `top`."""
    return [rng.randint(max(1, top - WINDOW + 1), top) for _ in range(count)]


def load(source: str, split: str | None = None) -> Iterator[Task]:
    """Return an iterator over the tasks (of all levels) of "ladder:SEED" or "ladder-mini:SEED".

    Args:
        source: source of the tasks; "ladder" selects full-size tasks, "ladder-mini" mini tasks.
        split: split of the tasks; None selects both splits.
    """

    def make(seed: int, index: int, split: str, size: str) -> Task:
        return generate_task(seed, index, split, size, 1 + index // 6 % TOP_LEVEL)

    return load_with(make, f"{source}:{COUNT}", split)
