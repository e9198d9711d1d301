"""Errors and messages for users: similar names, missing packages, counts with nouns."""

import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path


class TaskError(ValueError):
    """Raised for an invalid task or task source, and for other invalid user input."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suggestion to append to an error message; empty if no known name is similar."""
    matches = get_close_matches(name, list(known), n=1, cutoff=0.65)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def number_of(count: int, noun: str) -> str:
    """Return a count with its noun: "1 task", "2,000 tasks"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def install(extra: str) -> str:
    """Return the command that installs an extra.

    The command names the checkout that is running: no release is in a package registry yet.
    """
    root = Path(__file__).parents[2]
    if (root / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{root}[{extra}]')}"
    return f"pip install 'resume-gym[{extra}]'"


def missing(needs: str, package: str, extra: str) -> ModuleNotFoundError:
    """Return the error for a package that is not installed.

    Args:
        needs: start of the message, up to the package's name, such as "drawing needs".
        package: name of the missing package.
        extra: extra of resume-gym that installs the package.
    """
    return ModuleNotFoundError(f"{needs} {package}: {install(extra)}", name=package)


def missing_of(needs: str, extra: str) -> ModuleNotFoundError | None:
    """Return the error that names the missing packages of an extra; None if all are installed.

    Args:
        needs: start of the message, up to the packages' names, such as "training needs".
        extra: extra of resume-gym; a package "a-b" of the extra must provide the module "a_b".
    """
    try:
        required = requires("resume-gym") or []
    # a checkout that is not installed has no metadata; the import will raise the error
    except PackageNotFoundError:
        return None
    extras = (one for one in required if one.endswith(f'extra == "{extra}"'))
    names = [re.split(r"[^\w-]", one, maxsplit=1)[0] for one in extras]
    absent = [name for name in names if find_spec(name.replace("-", "_")) is None]
    return missing(needs, " and ".join(absent), extra) if absent else None
