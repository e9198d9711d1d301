"""Whatever dies, nobody is left behind, nothing is lost, and the same command goes on.

The real job: vLLM's server, a rollout process, two trainer processes.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from learners.config import Config
from learners.engines.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.vllm]

ROOT = Path(__file__).parent.parent
SHARDED = {"backend": "fsdp2", "trainer-procs": 2}
GROUPS, GROUP_SIZE = 2, 2
TIMEOUT_S = 400
END_S = 10
"""Within which all must be gone."""


def command(runs: Path, **changes: object) -> list[str]:
    settings = {
        "name": "job",
        "runs": runs,
        "engine": "vllm",
        "groups": GROUPS,
        "group-size": GROUP_SIZE,
        "max-tokens": 48,
        "save-every": 2,
        "eval-tasks": 1,
        "eval-rollouts": 1,
        "threads": 1,
        **changes,
    }
    flags = [f"--{name}={value}" for name, value in settings.items()]
    return [sys.executable, str(ROOT / "learners" / "aipo.py"), *flags]


def start(runs: Path, **changes: object) -> "subprocess.Popen[str]":
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    # a group of its own, as a shell would make
    return subprocess.Popen(command(runs, **changes), start_new_session=True, **pipes)  # type: ignore[call-overload,no-any-return]


def until(happened: Callable[[], bool], job: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not happened():
        if job.poll() is not None:
            raise AssertionError(f"the job ended: {job.communicate()[0]}")
        assert time.monotonic() < deadline
        time.sleep(0.05)


def steps(runs: Path) -> list[dict[str, float]]:
    file = runs / "job" / "metrics.jsonl"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in lines]


def journal(runs: Path) -> str:
    file = runs / "job" / "journal.md"
    return file.read_text() if file.exists() else ""


def named(job: "subprocess.Popen[str]", part: str) -> list[psutil.Process]:
    """The job's processes with this in their command line, oldest first."""
    found = []
    for one in psutil.Process(job.pid).children(recursive=True):
        try:
            if part in " ".join(one.cmdline()):
                found.append(one)
        except psutil.Error:  # it has just ended
            continue
    return sorted(found, key=lambda one: one.create_time())


class Everybody:
    """The processes and the shared memory of a job, to see that they go."""

    def __init__(self, job: "subprocess.Popen[str]") -> None:
        self.processes = psutil.Process(job.pid).children(recursive=True)
        self.memory = {path for one in self.processes for path in shared_memory(one)}

    def left(self) -> list[str]:
        names = []
        for one in self.processes:
            try:
                if one.status() != psutil.STATUS_ZOMBIE:
                    names.append(" ".join(one.cmdline())[:120])
            except psutil.Error:
                continue
        return names + sorted(path for path in self.memory if Path(path).exists())

    def gone(self) -> bool:
        deadline = time.monotonic() + END_S
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.left() == []
        return True


def shared_memory(process: psutil.Process) -> list[str]:
    """The files of shared memory that a process has mapped, without those that have no name."""
    try:
        paths = [one.path for one in process.memory_maps()]
    except psutil.Error:  # it has just ended
        return []
    return [one for one in paths if one.startswith("/dev/shm/") and Path(one).exists()]


def records(runs: Path) -> list[tuple[str, int, int]]:
    """Step, group and member of every line of every file of trajectories."""
    return [
        (file.stem, one["group"], one["member"])
        for file in sorted((runs / "job" / "trajectories").glob("*.jsonl"))
        for one in map(json.loads, file.read_text().split("\n")[:-1])
    ]


def test_a_run_survives_its_engine_and_ends_with_it(tmp_path: Path) -> None:
    """The server's first process dies, then its engine; then somebody presses Ctrl-C."""
    job = start(tmp_path, **SHARDED, steps=100)
    until(lambda: bool(steps(tmp_path)), job)
    for restarts, part in enumerate(("serve.py", "VLLM::EngineCore"), 1):
        named(job, part)[0].kill()
        until(lambda wanted=restarts: journal(tmp_path).count("restarted") == wanted, job)  # type: ignore[misc]
        # the next two steps may have been played before
        now = len(steps(tmp_path))
        until(lambda wanted=now + 3: len(steps(tmp_path)) >= wanted, job)  # type: ignore[misc]
    ends(job, signal.SIGINT)
    nothing_is_lost(tmp_path)


def ends(job: "subprocess.Popen[str]", number: signal.Signals) -> None:
    """A signal ends the job and all that it has started, soon."""
    everybody = Everybody(job)
    began = time.monotonic()
    if number == signal.SIGINT:
        os.killpg(job.pid, number)  # as a terminal does
    else:
        os.kill(job.pid, number)
    out, _ = job.communicate(timeout=TIMEOUT_S)
    assert time.monotonic() - began < END_S
    assert job.returncode != 0
    assert everybody.gone()
    if number == signal.SIGINT:
        assert "the same command resumes" in out
        assert "Traceback" not in out


def nothing_is_lost(runs: Path) -> None:
    """All steps are there, all their episodes are kept, none twice."""
    found = steps(runs)
    assert [one["step"] for one in found] == list(range(1, len(found) + 1))
    assert all(one["staleness_max"] <= 1 for one in found)
    assert all(one["dropped_episodes"] == 0 for one in found)
    keys = records(runs)
    assert len(keys) == len(set(keys))
    trained = [one for one in keys if int(one[0].removeprefix("step-")) <= len(found)]
    assert len(trained) == len(found) * GROUPS * GROUP_SIZE


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that outlives the jobs."""
    log = tmp_path_factory.mktemp("logs") / "engine.log"
    server = Server(Config(engine="vllm", threads=1), 0, log, print)
    try:
        server.ready(TIMEOUT_S)
        yield server.url
    finally:
        server.close()


def test_a_run_goes_on_after_the_death_of_a_trainer_or_of_the_rollouts(
    engine: str, tmp_path: Path
) -> None:
    settings = {**SHARDED, "engine-urls": engine, "save-every": 1, "steps": 7}
    job = start(tmp_path, **settings)
    until(lambda: len(steps(tmp_path)) >= 2, job)
    everybody = Everybody(job)
    trainers = [one for one in named(job, "aipo.py") if one.ppid() == job.pid]
    assert len(trainers) == 2
    trainers[1].kill()
    out, _ = job.communicate(timeout=TIMEOUT_S)
    assert job.returncode != 0
    assert "ended by SIGKILL" in out
    assert everybody.gone()

    job = start(tmp_path, **settings)
    until(lambda: "Resumed after step" in journal(tmp_path), job)
    resumed = len(steps(tmp_path))
    until(lambda: len(steps(tmp_path)) > resumed, job)
    everybody = Everybody(job)
    trainers = psutil.Process(job.pid).children()
    (rollouts,) = (one for one in named(job, "multiprocessing.spawn") if one.parent() in trainers)
    rollouts.kill()
    out, _ = job.communicate(timeout=TIMEOUT_S)
    assert job.returncode == 1
    assert "the rollout process ended with status -9; the same command resumes" in out
    assert everybody.gone()

    job = start(tmp_path, **settings)
    out, _ = job.communicate(timeout=TIMEOUT_S)
    assert job.returncode == 0, out
    assert len(steps(tmp_path)) == settings["steps"]
    nothing_is_lost(tmp_path)
    assert (tmp_path / "job" / "model" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("backend", "number"),
    [("local", signal.SIGTERM), ("local", signal.SIGKILL), ("fsdp2", signal.SIGKILL)],
)
def test_nobody_is_left_behind(backend: str, number: signal.Signals, tmp_path: Path) -> None:
    """Neither while the server starts, nor while episodes are played."""
    job = start(tmp_path, backend=backend, steps=100)
    until(lambda: bool(named(job, "VLLM::EngineCore")), job)
    if number == signal.SIGTERM:
        until(lambda: bool(steps(tmp_path)), job)
    ends(job, number)


def test_two_machines(tmp_path: Path) -> None:
    """Two agents with a rendezvous, an engine each; here they are on one machine."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    agent = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job"]
    script = command(tmp_path, backend="fsdp2", steps=1)[1:]
    agents = [
        subprocess.Popen(
            [sys.executable, *agent, *meeting, *script],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    said = [one.communicate(timeout=TIMEOUT_S)[0] for one in agents]
    assert [one.returncode for one in agents] == [0, 0], said
    assert [one["step"] for one in steps(tmp_path)] == [1]
    logs = sorted(one.name for one in (tmp_path / "job" / "logs").iterdir())
    assert logs == ["engine-0-0.log", "engine-1-0.log"]
    assert all(one["probe"] < 1e-4 for one in steps(tmp_path)), "both engines are asked"
