"""Errors of failed checks; a message states the contract, the expected and the actual value."""

from collections.abc import Iterator
from contextlib import contextmanager

_SHOWN = 300  # maximum number of characters of a value in a message
_BEFORE = 40  # characters shown before the first difference


class ContractError(AssertionError):
    """Raised if an implementation breaks a contract."""


def expect(contract: str, expected: object, got: object) -> None:
    """Raise a ContractError if the values differ."""
    if got != expected:
        texts, start = (repr(expected), repr(got)), 0
        if max(map(len, texts)) > _SHOWN:  # show long values around their first difference
            pairs = enumerate(zip(*texts, strict=False))
            same = next((n for n, (a, b) in pairs if a != b), min(map(len, texts)))
            start = max(0, same - _BEFORE)
        raise broken(contract, brief(expected, start), brief(got, start))


def broken(contract: str, expected: str, got: str) -> ContractError:
    """Return the error for a broken contract."""
    return ContractError(f"{contract}: expected {expected}; got {got}")


@contextmanager
def no_exception(contract: str) -> Iterator[None]:
    """Convert an exception raised in the `with` block to a ContractError."""
    try:
        yield
    except ContractError:
        raise
    except Exception as error:
        raise broken(contract, "no exception", failure(error)) from error


def failure(error: BaseException) -> str:
    """Describe an exception."""
    return f"{type(error).__name__}: {error}"


def brief(value: object, start: int = 0) -> str:
    """Format a value for a message, from character `start` of its `repr`; cut off a long end."""
    text, end = repr(value), start + _SHOWN
    return "..." * (start > 0) + text[start:end] + "..." * (end < len(text))
