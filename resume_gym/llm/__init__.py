"""Language models as a service: one prompt in, one JSON object out, or a typed failure.

Who asks does not know of wires: `Client.ask` paces, retries and remembers (`client`, `limits`,
`store`), a provider only sends (`gemini`, `openai`). All of it runs in one event loop of its own
thread (`loop`), so that synchronous callers and other loops may use the same connections.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

T = TypeVar("T")


class ModelError(Exception):
    """A model gave no usable answer.

    Attributes:
        status: of the HTTP answer; None if there was none, or nothing was wrong with it.
        answer: what was paid for nevertheless; None if nothing was.
    """

    status: int | None = None
    answer: "Answer | None" = None

    def after(self, answer: "Answer") -> Self:
        """The same error, with what was paid for."""
        self.answer = answer
        return self


class Unavailable(ModelError):  # noqa: N818
    """It cannot be reached now; ask again later.

    Attributes:
        retry_after_s: how long the server asks to wait; None if it does not say.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Refused(ModelError):  # noqa: N818
    """It will not answer this; do not ask again."""


class Malformed(ModelError):  # noqa: N818
    """What it answered is not what was asked for."""


class CutOff(Malformed):
    """It ran out of tokens; the message says which option to raise."""


class Misconfigured(ModelError):  # noqa: N818
    """No request can succeed: the key, the model's name, its version or the address is wrong."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked.

    Attributes:
        system: the instruction.
        user: the data, and what to do with it.
        schema: JSON schema of the answer, a JSON object; its properties in the order to write.
        kind: what it is asked for, with the version of the wording ("judge-1"); part of the key
            under which the answer is kept.
        draw: number of the draw, for who wants several answers to the same prompt.
    """

    system: str
    user: str
    schema: Mapping[str, Any]
    kind: str
    draw: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered.

    Attributes:
        text: as it came; expected to be a JSON object.
        model: the version that served it.
        tokens_in, tokens_out: what is paid for, thinking included in the latter.
        seconds: from sending to the whole answer.
    """

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Usage:
    """What has been asked and paid so far; answers from the store cost nothing.

    Attributes:
        calls: requests that were answered.
        stored: answers that came from the store.
        tokens_in, tokens_out: of the calls.
        dollars: by the prices of `prices.toml`; None if the model is not in it.
    """

    calls: int
    stored: int
    tokens_in: int
    tokens_out: int
    dollars: float | None


class Provider(Protocol):
    """Sends one prompt over the wire, once."""

    name: str
    """Provider and model as asked for: "gemini/gemini-3-flash-preview"."""

    async def send(self, prompt: Prompt) -> Answer:
        """The answer.

        Raises:
            ModelError: the kind says what to do about it; no message holds a key.
        """
        ...

    async def close(self) -> None:
        """Let go of the connections."""
        ...


class Asks(Protocol):
    """What judges, generators and critics need: see `resume_gym.llm.client.Client`."""

    name: str

    async def ask(self, prompt: Prompt, parse: Callable[[str], T]) -> T:
        """The parsed answer.

        Args:
            prompt: what to ask.
            parse: turns the answer's text into what is wanted; raises ValueError if it cannot,
                and then the model is asked once more.

        Raises:
            ModelError: there is no answer; nothing is made up.
        """
        ...

    @property
    def usage(self) -> Usage:
        """What has been spent."""
        ...
