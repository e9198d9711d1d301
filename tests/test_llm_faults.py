"""Failures of model servers and their handling; docs/model_server_faults.md has this table.

Every fault goes over the wire to the providers' real SDKs.
"""

import asyncio
import json
import logging
import re
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import google.genai  # noqa: F401  before any clock starts
import openai  # noqa: F401
import pytest
from loopback import Loopback, Say, gemini_server, openai_server
from pydantic import BaseModel, ConfigDict

from resume_gym.llm import CutOff, Misconfigured, ModelError, Prompt, Unavailable
from resume_gym.llm.client import Client, make_client
from resume_gym.llm.http_errors import masked

PAGE = Path(__file__).parents[1] / "docs" / "model_server_faults.md"
KEY = "sk-this-is-the-secret-key"
SERVERS: dict[str, Callable[[], AbstractContextManager[Loopback]]] = {
    "gemini": gemini_server,
    "openai": openai_server,
}
PROVIDERS = tuple(SERVERS)


class Colour(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    why: str
    colour: Literal["red", "green"]


GOOD = '{"why": "because", "colour": "red"}'
PROMPT = Prompt("Name a colour.", "Of blood.", Colour.model_json_schema(), "colour-1")
HURRIED = {"timeout_s": 0.3, "deadline_s": 3.0}


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and what is to come of it.

    Attributes:
        name: as in the table.
        script: what the server says; the answer is good afterwards.
        outcome: "answer", or the name of the error.
        requests: how many are sent; None if that is up to chance.
        says: words of the error's message.
        options: of the client.
    """

    name: str
    script: tuple[Say, ...]
    outcome: str
    requests: int | None
    says: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def soon() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=1), usegmt=True)


def wait(asked: str) -> Say:
    return Say(status=429, headers={"Retry-After": asked})


INFO = '{"error": {"code": 429, "message": "told to", "details": [{"retryDelay": "0.2s"}]}}'
HTML = "<html><h1>Service Unavailable</h1></html>"
ECHO = f'{{"error": {{"code": 401, "message": "{KEY} is no key"}}}}'
LONG = '{"error": {"code": 400, "message": "maximum context length is 8192 tokens"}}'
HALF = '{"choices": [{"index": 0, "finish_reason": "stop"}], "candidates": [{"content": 1}]}'
MANY = 10**30  # more tokens than SQLite can count
COUNTS = {
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": GOOD}}],
    "usage": {"prompt_tokens": MANY, "completion_tokens": 1},
    "candidates": [{"content": {"parts": [{"text": GOOD}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": MANY},
}
CHOICES = f'{{"choices": [{"{}, " * 200_000}{{}}], "candidates": []}}'
OTHERS = (Say(body='{"choices": [[]]}'), Say(body='{"choices": [0]}'))
DEEP = "[" * 900 + "]" * 900
NESTED = f'{{"choices": {DEEP}, "candidates": {DEEP}}}'
GZIP = {"Content-Encoding": "gzip"}
MISSET = "Misconfigured"
TWICE = 2  # a malformed answer is asked for once more


def passing(name: str, *script: Say, **options: Any) -> Fault:
    """What is answered after one more request for each failure."""
    return Fault(name, script, "answer", len(script) + 1, options=options)


def malformed(name: str, *script: Say, says: str = "") -> Fault:
    """What is malformed when it is asked for once more, too."""
    return Fault(name, script * (2 // len(script)), "Malformed", TWICE, says)


def wrong(
    name: str, say: Say, says: str = "", kind: str = "Misconfigured", **options: Any
) -> Fault:
    """What ends at once."""
    return Fault(name, (say,), kind, 1, says, options)


def unanswered(name: str, how: Say, says: str) -> Fault:
    """What lasts until the deadline."""
    return Fault(name, (how,) * 50, "Unavailable", None, says, HURRIED)


def unreached(name: str, url: str, says: str = "") -> Fault:
    """What no server has ever answered."""
    says += "no server has answered there: check base_url"
    return Fault(name, (), MISSET, 0, says, {"base_url": url, "deadline_s": 3.0})


FAULTS = (
    passing("429, `Retry-After: 1`", wait("1")),
    passing("429, `Retry-After` with a date", wait(soon())),
    passing("429, `RetryInfo` in the body", Say(status=429, body=INFO)),
    passing("429 without a waiting time", Say(status=429), Say(status=429)),
    wrong(
        "429, a waiting time beyond the deadline",
        wait("3600"),
        "the server asks for a pause of 3600 s",
        "Unavailable",
    ),
    passing("408", Say(status=408)),
    passing("500", Say(status=500)),
    passing("503 with an HTML page", Say(status=503, body=HTML)),
    unanswered("503 until the deadline", Say(status=503), "within 3 s"),
    passing("connection dropped before the answer", Say(how="cut")),
    passing("connection dropped during the answer", Say(how="drop")),
    passing("a body that takes longer than the time limit", Say(how="drip"), timeout_s=2.0),
    passing("no response, once", Say(how="silence"), timeout_s=2.0),
    unanswered("no response until the deadline", Say(how="silence"), "timed out after 0.3 s"),
    unreached("a host name that cannot be resolved", "http://nowhere.invalid", "nowhere.invalid; "),
    unreached("no server has ever answered at the address", "http://127.0.0.1:1"),
    passing("truncated JSON, once", Say(GOOD[:20])),
    malformed("truncated JSON, twice", Say(GOOD[:20]), says="Invalid JSON"),
    malformed("JSON in a fence", Say(f"```json\n{GOOD}\n```"), says="JSON"),
    malformed(
        "a value that the schema does not allow", Say(GOOD.replace("red", "blue")), says="blue"
    ),
    malformed(
        "a key that the schema does not allow", Say(GOOD.replace("{", '{"sure": 1, ')), says="sure"
    ),
    malformed("unclosed brackets", Say("[" * 5000)),
    malformed("an empty text", Say(""), says="0 characters"),
    malformed("a response without candidates", Say(empty=True), says="the answer has no c"),
    Fault("the answer reaches the token limit", (Say(GOOD, "length"),) * 2, "CutOff", TWICE),
    malformed("200 with an HTML page", Say(body=HTML)),
    malformed("200 with JSON that is not an object", Say(body="[]"), Say(body="7")),
    malformed("200 with null", Say(body="null")),
    malformed("200 with choices that are not objects", *OTHERS),
    malformed("200 with an incomplete answer", Say(body=HALF)),
    malformed("200 with more than 4 MB", Say("x" * 5_000_000), says="4,000,000"),
    malformed("200 with 200,000 empty choices", Say(body=CHOICES), says="20,000"),
    malformed("200, compressed", Say(headers=GZIP), says="not compressed"),
    malformed("200, deeply nested", Say(body=NESTED)),
    malformed("200 with unclosed brackets", Say(body="[" * 10_000)),
    passing("500, deeply nested", *(Say(status=500, body=NESTED),) * 2),
    malformed(
        "200 with an impossible number of tokens", Say(body=json.dumps(COUNTS)), says="expected"
    ),
    wrong("400, the prompt is too long for the model", Say(status=400, body=LONG), kind="Refused"),
    wrong("the prompt is blocked, or the model refuses", Say(blocked=True), kind="Refused"),
    wrong("the answer is blocked", Say(finish="safety"), kind="Refused"),
    wrong(
        "a model version other than `served`",
        Say(GOOD, model="other-2"),
        "other-2",
        served="judge-1",
    ),
    wrong("400", Say(status=400), "400"),
    wrong(
        "401, the message quotes the key",
        Say(status=401, body=ECHO, headers={"X-Echo": KEY}),
        "_API_KEY",
    ),
    wrong("403", Say(status=403), "_API_KEY"),
    wrong("404", Say(status=404), "check the model's name"),
)


class Told(NamedTuple):
    """What came of a fault; `store` is all that the file holds, `calls` the outcomes in its log."""

    outcome: str
    error: ModelError | None
    answer: Colour | None
    requests: int
    store: str
    stored: int
    calls: list[str]
    client: Client


def suffer(fault: Fault, provider: str, folder: Path) -> Told:
    """Have the fault happen."""
    path = folder / "answers.sqlite"
    with SERVERS[provider]() as server:
        server.script += [*fault.script, *[Say(GOOD)] * 3]
        options = {"model": "judge-1", "base_url": server.url, "store": path, "concurrency": 4}
        client = make_client(provider, **options | fault.options)
        answer, error = None, None
        try:
            answer = client.ask_now(PROMPT, Colour.model_validate_json)
        except ModelError as problem:
            error = problem
        asyncio.run(client.close())
        requests = len(server.requests)
    with sqlite3.connect(path) as file:
        stored = file.execute("SELECT count(*) FROM answers").fetchone()[0]
        calls = [outcome for (outcome,) in file.execute("SELECT outcome FROM calls ORDER BY time")]
        dump = "\n".join(file.iterdump())
    file.close()
    outcome = type(error).__name__ if error else "answer"
    return Told(outcome, error, answer, requests, dump, stored, calls, client)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_faults_map_to_errors(
    fault: Fault, provider: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told = suffer(fault, provider, tmp_path)
    assert told.outcome == fault.outcome
    assert told.answer in (None, Colour(why="because", colour="red")), "none may be made up"
    if fault.requests is not None:
        assert told.requests == fault.requests
    assert told.stored == (fault.outcome == "answer"), "answers are stored, failures are not"
    assert told.calls[-1] == fault.outcome.lower(), "each request is in the log"
    if fault.requests:
        assert len(told.calls) == fault.requests
    if told.error:
        assert fault.says in str(told.error)
        assert provider in str(told.error)
    for text in (repr(told.error), caplog.text, told.store, repr(told.client), repr(told)):
        assert KEY not in text
    error: BaseException | None = told.error
    while error:  # no exception of an SDK, which has the key, is the context of ours
        assert type(error).__module__.partition(".")[0] not in ("openai", "google", "httpx2")
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_documentation_has_what_a_fault_comes_to(fault: Fault) -> None:
    how = {"answer": "an answer, after "}.get(fault.outcome, f"`{fault.outcome}` after ")
    count = {None: "as many requests as fit", 1: "1 request"}.get(
        fault.requests, f"{fault.requests} requests"
    )
    what = how + count if fault.requests != 0 else f"`{fault.outcome}`"
    assert f"\n| {fault.name} | {what} |\n" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "say",
    [
        Say(f'{{"why": "{KEY}", "colour": "{KEY}"}}'),
        Say(body=f'["{KEY}"]'),
        Say(body=json.dumps({"choices": [{"finish_reason": KEY, "message": {"content": "x"}}]})),
        Say(body=json.dumps({"choices": [{"finish_reason": "stop", "message": {"refusal": KEY}}]})),
        Say(GOOD, model=KEY),
    ],
)
def test_no_error_quotes_a_key_that_the_server_sends(say: Say, tmp_path: Path) -> None:
    options = {"served": "judge-1"}
    told = suffer(Fault("", (say,) * 9, "", None, options=options), "openai", tmp_path)
    assert told.error is not None
    assert "[key]" in str(told.error)
    assert KEY not in str(told.error) + told.store


def hidden(key: str) -> dict[str, str]:
    """JSON texts that hold the key once all escapes in them are undone."""
    unicode = "".join(f"\\u{ord(char):04X}" for char in key)
    return {
        "all characters": unicode,
        "one character": key.replace("s", "\\u0073"),
        "escaped twice": unicode.replace("\\", "\\\\"),
        "an escaped backslash": unicode.replace("\\", "\\u005c"),
        "an escaped backslash, escaped": unicode.replace("\\", "\\\\u005C"),
    }


@pytest.mark.parametrize("text", hidden(KEY).values(), ids=hidden(KEY).keys())
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_key_that_is_escaped_is_masked(provider: str, text: str, tmp_path: Path) -> None:
    say = Say(f'{{"why": "it is {text}.", "colour": "red"}}')
    answer = suffer(wrong("", say), provider, tmp_path).answer
    assert answer
    assert re.fullmatch(r"it is (\\|u005[cC])*\[key\]\.", answer.why)


def test_a_key_is_masked_in_linear_time() -> None:
    for text in ("\\" * 200_000, "s" * 200_000, "s" + "\\u005c" * 50_000):
        assert masked(text, KEY) == text
    assert masked("a/b\\/c-d e", "/b/c-d") == "a/b\\/c-d e", "too short to be a secret"
    assert masked("a\\/b\\/c-def e", "/b/c-def") == "a[key] e"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_stored_answer_is_of_one_server(provider: str, tmp_path: Path) -> None:
    options = {"model": "judge-1", "store": tmp_path / "store.sqlite"}
    with SERVERS[provider]() as first, SERVERS[provider]() as second:
        first.script += [Say(GOOD)]
        second.script += [Say(status=401)]
        for server, outcome in ((first, nullcontext()), (second, pytest.raises(Misconfigured))):
            client = make_client(provider, base_url=server.url, **options)
            with outcome:
                client.ask_now(PROMPT, Colour.model_validate_json)
            asyncio.run(client.close())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_brackets_and_commas_in_a_text_are_no_values(provider: str, tmp_path: Path) -> None:
    text = Colour(why='\\"[{,' * 10_000, colour="red")
    assert suffer(wrong("", Say(text.model_dump_json())), provider, tmp_path).answer == text


def test_a_server_that_has_answered_is_waited_for_while_it_restarts() -> None:
    with openai_server() as server:
        server.script += [Say(GOOD)]
        options = {"model": "judge-1", "base_url": server.url, "deadline_s": 2.0}
        client = make_client("openai", **options)
        client.ask_now(PROMPT, Colour.model_validate_json)
    with pytest.raises(Unavailable, match=r"no answer within 2 s"):
        client.ask_now(replace(PROMPT, draw=1), Colour.model_validate_json)
    asyncio.run(client.close())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_that_was_cut_off_names_its_budgets(provider: str, tmp_path: Path) -> None:
    script = (Say(GOOD, "length", thought=41),) * 2
    options = {"answer_tokens": 30, "thinking_tokens": 40}
    told = suffer(Fault("", script, "CutOff", TWICE, options=options), provider, tmp_path)
    assert type(told.error) is CutOff
    assert "70 tokens, 41 of them thinking" in str(told.error)
    assert "raise answer_tokens, now 30, or thinking_tokens, now 40" in str(told.error)
    assert told.client.usage.tokens_out == 2 * 25, "it is paid for"


def test_a_reason_that_is_a_key_is_in_no_warning(
    recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    body = {"candidates": [{"finishReason": KEY, "content": {"parts": [{"text": GOOD}]}}]}
    for told, reason in (("finish reason [key]", KEY), ("finish reason missing", None)):
        body["candidates"][0]["finishReason"] = reason  # type: ignore[assignment]
        fault = Fault("", (Say(body=json.dumps(body)),) * TWICE, "Malformed", TWICE)
        assert told in str(suffer(fault, "gemini", tmp_path / told).error)
    assert KEY not in "".join(str(one.message) for one in recwarn)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("held", [f"{KEY}\n", "sk-“quoted”", "two words"])
def test_a_key_as_files_hold_it(
    provider: str, held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOOGLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, held)
    if held.strip() == KEY:
        assert suffer(Fault("", (), "answer", 1), provider, tmp_path).outcome == "answer"
        return
    with pytest.raises(ValueError, match="_API_KEY to be printable ASCII") as error:
        make_client(provider, model="judge-1")
    assert held not in repr(error.value)
