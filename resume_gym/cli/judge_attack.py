"""`resume-gym judge attack`: play policies that game a judge."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from random import Random
from typing import Any

from resume_gym.cli.arguments import (
    Commands,
    add_judge,
    add_options,
    add_parser,
    make_async_judge,
    positive,
    print_json,
)
from resume_gym.evaluation.attack import SIZES, PolicyRewards, attack
from resume_gym.evaluation.attack_search import SearchResult, search
from resume_gym.judges import Judge
from resume_gym.session import Rules
from resume_gym.sources import load_tasks
from resume_gym.tasks import Task, repaired


def add_command(commands: Commands) -> None:
    """Add `attack`."""
    command = add_parser(
        commands,
        "attack",
        "attack a judge with policies that improve nothing",
        "Play policies that improve no resume on held-out tasks, and print their rewards and the "
        "difference to the reward of doing nothing.",
        ["judge attack", "judge attack --size mini --search 2000 --limit 8"],
    )
    add = command.add_argument
    add_judge(add)
    add("--size", choices=sorted(SIZES), default="full", help="task size (default: %(default)s)")
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

    judge = make_async_judge(options.judge)
    source, rules = SIZES[options.size]
    tasks = load_tasks(source, "eval")[: options.limit]
    rows = attack(judge, tasks, rules, options.seed)
    finds = list(_finds(judge, tasks, rules, options)) if options.search else []
    if options.json:
        policies = list(map(asdict, rows))
        counts = {"judge": judge.name, "tasks": len(tasks)}
        print_json({**counts, "policies": policies, "finds": list(map(asdict, finds))})
        return
    _show(Terminal(), rows, finds)


def _finds(
    judge: Judge, tasks: Sequence[Task], rules: Rules, options: argparse.Namespace
) -> Iterator[SearchResult]:
    for task in tasks:
        for label, start in (("original", task.resume), ("repaired", repaired(task))):
            rng = Random(f"{options.seed}-{task.task_id}-{label}")
            yield search(judge, task, start, rules, options.search, rng, label)


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
