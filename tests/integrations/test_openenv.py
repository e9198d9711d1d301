"""OpenEnv: many connections at once, what happens when something fails, and the package."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym
import httpx
import openenv_sessions
import pytest
from players_openenv import aplay, gate, serve
from scripts import MALFORMED, REVIEW, SCRIPTS, SUBMIT, TASK

from resume_gym import Session, load_tasks, tool_call
from resume_gym.integrations.openenv_client import ResumeGymAction, ResumeGymEnv
from resume_gym.testing import ENV, Script, edits, play_bare

PACKAGE = Path(__file__).parents[2] / "examples" / "packages" / "openenv"
UNJUDGED = next(script for script in SCRIPTS if script.name == "changes nothing")
REPAIRS = SCRIPTS[0]


def alone(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a coroutine as a test; one that hangs fails."""

    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), timeout=120))

    return run


def says(text: str) -> ResumeGymAction:
    return ResumeGymAction(text=text)


async def opened(stack: AsyncExitStack, url: str, scripts: list[Script]) -> list[ResumeGymEnv]:
    """A connection for each script, all open, each reset to its task."""
    envs = [await stack.enter_async_context(ResumeGymEnv(url)) for _ in scripts]
    starts = await asyncio.gather(
        *(env.reset(task_id=script.task_id) for env, script in zip(envs, scripts, strict=True))
    )
    assert [start.observation.task_id for start in starts] == [one.task_id for one in scripts]
    return envs


@alone
async def test_thirty_two_connections_play_as_if_alone() -> None:
    own = [
        Script(task.task_id, task.task_id, (REVIEW, *edits(task, number % 4), SUBMIT))
        for number, task in enumerate(load_tasks("mini", "train")[8:22])
    ]
    group = [REPAIRS._replace(actions=(REVIEW, *edits(TASK, n % 3), SUBMIT)) for n in range(8)]
    scripts = [*SCRIPTS, *MALFORMED, *own, *group]
    assert len(scripts) == 32
    async with AsyncExitStack() as stack:
        envs = await opened(stack, serve("rubric"), scripts)
        episodes = await asyncio.gather(*map(aplay, envs, scripts))
    assert episodes == [play_bare(script) for script in scripts]


@alone
async def test_who_waits_for_the_judge_holds_up_nobody() -> None:
    # the judge answers nobody before all thirty-two wait for it
    last, *others = [REPAIRS] * 32
    async with AsyncExitStack() as stack:
        env, *envs = await opened(stack, serve(gate(32)), [last, *others])
        waiting = [asyncio.create_task(aplay(one, last)) for one in envs]
        (unjudged,) = await opened(stack, serve(gate(32)), [UNJUDGED])
        assert await aplay(unjudged, UNJUDGED) == play_bare(UNJUDGED)
        assert not any(task.done() for task in waiting)
        episodes = [await aplay(env, last), *await asyncio.gather(*waiting)]
    assert episodes == [play_bare(REPAIRS)] * 32


@alone
async def test_after_a_failed_judge_the_next_step_asks_it_again() -> None:
    async with ResumeGymEnv(serve("players_openenv:Flaky")) as env:
        await env.reset(task_id=REPAIRS.task_id)
        rewards = [(await env.step(says(text))).reward for text in REPAIRS.actions[:-1]]
        with pytest.raises(RuntimeError, match="the judge is away"):
            await env.step(says(SUBMIT))
        state = await env.state()
        assert state.done
        assert state.needs_verdict
        assert state.step_count == len(REPAIRS.actions)
        result = await env.step(says("is the judge back?"))
        assert result.done
        assert [*rewards, result.reward] == play_bare(REPAIRS).rewards
        assert (await env.state()).ledger == play_bare(REPAIRS).ledger
        assert (await env.state()).step_count == len(REPAIRS.actions)
        with pytest.raises(RuntimeError, match="the episode is over"):
            await env.step(says("once more"))


@alone
async def test_state_tells_how_the_episode_stands() -> None:
    async with ResumeGymEnv(serve("rubric")) as env:
        start = await env.reset(task_id=TASK.task_id, episode_id="mine")
        assert start.observation.system_prompt
        assert start.observation.tools == list(Session(TASK).tools)
        assert start.observation.text == Session(TASK, rules()).prompt
        for text in (REVIEW, *edits(TASK, 1), "no call"):
            result = await env.step(says(text))
        assert result.observation.error == "no_call"
        state = await env.state()
    assert (state.episode_id, state.step_count, state.task_id) == ("mine", 3, TASK.task_id)
    assert (state.turns_left, state.edits, state.done, state.needs_verdict) == (3, 1, False, False)
    assert state.resume == TASK.resume.replace(TASK.fixes[0].old, TASK.fixes[0].new)


def rules() -> Any:
    return gym.make(ENV).unwrapped.rules  # type: ignore[attr-defined]


@alone
async def test_a_seed_draws_what_it_draws_in_gymnasium() -> None:
    env = gym.make(ENV)
    async with ResumeGymEnv(serve("rubric")) as client:
        for seed in range(5):
            _, info = env.reset(seed=seed)
            result = await client.reset(seed=seed)
            assert result.observation.task_id == info["task_id"]


@alone
async def test_what_cannot_be_played_is_refused_with_a_reason() -> None:
    url = serve("rubric")
    async with ResumeGymEnv(url) as env:
        with pytest.raises(RuntimeError, match="call reset first"):
            await env.step(says(REVIEW))
        with pytest.raises(RuntimeError, match=r"reset takes task_id, .* got taskid"):
            await env.reset(taskid=TASK.task_id)
        with pytest.raises(RuntimeError, match="'nobody' is not among the"):
            await env.reset(task_id="nobody")
        await env.reset(task_id=TASK.task_id)
        lone = await env.step(says(tool_call("str_replace", old="\ud800", new="x")))
        assert (lone.reward, lone.observation.error) == (-0.25, "bad_arguments")


def test_the_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(openenv_sessions.main())
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 8
    assert shown in (openenv_sessions.__doc__ or "")


def test_openenvs_command_line_accepts_package_and_server() -> None:
    openenv = [sys.executable, "-m", "openenv.cli", "validate", "--json"]
    for target in ([str(PACKAGE), "--level", "static"], ["--url", serve("rubric")]):
        done = subprocess.run([*openenv, *target], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads(done.stdout)
        assert report.get("passed") or report["verdict"] == "pass"


def test_http_keeps_no_episode_and_says_so() -> None:
    answer = httpx.post(f"{serve('rubric')}/step", json={"action": {"text": REVIEW}})
    assert answer.status_code == 409
    assert "call reset first" in answer.text
