"""Agents of two tiers: real clients of two servers on 127.0.0.1, one of which misquotes."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai  # noqa: F401  # takes seconds, which are no answer's
import pytest
from conftest import make_task
from loopback import Loopback, Say, openai_server
from native_model import model, native

from resume_gym import Rules, Session, load_tasks, tool_call
from resume_gym.agents import make_agent
from resume_gym.cli import main
from resume_gym.cli.revise import _is_hosted
from resume_gym.episode.tools import with_calls
from resume_gym.evaluation.guided import demonstration
from resume_gym.evaluation.specs import read_spec
from resume_gym.evaluation.tiers import Route, difficulty_of, failed_streak, make_tiers
from resume_gym.llm import Misconfigured, Unavailable, Usage

Capsys = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[1]
MINI = "ResumeEditMini-v0"
TASKS = load_tasks("mini", "eval")
RULES = Rules(max_turns=6, page_lines=20)
REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
MISQUOTE = tool_call("str_replace", old="Helped to build", new="Built")
EDIT = tool_call("str_replace", old="Helped build", new="Built")
CHEAP, DEAR = "gpt-4.1-mini", "gpt-5.2"
SHARES = {"after_failures": 2}


def counted(say: Say, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The wire of a server with long ids, fields of its own, and a token for four characters."""
    told = native(say, path, body)
    message = told["choices"][0]["message"]
    for call in message.get("tool_calls", ()):
        call |= {"id": f"call_of_{body['model']}", "extra_content": {"signature": "opaque"}}
    sizes = {"prompt_tokens": body["messages"], "completion_tokens": message}
    told["usage"] = {name: len(json.dumps(value)) // 4 for name, value in sizes.items()}
    return told


def check_legal(body: Mapping[str, Any]) -> None:
    """Check a chat as the strictest servers do: ids, their answers, and foreign fields."""
    open_ids: list[str] = []
    for message in body["messages"][2:]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_ids.pop(0)
            continue
        assert not open_ids, "each call is answered before the next message"
        assert message["role"] != "assistant" or message["content"] or message["tool_calls"]
        for call in message.get("tool_calls", ()):
            assert "tools" in body
            own = call["id"] == f"call_of_{body['model']}"
            assert own or re.fullmatch("[a-z0-9]{9}", call["id"])
            assert own == ("extra_content" in call)
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            open_ids.append(call["id"])
    assert not open_ids


@contextmanager
def careful(misquotes: bool = False) -> Iterator[Loopback]:
    """A server that plays as the careful agent; the cheap one misquotes from the second edit on."""

    def reply(body: dict[str, Any]) -> str:
        check_legal(body)
        _, user, *chat = body["messages"]
        task = next(task for task in TASKS if task.resume.rstrip() in user["content"])
        session = Session(task, RULES)
        for message in chat:
            if message["role"] == "assistant":
                calls = [call["function"] for call in message.get("tool_calls", ())]
                named = [(call["name"], call["arguments"]) for call in calls]
                session.step(with_calls(message["content"] or "", named))
        said = make_agent("careful")(session)
        return said.replace('"old": "', '"old": "~') if misquotes and session.state.edits else said

    with openai_server(reply) as server:
        server._wire = counted
        yield server


def spec(local: Loopback, frontier: Loopback, **rule: Any) -> dict[str, Any]:
    servers = {"local": (CHEAP, local), "frontier": (DEAR, frontier)}
    tiers = {
        tier: {"model": name, "base_url": server.url, "deadline_s": 20}
        for tier, (name, server) in servers.items()
    }
    return {**tiers, **(rule or SHARES)}


def play(made: dict[str, Any], *sessions: Session) -> dict[str, Usage]:
    """Play sessions one after another; return what was spent."""
    player = make_tiers(read_spec(json.dumps(made)).options, 1)

    async def run() -> None:
        try:
            for number, session in enumerate(sessions):
                await player.play(session, number)
        finally:
            await player.close()

    asyncio.run(run())
    return player.usage


def evaluated(capsys: Capsys, *arguments: str) -> dict[str, Any]:
    main(["eval", "--env", MINI, "--rollouts", "1", "--json", *arguments])
    agents: dict[str, Any] = json.loads(capsys.readouterr().out)["agents"]
    return agents


def test_after_failed_calls_in_a_row_the_frontier_model_plays_the_rest() -> None:
    turns = (REVIEW, MISQUOTE, EDIT, MISQUOTE, "No call.")
    with model(lambda turn: turns[turn]) as local, model(lambda turn: SUBMIT) as frontier:
        frontier.script += [Say(MISQUOTE), Say(REVIEW)]
        session = Session(make_task())
        play(spec(local, frontier), session)
    assert [text for text, _ in session.state.transcript] == [*turns, MISQUOTE, REVIEW, SUBMIT]
    assert len(local.requests) == 5
    assert failed_streak(session) == 3


def test_both_servers_are_sent_all_turns_in_a_form_that_they_accept() -> None:
    turns = ("No call.", "Now:\n" + MISQUOTE, "Hm.\n" + EDIT, SUBMIT)
    with model(lambda turn: turns[turn]) as local, model(lambda turn: turns[turn]) as frontier:
        local._wire = frontier._wire = counted
        session = Session(make_task())
        # one answer of the frontier model uses up the budget
        play(spec(local, frontier, **SHARES, budget_dollars=1e-9), session)
        assert (len(local.requests), len(frontier.requests)) == (3, 1)
        back, there = local.requests[-1], frontier.requests[-1]
    check_legal(back)
    check_legal(there)
    assert "- Built" in session.text
    told = [one for one in back["messages"] if one["role"] == "assistant"]
    assert [one["content"] for one in told] == ["No call.", "Now:", "Hm."]
    assert [one["tool_calls"][0]["id"] for one in told[1:]] == [f"call_of_{CHEAP}", "call03000"]
    roles = [one["role"] for one in there["messages"][2:]]
    assert roles == ["assistant", "user", "assistant", "tool"]


@pytest.mark.parametrize("guided", ["local", "frontier"])
def test_a_guided_tier_is_sent_text_and_the_other_one_calls(guided: str) -> None:
    calls = (REVIEW, "Hm.", EDIT, SUBMIT)
    texts = [re.sub("</?tool_call>", "", call) for call in calls]
    texts = ["of the demonstration"] * len(demonstration()[1]) + texts
    said = {tier: texts if tier == guided else calls for tier in ("local", "frontier")}
    with (
        model(lambda turn: said["local"][turn]) as local,
        model(lambda turn: said["frontier"][turn]) as frontier,
    ):
        local._wire = frontier._wire = counted
        made = spec(local, frontier, after_failures=1, budget_dollars=1e-9)
        made[guided]["prompting"] = "guided"
        session = Session(make_task())
        play(made, session)
        chats = {"local": local.requests[-1], "frontier": frontier.requests[-1]}
    errors = [step.error for _, step in session.state.transcript]
    assert errors == ["none", "no_call", "none", "none"]
    plain = chats.pop("frontier" if guided == "local" else "local")
    for body in (plain, chats[guided]):
        check_legal(body)
    assert sum("tool_calls" in one for one in plain["messages"]) == (1 if guided == "local" else 2)
    assert all("tool_calls" not in one for one in chats[guided]["messages"])
    assert "tools" not in chats[guided]


def test_a_task_that_looks_hard_is_the_frontier_models() -> None:
    easy, hard = sorted((Session(task, RULES) for task in TASKS), key=difficulty_of)[::39]
    limit = difficulty_of(hard)
    assert difficulty_of(easy) < limit
    with careful(misquotes=True) as local, careful() as frontier:
        spent = play(spec(local, frontier, difficulty=limit), easy, hard)
    assert (spent["local"].calls, spent["frontier"].calls) == (easy.turns, hard.turns)
    assert spent["agent"] == spent["local"] + spent["frontier"]


def test_difficulty_is_read_off_the_page_alone() -> None:
    task = next(task for task in TASKS if task.weakness == "too_long")
    told = difficulty_of(Session(task, RULES))
    hidden = replace(task, weakness="weak_verbs", fixes=())
    assert difficulty_of(Session(hidden, RULES)) == told
    lines = Session(task, RULES).state.document.lines
    assert difficulty_of(Session(task, replace(RULES, page_lines=lines))) == told - (lines - 20)
    longer = replace(task, resume=task.resume.rstrip() + "\n- Wrote a page")
    assert difficulty_of(Session(longer, RULES)) == told + 2, "a bullet, and a line over the page"


def uncounted(say: Say, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The wire of a server that reports no usage."""
    told = counted(say, path, body)
    del told["usage"]
    return told


def zeros(say: Say, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The wire of a server that counts no tokens and reports 0."""
    told = counted(say, path, body)
    told["usage"] = dict.fromkeys(told["usage"], 0)
    return told


@pytest.mark.parametrize("wire", [uncounted, zeros])
def test_a_budget_refuses_a_server_that_reports_no_tokens(wire: Any) -> None:
    with careful() as local, careful() as frontier:
        frontier._wire = wire
        spent = play(spec(local, frontier, difficulty=1), Session(TASKS[0], RULES))
        assert (spent["frontier"].tokens, spent["frontier"].dollars) == (None, None)
        with pytest.raises(Misconfigured, match=f"token counts of openai/{DEAR}, got none"):
            play(spec(local, frontier, difficulty=1, budget_dollars=1), Session(TASKS[0], RULES))


def test_once_the_budget_is_used_up_the_local_model_plays_all() -> None:
    sessions = [Session(task, RULES) for task in TASKS[:4]]
    with careful(misquotes=True) as local, careful() as frontier:
        whole = play(spec(local, frontier, difficulty=1), *sessions)
    assert whole["local"].calls == 0
    assert whole["frontier"].dollars
    budget, sessions = whole["frontier"].dollars / 2, [Session(task, RULES) for task in TASKS[:4]]
    with careful(misquotes=True) as local, careful() as frontier:
        spent = play(spec(local, frontier, difficulty=1, budget_dollars=budget), *sessions)
        last = len(frontier.requests)
    assert spent["frontier"].dollars
    assert budget <= spent["frontier"].dollars < budget + whole["frontier"].dollars / last
    assert spent["local"].calls > 0
    assert all(session.done for session in sessions)
    assert not Route(difficulty=1, budget_dollars=1.0).is_frontier(sessions[0], 1.0)


def test_a_frontier_model_that_fails_is_not_replaced(capsys: Capsys) -> None:
    with model(lambda turn: MISQUOTE) as local, model(lambda turn: SUBMIT) as frontier:
        frontier.script += [Say(status=503)] * 50
        made = spec(local, frontier)
        made["frontier"]["deadline_s"] = 3
        session = Session(make_task())
        with pytest.raises(Unavailable, match="503"):
            play(made, session)
        assert (session.turns, session.done) == (2, False)
        found = evaluated(capsys, "--agent", "both=" + json.dumps(made), "--limit", "1")["both"]
    assert found["summary"] is None
    (failure,) = found["failures"]
    assert "Unavailable" in failure["why"]
    assert found["spent"]["local"]["calls"] == 2


def test_eval_compares_cost_and_quality_of_both_models_and_each(
    capsys: Capsys, tmp_path: Path
) -> None:
    with careful(misquotes=True) as local, careful() as frontier:
        both = json.dumps(spec(local, frontier))
        agents = (f"local={CHEAP}@{local.url}", f"frontier={DEAR}@{frontier.url}", f"both={both}")
        command = [part for agent in agents for part in ("--agent", agent)]
        command += ["--env", MINI, "--limit", "12", "--rollouts", "1", "--markdown"]
        assert main(["eval", *command, "--out", str(tmp_path / "result")]) == 0
    out = capsys.readouterr().out
    found = json.loads((tmp_path / "result" / "evaluation.json").read_text())["agents"]
    ascending = [found[name] for name in ("local", "both", "frontier")]
    for figures in (
        [one["summary"]["reward"] for one in ascending],
        [one["spent"]["episode"]["dollars"] for one in ascending],
    ):
        assert figures == sorted(set(figures))
    spent = found["both"]["spent"]
    agent = {name: spent["local"][name] + spent["frontier"][name] for name in spent["agent"]}
    assert spent["agent"] == agent
    assert agent["calls"] == 12 * found["both"]["summary"]["turns"]
    assert spent["episode"]["dollars"] == pytest.approx(agent["dollars"] / 12)
    share = f"{spent['frontier']['calls'] / agent['calls']:.0%}"
    assert f"| frontier, share of answers | - | - | {share} |" in out
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    shown = page.partition("## Two tiers")[2].partition("\n## ")[0]
    rows = [line for line in shown.split("\n") if re.match(r"\| [a-z]+.* \| .*\d", line)]
    assert len(rows) == 7
    assert not [row for row in rows if row not in out], out


def test_a_resumed_evaluation_counts_the_episodes_that_it_has_played(
    capsys: Capsys, tmp_path: Path
) -> None:
    with careful() as server:
        command = ["--agent", f"{DEAR}@{server.url}", "--limit", "2", "--out", str(tmp_path / "o")]
        first = evaluated(capsys, *command)[DEAR]["spent"]
        again = evaluated(capsys, *command, "--rollouts", "2")[DEAR]["spent"]
        idle = evaluated(capsys, *command, "--rollouts", "2")[DEAR]["spent"]
    assert again["agent"]["tokens_in"] == first["agent"]["tokens_in"]
    # answers arrive in any order, so sums of dollars differ by rounding
    assert again["episode"] == pytest.approx(first["episode"])
    assert "episode" not in idle


def test_revise_says_what_each_tier_did(
    capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task = make_task()
    (tmp_path / "ada.md").write_text(task.resume, encoding="utf-8")
    (tmp_path / "job.txt").write_text(task.job, encoding="utf-8")
    with model(lambda turn: MISQUOTE) as local, model(lambda turn: SUBMIT) as frontier:
        frontier.script.append(Say(tool_call("str_replace", old="Worked on", new="Wrote")))
        agent = json.dumps(spec(local, frontier))
        main(["revise", "ada.md", "--job", "job.txt", "--agent", agent, "--json"])
    out, err = capsys.readouterr()
    told = json.loads(out)
    note = (
        "local model: 2 answers, 24 tokens for $0.000017; frontier model: 2 answers, 24 tokens for"
    )
    assert any(line.startswith(note) for line in told["notes"])
    assert note in (tmp_path / "ada.revised.diff.md").read_text(encoding="utf-8").replace("\\", "")
    assert told["spent"]["frontier"]["calls"] == 2
    assert "is sent the resume" not in err, "both servers are on this machine"


def test_an_agent_is_hosted_if_a_tier_is() -> None:
    one = read_spec('{"local": "m@http://localhost:1/v1", "frontier": "gpt-5.2@openai"}')
    assert one.name == "m + gpt-5.2"
    assert _is_hosted(one.record)
    assert not _is_hosted(
        read_spec('{"local": "m@http://localhost/v1", "frontier": "n@http://[::1]/v1"}').record
    )


HERE, THERE = "m@http://localhost/v1", "n@http://localhost/v1"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"local": HERE}, "frontier: model: expected a name, got None"),
        ({"local": "nano", "frontier": THERE}, "local: expected a model behind a server, such as "),
        ({"local": HERE, "frontier": THERE}, "expected 'after_failures' or 'difficulty', got {}"),
        ({"local": HERE, "frontier": THERE, "budget_dollars": 1},
         "expected 'after_failures' or 'difficulty', got budget_dollars"),
        ({"local": HERE, "frontier": THERE, **SHARES, "budget_dollars": 1},
         "budget_dollars: expected a price of openai/n"),
        ({"local": HERE, "frontier": THERE, "after_failures": 0},
         "after_failures: expected a whole number above 0, got 0"),
        ({"local": HERE, "frontier": THERE, "difficulty": 1.5},
         "difficulty: expected a whole number above 0, got 1.5"),
        ({"local": HERE, "frontier": THERE, **SHARES, "budget_dollars": "2"},
         "budget_dollars: expected a number above 0, got '2'"),
        ({"local": HERE, "frontier": THERE, "after": 1}, "expected options among local, "),
        ({"local": HERE, "frontier": {"model": "n", "base_url": "http://h", "a": 1}, **SHARES},
         "frontier: expected options among "),
    ],
)  # fmt: skip
def test_a_wrong_spec_is_refused_in_one_line(
    wrong: dict[str, Any], told: str, capsys: Capsys
) -> None:
    assert main(["eval", "--agent", "both=" + json.dumps(wrong), "--env", MINI]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert told in err
