"""The main job as a command, what its folder has, and `Short-v0`, which has the fewest turns."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def command(runs: Path, /, **settings: object) -> list[str]:
    """The command of a small run in the folder RUNS/job."""
    small = {"name": "job", "runs": runs, "max-tokens": 48, "eval-tasks": 1, "eval-rollouts": 1}
    flags = [f"--{name}={value}" for name, value in {**small, **settings}.items()]
    return [sys.executable, str(Path(__file__).parents[1] / "learners" / "aipo.py"), *flags]


def start(command: list[str]) -> "subprocess.Popen[str]":
    """Start a process that Ctrl-C interrupts, with its output in pipes."""
    return subprocess.Popen(
        command,
        env=variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a background job of a shell ignores interrupts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def rows(runs: Path, name: str = "metrics") -> list[dict[str, Any]]:
    """The whole lines of a file of the run; none before it exists."""
    file = runs / "job" / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text().split("\n")[:-1]] if file.exists() else []


def computed(runs: Path) -> list[dict[str, float]]:
    """The metrics that do not measure time."""
    timed = ("seconds_", "tokens_per_s", "trained_tokens_per_s", "tflops", "sha256")
    return [{k: v for k, v in step.items() if not k.startswith(timed)} for step in rows(runs)]


def episodes(runs: Path, step: int, kind: str = "step") -> dict[tuple[int, int], Any]:
    """The records of a step's episodes by group and member; no pair is there twice."""
    lines = rows(runs, f"trajectories/{kind}-{step:06d}")
    records = {(one["group"], one["member"]): one for one in lines}
    assert len(records) == len(lines)
    return records


def garble(file: Path, at: int = 0) -> None:
    """Change some bytes of a file, from a position."""
    content = bytearray(file.read_bytes())
    content[at : at + 9] = bytes(byte ^ 255 for byte in content[at : at + 9])
    file.write_bytes(content)
