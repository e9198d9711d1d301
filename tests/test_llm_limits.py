"""Pace and deadline of a client, in a loop whose time passes at once."""

import asyncio
import json
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from resume_gym.llm import (
    Answer,
    ModelError,
    Prompt,
    Unavailable,
)
from resume_gym.llm.client import Client
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


class Provider:
    """Answers after a while, or fails.

    Attributes:
        at: when it was asked.
    """

    name, model, base_url = "own/model", "model", None
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
    assert said == "nobody is there; retrying, for at most 150 s per answer"


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


def test_a_busy_disk_costs_no_answer() -> None:
    """What has been paid for is not given up while it is written down."""
    client = Client(Provider(1.0), Settings(deadline_s=150.0))
    client._store = disk = BusyDisk()  # type: ignore[assignment]
    assert in_no_time(client._ask(PROMPT, json.loads)) == {}
    assert disk.calls == ["answer"]
