"""Access to language models: a request returns one JSON object or raises a typed exception.

`client.make_client` is the entry point. A provider (`gemini`, `openai`) sends single requests; a
client adds rate limits, retries and a persistent cache (`store`). All clients run in the event loop
of a background thread (`loop`), so synchronous code and other event loops can share a client.

A client knows neither resumes nor judges: this package does not import `resume_gym.judges`,
`resume_gym.episode` or `resume_gym.text`.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Self


class ModelError(Exception):
    """A model returned no usable answer.

    Attributes:
        status: HTTP status if the server answered with an error; None otherwise.
        answer: the unusable answer, if the server sent and billed an answer; None otherwise.
    """

    status: int | None = None
    answer: "Answer | None" = None

    def after(self, answer: "Answer") -> Self:
        """Attach to this error an answer that was billed; return the error."""
        self.answer = answer
        return self


class Unavailable(ModelError):  # noqa: N818
    """The model is temporarily unavailable; retry later.

    Attributes:
        retry_after_s: delay in seconds that the server requests; None if it requests no delay.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Refused(ModelError):  # noqa: N818
    """The model or its server refuses this prompt; do not retry."""


class Malformed(ModelError):  # noqa: N818
    """The answer does not have the requested format."""


class CutOff(Malformed):
    """The answer reached the token limit; the message names the options that raise the limit."""


class Misconfigured(ModelError):  # noqa: N818
    """No request can succeed: wrong API key, model, version or address, or an unusable store."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A single request to a language model.

    Attributes:
        system: system message with the instructions.
        user: user message with the data and the question.
        schema: JSON schema of the answer; models write the properties in the order of the schema.
        kind: type of request and version of its wording ("judge-1"); part of the cache key.
        draw: number of the sample; prompts that differ only in this number get different answers.
    """

    system: str
    user: str
    schema: Mapping[str, Any]
    kind: str
    draw: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a language model.

    Attributes:
        text: unparsed text of the answer, expected to be a JSON object.
        model: model version that served the request.
        tokens_in, tokens_out: billed prompt and completion tokens; the latter include thinking.
            None if the server reports no counts.
        seconds: time from sending the request to the complete answer.
    """

    text: str
    model: str
    tokens_in: int | None
    tokens_out: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests, tokens and cost so far; answers from the store are free.

    Attributes:
        calls: number of requests that got an answer, usable or not.
        stored: number of answers read from the store.
        tokens_in, tokens_out: billed prompt and completion tokens of all calls; None if the server
            reported no counts for a call.
        dollars: cost by the list prices in `prices.toml`; None if the model is unlisted or a count
            of tokens is None.
    """

    calls: int
    stored: int
    tokens_in: int | None
    tokens_out: int | None
    dollars: float | None

    @property
    def answers(self) -> int:
        """Number of answers, usable or not, including those of the store."""
        return self.calls + self.stored

    @property
    def tokens(self) -> int | None:
        """Number of billed tokens of prompts and completions; None if unknown."""
        if self.tokens_in is None or self.tokens_out is None:
            return None
        return self.tokens_in + self.tokens_out

    def mean(self, number: int) -> "Usage":
        """Return the mean usage per episode, given the number of episodes; counts are rounded."""
        *counts, dollars = astuple(self)
        rounded: list[Any] = [count if count is None else round(count / number) for count in counts]
        calls, stored, read, written = rounded
        return Usage(calls, stored, read, written, dollars and dollars / number)

    def __add__(self, other: "Usage") -> "Usage":
        return self._combined(other, 1)

    def __sub__(self, other: "Usage") -> "Usage":
        return self._combined(other, -1)

    def _combined(self, other: "Usage", sign: int) -> "Usage":
        pairs = zip(astuple(self), astuple(other), strict=True)
        sums: list[Any] = [None if None in pair else pair[0] + sign * pair[1] for pair in pairs]
        return Usage(*sums)


def dollars(model: str, answer: Answer) -> float | None:
    """Return an answer's cost in US dollars, from `prices.toml`.

    The cost is None if the model is unlisted or a count of tokens is None.
    """
    price = _price(model)
    if price is None or answer.tokens_in is None or answer.tokens_out is None:
        return None
    return (answer.tokens_in * price[0] + answer.tokens_out * price[1]) / 1e6


@cache
def _price(model: str) -> tuple[float, float] | None:
    # "gpt-5.2-2025-12-11" costs the same as "gpt-5.2", but "gpt-5.2-pro" does not
    name = re.sub(r"(-(preview|latest|exp|\d{2,8}))+$", "", model.removeprefix("models/"))
    prices = tomllib.loads((files("resume_gym.llm") / "prices.toml").read_text(encoding="utf-8"))
    price = prices["models"].get(name)
    return (price["in"], price["out"]) if price else None
