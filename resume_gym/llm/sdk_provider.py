"""Base class of the providers: connections, API keys, size limits and conversion of exceptions."""

import asyncio
import logging
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from resume_gym.llm import Answer, CutOff, Malformed, Misconfigured, ModelError, Prompt, Unavailable
from resume_gym.llm.http_errors import masked, shown
from resume_gym.support.user_errors import install

if TYPE_CHECKING:
    import httpx2

_LOGGERS = ("httpcore2", "httpx2", "openai")
# limits on the bytes and JSON values of a response, since SDKs take 0.1 ms per value
_MOST_BYTES, _MOST_VALUES = 4_000_000, 20_000
# the possessive `*+` never backtracks, so the search takes linear time even without a last quote
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_VALUE = re.compile(rb"[\[{,]")
# maximum number of tokens of a request; a server that states a larger number is wrong
_MOST_TOKENS = 10_000_000


class _TooLargeError(Exception):
    """A response takes too much memory or time to read."""


async def _limit_size(response: "httpx2.Response") -> None:
    """Read a response before the SDK does; raise `_TooLargeError` beyond the size limits."""
    import httpx2

    if response.headers.get("content-encoding", "identity").lower() != "identity":
        # a compressed megabyte could unpack to a gigabyte
        raise _TooLargeError("expected an answer that is not compressed")
    body = bytearray()
    stream: Any = response.stream
    async for chunk in stream:
        body += chunk
        if len(body) > _MOST_BYTES:
            raise _TooLargeError(f"expected an answer of at most {_MOST_BYTES:,} bytes")
    await stream.aclose()
    if b"\0" in body:  # the body is in UTF-16 or UTF-32, in which the values cannot be counted
        raise _TooLargeError("expected an answer in UTF-8")
    if (values := len(_VALUE.findall(_TEXT.sub(b"", body)))) > _MOST_VALUES:
        raise _TooLargeError(f"expected at most {_MOST_VALUES:,} JSON values, got {values:,}")
    response.encoding = "utf-8"
    response.stream = httpx2.ByteStream(bytes(body))


def are_counts(values: Iterable[object]) -> bool:
    """Return whether all values are plausible token counts."""
    return all(type(value) is int and 0 <= value <= _MOST_TOKENS for value in values)


@dataclass(kw_only=True)
class SDKProvider(ABC):
    """Base class of providers that send requests through an SDK.

    Attributes:
        sampled: names of the options in `sampling`; the cache key depends on their order.
        model: name of the model.
        name: provider and model, such as "gemini/gemini-3-flash-preview".
        base_url: address of a server that uses the SDK's protocol; None for the SDK's default.
        answer_tokens: token budget of the answer.
        thinking_tokens: token budget for thinking before the answer. Most servers limit only the
            sum of both budgets: long thinking leaves fewer tokens for the answer.
        temperature: sampling temperature; None for the default of the model or server.
        timeout_s: timeout in seconds of one request, from sending it to its complete answer.
    """

    sampled: ClassVar[tuple[str, ...]]
    model: str
    base_url: str | None = None
    answer_tokens: int = 2048
    thinking_tokens: int = 4096
    temperature: float | None = None
    timeout_s: float = 60.0
    name: str = field(default="", init=False)
    _client: Any = field(default=None, init=False, repr=False)
    _key: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        self._connecting = asyncio.Lock()
        self._reached = False  # whether a server has answered at the address
        self._key_names: Sequence[str] = ()
        self._needs_key = True

    def read_key(self) -> str:
        """Return the API key from the first of the provider's environment variables that is set.

        The result may be empty if the server needs no key.

        Raises:
            ValueError: the key is missing, or has characters that are not allowed in HTTP headers.
        """
        where = " or ".join(self._key_names)
        # Keys read from a file often end with a line feed
        held = (os.environ.get(name, "").strip() for name in self._key_names)
        key = next(filter(None, held), "")
        if self._needs_key and not key:
            raise ValueError(f"{self.name}: expected a key in {where}; it is not set")
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ValueError(f"{self.name}: expected {where} to be printable ASCII; it is not")
        return key

    @property
    def sampling(self) -> Mapping[str, Any]:
        """Options that affect the answers, by name, except the model."""
        return {name: getattr(self, name) for name in self.sampled}

    async def send(self, prompt: Prompt) -> Answer:
        """Send a prompt once and return the answer.

        Raises:
            ModelError: on every failure; its type tells whether a retry can succeed. The
                message never contains the API key.
        """
        async with self._connecting:
            if self._client is None:
                # in a thread, since importing the SDK takes seconds
                self._client = await asyncio.to_thread(self._open)
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self.timeout_s):
                response = await self._request(self._client, prompt)
            self._reached = True
            return self._without_key(self._answer(response, time.perf_counter() - began))
        except TimeoutError:
            problem: ModelError = Unavailable(f"{self.name}: timed out after {self.timeout_s:g} s")
        except RecursionError:
            problem = Malformed(f"{self.name}: expected an answer with less nesting")
        except ModelError as raised:
            problem = raised
        except Exception as raised:
            problem = self._converted(raised)
        self._reached = self._reached or problem.status is not None
        problem.args = (masked(str(problem), self._key),)
        problem.answer = problem.answer and self._without_key(problem.answer)
        # raised outside `except`: inside, its context would be the SDK's exception with the API key
        raise problem

    async def close(self) -> None:
        """Close the connections to the server."""
        if self._client is not None:
            self._client = None
            await self._http.aclose()

    def _open(self) -> Any:
        try:
            import httpx2

            self._key = self.read_key()
            for name in _LOGGERS:  # these loggers log headers, which may contain the API key
                logger = logging.getLogger(name)
                logger.setLevel(max(logger.level, logging.WARNING))
            self._http = httpx2.AsyncClient(
                limits=httpx2.Limits(),  # the client limits the number of requests
                timeout=None,
                headers={"Accept-Encoding": "identity"},
                event_hooks={"response": [_limit_size]},
            )
            return self._connect(self._http)
        except ImportError as problem:
            extra = self.name.partition("/")[0]
            message = f"{self.name}: {problem}; {install(extra)}"
        except ValueError as problem:
            message = f"{self.name}: {shown(problem, self._key)}"
        raise Misconfigured(message)

    def _without_key(self, answer: Answer) -> Answer:
        text, model = (masked(part, self._key) for part in (answer.text, answer.model))
        return replace(answer, text=text, model=model)

    def _converted(self, raised: Exception) -> ModelError:
        """Return the `ModelError` for an exception of the SDK or HTTP library; reraise others."""
        import httpx2

        of_http = (httpx2.HTTPError, httpx2.InvalidURL, _TooLargeError)
        # some SDKs wrap exceptions of the HTTP library
        cause = raised.__cause__ if isinstance(raised.__cause__, of_http) else raised
        message = f"{self.name}: {type(cause).__name__}: {shown(cause, self._key)}"
        where = f" at {self.base_url}" if self.base_url else ""
        if isinstance(cause, _TooLargeError):
            return Malformed(f"{self.name}: {cause}")
        if isinstance(cause, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            return Misconfigured(f"{message}; check base_url, {self.base_url!r}")
        if isinstance(cause, httpx2.ConnectError) and not self._reached:
            return Misconfigured(f"{message}{where}; no server has answered there: check base_url")
        if isinstance(cause, httpx2.TransportError):
            return Unavailable(message + where)
        if failure := self._failure(cause):
            return failure
        if isinstance(cause, httpx2.HTTPError):
            return Malformed(message)
        raise cause

    def _cut_off(self, thought: object) -> CutOff:
        """Return the exception for an answer cut off at `answer_tokens` + `thinking_tokens`.

        Args:
            thought: number of thinking tokens; not an int if the server reports no number.
        """
        detail = f", {thought} of them thinking" if isinstance(thought, int) else ""
        return CutOff(
            f"{self.name}: cut off at {self.answer_tokens + self.thinking_tokens} tokens{detail}; "
            f"raise answer_tokens, now {self.answer_tokens}, "
            f"or thinking_tokens, now {self.thinking_tokens}"
        )

    @abstractmethod
    def _connect(self, http: "httpx2.AsyncClient") -> Any:
        """Import the SDK and return its client, which must use the given HTTP client."""

    @abstractmethod
    async def _request(self, client: Any, prompt: Prompt) -> Any:
        """Send a prompt through the SDK and return its response."""

    @abstractmethod
    def _failure(self, problem: BaseException) -> ModelError | None:
        """Convert an SDK's exception to a `ModelError`; return None if its type is unknown."""

    @abstractmethod
    def _answer(self, response: Any, seconds: float) -> Answer:
        """Convert the SDK's response; raise a `ModelError` if it holds no complete answer."""
