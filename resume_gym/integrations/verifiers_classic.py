"""Adapter for verifiers 0.3 and older: a `vf.MultiTurnEnv`.

    pip install -e . -e examples/packages/verifiers  # package `resume-edit`

    env = vf.load_environment("resume-edit", gym_id="ResumeEdit-v0", split="eval")
    results = env.evaluate_sync(vf.ClientConfig(api_base_url=URL), MODEL, num_examples=20)

Other arguments of `load_environment` go to `gym.make`. The members of a group share a task. The
trajectory's steps hold the turn rewards, the metrics each reward term and numbers of the episode;
`state_columns=["record"]` keeps the session record, for replay and grading.

A judge's failure raises an error, also from `generate`, which can resume from saved results. An
episode cut off by a full context or a dead server has an `error`, and its reward of 0 is
meaningless. Where the library parses calls itself (its renderer client), a malformed call arrives
as no call, with the same penalty. Needs the main thread, like every environment of verifiers 0.3.
Tested with 0.3.1; for 0.4 use `resume_gym.integrations.verifiers`.
"""

from typing import Any

import gymnasium as gym
import verifiers as vf
from datasets import Dataset
from verifiers.types import Response, ResponseMessage

from resume_gym.integrations.verifiers import figures, replies, terms, text


def load_environment(gym_id: str = "ResumeEdit-v0", **gym_kwargs: Any) -> "GymEnv":
    """Wrap `gym.make(gym_id, **gym_kwargs)`, for `vf.load_environment`."""
    return GymEnv(gym.make(gym_id, **gym_kwargs).unwrapped)


class LedgerRubric(vf.Rubric):  # type: ignore[misc]
    """A rubric that reports the rewards of the session."""

    async def score_rollout(self, state: vf.State) -> None:
        """Set the episode's reward, with its reward terms as metrics."""
        session = state["session"]
        state["record"] = session.record()
        state["reward"] = session.reward if session.done else 0.0
        state["metrics"] = {**terms(session), **figures(session)}

    async def score_group(self, states: list[vf.State]) -> None:
        """Score each rollout independently."""
        for state in states:
            await self.score_rollout(state)


class GymEnv(vf.MultiTurnEnv):  # type: ignore[misc]
    """An environment in which the agent and a session take turns."""

    def __init__(self, env: Any) -> None:
        sessions = [env.new_session(task.task_id) for task in env.tasks]
        functions = [dict(tool["function"]) for tool in sessions[0].tools]
        rows = [{"prompt": s.messages, "info": {"task_id": s.task.task_id}} for s in sessions]
        super().__init__(
            dataset=Dataset.from_list(rows), rubric=LedgerRubric(), tool_defs=functions
        )
        self.gym = env

    async def setup_state(self, state: vf.State) -> None:
        """Start the session of the row's task."""
        state["session"] = self.gym.new_session(state["info"]["task_id"])

    async def get_model_response(self, state: vf.State, prompt: Any, **kwargs: Any) -> Any:
        """Return the model's turn; an empty message is an action, with the usual penalty."""
        try:
            return await super().get_model_response(state, prompt, **kwargs)
        except vf.EmptyModelResponseError as nothing:
            if "no content" not in str(nothing):
                raise  # the server returned no message
            silence = ResponseMessage(content="", finish_reason="stop", is_truncated=False)
            return Response(id="", created=0, model=state["model"], message=silence)

    async def add_trajectory_step(self, state: vf.State, trajectory_step: Any) -> None:
        """Take the model's turn; after the last, ask the judge and end the rollout."""
        session, message = state["session"], trajectory_step["completion"][-1]
        step = session.step(text(message))
        trajectory_step["reward"] = step.reward
        await super().add_trajectory_step(state, trajectory_step)
        state["replies"] = replies(message, step.observation)
        if session.done:
            trajectory_step["reward"] += sum((await self.gym.agrade(session)).values())
            state["final_env_response"] = state["replies"]

    async def env_response(self, messages: Any, state: vf.State, **kwargs: Any) -> list[Any]:
        """Return the session's reply."""
        return list(state["replies"])

    @vf.cleanup  # type: ignore[untyped-decorator]
    async def cut_off(self, state: vf.State) -> None:
        """Record an error for an episode that was cut off, whatever the reason."""
        session = state.get("session")  # None if the setup failed
        if session is not None and not session.done and state.get("error") is None:
            why = state.get("stop_condition")
            state["error"] = vf.Error(f"the episode was cut off: {why}")


def _row(session: Any) -> dict[str, Any]:
    return {"prompt": session.messages, "info": {"task_id": session.task.task_id}}
