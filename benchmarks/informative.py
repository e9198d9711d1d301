"""The share of groups that teach something: those whose rollouts differ in reward.

python benchmarks/informative.py

The hasty editor, from whose demonstrations the nano policy starts, and the nano policy before
training play groups of eight: on the bundled mini tasks, on each level of the ladder, and on pages
that are too long with the binary and the continuous layout reward.
"""

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from record import Figure, finish, options

from learners.demonstrations import HASTY, act
from learners.rollouts.model_player import FoundModel
from resume_gym import TOOLS, Task, load_tasks
from resume_gym.env import make_edit_env
from resume_gym.evaluation import evaluate
from resume_gym.synthesis.procedural import TOP_LEVEL, generate_task

MEMBERS = 8
"""Rollouts of a group."""
GROUPS = 24


def share(groups: Sequence[Sequence[float]]) -> float:
    """The share of groups, in percent, whose rewards are not all equal."""
    return 100 * sum(len(set(rewards)) > 1 for rewards in groups) / len(groups)


def hasty(env: Any, tasks: Sequence[Task]) -> list[list[float]]:
    """The rewards of the hasty editor, a list for each task."""

    def make(seed: int) -> Any:
        return partial(act, rng=Random(seed), habits=HASTY)

    played = [
        evaluate(make, tasks, env.rules, env.judge, seed=n, session_type=env.session_type)
        for n in range(MEMBERS)
    ]
    return [[one.reward for one in group] for group in zip(*played, strict=True)]


def nano(env: Any, tasks: Sequence[Task]) -> list[list[float]]:
    """The rewards of the nano policy, a list for each task."""
    spec = {"model": "nano", "max_tokens": 96, "temperature": 0.7}
    sessions = [[env.session_type(task, env.rules) for _ in range(MEMBERS)] for task in tasks]
    flat = [session for group in sessions for session in group]

    async def play() -> None:
        player = FoundModel.of(spec).player(TOOLS)
        await asyncio.gather(*(player.play(one, seed) for seed, one in enumerate(flat)))
        await player.close()

    asyncio.run(play())
    for session in flat:
        if session.needs_verdict:
            session.grade(env.judge.judge(session.task, session.text))
    return [[session.reward for session in group] for group in sessions]


def main() -> int:
    """Play, print, record."""
    args = options(__doc__ or "")
    groups = 1 if args.quick else GROUPS
    env: Any = make_edit_env("ResumeEditMini-v0")
    graded: Any = make_edit_env("ResumeEditMini-v0", layout_reward="continuous")
    bundled = load_tasks("mini", "train")
    sets = {"bundled": (env, bundled[:groups])}
    for level in range(1, TOP_LEVEL + 1):
        tasks = [generate_task(0, n, "train", "mini", level) for n in range(groups)]
        sets[f"level {level}"] = env, tasks
    long = [task for task in bundled if task.weakness == "too_long"][:groups]
    sets |= {"too long, binary": (env, long), "too long, continuous": (graded, long)}
    figures, rewards = [], {}
    for player in (hasty, nano):
        for name, (world, tasks) in sets.items():
            played = player(world, tasks)
            title = f"{player.__name__}, {name}"
            rewards[title] = played
            figures.append(Figure(f"{title}: informative groups, %", share(played)))
    return finish("informative", args, figures, {"rewards": rewards}, ("torch", "transformers"))


if __name__ == "__main__":
    sys.exit(main())
