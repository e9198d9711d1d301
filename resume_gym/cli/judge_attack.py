"""`resume-gym judge attack`: play policies that try to game a judge."""

import argparse
from dataclasses import asdict
from typing import Any

from resume_gym.cli.arguments import (
    Commands,
    add_options,
    positive,
    print_json,
)
from resume_gym.env import make_edit_env
from resume_gym.episode.session import Session
from resume_gym.evaluation.attack import ABOUT, POLICIES, attack, faults
from resume_gym.support.user_errors import TaskError

_FLOOR = """\
reward: mean over the tasks. above floor: the mean difference from the floor, which is the reward \
of harmless edits, or of no edit if that is higher. at most: the largest difference on one task. \
For the oracle and the careful agent with a trick, both are differences from the same agent \
without the trick, without the rewards of tool calls. For the floor, both are what the judge pays \
for harmless edits."""


def add_command(commands: Commands) -> None:
    """Add the parser of the command `judge attack`."""
    command = commands.add_parser(
        "attack",
        help="attack a judge with policies that improve nothing",
        description="On held-out tasks, play policies that improve no resume, and compare their "
        "rewards with the floor: the reward of harmless edits, or of no edit if that is higher. "
        "Honest agents also play tricks, such as repeating what they repaired. A sound judge gives "
        "no policy more than the floor, except `delete` where it hits padding, and no trick more "
        "than nothing; and it pays repairs more than harmless edits.",
        examples=["judge attack", "judge attack --env ResumeEditMini-v0 --limit 8"],
        done="no policy earns more than the floor, and repairs earn more",
        failed="failure, or the judge is not sound",
    )
    add = command.add_argument
    add_options(add, "--env", "--judge")
    add("--limit", type=positive, metavar="N", help="only the first N held-out tasks")
    add_options(add, "--seed", "--json")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from rich.table import Table

    from resume_gym.support.terminal import Terminal

    env: Any = make_edit_env(options.env, split="eval", judge=options.judge)
    if not issubclass(env.session_type, Session):
        raise TaskError(f"--env: expected an environment for resumes; got {options.env!r}")
    tasks = env.tasks[: options.limit]
    rows = attack(env, tasks, options.seed)
    found = faults(rows)
    if options.json:
        policies = list(map(asdict, rows))
        told = {"judge": env.judge.name, "tasks": len(tasks), "sound": not found}
        print_json({**told, "policies": policies})
        return 1 if found else 0
    table = Table(box=None, pad_edge=False)
    for name in ("policy", "reward", "above floor", "at most", "what it does"):
        left = name in ("policy", "what it does")
        table.add_column(name, justify="left" if left else "right", no_wrap=not left)
    for row in rows:
        figures = (f"{row.mean:.2f}", f"{row.above:+.2f}", f"{row.most:+.2f}")
        table.add_row(row.policy, *figures, ABOUT[row.policy])
    console = Terminal(highlight=False)
    console.print(table)
    console.print(f"\n{_FLOOR}")
    for row in rows:
        if row.most > 0 and row.policy in POLICIES:
            console.print(f"{row.policy}: furthest above the floor on {row.worst}")
    if found:
        console.print(f"not sound: {'; '.join(found)}", style="bold red")
        return 1
    sound = "sound: no policy earns more than the floor, and repairs earn more"
    console.print(sound, style="bold green")
    return 0
