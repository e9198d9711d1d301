"""The presets for GPUs, started on a CPU with a small model of the same architecture.

What needs GPUs is replaced: engines and trainers that take turns on a GPU, bf16, and more processes
than this machine has cores. Steps, groups and turns are few and short. All other settings are the
presets'.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from jobs import command, rows, variables
from loopback import gemini_server, openai_server, user_text
from model_answers import gullible

from learners.config import PRESETS, read_toml
from resume_gym.llm.gemini import KEYS

pytestmark = [pytest.mark.slow, pytest.mark.distributed]
SMALL = {"model": "nano", "precision": "float32", "steps": 2, "groups": 1, "group-size": 3}
TIMEOUT_S = 900
_SHARDED = {"engine": "transformers", "trainer-procs": 2}


def train(
    runs: Path, *flags: str, launcher: tuple[str, ...] = (), launchers: int = 1, **changes: object
) -> None:
    """Run a job and check its end."""
    jobs = [
        subprocess.Popen(
            [sys.executable, *launcher, *command(runs, **{**SMALL, **changes})[1:], *flags],
            env={**variables(), "OMP_NUM_THREADS": "1", KEYS[0]: "a-key-of-a-test"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(launchers)
    ]
    outputs = [job.communicate(timeout=TIMEOUT_S)[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0] * launchers, outputs
    steps = rows(runs)
    assert [step["step"] for step in steps] == [1, 2]
    assert all(step["trained_tokens"] for step in steps)
    assert (runs / "job" / "model" / "model.safetensors").is_file()


def check_settings(runs: Path, name: str) -> None:
    """The run has the settings of the preset that decide what it teaches."""
    used, preset = read_toml(runs / "job" / "config.toml"), read_toml(PRESETS / f"{name}.toml")
    for setting in ("env", "credit", "lora_rank", "learning_rate", "loss"):
        assert getattr(used, setting) == getattr(preset, setting)


@pytest.mark.parametrize("name", ["one_gpu", "one_gpu_24gb"])
def test_one_gpu(name: str, tmp_path: Path) -> None:
    train(tmp_path, "--no-colocated", config=name, engine="transformers")
    check_settings(tmp_path, name)


@pytest.mark.vllm
def test_engines_beside_trainers(tmp_path: Path) -> None:
    train(tmp_path, config="four_gpus_24gb", **{"engine-procs": 1})
    check_settings(tmp_path, "four_gpus_24gb")


@pytest.mark.parametrize(
    ("name", "wire"), [("qwen3_14b_4xh200", "gemini"), ("qwen3_14b_vllm_judge", "openai")]
)
def test_judges_that_are_models(name: str, wire: str, tmp_path: Path) -> None:
    with judge_of(name, wire, tmp_path) as judge:
        # on these tasks the nano policy edits, and only edited documents are judged
        train(tmp_path, "--no-fresh-tasks", config=name, judge=judge, **_SHARDED)
    check_settings(tmp_path, name)


@contextmanager
def judge_of(name: str, wire: str, folder: Path) -> Iterator[str]:
    """The judge of a preset, asked at a loopback server, and with its store in a folder."""
    answer = gullible("")
    serve = gemini_server if wire == "gemini" else openai_server
    with serve(lambda body: answer(user_text(body))) as server:
        spec = json.loads(str(read_toml(PRESETS / f"{name}.toml").judge))
        asked = spec.get("judge", spec)
        asked |= {"base_url": server.url}
        if "store" in asked:
            asked["store"] = str(folder / "answers.sqlite")
        yield json.dumps(spec)
        assert server.requests


def test_two_machines(tmp_path: Path) -> None:
    """Two launchers with a rendezvous; here, on one machine."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    launcher = ("-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1")
    launcher += ("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job")
    alone = {"engine": "transformers", "trainer-procs": 1}
    train(tmp_path, launcher=launcher, launchers=2, config="two_nodes", **alone)
    check_settings(tmp_path, "two_nodes")
