"""The client: options, pace, retries, one request for the same question, what is spent."""

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, ClassVar

import pytest
from loopback import Loopback, Say, gemini_server, openai_server, system_text, user_text

from resume_gym.llm import (
    Answer,
    Malformed,
    Misconfigured,
    ModelError,
    Prompt,
    Refused,
    Unavailable,
)
from resume_gym.llm.client import Client, make_client
from resume_gym.llm.failures import failed, retry_after
from resume_gym.llm.gemini import ordered
from resume_gym.llm.limits import Breaker, Gate, Rate
from resume_gym.llm.loop import submit
from resume_gym.llm.prices import dollars, is_listed
from resume_gym.llm.settings import Settings
from resume_gym.llm.store import Call

SCHEMA = {
    "type": "object",
    "properties": {
        "why": {"type": "array", "items": {"type": "object", "properties": {"b": {}, "a": {}}}},
        "sum": {"type": "integer"},
    },
    "required": ["why", "sum"],
    "additionalProperties": False,
}
PROMPT = Prompt("Add.", "1 + 1", SCHEMA, "sum-1")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "google-key")
    monkeypatch.setenv("GEMINI_API_KEY", "gemini-key")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def server() -> Iterator[Loopback]:
    with gemini_server(lambda body: {"sum": 2}) as server:
        yield server


@pytest.fixture
def client(server: Loopback) -> Iterator[Client]:
    made = make_client("gemini", base_url=server.url, concurrency=4)
    yield made
    asyncio.run(made.close())


def draws(count: int) -> list[Prompt]:
    return [replace(PROMPT, draw=draw) for draw in range(count)]


async def ask_all(client: Client, prompts: list[Prompt]) -> list[Any]:
    asked = (client.ask(prompt, json.loads) for prompt in prompts)
    return await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.parametrize(
    ("provider", "options", "words"),
    [
        ("claude", {}, "one of gemini, openai; got 'claude'"),
        ("gemini", {"modle": "x"}, "among .*timeout_s.*got 'modle'"),
        ("gemini", {"extra_body": {}}, "got 'extra_body'"),
        ("openai", {"model": "x", "thinking": "low"}, "got 'thinking'"),
        ("openai", {}, "option 'model'"),
        ("openai", {"model": ""}, "a name, got ''"),
        ("gemini", {"concurrency": 0}, "concurrency: expected a whole number above 0, got 0"),
        ("gemini", {"concurrency": 2.5}, "got 2.5"),
        ("gemini", {"deadline_s": float("nan")}, "deadline_s: expected a number"),
        ("gemini", {"requests_a_minute": "9"}, "got '9'"),
        ("gemini", {"thinking": "hard"}, "minimal, low, medium, high or None, got 'hard'"),
        ("gemini", {"replay": True}, "replay: expected a store"),
        ("gemini", {"base_url": "nowhere"}, "expected http://HOST/v1 or null, got 'nowhere'"),
        ("openai", {"model": "x", "base_url": 7}, "or null, got 7"),
        ("openai", {"model": "x", "base_url": "http://h:99999/v1"}, "Port out of range"),
    ],
)
def test_options_that_make_no_sense(provider: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_client(provider, **options)


@pytest.mark.parametrize("provider", ["gemini", "openai"])
def test_a_key_is_needed_when_it_is_first_used(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name)
    client = make_client(provider, model="some")
    with pytest.raises(Misconfigured, match=r"expected a key in \w+_API_KEY"):
        client.ask_now(PROMPT, json.loads)
    asyncio.run(client.close())


def test_what_gemini_is_sent(server: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "httpx2")
    options = {"model": "gemini-3-pro-preview", "api_version": "v1beta", "temperature": 0.5}
    client = make_client("gemini", base_url=server.url, **options, max_output_tokens=77)
    assert client.ask_now(PROMPT, json.loads) == {"sum": 2}
    asyncio.run(client.close())
    names = {record.name for record in caplog.records}
    assert "httpx2" in names, "by our connections, not by aiohttp"
    (sent,) = server.requests
    assert server.paths == ["/v1beta/models/gemini-3-pro-preview:generateContent"]
    assert (system_text(sent), user_text(sent)) == ("Add.", "1 + 1")
    config = sent["generationConfig"]
    assert (config["temperature"], config["maxOutputTokens"]) == (0.5, 77)
    assert config["responseMimeType"] == "application/json"
    assert config["thinkingConfig"] == {"thinking_level": "LOW"}
    schema = config["responseJsonSchema"]
    assert schema["propertyOrdering"] == ["why", "sum"]
    assert schema["properties"]["why"]["items"]["propertyOrdering"] == ["b", "a"]
    assert "responseSchema" not in config


def test_ordering_leaves_the_schema_as_it_was() -> None:
    before = json.dumps(SCHEMA)
    ordered(SCHEMA)
    assert json.dumps(SCHEMA) == before


def test_what_openai_is_sent() -> None:
    body = {"chat_template_kwargs": {"enable_thinking": False}}
    with openai_server(lambda body: {"sum": 2}) as server:
        options = {"base_url": server.url, "extra_body": body, "max_output_tokens": 77}
        client = make_client("openai", model="Qwen/Qwen3-4B", **options)
        prompt = replace(PROMPT, kind="sum/1.5")
        assert client.ask_now(prompt, json.loads) == {"sum": 2}
        asyncio.run(client.close())
        (sent,) = server.requests
    assert (system_text(sent), user_text(sent)) == ("Add.", "1 + 1")
    assert sent["model"] == "Qwen/Qwen3-4B"
    assert sent["max_completion_tokens"] == 77
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert sent["response_format"]["json_schema"] == {
        "name": "sum_1_5",
        "strict": True,
        "schema": SCHEMA,
    }


def test_no_more_at_once_than_allowed() -> None:
    with gemini_server(lambda body: {"sum": 2}, delay_s=0.1) as server:
        client = make_client("gemini", base_url=server.url, concurrency=5)
        answers = asyncio.run(ask_all(client, draws(25)))
        asyncio.run(client.close())
    assert answers == [{"sum": 2}] * 25
    assert 1 < server.most <= 5


def test_the_same_question_is_asked_once_at_a_time(server: Loopback, client: Client) -> None:
    answers = asyncio.run(ask_all(client, [PROMPT] * 20 + draws(2)))
    assert answers == [{"sum": 2}] * 22
    assert len(server.requests) == 2, "without a store, and another draw is another question"
    assert client.usage.calls == 2
    client.ask_now(PROMPT, json.loads)
    assert len(server.requests) == 3, "nothing is kept without a store"


def test_whoever_shares_a_failure_fails(server: Loopback, client: Client) -> None:
    server.script.append(Say(blocked=True))
    answers = asyncio.run(ask_all(client, [PROMPT] * 3))
    assert [type(one) for one in answers] == [Refused] * 3
    assert len(server.requests) == 1
    assert client.ask_now(PROMPT, json.loads) == {"sum": 2}, "a failure is not kept"


def test_each_reads_a_shared_answer_his_own_way(server: Loopback, client: Client) -> None:
    async def both() -> list[Any]:
        first = client.ask(PROMPT, json.loads)
        second = client.ask(PROMPT, int)
        return await asyncio.gather(first, second, return_exceptions=True)

    answer, failure = asyncio.run(both())
    assert answer == {"sum": 2}
    assert isinstance(failure, Malformed)
    assert len(server.requests) == 1


def test_who_waits_is_not_harmed_by_who_leaves(server: Loopback, client: Client) -> None:
    server.script.append(Say(how="silence"))

    async def leave() -> Any:
        first = asyncio.create_task(client.ask(PROMPT, json.loads))
        while not server.requests:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(client.ask(PROMPT, json.loads))
        while not client._flights or next(iter(client._flights.values())).waiting < 2:
            await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert not second.done()
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        async with asyncio.timeout(30):  # less than a request's own
            return await client.ask(PROMPT, json.loads)

    assert asyncio.run(leave()) == {"sum": 2}, "what nobody waits for is given up"
    assert len(server.requests) == 2


def test_a_bug_of_the_reader_is_no_failure_of_the_model(server: Loopback, client: Client) -> None:
    with pytest.raises(KeyError, match="product"):
        client.ask_now(PROMPT, lambda text: json.loads(text)["product"])
    assert len(server.requests) == 1


def test_asked_once_more_in_all(server: Loopback, client: Client) -> None:
    """Neither a failure that passes nor another way of being malformed gives a second chance."""
    server.script += [Say("["), Say(status=503), Say(empty=True)]
    with pytest.raises(Malformed):
        client.ask_now(PROMPT, json.loads)
    assert len(server.requests) == 3


def test_usage(server: Loopback, client: Client) -> None:
    assert client.usage.dollars == 0.0
    server.script += [Say("["), Say('{"sum": 2}'), Say(finish="length")]
    client.ask_now(PROMPT, json.loads)
    used = client.usage
    assert (used.calls, used.stored, used.tokens_in, used.tokens_out) == (2, 0, 200, 50)
    assert used.dollars == pytest.approx((200 * 0.5 + 50 * 3) / 1e6), "the malformed one too"


def test_prices() -> None:
    million = Answer("", "", 1_000_000, 1_000_000, 0.0)
    assert dollars("gemini-3-flash-preview", million) == 3.5
    assert dollars("gpt-5-mini-2025-08-07", million) == 2.25
    for unknown in ("gpt-5-mini-pro", "Qwen/Qwen3-14B", "gemini-3-flash-lite"):
        assert dollars(unknown, million) is None
        assert not is_listed(unknown)


def test_waits_that_servers_ask_for() -> None:
    assert retry_after({"retry-after": "7"}) == 7.0
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    assert retry_after({"retry-after": later}) == pytest.approx(600, abs=60)
    assert retry_after({"retry-after": "Mon, 01 Jan 2024 00:00:00 GMT"}) == 0.0
    info = {"error": {"details": [{"@type": "x"}, {"retryDelay": "34.5s"}]}}
    assert retry_after({}, info) == 34.5
    for said in ("soon", "-1", ""):
        assert retry_after({"retry-after": said}, ["no", "object"]) is None


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_what_passes(status: int) -> None:
    assert isinstance(failed(status, "told", {}, None, "KEY"), Unavailable)


@pytest.mark.parametrize(
    ("status", "told"),
    [(413, "told"), (400, "the prompt is too long"), (400, "content_filter")],
)
def test_what_is_wrong_with_one_prompt_ends_nothing(status: int, told: str) -> None:
    assert isinstance(failed(status, told, {}, None, "KEY"), Refused)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 422])
def test_what_does_not_pass(status: int) -> None:
    problem = failed(status, "told", {}, None, "KEY")
    assert isinstance(problem, Misconfigured)
    assert problem.status == status


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


def test_whoever_waits_for_the_breaker_has_a_deadline_too() -> None:
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


def test_the_breaker_waits_as_long_as_it_is_told_to() -> None:
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


def test_a_client_serves_any_thread_and_loop(client: Client) -> None:
    async def ask() -> Any:
        return await client.ask(PROMPT, json.loads)

    assert asyncio.run(ask()) == asyncio.run(ask()) == submit(ask()).result(10) == {"sum": 2}


def test_the_sdks_are_imported_when_needed() -> None:
    code = (
        "import sys; from resume_gym.llm.client import make_client;"
        "make_client('gemini'); make_client('openai', model='x');"
        "print({'google.genai', 'openai', 'httpx2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
