"""One, and two processes: the same numbers as in one, and errors instead of hangs."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import rank_worker
import torch
from safetensors.torch import load_file
from tiny import ARCHITECTURES, save_tiny

from learners.training.models import NANO

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
        # some episodes end before the others
        "seed": 7,
        "temperature": 1.0,
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


def computed(runs: Path) -> list[dict[str, float]]:
    """The metrics that do not measure time."""
    timed = ("seconds_", "tokens_per_s", "trained_tokens_per_s", "tflops")
    return [{k: v for k, v in one.items() if not k.startswith(timed)} for one in metrics(runs)]


def played(runs: Path, step: int) -> list[str]:
    """The lines of a step's trajectories, in any order."""
    file = runs / "job" / "trajectories" / f"step-{step:06d}.jsonl"
    return sorted(file.read_text().split("\n")[:-1]) if file.exists() else []


def saved(runs: Path, step: int) -> dict[str, bytes]:
    """What all ranks have put into a checkpoint: weights and optimizer state."""
    folder = runs / "job" / "checkpoints" / f"step-{step:06d}"
    files = [one for kind in ("*.distcp", "*.pt") for one in folder.rglob(kind)]
    assert len(files) >= 2
    return {one.name: one.read_bytes() for one in files}


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


class Stopped(NamedTuple):
    """A run that nobody killed, until its judge went away."""

    backend: str
    runs: Path
    status: int
    err: str


@pytest.fixture(scope="module", params=SHARDED)
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    runs = tmp_path_factory.mktemp("stopped")
    (runs / "away.py").write_text(AWAY)
    wanted = {"steps": 100, "save-every": 100, "judge": "away:Away"}
    flags = ("--async-save",) if request.param == "fsdp2" else ()
    with pytest.MonkeyPatch.context() as during:
        during.setenv("PYTHONPATH", f"{TESTS.parent}{os.pathsep}{runs}")
        process = train(runs, request.param, flags, **wanted)
    _, err = process.communicate(timeout=TIMEOUT_S)
    return Stopped(request.param, runs, process.returncode, err)


@pytest.mark.slow
def test_an_error_that_is_told_is_the_last_word_and_loses_no_step(stopped: Stopped) -> None:
    _, runs, status, err = stopped
    assert status == 1, err
    told = f"error: no verdict: the judge is away; the same command resumes {runs / 'job'}"
    assert err.splitlines()[-1] == told
    assert "Traceback" not in err
    (saved,) = (runs / "job" / "checkpoints").iterdir()
    assert saved.name == f"step-{len(metrics(runs)):06d}"


@pytest.mark.slow
def test_the_whole_job_ends_when_a_process_dies_and_resumes_to_the_bit(
    stopped: Stopped, tmp_path: Path
) -> None:
    backend, whole, *_ = stopped
    steps = len(metrics(whole))
    process = train(tmp_path, backend, steps=steps)
    deadline = time.monotonic() + TIMEOUT_S
    while not played(tmp_path, 2):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ranks = psutil.Process(process.pid).children()
    assert len(ranks) == 2
    (ranks[1] if backend == "fsdp2" else process).kill()  # a rank, or who has launched them
    _, err = process.communicate(timeout=60)
    if backend == "fsdp2":
        assert process.returncode > 0
        assert "error: process 1 of 2 was ended by SIGKILL" in err
        assert "Traceback" not in err
    # a process that ends closes its pipes first, so that they have closed says too little
    deadline = time.monotonic() + 60
    while any(map(running, ranks)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert len(played(tmp_path, 2)) < len(played(whole, 2)), "the test wants the middle of a step"

    process = train(tmp_path, backend, steps=steps)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, out + err
    assert "resumed after step 1 of" in out
    assert computed(tmp_path) == computed(whole)
    assert saved(tmp_path, steps) == saved(whole, steps)
    for step in range(1, steps + 1):
        assert played(tmp_path, step) == played(whole, step)
    # rank 0 samples from what all ranks trained, also after loading
    assert all(one["gap"] < 1e-5 for one in metrics(tmp_path))
    assert all(one["gradient_norm"] > 0 for one in metrics(tmp_path))
    exported = load_file(tmp_path / "job" / "model" / "model.safetensors")
    begun = load_file(NANO / "model.safetensors")
    changed = {name for name in begun if not torch.equal(begun[name], exported[name])}
    assert changed
    assert not any(".layers.0." in name for name in changed), "frozen layers stay"


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
