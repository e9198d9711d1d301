"""Sessions for any Gymnasium environment whose actions and observations are strings.

Editing environments use `resume_gym.EditSession` instead, which a judge can grade and which is
cheap to copy. The task of a `TextSession` is an environment and a seed, and its reward is the sum
of the step rewards. Copying a session replays all its actions in a new environment.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

import gymnasium

from learners.rollouts.rollout import Record
from resume_gym import Rules
from resume_gym.episode.tools import paired

TEXT_TASKS = 4096
"""Number of training tasks, with the seeds 0, 1 and so on; held-out tasks have the next seeds."""


@dataclass(frozen=True, slots=True)
class Start:
    """Task of a text environment: the environment and the seed of its initial state.

    Attributes:
        env: environment id, or module:id.
        seed: seed that is passed to the environment's `reset`.
    """

    env: str
    seed: int

    @property
    def task_id(self) -> str:
        """Identifier of the task, "env/seed"."""
        return f"{self.env}/{self.seed}"


class Heard(NamedTuple):
    """Result of a step in a text environment."""

    observation: str
    reward: float
    done: bool


@lru_cache(maxsize=TEXT_TASKS)
def opening(task: Start) -> tuple[str, str, Sequence[Mapping[str, object]]]:
    """Return the first observation, the system prompt and the tool schemas of a task; cached.

    Raises:
        ValueError: the environment's actions or observations are not strings.
    """
    env = gymnasium.make(task.env)
    try:
        # accept any space of strings, not only gymnasium.spaces.Text
        if not isinstance(env.action_space.sample(), str):
            raise ValueError(f"env: expected string actions, got action space {env.action_space}")
        prompt, _ = env.reset(seed=task.seed)
        unwrapped = env.unwrapped
        system, tools = getattr(unwrapped, "system_prompt", None), getattr(unwrapped, "tools", None)
        return _text(task, prompt), system or "", tools or ()
    finally:
        env.close()


def _text(task: Start, observation: object) -> str:
    if not isinstance(observation, str):
        kind = type(observation).__name__
        raise ValueError(f"env: expected string observations, got type {kind} from {task.env}")
    observation.encode()  # raises a ValueError for lone surrogates, which no tokenizer accepts
    return observation


class TextSession:
    """An episode of a text environment.

    The environment is created at the first step and closed at the last step. Its observations and
    rewards must be determined by the seed and the actions. Its optional attributes `system_prompt`
    and `tools` (schemas in OpenAI format) become part of the prompt.

    Args:
        task: id of the environment, and seed.
        rules: limits of the episode, of which only `max_turns` applies.

    Raises:
        ValueError: the environment's actions or observations are not strings.
    """

    needs_verdict = False
    verdict = None

    def __init__(self, task: Start, rules: Rules) -> None:
        self.task, self.rules = task, rules
        self.actions: list[str] = []
        self.rewards: list[float] = []
        self.done = False
        self.prompt, self.system_prompt, self.tools = opening(task)
        self.text = self.prompt
        self._env: gymnasium.Env[Any, str] | None = None

    @property
    def turns(self) -> int:
        """Number of actions taken."""
        return len(self.actions)

    @property
    def reward(self) -> float:
        """Sum of the step rewards so far."""
        return sum(self.rewards)

    @property
    def ledgers(self) -> list[dict[str, float]]:
        """Reward terms of each turn."""
        return [{"reward": reward} for reward in self.rewards]

    def step(self, text: str) -> Heard:
        """Take one action in the environment.

        Raises:
            RuntimeError: the episode is over.
            ValueError: the observation is not a string, or the reward is not finite.
        """
        if self.done:
            raise RuntimeError("the episode is over: start a new session")
        text = paired(text)
        if self._env is None:
            self._env = gymnasium.make(self.task.env)
            self._env.reset(seed=self.task.seed)
        observation, reward, terminated, truncated, _ = self._env.step(text)
        if not math.isfinite(reward):
            raise ValueError(f"{self.task.task_id}: expected a finite reward, got {reward}")
        self.text = _text(self.task, observation)
        self.actions.append(text)
        self.rewards.append(float(reward))
        self.done = bool(terminated or truncated or self.turns == self.rules.max_turns)
        if self.done:
            self.close()
        return Heard(self.text, self.rewards[-1], self.done)

    def grade(self, verdict: object) -> None:
        """Raise a RuntimeError: a text environment's reward has only step rewards, no verdict."""
        raise RuntimeError("the reward of a text environment contains no verdict")

    def close(self) -> None:
        """Close the environment; the session keeps its actions and rewards."""
        if self._env is not None:
            self._env.close()
            self._env = None

    def fork(self) -> Self:
        """Return a new session in the same state, by replaying the actions from the seed."""
        twin = type(self)(self.task, self.rules)
        for text in self.actions:
            twin.step(text)
        return twin

    def record(self) -> Record:
        """Return the episode as JSON values."""
        return {
            "task_id": self.task.task_id,
            "max_turns": self.rules.max_turns,
            "actions": self.actions,
            "rewards": self.rewards,
            "reward": self.reward,
            "text": self.text,
            "graded": self.done,
        }

    @classmethod
    def replay(cls, task: Start, record: Record) -> Self:
        """Replay a record's actions, and check the resulting text and rewards against the record.

        Raises:
            ValueError: the record is of another task, or its replay has another result.
        """
        if record["task_id"] != task.task_id:
            raise ValueError(f"expected a record of {task.task_id}, got {record['task_id']}")
        session = cls(task, Rules(max_turns=record["max_turns"]))
        for text in record["actions"]:
            session.step(text)
        for name in ("text", "rewards"):
            if getattr(session, name) != record[name]:
                raise ValueError(f"{task.task_id}: the replay ends with different {name}")
        return session

    def __getstate__(self) -> Mapping[str, object]:
        """Exclude the environment from pickling: only finished sessions go to other processes."""
        return {**self.__dict__, "_env": None}
