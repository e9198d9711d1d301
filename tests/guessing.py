"""Environments of texts that know nothing of this project: guess a number."""

from itertools import count
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from resume_gym.episode.spaces import UnicodeText


class Guessing(gym.Env[str, str]):
    """Say a digit; told whether the number is larger or smaller."""

    observation_space = UnicodeText(100)
    action_space = UnicodeText(10_000)
    system_prompt = "Guess the digit."
    tools = ()
    open: ClassVar[int] = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        Guessing.open += 1
        self.number = int(self.np_random.integers(10))
        return "Which digit?", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        said = action.strip()
        if not said.isdecimal():
            return "A digit, please.", -0.25, False, False, {}
        right = np.bool_(int(said) == self.number)  # as environments of numbers have it
        if right:
            return "Yes.", 1.0, right, False, {}  # type: ignore[return-value]
        return ("larger" if int(said) < self.number else "smaller"), 0.0, False, False, {}

    def close(self) -> None:
        Guessing.open -= 1


class Changing(Guessing):
    """Never twice the same."""

    times = count()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return str(next(self.times)), 0.0, False, False, {}


class Numbers(Guessing):
    """Observes no texts."""

    observation_space = gym.spaces.Discrete(10)  # type: ignore[assignment]

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        return 3, {}


class Wanting(Guessing):
    """Cannot be made without words."""

    def __init__(self, words: int) -> None:
        self.words = words


class Failing(Guessing):
    """Fails in some of its steps.

    Attributes:
        faults: By number of the step of all episodes: what it raises or returns.
    """

    faults: ClassVar[dict[int, Any]] = {}
    times: ClassVar[Any] = count()

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        if options.get("seed") in self.faults.get(-1, ()):
            raise TimeoutError("no sandbox")
        return super().reset(**options)

    def step(self, action: str) -> Any:
        fault = self.faults.get(next(self.times), ("Yes.", 1.0, True, False, {}))
        if isinstance(fault, Exception):
            raise fault
        return fault


gym.register("Failing-v0", Failing, disable_env_checker=True)
gym.register("Guessing-v0", Guessing, max_episode_steps=4)
gym.register("Changing-v0", Changing)
gym.register("Numbers-v0", Numbers, disable_env_checker=True)
gym.register("Wanting-v0", Wanting)
