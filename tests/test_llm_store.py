"""The file of answers and calls."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from loopback import Loopback, Say, gemini_server

from resume_gym.llm import Answer, Malformed, Misconfigured, Prompt, Unavailable, Usage
from resume_gym.llm.client import Client, make_client
from resume_gym.llm.openai import OpenAI
from resume_gym.llm.store import Call, Store, key_of, summarise

PROMPT = Prompt("Add.", "1 + 1", {"type": "object", "properties": {"sum": {}, "why": {}}}, "sum-1")
ANSWER = Answer('{"sum": 2}', "adder-7", 30, 5, 0.5)
CALL = Call(1.0, "gemini/adder", "sum-1", "answer", None, 0.5, 30, 5, 0.25)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "answers.sqlite"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    monkeypatch.setenv("NO_PROXY", "*")
    with gemini_server(lambda body: {"sum": 2}) as server:
        yield server


def client(path: Path, url: str = "http://nowhere.invalid", **options: object) -> Client:
    return make_client("gemini", base_url=url, store=str(path), concurrency=4, **options)


def close(*clients: Client) -> None:
    for one in clients:
        asyncio.run(one.close())


def keys(path: Path) -> list[str]:
    with sqlite3.connect(path) as file:
        return [key for (key,) in file.execute("SELECT key FROM answers")]


def test_a_stored_answer_is_not_requested_again(path: Path, server: Loopback) -> None:
    first = client(path, server.url)
    assert first.ask_now(PROMPT, json.loads) == first.ask_now(PROMPT, json.loads) == {"sum": 2}
    assert (first.usage.calls, first.usage.stored) == (1, 1)
    close(first)
    second = client(path, server.url)
    assert second.ask_now(PROMPT, json.loads) == {"sum": 2}
    assert (second.usage.calls, second.usage.stored) == (0, 1)
    assert second.usage.dollars == 0.0, "what comes from the store costs nothing"
    assert len(server.requests) == 1
    close(second)


def test_replay_needs_neither_key_nor_server(
    path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = client(path, server.url)
    asked.ask_now(PROMPT, json.loads)
    close(asked)
    monkeypatch.delenv("GOOGLE_API_KEY")
    replayed = client(path, server.url, replay=True)
    assert replayed.ask_now(PROMPT, json.loads) == {"sum": 2}
    with pytest.raises(Unavailable, match=r"answers\.sqlite.*'sum-1'"):
        replayed.ask_now(replace(PROMPT, draw=1), json.loads)
    with pytest.raises(Malformed, match="'sum-1'"):
        replayed.ask_now(PROMPT, int)
    close(replayed)
    assert len(server.requests) == 1


def test_replay_of_a_store_that_is_not_there(path: Path) -> None:
    replayed = client(path, replay=True)
    with pytest.raises(Misconfigured, match=r"answers\.sqlite"):
        replayed.ask_now(PROMPT, json.loads)
    assert not path.exists()
    close(replayed)


def test_a_file_that_is_not_a_store_is_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    path.parent.mkdir()
    path.write_text("A shopping list, and a long one at that. " * 50)
    broken = client(path, "http://nowhere.invalid")
    with pytest.raises(Misconfigured, match=r"answers\.sqlite.*not a database"):
        broken.ask_now(PROMPT, json.loads)
    close(broken)


def test_everything_that_may_change_an_answer_is_in_its_key() -> None:
    def key(
        prompt: Prompt = PROMPT, name: str = "a/b", served: str | None = None, **more: float
    ) -> str:
        return key_of(name, served, more, prompt)

    backwards = dict(reversed(PROMPT.schema["properties"].items()))
    others = [
        key(replace(PROMPT, system="")),
        key(replace(PROMPT, user="")),
        key(replace(PROMPT, kind="sum-2")),
        key(replace(PROMPT, draw=1)),
        key(replace(PROMPT, schema={})),
        key(replace(PROMPT, schema={**PROMPT.schema, "properties": backwards})),
        key(name="a/c"),
        key(served="b-7"),
        key(temperature=0.5),
        key(replace(PROMPT, user="\ud800")),
    ]
    assert len({key(), *others}) == len(others) + 1
    assert key() == key(replace(PROMPT, schema=dict(PROMPT.schema))), "the same twice"


def test_options_of_a_client_that_change_its_answers_change_the_key(
    path: Path, server: Loopback
) -> None:
    budgets = ({"answer_tokens": 9}, {"thinking_tokens": 9})
    changes = ({}, {"thinking": None}, {"temperature": 0.5}, *budgets)
    for options in changes:
        one = client(path, server.url, **options)
        one.ask_now(PROMPT, json.loads)
        close(one)
    assert len(set(keys(path))) == len(changes)
    told = OpenAI("m", thinking_field="thinking_token_budget")
    assert told.sampling != OpenAI("m").sampling, "a server that limits thinking answers otherwise"


def test_a_stored_answer_that_is_not_accepted_any_more_is_replaced(
    path: Path, server: Loopback
) -> None:
    def strict(text: str) -> int:
        if (found := json.loads(text)["sum"]) == 2:
            raise ValueError("two")
        return int(found)

    one = client(path, server.url)
    one.ask_now(PROMPT, json.loads)
    server.script.append(Say('{"sum": 3}'))
    assert one.ask_now(PROMPT, strict) == one.ask_now(PROMPT, strict) == 3
    close(one)
    assert len(keys(path)) == 1


@pytest.mark.parametrize("usage", [None, {"promptTokenCount": 0, "candidatesTokenCount": 0}])
def test_what_a_server_does_not_count_is_unknown(
    usage: object, path: Path, server: Loopback
) -> None:
    wire = server._wire
    one = client(path, server.url)
    one.ask_now(PROMPT, json.loads)
    server._wire = lambda *asked: {**wire(*asked), "usageMetadata": usage}
    one.ask_now(replace(PROMPT, draw=1), json.loads)
    server._wire = wire
    one.ask_now(replace(PROMPT, draw=2), json.loads)
    close(one)
    assert one.usage == Usage(3, 0, None, None, None)
    found = summarise(path)
    assert [found[name] for name in ("tokens_in", "tokens_out", "dollars")] == [None] * 3


def test_every_call_is_written_down(path: Path, server: Loopback) -> None:
    one = client(path, server.url)
    server.script += [Say(status=500), Say("["), Say('{"sum": 2}'), Say(blocked=True)]
    one.ask_now(PROMPT, json.loads)
    with pytest.raises(Exception, match="blocked"):
        one.ask_now(replace(PROMPT, draw=1), json.loads)
    close(one)
    found = summarise(path)
    assert found["outcomes"] == {"answer": 1, "malformed": 1, "refused": 1, "unavailable": 1}
    assert (found["tokens_in"], found["tokens_out"]) == (300, 75), "three were paid for"
    assert found["dollars"] == pytest.approx((300 * 0.5 + 75 * 3) / 1e6)
    assert found["dollars"] == one.usage.dollars
    with sqlite3.connect(path) as file:
        rows = file.execute("SELECT outcome, status, kind, name FROM calls ORDER BY rowid")
        assert rows.fetchone() == ("unavailable", 500, "sum-1", "gemini/gemini-3-flash-preview")


def add(path: Path, *calls: Call) -> None:
    async def write() -> None:
        for call in calls:
            await store.add(call)

    store = Store(path)
    asyncio.run(write())
    store.close()


FILL = """
import asyncio, sys
from resume_gym.llm import Answer
from resume_gym.llm.store import Call, Store

async def write(first):
    for number in range(first, first + 100):
        call = Call(1.0, "gemini/adder", "sum-1", "answer", None, 0.5, 30, 5, 0.25)
        await store.add(call, f"key-{number}", Answer("2", "adder-7", 30, 5, 0.5))

store = Store(sys.argv[1])
asyncio.run(write(int(sys.argv[2])))
store.close()
"""


def test_processes_share_a_file(path: Path) -> None:
    command = [sys.executable, "-c", FILL, str(path)]
    processes = [subprocess.Popen([*command, str(first)]) for first in (0, 50)]
    assert [one.wait(60) for one in processes] == [0, 0]
    assert len(keys(path)) == 150
    assert summarise(path)["outcomes"] == {"answer": 200}


@pytest.mark.parametrize("new", [True, False])
def test_a_locked_file_does_not_block_the_event_loop(path: Path, new: bool) -> None:
    if new:  # that process is making it
        path.parent.mkdir()
    else:
        add(path, CALL)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE" if new else "BEGIN EXCLUSIVE")

    async def meanwhile() -> None:
        writing = asyncio.create_task(store.add(CALL, "late", ANSWER))
        await asyncio.sleep(0.1)
        assert not writing.done()
        other.execute("ROLLBACK")
        await writing

    store = Store(path)
    asyncio.run(meanwhile())
    store.close()
    other.close()
    assert keys(path) == ["late"]


def test_an_answer_that_sqlite_cannot_hold_is_used_and_not_kept(
    path: Path, server: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    server.script.append(Say("half of a \ud83d"))
    asked = client(path, server.url)
    assert asked.ask_now(PROMPT, str) == "half of a \ud83d"
    close(asked)
    assert "the answer is used but not stored" in caplog.text
    assert keys(path) == []
