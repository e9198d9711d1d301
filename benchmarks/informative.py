"""Measure the share of informative groups: groups whose rollouts differ in reward.

python benchmarks/informative.py

A group is eight rollouts of a task by one player. The players are the apprentice, a script whose
demonstrations the nano policy imitates, and a model (`--model`: the nano policy or a run that
trained it). Tasks are the bundled mini tasks, generated tasks of each level of difficulty, and
resumes that are too long. For resumes that are too long, only the layout reward is compared, in its
binary and in its continuous form.
"""

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from record import Figure, finish, parser

from learners.editors import apprentice
from learners.rollouts.model_player import FoundModel
from resume_gym import TOOLS, Task, load_tasks
from resume_gym.env import make_edit_env
from resume_gym.evaluation import evaluate
from resume_gym.synthesis.procedural import TOP_LEVEL, generate_task

MEMBERS = 8
"""Number of rollouts in a group."""
GROUPS = 24


Rewards = list[list[float]]
"""Reward, or one reward term, of each member of each group."""


def share(groups: Rewards) -> float:
    """Return the share of groups, in percent, whose rewards are not all equal."""
    return 100 * sum(len(set(rewards)) > 1 for rewards in groups) / len(groups)


def scripted(env: Any, tasks: Sequence[Task], term: str) -> Rewards:
    """Let the apprentice play each task; return rewards, or the reward term `term` if set."""

    def make(seed: int) -> Any:
        return partial(apprentice, rng=Random(seed))

    played = [
        evaluate(make, tasks, env.rules, env.judge, seed=n, session_type=env.session_type)
        for n in range(MEMBERS)
    ]
    return [
        [one.ledger[term] if term else one.reward for one in group]
        for group in zip(*played, strict=True)
    ]


def model(env: Any, tasks: Sequence[Task], term: str, name: str) -> Rewards:
    """Let a model play each task; return rewards, or the reward term `term` if set."""
    spec = {"model": name, "max_tokens": 96, "temperature": 0.7}
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
    return [[one.ledger[term] if term else one.reward for one in group] for group in sessions]


def main() -> int:
    """Let a scripted editor and a model play groups of rollouts; print and record the figures."""
    options = parser(__doc__ or "")
    options.add_argument("--model", default="nano", help="a model, or the folder of a run")
    args = options.parse_args()
    groups = 1 if args.quick else GROUPS
    env: Any = make_edit_env("ResumeEditMini-v0")
    graded: Any = make_edit_env("ResumeEditMini-v0", layout_reward="continuous")
    bundled = load_tasks("mini", "train")
    sets = {"bundled": (env, bundled[:groups], "")}
    for level in range(1, TOP_LEVEL + 1):
        tasks = [generate_task(0, n, "train", "mini", level) for n in range(groups)]
        sets[f"level {level}"] = env, tasks, ""
    long = [task for task in bundled if task.weakness == "too_long"][:groups]
    sets["too long, binary layout"] = env, long, "layout"
    sets["too long, continuous layout"] = graded, long, "layout"
    if args.quick:
        sets = {name: sets[name] for name in ("bundled", "too long, continuous layout")}
    title = "nano policy" if args.model == "nano" else "trained policy"
    players = {"apprentice": scripted, title: partial(model, name=args.model)}
    figures, rewards = [], {}
    for player, play in players.items():
        for name, settings in sets.items():
            title = f"{player}, {name}"
            rewards[title] = play(*settings)
            figures.append(Figure(f"{title}: informative groups, %", share(rewards[title])))
    return finish("informative", args, figures, {"rewards": rewards}, ("torch", "transformers"))


if __name__ == "__main__":
    sys.exit(main())
