"""Client for all providers, with rate limits, retries and a persistent cache.

    client = make_client("gemini", store="answers.sqlite")
    verdict = client.ask_now(prompt, Verdict.model_validate_json)

An answer comes from an identical request in flight, from the store, or from a new request.
Temporary failures are retried with random exponential backoff, in addition to the delay that the
server requests. A malformed answer, such as one that `parse` rejects, is requested once more;
every other failure is raised at once. Only answers that `parse` accepts are stored.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from resume_gym.llm import (
    Answer,
    Malformed,
    Misconfigured,
    ModelError,
    Prompt,
    Provider,
    Unavailable,
    Usage,
)
from resume_gym.llm.gemini import Gemini
from resume_gym.llm.http_errors import shown
from resume_gym.llm.limits import Gate
from resume_gym.llm.loop import submit
from resume_gym.llm.openai import OpenAI
from resume_gym.llm.prices import dollars, is_listed
from resume_gym.llm.settings import Settings, check
from resume_gym.llm.store import Call, Store, key_of

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

T = TypeVar("T")

_PROVIDERS: dict[str, type[Gemini] | type[OpenAI]] = {"gemini": Gemini, "openai": OpenAI}
_log = logging.getLogger(__name__)
_KEYLESS = ContextVar("_KEYLESS", default=False)


class Sends(Provider, Protocol):
    """A provider that exposes the parameters on which its answers depend."""

    model: str

    @property
    def sampling(self) -> Mapping[str, Any]:
        """Sampling options by name."""
        ...


def make_client(provider: str, **options: Any) -> "Client":
    """Create the client of a provider.

    Args:
        provider: "gemini" or "openai".
        options: fields of `settings.Settings` and of the provider, `gemini.Gemini` or
            `openai.OpenAI`.

    Raises:
        ValueError: the provider or an option is unknown, an option is out of range, the API key is
            missing, or "openai" got no `model`.
    """
    if provider not in _PROVIDERS:
        raise ValueError(f"provider: expected one of {', '.join(_PROVIDERS)}; got {provider!r}")
    kind = _PROVIDERS[provider]
    provider_options = {option.name for option in fields(kind) if option.init}
    client_options = {option.name for option in fields(Settings)}
    for name, value in options.items():
        if name not in provider_options | client_options:
            names = ", ".join(sorted(provider_options | client_options))
            raise ValueError(f"{provider}: expected options among {names}; got {name!r}")
        check(name, value)
    if provider == "openai" and "model" not in options:
        raise ValueError("openai: expected the option 'model', the name that the server knows")
    settings = Settings(**{name: options[name] for name in client_options & options.keys()})
    made = kind(**{name: options[name] for name in provider_options & options.keys()})
    check_key(made, settings)
    return Client(made, settings)


@contextmanager
def without_keys() -> Iterator[None]:
    """Make clients without checking for keys, for estimates that send no request."""
    token = _KEYLESS.set(True)
    try:
        yield
    finally:
        _KEYLESS.reset(token)


def check_key(provider: Gemini | OpenAI, settings: Settings) -> None:
    """Check the API key now rather than at the first request, unless no request will be sent.

    Raises:
        ValueError: the key is missing or malformed.
    """
    if not settings.replay and not _KEYLESS.get():
        try:
            provider.read_key()
        except Misconfigured as problem:
            raise ValueError(str(problem)) from None


class _TooLateError(Exception):
    """The deadline of an answer has passed."""


@asynccontextmanager
async def _until(deadline: float | None) -> AsyncIterator[None]:
    """Raise `_TooLateError` in the block at a time of the loop's clock; None is no deadline."""
    try:
        async with asyncio.timeout_at(deadline) as clock:
            yield
    except TimeoutError:
        if not clock.expired():
            raise  # an inner timeout, not this deadline
        raise _TooLateError from None


class _Flight:
    """A request in flight, and the number of callers that wait for it."""

    def __init__(self, task: "asyncio.Task[tuple[str, Any]]") -> None:
        self.task = task
        self.waiting = 0


class Client:
    """A client of one model, usable from any thread and event loop; see `resume_gym.llm.Asks`.

    Args:
        provider: sends the requests.
        settings: limits, store and expected model version.
    """

    def __init__(self, provider: Sends, settings: Settings) -> None:
        self.name = provider.name
        self._provider, self._settings = provider, settings
        self._store = Store(settings.store, settings.replay) if settings.store else None
        self._gate = Gate(
            settings.concurrency, settings.requests_a_minute, settings.tokens_a_minute
        )
        self._flights: dict[str, _Flight] = {}
        self._calls = self._stored = self._tokens_in = self._tokens_out = 0
        self._dollars = 0.0
        self._served: str | None = None
        self._down = self._reached = False

    async def ask(self, prompt: Prompt, parse: Callable[[str], T]) -> T:
        """See `Asks`. A request is cancelled when no caller waits for it any longer."""
        return await asyncio.wrap_future(submit(self._ask(prompt, parse)))

    def ask_now(self, prompt: Prompt, parse: Callable[[str], T]) -> T:
        """Blocking version of `ask`; deadlocks inside the loop of `resume_gym.llm.loop`."""
        return submit(self._ask(prompt, parse)).result()

    @property
    def usage(self) -> Usage:
        """See `Asks`."""
        spent = self._dollars if is_listed(self._provider.model) else None
        return Usage(self._calls, self._stored, self._tokens_in, self._tokens_out, spent)

    @property
    def answer_tokens(self) -> int:
        """Token budget of an answer, without thinking."""
        return int(self._provider.sampling["answer_tokens"])

    @property
    def base_url(self) -> str:
        """Address of the model's server; empty for the provider's own."""
        return getattr(self._provider, "base_url", None) or ""

    @property
    def served(self) -> str | None:
        """Model version of the latest answer; None before the first."""
        return self._served

    async def close(self) -> None:
        """Cancel the requests in flight; close the connections and the store."""
        await asyncio.wrap_future(submit(self._close()))

    async def _close(self) -> None:
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._provider.close()
        if self._store:
            await asyncio.to_thread(self._store.close)

    async def _ask(self, prompt: Prompt, parse: Callable[[str], T]) -> T:
        # the address of the provider's own server stays out, as in stores of earlier versions
        address = {"base_url": self.base_url} if self.base_url else {}
        sampling = {**self._provider.sampling, **address}
        key = key_of(self.name, self._settings.served, sampling, prompt)
        flight = self._flights.get(key)
        first = flight is None
        if flight is None:
            flight = _Flight(asyncio.create_task(self._fetch(key, prompt, parse)))
            self._flights[key] = flight
        flight.waiting += 1
        try:
            # Cancelling one caller must not cancel the request that others share
            text, value = await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if self._flights.get(key) is flight and not flight.waiting:
                del self._flights[key]
                flight.task.cancel()
        if first:
            parsed: T = value
            return parsed
        # Another caller started the request, perhaps with another `parse`
        try:
            return parse(text)
        except (ValueError, RecursionError) as problem:
            raise Malformed(f"{self.name}: {shown(problem)}") from None

    async def _fetch(self, key: str, prompt: Prompt, parse: Callable[[str], T]) -> tuple[str, T]:
        """Return an answer's text and parsed value, from the store or the provider."""
        text = await self._store.find(key) if self._store else None
        if text is not None:
            try:
                value = parse(text)
            except (ValueError, RecursionError) as problem:
                # A stored answer that does not parse is requested again, unless in replay
                if self._settings.replay:
                    path = str(self._settings.store)
                    raise Malformed(f"store {path!r}: {prompt.kind!r}: {shown(problem)}") from None
            else:
                self._stored += 1
                return text, value
        if self._settings.replay:
            path = str(self._settings.store)
            missing = f"store {path!r} holds no answer of {self.name} to this prompt"
            raise Unavailable(f"{missing} of kind {prompt.kind!r}, and replay asks nobody")
        async with self._gate.slots:
            return await self._insist(key, prompt, parse)

    async def _insist(self, key: str, prompt: Prompt, parse: Callable[[str], T]) -> tuple[str, T]:
        """Send requests until there is an answer, a permanent failure or the deadline."""
        loop = asyncio.get_running_loop()
        last: ModelError | None = None
        malformed = 0
        deadline: float | None = None

        def again(problem: BaseException) -> bool:
            nonlocal last, malformed
            last = problem if isinstance(problem, ModelError) else last
            malformed += isinstance(problem, Malformed)
            once_more = isinstance(problem, Malformed) and malformed == 1
            return once_more or isinstance(problem, Unavailable)

        def too_late(state: "RetryCallState") -> bool:
            return deadline is not None and loop.time() + state.upcoming_sleep >= deadline

        async def once() -> tuple[str, T]:
            nonlocal deadline
            async with _until(deadline):
                estimate = await self._gate.pace(prompt)
            if deadline is None:  # starts after pacing: waiting in the queue is no timeout
                deadline = loop.time() + self._settings.deadline_s
            return await self._once(key, prompt, parse, estimate, deadline)

        try:
            return await self._retrying(again, too_late)(once)
        except (_TooLateError, Unavailable):
            pass
        message = f"{last or self.name}; no answer within {self._settings.deadline_s:g} s"
        given_up = Unavailable(
            message, last.retry_after_s if isinstance(last, Unavailable) else None
        )
        given_up.status = last.status if last else None
        raise given_up

    async def _once(
        self, key: str, prompt: Prompt, parse: Callable[[str], T], estimate: float, deadline: float
    ) -> tuple[str, T]:
        """Send one request and record its outcome; recording is exempt from the deadline."""
        began = time.perf_counter()
        sent = False
        try:
            async with _until(deadline), self._gate.breaker.passage():
                began, sent = time.perf_counter(), True  # excludes the wait at the breaker
                answer = await self._provider.send(prompt)
            value = self._read(answer, parse)
        except ModelError as raised:
            problem = self._wrong_address(raised)
            self._tell_outage(problem)
            if problem.answer:
                self._gate.settle(prompt, estimate, problem.answer)
            await self._count(prompt, began, problem.answer, problem)
            raise problem from None
        except _TooLateError:
            if sent:
                await self._count(prompt, began, None, Unavailable("cut off by the deadline"))
            raise
        self._down, self._reached = False, True
        self._gate.settle(prompt, estimate, answer)
        await self._count(prompt, began, answer, key=key)
        return answer.text, value

    def _wrong_address(self, problem: ModelError) -> ModelError:
        """Replace the error of an address at which there has been no server yet."""
        no_server = isinstance(problem, Unavailable) and problem.no_server
        if no_server and not self._reached:
            return Misconfigured(f"{problem}; no server runs there: check base_url")
        self._reached = self._reached or problem.status is not None
        return problem

    def _tell_outage(self, problem: ModelError) -> None:
        """Log an outage once, since requests to a wrong address are retried for minutes."""
        was, self._down = self._down, self._gate.breaker.broken
        if self._down and not was:
            limit = self._settings.deadline_s
            _log.warning("%s; asking again, for at most %g s an answer", shown(problem), limit)

    def _read(self, answer: Answer, parse: Callable[[str], T]) -> T:
        required = self._settings.served
        if answer.model != self._served:
            if self._served:
                _log.warning(
                    "%s: served by %s, before by %s", self.name, answer.model, self._served
                )
            else:
                _log.info("%s: served by %s", self.name, answer.model)
            self._served = answer.model
        if required and answer.model != required:
            message = f"{self.name}: expected {required!r}, served by {answer.model!r}"
            raise Misconfigured(message).after(answer)
        try:
            return parse(answer.text)
        except (ValueError, RecursionError) as cause:
            raise Malformed(f"{self.name}: {shown(cause)}").after(answer) from None

    async def _count(
        self,
        prompt: Prompt,
        began: float,
        answer: Answer | None,
        problem: ModelError | None = None,
        key: str | None = None,
    ) -> None:
        seconds = time.perf_counter() - began
        price = dollars(self._provider.model, answer) if answer else 0.0
        tokens = (answer.tokens_in, answer.tokens_out) if answer else (0, 0)
        if answer:
            self._calls += 1
            self._tokens_in += tokens[0]
            self._tokens_out += tokens[1]
            self._dollars += price or 0.0
        if self._store:
            outcome = type(problem).__name__.lower() if problem else "answer"
            status = problem.status if problem else None
            facts = (self.name, prompt.kind, outcome, status, seconds, *tokens, price)
            try:
                await self._store.add(Call(time.time(), *facts), key, answer)
            except Misconfigured as full:
                # The answer is paid for: a full disk must not lose it
                _log.error("%s; the answer is used and not kept", full)

    def _retrying(
        self, again: Callable[[BaseException], bool], stop: "Callable[[RetryCallState], bool]"
    ) -> "AsyncRetrying":
        try:
            from tenacity import AsyncRetrying, retry_if_exception, wait_random_exponential
        except ImportError as problem:
            extra = self.name.partition("/")[0]
            message = f"{self.name}: {problem}; pip install resume-gym[{extra}]"
            raise Misconfigured(message) from None
        growing = wait_random_exponential(multiplier=0.5, max=30)

        def pause(state: "RetryCallState") -> float:
            problem = state.outcome.exception() if state.outcome else None
            if not isinstance(problem, Unavailable):
                return 0.0  # a malformed answer is no sign of overload
            return (problem.retry_after_s or 0.0) + growing(state)

        def tell(state: "RetryCallState") -> None:
            problem = state.outcome.exception() if state.outcome else None
            _log.info("%s; again in %.1f s", problem, state.upcoming_sleep)

        retry = retry_if_exception(again)
        return AsyncRetrying(retry=retry, wait=pause, stop=stop, before_sleep=tell, reraise=True)
