"""Pace, deadline and breaker of a client, in a loop whose time passes at once."""

import asyncio
import itertools
import json
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from resume_gym.llm import (
    Answer,
    ModelError,
    Prompt,
    Refused,
    Unavailable,
)
from resume_gym.llm.client import Client
from resume_gym.llm.limits import Breaker, Gate, Rate
from resume_gym.llm.settings import Settings
from resume_gym.llm.store import Call

PROMPT = Prompt("Add.", "1 + 1", {}, "sum-1")


def draws(count: int) -> list[Prompt]:
    return [replace(PROMPT, draw=draw) for draw in range(count)]


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        due = [one.when() for one in self._scheduled if not one.cancelled()]
        if due and not self._ready:
            self.now = max(self.now, min(due))
        super()._run_once()


def in_no_time(work: Any) -> Any:
    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(work)


@pytest.mark.parametrize(("a_minute", "seconds"), [(60, 119), (600, 11), (6, 1190), (None, 0)])
def test_a_rate(a_minute: int | None, seconds: float) -> None:
    async def take() -> float:
        loop = asyncio.get_running_loop()
        rate, began = Rate(a_minute), loop.time()
        await asyncio.gather(*(rate.take() for _ in range(120)))
        return loop.time() - began

    assert in_no_time(take()) == pytest.approx(seconds, abs=1.1)


def test_a_rate_serves_large_ones_too_and_in_turn() -> None:
    async def take() -> list[int]:
        rate, order = Rate(60), []

        async def one(number: int, amount: float) -> None:
            await rate.take(amount)
            order.append(number)

        sizes = enumerate([1, 300, 1, 1])
        await asyncio.gather(*(one(number, size) for number, size in sizes))
        assert asyncio.get_running_loop().time() >= 1300
        return order

    assert in_no_time(take()) == [0, 1, 2, 3]


def test_tokens_are_guessed_and_put_right() -> None:
    async def take() -> float:
        loop = asyncio.get_running_loop()
        gate, began = Gate(4, None, 6_000), loop.time()
        for number in range(101):
            prompt = Prompt("", f"{number:010000}", {}, "any")
            guess = await gate.pace(prompt)
            gate.settle(prompt, guess, Answer("", "", 900, 100, 0.0))
        return loop.time() - began

    assert in_no_time(take()) == pytest.approx(100 * 1000 / 100, rel=0.02)


def test_a_false_count_of_tokens_does_not_stop_the_pacing() -> None:
    async def take() -> float:
        loop = asyncio.get_running_loop()
        gate, began = Gate(4, None, 60_000), loop.time()
        for tokens in (10_000_000, 300, 300):
            prompt = Prompt("", "a" * 1_000, {}, "any")
            guess = await gate.pace(prompt)
            gate.settle(prompt, guess, Answer("", "", tokens, 0, 0.0))
        return loop.time() - began

    assert 90 < in_no_time(take()) < 300


class Provider:
    """Answers after a while, or fails.

    Attributes:
        at: when it was asked.
    """

    name, model = "own/model", "model"
    sampling: ClassVar[dict[str, Any]] = {}

    def __init__(self, seconds: float, failure: ModelError | None = None) -> None:
        self.at: list[float] = []
        self._seconds, self._failure = seconds, failure

    async def send(self, prompt: Prompt) -> Answer:
        self.at.append(asyncio.get_running_loop().time() - 1000)
        await asyncio.sleep(self._seconds)
        if self._failure:
            raise self._failure
        return Answer("{}", "model-1", 900, 100, self._seconds)

    async def close(self) -> None: ...


def ask_in_no_time(provider: Provider, count: int, **settings: Any) -> tuple[list[Any], float]:
    """What so many callers hear at once, and how long it takes."""

    async def ask() -> tuple[list[Any], float]:
        client = Client(provider, Settings(**settings))
        asked = (client._ask(prompt, json.loads) for prompt in draws(count))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return answers, asyncio.get_running_loop().time() - 1000

    heard: tuple[list[Any], float] = in_no_time(ask())
    return heard


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({"concurrency": 1}, 20 * 100),
        ({"concurrency": 20}, 100),
        ({"requests_a_minute": 1}, 19 * 60 + 100),
        ({"tokens_a_minute": 500, "concurrency": 1}, 19 * 120 + 100),
    ],
)
def test_a_queue_does_not_time_out(settings: dict[str, int], seconds: float) -> None:
    """The deadline is that of one answer; all of them together may take longer."""
    answers, took = ask_in_no_time(Provider(100.0), 20, deadline_s=150.0, **settings)
    assert answers == [{}] * 20
    assert took == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize("failure", [Unavailable("down"), None])
def test_the_deadline(failure: Unavailable | None) -> None:
    provider = Provider(20.0 if failure else 1e6, failure)
    (error,), took = ask_in_no_time(provider, 1, deadline_s=300.0)
    assert isinstance(error, Unavailable)
    assert "no answer within 300 s" in str(error)
    assert 200 < took <= 300
    assert len(provider.at) == (pytest.approx(9, abs=4) if failure else 1)


def test_an_outage_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    ask_in_no_time(Provider(0.1, Unavailable("nobody is there")), 20, deadline_s=150.0)
    (said,) = caplog.messages
    assert said == "nobody is there; asking again, for at most 150 s an answer"


class BusyDisk:
    """Stands for a store that takes its time.

    Attributes:
        calls: outcomes of the calls that it was given.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def find(self, key: str) -> None: ...

    async def add(self, call: Call, key: str | None, answer: Answer | None) -> None:
        await asyncio.sleep(400.0)
        self.calls.append(call.outcome)


def with_a_busy_disk(provider: Provider) -> tuple[Client, BusyDisk]:
    client = Client(provider, Settings(deadline_s=150.0))
    client._store = disk = BusyDisk()  # type: ignore[assignment]
    return client, disk


def test_a_busy_disk_costs_no_answer() -> None:
    """What has been paid for is not given up while it is written down."""
    client, disk = with_a_busy_disk(Provider(1.0))
    assert in_no_time(client._ask(PROMPT, json.loads)) == {}
    assert disk.calls == ["answer"]


def test_a_request_that_the_deadline_ends_is_in_the_log() -> None:
    client, disk = with_a_busy_disk(Provider(1e6))
    with pytest.raises(Unavailable, match="no answer within 150 s"):
        in_no_time(client._ask(PROMPT, json.loads))
    assert disk.calls == ["unavailable"]


def test_requests_waiting_for_the_breaker_have_a_deadline() -> None:
    provider = Provider(0.1, Unavailable("down", 200.0))
    errors, took = ask_in_no_time(provider, 20, deadline_s=150.0, concurrency=10)
    assert [type(one) for one in errors] == [Unavailable] * 20
    assert len(provider.at) < 20
    assert took <= 2 * 150


def test_the_breaker() -> None:
    """Ten callers ask without pause of a server that is down for a minute."""
    sent: list[float] = []

    async def caller(breaker: Breaker) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with breaker.passage():
                    sent.append(loop.time() - 1000)
                    await asyncio.sleep(0.01)
                    if sent[-1] < 60:
                        raise Unavailable("down")
                    return
            except Unavailable:
                await asyncio.sleep(0.1)

    async def all_callers() -> None:
        breaker = Breaker(failures=8, cool_s=1.0, longest_s=20.0)
        await asyncio.gather(*(caller(breaker) for _ in range(10)))
        assert not breaker.broken

    in_no_time(all_callers())
    probes = [when for when in sent if 0.2 < when < 60]
    gaps = [late - early for early, late in itertools.pairwise(probes)]
    assert len(probes) <= 8, "one at a time while it is down"
    assert gaps == sorted(gaps), "with growing pauses"
    assert max(gaps) <= 20.5
    after = [when for when in sent if when >= 60]
    assert len(after) == 10
    assert max(after) - min(after) < 0.5, "then all at once"


def test_the_breaker_honours_retry_after() -> None:
    async def ask() -> float:
        loop = asyncio.get_running_loop()
        breaker = Breaker(failures=2)
        for wait in (None, 500.0):
            with pytest.raises(Unavailable):
                async with breaker.passage():
                    raise Unavailable("busy", wait)
        assert breaker.broken
        async with breaker.passage():
            return loop.time() - 1000

    assert in_no_time(ask()) == pytest.approx(500)


def test_failures_of_what_was_on_its_way_do_not_prolong_the_pause() -> None:
    async def fail(breaker: Breaker, after_s: float) -> None:
        async with breaker.passage():
            await asyncio.sleep(after_s)
            raise Unavailable("down")

    async def ask() -> float:
        breaker = Breaker(failures=2, cool_s=1.0)
        sent = (fail(breaker, seconds) for seconds in (0.0, 0.0, 0.5))
        await asyncio.gather(*sent, return_exceptions=True)
        async with breaker.passage():
            return asyncio.get_running_loop().time() - 1000

    assert in_no_time(ask()) == pytest.approx(1.0)


def test_another_failure_closes_the_breaker() -> None:
    async def ask() -> None:
        breaker = Breaker(failures=2)
        for error in (Unavailable("down"), Refused("no"), Unavailable("down")):
            with pytest.raises(type(error)):
                async with breaker.passage():
                    raise error
        assert not breaker.broken

    in_no_time(ask())
