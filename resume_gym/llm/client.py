"""Client for all providers, with rate limits, retries and a persistent cache.

    client = make_client("gemini", store="answers.sqlite")
    verdict = client.ask_now(prompt, Verdict.model_validate_json)

The client answers a request from an identical request that is in flight, from the store, or by a
new request to the server. Temporary failures are retried with random exponential backoff, in
addition to the delay that the server requests. A malformed answer, such as one that `parse`
rejects, is requested once more. All other failures are raised immediately. Only answers that
`parse` accepts are stored. The SDKs of the providers must not retry by themselves: such retries
would not be logged, and would ignore the client's rate limits and the delay in Google's
`RetryInfo`.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, TypeVar

from resume_gym.llm import (
    Answer,
    Malformed,
    Misconfigured,
    ModelError,
    Prompt,
    Unavailable,
    Usage,
    dollars,
)
from resume_gym.llm.gemini import Gemini
from resume_gym.llm.http_errors import shown
from resume_gym.llm.loop import submit, unlogged
from resume_gym.llm.openai import OpenAI
from resume_gym.llm.sdk_provider import SDKProvider
from resume_gym.llm.settings import Settings, check
from resume_gym.llm.store import Call, Store, key_of

T = TypeVar("T")

_PROVIDERS: dict[str, type[SDKProvider]] = {"gemini": Gemini, "openai": OpenAI}
_MOST_A_MINUTE = 15_000
"""Upper bound of the rate limit: one thread cannot build more requests in a minute. Without this
bound, the client would build hundreds of simultaneous requests before it sends the first."""
_OUTAGE = 8  # number of consecutive failures that triggers a warning
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_log = logging.getLogger(__name__)
_KEYLESS = ContextVar("_KEYLESS", default=False)
_HEARD: ContextVar[list[tuple[Prompt, Answer]] | None] = ContextVar("_HEARD", default=None)


def make_client(provider: str, **options: object) -> "Client":
    """Create the client of a provider.

    Args:
        provider: name of the provider, "gemini" or "openai".
        options: fields of `settings.Settings` and of the provider, `gemini.Gemini` or
            `openai.OpenAI`.

    Raises:
        ValueError: the provider or an option is unknown, an option is out of range, the API key is
            missing, or "openai" is given no `model`.
    """
    if provider not in _PROVIDERS:
        raise ValueError(f"provider: expected one of {', '.join(_PROVIDERS)}; got {provider!r}")
    if provider == "openai" and "model" not in options:
        raise ValueError("openai: expected the option 'model', the model's name on the server")
    return client_of(_PROVIDERS[provider], options)


def client_of(kind: type[SDKProvider], options: Mapping[str, object], **fixed: Any) -> "Client":
    """Create a client of a provider class; `options` must not repeat options from `fixed`."""
    own = {option.name for option in fields(kind) if option.init}
    common = {option.name for option in fields(Settings)}
    known = (own | common) - fixed.keys()
    for name, value in options.items():
        if name not in known:
            names = ", ".join(sorted(known))
            raise ValueError(f"expected options among {names}; got {name!r}")
        check(name, value)
    given = {**options, **fixed}
    settings = Settings(**{name: given[name] for name in common & given.keys()})
    provider = kind(**{name: given[name] for name in own & given.keys()})
    # report a missing API key before the first request; replay and estimates need no key
    if not settings.replay and not _KEYLESS.get():
        provider.read_key()
    return Client(provider, settings)


@contextmanager
def without_keys() -> Iterator[None]:
    """Let `client_of` make clients without API keys, to estimate costs without any request."""
    token = _KEYLESS.set(True)
    try:
        yield
    finally:
        _KEYLESS.reset(token)


@contextmanager
def heard() -> Iterator[list[tuple[Prompt, Answer]]]:
    """Collect the prompts and usable answers of all clients in this asyncio task and its subtasks.

    An answer read from a store has 0 tokens and 0 seconds.
    """
    found: list[tuple[Prompt, Answer]] = []
    token = _HEARD.set(found)
    try:
        yield found
    finally:
        _HEARD.reset(token)


class Rate:
    """Rate limiter that spaces `a_minute` requests per minute evenly, first come, first served."""

    def __init__(self, a_minute: float) -> None:
        self._seconds = 60 / a_minute
        self._free_at = 0.0

    async def take(self) -> None:
        """Wait until a request may be sent."""
        now = asyncio.get_running_loop().time()
        at = max(now, self._free_at)
        self._free_at = at + self._seconds
        await asyncio.sleep(at - now)


class Client:
    """A client of one model, usable from any thread and event loop.

    Args:
        provider: provider that sends the single requests.
        settings: limits, store and required model version.

    Attributes:
        name: provider and model.
        base_url: address of the model's server; empty for the provider's default.
        usage: requests, tokens and cost of this client so far.
        served: model version of the latest answer; empty before the first answer.
    """

    def __init__(self, provider: SDKProvider, settings: Settings) -> None:
        self.name, self.base_url, self.served = provider.name, provider.base_url or "", ""
        self._provider, self._settings = provider, settings
        self._store = Store(settings.store, settings.replay) if settings.store else None
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._rate = Rate(min(settings.requests_a_minute or _MOST_A_MINUTE, _MOST_A_MINUTE))
        self._flights: dict[str, asyncio.Task[Answer]] = {}
        self.usage = self._cost(Answer("", "", 0, 0, 0.0), calls=0)
        self._failures = 0  # number of consecutive `Unavailable` errors

    async def ask(self, prompt: Prompt, parse: Callable[[str], T]) -> T:
        """Return the parsed answer to a prompt.

        Cancelling the caller does not cancel the request, since the answer is billed anyway.

        Args:
            prompt: prompt to send to the model.
            parse: converts the answer's text; after a ValueError, the prompt is sent once more.

        Raises:
            ModelError: there is no usable answer.
        """
        return await asyncio.wrap_future(submit(self._ask(prompt, parse)))

    def ask_now(self, prompt: Prompt, parse: Callable[[str], T]) -> T:
        """Like `ask`, but blocking; deadlocks if called in the event loop of `llm.loop`."""
        return submit(self._ask(prompt, parse)).result()

    async def close(self) -> None:
        """Cancel the requests in flight; close the connections and the store."""
        await asyncio.wrap_future(submit(self._close()))

    async def _close(self) -> None:
        tasks = list(self._flights.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._provider.close()
        if self._store:
            await asyncio.to_thread(self._store.close)

    async def _ask(self, prompt: Prompt, parse: Callable[[str], T]) -> T:
        # the cache key leaves out a provider's default address, so that stores of earlier versions
        # can be read
        address = {"base_url": self.base_url} if self.base_url else {}
        sampling = {**self._provider.sampling, **address}
        key = key_of(self.name, self._settings.served, sampling, prompt)
        if key not in self._flights:
            self._flights[key] = unlogged(asyncio.create_task(self._fetch(key, prompt, parse)))
            self._flights[key].add_done_callback(lambda _: self._flights.pop(key))
        # Cancelling one caller must not cancel the request that other callers share. asyncio.wait()
        # never cancels it; asyncio.shield() would log its failure if every caller is cancelled.
        flight = self._flights[key]
        await asyncio.wait([flight])
        answer = flight.result()
        parsed = _parsed(answer.text, parse, self.name)
        if (found := _HEARD.get()) is not None:
            found.append((prompt, answer))
        return parsed

    async def _fetch(self, key: str, prompt: Prompt, parse: Callable[[str], object]) -> Answer:
        """Return an answer that can be parsed, from the store or the provider."""
        text = await self._store.find(key) if self._store else None
        where = f"store {str(self._settings.store)!r}"
        if text is not None:
            try:
                _parsed(text, parse, f"{where}: {prompt.kind!r}")
            except Malformed:
                # if the stored answer is invalid, request it again, except in replay
                if self._settings.replay:
                    raise
            else:
                self.usage += Usage(0, 1, 0, 0, 0.0)
                return Answer(text, "", 0, 0, 0.0)
        if self._settings.replay:
            missing = f"{where} holds no answer of {self.name} to this prompt"
            raise Unavailable(f"{missing} of kind {prompt.kind!r}, and replay sends no requests")
        async with self._slots:
            return await self._insist(key, prompt, parse)

    async def _insist(self, key: str, prompt: Prompt, parse: Callable[[str], object]) -> Answer:
        """Send requests until an answer arrives, a failure is permanent or the deadline passes."""
        time_of_loop = asyncio.get_running_loop().time
        deadline: float | None = None
        pause, longest = 0.0, _FIRST_PAUSE_S
        malformed = False
        last: ModelError | None = None
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    await asyncio.sleep(pause)
                    await self._rate.take()
                # the time until the deadline begins when the rate limit lets the first request pass
                deadline = deadline or time_of_loop() + self._settings.deadline_s
                return await self._once(key, prompt, parse, deadline)
            except Malformed as problem:
                if malformed:
                    raise
                malformed, last, pause = True, problem, 0.0
            except Unavailable as problem:
                last = problem
                pause = (problem.retry_after_s or 0.0) + random.uniform(0, longest)
                longest = min(2 * longest, _LONGEST_PAUSE_S)
                if time_of_loop() + pause >= (deadline or 0.0):
                    break
                _log.info("%s; retrying in %.1f s", problem, pause)
            except TimeoutError:
                break
        message = f"{last or self.name}; no answer within {self._settings.deadline_s:g} s"
        raise Unavailable(message)

    async def _once(
        self, key: str, prompt: Prompt, parse: Callable[[str], object], deadline: float
    ) -> Answer:
        """Send one request and record its outcome, even if the deadline passes meanwhile.

        Raises:
            TimeoutError: no answer arrived before the deadline.
        """
        began = time.perf_counter()
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._provider.send(prompt)
            self._check(answer, parse)
        except TimeoutError:
            await self._record(prompt, began, None, Unavailable("cut off by the deadline"))
            raise
        except ModelError as problem:
            self._failures += 1
            if not isinstance(problem, Unavailable):
                self._failures = 0  # every other error shows that the server is up
            elif self._failures == _OUTAGE:  # warn once per outage: retries go on for minutes
                limit = self._settings.deadline_s
                _log.warning("%s; retrying, for at most %g s per answer", shown(problem), limit)
            await self._record(prompt, began, problem.answer, problem)
            raise
        self._failures = 0
        await self._record(prompt, began, answer, key=key)
        return answer

    def _check(self, answer: Answer, parse: Callable[[str], object]) -> None:
        """Raise a `ModelError` if the model version is wrong or the answer cannot be parsed."""
        required = self._settings.served
        if self.served and answer.model != self.served:
            _log.warning("%s: served by %s, previously by %s", self.name, answer.model, self.served)
        self.served = answer.model
        if required and answer.model != required:
            message = f"{self.name}: expected model version {required!r}, got {answer.model!r}"
            raise Misconfigured(message).after(answer)
        try:
            _parsed(answer.text, parse, self.name)
        except Malformed as problem:
            raise problem.after(answer) from None

    def _cost(self, answer: Answer, calls: int = 1) -> Usage:
        price = dollars(self._provider.model, answer)
        return Usage(calls, 0, answer.tokens_in, answer.tokens_out, price)

    async def _record(
        self,
        prompt: Prompt,
        began: float,
        answer: Answer | None,
        problem: ModelError | None = None,
        key: str | None = None,
    ) -> None:
        """Add a request to the usage and the store's log, and a usable answer to the store."""
        seconds = time.perf_counter() - began
        cost = self._cost(answer) if answer else Usage(0, 0, 0, 0, 0.0)
        self.usage += cost
        if self._store:
            outcome = type(problem).__name__.lower() if problem else "answer"
            status = problem.status if problem else None
            paid = (cost.tokens_in, cost.tokens_out, cost.dollars)
            call = Call(time.time(), self.name, prompt.kind, outcome, status, seconds, *paid)
            try:
                await self._store.add(call, key, answer)
            except Misconfigured as full:
                # The answer has been billed, so it must be used even if a full disk prevents
                # storing it
                _log.error("%s; the answer is used but not stored", full)


def _parsed(text: str, parse: Callable[[str], T], source: str) -> T:
    try:
        return parse(text)
    except (ValueError, RecursionError) as problem:
        raise Malformed(f"{source}: {shown(problem)}") from None
