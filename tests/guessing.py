"""An environment of texts that knows nothing of this project: guess a number."""

from typing import Any

import gymnasium as gym

from resume_gym.spaces import UnicodeText


class Guessing(gym.Env[str, str]):
    """Say a digit; told whether the number is larger or smaller."""

    observation_space = UnicodeText(100)
    action_space = UnicodeText(10_000)
    system_prompt = "Guess the digit."
    tools = ()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.number = int(self.np_random.integers(10))
        return "Which digit?", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        said = action.strip()
        if not said.isdecimal():
            return "A digit, please.", -0.25, False, False, {}
        if int(said) == self.number:
            return "Yes.", 1.0, True, False, {}
        return ("larger" if int(said) < self.number else "smaller"), 0.0, False, False, {}


gym.register("Guessing-v0", Guessing, max_episode_steps=4)
