"""Base class of the providers, with connection pools.

The HTTP library's work per request grows with the number of open connections in the pool: at 256
connections it takes more CPU time than everything else. Pools here serve 16 requests each.
"""

import asyncio
import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from resume_gym.llm import Answer, Malformed, Misconfigured, ModelError, Prompt, Unavailable
from resume_gym.llm.http_errors import masked, read_key, shown

if TYPE_CHECKING:
    import httpx2

C = TypeVar("C")
_LOGGERS = ("httpcore2", "httpx2", "openai")
_A_POOL = 16
_MOST_BYTES, _MOST_VALUES = 4_000_000, 20_000  # of a response; SDKs take 0.1 ms for an object
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)  # possessive, to be linear without an end
_VALUE = re.compile(rb"[\[{,]")
_MOST_TOKENS = 10_000_000  # of a request; a larger count is an error of the server


class Pools(Generic[C]):
    """Several clients of an SDK; each request uses the one with the fewest requests in flight.

    Args:
        make: creates a client of the SDK on top of an HTTP client.
        concurrency: maximum number of requests in flight.
    """

    def __init__(self, make: "Callable[[httpx2.AsyncClient], C]", concurrency: int) -> None:
        import httpx2

        for name in _LOGGERS:  # they print headers, which a server may fill with the key
            logger = logging.getLogger(name)
            logger.setLevel(max(logger.level, logging.WARNING))
        secure = httpx2.create_ssl_context()
        # One spare: a request may start before the previous one has released its connection
        limits = httpx2.Limits(max_connections=_A_POOL + 1, max_keepalive_connections=_A_POOL + 1)
        self._connections = [
            httpx2.AsyncClient(
                verify=secure,
                limits=limits,
                timeout=None,
                headers={"Accept-Encoding": "identity"},
                event_hooks={"response": [_limit_size]},
            )
            for _ in range(-(-concurrency // _A_POOL))
        ]
        self._clients = [make(connections) for connections in self._connections]
        self._busy = [0] * len(self._clients)

    @contextmanager
    def client(self) -> Iterator[C]:
        """Return a context manager that yields the client for one request."""
        number = min(range(len(self._busy)), key=self._busy.__getitem__)
        self._busy[number] += 1
        try:
            yield self._clients[number]
        finally:
            self._busy[number] -= 1

    async def close(self) -> None:
        """Close the connections."""
        for connections in self._connections:
            await connections.aclose()


class _TooLargeError(Exception):
    """A response takes too much memory or time to read."""


async def _limit_size(response: "httpx2.Response") -> None:
    """Read a response before the SDK does, and stop at the limits of its size."""
    import httpx2

    if response.headers.get("content-encoding", "identity").lower() != "identity":
        # a megabyte could unpack to a gigabyte
        raise _TooLargeError("expected an answer that is not compressed")
    body = bytearray()
    stream: Any = response.stream
    async for chunk in stream:
        body += chunk
        if len(body) > _MOST_BYTES:
            raise _TooLargeError(f"expected an answer of at most {_MOST_BYTES:,} bytes")
    await stream.aclose()
    if b"\0" in body:  # UTF-16 or UTF-32, in which the values cannot be counted
        raise _TooLargeError("expected an answer in UTF-8")
    if (values := len(_VALUE.findall(_TEXT.sub(b"", body)))) > _MOST_VALUES:
        raise _TooLargeError(f"expected at most {_MOST_VALUES:,} JSON values, got {values:,}")
    response.encoding = "utf-8"
    response.stream = httpx2.ByteStream(bytes(body))


def _is_no_server(problem: BaseException) -> bool:
    """Return whether an exception says that a connection was refused."""
    # one of several addresses of a host is reported in a group
    causes = (problem.__cause__, problem.__context__, *getattr(problem, "exceptions", ()))
    refused = isinstance(problem, ConnectionRefusedError)
    return refused or any(_is_no_server(cause) for cause in causes if cause)


def are_counts(values: Iterable[object]) -> bool:
    """Return whether all values are plausible token counts."""
    return all(type(value) is int and 0 <= value <= _MOST_TOKENS for value in values)


@dataclass(kw_only=True)
class SDKProvider(ABC, Generic[C]):
    """Base class of providers that send requests through an SDK; see `resume_gym.llm.Provider`.

    Attributes:
        base_url: address of a server with the same protocol; None for the SDK's default.
        answer_tokens: token budget of the answer.
        thinking_tokens: token budget for thinking before the answer. Most servers limit only the
            sum: longer thinking leaves fewer tokens for the answer.
        temperature: None for the default of the model or server.
        timeout_s: timeout of one request, from start to end, in seconds.
        concurrency: number of concurrent requests for which connections are kept.
    """

    base_url: str | None = None
    answer_tokens: int = 2048
    thinking_tokens: int = 4096
    temperature: float | None = None
    timeout_s: float = 60.0
    concurrency: int = 64
    name: str = field(default="", init=False)
    _pools: Pools[C] | None = field(default=None, init=False, repr=False)
    _key: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        self._connecting = asyncio.Lock()
        self._key_names: Sequence[str] = ()
        self._needs_key = True

    def read_key(self) -> str:
        """Return the API key; empty if the server needs none.

        Raises:
            Misconfigured: the key is missing or malformed.
        """
        key = read_key(self._key_names, self.name)
        if self._needs_key and not key:
            where = " or ".join(self._key_names)
            raise Misconfigured(f"{self.name}: expected a key in {where}; it is not set")
        return key

    async def send(self, prompt: Prompt) -> Answer:
        """See `resume_gym.llm.Provider`."""
        async with self._connecting:
            if self._pools is None:
                self._pools = await asyncio.to_thread(self._connect)  # the import takes seconds
            pools = self._pools
            await self._before_first(pools)
        return await self._send(pools, prompt)

    async def close(self) -> None:
        """See `resume_gym.llm.Provider`."""
        pools, self._pools = self._pools, None
        if pools:
            await pools.close()

    def _connect(self) -> Pools[C]:
        try:
            make = self._maker()
        except ImportError as problem:
            extra = self.name.partition("/")[0]
            message = f"{self.name}: {problem}; pip install resume-gym[{extra}]"
            raise Misconfigured(message) from None
        self._key = self.read_key()
        try:
            return Pools(make, self.concurrency)
        except ValueError as problem:
            message = f"{self.name}: {shown(problem, self._key)}"
        raise Misconfigured(message)

    async def _send(self, pools: Pools[C], prompt: Prompt) -> Answer:
        began = time.perf_counter()
        try:
            with pools.client() as client:
                async with asyncio.timeout(self.timeout_s):
                    response = await self._request(client, prompt)
            return self._without_key(self._answer(response, time.perf_counter() - began))
        except TimeoutError:
            problem: ModelError = Unavailable(f"{self.name}: a request took {self.timeout_s:g} s")
        except RecursionError:
            problem = Malformed(f"{self.name}: expected an answer with less nesting")
        except ModelError as raised:
            problem = raised
        except Exception as raised:
            causes = (raised, raised.__cause__)  # some SDKs wrap it
            too_large = next((one for one in causes if isinstance(one, _TooLargeError)), None)
            large = Malformed(f"{self.name}: {too_large}")
            problem = large if too_large else self._failure(raised)
        problem.args = (masked(str(problem), self._key),)
        problem.answer = problem.answer and self._without_key(problem.answer)
        # raised outside the handlers: the SDK's exception, which has the key, is no context of it
        raise problem

    def _without_key(self, answer: Answer) -> Answer:
        text, model = (masked(part, self._key) for part in (answer.text, answer.model))
        return replace(answer, text=text, model=model)

    def _no_response(
        self, cause: Exception, invalid: tuple[type[Exception], ...], disconnected: bool = False
    ) -> ModelError:
        """Return the exception for a request that ended without an HTTP error status.

        Args:
            cause: exception of the SDK or the HTTP library; raised if it is a bug.
            invalid: exceptions by which the SDK reports a response of another protocol.
            disconnected: whether the SDK reports that the connection failed.
        """
        import httpx2

        message = f"{self.name}: {type(cause).__name__}: {shown(cause, self._key)}"
        if isinstance(cause, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            return Misconfigured(f"{message}; check base_url, {self.base_url!r}")
        if disconnected or isinstance(cause, httpx2.TransportError):
            where = f"{message} at {self.base_url}" if self.base_url else message
            return Unavailable(where, no_server=_is_no_server(cause))
        if isinstance(cause, (*invalid, httpx2.HTTPError)):
            return Malformed(message)
        raise cause

    async def _before_first(self, pools: Pools[C]) -> None:
        """Check the server before the first prompt."""

    @abstractmethod
    def _maker(self) -> "Callable[[httpx2.AsyncClient], C]":
        """Import the SDK; return a function that creates a client after the key is read."""

    @abstractmethod
    async def _request(self, client: C, prompt: Prompt) -> Any:
        """Send a prompt and return the SDK's response."""

    @abstractmethod
    def _failure(self, problem: Exception) -> ModelError:
        """Convert an exception of the SDK; raise it if it is a bug."""

    @abstractmethod
    def _answer(self, response: Any, seconds: float) -> Answer:
        """Convert a response; raise a `ModelError` if it holds no complete answer."""
