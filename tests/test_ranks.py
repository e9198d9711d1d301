"""Training in two processes: the numbers of one process, and errors instead of hangs."""

import multiprocessing
import multiprocessing.connection
import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import rank_worker
import torch
from jobs import command, computed, episodes, rows
from safetensors.torch import load_file
from tiny import ARCHITECTURES, save_tiny

from learners.engines.server import free_port
from learners.training.models import NANO

pytestmark = pytest.mark.distributed

SHARDED = ("fsdp2", "deepspeed")
TESTS = Path(__file__).parent
TIMEOUT_S = 900  # of tests that share a slow machine with other workers


# imports take most of the time of a process, so they are forked from one that has them
PRELOADED = [
    "learners.training.backends.deepspeed",
    "learners.training.backends.fsdp2",
    "learners.training.trainer",
    "learners.training.lora",
    "transformers.models.llama.modeling_llama",
    "transformers.models.qwen3.modeling_qwen3",
]


def launch(tasks: Sequence[str], procs: int, folder: Path) -> dict[str, dict[str, Any]]:
    """Run tasks of the worker in several ranks; rank 0's results by backend and task."""
    out = folder / "results.pt"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    shared = {
        "TORCHELASTIC_RUN_ID": "test",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(procs),
        "LOCAL_WORLD_SIZE": str(procs),
    }
    started = []
    for rank in range(procs):
        variables = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        arguments = variables, tasks, SHARDED, folder, out
        started.append(context.Process(target=rank_worker.work, args=arguments))
        started[-1].start()
    multiprocessing.connection.wait([one.sentinel for one in started], TIMEOUT_S)
    for one in started:
        one.join(20)  # the others end with the first, or wait for it
        one.kill()
    assert [one.exitcode for one in started] == [0] * procs
    results: dict[str, dict[str, Any]] = torch.load(out, weights_only=False)
    return results


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ranks")
    for architecture in ARCHITECTURES:
        save_tiny(architecture, made / architecture)
    return made


@pytest.fixture(scope="module")
def local(folder: Path) -> dict[str, Any]:
    """Metrics, moments and weights of a single process, by architecture and variant."""
    return rank_worker.parity("local", folder)


@pytest.fixture(scope="module")
def parity(folder: Path) -> dict[str, dict[str, Any]]:
    """The same of two processes, by backend."""
    return launch(["parity"], 2, folder)


@pytest.fixture(scope="module")
def results(folder: Path) -> dict[str, dict[str, Any]]:
    """Results by backend and task. One process saves, then two load and save."""
    alone = launch(["resume", "attacked"], 1, folder)
    together = launch(["resume", "bad_batches", "full_disk"], 2, folder)
    return {
        backend: {
            **together[backend],
            "resume_alone": alone[backend]["resume"],
            "attacked": alone[backend]["attacked"],
        }
        for backend in SHARDED
    }


def difference(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    """The largest difference between two sets of weights."""
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in theirs)


def distance(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    """The norm of the difference of all weights.

    Not the largest one: AdamW moves a weight by the learning rate even where its gradient is noise.
    """
    assert ours.keys() == theirs.keys()
    return sum(float((ours[name] - theirs[name]).square().sum()) for name in theirs) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("backend", SHARDED)
def test_two_processes_compute_what_one_does(
    backend: str, local: dict[str, Any], parity: dict[str, dict[str, Any]]
) -> None:
    variants = dict(parity[backend]["parity"])
    halves, _, halves_after = variants.pop("qwen3 halves")
    for name, (metrics, moments, weights) in variants.items():
        architecture, variant = name.split()
        like = variant if variant in ("adapters", "hints", "taught") else "shared"
        expected, gradient, after = local[f"{architecture} {like}"]
        for ours, theirs in zip(metrics, expected, strict=True):
            figures = ["loss", "gap", "entropy", "ratio", "gradient_norm"]
            compared = [name for name in ("feedback_gap", "ref_kl") if name in ours]
            assert len(compared) == {"hints": 1, "taught": 2}.get(variant, 0)
            for figure in figures + compared:
                assert ours[figure] == pytest.approx(theirs[figure], abs=1e-5, rel=1e-5), name
        assert distance(weights, after) < 1e-3, name
        for weight, ours in moments.items():
            theirs = gradient[weight]
            assert (ours - theirs).norm() <= 1e-5 * max(theirs.norm(), 1e-3), (name, weight)
    expected, _, after = local["qwen3 shared"]
    assert expected[0]["gradient_norm"] > 0
    # bfloat16 is close, but not equal
    assert 0 < abs(halves[0]["loss"] - expected[0]["loss"]) < 0.05
    assert halves[0]["gradient_norm"] == pytest.approx(expected[0]["gradient_norm"], rel=0.05)
    assert difference(halves_after, after) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("backend", SHARDED)
def test_a_checkpoint_resumes_bit_for_bit_and_that_of_fsdp2_on_other_processes(
    backend: str, results: dict[str, dict[str, Any]]
) -> None:
    one, two = results[backend]["resume_alone"], results[backend]["resume"]
    assert difference(one[f"{backend}-1"], one["uninterrupted"]) == 0
    assert difference(two[f"{backend}-2"], two["uninterrupted"]) == 0, "equal on as many processes"
    if backend == "fsdp2":
        assert difference(two["fsdp2-1"], two["uninterrupted"]) < 1e-5
    else:
        assert two["deepspeed-1"] == "expected 1 processes, as when saved, got 2"


@pytest.mark.slow
@pytest.mark.parametrize("backend", SHARDED)
def test_a_bad_batch_changes_nothing_on_any_rank(
    backend: str, results: dict[str, dict[str, Any]], local: dict[str, Any]
) -> None:
    bad = results[backend]["bad_batches"]
    assert bad["nan"].startswith("FloatingPointError: the gradient norm is ")
    assert bad["empty"] == "ValueError: a batch without sampled tokens cannot be trained on"
    assert bad["flat"]["skipped"] == 1
    assert bad["unchanged"]
    metrics, _, _ = local["qwen3 shared"]
    assert bad["after"]["loss"] == pytest.approx(metrics[0]["loss"], abs=1e-5)
    assert bad["after"]["gradient_norm"] == pytest.approx(metrics[0]["gradient_norm"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", SHARDED)
def test_a_full_disk_keeps_the_previous_checkpoint(
    backend: str, results: dict[str, dict[str, Any]]
) -> None:
    saved = results[backend]["full_disk"]
    assert saved["first"] == saved["last"]
    assert saved["first"][0] == 1
    assert "the checkpoint of step 2 could not be saved" in saved["error"]
    assert saved["error"].endswith("step-000001")


@pytest.mark.slow
@pytest.mark.parametrize("backend", SHARDED)
def test_loading_a_checkpoint_executes_nothing(
    backend: str, results: dict[str, dict[str, Any]]
) -> None:
    errors = results[backend]["attacked"]
    assert len(errors) == 4 * 2, "four payloads, two files"
    for name, message, executed in errors:
        assert not executed, name
        refused = re.fullmatch(r".* could not be loaded: expected (.*), got (\S+)", message)
        assert refused, message
        assert refused[1] == "tensors and plain values"
        assert name.endswith(refused[2])


def train(runs: Path, flags: Sequence[str] = (), **changes: object) -> subprocess.Popen[str]:
    """Start the main job, small, in two processes."""
    settings = {
        "backend": "fsdp2",
        "trainer-procs": 2,
        "groups": 2,
        "group-size": 2,
        "save-every": 1,
        # with these, some episodes end before the others
        "env": "ResumeEditMini-v0",
        "credit": "episode",
        "seed": 7,
        "temperature": 1.0,
        **changes,
    }
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    flags = ("--no-fresh-tasks", *flags)
    return subprocess.Popen([*command(runs, **settings), *flags], **pipes)  # type: ignore[call-overload,no-any-return]


def running(process: psutil.Process) -> bool:
    """Whether a process has not ended; a zombie has."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def saved(runs: Path, step: int) -> dict[str, bytes]:
    """The files of all ranks in a checkpoint: weights and optimizer state."""
    files = list((runs / "job" / "checkpoints" / f"step-{step:06d}").glob("*.distcp"))
    assert len(files) >= 2
    return {file.name: file.read_bytes() for file in files}


# one evaluation and two steps need at most nine verdicts
AWAY = """
from resume_gym.judges import JudgeMisconfigured
from resume_gym.judges.rubric import RubricJudge

class Away(RubricJudge):
    calls = 0

    def judge(self, task, revised):
        self.calls += 1
        if self.calls > 9:
            raise JudgeMisconfigured("the judge is away")
        return super().judge(task, revised)
"""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """A run of at least two steps that its judge stopped, its status and its errors."""
    runs = tmp_path_factory.mktemp("stopped")
    (runs / "away.py").write_text(AWAY)
    with pytest.MonkeyPatch.context() as during:
        during.setenv("PYTHONPATH", f"{TESTS.parent}{os.pathsep}{runs}")
        changes = {"steps": 100, "save-every": 100, "judge": "away:Away"}
        process = train(runs, ("--async-save",), **changes)
    _, err = process.communicate(timeout=TIMEOUT_S)
    return runs, process.returncode, err


@pytest.mark.slow
def test_a_judge_error_ends_the_job_with_one_line_and_a_checkpoint(
    stopped: tuple[Path, int, str],
) -> None:
    runs, status, err = stopped
    assert status == 1, err
    message = f"resume-gym: no verdict: the judge is away; the same command resumes {runs / 'job'}"
    assert err.splitlines()[-1] == message
    assert "Traceback" not in err
    (saved,) = (runs / "job" / "checkpoints").iterdir()
    assert saved.name == f"step-{len(rows(runs)):06d}"


@pytest.mark.slow
def test_a_killed_process_ends_the_job_which_resumes_bit_for_bit(
    stopped: tuple[Path, int, str], tmp_path: Path
) -> None:
    whole, *_ = stopped
    steps = len(rows(whole))
    process = train(tmp_path, steps=steps)
    deadline = time.monotonic() + TIMEOUT_S
    # all episodes of a step may end in the same turn, so no trajectory says that it has begun
    while not (tmp_path / "job" / "checkpoints" / "step-000001").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ranks = psutil.Process(process.pid).children()
    assert len(ranks) == 2
    ranks[1].suspend()
    time.sleep(2)  # rank 0 waits in a collective, which fails when the other rank dies
    ranks[1].kill()
    _, err = process.communicate(timeout=60)
    assert process.returncode > 0
    assert "resume-gym: process 1 of 2 was ended by SIGKILL" in err
    assert "Traceback" not in err
    # a process closes its pipes before it has ended, so closed pipes are not enough
    deadline = time.monotonic() + 60
    while any(map(running, ranks)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert len(episodes(tmp_path, 2)) < len(episodes(whole, 2)), "killed in the middle of a step"

    process = train(tmp_path, steps=steps)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, out + err
    assert "resumed after step 1 of" in out
    assert computed(tmp_path) == computed(whole)
    assert saved(tmp_path, steps) == saved(whole, steps)
    for step in range(1, steps + 1):
        assert episodes(tmp_path, step) == episodes(whole, step)
    # rank 0 samples from what all ranks trained, also after loading
    assert all(step["gap"] < 1e-5 for step in rows(tmp_path))
    exported = load_file(tmp_path / "job" / "model" / "model.safetensors")
    initial = load_file(NANO / "model.safetensors")
    assert any(not torch.equal(initial[name], exported[name]) for name in initial)
