"""Client options common to all providers, and validation of all options."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options of a client.

    Attributes:
        concurrency: maximum number of requests in flight.
        requests_a_minute: rate limit; None for no limit. Requests are spaced evenly in time.
        deadline_s: timeout of one answer in seconds, from its first request on; includes retries
            and pauses, but not the time in the queue.
        store: file in which answers and requests are stored; None stores nothing.
        replay: whether to answer from the store only, which needs no API key.
        served: required model version; None accepts any version.

    Raises:
        ValueError: `replay` is set without a `store`.
    """

    concurrency: int = 64
    requests_a_minute: int | None = None
    deadline_s: float = 300.0
    store: str | Path | None = None
    replay: bool = False
    served: str | None = None

    def __post_init__(self) -> None:
        if self.replay and self.store is None:
            raise ValueError("replay: expected a store to answer from, got none")


_KINDS: Mapping[str, tuple[Any, str]] = {
    "key_name": (str, "text"),
    "store": (str | Path | None, "text or null"),
    **dict.fromkeys(("served", "thinking_field"), (str | None, "text or null")),
    "extra_body": (dict | None, "an object or null"),
    "parallel_tool_calls": (bool | None, "true, false or null"),
    "replay": (bool, "true or false"),
}


def check(name: str, value: object) -> None:
    """Validate an option of a client, provider or `Route`; options without a rule are accepted.

    Raises:
        ValueError: the value has the wrong type or is out of range.
    """
    kinds, wanted = _KINDS.get(name, (object, ""))
    if not isinstance(value, kinds):
        raise ValueError(f"{name}: expected {wanted}, got {value!r}")
    whole = ("concurrency", "answer_tokens", "requests_a_minute", "after_failures", "difficulty")
    limits = (*whole, "deadline_s", "timeout_s", "budget_dollars")
    if name in limits and not (value is None and name == "requests_a_minute"):
        # exact types, since bool is a subclass of int
        numbers = (int,) if name in whole else (int, float)
        if type(value) not in numbers or not 0 < value < float("inf"):
            what = "a whole number" if name in whole else "a number"
            raise ValueError(f"{name}: expected {what} above 0, got {value!r}")
    if name == "thinking_tokens" and (type(value) is not int or value < 0):
        raise ValueError(f"{name}: expected a whole number >= 0, got {value!r}")
    hot = name == "temperature" and value is not None
    if hot and (type(value) not in (int, float) or not 0 <= value < float("inf")):
        raise ValueError(f"{name}: expected a number >= 0 or null, got {value!r}")
    if name == "base_url" and value is not None:
        check_url(value)
    if name == "model" and (not isinstance(value, str) or not value):
        raise ValueError(f"model: expected a name, got {value!r}")


def check_url(
    url: object, name: str = "base_url", expected: str = "http://HOST/v1 or null"
) -> None:
    """Validate the address of a server.

    Args:
        url: value of an option, which should be an address.
        name: name of the option.
        expected: form of a valid address.

    Raises:
        ValueError: the address is not an HTTP or HTTPS URL with a host, or might contain a key,
            which would be written to the files that record the settings.
    """
    if isinstance(url, str) and set("@?#;") & set(url):
        raise ValueError(f"{name}: expected no key in the address; keys are environment variables")
    message = f"{name}: expected {expected}, got {url!r}"
    if not isinstance(url, str):
        raise ValueError(message)
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as problem:  # the URL has an invalid port or unbalanced brackets, for example
        raise ValueError(f"{message}: {problem}") from None
    if not sound:
        raise ValueError(message)
