"""`resume-gym train`: train an agent, exactly as `python learners/aipo.py` does."""

import argparse

from resume_gym.cli.arguments import Commands
from resume_gym.support.user_errors import missing_of

_ABOUT = """\
Train a language-model agent with reinforcement learning. Without options, the bundled nano policy \
is trained; a CPU is enough. Results go to runs/NAME; the same command resumes an interrupted run. \
Training needs `pip install resume-gym[train]`; then `resume-gym train --help` lists all options."""
_EXAMPLES = (
    "train --steps 5",
    "train --config smollm2 --name mine",
    "train --config qwen3_14b_4xh200 --dry-run",
)


def add_command(commands: Commands) -> None:
    """Add the parser of the command `train`."""
    command = commands.add_parser(
        "train",
        help="train an agent with reinforcement learning",
        description=_ABOUT,
        examples=_EXAMPLES,
        failed="training failed; most runs resume with the same command",
        flagged="a budget is used up, or an alarm has stopped the run",
    )
    # No argument starts with a null character, so argparse recognizes no option, not even --help,
    # and collects all arguments, which `_run` passes to the trainer.
    command.prefix_chars = "\0"
    command.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="--config NAME, --dry-run, --steps N, ..."
    )
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    if error := missing_of("training needs", "train"):
        raise error
    from learners.config import load

    load(options.arguments)  # reports invalid arguments before the slow import below
    from learners.aipo import main

    main(options.arguments)
