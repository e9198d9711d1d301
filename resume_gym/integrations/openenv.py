"""Server for OpenEnv: concurrent episodes over WebSocket, one per connection.

    uvicorn --factory resume_gym.integrations.openenv:make_app  # image: examples/packages/openenv

The module `openenv_client` has the client. To play a group of episodes on one task, pass the same
`task_id` to each `reset`. The first `reset` may omit `task_id`: its observation holds the ID of the
task that was drawn. When the judge fails, `step` raises an error at the client; the next `step` of
the connection ignores its action and only asks the judge again. Waiting for the judge blocks no
other episode. OpenEnv's HTTP routes `/reset` and `/step` create an environment per request, so they
cannot play episodes. OpenEnv's task API is unsupported. Tested with openenv 0.10.0.
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
    """The environment of one connection; all connections share the tasks and the judge."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env: Any) -> None:
        super().__init__()
        self._env = env
        self.close()

    def close(self) -> None:
        """Drop the current episode."""
        self._session: Any = None
        self._ungraded: Any = None  # turn whose result the client has not received

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        **unknown: object,
    ) -> ResumeGymObservation:
        """Start an episode on `task_id`, or on a random task drawn with `seed`.

        Raises:
            TypeError: an argument is unknown.
        """
        if unknown:  # a misspelt task_id would give each member of a group a different task
            raise TypeError(f"reset takes task_id, seed, episode_id; got {', '.join(unknown)}")
        self._env.np_random, _ = seeding.np_random(seed)
        session = self._env.new_session(task_id)
        self._session, self._ungraded = session, None
        self._episode: dict[str, Any] = {"episode_id": episode_id or str(uuid4()), "step_count": 0}
        start = {"task_id": session.task.task_id, "system_prompt": session.system_prompt}
        return ResumeGymObservation(text=session.prompt, tools=session.tools, **start)

    async def reset_async(self, *args: Any, **kwargs: Any) -> ResumeGymObservation:
        """Call `reset` in the event loop: threads must not use the shared random generator."""
        return self.reset(*args, **kwargs)

    def step(self, action: ResumeGymAction, *_: object, **__: object) -> ResumeGymObservation:
        """Take a turn synchronously; see `step_async`."""
        return asyncio.run(self.step_async(action))

    async def step_async(
        self, action: ResumeGymAction, *_: object, **__: object
    ) -> ResumeGymObservation:
        """Take a turn, then grade a finished episode; after a judge failure, only grade it again.

        Raises:
            JudgeError: the judge gave no verdict.
            HTTPException: the connection has no episode; plain HTTP requests never have one.
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
        """State of the current episode; empty before `reset`."""
        if (session := self._session) is None:
            return ResumeGymState()
        now = {"done": session.done, "needs_verdict": session.needs_verdict}
        return ResumeGymState(ledger=session.ledger, **now, **self._episode, **session.info())


def make_app(
    env_id: str = "ResumeEdit-v0", max_concurrent_envs: int = 256, **kwargs: Any
) -> FastAPI:
    """Create the server application; `kwargs` are arguments of `gymnasium.make`."""
    env: Any = gym.make(env_id, **kwargs).unwrapped
    _ = env.tasks, env.judge  # load tasks and judge now, so that errors appear at startup
    app: FastAPI = create_app(
        partial(ResumeGymEnvironment, env),
        ResumeGymAction,
        ResumeGymObservation,
        env_name="resume_gym_env",
        max_concurrent_envs=max_concurrent_envs,
        state_cls=ResumeGymState,
    )
    return app
