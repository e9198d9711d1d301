"""`resume-gym plot`: plot training runs and evaluations."""

import argparse
from pathlib import Path

from resume_gym.apps.plot.plot import plot
from resume_gym.cli.arguments import Commands
from resume_gym.figures.style import FORMATS
from resume_gym.support.printing import say
from resume_gym.support.user_errors import TaskError


def add_command(commands: Commands) -> None:
    """Add the parser of the command `plot`."""
    command = commands.add_parser(
        "plot",
        help="draw runs and evaluations",
        description="Draw training runs and evaluations: a set of figures for each run, one figure "
        "that compares the runs, and one set that compares the evaluations. Figures without data "
        "are left out.",
        examples=[
            "plot runs/nano --out docs --format svg",
            "eval --agent careful --agent oracle --out result",
            "plot result",
        ],
    )
    add = command.add_argument
    add(
        "paths",
        nargs="+",
        type=Path,
        metavar="RUN_OR_RESULT",
        help="folder of a run, or of an evaluation (made by `resume-gym eval --out FOLDER`)",
    )
    add(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="folder of the figures (default: `plots` in the folder of the run or evaluation)",
    )
    add(
        "--format",
        default=",".join(FORMATS),
        metavar="LIST",
        help="formats: png, svg or both (default: %(default)s)",
    )
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    formats = list(dict.fromkeys(options.format.split(",")))
    for name in formats:
        if name not in FORMATS:
            raise TaskError(f"--format: expected some of {', '.join(FORMATS)}; got {name!r}")
    try:
        written = plot(options.paths, options.out, formats)
    except TaskError:
        raise
    except (OverflowError, ValueError) as problem:  # from matplotlib, for values such as 1e308
        raise TaskError(f"expected values that can be drawn: {problem}") from None
    for file in written.files:
        say(file)
    for told in written.damage:
        say(told, error=True)
    if written.missing:
        say(f"nothing to draw for: {', '.join(map(str, written.missing))}", error=True)
