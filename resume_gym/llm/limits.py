"""Limits on outgoing requests: concurrency, rates per minute, and a circuit breaker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from resume_gym.llm import Answer, ModelError, Prompt, Unavailable

_STARTS_A_MINUTE = 15_000
"""More requests than one thread can build. Without this pacing, hundreds of simultaneous requests,
and those that follow their answers, are all built before any is sent."""
_THINKING = 100_000
"""Tokens that an answer may take beyond what the length of its prompt makes plausible."""


class Rate:
    """Rate limiter that spreads a quota per minute evenly, first come, first served.

    A single amount may exceed the quota of a minute; the next caller waits accordingly longer.

    Args:
        a_minute: quota per minute; None for no limit.
        burst_s: unused quota that accumulates and may be spent at once, in seconds.
    """

    def __init__(self, a_minute: float | None, burst_s: float = 1.0) -> None:
        self._burst_s = burst_s
        self._seconds = 60 / a_minute if a_minute else 0.0
        self._free_at = 0.0
        self._turn = asyncio.Lock()

    async def take(self, amount: float = 1.0) -> None:
        """Wait until the amount may be spent."""
        if not self._seconds:
            return
        async with self._turn:  # asyncio's locks are FIFO
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(self._free_at - now)
            self._free_at = max(self._free_at, now - self._burst_s)
            self.settle(amount)

    def settle(self, amount: float) -> None:
        """Add to the amount spent, or refund a negative amount."""
        self._free_at += amount * self._seconds


class Breaker:
    """Circuit breaker that holds requests back while all of them fail.

    After `failures` consecutive failures all requests pause, then a single probe is sent. If the
    probe fails, the pause doubles. Any answer ends the pause. Only `Unavailable` is a failure.

    Args:
        failures: consecutive failures that open the breaker.
        cool_s: first pause, in seconds.
        longest_s: maximum pause, in seconds; the server can request a longer one.
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
        """Wait until a request may be sent; the block sends it."""
        while self.broken:
            async with self._probe:  # one probe at a time; the others queue here
                if not self.broken:
                    continue  # the previous probe succeeded
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
            self._failed = 0  # the server is up
            raise
        self._failed = 0

    def _fail(self, asked_s: float, probe: bool) -> None:
        # Failures of requests that left before the breaker opened do not extend the pause
        breaks = self._failed == self._failures - 1
        self._failed += 1
        if breaks or probe:
            longer = min(2 * self._cool_s, self._longest_s)
            self._cool_s = longer if probe else self._first_s
            now = asyncio.get_running_loop().time()
            self._until = now + max(self._cool_s, asked_s)


class Gate:
    """All limits of a client.

    The tokens of a request are estimated from its length and the ratio of earlier requests, and
    corrected when the answer arrives.

    Args:
        concurrency: maximum number of requests in flight.
        requests_a_minute: None for no limit.
        tokens_a_minute: prompt and completion tokens; None for no limit.
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
        """Wait until the prompt may be sent; return its estimated tokens."""
        await self._requests.take()
        guess = self._tokens_per_character * _length(prompt)
        await self._tokens.take(guess)
        await self._starts.take()
        return guess

    def settle(self, prompt: Prompt, guess: float, answer: Answer) -> None:
        """Replace the estimate by the billed tokens, and adapt the ratio."""
        # one false count must not stop the pacing for hours
        tokens = min(answer.tokens_in + answer.tokens_out, 10 * guess + _THINKING)
        self._tokens.settle(tokens - guess)
        # Exponential moving average
        self._tokens_per_character += 0.1 * (tokens / _length(prompt) - self._tokens_per_character)


def _length(prompt: Prompt) -> int:
    return max(1, len(prompt.system) + len(prompt.user))
