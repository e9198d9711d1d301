"""Client and message types for OpenEnv; the module `openenv` has the server.

    async with ResumeGymEnv("http://localhost:8000", message_timeout_s=600) as env:
        start = await env.reset(task_id="train-0-000005")  # .observation: text, tools, ...
        result = await env.step(ResumeGymAction(text=completion))  # .reward, .done, .observation
        state = await env.state()  # ledger, resume, turns left, edits

`env.sync()` returns a synchronous client. An episode is lost if an answer takes longer than
`message_timeout_s`; some judges take longer than the default of 60 s.
"""

from collections.abc import Mapping
from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field, SkipValidation


class ResumeGymAction(Action):  # type: ignore[misc]
    """An action: the text of the model, with its tool call."""

    text: SkipValidation[str]  # pydantic rejects lone surrogates, which models can produce


class ResumeGymObservation(Observation):  # type: ignore[misc]
    """The text for the model; after `reset` also the task ID, system prompt and tool schemas.

    `reward` is the sum of `ledger`: the turn's reward terms and, in the last turn, the verdict's.
    """

    text: str
    error: str = "none"
    ledger: dict[str, float] = Field(default_factory=dict)
    task_id: str = ""
    system_prompt: str = ""
    tools: list[dict[str, Any]] = Field(default_factory=list)


class ResumeGymState(State):  # type: ignore[misc]
    """State of the episode: the totals of the reward terms, and each key of `Session.info()`."""

    done: bool = False
    needs_verdict: bool = False
    ledger: dict[str, float] = Field(default_factory=dict)


class ResumeGymEnv(
    EnvClient[ResumeGymAction, ResumeGymObservation, ResumeGymState]  # type: ignore[misc]
):
    """A client that plays one episode at a time; see `openenv.core.EnvClient` for its methods."""

    def _step_payload(self, action: ResumeGymAction) -> dict[str, Any]:
        return {"text": action.text}

    def _parse_result(self, payload: Mapping[str, Any]) -> StepResult[ResumeGymObservation]:
        result = {"reward": payload["reward"], "done": payload["done"]}
        return StepResult(ResumeGymObservation(**payload["observation"], **result), **result)

    def _parse_state(self, payload: Mapping[str, object]) -> ResumeGymState:
        return ResumeGymState(**payload)
