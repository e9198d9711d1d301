"""What a user's mistake is told with: the name that was meant, the package that is missing."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence on an unknown name; empty if no known one is like it."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def missing(needs: str, package: str, extra: str) -> ModuleNotFoundError:
    """The error for a package that is not installed.

    Args:
        needs: what cannot be done, with its verb: "drawing needs".
        package: what is missing.
        extra: brings it.
    """
    told = f"{needs} {package}: pip install resume-gym[{extra}]"
    return ModuleNotFoundError(told, name=package)
