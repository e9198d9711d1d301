"""What the commands of `resume-gym` have in common: help, types of arguments, and JSON."""

import argparse
import inspect
import json
import math
import textwrap
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym

from resume_gym.env import EditEnv
from resume_gym.mistakes import did_you_mean
from resume_gym.tasks import TaskError

_OURS = "resume_gym.env:"
_MISTAKE = "a mistake in the command, or in a file that it names"


class Formatter(argparse.HelpFormatter):
    """Fills each line of a text to the terminal's width, but for lines that are indented."""

    def add_argument(self, action: argparse.Action) -> None:
        """Count the further indent of a list of commands, for the column of the help."""
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
    """Add a command, with examples and exit statuses in its help.

    Args:
        commands: what `add_subparsers` gave.
        name: of the command.
        about: what it does, in the list of commands.
        description: what it does, in its own help.
        examples: what to type after `resume-gym`.
        done: what status 0 says.
        failed: what status 1 says.
        flagged: what status 3 says, if the command has it.
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
    """The end of a help: examples, and what exit statuses say."""
    statuses = {0: done, 1: failed, 2: _MISTAKE, 3: flagged, 130: "interrupted"}
    lines = ["examples:", *(f"  resume-gym {one}" for one in examples)]
    lines += [
        "",
        "exit status:",
        *(f"  {code:<4} {text}" for code, text in statuses.items() if text),
    ]
    return "\n".join(lines)


def positive(text: str) -> int:
    """A positive integer of a command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def check_new_file(option: str, path: Path | None) -> None:
    """See that a file can be written, before the work that it is to hold.

    Raises:
        TaskError: its folder is missing, or it is one.
    """
    if path and not path.parent.is_dir():
        raise TaskError(f"{option}: there is no folder {str(path.parent)!r}")
    if path and path.is_dir():
        raise TaskError(f"{option}: expected a file, {str(path)!r} is a folder")


def make_edit_env(env: str, **options: Any) -> EditEnv:
    """The environment that `--env` names.

    Args:
        env: id of an environment of editing, or module:id.
        options: of it; None stands for its own, but as `split` for both.

    Raises:
        TaskError: there is no such environment, or its tasks or its judge cannot be had.
    """
    _check_env(env)
    given = {name: value for name, value in options.items() if value is not None or name == "split"}
    try:
        made = gym.make(env, **given).unwrapped
        assert isinstance(made, EditEnv)
        _ = made.tasks  # are read here, and may be bad
    except TaskError:
        raise
    except (ValueError, TypeError, ImportError, gym.error.Error) as problem:
        raise TaskError(f"{env}: {problem}") from None
    return made


def _check_env(name: str) -> None:
    """See that an environment is one of editing, before it is made."""
    ours = [key for key, one in gym.registry.items() if str(one.entry_point).startswith(_OURS)]
    known = f"--env: expected one of {', '.join(ours)}, or module:ID"
    try:
        module, _, own = name.rpartition(":")
        if module:
            import_module(module)
        point: Any = gym.spec(own).entry_point
        kind = gym.envs.registration.load_env_creator(point) if isinstance(point, str) else point
    except (gym.error.Error, ImportError, AttributeError) as problem:
        hint = did_you_mean(name, ours) or (f" ({problem})" if ":" in name else "")
        raise TaskError(f"{known}; got {name!r}{hint}") from None
    if not (inspect.isclass(kind) and issubclass(kind, EditEnv)):
        raise TaskError(f"{known}; {name} edits no documents")


def add_json(add: Any) -> None:
    """Add `--json` by a parser's `add_argument`; see `print_json`."""
    add("--json", action="store_true", help="print the same, and more of it, as JSON")


def print_json(value: Any) -> None:
    """Print a value for other programs: ASCII, and null for what is no number."""
    print(json.dumps(_finite(value), indent=1, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
