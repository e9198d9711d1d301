"""OpenEnv, the client's side: what goes over the wire, and who sends it; see `openenv` beside it.

    async with ResumeGymEnv("http://localhost:8000", message_timeout_s=600) as env:
        start = await env.reset(task_id="train-0-000005")  # .observation: text, tools, ...
        result = await env.step(ResumeGymAction(text=completion))  # .reward, .done, .observation
        state = await env.state()  # ledger, resume, turns left, edits

`env.sync()` does without asyncio. A client that stops waiting, after `message_timeout_s`, has lost
its episode; the default of 60 s is less than some judges take.
"""

from collections.abc import Mapping
from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field, SkipValidation


class ResumeGymAction(Action):  # type: ignore[misc]
    """What the model said, with its tool call."""

    text: SkipValidation[str]  # lone surrogates too, which pydantic would refuse


class ResumeGymObservation(Observation):  # type: ignore[misc]
    """What the model reads; after `reset` also what its conversation begins with.

    `reward` is the turn's, the last one's with the verdict; `ledger` holds its terms.
    """

    text: str
    error: str = "none"
    ledger: dict[str, float] = Field(default_factory=dict)
    task_id: str = ""
    system_prompt: str = ""
    tools: list[dict[str, Any]] = Field(default_factory=list)


class ResumeGymState(State):  # type: ignore[misc]
    """The episode so far: all its terms, and `Session.info()` as further fields."""

    done: bool = False
    needs_verdict: bool = False
    ledger: dict[str, float] = Field(default_factory=dict)


class ResumeGymEnv(
    EnvClient[ResumeGymAction, ResumeGymObservation, ResumeGymState]  # type: ignore[misc]
):
    """The client of one episode at a time; its methods are those of `openenv.core.EnvClient`."""

    def _step_payload(self, action: ResumeGymAction) -> dict[str, Any]:
        return {"text": action.text}

    def _parse_result(self, payload: Mapping[str, Any]) -> StepResult[ResumeGymObservation]:
        told = {"reward": payload["reward"], "done": payload["done"]}
        return StepResult(ResumeGymObservation(**payload["observation"], **told), **told)

    def _parse_state(self, payload: Mapping[str, Any]) -> ResumeGymState:
        return ResumeGymState(**payload)
