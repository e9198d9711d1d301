"""vLLM servers that a job starts, watches and ends."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import requests
import torch

from learners import models, ranks
from learners.config import Config
from learners.engines import EngineError
from learners.engines.vllm_plugin import OWNED, SHARED_MEMORY

START_TIMEOUT_S = 900.0
"""How long a server may take until it answers; a large model is read in minutes."""
MAX_RESTARTS = 5
"""After so many restarts of one server in a row something is wrong that a restart does not mend."""
_STEADY_S = 600.0
"""A server that lived so long may be restarted as often again."""
_END_S = 3.0
_POLL_S = 0.2
# what torchrun tells its processes; a server is none of them
_LAUNCHER = ("RANK", "LOCAL_", "GROUP_", "ROLE_", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_")


class Server:
    """A vLLM server of its own; it is there when `ready` says so.

    A thread restarts it when it dies, at the same address, with the weights of the model's folder.

    Args:
        config: of the run.
        number: of the server on this machine, from 0; its GPU.
        log: file for what it prints.
        note: called with a sentence when it was restarted.

    Attributes:
        url: where it listens.
    """

    def __init__(
        self, config: Config, number: int, log: Path, note: Callable[[str], object]
    ) -> None:
        port = _free_port()
        several = ranks.machines() > 1
        self.url = f"http://{socket.gethostname() if several else '127.0.0.1'}:{port}"
        self._command = command(config, "0.0.0.0" if several else "127.0.0.1", port)
        self._environment = environment(config, number)
        self._log = log
        self._note = note
        self._ending = threading.Event()
        self._failed = ""
        self._process = self._spawn()
        # threads outlive no process: the kernel ends a child with the thread that made it
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            # a session of its own: Ctrl-C is for the job, which ends its servers
            return subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _watch(self) -> None:
        restarts, since = 0, time.monotonic()
        while not self._ending.wait(_POLL_S):
            status = self._process.poll()
            if status is None:
                continue
            _kill(self._process, signal.SIGKILL)  # what it may have left
            restarts = 0 if time.monotonic() - since > _STEADY_S else restarts
            if restarts == MAX_RESTARTS:
                self._failed = f"it died {restarts + 1} times, the last time with status {status}"
                return
            self._note(f"The engine at {self.url} died with status {status}; restarted.")
            restarts, since = restarts + 1, time.monotonic()
            self._process = self._spawn()

    @property
    def pid(self) -> int:
        """Of the server's first process."""
        return self._process.pid

    def check(self) -> None:
        """Raise if the server is given up.

        Raises:
            EngineError: it died again and again.
        """
        if self._failed:
            raise EngineError(f"the engine at {self.url}: {self._failed}; see {self._log}")

    def ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the server answers.

        Raises:
            EngineError: it does not, or died again and again.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.check()
            with contextlib.suppress(requests.RequestException):
                if requests.get(f"{self.url}/health", timeout=5).ok:
                    return
            time.sleep(_POLL_S)
        told = f"has not answered for {timeout_s:.0f} s; see {self._log}"
        raise EngineError(f"the engine at {self.url} {told}")

    def close(self) -> None:
        """End the server and all its processes."""
        self._ending.set()
        self._watcher.join()
        _kill(self._process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        _kill(self._process, signal.SIGKILL)
        self._process.wait()


def command(config: Config, host: str, port: int) -> list[str]:
    """The command line of a server for this run."""
    cuda = torch.cuda.is_available()
    settings: dict[str, object] = {
        "model": models.folder(config.model),
        "host": host,
        "port": port,
        "dtype": config.precision,
        "seed": config.seed,
        "weight-transfer-config": json.dumps({"backend": "nccl" if cuda else SHARED_MEMORY}),
        # log-probabilities of what was sampled from, and nothing that changes it
        "logprobs-mode": "processed_logprobs",
        "max-logprobs": 1,
        "generation-config": "vllm",
    }
    switches = ["enable-scale-out", "disable-uvicorn-access-log"]
    if cuda:
        settings["tensor-parallel-size"] = config.engine_gpus
        settings["gpu-memory-utilization"] = 0.4 if config.colocated else 0.9
        switches += ["enable-sleep-mode"] if config.colocated else []
    else:
        # compiling would take longer than a small model's whole run
        settings |= {"block-size": 32, "kv-cache-memory-bytes": _kv_cache_bytes()}
        switches += ["enforce-eager"]
    flags = [str(part) for name, value in settings.items() for part in (f"--{name}", value)]
    start = [sys.executable, "-m", "learners.engines.serve", str(os.getpid())]
    return [*start, *flags, *(f"--{name}" for name in switches)]


def environment(config: Config, number: int) -> Mapping[str, str]:
    """The environment of a server: this process's, without what a launcher added."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHER)}
    own |= {
        OWNED: "1",
        "VLLM_SERVER_DEV_MODE": "1",  # the endpoints that take weights
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    if torch.cuda.is_available():
        own["CUDA_VISIBLE_DEVICES"] = ",".join(_gpus(config, number))
    else:
        threads = str(config.threads or ranks.cores())
        own |= {
            "OMP_NUM_THREADS": threads,
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "TORCH_COMPILE_DISABLE": "1",  # or the first request waits for a compiler
            # cores are shared with the trainer: who waits must sleep
            "OMP_WAIT_POLICY": "PASSIVE",
            "GOMP_SPINCOUNT": "0",
        }
    return own


def _gpus(config: Config, number: int) -> Sequence[str]:
    """The GPUs of a server: the first of this machine are the engines', trainers have the rest."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    known = named.split(",") if named else list(map(str, range(torch.cuda.device_count())))
    first = number * config.engine_gpus
    return known[first : first + config.engine_gpus]


def _kv_cache_bytes() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(4 * 2**30, memory // 16)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


def _kill(process: "subprocess.Popen[bytes]", number: int) -> None:
    """Send a signal to a process and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
