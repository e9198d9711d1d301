"""Play gaming policies against an environment's judge and compare their rewards with the floor.

`resume-gym judge attack` plays policies that improve no resume on held-out tasks. It compares their
rewards with those of the agents noop, careful and oracle, and with the floor: the reward of
harmless edits, or of the page left alone where that is more. A judge is sound if no policy earns
more than the floor.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from resume_gym.agents import AGENTS, Agent
from resume_gym.evaluation.episodes import evaluate
from resume_gym.evaluation.gaming import PARTIAL_REPAIRS, POLICIES, make_attacker
from resume_gym.tasks import Task


@dataclass(frozen=True)
class PolicyRewards:
    """Rewards of one policy.

    Attributes:
        policy: name of the policy.
        mean: mean reward over the tasks.
        above: mean difference from the floor of the same task.
        most: largest difference from the floor on a single task.
        worst: id of the task with the largest difference.
    """

    policy: str
    mean: float
    above: float
    most: float
    worst: str


def attack(env: Any, tasks: Sequence[Task], seed: int = 0) -> list[PolicyRewards]:
    """Play the scripted agents and all policies once on each task.

    Args:
        env: an `EditEnv` whose sessions are `Session`s, with a judge.
        tasks: tasks to play.
        seed: base of the episode seeds.

    Returns:
        The baselines (agents, partial repairs), then the policies, each by falling reward.
    """
    makers: dict[str, Callable[[int], Agent]] = {
        **{name: AGENTS[name] for name in ("floor", "noop", "careful", "oracle")},
        **{name: partial(make_attacker, one) for name, one in PARTIAL_REPAIRS.items()},
        **{name: partial(make_attacker, one) for name, one in POLICIES.items()},
    }
    rewards = {
        name: [
            one.reward
            for one in evaluate(
                make, tasks, env.rules, env.judge, seed=seed, session_type=env.session_type
            )
        ]
        for name, make in makers.items()
    }
    floor = max(rewards["floor"], rewards["noop"], key=fmean)
    rows = []
    for name, got in rewards.items():
        above = [reward - least for reward, least in zip(got, floor, strict=True)]
        most = max(range(len(tasks)), key=above.__getitem__)
        rows.append(PolicyRewards(name, fmean(got), fmean(above), above[most], tasks[most].task_id))
    beside = {*AGENTS, *PARTIAL_REPAIRS}
    return sorted(rows, key=lambda row: (row.policy not in beside, -row.mean))
