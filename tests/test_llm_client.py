"""The client: options, retries, one request for the same question, what is spent."""

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import gymnasium as gym
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
    dollars,
)
from resume_gym.llm.client import Client, make_client
from resume_gym.llm.http_errors import failed, retry_after
from resume_gym.llm.loop import submit

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
        ("openai", {}, "option 'model'"),
        ("gemini", {"concurrency": 0}, "concurrency: expected a whole number above 0, got 0"),
        ("gemini", {"deadline_s": float("nan")}, "deadline_s: expected a number"),
        ("gemini", {"thinking": "hard"}, "minimal, low, medium, high or None, got 'hard'"),
        ("gemini", {"base_url": "nowhere"}, "expected http://HOST/v1 or null, got 'nowhere'"),
        ("openai", {"model": "x", "base_url": "http://h:99999/v1"}, "Port out of range"),
        ("openai", {"model": "x", "base_url": "http://me:secret@h/v1"}, "expected no key in the"),
    ],
)
def test_options_that_make_no_sense(provider: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_client(provider, **options)


@pytest.mark.parametrize("provider", ["gemini", "openai"])
def test_a_missing_key_is_an_error_at_once(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(ValueError, match=rf"{provider}/some: expected a key in \w+_API_KEY"):
        make_client(provider, model="some")
    with pytest.raises(ValueError, match="expected a key"):
        gym.make("ResumeEditMini-v0", judge={"name": provider, "model": "some"}).reset()
    if provider == "openai":
        make_client(provider, model="some", base_url="http://nowhere.invalid/v1")


def request(provider: str, prompt: Prompt = PROMPT, **options: Any) -> dict[str, Any]:
    """What a client with these options sends."""
    serve = gemini_server if provider == "gemini" else openai_server
    with serve(lambda body: {"sum": 2}) as server:
        client = make_client(provider, base_url=server.url, **options)
        assert client.ask_now(prompt, json.loads) == {"sum": 2}
        asyncio.run(client.close())
        (sent,) = server.requests
    return {**sent, "path": server.paths[0]}


def test_gemini_requests() -> None:
    options = {"temperature": 0.5, "answer_tokens": 70, "thinking_tokens": 7}
    sent = request("gemini", model="gemini-3-pro-preview", **options)
    assert sent["path"].endswith("/models/gemini-3-pro-preview:generateContent")
    assert (system_text(sent), user_text(sent)) == ("Add.", "1 + 1")
    config = sent["generationConfig"]
    assert (config["temperature"], config["maxOutputTokens"]) == (0.5, 77)
    assert config["responseMimeType"] == "application/json"
    assert config["thinkingConfig"] == {"thinking_level": "LOW"}
    assert json.dumps(config["responseJsonSchema"]) == json.dumps(SCHEMA), "in the same order"
    assert "responseSchema" not in config


@pytest.mark.parametrize("tokens", [0, 7])
def test_gemini_is_given_a_budget_or_a_level_and_never_both(tokens: int) -> None:
    wanted = {None: {"thinking_budget": tokens}, "high": {"thinking_level": "HIGH"}}
    for thinking, config in wanted.items():
        options = {"thinking": thinking, "thinking_tokens": tokens, "answer_tokens": 70}
        sent = request("gemini", **options)["generationConfig"]
        assert (sent["thinkingConfig"], sent["maxOutputTokens"]) == (config, 70 + tokens)


def test_other_servers_are_given_no_field_that_they_may_refuse() -> None:
    known = {"model", "messages", "max_completion_tokens", "response_format", "path"}
    assert set(request("openai", model="gpt", thinking_tokens=7)) == known


def test_openai_requests() -> None:
    body = {"chat_template_kwargs": {"enable_thinking": False}}
    budgets = {"answer_tokens": 70, "thinking_tokens": 7, "thinking_field": "thinking_token_budget"}
    prompt = replace(PROMPT, kind="sum/1.5")
    sent = request("openai", prompt, model="Qwen/Qwen3-4B", extra_body=body, **budgets)
    assert (system_text(sent), user_text(sent)) == ("Add.", "1 + 1")
    assert sent["model"] == "Qwen/Qwen3-4B"
    assert (sent["max_completion_tokens"], sent["thinking_token_budget"]) == (77, 7)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert sent["response_format"]["json_schema"] == {
        "name": "sum_1_5",
        "strict": True,
        "schema": SCHEMA,
    }


def test_concurrent_equal_requests_are_sent_once(server: Loopback, client: Client) -> None:
    answers = asyncio.run(ask_all(client, [PROMPT] * 20 + draws(2)))
    assert answers == [{"sum": 2}] * 22
    assert len(server.requests) == 2, "without a store, and another draw is another question"
    assert client.usage.calls == 2
    client.ask_now(PROMPT, json.loads)
    assert len(server.requests) == 3, "nothing is kept without a store"


def test_a_shared_request_shares_its_failure(server: Loopback, client: Client) -> None:
    server.script.append(Say(blocked=True))
    answers = asyncio.run(ask_all(client, [PROMPT] * 3))
    assert [type(one) for one in answers] == [Refused] * 3
    assert len(server.requests) == 1
    assert client.ask_now(PROMPT, json.loads) == {"sum": 2}, "a failure is not kept"


def test_each_caller_parses_a_shared_answer(server: Loopback, client: Client) -> None:
    async def both() -> list[Any]:
        first = client.ask(PROMPT, json.loads)
        second = client.ask(PROMPT, int)
        return await asyncio.gather(first, second, return_exceptions=True)

    answer, failure = asyncio.run(both())
    assert answer == {"sum": 2}
    assert isinstance(failure, Malformed)
    assert len(server.requests) == 1


def test_a_cancelled_caller_does_not_cancel_a_shared_request(
    server: Loopback, client: Client
) -> None:
    async def leave() -> Any:
        first, second = (asyncio.create_task(client.ask(PROMPT, json.loads)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return await asyncio.gather(first, second, return_exceptions=True)

    cancelled, answer = asyncio.run(leave())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert answer == {"sum": 2}
    assert len(server.requests) == 1


def test_a_failure_that_no_caller_waits_for_is_not_logged(
    server: Loopback, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    server.script.append(Say(blocked=True))

    async def leave() -> None:
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(client.ask(PROMPT, json.loads))
            await until(lambda: client._flights)
            asked.cancel()
        await until(lambda: not client._flights)

    async def until(holds: Callable[[], object]) -> None:
        while not holds():
            await asyncio.sleep(0.001)

    asyncio.run(leave())
    assert client.usage.calls == 1
    gc.collect()  # asyncio logs when it deletes the task
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_a_parser_bug_is_not_a_model_failure(server: Loopback, client: Client) -> None:
    with pytest.raises(KeyError, match="product"):
        client.ask_now(PROMPT, lambda text: json.loads(text)["product"])
    assert len(server.requests) == 1


def test_prices() -> None:
    million = Answer("", "", 1_000_000, 1_000_000, 0.0)
    assert dollars("gemini-3-flash-preview", million) == 3.5
    assert dollars("gpt-5-mini-2025-08-07", million) == 2.25
    for unknown in ("gpt-5-mini-pro", "Qwen/Qwen3-14B", "gemini-3-flash-lite"):
        assert dollars(unknown, million) is None


@pytest.mark.parametrize(
    ("status", "told", "kind"),
    [
        *((status, "told", Unavailable) for status in (409, 425, 502, 529)),
        (413, "told", Refused),
        *((status, "told", Misconfigured) for status in (301, 422)),
    ],
)
def test_statuses(status: int, told: str, kind: type[ModelError]) -> None:
    problem = failed(status, told, {}, None, "KEY")
    assert (type(problem), problem.status) == (kind, status)


def test_waits_that_no_server_can_mean_are_left_out() -> None:
    assert retry_after({"retry-after": "Mon, 01 Jan 2024 00:00:00 GMT"}) == 0.0
    for said in ("soon", "-1", ""):
        assert retry_after({"retry-after": said}, ["no", "object"]) is None


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
    keys = {"GOOGLE_API_KEY": "none", "OPENAI_API_KEY": "none"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **keys}
    )
    assert done.stdout.strip() == "set()"
