"""vLLM servers that a run starts, restarts after crashes, and ends."""

import contextlib
import ctypes
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import requests
import torch

from learners.engines import EngineError, serve
from learners.engines.vllm_plugin import KEY, OWNED, SHARED_MEMORY, KeyRequired
from learners.training import models, ranks
from learners.training.checkpoint import open_to_append

START_TIMEOUT_S = 900.0
"""Timeout in seconds for the start of a server; reading a large model takes minutes."""
MAX_RESTARTS = 5
"""Maximum number of restarts of one server in a row."""
GPU_SHARE, COLOCATED_SHARE = 0.9, 0.4
"""Shares of a GPU's memory that a server may use: without, and with, a trainer on the same GPU."""
_STEADY_S = 600.0
"""Uptime in seconds after which the count of restarts is reset."""
_END_S = 5.0
# seconds between checks of the process, seconds between health checks, and seconds without a passed
# health check after which the server is restarted
_POLL_S, _CHECK_S, _UNHEALTHY_S = 0.2, 2.0, 5.0
# Code for `python -c`. With `python -m`, each child process of vLLM would need seconds to import
# the main module.
_SERVER = "from vllm.entrypoints.launchers.api_server.entry import main; main()"
# torchrun's variables, which would make a server join the trainers
_LAUNCHER = ("RANK", "LOCAL_", "GROUP_", "ROLE_", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_")


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a vLLM server.

    Attributes:
        model: name or folder of the model.
        precision: dtype of the weights, "float32" or "bfloat16".
        seed: random seed.
        gpus: number of GPUs per server.
        colocated: whether the server shares its GPUs with a trainer.
        threads: number of CPU threads on a machine without GPUs; 0 for as many as a trainer uses.
    """

    model: str
    precision: str
    seed: int
    gpus: int
    colocated: bool
    threads: int


class Server:
    """A vLLM server process; `ready` waits until the server answers.

    A thread restarts a crashed server at the same address, with the initial weights of the model.

    Args:
        settings: settings of the server.
        number: index of the server on this machine, from 0; selects its GPUs.
        log: file for the server's output.
        note: called at each restart, with a sentence that describes the restart.

    Attributes:
        url: address of the server.

    Raises:
        EngineError: a library that vLLM needs is missing.
    """

    def __init__(
        self, settings: ServerSettings, number: int, log: Path, note: Callable[[str], object]
    ) -> None:
        _require_libnuma()
        address, port = _address(), free_port()
        self.url = f"http://{address}:{port}"
        self._command = command(settings, number, address, port)
        self._environment = environment(settings, number)
        self._log = log
        self._note = note
        self._ending = threading.Event()
        self._failed = ""
        self._answered = self._checked = 0.0
        self._process = self._spawn()
        # The kernel sends a parent-death signal when the thread that started the child exits, so
        # the thread that restarts the server runs until `close`.
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_to_append(self._log), "ab") as log:
            # a new session: Ctrl-C must reach only the run, which then ends its servers
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
            if status is None and not self._unhealthy():
                continue
            self._end()
            restarts = 0 if time.monotonic() - since > _STEADY_S else restarts
            how = "its health checks fail" if status is None else f"it ended with status {status}"
            if restarts == MAX_RESTARTS:
                self._failed = f"{how}, even after {restarts} restarts"
                return
            self._note(f"The engine at {self.url} is restarted: {how}.")
            restarts, since = restarts + 1, time.monotonic()
            self._answered = self._checked = 0.0
            self._process = self._spawn()

    def _unhealthy(self) -> bool:
        """Return whether a server that was healthy has failed checks for `_UNHEALTHY_S` seconds."""
        now = time.monotonic()
        if now - self._checked < _CHECK_S:
            return False
        self._checked = now
        try:
            if requests.get(f"{self.url}/health", timeout=_CHECK_S).ok:
                self._answered = time.monotonic()
                return False
        except requests.Timeout:
            return False  # the server is busy; if the server hangs, completions time out
        except requests.RequestException:
            pass
        return 0 < self._answered < now - _UNHEALTHY_S

    def _end(self) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._process.kill()
        self._process.wait()

    def check(self) -> None:
        """Check that the server has not used up its `MAX_RESTARTS` restarts.

        Raises:
            EngineError: the server crashed too often.
        """
        if self._failed:
            raise EngineError(f"the engine at {self.url}: {self._failed}; see {self._log}")

    def ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the server answers, at most `timeout_s` seconds.

        Raises:
            EngineError: the server did not answer in time, or crashed too often.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.check()
            with contextlib.suppress(requests.RequestException):
                if requests.get(f"{self.url}/health", timeout=5).ok:
                    return
            time.sleep(_POLL_S)
        problem = f"has not answered for {timeout_s:.0f} s; see {self._log}"
        raise EngineError(f"the engine at {self.url} {problem}")

    def close(self) -> None:
        """End the server and all its processes."""
        self._ending.set()
        self._watcher.join()
        self._end()


@contextlib.contextmanager
def serving(
    settings: ServerSettings, count: int, logs: Path, note: Callable[[str], object]
) -> Iterator[list[Server]]:
    """Start vLLM servers from the first process of each machine; end them when the context exits.

    Args:
        settings: settings of the servers.
        count: number of servers on each machine.
        logs: folder for the output of the servers.
        note: called with a sentence at each restart of a server; see `Server`.
    """
    servers: list[Server] = []
    if count:  # the servers of all machines have the same key
        os.environ[KEY] = ranks.broadcast(make_key())
    try:
        for number in range(count if ranks.local_rank() == 0 else 0):
            log = logs / f"engine-{ranks.rank()}-{number}.log"
            servers.append(Server(settings, number, log, note))
        yield servers
    finally:
        for server in servers:
            server.close()


def command(settings: ServerSettings, number: int, host: str, port: int) -> list[str]:
    """Return the command line of a server; `number` is its index on this machine."""
    cuda = torch.cuda.is_available()
    options: dict[str, object] = {
        "model": models.folder(settings.model),
        "host": host,
        "port": port,
        "dtype": settings.precision,
        "seed": settings.seed + 1000 * ranks.rank() + number,  # each server gets a different seed
        "weight-transfer-config": json.dumps({"backend": transfer(settings.colocated)}),
        # return log-probabilities at the sampling temperature; ignore the model's sampling defaults
        "logprobs-mode": "processed_logprobs",
        "max-logprobs": 1,
        "generation-config": "vllm",
        "middleware": f"{KeyRequired.__module__}.{KeyRequired.__name__}",
    }
    switches = ["enable-scale-out", "disable-uvicorn-access-log"]
    if cuda:
        options["tensor-parallel-size"] = settings.gpus
        options["gpu-memory-utilization"] = COLOCATED_SHARE if settings.colocated else GPU_SHARE
        switches += ["enable-sleep-mode"] if settings.colocated else []
    else:
        # no compilation, which would take longer than a whole run of a small model
        memory = psutil.virtual_memory().total
        options |= {"block-size": 32, "kv-cache-memory-bytes": kv_cache_bytes(memory)}
        options["distributed-executor-backend"] = "uni"
        switches += ["enforce-eager"]
    flags = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    watched = [sys.executable, "-P", str(Path(serve.__file__)), str(os.getpid())]
    server = [sys.executable, "-P", "-c", _SERVER]
    return [*watched, *server, *flags, *(f"--{name}" for name in switches)]


def transfer(colocated: bool) -> str:
    """Return the weight transfer backend: "nccl" between different GPUs, else `SHARED_MEMORY`."""
    return "nccl" if torch.cuda.is_available() and not colocated else SHARED_MEMORY


def environment(settings: ServerSettings, number: int) -> Mapping[str, str]:
    """Return this process's environment without variables for trainers, and with those for vLLM."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_LAUNCHER) and (name, value) != ranks.ALLOCATOR
    }
    variables |= {
        OWNED: "1",
        "PYTHONSAFEPATH": "1",  # processes of vLLM must not import files of the current folder
        KEY: make_key(),  # not in the command line, which all users of the machine can read
        "VLLM_SERVER_DEV_MODE": "1",  # enables the endpoints for weight updates
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    if torch.cuda.is_available():
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(_gpus(settings, number))
    else:
        threads = str(settings.threads or ranks.cores())
        variables |= {
            "OMP_NUM_THREADS": threads,
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            # with multiprocessing, vLLM ignores the executor "uni" and adds a worker process, with
            # which a server takes 1.5 times as long to start and samples no faster
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "TORCH_COMPILE_DISABLE": "1",  # the first request would wait for compilation
            # servers share cores with the trainer, so idle threads must sleep, not spin
            "OMP_WAIT_POLICY": "PASSIVE",
            "GOMP_SPINCOUNT": "0",
        }
    return variables


def _gpus(settings: ServerSettings, number: int) -> Sequence[str]:
    """Return the GPUs of a server; engines use the first GPUs of a machine, trainers the rest."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else list(map(str, range(torch.cuda.device_count())))
    first = number * settings.gpus
    return gpus[first : first + settings.gpus]


def kv_cache_bytes(memory_bytes: int) -> int:
    """Return the size of a server's KV cache on a machine without GPUs."""
    return min(4 * 2**30, memory_bytes // 16)


def _require_libnuma() -> None:
    """Raise an error at once if libnuma is missing; vLLM itself would fail only after minutes."""
    if sys.platform == "linux" and not torch.cuda.is_available():
        try:
            ctypes.CDLL("libnuma.so.1")
        except OSError as error:
            message = f"vLLM's build for CPUs needs libnuma (Debian package libnuma1): {error}"
            raise EngineError(message) from None


def make_key() -> str:
    """Return the servers' API key from the environment; create the key if there is none."""
    os.environ[KEY] = os.environ.get(KEY) or secrets.token_urlsafe()
    return os.environ[KEY]


def headers() -> Mapping[str, str]:
    """Return the HTTP headers with the API key for requests to servers; empty without a key."""
    key = os.environ.get(KEY)
    return {"Authorization": f"Bearer {key}"} if key else {}


def own_address(urls: Iterable[str]) -> str:
    """Return the IPv4 address at which the servers reach this machine.

    Args:
        urls: addresses of the servers; if all are loopback addresses, the result is 127.0.0.1.
    """
    addresses = []
    for url in urls:
        parts = urlsplit(url)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # `connect` sends nothing over UDP, and only selects the network interface
            probe.connect((parts.hostname, parts.port or 80))
            addresses.append(str(probe.getsockname()[0]))
    return next((address for address in addresses if not address.startswith("127.")), "127.0.0.1")


def _address() -> str:
    """Return the address at which rank 0, the only client, reaches this machine's servers."""
    if ranks.rank() == 0:
        return "127.0.0.1"
    return own_address(["http://{MASTER_ADDR}:{MASTER_PORT}".format_map(os.environ)])


def free_port() -> int:
    """Return a TCP port that no program uses."""
    with socket.socket() as free:
        free.bind(("", 0))
        return int(free.getsockname()[1])
