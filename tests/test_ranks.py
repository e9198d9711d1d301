"""One, and two processes: the same numbers as in one, and errors instead of hangs."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import rank_worker
import torch
from safetensors.torch import load_file
from tiny import ARCHITECTURES, save_tiny

from learners.models import NANO

pytestmark = pytest.mark.distributed

SHARDED = ("fsdp2", "deepspeed")
TESTS = Path(__file__).parent
TIMEOUT_S = 300


def launch(tasks: str, backend: str, procs: int, folder: Path) -> dict[str, Any]:
    """Run tasks of the worker in several processes; what rank 0 found, by task."""
    out = folder / "found.pt"
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={procs}"]
    command = [*torchrun, str(TESTS / "rank_worker.py"), tasks, backend, str(folder), str(out)]
    path = f"{TESTS.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = torch.load(out, weights_only=False)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ranks")
    for architecture in ARCHITECTURES:
        save_tiny(architecture, made / architecture)
    return made


@pytest.fixture(scope="module", params=SHARDED)
def found(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """What two processes found, and what one found before and after them; a launch takes long."""
    backend = request.param
    alone = launch("resume", backend, 1, folder)
    together = launch("resume,trouble,full_disk", backend, 2, folder)
    (folder / f"{backend}-1").rename(folder / f"was-{backend}-1")
    again = launch("resume", backend, 1, folder)
    return {"backend": backend, "alone": alone["resume"], "again": again["resume"], **together}


def apart(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in theirs)


@pytest.mark.parametrize("backend", SHARDED)
def test_two_processes_take_the_steps_of_one(backend: str, folder: Path) -> None:
    alone = rank_worker.parity("local", folder)
    together = launch("parity", backend, 2, folder)["parity"]
    halves, _, moved = together.pop("qwen3 halves")
    assert len(together) == (10 if backend == "fsdp2" else 9)
    for name, (metrics, moments, weights) in together.items():
        architecture, variant = name.split()
        like = "adapters" if variant == "adapters" else "shared"
        wanted, gradient, after = alone[f"{architecture} {like}"]
        for ours, theirs in zip(metrics, wanted, strict=True):
            for figure in ("loss", "gap", "entropy", "ratio", "gradient_norm"):
                assert ours[figure] == pytest.approx(theirs[figure], abs=1e-5, rel=1e-5), name
        assert apart(weights, after) < 1e-4, name
        for weight, ours in moments.items():
            theirs = gradient[weight]
            assert (ours - theirs).norm() <= 1e-5 * max(theirs.norm(), 1e-3), (name, weight)
    wanted, _, after = alone["qwen3 shared"]
    assert wanted[0]["gradient_norm"] > 0
    # halves are near, and not the same
    assert 0 < abs(halves[0]["loss"] - wanted[0]["loss"]) < 0.05
    assert halves[0]["gradient_norm"] == pytest.approx(wanted[0]["gradient_norm"], rel=0.05)
    assert apart(moved, after) < 0.02


@pytest.mark.slow
def test_a_loaded_checkpoint_goes_on_also_with_other_processes(found: dict[str, Any]) -> None:
    backend, one, two = found["backend"], found["alone"], found["resume"]
    assert apart(one[f"{backend}-1"], one["went on"]) == 0
    assert apart(two[f"{backend}-2"], two["went on"]) == 0, "bit for bit on as many processes"
    assert apart(two[f"{backend}-1"], two["went on"]) < 1e-5
    back = found["again"]
    assert apart(back[f"{backend}-2"], back["went on"]) < 1e-5


def train(
    runs: Path, backend: str, flags: Sequence[str] = (), **changes: object
) -> subprocess.Popen[str]:
    """Start the main job, small, in two processes."""
    settings = {
        "name": "job",
        "runs": runs,
        "backend": backend,
        "trainer-procs": 2,
        "groups": 2,
        "group-size": 2,
        "max-tokens": 48,
        "save-every": 1,
        "eval-tasks": 1,
        "eval-rollouts": 1,
        **changes,
    }
    flags = [*flags, *(f"--{name}={value}" for name, value in settings.items())]
    script = str(TESTS.parent / "learners" / "aipo.py")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, script, *flags], **pipes)  # type: ignore[call-overload,no-any-return]


def metrics(runs: Path) -> list[dict[str, float]]:
    file = runs / "job" / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def running(process: psutil.Process) -> bool:
    """Whether a process is more than an entry that its parent has not read."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "victim"), [("fsdp2", "a rank"), ("deepspeed", "the launcher")]
)
def test_the_whole_job_ends_when_a_process_dies_and_resumes(
    backend: str, victim: str, tmp_path: Path
) -> None:
    process = train(tmp_path, backend, steps=3)
    checkpoint = tmp_path / "job" / "checkpoints" / "step-000001"
    deadline = time.monotonic() + TIMEOUT_S
    while not checkpoint.is_dir():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ranks = psutil.Process(process.pid).children()
    assert len(ranks) == 2
    (ranks[1] if victim == "a rank" else process).kill()
    _, err = process.communicate(timeout=60)
    if victim == "a rank":
        assert process.returncode > 0
        assert "error: process 1 of 2 was ended by SIGKILL" in err
        assert "Traceback" not in err
    # a process that ends closes its pipes first, so that they have closed says too little
    deadline = time.monotonic() + 60
    while any(map(running, ranks)):
        assert time.monotonic() < deadline
        time.sleep(0.1)

    process = train(tmp_path, backend, steps=3)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, out + err
    assert re.search(r"resumed after step [12] of 3", out)
    assert [one["step"] for one in metrics(tmp_path)] == [1, 2, 3]
    # rank 0 samples from what all ranks trained, also after loading
    assert all(one["gap"] < 1e-5 for one in metrics(tmp_path))
    assert all(one["gradient_norm"] > 0 for one in metrics(tmp_path))
    exported = load_file(tmp_path / "job" / "model" / "model.safetensors")
    begun = load_file(NANO / "model.safetensors")
    changed = {name for name in begun if not torch.equal(begun[name], exported[name])}
    assert changed
    assert not any(".layers.0." in name for name in changed), "frozen layers stay"


AWAY = """
from resume_gym.judges import JudgeMisconfigured
from resume_gym.judges.rubric import RubricJudge

class Away(RubricJudge):
    asked = 0

    def judge(self, task, revised):
        self.asked += 1
        if self.asked > 12:
            raise JudgeMisconfigured("the judge is away")
        return super().judge(task, revised)
"""


@pytest.mark.slow
def test_an_error_that_is_told_is_the_last_word_and_loses_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "away.py").write_text(AWAY)
    monkeypatch.setenv("PYTHONPATH", f"{TESTS.parent}{os.pathsep}{tmp_path}")
    wanted = {"steps": 100, "save-every": 100, "judge": "away:Away"}
    process = train(tmp_path, "fsdp2", **wanted, flags=("--async-save",))
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1, out + err
    told = f"error: no verdict: the judge is away; the same command resumes {tmp_path / 'job'}"
    assert err.splitlines()[-1] == told
    assert "Traceback" not in err
    (saved,) = (tmp_path / "job" / "checkpoints").iterdir()
    assert saved.name == f"step-{len(metrics(tmp_path)):06d}"


@pytest.mark.slow
def test_trouble_is_told_on_all_ranks_and_leaves_nothing(
    found: dict[str, Any], folder: Path
) -> None:
    trouble = found["trouble"]
    assert trouble["nan"].startswith("FloatingPointError: the gradient norm is ")
    assert trouble["empty"] == ("ValueError: a batch without sampled tokens cannot be trained on")
    assert trouble["flat"]["skipped"] == 1
    assert trouble["unchanged"]
    metrics, _, _ = rank_worker.parity("local", folder)["qwen3 shared"]
    after = trouble["after"]
    assert after["loss"] == pytest.approx(metrics[0]["loss"], abs=1e-5)
    assert after["gradient_norm"] == pytest.approx(metrics[0]["gradient_norm"], rel=1e-5)


@pytest.mark.slow
def test_a_full_disk_leaves_the_checkpoint_before(found: dict[str, Any]) -> None:
    saved = found["full_disk"]
    assert saved["first"] == saved["last"]
    assert saved["first"][0] == 1
    assert "the checkpoint of step 2 could not be saved" in saved["told"]
    assert "step-000001 is the last one" in saved["told"]
