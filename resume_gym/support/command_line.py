"""Argument parser of all commands, with uniform help, errors and exit statuses."""

import argparse
import re
import textwrap
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NoReturn

from resume_gym.support.printing import say, visible
from resume_gym.support.user_errors import did_you_mean

_USER_ERROR = "a mistake in the command, or in a file that it names"
_CHOICE = r"invalid choice: (.+) \(choose from (.+)\)"


class Formatter(argparse.HelpFormatter):
    """Help formatter that wraps paragraphs to the terminal's width, but not indented lines."""

    def add_argument(self, action: argparse.Action) -> None:
        """Add an argument; make the first column wide enough for indented names of subcommands."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            names = (len(name) for name in action.choices)
            self._action_max_length = max(self._action_max_length, max(names) + 4)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        blocks = groupby(text.split("\n"), lambda line: line != "" and not line[0].isspace())
        return "\n".join(
            textwrap.fill(" ".join(lines), width) if prose else "\n".join(lines)
            for prose, lines in blocks
        )


class Parser(argparse.ArgumentParser):
    """Argument parser whose help ends with examples and exit statuses.

    The parser prints errors on one line and exits with status 2. The error for an unknown option
    suggests a known option with a similar name, if there is one.

    Args:
        prog: name of the command.
        examples: example command lines, without the leading `resume-gym`; may be empty.
        done: meaning of exit status 0.
        failed: meaning of exit status 1.
        flagged: meaning of exit status 3; empty if the command does not use it.
        options: other arguments of `ArgumentParser`.
    """

    def __init__(
        self,
        prog: str,
        examples: Sequence[str],
        done: str = "done",
        failed: str = "failure",
        flagged: str = "",
        **options: Any,
    ) -> None:
        statuses = {0: done, 1: failed, 2: _USER_ERROR, 3: flagged, 130: "interrupted"}
        lines = ["exit status:", *(f"  {n:<4} {text}" for n, text in statuses.items() if text)]
        if examples:
            lines = ["examples:", *(f"  resume-gym {one}" for one in examples), "", *lines]
        epilog = "\n".join(lines)
        super().__init__(prog=prog, epilog=epilog, formatter_class=Formatter, **options)

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(visible(message), file)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; exit with an error if one of them is unknown."""
        options, rest = super().parse_known_args(args, namespace)
        if rest:
            unknown = next((word for word in rest if word.startswith("-")), rest[0])
            self.error(f"unrecognized arguments: {' '.join(rest)}{self.hint(unknown)}")
        return options, rest

    def error(self, message: str) -> NoReturn:
        """Print an argparse error, reworded in the style of this package's errors, and exit."""
        message = re.sub(r"invalid (\w+) value: ", r"expected \1, got ", message)
        message = re.sub(_CHOICE, r"expected one of \2; got \1", message)
        raise SystemExit(complain(message.removeprefix("argument "), 2))

    def hint(self, unknown: str) -> str:
        """Return a suggestion to append to the error for an unknown option; may be empty."""
        name = unknown.partition("=")[0]
        return did_you_mean(name, self._option_string_actions) if name.startswith("-") else ""


def parse_nothing(about: str | None) -> None:
    """Parse the command line of a script whose only option is `--help`, which prints `about`."""
    raw = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=about, formatter_class=raw).parse_args()


def complain(problem: object, status: int) -> int:
    """Print an error message on stderr, and return the exit status."""
    say(f"resume-gym: {problem}", error=True)
    return status
