"""The command line: `resume-gym eval`, `plot`, `play`, `data ...`, `judge ...`.

The commands on files of tasks and on judges are in the modules that do the work, each with its
`add_command`; packages that only one of them needs are imported when it runs.
"""

import argparse
import difflib
import json
import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import resume_gym
from resume_gym.agents import AGENTS, make_agent
from resume_gym.evaluation import Episode, episodes, summarise, table
from resume_gym.judges import Judge, JudgeError, make_judge
from resume_gym.llm import ModelError
from resume_gym.session import Rules
from resume_gym.tasks import SPLITS, Task, TaskError, load_tasks

_ENTRY_POINT = "resume_gym.env:ResumeEditEnv"
_GROUPS = {
    "data": (
        "make, import and check files of tasks",
        (
            "resume_gym.synthesis.generate",
            "resume_gym.corpus.importing",
            "resume_gym.corpus.check",
            "resume_gym.corpus.hub",
        ),
    ),
    "judge": (
        "measure how far a judge can be trusted",
        ("resume_gym.judges.calibration", "resume_gym.judges.sentinel"),
    ),
}


class UsageError(Exception):
    """What was asked for cannot be done; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0: done, 1: it failed, 2: it was asked for what cannot be."""
    options = _parser().parse_args(arguments)
    sys.path.append(os.getcwd())  # for judges of one's own
    try:
        status: int | None = options.run(options)
    except (UsageError, TaskError, ModuleNotFoundError) as problem:
        return _complain(problem, 2)
    except (JudgeError, ModelError, OSError) as problem:
        return _complain(problem, 1)
    except KeyboardInterrupt:
        return _complain("interrupted", 1)
    return status or 0


def _complain(problem: object, code: int) -> int:
    print(f"resume-gym: {problem}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="resume-gym", description="Resume Gym.")
    parser.add_argument("--version", action="version", version=resume_gym.__version__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    command = commands.add_parser(
        "eval",
        help="play scripted agents and print their figures",
        description="Play scripted agents on tasks, grade them, and print their figures.",
    )
    add = command.add_argument
    add(
        "--agent",
        action="append",
        metavar="NAME",
        help=f"{', '.join(AGENTS)}; repeat to compare (default: all)",
    )
    add(
        "--env",
        default="ResumeEdit-v0",
        metavar="ID",
        help="environment that sets rules and tasks (default: %(default)s)",
    )
    add(
        "--tasks",
        metavar="SOURCE",
        help="default, mini, procedural:SEED:COUNT, a JSONL file, a folder of datasets or "
        "hf://OWNER/NAME (default: the environment's)",
    )
    add("--split", default="eval", choices=SPLITS, help="of the tasks (default: %(default)s)")
    add(
        "--judge",
        default="rubric",
        metavar="SPEC",
        help="who grades: a name, or JSON with a name and options (default: %(default)s)",
    )
    add("--rollouts", default=1, type=_count, metavar="N", help="episodes a task (default: 1)")
    add("--seed", default=0, type=int, metavar="N", help="of random agents (default: 0)")
    add("--json", type=Path, metavar="FILE", help="write the figures and the episodes here")
    command.set_defaults(run=_eval)
    for module in ("resume_gym.report.plot", "resume_gym.play"):
        import_module(module).add_command(commands)
    for group, (about, modules) in _GROUPS.items():
        some = commands.add_parser(group, help=about, description=f"{about.capitalize()}.")
        members = some.add_subparsers(title="commands", metavar="COMMAND", required=True)
        for module in modules:
            import_module(module).add_command(members)
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def _eval(options: argparse.Namespace) -> None:
    names = list(dict.fromkeys(options.agent or AGENTS))
    for name in names:
        _known("agent", name, AGENTS)
    source, rules = _environment(options.env)
    source = options.tasks or source
    judge = _judge(options.judge)
    tasks = load_tasks(source, options.split)
    if options.json and not options.json.parent.is_dir():
        raise UsageError(f"--json: there is no folder {str(options.json.parent)!r}")
    if options.json and options.json.is_dir():
        raise UsageError(f"--json: expected a file, {str(options.json)!r} is a folder")

    played = _play(names, tasks, rules, judge, options.rollouts, options.seed)
    summaries = {name: summarise(one) for name, one in played.items()}
    console = Console()
    console.print(
        f"{options.env} | tasks: {source}, {options.split} | judge: {options.judge} | "
        f"seed: {options.seed}\n",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    console.print(table(summaries))
    if options.json:
        settings = {
            "version": resume_gym.__version__,
            "env": options.env,
            "rules": asdict(rules),
            "tasks": source,
            "split": options.split,
            "judge": options.judge,
            "rollouts": options.rollouts,
            "seed": options.seed,
        }
        agents = {
            name: {"summary": asdict(summaries[name]), "episodes": [asdict(one) for one in rows]}
            for name, rows in played.items()
        }
        text = json.dumps({**settings, "agents": agents}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


def _play(
    names: Sequence[str],
    tasks: Sequence[Task],
    rules: Rules,
    judge: Judge,
    rollouts: int,
    seed: int,
) -> dict[str, tuple[Episode, ...]]:
    """The episodes of each agent, with a progress bar on the terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    played = {}
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        for name in names:
            run = episodes(partial(make_agent, name), tasks, rules, judge, rollouts, seed)
            total = len(tasks) * rollouts
            played[name] = tuple(progress.track(run, total=total, description=name))
    return played


def _environment(name: str) -> tuple[str, Rules]:
    """The tasks and rules of an environment's registration."""
    ours = [key for key, spec in gym.registry.items() if spec.entry_point == _ENTRY_POINT]
    _known("env", name, ours)
    given: dict[str, Any] = gym.registry[name].kwargs
    limits = {one.name for one in fields(Rules)} & given.keys()
    return given.get("tasks", "default"), Rules(**{limit: given[limit] for limit in limits})


def _judge(name: str) -> Judge:
    try:
        return make_judge(name)
    except ValueError as problem:
        raise UsageError(f"--judge: {problem}") from None


def _known(option: str, name: str, names: Collection[str]) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"--{option}: expected one of {', '.join(names)}; got {name!r}{hint}")
