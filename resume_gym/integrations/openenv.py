"""OpenEnv: a server of episodes over WebSocket, each connection its own, many at once.

    uvicorn --factory resume_gym.integrations.openenv:make_app  # packages/openenv has the image

`openenv_client`, beside it, has the client. The members of a group reset with one `task_id`; the
first may leave it out and read it from its observation. When the judge fails, `step` raises at the
client; the next `step` of the connection, whatever it says, only asks the judge again. Waiting for
the judge holds up no other episode. Checked with openenv 0.10.0, whose HTTP `/reset` and `/step`
make an environment for each request and cannot play; its task API is not offered.
"""

import asyncio
from functools import partial
from typing import Any
from uuid import uuid4

import gymnasium as gym
from fastapi import FastAPI, HTTPException
from gymnasium.utils import seeding
from openenv.core.env_server import Environment, create_app

from resume_gym.integrations.openenv_client import (
    ResumeGymAction,
    ResumeGymObservation,
    ResumeGymState,
)


class ResumeGymEnvironment(
    Environment[ResumeGymAction, ResumeGymObservation, ResumeGymState]  # type: ignore[misc]
):
    """One connection's episodes; all connections share the environment's tasks and judge."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env: Any) -> None:
        super().__init__()
        self._env = env
        self.close()

    def close(self) -> None:
        """Forget the episode."""
        self._session: Any = None
        self._ungraded: Any = None  # a step whose answer the client has not had

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        **unknown: Any,
    ) -> ResumeGymObservation:
        """Start an episode; without `task_id`, on the task that Gymnasium draws for the seed."""
        if unknown:  # a misspelt task_id would give each member of a group another task
            raise TypeError(f"reset takes task_id, seed, episode_id; got {', '.join(unknown)}")
        self._env.np_random, _ = seeding.np_random(seed)
        session = self._env.new_session(task_id)
        self._session, self._ungraded = session, None
        self._episode: dict[str, Any] = {"episode_id": episode_id or str(uuid4()), "step_count": 0}
        start = {"task_id": session.task.task_id, "system_prompt": session.system_prompt}
        return ResumeGymObservation(text=session.prompt, tools=session.tools, **start)

    async def reset_async(self, *args: Any, **kwargs: Any) -> ResumeGymObservation:
        """See `reset`; in the event loop, since all draw with one generator."""
        return self.reset(*args, **kwargs)

    def step(self, action: ResumeGymAction, *_: Any, **__: Any) -> ResumeGymObservation:
        """See `step_async`."""
        return asyncio.run(self.step_async(action))

    async def step_async(self, action: ResumeGymAction, *_: Any, **__: Any) -> ResumeGymObservation:
        """Take a turn, and at the end ask the judge; after a failure only ask again.

        Raises:
            JudgeError: no verdict could be had.
            HTTPException: there is no episode, as always over HTTP.
            RuntimeError: the episode is over.
        """
        if self._session is None:
            raise HTTPException(409, "no episode: call reset first, on the same WebSocket")
        if self._ungraded is None:
            self._ungraded = self._session.step(action.text)
            self._episode["step_count"] += 1
        step = self._ungraded
        verdict = await self._env.agrade(self._session)
        self._ungraded = None
        return ResumeGymObservation(
            text=step.observation,
            error=step.error,
            reward=step.reward + sum(verdict.values()),
            done=step.done,
            ledger={**step.ledger, **verdict},
        )

    @property
    def state(self) -> ResumeGymState:
        """The episode so far; empty before `reset`."""
        if (session := self._session) is None:
            return ResumeGymState()
        now = {"done": session.done, "needs_verdict": session.needs_verdict}
        return ResumeGymState(ledger=session.ledger, **now, **self._episode, **session.info())


def make_app(
    env_id: str = "ResumeEdit-v0", max_concurrent_envs: int = 256, **kwargs: Any
) -> FastAPI:
    """The server of an environment; `kwargs` are `gymnasium.make`'s."""
    env: Any = gym.make(env_id, **kwargs).unwrapped
    _ = env.tasks, env.judge  # made once for all; what is wrong with them is said now
    app: FastAPI = create_app(
        partial(ResumeGymEnvironment, env),
        ResumeGymAction,
        ResumeGymObservation,
        env_name="resume_gym_env",
        max_concurrent_envs=max_concurrent_envs,
        state_cls=ResumeGymState,
    )
    return app
