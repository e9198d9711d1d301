"""Models behind a server with OpenAI's protocol, as the real SDK finds one on 127.0.0.1."""

import asyncio
import json
import math
import re
from pathlib import Path
from typing import Any

import openai  # noqa: F401  # takes seconds, which are no answer's
import pytest
from conftest import make_task
from loopback import Loopback, Say, openai_server, user_text
from model_answers import gullible
from native_model import model

from resume_gym import Session, tool_call
from resume_gym.episode.tools import with_calls
from resume_gym.evaluation.guided import demonstration, fenced, guide
from resume_gym.evaluation.loop import PendingEpisode, play_all
from resume_gym.evaluation.players import Endpoint, endpoint
from resume_gym.evaluation.results import check_row, row_of
from resume_gym.evaluation.specs import read_spec
from resume_gym.judges import make_judge
from resume_gym.llm import Malformed, Misconfigured, Refused, Unavailable

REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
EDIT = tool_call("str_replace", old="Helped build", new="Built")
BROKEN = with_calls("Let me see.", [("str_replace", '{"old": "x", "new"')])


def player(server: Loopback, max_concurrency: int = 4, **options: Any) -> Endpoint:
    return endpoint({"model": "scripted", "base_url": server.url, **options}, max_concurrency)


def play(one: Endpoint, *sessions: Session) -> None:
    async def all_of_them() -> None:
        try:
            await asyncio.gather(*(one.play(some, n) for n, some in enumerate(sessions)))
        finally:
            await one.close()

    asyncio.run(all_of_them())


def bare(*actions: str) -> Session:
    session = Session(make_task())
    for text in actions:
        session.step(text)
    return session


def test_an_evaluated_episode_keeps_its_tokens_and_what_the_judge_was_asked():
    believe = gullible(make_task().resume)
    with (
        model(lambda turn: (REVIEW, EDIT, SUBMIT)[turn]) as server,
        openai_server(lambda body: believe(user_text(body))) as judges,
    ):
        options = {"name": "openai", "model": "judge", "base_url": judges.url}
        job, idle = (PendingEpisode(n, Session(make_task()), n) for n in range(2))
        idle.session.step(SUBMIT)
        work = play_all(player(server), [job, idle], make_judge(options), 2, lambda job: None)
        asyncio.run(work)
    assert job.session.verdict is not None
    assert [cost["tokens_out"] for cost in job.costs] == [3, 3, 3]
    assert all(cost["seconds"] > 0 for cost in job.costs)
    assert sorted(one["kind"].rpartition("-")[0] for one in job.asked) == [
        *("judge-compare",) * 2,
        "judge-support",
    ]
    for one in job.asked:
        assert "Built" in one["user"]
        assert json.loads(one["answer"])["code"] in one["user"]
    row = row_of("m", 0, job.session, costs=job.costs, asked=job.asked)
    check_row(json.loads(json.dumps(row)), job.session, 1)
    assert (idle.costs, idle.asked) == ([], [])
    assert not {"costs", "asked"} & row_of("m", 1, idle.session, costs=[], asked=[]).keys()


@pytest.mark.parametrize(
    "actions",
    [
        ("I would rather not.", EDIT, SUBMIT),
        (f"Two at once.\n{REVIEW}\n{EDIT}", EDIT, SUBMIT),
        (BROKEN, REVIEW, SUBMIT),
        (tool_call("delete_all"), EDIT, EDIT, SUBMIT),
        ("",) * 10,
    ],
)
def test_an_episode_is_what_it_is_in_the_bare_environment(actions):
    with model(lambda turn: actions[turn]) as server:
        session = Session(make_task())
        play(player(server), session)
    wanted = bare(*actions)
    assert session.ledger == wanted.ledger
    assert session.text == wanted.text
    steps = [step.error for _, step in session.state.transcript]
    assert steps == [step.error for _, step in wanted.state.transcript]


def test_a_model_is_shown_its_tools_and_what_came_of_its_calls():
    said = (REVIEW, "No call.", REVIEW + "\n" + EDIT, BROKEN, SUBMIT)
    with model(lambda turn: said[turn]) as server:
        session = Session(make_task())
        play(player(server, temperature=0.5), session)
        first, *_, last = server.requests
    assert first["model"] == "scripted"
    assert first["tools"] == [dict(one) for one in session.tools]
    assert first["parallel_tool_calls"] is False
    assert first["temperature"] == 0.5
    assert first["messages"] == session.messages
    replies = [step.observation for _, step in session.state.transcript]
    told = last["messages"][2:]
    roles = "assistant tool assistant user assistant tool tool assistant user"
    assert [one["role"] for one in told] == roles.split()
    assert told[0]["tool_calls"][0]["function"] == {"name": "review", "arguments": "{}"}
    assert [told[n]["content"] for n in (1, 3, 5, 6, 8)] == [
        *(replies[0], replies[1]),
        *(replies[2], replies[2]),
        replies[3],
    ]
    assert [told[n]["tool_call_id"] for n in (5, 6)] == ["call-0", "call-1"], "each is answered"
    assert told[7] == {"role": "assistant", "content": BROKEN}, "no server could read it as a call"
    assert session.state.transcript[2][1].error == "several_calls"


def test_no_call_of_the_demonstration_fails():
    _, turns = demonstration()
    assert not [observation for _, observation in turns if observation.startswith("error")]
    assert turns[-1][1].startswith("submitted")


def test_a_guided_model_may_write_its_calls_as_json():
    said = (
        'Sure!\n```json\n{"name": "review", "arguments": {}}\n```\nShall I go on?',
        '{"name": "str_replace", "arguments": {"old": "Helped build", "new": "Built"}} {"name": 1',
        "I am not sure {what} to do.",
        '{"name": "submit"}',
    )
    before = len(demonstration()[1])
    with model(lambda turn: said[turn - before]) as server:
        session = Session(make_task())
        play(player(server, prompting="guided"), session)
        first, *_, last = server.requests
    wanted = bare(REVIEW, EDIT, said[2], SUBMIT)
    assert session.ledger == wanted.ledger
    assert session.text == wanted.text
    assert not {"tools", "parallel_tool_calls"} & first.keys()
    system, *shown, task = first["messages"]
    assert system["content"] == guide(session.system_prompt)
    assert task["content"].endswith("\n\n" + session.prompt)
    assert "Helped build" not in str([system, *shown])
    roles = [one["role"] for one in first["messages"]]
    assert roles == ["system", *["user", "assistant"] * (len(roles) // 2 - 1), "user"]
    played = last["messages"][len(roles) :]
    assert [one["content"] for one in played[::2]] == [fenced(REVIEW), fenced(EDIT), said[2]]
    assert "<tool_call>" not in str(played[::2])
    with pytest.raises(ValueError, match="prompting: expected 'plain' or 'guided', got 'kind'"):
        endpoint({"model": "m", "base_url": "http://h/v1", "prompting": "kind"}, 1)


def test_thoughts_are_kept_and_call_nothing():
    thought = f"<think>I could {SUBMIT}</think>"
    with model(lambda turn: (thought + REVIEW, SUBMIT)[turn]) as server:
        session = Session(make_task())
        play(player(server), session)
        assert "think" not in json.dumps(server.requests[1]["messages"][2:])
    assert session.turns == 2
    assert session.state.transcript[0][0].startswith("<think>\nI could <tool_call>")
    assert session.state.reviewed


def wire(message: Any, finish: str = "tool_calls") -> Say:
    """A completion with this message."""
    choice = {"index": 0, "message": message, "finish_reason": finish}
    told = {"id": "1", "object": "chat.completion", "created": 1, "model": "scripted"}
    return Say(body=json.dumps({**told, "choices": [choice]}))


def called(name: str = "review", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def after(say: Say) -> tuple[Session, list[dict[str, Any]]]:
    """An episode that begins with this reply and goes on with `submit`; what it is shown then."""
    with model(lambda turn: SUBMIT) as server:
        server.script.append(say)
        session = Session(make_task())
        play(player(server), session)
        return session, server.requests[-1]["messages"][2:]


@pytest.mark.parametrize("arguments", [{}, None, "", "null"])
def test_a_tool_without_arguments_is_called_in_many_ways(arguments):
    session, (asked, answered) = after(wire({"tool_calls": [called(arguments=arguments, id="x")]}))
    assert [step.error for _, step in session.state.transcript] == ["none", "none"]
    assert json.loads(asked["tool_calls"][0]["function"]["arguments"]) == {}
    assert (answered["role"], answered["tool_call_id"]) == ("tool", "x")


@pytest.mark.parametrize("own", [{}, {"id": ""}, {"id": "same"}, {"id": 7}])
def test_each_call_that_is_shown_again_has_an_id_of_its_own(own):
    session, told = after(wire({"content": None, "tool_calls": [called(**own), called(**own)]}))
    assert session.state.transcript[0][1].error == "several_calls"
    ids = [one["id"] for one in told[0]["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(re.fullmatch("[a-z0-9]{9}", one) for one in ids)
    assert [one["tool_call_id"] for one in told[1:]] == ids


def test_later_requests_repeat_only_a_few_of_a_thousand_calls():
    calls = [called(id=str(number)) for number in range(1000)]
    session, told = after(wire({"content": None, "tool_calls": calls}))
    assert session.state.transcript[0][1].error == "several_calls"
    assert session.done
    assert [one["id"] for one in told[0]["tool_calls"]] == list("01234567")
    assert [one["tool_call_id"] for one in told[1:]] == list("01234567")


@pytest.mark.parametrize("name", ["", "functions.review", "review<|end|>", "r" * 65])
def test_a_name_that_no_tool_may_have_is_shown_as_text(name):
    session, (asked, answered) = after(wire({"tool_calls": [called(name, id="x")]}))
    assert session.state.transcript[0][1].error == "unknown_tool"
    assert asked == {"role": "assistant", "content": with_calls("", [(name, "{}")])}
    assert answered["role"] == "user"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("Done \ud83d", "Done \ufffd"),
        (
            [{"type": "thinking", "thinking": []}, *({"type": "text", "text": c} for c in "ab")],
            "ab",
        ),
    ],
)
def test_content_is_made_text_that_can_be_shown_again(content, shown):
    session, (asked, *_) = after(wire({"content": content}, "length"))
    assert asked["content"] == session.state.transcript[0][0] == shown


@pytest.mark.parametrize(
    "say",
    [
        wire(None, "stop"),
        wire({"content": 5}, "stop"),
        wire({"tool_calls": [{"type": "function"}]}),
        wire({"function_call": {"name": "review", "arguments": "{}"}}, "function_call"),
        Say(empty=True, body='{"choices": []}'),
    ],
)
def test_a_failed_completion_is_not_a_turn(say):
    with model(lambda turn: SUBMIT) as server:
        server.script += [say, say]
        session = Session(make_task())
        with pytest.raises(Malformed):
            play(player(server), session)
    assert session.turns == 0


@pytest.mark.parametrize(
    ("say", "kind"),
    [
        (Say(status=503), Unavailable),
        (Say(status=401), Misconfigured),
        (Say(finish="safety"), Refused),
    ],
)
def test_a_server_that_fails_ends_the_episode(say, kind):
    with model(lambda turn: REVIEW) as server:
        server.script += [Say(REVIEW), *[say] * 50]
        session = Session(make_task())
        with pytest.raises(kind):
            play(player(server, deadline_s=3), session)
    assert session.turns == 1
    assert not session.done


def test_answers_of_a_store_are_not_asked_for_again(tmp_path):
    store = str(tmp_path / "answers.sqlite")
    with model(lambda turn: (REVIEW, EDIT, SUBMIT)[turn]) as server:
        sessions = [Session(make_task()) for _ in range(2)]
        play(player(server, store=store), *sessions)
        assert len(server.requests) == 6, "rollouts of a task draw their own"
        again = [Session(make_task()) for _ in range(2)]
        play(player(server, store=store, replay=True), *again)
        assert len(server.requests) == 6
    assert [one.record() for one in again] == [one.record() for one in sessions]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"temprature": 1}, r"expected options among .*temperature.*; got 'temprature'"),
        ({"answer_tokens": 0}, "answer_tokens: expected a whole number above 0"),
        ({"temperature": math.nan}, "temperature: expected a number >= 0 or null, got nan"),
        ({"temperature": math.inf}, "temperature: expected a number >= 0 or null, got inf"),
        ({"temperature": True}, "temperature: expected a number >= 0 or null, got True"),
        ({"extra_body": "abc"}, "extra_body: expected "),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls: expected "),
        ({"base_url": 5}, "base_url: expected "),
    ],
)
def test_a_wrong_option_is_named(wrong, told):
    with pytest.raises(ValueError, match=told):
        endpoint({"model": "m", "base_url": None, **wrong}, 1)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("careful", ("careful", "scripted", {"model": "careful"})),
        ("best=oracle", ("best", "scripted", {"model": "oracle"})),
        ("nano", ("nano", "model", {"model": "nano"})),
        (
            "org/model-7b@http://localhost:8000/v1",
            ("org/model-7b", "endpoint",
             {"model": "org/model-7b", "base_url": "http://localhost:8000/v1"}),
        ),
        ("gpt=gpt-5-mini@openai", ("gpt", "endpoint", {"model": "gpt-5-mini", "base_url": None})),
        (
            '{"name": "mine", "model": "m", "base_url": "http://h/v1", "temperature": 0.2}',
            ("mine", "endpoint", {"model": "m", "base_url": "http://h/v1", "temperature": 0.2}),
        ),
        ('hot={"model": "nano", "temperature": 2}',
         ("hot", "model", {"model": "nano", "temperature": 2})),
    ],
)  # fmt: skip
def test_an_agent_is_named_in_several_ways(text, wanted):
    assert tuple(read_spec(text)) == wanted


def test_a_folder_without_a_model_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Path("runs/nano")
    run.mkdir(parents=True)
    with pytest.raises(ValueError, match=r"or of a model .*; 'runs/nano' is none of these"):
        read_spec("runs/nano")
    with pytest.raises(ValueError, match="there is no run 'runs/nan'; did you mean 'runs/nano'"):
        read_spec("runs/nan")
    (run / "config.toml").touch()
    with pytest.raises(ValueError, match=r"'runs/nano' has not exported its model yet$"):
        read_spec("runs/nano")
    for step in ("step-000004", "step-000010"):
        (run / "checkpoints" / step).mkdir(parents=True)
    with pytest.raises(
        ValueError, match="its last checkpoint is runs/nano/checkpoints/step-000010"
    ):
        read_spec("runs/nano")


def test_folders_are_called_after_their_runs(tmp_path):
    checkpoint = tmp_path / "first" / "checkpoints" / "step-000010"
    checkpoint.mkdir(parents=True)
    model = tmp_path / "first" / "model"
    model.mkdir()
    for file in (model / "config.json", tmp_path / "first" / "config.toml"):
        file.touch()
    for folder, name in (
        (checkpoint, "first/step-000010"),
        (tmp_path / "first", "first"),
        (model, "first"),
    ):
        assert read_spec(str(folder)).name == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orcale", "got 'orcale'; did you mean 'oracle'?"),
        ("{", "expected JSON"),
        ('{"base_url": "http://h"}', "model: expected a name, got None"),
        ('{"model": "careful", "temperature": 1}', "takes no options"),
        ('{"model": "m", "base_url": "ftp://h"}', "base_url: expected http://HOST/v1"),
        ("m@http://h/v1?key=secret", "base_url: expected no key in the address"),
        ('{"model": "careful", "name": "a\\nb"}', "expected a name of printable characters"),
    ],
)
def test_errors_in_a_spec_are_reported(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_spec(text)
