"""Scripts played through ART: its groups, its client, and a server on 127.0.0.1 for the model."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import art
from aiohttp import web
from art_tokenise import served
from scripts import Parser, as_calls, as_text

from resume_gym.integrations.art import Episodes
from resume_gym.testing import Played, Script


def play(script: Script, judge: str = "rubric", parser: Parser = as_text) -> art.Trajectory:
    """The trajectory that ART's gathering returns."""

    def say(request: dict[str, Any]) -> str:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        if turn == len(script.actions):
            raise web.HTTPBadRequest(text="asked once more after the end")
        return script.actions[turn]

    async def gathered() -> art.Trajectory:
        episodes = Episodes(script.env_id, judge=judge, **script.options)
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
        env = Episodes(script.env_id, judge=judge, **script.options).env
        task = env.new_session(played.metadata["scenario_id"]).task
        session = env.session_type.replay(task, json.loads(played.logs[0]))
        rewards, ledger = (list(metrics(played, kind).items()) for kind in ("turn", "ledger"))
        assert [turn for turn, _ in rewards] == [str(at + 1) for at in range(len(rewards))]
        earned = [reward for _, reward in rewards]
        return Played.of(session, earned, played.reward)._replace(ledger=dict(ledger))

    return player


PLAYERS = {"calls in the text": _player(as_text), "calls parsed": _player(as_calls)}
