"""Supervise a vLLM server: end all its processes when the server or the process PARENT exits.

    python -P serve.py PARENT COMMAND...

A killed vLLM server leaves its sockets on disk. Its child processes may survive, since they begin
to watch their parent only after ten seconds. This supervisor removes the sockets and ends the
processes. For a fast start, this file imports nothing from the project.
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from types import FrameType

import psutil

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> int:
    """Run a command; kill it if this process receives SIGTERM or the parent process exits.

    Args:
        parent: process id of the parent process.
        command: program and arguments.

    Returns:
        Exit status of the command.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        server.kill()  # SIGTERM would wait for open connections

    with tempfile.TemporaryDirectory(prefix="vllm-", ignore_cleanup_errors=True) as sockets:
        server = subprocess.Popen(
            command,
            env=os.environ | {"VLLM_RPC_BASE_PATH": sockets},
            preexec_fn=lambda: die_with_parent(signal.SIGKILL),
        )
        signal.signal(signal.SIGTERM, stop)
        die_with_parent(signal.SIGTERM)
        if os.getppid() != parent:  # the parent exited before the call of `die_with_parent`
            server.kill()
        status = server.wait()
        end_group()
    return status


def die_with_parent(number: int) -> None:
    """Ask the kernel to send this process a signal when its parent exits; Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def end_group() -> None:
    """Kill other processes of this process group, except resource trackers, which free memory."""
    group = os.getpid()
    for _ in range(3):  # repeated, since a process may fork while the list of processes is read
        for process in psutil.process_iter():
            try:
                member = os.getpgid(process.pid) == group and process.pid != group
                if member and "resource_tracker" not in " ".join(process.cmdline()):
                    process.kill()
            except (OSError, psutil.Error):  # already exited
                continue
        time.sleep(0.02)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), sys.argv[2:]))
