"""JSON lines with checksums, and checks of the values in them.

A checksum detects changes of a line; it does not authenticate the writer.
"""

import hashlib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import Any, TypeGuard

CHECKSUM = "sha256"
"""Last key of a line; its value is the checksum of the line without this key."""
_OBJECTS = (
    *("errors", "verdict", "items"),
    *("by_weakness", "tasks_by_weakness", "best_of", "tasks_by_best_of"),
)
_FORMS: Mapping[str, type] = {"versions": list, **dict.fromkeys(_OBJECTS, dict)}
"""Container type (list or dict) of each figure that has several numbers, by the figure's name."""
_SEALED = re.compile(rb'(\{.+), "sha256": "([0-9a-f]{64})"\}\s*', re.DOTALL)


def strict_json(text: str) -> Any:
    """Parse JSON; reject repeated keys, NaN and infinities."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a JSON number")

    return json.loads(text, object_pairs_hook=unique_keys, parse_constant=refuse)


def strings(value: object) -> Iterator[str]:
    """Yield the strings in a value of nested dicts, lists and tuples, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from strings(one)


def seal(record: Mapping[str, object]) -> str:
    """Return a record as a line of JSON with a checksum, without a line feed.

    Raises:
        ValueError: The record is empty, or contains a number that is not finite.
    """
    if not record:
        raise ValueError("expected a record with at least one key, got an empty record")
    text = json.dumps(dict(record), allow_nan=False)
    return f'{text[:-1]}, "{CHECKSUM}": "{hashlib.sha256(text.encode()).hexdigest()}"}}'


def unseal(line: bytes, required: bool = True) -> dict[str, Any]:
    """Return the record in a line that `seal` wrote; see `parse`.

    Args:
        line: line of JSON with a checksum.
        required: whether the line must have a checksum; earlier package versions wrote none.

    Raises:
        ValueError: The checksum is wrong, or missing although required, or `parse` fails.
    """
    sealed = _SEALED.fullmatch(line)
    if sealed and hashlib.sha256(sealed[1] + b"}").hexdigest() != sealed[2].decode():
        raise ValueError("the checksum does not match the content")
    if required and not sealed:
        raise ValueError("expected a checksum at the end of the line")
    record = parse(line)
    if record.pop(CHECKSUM, None) is not None and not sealed:
        raise ValueError("expected a SHA-256 checksum as the last value")
    return record


def parse(content: bytes) -> dict[str, Any]:
    """Return the JSON object in a file or a line; NaN and infinities become None.

    Raises:
        ValueError: The text is no JSON object, is nested too deeply or has a number that overflows.
    """
    try:
        value = json.loads(content, parse_constant=lambda constant: None, parse_float=_finite)
    except RecursionError:
        raise ValueError("expected less deeply nested JSON") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {type(value).__name__}")
    return value


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"expected a finite number, got {text}")
    return number


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


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, Any]:
    """Convert the pairs of a JSON object to a dict; raise ValueError for a repeated key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:80]!r} occurs twice in an object")
    return found
