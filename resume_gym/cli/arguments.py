"""Helpers shared by the commands of `resume-gym`: help texts, argument types, JSON output."""

import argparse
import json
import math
import textwrap
from collections.abc import Sequence
from typing import Any

from resume_gym.judges import AsyncJudge, as_async, make_judge
from resume_gym.tasks import TaskError

_MISTAKE = "a mistake in the command, or in a file that it names"


class Formatter(argparse.HelpFormatter):
    """Help formatter that wraps each line of a text to the terminal, except indented lines."""

    def add_argument(self, action: argparse.Action) -> None:
        """Widen the name column for lists of commands, which argparse indents further."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            names = (len(name) for name in action.choices)
            self._action_max_length = max(self._action_max_length, max(names) + 4)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = (
            line if line[:1].isspace() else textwrap.fill(line, width) for line in text.split("\n")
        )
        return "\n".join(lines)


def add_parser(
    commands: Any,
    name: str,
    about: str,
    description: str,
    examples: Sequence[str],
    done: str = "done",
    failed: str = "it failed",
    flagged: str = "",
) -> argparse.ArgumentParser:
    """Add the parser of a command, with examples and exit statuses in its help.

    Args:
        commands: result of `add_subparsers`.
        name: name of the command.
        about: summary for the list of commands.
        description: description for the command's help.
        examples: example arguments, without `resume-gym`.
        done: meaning of exit status 0.
        failed: meaning of exit status 1.
        flagged: meaning of exit status 3; empty if the command does not use it.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=description,
        epilog=epilog(examples, done, failed, flagged),
        formatter_class=Formatter,
    )
    return parser


def epilog(
    examples: Sequence[str], done: str = "done", failed: str = "it failed", flagged: str = ""
) -> str:
    """Return the end of a help text: examples and exit statuses; see `add_parser`."""
    statuses = {0: done, 1: failed, 2: _MISTAKE, 3: flagged, 130: "interrupted"}
    lines = ["examples:", *(f"  resume-gym {one}" for one in examples)]
    lines += [
        "",
        "exit status:",
        *(f"  {code:<4} {text}" for code, text in statuses.items() if text),
    ]
    return "\n".join(lines)


def positive(text: str) -> int:
    """Parse a positive integer, as an argument type."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def add_json(add: Any) -> None:
    """Add the option `--json` with a parser's `add_argument`; see `print_json`."""
    add("--json", action="store_true", help="print the same, and more of it, as JSON")


def print_json(value: Any) -> None:
    """Print a value as ASCII JSON; infinities and NaN become null."""
    print(json.dumps(_finite(value), indent=1, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def make_async_judge(spec: str) -> AsyncJudge:
    """Make the judge given by `--judge`.

    Raises:
        TaskError: the judge is unknown or cannot be made.
    """
    try:
        return as_async(make_judge(spec))
    except ValueError as problem:
        raise TaskError(f"--judge: {str(problem).removeprefix('judge: ')}") from None
