"""Helpers shared by the commands of `resume-gym`: options, progress bars, JSON."""

import argparse
import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from resume_gym.episode.tasks import SPLITS
from resume_gym.judges import AsyncJudge, as_async, make_judge
from resume_gym.support.user_errors import TaskError

if TYPE_CHECKING:
    from rich.progress import Progress

    from learners.rollouts.model_player import FoundModel

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Result of `add_subparsers`, to which a command's module adds its parser."""
_JUDGE = "judge: a name, or JSON with a name and options"


def positive(text: str) -> int:
    """Parse a whole number >= 1; used as the `type` of command-line arguments."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number >= 1, got {text!r}")
    return int(text)


_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--env": {
        "default": "ResumeEdit-v0",
        "metavar": "ID",
        "help": "editing environment: an ID, or module:ID (default: %(default)s)",
    },
    "--tasks": {
        "metavar": "SOURCE",
        "help": "tasks: default, mini, procedural:SEED:COUNT, omission:SEED:COUNT, "
        "ladder:SEED, a JSONL file, a folder with a Hugging Face dataset, or hf://OWNER/NAME "
        "(default: those of the environment)",
    },
    "--split": {"choices": SPLITS},
    "--judge": {"metavar": "SPEC", "help": f"{_JUDGE} (default: that of the environment)"},
    "--seed": {
        "type": int,
        "default": 0,
        "metavar": "N",
        "help": "seed of random choices (default: %(default)s)",
    },
    "--anonymous": {"action": "store_true"},
    "--page-lines": {"type": positive, "metavar": "N"},
    "--json": {"action": "store_true", "help": "print the result as JSON, with more detail"},
}


def add_options(add: Callable[..., Any], *flags: str, **changes: object) -> None:
    """Add options that several commands share.

    Args:
        add: method `add_argument` of a parser.
        flags: flags of the options, which are keys of `_OPTIONS`.
        changes: keyword arguments of `add_argument`, which override those in `_OPTIONS`.
    """
    for flag in flags:
        add(flag, **{**_OPTIONS[flag], **changes})


def add_judge(add: Callable[..., Any]) -> None:
    """Add the option `--judge` with the default `rubric`, for use with `make_async_judge`."""
    add_options(add, "--judge", default="rubric", help=f"{_JUDGE} (default: %(default)s)")


def make_async_judge(spec: str) -> AsyncJudge:
    """Make the judge given by `--judge`.

    Raises:
        TaskError: the judge is unknown or cannot be made.
    """
    try:
        return as_async(make_judge(spec))
    except ValueError as problem:
        raise TaskError(f"--judge: {str(problem).removeprefix('judge: ')}") from None


def find_model(options: Mapping[str, object]) -> "FoundModel":
    """Locate a local model by its options, without loading it."""
    from learners.rollouts.model_player import FoundModel

    return FoundModel.of(options)


def progress_bars() -> "Progress":
    """Make a display of progress bars on stderr, disabled if stderr is no interactive terminal."""
    from rich.progress import Progress

    from resume_gym.support.terminal import Terminal

    console = Terminal(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_interactive)


def print_json(value: object) -> None:
    """Print a value as ASCII JSON; infinities and NaN become null."""
    print(json.dumps(_finite(value), indent=1, allow_nan=False))


def _finite(value: object) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
