"""vLLM servers that a run starts, restarts after crashes, and ends."""

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import requests
import torch

from learners.engines import EngineError
from learners.engines.api_key import KEY, make_key
from learners.engines.command import ServerSettings, command, environment
from learners.training import ranks
from resume_gym.folders.writer import open_to_append

START_TIMEOUT_S = 900.0
"""Timeout in seconds for the start of a server; reading a large model takes minutes."""
MAX_RESTARTS = 5
"""Maximum number of restarts of one server in a row."""
_STEADY_S = 600.0
"""Uptime in seconds after which the count of restarts is reset."""
# seconds between checks of the process, seconds between health checks, and seconds without a passed
# health check after which the server is restarted
_POLL_S, _CHECK_S, _UNHEALTHY_S = 0.2, 2.0, 5.0


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
        # a killed server leaves its sockets on disk
        self._sockets = tempfile.TemporaryDirectory(prefix="vllm-", ignore_cleanup_errors=True)
        self._environment = {
            **environment(settings, number),
            "VLLM_RPC_BASE_PATH": self._sockets.name,
        }
        self._log = log
        self._note = note
        self._ending = threading.Event()
        self._failed = ""
        self._answered = self._checked = 0.0
        self._process = self._spawn()
        # The kernel ends a server when the thread that started it exits, see `vllm_plugin`, so the
        # thread that restarts the server runs until `close`.
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_to_append(self._log), "ab") as log:
            # a new session: Ctrl-C must reach only the run, which then ends its servers, and all
            # processes of the server form a group, which `_end` kills
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
        """Kill all processes of the server, except resource trackers, which free memory."""
        self._process.kill()  # SIGTERM would wait for open connections
        self._process.wait()
        group = self._process.pid
        for _ in range(3):  # repeated, since a process may fork while the list of processes is read
            for process in psutil.process_iter():
                with contextlib.suppress(OSError, psutil.Error):  # already exited
                    member = os.getpgid(process.pid) == group
                    if member and "resource_tracker" not in " ".join(process.cmdline()):
                        process.kill()
            time.sleep(0.02)

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
        self._sockets.cleanup()


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


def _require_libnuma() -> None:
    """Raise an error at once if libnuma is missing; vLLM itself would fail only after minutes."""
    if sys.platform == "linux" and not torch.cuda.is_available():
        try:
            ctypes.CDLL("libnuma.so.1")
        except OSError as error:
            message = f"vLLM's build for CPUs needs libnuma (Debian package libnuma1): {error}"
            raise EngineError(message) from None
