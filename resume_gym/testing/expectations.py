"""The errors of failed checks: contract, expectation and finding in one message."""

from collections.abc import Iterator
from contextlib import contextmanager

_SHOWN = 300  # characters of a value in a message
_BEFORE = 40  # characters shown before the first difference


class ContractError(AssertionError):
    """An implementation breaks a contract."""


def expect(contract: str, expected: object, got: object) -> None:
    """Raise a ContractError if the values differ."""
    if got != expected:
        raise broken(contract, *_differing(repr(expected), repr(got)))


def broken(contract: str, expected: str, got: str) -> ContractError:
    """Return the error for a broken contract."""
    return ContractError(f"{contract}: expected {expected}; got {got}")


@contextmanager
def no_exception(contract: str) -> Iterator[None]:
    """Turn an exception of the body into a ContractError."""
    try:
        yield
    except ContractError:
        raise
    except Exception as error:
        raise broken(contract, "no exception", failure(error)) from error


def failure(error: BaseException) -> str:
    """Describe an exception."""
    return f"{type(error).__name__}: {error}"


def brief(value: object) -> str:
    """Format a value for a message, cut at the end if it is long."""
    return _cut(repr(value), 0)


def _differing(expected: str, got: str) -> tuple[str, str]:
    """Cut two texts so that their first difference is shown."""
    start = 0
    if max(len(expected), len(got)) > _SHOWN:
        pairs = enumerate(zip(expected, got, strict=False))
        same = next((place for place, (a, b) in pairs if a != b), min(len(expected), len(got)))
        start = max(0, same - _BEFORE)
    return _cut(expected, start), _cut(got, start)


def _cut(text: str, start: int) -> str:
    end = start + _SHOWN
    return "..." * (start > 0) + text[start:end] + "..." * (end < len(text))
