"""Training processes (ranks): start, exit and communication over torch.distributed.

All ranks run the same loop; rank 0 also samples, grades and writes the run's folder. On one
machine, `launch` starts all processes; on several machines, users start torchrun on each machine.
"""

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

TIMEOUT = timedelta(minutes=10)
"""Timeout of collectives within a training step."""
_COMMAND_TIMEOUT = timedelta(days=7)
"""Timeout of `broadcast`, `gather` and `barrier`; long, since ranks wait while rank 0 samples."""
INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a run ended by Ctrl-C, following the convention of shells."""
ALLOCATOR = ("PYTORCH_ALLOC_CONF", "expandable_segments:True")
"""Setting of PyTorch's allocator; without it, rows of different lengths fragment GPU memory."""
_PR_SET_PDEATHSIG = 1
_ORPHANED_S = 10.0

_T = TypeVar("_T")
_commands: dist.ProcessGroup | None = None
_reserved = 0


def world() -> int:
    """Return the number of training processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Return the rank of this process."""
    return dist.get_rank() if dist.is_initialized() else 0


def local_rank() -> int:
    """Return the rank of this process on its machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def device() -> torch.device:
    """Return the device of this process: a GPU not reserved for engines, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", _reserved + local_rank())


def synchronize() -> None:
    """Wait until the device of this process has finished its work."""
    if device().type == "cuda":
        torch.cuda.synchronize()


def cores() -> int:
    """Return this rank's share of the machine's CPU cores, at least 1."""
    return max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def launched() -> bool:
    """Return whether torchrun has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(procs: int, command: Sequence[str]) -> int:
    """Run a Python script in several processes of this machine with torchrun.

    Args:
        procs: number of processes.
        command: the script and its arguments.

    Returns:
        0; the exit status or signal number of the first process that failed; or 128 + the number of
        the signal sent to torchrun.
    """
    from torch.distributed.run import main

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // procs)))
    for name in ("torch.distributed.elastic", "torch.distributed.elastic.agent.server.api"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        main(["--standalone", f"--nproc-per-node={procs}", *command])
    except SignalException as error:
        return 128 + error.sigval
    except ChildFailedError as error:
        number, failure = error.get_first_failure()
        if failure.exitcode < 0:
            name = signal.Signals(-failure.exitcode).name
            print(f"resume-gym: process {number} of {procs} was ended by {name}", file=sys.stderr)
        return abs(failure.exitcode)
    return 0


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel to kill this process when its parent exits for any reason; Linux only.

    Args:
        parent: process id of the expected parent; if that process has exited, exit now, too.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        raise SystemExit(1)


def start(reserved: int = 0) -> None:
    """Select this process's device; if torchrun started the process, join the process group.

    Unless the user has configured PyTorch's CUDA allocator, apply `ALLOCATOR` first: selecting a
    device initialises CUDA, and the allocator then reads its configuration.

    Args:
        reserved: number of GPUs of each machine that engines use, starting with the first GPU.
    """
    global _commands, _reserved
    _reserved = reserved
    if "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:  # the older name of the same variable
        os.environ.setdefault(*ALLOCATOR)
    chosen = device()
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if not launched():
        return
    die_with_parent()
    # Python cannot handle Ctrl-C within a collective, so Ctrl-C kills the process immediately
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    backend = "cpu:gloo,cuda:nccl" if chosen.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=TIMEOUT)
    _commands = dist.new_group(backend="gloo", timeout=_COMMAND_TIMEOUT)


def end(status: int = 0) -> None:
    """Exit with `status`; do nothing if this process belongs to no process group.

    Args:
        status: exit status. With status 0, wait for all ranks first.
    """
    if not dist.is_initialized():
        return
    if status == 0:
        barrier()
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    # Skip the interpreter's shutdown: Gloo's threads outlive their process group, and a thread that
    # frees a tensor during the shutdown aborts the process.
    os._exit(status)


def wait_for_end() -> None:
    """After a failure of another rank, wait until the launcher ends this process.

    When a process fails, the launcher ends the other processes and reports the failure. Return
    after `_ORPHANED_S` seconds if this process is still alive, or at once if it is the only rank.
    """
    if world() > 1:
        time.sleep(_ORPHANED_S)


def gather(value: _T) -> list[_T]:
    """Return the values of all ranks, in order of rank, on all ranks."""
    if world() == 1:
        return [value]
    values = [value] * world()
    dist.all_gather_object(values, value, group=_commands)
    return values


def broadcast(value: _T) -> _T:
    """Return rank 0's value on all ranks; the other ranks wait for it, for days if necessary."""
    if world() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0, group=_commands)
    return box[0]


@cache
def background() -> dist.ProcessGroup | None:
    """Return the process group for background threads; the first call is collective."""
    return dist.new_group(backend="gloo", timeout=TIMEOUT)  # type: ignore[no-any-return]


def barrier() -> None:
    """Wait until all ranks reach this point."""
    if world() > 1:
        dist.barrier(group=_commands)


def reduce(sums: Mapping[str, float]) -> dict[str, float]:
    """Return each metric's sum over ranks, or maximum for names `*_max`; missing values are 0."""
    metrics = gather(dict(sums))
    names = sorted({name for of_rank in metrics for name in of_rank})
    return {
        name: (max if name.endswith("_max") else sum)(of_rank.get(name, 0.0) for of_rank in metrics)
        for name in names
    }
