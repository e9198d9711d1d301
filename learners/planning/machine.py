"""Hardware description for `--dry-run`."""

import os
import re
from typing import NamedTuple, Self

import torch

from learners.errors import ConfigError
from learners.training.flops import GPUS
from resume_gym.support.user_errors import number_of

# `_MACHINE` matches up to two counts, of machines and of GPUs; a single count is that of GPUs
_COUNT, _FORM = r"(?:([1-9]\d*) ?x ?)?", r"(?:[ -](?:SXM\d?|PCIe|NVL|HBM\w+|\d+ ?GB))*"
_MACHINE = re.compile(
    rf"{_COUNT}?{_COUNT}(?:NVIDIA )?((?:GeForce )?({'|'.join(GPUS)}){_FORM})", re.I
)


class Machine(NamedTuple):
    """Hardware of one machine, or of several identical machines.

    Attributes:
        gpus: name and memory in bytes of each GPU of a machine.
        memory_bytes: CPU memory of a machine; 0 if unknown.
        cores: CPU cores of a machine; 0 if unknown.
        number: number of machines.
    """

    gpus: tuple[tuple[str, int], ...]
    memory_bytes: int = 0
    cores: int = 0
    number: int = 1

    @classmethod
    def here(cls) -> Self:
        """Describe the current machine."""
        devices = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        gpus = tuple((device.name, device.total_memory) for device in devices)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return cls(gpus, memory, os.cpu_count() or 1)

    @classmethod
    def named(cls, text: str) -> Self:
        """Parse "here" (this machine), "4 x NVIDIA H200" or "2 x 8 x NVIDIA H200" (two machines).

        A GPU may also have the full name that the device reports, such as "NVIDIA H100 80GB HBM3".

        Raises:
            ConfigError: the text cannot be parsed, or names a GPU that is not in `GPUS`.
        """
        if text == "here":
            return cls.here()
        match = _MACHINE.fullmatch(text)
        if match is None:
            expected = f"such as '4 x NVIDIA H200', of type {' or '.join(GPUS)}"
            raise ConfigError(f"--dry-run: expected GPUs {expected}; got {text!r}")
        reported = re.search(r"(\d+) ?GB", match[3], re.I)
        known = {name.upper(): gpu.memory for name, gpu in GPUS.items()}[match[4].upper()]
        memory = int(reported[1]) * 10**9 if reported else known
        gpus = ((f"NVIDIA {match[3]}", memory),) * int(match[2] or 1)
        return cls(gpus, number=int(match[1] or 1))

    def __str__(self) -> str:
        names = " and ".join(sorted({name for name, _ in self.gpus}))
        devices = f"{len(self.gpus)} x {names}" if names else number_of(self.cores, "CPU core")
        return f"{self.number} x {devices}" if self.number > 1 else devices
