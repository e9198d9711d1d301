"""`resume-gym play`: play an episode in the terminal."""

import argparse
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from resume_gym.apps.play.episode import start
from resume_gym.cli.arguments import Commands, add_options, check_terminal
from resume_gym.support.atomic_write import check_new_file
from resume_gym.support.printing import say
from resume_gym.support.user_errors import TaskError


def add_command(commands: Commands) -> None:
    """Add the parser of the command `play`."""
    command = commands.add_parser(
        "play",
        help="play an episode yourself, in the terminal",
        description="Play an episode yourself in the terminal; the judge grades it at the end.",
        examples=["play --env ResumeEditMini-v0 --seed 1 --save mine.json"],
    )
    add = command.add_argument
    add_options(add, "--env", "--tasks", "--judge")
    add_options(add, "--split", help="split of the tasks (default: both)")
    add("--task-id", metavar="ID", help="task to play (default: a random one)")
    add("--seed", type=_seed, metavar="N", help="seed of the random task (default: none)")
    add("--save", type=Path, metavar="FILE", help="write a record of the episode here, as JSON")
    command.set_defaults(run=_run)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number >= 0, got {text!r}")
    return int(text)


def _run(options: argparse.Namespace) -> None:
    save: Path | None = options.save
    check_new_file("--save", save)
    if save and save.exists():
        raise TaskError(f"--save: {str(save)!r} exists; name another file")
    where = {name: getattr(options, name) for name in ("tasks", "split", "judge")}
    episode = start(options.env, options.task_id, options.seed, **where)
    check_terminal("play")
    from resume_gym.apps.play.app import PlayApp

    files = _files(save) if save else None
    answer: str | None = "next"
    while answer == "next":
        answer, file = None, next(files) if files else None
        try:
            answer = PlayApp(episode).run()
        finally:
            if file:
                settings = {"env": options.env, "judge": options.judge, "undone": episode.undone}
                record = {**settings, **episode.session.record()}
                text = json.dumps(record, indent=1, ensure_ascii=False)
                file.write_bytes(text.encode() + b"\n")
        say(episode.summary() + (f"\nthe record is in {file}" if file else ""))
        if answer == "next":
            episode = episode.following()


def _files(first: Path) -> Iterator[Path]:
    """Yield a path for each episode: `first` (mine.json), then unused paths (mine-2.json)."""
    yield first
    for number in count(2):
        if not (path := first.with_stem(f"{first.stem}-{number}")).exists():
            yield path
