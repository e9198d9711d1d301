"""The processes that train together: how they start, find each other and end.

Rank 0 drives: it samples, grades and keeps the run's folder. The others wait for what it tells
them. One command starts them on one machine; on several, start that command with torchrun and
its rendezvous flags on each.
"""

import ctypes
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

TIMEOUT = timedelta(minutes=10)
"""How long a collective of a training step may take before it is an error."""
_PATIENCE = timedelta(days=7)
"""How long ranks wait for the next command; what ends that wait is the launcher."""
INTERRUPTED = 128 + signal.SIGINT
"""The exit status of a run that Ctrl-C has ended, as shells have it."""
_PR_SET_PDEATHSIG = 1

_commands: Any = None
_reserved = 0


def world() -> int:
    """How many processes train."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is."""
    return dist.get_rank() if dist.is_initialized() else 0


def local_rank() -> int:
    """Which of this machine's processes this is."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def machines() -> int:
    """How many machines a launcher has started processes on."""
    return int(os.environ.get("GROUP_WORLD_SIZE", "1"))


def device() -> torch.device:
    """What this process trains on: one of the GPUs that the engines leave."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", _reserved + local_rank())


def cores() -> int:
    """The CPU's cores, shared out over the ranks of this machine."""
    return max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def launched() -> bool:
    """Whether a launcher has started this process as one of several."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(procs: int, command: Sequence[str]) -> int:
    """Run a Python script in several processes of this machine, as torchrun does.

    Args:
        procs: how many.
        command: the script and its arguments.

    Returns:
        The exit status: 0, or that of the first process that failed; the others are ended.
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
            print(f"error: process {number} of {procs} was ended by {name}", file=sys.stderr)
        return abs(failure.exitcode)
    return 0


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel to kill this process when its parent is gone, however it went.

    Args:
        parent: the process that started this one; if it is gone already, this one ends now.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        raise SystemExit(1)


def start(reserved: int = 0) -> None:
    """Join the other processes, if a launcher has started this one as one of several.

    Args:
        reserved: so many of each machine's GPUs, the first ones, are the engines'.
    """
    global _commands, _reserved
    _reserved = reserved
    where = device()
    if where.type == "cuda":
        torch.cuda.set_device(where)
    if not launched():
        return
    die_with_parent()
    # whoever is in a collective when it comes cannot handle it; the launcher tells of it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    backend = "cpu:gloo,cuda:nccl" if where.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=TIMEOUT)
    _commands = dist.new_group(backend="gloo", timeout=_PATIENCE)


def end(status: int = 0) -> None:
    """Leave the others; a process that is one of several ends here.

    Args:
        status: of its exit. If it is 0, all are waited for.
    """
    if not dist.is_initialized():
        return
    if status == 0:
        barrier()
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    # Gloo's threads outlive their groups, whoever else knows those; one that lets go of a tensor
    # while Python takes itself apart aborts the process
    os._exit(status)


def gather(value: Any) -> list[Any]:
    """The values of all ranks, on all ranks, in their order."""
    if world() == 1:
        return [value]
    every: list[Any] = [None] * world()
    dist.all_gather_object(every, value, group=_commands)
    return every


def tell(value: Any) -> Any:
    """Rank 0's value, on all ranks; they wait for it as long as it takes."""
    if world() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0, group=_commands)
    return box[0]


@cache
def background() -> Any:
    """A group for what goes on beside the training steps; made on all ranks at once."""
    return dist.new_group(backend="gloo", timeout=TIMEOUT)


def barrier() -> None:
    """Wait until all ranks are here."""
    if world() > 1:
        dist.barrier(group=_commands)


def reduce(sums: Mapping[str, float]) -> dict[str, float]:
    """Sums over all ranks; maxima for names that end in `_max`. All ranks have the same names."""
    every = gather(dict(sums))
    names = {name for one in every for name in one}
    return {
        name: (max if name.endswith("_max") else sum)(one.get(name, 0.0) for one in every)
        for name in sorted(names)
    }
