"""Run a server, and see that all its processes end with it and with who started it.

    python -P serve.py PARENT COMMAND...

vLLM's server has processes of its own, which outlive it if it is killed, and which take ten
seconds until they can look after themselves; the sockets by which they talk stay where they were
made. This one does nothing else. It imports none of the project, so that it is there at once.
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
    """Run the command until it ends, or this process is told to; the command's status."""

    def stop(number: int, frame: FrameType | None) -> None:
        server.kill()  # nothing in it is worth waiting for its connections to close

    with tempfile.TemporaryDirectory(prefix="vllm-", ignore_cleanup_errors=True) as sockets:
        server = subprocess.Popen(
            command,
            env=os.environ | {"VLLM_RPC_BASE_PATH": sockets},
            preexec_fn=lambda: die_with_parent(signal.SIGKILL),
        )
        signal.signal(signal.SIGTERM, stop)
        die_with_parent(signal.SIGTERM)
        if os.getppid() != parent:  # it had gone before
            server.kill()
        status = server.wait()
        end_group()
    return status


def die_with_parent(number: int) -> None:
    """Ask the kernel for a signal when this process's parent is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def end_group() -> None:
    """Kill what is left of this process's group, but for who cleans up shared memory."""
    own = os.getpid()
    for _ in range(3):  # somebody may just be starting somebody
        for one in psutil.process_iter():
            try:
                ours = os.getpgid(one.pid) == own and one.pid != own
                if ours and "resource_tracker" not in " ".join(one.cmdline()):
                    one.kill()
            except (OSError, psutil.Error):  # it has just ended
                continue
        time.sleep(0.02)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), sys.argv[2:]))
