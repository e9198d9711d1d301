# /// script
# requires-python = ">=3.11"
# dependencies = ["resume-gym[train]", "torch==2.13.0"]
#
# [tool.uv.sources]
# resume-gym = { path = "../dist/resume_gym-0.1.0-py3-none-any.whl" }
# ///
"""Play an episode and train the bundled policy for ten steps, with nothing installed but uv.

    uv build                        # from the root of the checkout; `pip install uv` has uv
    uv run examples/one_file.py

uv makes an environment from the first lines of this file. Of these, `[tool.uv.sources]` is needed
as long as resume-gym is in no package index. For Linux, PyPI has torch with CUDA, which is
gigabytes; `--find-links FOLDER` prefers the wheel for CPUs, torch-2.13.0+cpu, if FOLDER has it.

The example writes runs/one_file. It printed, with the progress of the training in between,

    careful: reward 6.50
    nano: 10 steps, mean reward of the last -0.06

Four episodes a step show that training runs; they are too few to learn from.
"""

import json
import subprocess
import sys
from pathlib import Path

import gymnasium as gym

from resume_gym.agents import make_agent

TRAIN = "train --steps 10 --groups 1 --group-size 4 --max-tokens 48 --eval-tasks 1"


def play() -> float:
    """Return the reward of the scripted agent `careful` in an episode."""
    env = gym.make("ResumeEdit-v0")
    env.reset(seed=0)
    agent, over = make_agent("careful"), False
    while not over:
        _, _, over, _, info = env.step(agent(env.unwrapped.session))
    return info["episode_reward"]


def train(name: str) -> list[float]:
    """Train the bundled policy, and return the mean reward of each step."""
    command = [sys.executable, "-m", "resume_gym", *TRAIN.split(), "--name", name]
    subprocess.run(command, check=True)
    lines = Path("runs", name, "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["reward"] for line in lines]


def main() -> None:
    print(f"careful: reward {play():.2f}", flush=True)
    rewards = train("one_file")
    print(f"nano: {len(rewards)} steps, mean reward of the last {rewards[-1]:.2f}")


if __name__ == "__main__":
    main()
