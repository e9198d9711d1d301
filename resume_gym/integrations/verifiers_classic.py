"""verifiers 0.3 and older: the environment as a `vf.MultiTurnEnv`.

    pip install -e . -e packages/verifiers  # the package `resume-edit`, with `load_environment`

    env = vf.load_environment("resume-edit", gym_id="ResumeEdit-v0", split="eval")
    results = env.evaluate_sync(vf.ClientConfig(api_base_url=URL), MODEL, num_examples=20)

Whatever `load_environment` does not know goes to `gym.make`. The members of a group share a task.
The trajectory's steps hold the turns' rewards, the metrics every term of the ledger and figures
of the episode; `state_columns=["record"]` keeps what can be replayed and graded again.

A judge's failure raises, out of `generate` too, which can go on from saved results. An episode
cut off by a full context or a dead server has an `error`, and a reward of 0 that nobody should
read. Where the library parses calls itself (its renderer client), a malformed one arrives as no
call, at the same cost. Needs the main thread, as every environment of verifiers 0.3 does.
Checked with 0.3.1; 0.4 has other environments (`resume_gym.integrations.verifiers`).
"""

from typing import Any

import gymnasium as gym
import verifiers as vf
from datasets import Dataset
from verifiers.types import Response, ResponseMessage

from resume_gym.integrations.verifiers import figures, replies, terms, text


def load_environment(gym_id: str = "ResumeEdit-v0", **gym_kwargs: Any) -> "GymEnv":
    """The environment `gym.make(gym_id, **gym_kwargs)`, for `vf.load_environment`."""
    return GymEnv(gym.make(gym_id, **gym_kwargs).unwrapped)


class LedgerRubric(vf.Rubric):  # type: ignore[misc]
    """The rewards that the session has given."""

    async def score_rollout(self, state: vf.State) -> None:
        """The episode's reward; the terms as metrics."""
        session = state["session"]
        state["record"] = session.record()
        state["reward"] = session.reward if session.done else 0.0
        state["metrics"] = {**terms(session), **figures(session)}

    async def score_group(self, states: list[vf.State]) -> None:
        """Each for itself."""
        for state in states:
            await self.score_rollout(state)


class GymEnv(vf.MultiTurnEnv):  # type: ignore[misc]
    """The agent and a session take turns."""

    def __init__(self, env: Any) -> None:
        sessions = [env.new_session(task.task_id) for task in env.tasks]
        functions = [dict(tool["function"]) for tool in sessions[0].tools]
        rows = [{"prompt": one.messages, "info": {"task_id": one.task.task_id}} for one in sessions]
        super().__init__(
            dataset=Dataset.from_list(rows), rubric=LedgerRubric(), tool_defs=functions
        )
        self.gym = env

    async def setup_state(self, state: vf.State) -> None:
        """Start the session of the row's task."""
        state["session"] = self.gym.new_session(state["info"]["task_id"])

    async def get_model_response(self, state: vf.State, prompt: Any, **kwargs: Any) -> Any:
        """The model's turn; saying nothing is one too, and costs what it costs."""
        try:
            return await super().get_model_response(state, prompt, **kwargs)
        except vf.EmptyModelResponseError as nothing:
            if "no content" not in str(nothing):
                raise  # the server said nothing
            silence = ResponseMessage(content="", finish_reason="stop", is_truncated=False)
            return Response(id="", created=0, model=state["model"], message=silence)

    async def add_trajectory_step(self, state: vf.State, trajectory_step: Any) -> None:
        """Take the model's turn; no more is asked of it after the last."""
        session, said = state["session"], trajectory_step["completion"][-1]
        step = session.step(text(said))
        trajectory_step["reward"] = step.reward
        await super().add_trajectory_step(state, trajectory_step)
        state["replies"] = replies(said, step.observation)
        if session.done:
            trajectory_step["reward"] += sum((await self.gym.agrade(session)).values())
            state["final_env_response"] = state["replies"]

    async def env_response(self, messages: Any, state: vf.State, **kwargs: Any) -> list[Any]:
        """What the session answered."""
        return list(state["replies"])

    @vf.cleanup  # type: ignore[untyped-decorator]
    async def cut_off(self, state: vf.State) -> None:
        """An episode that did not end is an error, however it came about."""
        session = state.get("session")  # none, if it could not begin
        if session is not None and not session.done and state.get("error") is None:
            why = state.get("stop_condition")
            state["error"] = vf.Error(f"the episode was cut off: {why}")


def _row(session: Any) -> dict[str, Any]:
    return {"prompt": session.messages, "info": {"task_id": session.task.task_id}}
