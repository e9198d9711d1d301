"""Options of a client, whoever provides."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a client keeps to.

    Attributes:
        concurrency: requests on the way at once.
        requests_a_minute, tokens_a_minute: limits; None for none. Tokens read and written count.
        deadline_s: of one answer, with retries and pauses. The time begins when its first request
            may be sent, so that nobody times out in the queue.
        store: a file in which answers and calls are kept; None for none.
        replay: answer from the store only; needs no key.
        served: the version of the model that must answer; None for any.
    """

    concurrency: int = 64
    requests_a_minute: int | None = None
    tokens_a_minute: int | None = None
    deadline_s: float = 300.0
    store: str | Path | None = None
    replay: bool = False
    served: str | None = None

    def __post_init__(self) -> None:
        if self.replay and self.store is None:
            raise ValueError("replay: expected a store to answer from, got none")


def check(name: str, value: Any) -> None:
    """Refuse what no request could be made of.

    Args:
        name: of an option, of the client or of its provider.
        value: of it.

    Raises:
        ValueError: it is out of range.
    """
    whole = ("concurrency", "answer_tokens", "requests_a_minute", "tokens_a_minute")
    limits = (*whole, "deadline_s", "timeout_s")
    may_be_none = ("requests_a_minute", "tokens_a_minute")
    if name in limits and not (value is None and name in may_be_none):
        kinds = (int,) if name in whole else (int, float)
        if type(value) not in kinds or not 0 < value < float("inf"):
            what = "a whole number" if name in whole else "a number"
            raise ValueError(f"{name}: expected {what} above 0, got {value!r}")
    if name == "thinking_tokens" and (type(value) is not int or value < 0):
        raise ValueError(f"{name}: expected a whole number from 0, got {value!r}")
    if name == "base_url" and value is not None:
        check_url(value)
    if name == "model" and (not isinstance(value, str) or not value):
        raise ValueError(f"model: expected a name, got {value!r}")


def check_url(url: object) -> None:
    """Refuse what is no address of a server.

    Raises:
        ValueError: it is none.
    """
    told = f"base_url: expected http://HOST/v1 or null, got {url!r}"
    if not isinstance(url, str):
        raise ValueError(told)
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as problem:  # of a port, or of brackets
        raise ValueError(f"{told}: {problem}") from None
    if not sound:
        raise ValueError(told)
