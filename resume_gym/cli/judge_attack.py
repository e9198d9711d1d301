"""`resume-gym judge attack`: play policies that game a judge."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from random import Random
from typing import Any

from resume_gym.cli.arguments import (
    Commands,
    add_options,
    add_parser,
    positive,
    print_json,
)
from resume_gym.env import make_edit_env
from resume_gym.evaluation.attack import PolicyRewards, attack
from resume_gym.evaluation.attack_search import SearchResult, search
from resume_gym.session import Session
from resume_gym.tasks import Task, TaskError, repaired


def add_command(commands: Commands) -> None:
    """Add `attack`."""
    command = add_parser(
        commands,
        "attack",
        "attack a judge with policies that improve nothing",
        "Play policies that improve no resume on held-out tasks, and print their rewards and the "
        "difference to the reward of doing nothing.",
        ["judge attack", "judge attack --env ResumeEditMini-v0 --search 2000 --limit 8"],
    )
    add = command.add_argument
    add_options(add, "--env", "--judge")
    add("--limit", type=positive, metavar="N", help="only the first N held-out tasks")
    add(
        "--search",
        type=positive,
        metavar="N",
        help="also search for rewarded edits: N attempts from each of two texts per task",
    )
    add_options(add, "--seed", "--json")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from resume_gym.terminal import Terminal

    env: Any = make_edit_env(options.env, split="eval", judge=options.judge)
    if not issubclass(env.session_type, Session):
        raise TaskError(f"--env: expected an environment of resumes; got {options.env!r}")
    judge, tasks = env.judge, env.tasks[: options.limit]
    rows = attack(env, tasks, options.seed)
    finds = list(_finds(env, tasks, options)) if options.search else []
    if options.json:
        policies = list(map(asdict, rows))
        counts = {"judge": judge.name, "tasks": len(tasks)}
        print_json({**counts, "policies": policies, "finds": list(map(asdict, finds))})
        return
    _show(Terminal(), rows, finds)


def _finds(env: Any, tasks: Sequence[Task], options: argparse.Namespace) -> Iterator[SearchResult]:
    for task in tasks:
        for label, start in (("original", task.resume), ("repaired", repaired(task))):
            rng = Random(f"{options.seed}-{task.task_id}-{label}")
            yield search(env, task, start, options.search, rng, label)


def _show(console: Any, rows: Sequence[PolicyRewards], finds: Sequence[SearchResult]) -> None:
    from rich.table import Table

    table = Table(box=None)
    for name in ("policy", "reward", "above the floor", "at most", "on task"):
        table.add_column(name, justify="left" if name in ("policy", "on task") else "right")
    for row in rows:
        figures = (f"{row.mean:.2f}", f"{row.above:+.2f}", f"{row.most:+.2f}")
        table.add_row(row.policy, *figures, row.worst if row.most > 0 else "")
    console.print(table)
    for find in finds:
        console.print(
            f"\n{find.task_id}, from the {find.start} text: {find.before:.2f} -> {find.after:.2f}"
        )
        for line in find.diff:
            console.print(f"  {line}", highlight=False)
