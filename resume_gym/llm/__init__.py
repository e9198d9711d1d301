"""Access to language models: one prompt in, one JSON object out, or a typed exception.

`client.make_client` is the entry point. A client adds limits, retries and a persistent cache
(`store`) to a provider (`gemini`, `openai`), which only sends single requests.
All clients run in the event loop of a background thread (`loop`), so synchronous code and other
event loops can share their connections.
"""

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Protocol, Self, TypeVar

T = TypeVar("T")


class ModelError(Exception):
    """A model returned no usable answer.

    Attributes:
        status: HTTP status of an error response; None without one.
        answer: the unusable answer, if one was received and billed; None otherwise.
    """

    status: int | None = None
    answer: "Answer | None" = None

    def after(self, answer: "Answer") -> Self:
        """Attach a billed answer to this error and return the error."""
        self.answer = answer
        return self


class Unavailable(ModelError):  # noqa: N818
    """The model is temporarily unavailable; retry later.

    Attributes:
        retry_after_s: delay in seconds that the server requests; None if it names none.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Refused(ModelError):  # noqa: N818
    """The model or its server refuses this prompt; do not retry."""


class Malformed(ModelError):  # noqa: N818
    """The answer does not have the requested format."""


class CutOff(Malformed):
    """The answer reached the token limit; the message names the options to raise."""


class Misconfigured(ModelError):  # noqa: N818
    """No request can succeed: the API key, model name, model version or address is wrong."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request to a model.

    Attributes:
        system: system message with the instructions.
        user: user message with the data and the question.
        schema: JSON schema of the answer, a JSON object; models write its properties in order.
        kind: type of request with the version of its wording ("judge-1"); part of the cache key.
        draw: sample index, for several answers to the same prompt.
    """

    system: str
    user: str
    schema: Mapping[str, Any]
    kind: str
    draw: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer.

    Attributes:
        text: unparsed text, expected to be a JSON object.
        model: model version that served the request.
        tokens_in, tokens_out: billed prompt and completion tokens; the latter include thinking.
        seconds: time from sending the request to the complete answer.
    """

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests, tokens and cost so far; answers from the store are free.

    Attributes:
        calls: requests with an answer, usable or not.
        stored: answers read from the store.
        tokens_in, tokens_out: billed tokens of all calls.
        dollars: cost by the list prices of `prices.toml`; None for an unlisted model.
    """

    calls: int
    stored: int
    tokens_in: int
    tokens_out: int
    dollars: float | None

    @property
    def tokens(self) -> int:
        """Billed tokens, read and written."""
        return self.tokens_in + self.tokens_out

    def __add__(self, other: "Usage") -> "Usage":
        return self._combined(other, 1)

    def __sub__(self, other: "Usage") -> "Usage":
        return self._combined(other, -1)

    def _combined(self, other: "Usage", sign: int) -> "Usage":
        pairs = zip(astuple(self), astuple(other), strict=True)
        sums: list[Any] = [None if None in pair else pair[0] + sign * pair[1] for pair in pairs]
        return Usage(*sums)


class Asks(Protocol):
    """Client interface for judges, generators and critics; see `resume_gym.llm.client.Client`."""

    name: str

    async def ask(self, prompt: Prompt, parse: Callable[[str], T]) -> T:
        """Return the parsed answer to a prompt.

        Args:
            prompt: the request.
            parse: converts the text of the answer; if it raises ValueError, the prompt is sent
                once more.

        Raises:
            ModelError: there is no usable answer; no default replaces it.
        """
        ...

    @property
    def usage(self) -> Usage:
        """Requests, tokens and cost so far."""
        ...
