"""OpenEnv: the real server, in a process or in a thread, asked by the real client."""

import asyncio
import atexit
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from threading import Thread
from typing import Any

import uvicorn
from openenv_sessions import server

from resume_gym import Task, Verdict
from resume_gym.integrations.openenv import make_app
from resume_gym.integrations.openenv_client import ResumeGymAction, ResumeGymEnv, ResumeGymState
from resume_gym.judges import AsyncJudge, JudgeUnavailable, make_judge
from resume_gym.testing import Played, Script

_running = ExitStack()
atexit.register(_running.close)


@cache
def serve(judge: str, **settings: str) -> str:
    """The address of a server with a judge, which may be one of this folder; it stays."""
    here = os.path.dirname(__file__)
    path = os.pathsep.join([here, os.path.join(here, "..", "..", "examples")])
    arguments = json.dumps({"judge": judge})
    return _running.enter_context(server(PYTHONPATH=path, RESUME_GYM_ARGS=arguments, **settings))


@cache
def local(env_id: str, options: str) -> str:
    """The address of a server in a thread of this process; it starts at once."""
    app = make_app(env_id, **json.loads(options))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.05)
    host, port = server.servers[0].sockets[0].getsockname()
    return f"http://{host}:{port}"


def address(script: Script, judge: str) -> str:
    return local(script.env_id, json.dumps({"judge": judge, **script.options}))


class Flaky:
    """Cannot be reached the first time that it is asked about a document."""

    name = "flaky"

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def judge(self, task: Task, revised: str) -> Verdict:
        if revised not in self._seen:
            self._seen.add(revised)
            raise JudgeUnavailable("the judge is away")
        return make_judge("rubric").judge(task, revised)


class Gate(AsyncJudge):
    """Answers nobody until so many wait for it at once."""

    name = "gate"

    def __init__(self, members: int) -> None:
        self._barrier = asyncio.Barrier(members)

    async def averdict(self, task: Task, revised: str) -> Verdict:
        await self._barrier.wait()
        return make_judge("rubric").judge(task, revised)


def gate(members: int) -> str:
    """The spec of a `Gate`."""
    return json.dumps({"name": "players_openenv:Gate", "members": members})


def says(script: Script) -> Iterator[ResumeGymAction]:
    """The stand-in for a model; it has nothing to say after its last action."""
    return (ResumeGymAction(text=text) for text in script.actions)


def played(state: ResumeGymState, rewards: list[float]) -> Played:
    """What the client was told."""
    told: dict[str, Any] = state.model_dump()
    return Played(told["task_id"], rewards, sum(rewards), told["resume"], told["ledger"])


def play(script: Script, judge: str) -> Played:
    """Over the client without asyncio."""
    with ResumeGymEnv(address(script, judge)).sync() as env:
        result, model, rewards = env.reset(task_id=script.task_id), says(script), []
        while not result.done:
            result = env.step(next(model))
            rewards.append(result.reward)
        return played(env.state(), rewards)


async def aplay(env: ResumeGymEnv, script: Script) -> Played:
    """On a connection, after its reset."""
    done, model, rewards = False, says(script), list[float]()
    while not done:
        result = await env.step(next(model))
        done = result.done
        rewards.append(result.reward)
    return played(await env.state(), rewards)


def play_async(script: Script, judge: str) -> Played:
    """Over the client's own way."""

    async def one() -> Played:
        async with ResumeGymEnv(address(script, judge)) as env:
            await env.reset(task_id=script.task_id)
            return await aplay(env, script)

    return asyncio.run(one())


PLAYERS = {"sync": play, "async": play_async}
