"""Statistics of the episodes of a step or an evaluation, in total and by environment."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import NamedTuple, Self

from learners.rollouts import comparisons, drafts
from learners.rollouts.curriculum import Drawn
from learners.rollouts.measures import measures
from learners.rollouts.rollout import NOT_SAMPLED, Rollout
from learners.rollouts.workload import Workload
from resume_gym.evaluation import Returns
from resume_gym.llm import Usage

Works = Mapping[str, Workload]
"""Workload of each environment of a run; the only environment of a run has an empty name."""


class HeldOutResult(NamedTuple):
    """Result of an evaluation on the held-out tasks.

    Attributes:
        summary: statistics of the graded episodes; in a run of several environments, its `errors`
            also contains the errors of the entries of `by_env`, under the same names.
        versions: oldest and newest version of the weights that sampled the episodes.
        dropped_episodes: number of failed episodes, which are not in the summary.
        seconds: duration of the evaluation in seconds.
        by_env: statistics of each environment, named ENV/NAME; empty in a run of one environment.
    """

    summary: Returns
    versions: tuple[int, int]
    dropped_episodes: int
    seconds: float
    by_env: Mapping[str, float] = MappingProxyType({})

    @classmethod
    def of(
        cls, works: Works, graded: Sequence[Rollout], dropped_episodes: int, seconds: float
    ) -> Self:
        """Return the result of an evaluation with these graded rollouts."""
        versions = {v for rollout in graded for v in rollout.versions if v != NOT_SAMPLED}
        parts = {env: summary(works, graded, env) for env in works if env}
        named: dict[str, float] = {}
        for env, one in parts.items():
            verdict = {f"verdict_{name}": n for name, n in getattr(one, "verdict", {}).items()}
            numbers = {**asdict(one), **verdict}.items()
            named |= {f"{env}/{name}": n for name, n in numbers if isinstance(n, int | float)}
        whole = summary(works, graded)
        errors = {f"{env}/{n}": e for env, one in parts.items() for n, e in one.errors.items()}
        errors = {name: error for name, error in errors.items() if name in named}
        whole = replace(whole, errors={**whole.errors, **errors})
        return cls(whole, (min(versions), max(versions)), dropped_episodes, seconds, named)


def summary(works: Works, rollouts: Sequence[Rollout], env: str = "") -> Returns:
    """Return the statistics of the rollouts of one environment, or of all if `env` is empty."""
    chosen = [works[env]] if env else works.values()
    kinds = {work.summary_type for work in chosen}
    kind = kinds.pop() if len(kinds) == 1 else Returns
    own = [one for one in rollouts if not env or one.env == env]
    return kind.of((one.session for one in own), (one.env for one in own))


def measures_of(groups: Sequence[Sequence[Rollout]], words: Mapping[str, int]) -> dict[str, float]:
    """Return the measures of the texts, edits and comparisons of groups.

    Args:
        groups: rollouts of each group.
        words: counts of the words written in the first step of the run.
    """
    rollouts = [rollout for group in groups for rollout in group]
    return {
        **measures(rollouts, words),
        **drafts.measures([one.earned or () for one in rollouts]),
        **comparisons.measures(groups),
    }


def by_env(
    works: Works,
    groups: Sequence[Sequence[Rollout]],
    drawn: Mapping[str, Drawn],
    words: Mapping[str, int],
) -> dict[str, float]:
    """Return the metrics of each environment, named ENV/NAME; empty in a run of only one."""
    found: dict[str, float] = {}
    for env in filter(None, works):
        own = [group for group in groups if group[0].env == env]
        if not own:
            continue
        level = drawn[env].level
        figures = summary(works, [one for group in own for one in group], env)
        named = {
            **figures.metrics(),
            **measures_of(own, words),
            "tasks": figures.tasks,
            "groups": len(own),
            **({} if level is None else {"level": level}),
        }
        found |= {f"{env}/{name}": value for name, value in named.items()}
    return found


def usage(works: Works) -> Usage | None:
    """Return the total usage so far of judges that call models; None if there are none."""
    used = (getattr(work.judge, "usage", None) for work in works.values())
    known = [one for one in used if one is not None]
    return reduce(add, known) if known else None
