"""How fast requests may leave: rates a minute, and a breaker for when the server is down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from resume_gym.llm import Answer, ModelError, Prompt, Unavailable

_STARTS_A_MINUTE = 15_000
"""More than one thread can make of requests. Hundreds that began at once would all be made before
the first of them is sent, and so would those that follow on their answers."""


class Rate:
    """So much a minute, evenly, first come first.

    What is asked for may be more than a minute's worth: whoever comes next waits for it.

    Args:
        a_minute: how much; None is no limit.
        burst_s: how many seconds' worth may leave at once.
    """

    def __init__(self, a_minute: float | None, burst_s: float = 1.0) -> None:
        self._burst_s = burst_s
        self._seconds = 60 / a_minute if a_minute else 0.0
        self._free_at = 0.0
        self._turn = asyncio.Lock()

    async def take(self, amount: float = 1.0) -> None:
        """Return when so much may leave."""
        if not self._seconds:
            return
        async with self._turn:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(self._free_at - now)
            self._free_at = max(self._free_at, now - self._burst_s)
            self.settle(amount)

    def settle(self, amount: float) -> None:
        """Count more than was taken; less, if negative."""
        self._free_at += amount * self._seconds


class Breaker:
    """Holds requests back while all of them fail.

    After so many failures in a row nobody sends for a while, then one does. If that fails too,
    the next while is twice as long. Any answer lets all pass again.

    Args:
        failures: in a row, that break it.
        cool_s: the first while; a server that names a longer one is given that.
        longest_s: the longest while.
    """

    def __init__(self, failures: int = 8, cool_s: float = 1.0, longest_s: float = 60.0) -> None:
        self._failures, self._first_s, self._longest_s = failures, cool_s, longest_s
        self._failed = 0
        self._cool_s = cool_s
        self._until = 0.0
        self._probe = asyncio.Lock()

    @property
    def broken(self) -> bool:
        """Whether requests are held back."""
        return self._failed >= self._failures

    @asynccontextmanager
    async def passage(self) -> AsyncIterator[None]:
        """Wait for leave to send a request; the block sends it."""
        while self.broken:
            async with self._probe:
                if not self.broken:
                    continue  # the one before came through
                await asyncio.sleep(self._until - asyncio.get_running_loop().time())
                if self.broken:
                    async with self._watched(probe=True):
                        yield
                    return
        async with self._watched(probe=False):
            yield

    @asynccontextmanager
    async def _watched(self, probe: bool) -> AsyncIterator[None]:
        try:
            yield
        except Unavailable as problem:
            self._fail(problem.retry_after_s or 0.0, probe)
            raise
        except ModelError:
            self._failed = 0  # it answered
            raise
        self._failed = 0

    def _fail(self, asked_s: float, probe: bool) -> None:
        breaks = self._failed == self._failures - 1
        self._failed += 1
        if breaks or probe:
            longer = min(2 * self._cool_s, self._longest_s)
            self._cool_s = longer if probe else self._first_s
            now = asyncio.get_running_loop().time()
            self._until = now + max(self._cool_s, asked_s)


class Gate:
    """All limits of a client.

    What a request will take in tokens is guessed by its length and by what the ones before took,
    and put right with its answer.

    Args:
        concurrency: how many are on the way at once.
        requests_a_minute: None is no limit.
        tokens_a_minute: read and written; None is no limit.
    """

    def __init__(
        self, concurrency: int, requests_a_minute: float | None, tokens_a_minute: float | None
    ) -> None:
        self.slots = asyncio.Semaphore(concurrency)
        self.breaker = Breaker()
        self._requests, self._tokens = Rate(requests_a_minute), Rate(tokens_a_minute)
        self._starts = Rate(_STARTS_A_MINUTE, burst_s=0.0)
        self._tokens_per_character = 0.3

    async def pace(self, prompt: Prompt) -> float:
        """Return when the prompt may be sent; with the tokens that it is taken for."""
        await self._requests.take()
        guess = self._tokens_per_character * _length(prompt)
        await self._tokens.take(guess)
        await self._starts.take()
        return guess

    def settle(self, prompt: Prompt, guess: float, answer: Answer) -> None:
        """Count what it took."""
        tokens = answer.tokens_in + answer.tokens_out
        self._tokens.settle(tokens - guess)
        self._tokens_per_character += 0.1 * (tokens / _length(prompt) - self._tokens_per_character)


def _length(prompt: Prompt) -> int:
    return max(1, len(prompt.system) + len(prompt.user))
