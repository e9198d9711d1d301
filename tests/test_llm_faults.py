"""Failures of model servers and their handling; docs/model_server_faults.md is this table.

    python tests/test_llm_faults.py      # writes it anew

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
from typing import Any, Literal

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
IMPATIENT = {"timeout_s": 2.0}
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
TWICE = 2  # a malformed answer is asked for once more

FAULTS = (
    Fault("429, `Retry-After: 1`", (wait("1"),), "answer", 2),
    Fault("429, `Retry-After` with a date", (wait(soon()),), "answer", 2),
    Fault("429, `RetryInfo` in the body", (Say(status=429, body=INFO),), "answer", 2),
    Fault("429 without a time", (Say(status=429), Say(status=429)), "answer", 3),
    Fault("429, a longer wait than the deadline", (wait("3600"),), "Unavailable", 1, "429"),
    Fault("408", (Say(status=408),), "answer", 2),
    Fault("500", (Say(status=500),), "answer", 2),
    Fault("503 with an HTML page", (Say(status=503, body=HTML),), "answer", 2),
    Fault(
        "503 until the deadline",
        (Say(status=503),) * 50,
        "Unavailable",
        None,
        "within 3 s",
        HURRIED,
    ),
    Fault("connection dropped before the answer", (Say(how="cut"),), "answer", 2),
    Fault("connection dropped half-way", (Say(how="drop"),), "answer", 2),
    Fault(
        "a body that trickles past the time limit", (Say(how="drip"),), "answer", 2, "", IMPATIENT
    ),
    Fault("silence once", (Say(how="silence"),), "answer", 2, "", IMPATIENT),
    Fault(
        "silence until the deadline",
        (Say(how="silence"),) * 50,
        "Unavailable",
        None,
        "took 0.3 s",
        HURRIED,
    ),
    Fault(
        "a host without an address",
        (),
        "Misconfigured",
        0,
        "nowhere.invalid; no server has answered there: check base_url",
        {"base_url": "http://nowhere.invalid", "deadline_s": 3.0},
    ),
    Fault(
        "no server at the address, and never was",
        (),
        "Misconfigured",
        0,
        "no server has answered there: check base_url",
        {"base_url": "http://127.0.0.1:1", "deadline_s": 3.0},
    ),
    Fault("truncated JSON, once", (Say(GOOD[:20]),), "answer", TWICE),
    Fault("truncated JSON, twice", (Say(GOOD[:20]),) * 2, "Malformed", TWICE, "Invalid JSON"),
    Fault("JSON in a fence", (Say(f"```json\n{GOOD}\n```"),) * 2, "Malformed", TWICE, "JSON"),
    Fault(
        "a value that the schema does not allow",
        (Say(GOOD.replace("red", "blue")),) * 2,
        "Malformed",
        TWICE,
        "blue",
    ),
    Fault(
        "a key that the schema does not allow",
        (Say(GOOD.replace("{", '{"sure": 1, ')),) * 2,
        "Malformed",
        TWICE,
        "sure",
    ),
    Fault("brackets without end", (Say("[" * 5000),) * 2, "Malformed", TWICE),
    Fault("an empty text", (Say(""),) * 2, "Malformed", TWICE, "0 characters"),
    Fault("no candidates", (Say(empty=True),) * 2, "Malformed", TWICE, "without c"),
    Fault("the answer is cut off by its budgets", (Say(GOOD, "length"),) * 2, "CutOff", TWICE),
    Fault("200 with an HTML page", (Say(body=HTML),) * 2, "Malformed", TWICE),
    Fault("200 with JSON of another kind", (Say(body="[]"), Say(body="7")), "Malformed", TWICE),
    Fault("200 with null", (Say(body="null"),) * 2, "Malformed", TWICE),
    Fault("200 with choices of another type", OTHERS, "Malformed", TWICE),
    Fault("200 with half an answer", (Say(body=HALF),) * 2, "Malformed", TWICE),
    Fault("200 with more than 4 MB", (Say("x" * 5_000_000),) * 2, "Malformed", TWICE, "4,000,000"),
    Fault("200 with 200,000 empty choices", (Say(body=CHOICES),) * 2, "Malformed", TWICE, "20,000"),
    Fault("200, compressed", (Say(headers=GZIP),) * 2, "Malformed", TWICE, "not compressed"),
    Fault("200, deeply nested", (Say(body=NESTED),) * 2, "Malformed", TWICE),
    Fault("200, nested without end", (Say(body="[" * 10_000),) * 2, "Malformed", TWICE),
    Fault("500, deeply nested", (Say(status=500, body=NESTED),) * 2, "answer", TWICE + 1),
    Fault(
        "200 with an impossible number of tokens",
        (Say(body=json.dumps(COUNTS)),) * 2,
        "Malformed",
        TWICE,
        "expected",
    ),
    Fault("400, the prompt is too long for the model", (Say(status=400, body=LONG),), "Refused", 1),
    Fault("the prompt is blocked, the model refuses", (Say(blocked=True),), "Refused", 1),
    Fault("the answer is blocked", (Say(finish="safety"),), "Refused", 1),
    Fault(
        "another version of the model than `served`",
        (Say(GOOD, model="other-2"),),
        "Misconfigured",
        1,
        "other-2",
        {"served": "judge-1"},
    ),
    Fault("400", (Say(status=400),), "Misconfigured", 1, "400"),
    Fault(
        "401, the message quotes the key",
        (Say(status=401, body=ECHO, headers={"X-Echo": KEY}),),
        "Misconfigured",
        1,
        "_API_KEY",
    ),
    Fault("403", (Say(status=403),), "Misconfigured", 1, "_API_KEY"),
    Fault("404", (Say(status=404),), "Misconfigured", 1, "check the model's name"),
)


@dataclass(frozen=True)
class Told:
    """What came of a fault.

    Attributes:
        outcome: as in `Fault`.
        error: the exception; None if there was an answer.
        requests: how many came to the server.
        store: all that the file holds, as text.
        stored: answers in the store.
        calls: outcomes in the store's log.
        usage: of the client.
    """

    outcome: str
    error: ModelError | None
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
        error: ModelError | None = None
        try:
            answer = client.ask_now(PROMPT, Colour.model_validate_json)
            assert answer == Colour(why="because", colour="red"), "no answer may be made up"
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
    return Told(outcome, error, requests, dump, stored, calls, client)


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
    if fault.requests is not None:
        assert told.requests == fault.requests
    assert told.stored == (fault.outcome == "answer"), "answers are stored, failures are not"
    assert told.calls[-1] == fault.outcome.lower(), "each request is in the log"
    if fault.requests:
        assert len(told.calls) == fault.requests
    if told.error:
        assert fault.says in str(told.error)
        assert provider in str(told.error)
    for text in (repr(told.error), caplog.text, told.store, repr(told.client), repr(vars(told))):
        assert KEY not in text


def page() -> str:
    """The table, from what the faults come to."""
    lines = []
    for fault in FAULTS:
        how = {"answer": "an answer, after "}.get(fault.outcome, f"`{fault.outcome}` after ")
        count = {None: "as many requests as fit", 0: "none", 1: "1 request"}.get(
            fault.requests, f"{fault.requests} requests"
        )
        what = how + count if fault.requests != 0 else f"`{fault.outcome}`"
        lines.append(f"| {fault.name} | {what} |")
    return HEAD + "\n".join(lines) + "\n" + TAIL


HEAD = """\
# When a model does not answer

Written by `python tests/test_llm_faults.py`, which has each of these happen to both providers,
Gemini and OpenAI's protocol, through their SDKs. Judges raise the like: `Unavailable` becomes
`JudgeUnavailable`, and so on; `CutOff` is a `Malformed`. No failure is stored, none becomes a
number, and no key is in a message, in the log or in the store.

| error | what it means | what to do |
|---|---|---|
| `Unavailable` | it cannot be reached before the deadline | ask again later; nothing is lost |
| `Refused` | it will not answer this | leave it out; it is not asked again |
| `Malformed` | twice it answered something else | leave it out, or try another draw |
| `CutOff` | so is this: twice it ran out of tokens | raise an option that the message names |
| `Misconfigured` | no request can succeed | stop, and mend what the message names |

What fails for now is sent again until `deadline_s`, after a growing, random pause, and no sooner
than the server asks for. A malformed answer is asked for once more. A host that cannot be connected
to is `Misconfigured` until a server has answered there.

| what happens | what comes of it |
|---|---|
"""
TAIL = """
JSON in a fence is malformed although it could be read: a server that keeps to a schema cannot
write a fence, so one that does may as well write any value, and a lenient reader would hide it.
"""


def test_the_documentation_matches_the_errors() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f"run python tests/{Path(__file__).name}"


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
    answer = f'{{"why": "it is {text}.", "colour": "red"}}'
    store = tmp_path / "store.sqlite"
    with SERVERS[provider]() as server:
        server.script.append(Say(answer))
        client = make_client(provider, model="judge-1", base_url=server.url, store=store)
        why = client.ask_now(PROMPT, Colour.model_validate_json).why
        asyncio.run(client.close())
    assert re.fullmatch(r"it is (\\|u005[cC])*\[key\]\.", why)


def test_a_key_is_masked_in_linear_time() -> None:
    for text in ("\\" * 200_000, "s" * 200_000, "s" + "\\u005c" * 50_000):
        assert masked(text, KEY) == text
    assert masked("a/b\\/c-d e", "/b/c-d") == "a/b\\/c-d e", "too short to be a secret"
    assert masked("a\\/b\\/c-def e", "/b/c-def") == "a[key] e"


@pytest.mark.parametrize(
    "say", [Say(status=401, body=ECHO), Say(body=f'["{KEY}"]'), Say(how="cut")]
)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_error_has_the_exception_of_an_sdk_as_context(
    provider: str, say: Say, tmp_path: Path
) -> None:
    error = suffer(Fault("", (say,) * 9, "", None, options=HURRIED), provider, tmp_path).error
    chain = []
    while error:
        chain.append(f"{type(error).__module__}: {error}")
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    assert [one for one in chain if one.startswith("resume_gym.llm: ")] == chain != []


def test_a_reason_that_is_a_key_is_in_no_warning(
    recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    body = {"candidates": [{"finishReason": KEY, "content": {"parts": [{"text": GOOD}]}}]}
    for told, reason in (("ended by [key]", KEY), ("ended by no reason", None)):
        body["candidates"][0]["finishReason"] = reason  # type: ignore[assignment]
        fault = Fault("", (Say(body=json.dumps(body)),) * TWICE, "Malformed", TWICE)
        assert told in str(suffer(fault, "gemini", tmp_path / told).error)
    assert KEY not in "".join(str(one.message) for one in recwarn)


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
def test_brackets_and_commas_in_a_text_are_no_values(provider: str) -> None:
    text = Colour(why='\\"[{,' * 10_000, colour="red")
    with SERVERS[provider]() as server:
        server.script.append(Say(text.model_dump_json()))
        client = make_client(provider, model="judge-1", base_url=server.url)
        assert client.ask_now(PROMPT, Colour.model_validate_json) == text
        asyncio.run(client.close())


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("say", [wait("3600"), Say(status=429, body=INFO.replace("0.2", "3600"))])
def test_a_too_long_retry_after_is_an_error(provider: str, say: Say, tmp_path: Path) -> None:
    told = suffer(Fault("", (say,), "Unavailable", 1), provider, tmp_path)
    assert isinstance(told.error, Unavailable)
    assert (told.error.retry_after_s, told.error.status) == (3600.0, 429)
    assert "it asks to wait 3600 s" in str(told.error)
    assert told.requests == 1


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
@pytest.mark.parametrize("thought", [41, None])
def test_an_answer_that_was_cut_off_names_its_budgets(
    thought: int | None, provider: str, tmp_path: Path
) -> None:
    script = (Say(GOOD, "length", thought),) * 2
    options = {"answer_tokens": 30, "thinking_tokens": 40}
    told = suffer(Fault("", script, "CutOff", TWICE, options=options), provider, tmp_path)
    assert type(told.error) is CutOff
    tokens = "70 tokens, 41 of them thinking" if thought else "70 tokens"
    raises = "raise answer_tokens, now 30, or thinking_tokens, now 40"
    assert str(told.error) == f"{provider}/judge-1: cut off at {tokens}; {raises}"
    assert told.client.usage.tokens_out == 2 * 25, "it is paid for"


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


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written: {PAGE}")
