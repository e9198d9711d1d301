"""JSON lines with checksums, and functions that read files in bounded memory.

A checksum detects changes of a line; it does not authenticate the writer.
"""

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from resume_gym.support.user_errors import TaskError

MOST_BYTES = 2**26
"""Maximum size in bytes of a line, and of a file that is read whole."""
CHECKSUM = "sha256"
"""Last key of a line; its value is the checksum of the line without this key."""
_OBJECTS = ("errors", "verdict", "by_weakness", "tasks_by_weakness", "items")
_FORMS: Mapping[str, type] = {"versions": list, **dict.fromkeys(_OBJECTS, dict)}
"""Container type (list or dict) of each figure that has several numbers, by the figure's name."""
_SEALED = re.compile(rb'(\{.+), "sha256": "([0-9a-f]{64})"\}\s*', re.DOTALL)


def strict_json(text: str) -> Any:
    """Parse JSON; reject repeated keys, NaN and infinities."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a JSON number")

    return json.loads(text, object_pairs_hook=unique_keys, parse_constant=refuse)


class ChecksumError(ValueError):
    """Raised for a line that does not match its checksum."""


def seal(record: Mapping[str, object]) -> str:
    """Return a record as a line of JSON with a checksum, without a line feed.

    Raises:
        ValueError: The record is empty, or contains a number that is not finite.
    """
    if not record:
        raise ValueError("expected a record with at least one key, got an empty record")
    text = json.dumps(dict(record), allow_nan=False)
    return f'{text[:-1]}, "{CHECKSUM}": "{hashlib.sha256(text.encode()).hexdigest()}"}}'


def unseal(
    line: bytes, *, required: bool = True, loads: Callable[[bytes], Any] = json.loads
) -> dict[str, Any]:
    """Return the record in a line that `seal` wrote.

    Args:
        line: line of JSON with a checksum.
        required: whether the line must have a checksum; earlier package versions wrote none.
        loads: JSON parser.

    Raises:
        ChecksumError: The checksum is wrong, or missing although required.
        ValueError: The line is not a JSON object.
        RecursionError: The JSON is nested too deeply.
    """
    sealed = _SEALED.fullmatch(line)
    if sealed and hashlib.sha256(sealed[1] + b"}").hexdigest() != sealed[2].decode():
        raise ChecksumError("the checksum does not match the content")
    if required and not sealed:
        raise ChecksumError("expected a checksum at the end of the line")
    record = loads(line)
    if not isinstance(record, dict):
        raise ValueError(f"expected an object, got {record!r:.40}")
    if record.pop(CHECKSUM, None) is not None and not sealed:
        raise ChecksumError("expected a SHA-256 checksum as the last value")
    return record


def is_finite(value: Any) -> TypeGuard[float]:
    """Return whether a JSON value is a finite number; booleans are not numbers."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def check_figures(figures: Mapping[str, Any], prefix: str = "") -> None:
    """Check that each figure is a finite number, or a list or dict of numbers if `_FORMS` says so.

    Raises:
        ValueError: A figure is invalid; the message starts with `prefix` and the figure's name.
    """
    for name, value in figures.items():
        form = _FORMS.get(name)
        if form and not isinstance(value, form):
            kind = "an array" if form is list else "an object"
            raise ValueError(f"{prefix}{name}: expected {kind}, got {value!r:.40}")
        pairs = enumerate(value) if form is list else (value if form else {"": value}).items()
        for key, number in pairs:
            if not is_finite(number):
                place = f"{prefix}{name}.{key}".rstrip(".")
                raise ValueError(f"{place}: expected a finite number, got {number!r:.40}")


def check_step(step: object, earlier: Container[int]) -> int:
    """Return the training step of a row of metrics as an integer.

    Raises:
        ValueError: The step is not an integer from 0 to 999999999, or an earlier row has the same
            step.
    """
    if not (is_finite(step) and 0 <= step < 1e9 and step == int(step)):  # used in file names
        raise ValueError(f"step: expected a whole number from 0 to 999999999, got {step!r:.40}")
    if step in earlier:
        raise ValueError(f"step: expected one row for step {step:.0f}, got a second row")
    return int(step)


def check_regular(file: Path) -> None:
    """Check that a file, if it exists, is regular: reading a pipe or a device might never end.

    Raises:
        TaskError: The file is not regular.
    """
    if file.exists() and not file.is_file():
        raise TaskError(f"{file}: expected a regular file")


def read_lines(file: Path, start: int = 0, *, whole: bool = True) -> Iterator[bytes]:
    r"""Yield the lines of a file from a byte offset, each with its "\n" if it has one.

    Args:
        file: file to read.
        start: byte offset of the first line.
        whole: whether to leave out a last line that has no "\n", since it may be incomplete.

    Raises:
        TaskError: The file is not regular, or a line is longer than `MOST_BYTES`.
    """
    check_regular(file)
    with file.open("rb") as opened:
        opened.seek(start)
        while (line := opened.readline(MOST_BYTES)).endswith(b"\n"):
            yield line
        if len(line) == MOST_BYTES:
            raise TaskError(f"{file}: expected lines of at most {MOST_BYTES:,} bytes")
        if line and not whole:
            yield line


def read_bytes(file: Path) -> bytes:
    """Return the content of a file.

    Raises:
        TaskError: The file is not regular, or larger than `MOST_BYTES`.
    """
    check_regular(file)
    with file.open("rb") as opened:
        content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise TaskError(f"{file}: expected at most {MOST_BYTES:,} bytes")
    return content


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, Any]:
    """Convert the pairs of a JSON object to a dict; raise ValueError for a repeated key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:80]!r} occurs twice in an object")
    return found
