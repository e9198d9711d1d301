"""`resume-gym train`: train an agent, exactly as `python learners/aipo.py` does."""

import argparse
from importlib.util import find_spec

from resume_gym.cli.arguments import Commands
from resume_gym.support.user_errors import missing_of


def add_command(commands: Commands) -> None:
    """Add the parser of the command `train`."""
    command = commands.add_parser(
        "train",
        help="train an agent with reinforcement learning",
        examples=["train --help"],
    )
    # No argument starts with a null character, so argparse recognizes no option, not even --help,
    # and collects all arguments, which `_run` passes to the trainer.
    command.prefix_chars = "\0"
    command.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="--config NAME, --dry-run, --steps N, ..."
    )
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    absent = missing_of("training needs", "train")
    if absent and find_spec("pydantic") is None:
        raise absent
    from learners.command_line import parse

    arguments = parse(options.arguments)  # help and mistakes come before the slow import below
    if absent:
        raise absent
    from learners.aipo import main

    main(arguments)
