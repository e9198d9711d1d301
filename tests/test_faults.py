"""A job whose processes are killed: all processes end, no data is lost, and the job resumes.

The real job has a vLLM server, a rollout process and two trainer processes.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import jobs
import psutil
import pytest
from jobs import SHORT, episodes, rows, variables

from learners.build import server_settings
from learners.config import Config
from learners.engines.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.vllm]
SHARDED = {"backend": "fsdp2", "trainer-procs": 2}
GROUPS, GROUP_SIZE = 2, 2
TIMEOUT_S = 900  # of tests that share a slow machine with other workers
END_S = 10
"""Timeout in seconds for the end of all processes."""


command = partial(
    jobs.command,
    **{"env": SHORT, "engine": "vllm", "groups": GROUPS, "group-size": GROUP_SIZE},
    **{"save-every": 2, "threads": 1},
)


def start(runs: Path, **changes: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command(runs, **changes),
        env=variables(),
        start_new_session=True,  # a process group of its own, as in a shell
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_until(condition: Callable[[], bool], job: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if job.poll() is not None:
            raise AssertionError(f"the job ended: {job.communicate()[0]}")
        assert time.monotonic() < deadline
        time.sleep(0.2)


def journal(runs: Path) -> str:
    file = runs / "job" / "journal.md"
    return file.read_text() if file.exists() else ""


def processes(job: "subprocess.Popen[str]", part: str) -> list[psutil.Process]:
    """The job's processes with `part` in their command line, oldest first."""
    matches = []
    for process in psutil.Process(job.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            if part in " ".join(process.cmdline()):
                matches.append(process)
    return sorted(matches, key=lambda process: process.create_time())


class Resources:
    """The child processes of a job and their shared memory, to check that both are released."""

    def __init__(self, job: "subprocess.Popen[str]") -> None:
        self._processes = psutil.Process(job.pid).children(recursive=True)
        self._memory = {path for process in self._processes for path in shared_memory(process)}

    def _remaining(self) -> list[str]:
        names = []
        for process in self._processes:
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    names.append(" ".join(process.cmdline())[:120])
        return names + sorted(path for path in self._memory if Path(path).exists())

    def check_released(self) -> None:
        deadline = time.monotonic() + END_S
        while self._remaining() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self._remaining() == []


def shared_memory(process: psutil.Process) -> list[str]:
    """The named files of shared memory that a process has mapped."""
    try:
        paths = [area.path for area in process.memory_maps()]
    except psutil.Error:  # it has just ended
        return []
    return [path for path in paths if path.startswith("/dev/shm/") and Path(path).exists()]


def check_end(job: "subprocess.Popen[str]", number: signal.Signals) -> None:
    """Send a signal to a job; check that the job and all that it has started end soon."""
    resources = Resources(job)
    began = time.monotonic()
    if number == signal.SIGINT:
        os.killpg(job.pid, number)  # as a terminal does
    else:
        os.kill(job.pid, number)
    out, _ = job.communicate(timeout=TIMEOUT_S)
    assert time.monotonic() - began < END_S
    assert job.returncode != 0
    resources.check_released()
    if number == signal.SIGINT:
        assert "the same command resumes" in out
        assert "Traceback" not in out


def check_complete(runs: Path) -> None:
    """Check that all steps are there, and all their episodes, none twice."""
    metrics = rows(runs)
    assert [step["step"] for step in metrics] == list(range(1, len(metrics) + 1))
    assert all(step["staleness_max"] <= 1 for step in metrics)
    assert all(step["dropped_episodes"] == 0 for step in metrics)
    for step in range(1, len(metrics) + 1):
        assert len(episodes(runs, step)) == GROUPS * GROUP_SIZE


def test_a_run_survives_its_engine_and_ends_with_it(tmp_path: Path) -> None:
    """The server dies, then its engine; then the user presses Ctrl-C."""
    job = start(tmp_path, **SHARDED, steps=100)
    wait_until(lambda: bool(rows(tmp_path)), job)
    for restarts, part in enumerate(("api_server", "VLLM::EngineCore"), 1):
        processes(job, part)[0].kill()
        wait_until(lambda count=restarts: journal(tmp_path).count("restarted") == count, job)  # type: ignore[misc]
        # the next two steps may have been played before
        target = len(rows(tmp_path)) + 3
        wait_until(lambda count=target: len(rows(tmp_path)) >= count, job)  # type: ignore[misc]
    check_end(job, signal.SIGINT)
    check_complete(tmp_path)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that outlives the jobs."""
    log = tmp_path_factory.mktemp("logs") / "engine.log"
    server = Server(server_settings(Config(engine="vllm", threads=1)), 0, log, print)
    try:
        server.ready(TIMEOUT_S)
        yield server.url
    finally:
        server.close()


def test_a_run_resumes_after_a_trainer_or_the_rollout_process_dies(
    engine: str, tmp_path: Path
) -> None:
    settings = {**SHARDED, "engine-urls": engine, "save-every": 1, "steps": 7}
    job = start(tmp_path, **settings)
    wait_until(lambda: len(rows(tmp_path)) >= 2, job)
    resources = Resources(job)
    trainers = [process for process in processes(job, "aipo.py") if process.ppid() == job.pid]
    assert len(trainers) == 2
    trainers[1].kill()
    out, _ = job.communicate(timeout=TIMEOUT_S)
    assert job.returncode != 0
    assert "ended by SIGKILL" in out
    resources.check_released()

    job = start(tmp_path, **settings)
    wait_until(lambda: "Resumed after step" in journal(tmp_path), job)
    resumed = len(rows(tmp_path))
    wait_until(lambda: len(rows(tmp_path)) > resumed, job)
    resources = Resources(job)
    trainers = psutil.Process(job.pid).children()
    spawned = processes(job, "multiprocessing.spawn")
    (rollouts,) = (process for process in spawned if process.parent() in trainers)
    rollouts.kill()
    out, _ = job.communicate(timeout=TIMEOUT_S)
    assert job.returncode == 1
    assert "the rollout process ended with status -9; the same command resumes" in out
    resources.check_released()

    job = start(tmp_path, **settings)
    out, _ = job.communicate(timeout=TIMEOUT_S)
    assert job.returncode == 0, out
    assert len(rows(tmp_path)) == settings["steps"]
    check_complete(tmp_path)
    assert (tmp_path / "job" / "model" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("backend", "number", "playing"),
    [("local", signal.SIGTERM, True), ("fsdp2", signal.SIGKILL, False)],
)
def test_a_signal_ends_all_processes(
    backend: str, number: signal.Signals, playing: bool, tmp_path: Path
) -> None:
    """While episodes are played, or while the server starts."""
    job = start(tmp_path, backend=backend, steps=100)
    wait_until(lambda: bool(processes(job, "VLLM::EngineCore")), job)
    if playing:
        wait_until(lambda: bool(rows(tmp_path)), job)
    check_end(job, number)


def test_two_machines(tmp_path: Path) -> None:
    """Two launchers with a rendezvous and an engine each; here, on one machine."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    launcher = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job"]
    script = command(tmp_path, backend="fsdp2", steps=1)[1:]
    launchers = [
        subprocess.Popen(
            [sys.executable, *launcher, *rendezvous, *script],
            env={**variables(), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=TIMEOUT_S)[0] for process in launchers]
    assert [process.returncode for process in launchers] == [0, 0], outputs
    metrics = rows(tmp_path)
    assert [step["step"] for step in metrics] == [1]
    logs = sorted(file.name for file in (tmp_path / "job" / "logs").iterdir())
    assert logs == ["engine-0-0.log", "engine-1-0.log"]
    assert all(step["probe"] < 1e-4 for step in metrics), "both engines are asked"
