"""Helpers for user-facing error messages: similar names and missing packages."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message on an unknown name; empty if no known name is similar."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def missing(needs: str, package: str, extra: str) -> ModuleNotFoundError:
    """Return the error for a package that is not installed.

    Args:
        needs: Action that requires it, with a verb: "drawing needs".
        package: Name of the missing package.
        extra: Extra of resume-gym that installs it.
    """
    told = f"{needs} {package}: pip install resume-gym[{extra}]"
    return ModuleNotFoundError(told, name=package)
