"""Command line `resume-gym` with the commands in `_COMMANDS`, such as `train` and `view`.

Each command has a module in this package, imported only to run the command or to show its help.
Third-party packages that only one command needs are imported when that command runs.
"""

import argparse
import os
import platform
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from io import TextIOWrapper
from typing import NamedTuple, NoReturn

import resume_gym
from resume_gym.judges import JudgeError
from resume_gym.llm import ModelError
from resume_gym.support.command_line import Parser, complain
from resume_gym.support.printing import visible
from resume_gym.support.user_errors import TaskError


class CommandGroup(NamedTuple):
    """A group of subcommands, such as `data generate` and `data check`."""

    about: str
    members: tuple[str, ...]
    examples: tuple[str, ...]


_COMMANDS: Mapping[str, CommandGroup | None] = {
    **dict.fromkeys(("train", "eval", "rejudge", "card", "revise", "plot", "view", "play")),
    "data": CommandGroup(
        "make, import, check and share tasks",
        ("generate", "rubrics", "import", "check", "push"),
        (
            "data generate --generator procedural --count 1000 --out tasks.jsonl",
            "data check tasks.jsonl",
        ),
    ),
    "judge": CommandGroup(
        "measure how reliable a judge is",
        ("calibrate", "attack"),
        ("judge calibrate --judge rubric", "judge attack --limit 8"),
    ),
}
_EXAMPLES = (
    "eval --agent careful --agent oracle --env ResumeEditMini-v0",
    "view runs/nano",
    "revise ada.md --job job.txt --agent careful",
    "COMMAND --help",
)
# OSErrors of a wrong path give exit status 2; other OSErrors, such as a full disk, give 1
_WRONG_PATH = (
    *(FileNotFoundError, FileExistsError, PermissionError),
    *(IsADirectoryError, NotADirectoryError),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default).

    Returns:
        Exit status: 0 success, 1 failure, 2 user error, 3 flagged (see docs/cli.md), 130 Ctrl-C.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    formatting, warnings.formatwarning = warnings.formatwarning, _one_line
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # stdout's encoding may lack characters
    try:
        try:
            return _run(words)
        finally:
            warnings.formatwarning = formatting
            if sys.stdout:
                sys.stdout.flush()
    except OSError as problem:
        # redirect stdout to the null device; otherwise, the flush at exit would fail, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # do not report a broken pipe: the reader of the output, such as `head`, has exited
        return 1 if isinstance(problem, BrokenPipeError) else complain(_message(problem), 1)


def _one_line(message: Warning | str, *_: object, **__: object) -> str:
    """Format a warning as one line, without Gymnasium's colour and without source code."""
    text = re.sub(r"\x1b\[[\d;]*m(WARN: )?", "", str(message))
    return f"warning: {visible(' '.join(text.split()))}\n"


def _run(words: Sequence[str]) -> int:
    try:
        options = make_parser(words).parse_args(words)
        status: int | None = options.run(options)
    except BrokenPipeError:
        raise
    except (TaskError, ModuleNotFoundError, *_WRONG_PATH) as problem:
        return complain(_message(problem), 2)
    except (JudgeError, ModelError, OSError) as problem:
        return complain(_message(problem), 1)
    except KeyboardInterrupt as interrupt:
        return complain(str(interrupt) or "interrupted", 130)
    return status or 0


def _message(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.filename and problem.strerror:
        return f"{problem.filename}: {problem.strerror}"
    return str(problem)


class _Versions(argparse.Action):
    """Action that prints package versions from metadata, without importing the packages."""

    def __call__(self, *_: object) -> NoReturn:
        print(f"resume-gym {resume_gym.__version__}")
        print(f"{'Python':<12} {platform.python_version()}, {platform.platform()}")
        names = {re.split(r"[^\w-]", told, maxsplit=1)[0] for told in requires("resume-gym") or ()}
        for name in sorted(names):
            with suppress(PackageNotFoundError):
                print(f"{name:<12} {version(name)}")
        raise SystemExit(0)


def make_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Make the argument parser of `resume-gym`.

    Args:
        words: command-line arguments. If the first argument names a command, only that command's
            module is imported, since imports dominate the run time of short commands. Otherwise,
            all modules are imported, to show the help of all commands.
    """
    parser = Parser(
        "resume-gym",
        _EXAMPLES,
        failed="failure, or a negative result",
        flagged="flagged: see COMMAND --help",
        description="Train, evaluate and inspect agents that edit documents; make tasks for them, "
        "and check the judges that grade them.",
    )
    parser.add_argument(
        "--version",
        action=_Versions,
        nargs=0,
        help="show the versions of resume-gym and of the packages that it can use, and exit",
    )
    if words[:1] != ["--version"]:
        _add_commands(parser, _COMMANDS, words)
    return parser


def _add_commands(
    parser: argparse.ArgumentParser,
    groups: Mapping[str, CommandGroup | None],
    words: Sequence[str],
    prefix: str = "",
) -> None:
    """Add the parsers of commands; `prefix` is the start of module names, such as "judge_"."""
    parser.set_defaults(run=lambda options: _show_help(parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name in words[:1] if words and words[0] in groups else groups:
        if group := groups[name]:
            description = f"{group.about.capitalize()}."
            members = commands.add_parser(
                name, help=group.about, description=description, examples=group.examples
            )
            _add_commands(members, dict.fromkeys(group.members), words[1:], f"{name}_")
        else:
            import_module(f"resume_gym.cli.{prefix}{name}").add_command(commands)


def _show_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return 2
