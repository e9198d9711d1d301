"""Scripts played through ART: its groups, its client, and a server on 127.0.0.1 for the model."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import art
from aiohttp import web
from art_tokenise import in_content, served
from scripts import OTHER, TASK

from resume_gym import Session
from resume_gym.integrations.art import Episodes
from resume_gym.testing.adapters import ENV, Played, Script

Parser = Callable[[str], dict[str, Any]]
_CALLS = re.compile(r"<tool_call>(.*?)</tool_call>|<tool_call>(.*)", re.DOTALL)


def out_of_content(text: str) -> dict[str, Any]:
    """The message of a server that takes calls out of the text, as vLLM's Hermes parser does."""
    try:
        calls = [json.loads(closed or unclosed) for closed, unclosed in _CALLS.findall(text)]
    except ValueError:
        calls = []
    if not calls:
        return in_content(text)
    functions = [
        {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)}
        for call in calls
    ]
    parsed = [{"id": "one", "type": "function", "function": function} for function in functions]
    return {"content": text[: text.index("<tool_call>")] or None, "tool_calls": parsed}


def play(script: Script, judge: str = "rubric", parser: Parser = in_content) -> art.Trajectory:
    """The trajectory that ART's gathering returns."""

    def say(request: dict[str, Any]) -> str:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        if turn == len(script.actions):
            raise web.HTTPBadRequest(text="asked once more after the end")
        return script.actions[turn]

    async def gathered() -> art.Trajectory:
        episodes = Episodes(ENV, judge=judge)
        async with served(say, parser) as model:
            groups = await episodes.gather(model, [script.task_id], size=1)
        return groups[0].trajectories[0]

    return asyncio.run(gathered())


def metrics(played: art.Trajectory, kind: str) -> dict[str, float]:
    """Of one kind, by what stands behind its slash."""
    of_kind = (name for name in played.metrics if name.startswith(f"{kind}/"))
    return {name.partition("/")[2]: played.metrics[name] for name in of_kind}


def _player(parser: Parser) -> Callable[[Script, str], Played]:
    def player(script: Script, judge: str) -> Played:
        played = play(script, judge, parser)
        (task,) = (one for one in (TASK, OTHER) if one.task_id == played.metadata["scenario_id"])
        session = Session.replay(task, json.loads(played.logs[0]))
        rewards, ledger = (list(metrics(played, kind).items()) for kind in ("turn", "ledger"))
        assert [turn for turn, _ in rewards] == [str(at + 1) for at in range(len(rewards))]
        earned = [reward for _, reward in rewards]
        return Played.of(session, earned, played.reward)._replace(ledger=dict(ledger))

    return player


PLAYERS = {"calls in the text": _player(in_content), "calls parsed": _player(out_of_content)}
