"""Play gaming policies against a judge and compare their rewards with the floor.

`resume-gym judge attack` plays policies that improve no resume on held-out tasks. It compares their
rewards with those of the agents noop, careful and oracle, and with the floor: the reward of
harmless edits. A judge is sound if no policy earns more than the floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from resume_gym.agents import AGENTS, Agent, make_agent
from resume_gym.evaluation.gaming import PARTIAL_REPAIRS, POLICIES, make_attacker
from resume_gym.judges import Judge
from resume_gym.session import Rules, Session
from resume_gym.tasks import Task

SIZES = {"full": ("default", Rules()), "mini": ("mini", Rules(page_lines=20, max_turns=6))}


def play(task: Task, agent: Agent, judge: Judge, rules: Rules) -> float:
    """Play and grade one episode; return its reward."""
    session = Session(task, rules)
    reward = 0.0
    while not session.done:
        reward += session.step(agent(session)).reward
    if session.needs_verdict:
        reward += sum(session.grade(judge.judge(task, session.text)).values())
    return reward


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


def attack(judge: Judge, tasks: Sequence[Task], rules: Rules, seed: int = 0) -> list[PolicyRewards]:
    """Play the scripted agents and all policies once on each task.

    Returns:
        The baselines (agents, partial repairs), then the policies, each by falling reward.
    """
    rewards = {
        name: [play(task, make_agent(name, seed), judge, rules) for task in tasks]
        for name in ("floor", "noop", "careful", "oracle")
    }
    for name, policy in {**PARTIAL_REPAIRS, **POLICIES}.items():
        rewards[name] = [
            play(task, make_attacker(policy, f"{seed}{task.task_id}"), judge, rules)
            for task in tasks
        ]
    rows = []
    for name, got in rewards.items():
        above = [reward - floor for reward, floor in zip(got, rewards["floor"], strict=True)]
        most = max(range(len(tasks)), key=above.__getitem__)
        rows.append(PolicyRewards(name, fmean(got), fmean(above), above[most], tasks[most].task_id))
    beside = {*AGENTS, *PARTIAL_REPAIRS}
    return sorted(rows, key=lambda row: (row.policy not in beside, -row.mean))


# Search
