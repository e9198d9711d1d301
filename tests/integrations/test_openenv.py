"""OpenEnv: many connections at once, what happens when something fails, and the package."""

import asyncio
import gc
import json
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import httpx
import openenv_sessions
import pytest
import uvicorn
from openenv.validation import Level, run_validation
from openenv.validation.types import CheckStatus, ProviderCapability
from players_openenv import aplay, gate, serve
from scripts import MALFORMED, REVIEW, SCRIPTS, SUBMIT, TASK

from resume_gym import Session, load_tasks, tool_call
from resume_gym.integrations.openenv import ResumeGymEnvironment, make_app
from resume_gym.integrations.openenv_client import ResumeGymAction, ResumeGymEnv
from resume_gym.testing.adapters import ENV, Script, edits, play_bare

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
async def test_a_client_that_gives_up_waiting_is_told_that_its_episode_is_lost() -> None:
    env = ResumeGymEnv(serve(gate(2)), message_timeout_s=1)
    await env.reset(task_id=REPAIRS.task_id)
    for text in REPAIRS.actions[:-1]:
        await env.step(says(text))
    with pytest.raises(TimeoutError):
        await env.step(says(SUBMIT))
    with pytest.raises(RuntimeError, match="no episode: call reset first"):
        await env.step(says(SUBMIT))
    await env.close()


@alone
async def test_the_one_too_many_is_told_so_and_let_in_when_another_leaves() -> None:
    url = serve("rubric", MAX_CONCURRENT_ENVS="2")
    async with ResumeGymEnv(url) as first:
        async with ResumeGymEnv(url) as second:
            await first.reset()
            await second.reset()
            third = ResumeGymEnv(url)
            with pytest.raises(RuntimeError, match=r"Server at capacity: 2/2 .*CAPACITY_REACHED"):
                await third.reset()
            await first.step(says(REVIEW))  # the others did not notice
        await until(partial(admitted, third))
        await third.close()


async def admitted(env: ResumeGymEnv) -> bool:
    try:
        await env.reset()
    except RuntimeError:
        return False
    return True


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for it; `alone` bounds how long."""
    while not await holds():
        await asyncio.sleep(0.05)


@pytest.fixture
def here() -> Iterator[str]:
    """The address of a server in a thread, whose memory can be looked at."""
    server = uvicorn.Server(uvicorn.Config(make_app(ENV), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    host, port = server.servers[0].sockets[0].getsockname()
    yield f"http://{host}:{port}"
    server.should_exit = True
    thread.join()


def test_who_hangs_up_in_the_middle_leaves_nothing_behind(here: str) -> None:
    def left() -> tuple[int, int]:
        gc.collect()
        kept = [one for one in gc.get_objects() if isinstance(one, (Session, ResumeGymEnvironment))]
        return len(kept), threading.active_count()

    async def hang_up() -> None:
        async with ResumeGymEnv(here) as warm:  # what the server keeps of its first client, it may
            await warm.reset()
        await until(settled)
        before = left()
        envs = [ResumeGymEnv(here) for _ in range(8)]
        for env in envs:
            await env.reset()
            await env.step(says(REVIEW))
        assert left()[0] == before[0] + 16
        assert left()[1] == before[1] + 8
        for env in envs:
            env._ws.transport.abort()  # as when the client's machine goes down

        async def gone() -> bool:
            return left() == before

        await until(gone)

    async def settled() -> bool:
        return left()[0] == 0

    asyncio.run(asyncio.wait_for(hang_up(), timeout=120))


@alone
async def test_state_tells_how_the_episode_stands() -> None:
    async with ResumeGymEnv(serve("rubric")) as env:
        assert (await env.state()).step_count == 0
        start = await env.reset(task_id=TASK.task_id, episode_id="mine")
        assert start.observation.system_prompt
        assert start.observation.tools == list(Session(TASK).tools)
        assert start.observation.text == Session(TASK, rules()).prompt
        for text in (REVIEW, *edits(TASK, 1), "no call"):
            result = await env.step(says(text))
        assert result.observation.error == "no_call"
        assert result.observation.ledger == {"malformed": -0.25}
        state = await env.state()
    assert (state.episode_id, state.step_count, state.task_id) == ("mine", 3, TASK.task_id)
    assert (state.turns_left, state.edits, state.done, state.needs_verdict) == (3, 1, False, False)
    assert state.resume == TASK.resume.replace(TASK.fixes[0].old, TASK.fixes[0].new)
    assert {name: term for name, term in state.ledger.items() if term} == {
        "review": 1.0,
        "edit": 0.25,
        "malformed": -0.25,
    }


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
        with pytest.raises(RuntimeError, match="'nobody' is not in mini"):
            await env.reset(task_id="nobody")
        await env.reset(task_id=TASK.task_id)
        lone = await env.step(says(tool_call("str_replace", old="\ud800", new="x")))
        assert (lone.reward, lone.observation.error) == (-0.25, "bad_arguments")


def test_a_server_that_cannot_work_does_not_start() -> None:
    with pytest.raises(ValueError, match="did you mean 'rubric'"):
        make_app(ENV, judge="rubrik")


def test_the_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(openenv_sessions.main())
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 8
    assert shown in (openenv_sessions.__doc__ or "")


class Local:
    """Validates on the packaged server, run here instead of in an image."""

    name = "local"
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"public"})

    def __init__(self, url: str) -> None:
        self.base_url = url

    def build(self, root: Path, execution: Any) -> str:
        assert (root / execution.dockerfile).is_file()
        return "sha256:" + "0" * 64

    def start(self, spec: Any) -> "Local":
        return self

    def inspect(self) -> dict[str, Any]:
        return {}

    def stop(self) -> None:
        pass


def test_every_grader_that_openenv_has_passes_the_package() -> None:
    url = serve("rubric", RESUME_GYM_ENV="ResumeEdit-v0")
    report = run_validation(PACKAGE, max_level=Level.SEMANTIC, provider=Local(url))
    said = {result.check_id: result for result in report.results}
    for result in report.results:
        assert result.status in (CheckStatus.PASS, CheckStatus.SKIP), result
    passed = {name for name, result in said.items() if result.status is CheckStatus.PASS}
    assert passed == {
        "static.manifest",
        "runtime.startup",
        "runtime.reward_well_formed",
        "runtime.observation_schema",
        "runtime.state_contract",
    }
    skipped = {result.evidence[0] for name, result in said.items() if name not in passed}
    assert skipped == {
        "grader not implemented in this build",
        "missing provider capabilities: network_policy",
    }


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
