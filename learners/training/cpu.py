"""Process settings that make PyTorch fast on CPUs."""

import ctypes
import os
import sys

import torch

# options of mallopt(), from glibc's malloc.h
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


def return_memory() -> None:
    """Return freed memory to the operating system; glibc does not do so after `prepare_cpu`.

    Call this function regularly: freed tensors leave unused gaps between long-lived objects.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "malloc_trim"):  # musl has no malloc_trim
            libc.malloc_trim(0)


def has_bfloat16() -> bool:
    """Return whether this machine has a GPU, or a CPU with instructions for bfloat16.

    Without these instructions, a CPU emulates bfloat16, which is far slower than float32.
    """
    able = torch.cpu.get_capabilities()
    return torch.cuda.is_available() or any(
        able.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16")
    )


def prepare_cpu(threads: int = 0) -> None:
    """Set the thread count (0: all cores), let glibc keep freed memory, and limit oneDNN's cache.

    By default, glibc maps and unmaps the memory of each large tensor; the resulting page faults
    take a third of the time of a training step. For bfloat16, oneDNN compiles kernels for each
    number of tokens in a batch, and caches 1024 kernels by default. Two batches rarely have the
    same number of tokens, so the cached kernels would take gigabytes.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    torch.set_num_threads(threads or os.cpu_count() or 1)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):  # musl has no mallopt
            libc.mallopt(_M_MMAP_MAX, 0)
            libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
            libc.mallopt(_M_TOP_PAD, 2**28)
