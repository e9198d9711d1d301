"""`Short-v0` is `ResumeEditMini-v0` with the fewest turns, for tests that run the whole job."""

import os
from pathlib import Path

import gymnasium as gym

SHORT = f"{__name__}:Short-v0"

gym.register(
    id="Short-v0",
    entry_point="resume_gym.env:ResumeEditEnv",
    kwargs={"tasks": "mini", "max_turns": 3, "page_lines": 20},
)


def variables() -> dict[str, str]:
    """The environment variables of a process that imports this module."""
    path = f"{Path(__file__).parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return {**os.environ, "PYTHONPATH": path}
