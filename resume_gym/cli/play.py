"""`resume-gym play`: play an episode in the terminal."""

import argparse
import json
import sys
from pathlib import Path

from resume_gym.apps.play.episode import start
from resume_gym.atomic_write import check_new_file
from resume_gym.cli.arguments import add_parser
from resume_gym.tasks import SPLITS, TaskError
from resume_gym.user_errors import missing


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `play`."""
    command = add_parser(
        commands,
        "play",
        "play an episode yourself, in the terminal",
        "Play an episode yourself, in the terminal, and have it graded.",
        ["play --env ResumeEditMini-v0 --seed 1 --save mine.json"],
    )
    add = command.add_argument
    add(
        "--env",
        default="ResumeEdit-v0",
        metavar="ID",
        help="environment, or module:ID (default: %(default)s)",
    )
    add("--tasks", metavar="SOURCE", help="a source of tasks (default: the environment's)")
    add("--split", choices=SPLITS, help="of the tasks (default: both)")
    add("--task-id", metavar="ID", help="the task (default: one is drawn)")
    add("--seed", type=_seed, metavar="N", help="draws the task (default: another each time)")
    add(
        "--judge",
        metavar="SPEC",
        help="who grades: a name, or JSON with a name and options (default: the environment's, "
        "for resumes rubric)",
    )
    add(
        "--save",
        type=Path,
        metavar="FILE",
        help="write the episode's record to this new file, as JSON",
    )
    command.set_defaults(run=_run)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 0; got {text!r}")
    return int(text)


def _run(options: argparse.Namespace) -> None:
    save: Path | None = options.save
    check_new_file("--save", save)
    if save and save.exists():
        raise TaskError(f"--save: {str(save)!r} exists; name another file")
    episode = start(
        options.env, options.tasks, options.split, options.judge, options.task_id, options.seed
    )
    if not all(one and one.isatty() for one in (sys.stdin, sys.stdout)):
        raise TaskError("play needs a terminal to show itself in")
    try:
        from resume_gym.apps.play.app import PlayApp
    except ModuleNotFoundError as problem:
        raise missing("play needs", problem.name or "textual", "play") from None
    try:
        PlayApp(episode).run()
    finally:
        if save:
            about = {"env": options.env, "judge": options.judge, "undone": episode.undone}
            text = json.dumps({**about, **episode.session.record()}, indent=1, ensure_ascii=False)
            save.write_bytes(text.encode() + b"\n")
    print(episode.summary() + (f"\nthe record is in {save}" if save else ""))
