"""What a CPU needs before PyTorch is fast on it."""

import ctypes
import os
import sys

import torch

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


def prepare_cpu(threads: int = 0) -> None:
    """Set the number of threads (0: all cores), and let glibc keep the memory it has.

    By default each large tensor is mapped anew and given back, and a training step spends a third
    of its time in page faults.
    """
    torch.set_num_threads(threads or os.cpu_count() or 1)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):  # musl has none
            libc.mallopt(_M_MMAP_MAX, 0)
            libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
            libc.mallopt(_M_TOP_PAD, 2**28)
