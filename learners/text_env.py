"""Any Gymnasium environment whose actions and observations are texts, played as sessions are.

Domains of editing (`resume_gym.editing`) have sessions of their own, which fork for nothing and
wait for their verdicts. Here a seed names the task, a fork plays the actions again, and the
rewards of the steps are all there is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

import gymnasium

TEXT_TASKS = 4096
"""Seeds to train on; held-out ones come after them."""


@dataclass(frozen=True, slots=True)
class Start:
    """A task: where an environment starts.

    Attributes:
        env: its id, or module:id.
        seed: of its reset.
    """

    env: str
    seed: int

    @property
    def task_id(self) -> str:
        """Names the environment and the seed."""
        return f"{self.env}/{self.seed}"


class Heard(NamedTuple):
    """What a step answers."""

    observation: str
    reward: float
    done: bool


class Opening(NamedTuple):
    """What a model is shown at first."""

    prompt: str
    system_prompt: str
    tools: Sequence[Mapping[str, Any]]


@lru_cache(maxsize=TEXT_TASKS)
def opening(task: Start) -> Opening:
    """What an environment says at its start.

    Raises:
        ValueError: its actions or observations are no texts.
    """
    env = gymnasium.make(task.env)
    try:
        if not isinstance(env.action_space.sample(), str):
            raise ValueError(f"env: expected actions that are texts, got {env.action_space}")
        prompt, _ = env.reset(seed=task.seed)
        known = env.unwrapped
        system, tools = getattr(known, "system_prompt", None), getattr(known, "tools", None)
        return Opening(_text(task, prompt), system or "", tools or ())
    finally:
        env.close()


def _text(task: Start, observation: Any) -> str:
    if not isinstance(observation, str):
        kind = type(observation).__name__
        raise ValueError(f"env: expected observations that are texts, {task.env} gave a {kind}")
    return observation


class TextSession:
    """An episode of an environment, which is made at the first step and closed at the last.

    It must do the same after the same seed and the same actions. What it knows of `system_prompt`
    and `tools` (schemas in OpenAI's format) is shown to the model; neither is needed.

    Args:
        task: environment and seed.
        max_turns: actions after which an episode ends that has not ended by itself.

    Raises:
        ValueError: the environment's actions or observations are no texts.
    """

    needs_verdict = False

    def __init__(self, task: Start, max_turns: int) -> None:
        self.task, self.max_turns = task, max_turns
        self.actions: list[str] = []
        self.rewards: list[float] = []
        self.done = False
        self.prompt, self.system_prompt, self.tools = opening(task)
        self.text = self.prompt
        self._env: gymnasium.Env[Any, str] | None = None

    @property
    def turns(self) -> int:
        """Actions taken."""
        return len(self.actions)

    @property
    def reward(self) -> float:
        """The sum of the steps' rewards so far."""
        return sum(self.rewards)

    def step(self, text: str) -> Heard:
        """Take one action.

        Raises:
            RuntimeError: the episode is over.
            ValueError: the environment's answer is no text, or its reward not finite.
        """
        if self.done:
            raise RuntimeError("the episode is over: start a new session")
        if self._env is None:
            self._env = gymnasium.make(self.task.env)
            self._env.reset(seed=self.task.seed)
        observation, reward, terminated, truncated, _ = self._env.step(text)
        if not math.isfinite(reward):
            raise ValueError(f"{self.task.task_id}: expected a finite reward, got {reward}")
        self.text = _text(self.task, observation)
        self.actions.append(text)
        self.rewards.append(float(reward))
        self.done = bool(terminated or truncated or self.turns == self.max_turns)
        if self.done:
            self.close()
        return Heard(self.text, self.rewards[-1], self.done)

    def close(self) -> None:
        """Let go of the environment; what has been played stays."""
        if self._env is not None:
            self._env.close()
            self._env = None

    def fork(self) -> Self:
        """Another session in the same state: from the same seed, with the same actions."""
        twin = type(self)(self.task, self.max_turns)
        for text in self.actions:
            twin.step(text)
        return twin

    def record(self) -> dict[str, Any]:
        """The episode as JSON values."""
        return {
            "task_id": self.task.task_id,
            "max_turns": self.max_turns,
            "actions": self.actions,
            "rewards": self.rewards,
            "reward": self.reward,
            "text": self.text,
            "graded": self.done,
        }

    @classmethod
    def replay(cls, task: Start, record: Mapping[str, Any]) -> Self:
        """Play a record again.

        Raises:
            ValueError: the record is of another task, or came out differently.
        """
        if record["task_id"] != task.task_id:
            raise ValueError(f"expected a record of {task.task_id}, got {record['task_id']}")
        session = cls(task, record["max_turns"])
        for text in record["actions"]:
            session.step(text)
        for name in ("text", "rewards"):
            if getattr(session, name) != record[name]:
                raise ValueError(f"{task.task_id}: the replay ends with another {name}")
        return session

    def __getstate__(self) -> dict[str, Any]:
        """Without the environment: what travels to another process has been played."""
        return {**self.__dict__, "_env": None}
