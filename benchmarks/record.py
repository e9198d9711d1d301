"""Shared code of the benchmarks: options, measured values with their targets, result files."""

import argparse
import json
import os
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
ENVS = {"full": "ResumeEdit-v0", "mini": "ResumeEditMini-v0"}


@dataclass(frozen=True)
class Figure:
    """Measured value with its target.

    Attributes:
        name: description of what was measured, with the unit.
        value: measured value, such as the median over all repetitions.
        at_least: minimum that the target demands, if any.
        at_most: maximum that the target allows, if any.
    """

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool:
        """Whether the value meets its target."""
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    def __str__(self) -> str:
        bounds = ((">=", self.at_least), ("<=", self.at_most))
        wanted = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
        missed = "" if self.met else "  MISSED"
        digits = 0 if abs(self.value) >= 100 else 3
        return f"{self.name}: {self.value:,.{digits}f} (wanted {wanted or 'any'}){missed}"


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser for the options of all benchmarks; a benchmark may add more options."""
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--quick", action="store_true", help="fewer repetitions, no result file")
    found.add_argument("--machine", default=machine(), help="kind of machine, for file names")
    return found


def options(description: str) -> argparse.Namespace:
    """Parse the options that all benchmarks share."""
    return parser(description).parse_args()


def finish(
    name: str,
    args: argparse.Namespace,
    figures: list[Figure],
    repetitions: dict[str, Any],
    packages: tuple[str, ...] = (),
) -> int:
    """Print the figures and, after a full run, write the result file.

    Returns:
        The exit status: 1 if a figure misses its target, else 0.
    """
    for figure in figures:
        print(figure)
    if not args.quick:
        path = write(name, args, figures, repetitions, packages)
        print(f"written: {path.relative_to(Path(__file__).parents[1])}")
    return 0 if all(figure.met for figure in figures) else 1


def write(
    name: str,
    args: argparse.Namespace,
    figures: list[Figure],
    repetitions: dict[str, Any],
    packages: tuple[str, ...] = (),
) -> Path:
    """Write the result file of a benchmark, and return the path."""
    result = {
        "benchmark": name,
        "machine": args.machine,
        "processor": processor(),
        "cores": os.cpu_count(),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), **versions(packages)},
        "figures": [{**asdict(figure), "met": figure.met} for figure in figures],
        "repetitions": repetitions,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{args.machine}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of resume-gym, gymnasium, numpy and `packages`, if installed."""
    found: dict[str, Any] = {}
    for package in ("resume-gym", "gymnasium", "numpy", *packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def resident_kb() -> float:
    """Return the resident memory of this process in KB."""
    import psutil

    return float(psutil.Process().memory_info().rss / 1024)


def processor() -> str:
    """Return the model name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def machine() -> str:
    """Return the kind of machine, such as "2-core-xeon"; it does not reveal the host name.

    "-bf16" at the end says that the CPU multiplies in bfloat16, which trains several times faster.
    """
    model = processor().lower()
    families = ("xeon", "epyc", "ryzen", "core", "apple", "neoverse", "grace")
    family = next((one for one in families if one in model), platform.machine().lower())
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text().split() if cpuinfo.exists() else []
    fast = {"avx512_bf16", "amx_bf16", "bf16"} & set(flags)
    return f"{os.cpu_count()}-core-{family}" + ("-bf16" if fast else "")
