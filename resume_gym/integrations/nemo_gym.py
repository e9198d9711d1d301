"""Adapter for NeMo Gym: a resources server, and the JSONL of its tasks.

    pip install -e . nemo-gym  # Python 3.13; examples/packages/nemo_gym has the server's folder
    python -c "from resume_gym.integrations import nemo_gym; nemo_gym.write_rows('tasks.jsonl')"
    gym env start --search-dir examples/packages/nemo_gym --resources-server resume_edit \
        --model-type vllm_model --model MODEL --model-url http://localhost:8000/v1 --model-api-key -
    gym eval run --no-serve --agent resume_edit_simple_agent --input tasks.jsonl --output out.jsonl

Each tool of the environment is an endpoint that takes a turn of the caller's episode. NeMo Gym's
simple agent calls the endpoints; its other agents were not tried.
`/verify` replays the calls of the response in a session and returns its reward, so stored rollouts
can be graded again, by another judge too (`gym eval reverify`). A response has the reward terms
(`reward_components`, and `reward_TERM` for NeMo Gym's metrics), the score, the judge's reasons and
the session's record.

A judge without a verdict, or a server that restarted during the episode, gives a row with
`mask_sample` and a `failure_kind`; its reward of 0 is a placeholder. The simple agent differs from
`env.step`: a message without a call ends the episode, the agent itself replies to calls with
invalid JSON, each of several calls in a message takes a turn (so the rows ask for single calls),
and the model is asked once more after the last turn. The replay gives messages without a call and
invalid calls their usual penalties, and each remaining turn that of an empty action. Calls after
the end do not count. The tools are not offered over MCP. Tested with nemo-gym 0.7.0.
"""

import json
from collections.abc import Sequence
from itertools import chain, repeat, takewhile
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal

import gymnasium as gym
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from nemo_gym import base_resources_server as base
from nemo_gym.failure_kinds import SESSION_LOST
from nemo_gym.judge import JudgeError as JudgeFailed
from nemo_gym.server_utils import SESSION_ID_KEY
from pydantic import ConfigDict, Field, PrivateAttr

from resume_gym.episode.tools import with_calls
from resume_gym.judges import JudgeError

_OVER = "The episode is over: answer without a call."
_LOST = "The server has no such episode: seed a session first."


class ResumeGymConfig(base.BaseResourcesServerConfig):  # type: ignore[misc]
    """Configuration of the server; `env_id` and `options` are arguments of `gymnasium.make`."""

    REVERIFY_MODE: ClassVar[base.ReverifyMode] = base.ReverifyMode.STATELESS

    env_id: str = "ResumeEdit-v0"
    options: dict[str, Any] = {}  # noqa: RUF012
    num_workers: int | None = Field(None, le=1)  # the episodes live in one process
    expose_tools_over_mcp: Literal[False] = False  # one route for all tools would hide that of MCP


class SeedRequest(base.BaseSeedSessionRequest):  # type: ignore[misc]
    """A row of the dataset, which agents without an environment server send to seed a session."""

    task_id: str


class VerifyRequest(base.BaseVerifyRequest):  # type: ignore[misc]
    """A row of the dataset with the agent's response."""

    model_config = ConfigDict(extra="allow")

    task_id: str


class VerifyResponse(base.BaseMultiRewardVerifyResponse):  # type: ignore[misc]
    """The result of an episode; further fields hold the row and the value of each reward term.

    Attributes:
        score: score of the final document, 0 to 100.
        reasons: the judge's reason for each grade that has one.
        session: record of the session; `replay` of the environment's session type reads it.
    """

    model_config = ConfigDict(extra="allow")

    score: float
    reasons: dict[str, str]
    session: dict[str, Any]


class ResumeGymServer(base.SimpleResourcesServer):  # type: ignore[misc]
    """The episodes of one environment; all share its tasks and its judge."""

    ray_enabled = False
    config: ResumeGymConfig
    _env: Any = PrivateAttr()
    _sessions: dict[str, Any] = PrivateAttr(default_factory=dict)  # None: closed

    def model_post_init(self, context: Any, /) -> None:
        """Create the environment."""
        super().model_post_init(context)
        self._env = gym.make(self.config.env_id, **self.config.options).unwrapped
        _ = self._env.tasks, self._env.judge  # errors appear at startup

    def setup_webserver(self) -> FastAPI:
        """Add a route for all tools, so that a call of an unknown tool takes a turn, too."""
        app: FastAPI = super().setup_webserver()
        app.post("/{tool:path}")(self.call)
        return app

    async def seed_session(
        self, request: Request, body: base.ResourcesSeedSessionRequest | SeedRequest
    ) -> base.ResourcesSeedSessionResponse:
        """Start an episode on the row's task; repeated requests return the same session.

        Raises:
            TaskError: the task does not exist.
            ValueError: the session was closed.
        """
        if isinstance(body, SeedRequest):
            task_id, key = body.task_id, request.session[SESSION_ID_KEY]
        else:
            task_id, key = body.task_data["task_id"], body.resources_session_id
        request.session[SESSION_ID_KEY] = key
        if self._sessions.setdefault(key, self._env.new_session(task_id)) is None:
            raise ValueError(f"the session is closed: {key}")
        return base.ResourcesSeedSessionResponse(resources_session_id=key)

    async def close_resources_session(
        self, body: base.ResourcesCloseSessionRequest
    ) -> base.ResourcesCloseSessionResponse:
        """Drop an episode."""
        self._sessions[body.resources_session_id] = None
        return base.ResourcesCloseSessionResponse(resources_session_id=body.resources_session_id)

    async def call(self, request: Request, tool: str) -> PlainTextResponse:
        """Take a turn by calling `tool` with the request's body as arguments; return the reply."""
        session = self._sessions.get(request.session[SESSION_ID_KEY])
        if session is None:
            return PlainTextResponse(_LOST, 409)
        if session.done:
            return PlainTextResponse(_OVER)
        arguments = (await request.body()).decode()
        step = session.step(with_calls("", [(tool, arguments)]))
        return PlainTextResponse(f"{step.observation}\n{_OVER}" if step.done else step.observation)

    async def verify(self, request: Request, body: VerifyRequest) -> VerifyResponse:
        """Replay the response in a session, ask the judge and return the reward.

        Raises:
            JudgeFailed: the judge gave no verdict; the caller gets a row with `mask_sample`.
        """
        self._sessions.pop(request.session[SESSION_ID_KEY], None)
        session, output = self._env.new_session(body.task_id), body.response.output
        texts = chain(actions(output), repeat(""))
        while not session.done:
            session.step(next(texts))
        lost = any(item.type == "function_call_output" and item.output == _LOST for item in output)
        try:
            if not lost:
                await self._env.agrade(session)
        except JudgeError as error:
            raise JudgeFailed(f"{type(error).__name__}: {error}") from error
        numbers = {"reward": session.reward, "score": session.score}
        numbers |= {f"reward_{name}": value for name, value in session.ledger.items()}
        failure = {}
        if lost:
            numbers = dict.fromkeys(numbers, 0.0)
            failure = {"failure_kind": SESSION_LOST, "failure_reason": _LOST, "mask_sample": True}
        terms = {name: numbers[f"reward_{name}"] for name in session.ledger}
        reasons = session.verdict.reasons if session.verdict else {}
        result = {"reward_components": terms, "reasons": reasons, "session": session.record()}
        return VerifyResponse(**body.model_dump() | numbers | failure | result)


def actions(output: Sequence[Any]) -> list[str]:
    """Convert an agent's output to actions: its calls, then its last message without a call."""
    calls = [(item.name, _json(item.arguments)) for item in output if item.type == "function_call"]
    last = takewhile(lambda item: item.type in ("message", "reasoning"), reversed(output))
    said = [item for item in last if item.type == "message"][::-1]
    words = "".join(getattr(part, "text", "") for item in said for part in item.content)
    return [with_calls("", [call]) for call in calls] + [words] * bool(said)


def _json(arguments: str) -> str:
    """Return the arguments of a call in the form in which NeMo Gym's simple agent sends them.

    Of repeated keys, which the environment would reject, the agent sends only the last one. Invalid
    JSON is returned unchanged; the agent does not send it, but itself replies to the call.
    """
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except ValueError:
        return arguments


def write_rows(path: str | PathLike[str], env_id: str = "ResumeEdit-v0", **options: Any) -> None:
    """Write NeMo Gym's dataset, a row for each task of `gymnasium.make(env_id, **options)`."""
    env: Any = gym.make(env_id, **options).unwrapped
    sessions = [env.new_session(task.task_id) for task in env.tasks]
    rows = [{"task_id": one.task.task_id, "responses_create_params": ask(one)} for one in sessions]
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    Path(path).write_text(text, encoding="utf-8")


def ask(session: Any) -> dict[str, Any]:
    """Return the first request of an episode, in the format of the Responses API."""
    tools = [{"type": "function", **tool["function"], "strict": False} for tool in session.tools]
    return {"input": session.messages, "tools": tools, "parallel_tool_calls": False}
