"""The GPU benchmarks with small sizes on the CPU: they run, and what they check holds here."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
CHECKS = ("ceilings", "layers", "weights")


def run(script: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / script), *flags]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("script", ["gpu_correctness.py", "gpu_speed.py", "gpu_speed.py --layers"])
def test_the_script_runs_on_a_cpu(script: str) -> None:
    done = run(*script.split(), "--tiny", "--minutes=60")  # the machine may be busy
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert "MISSED" not in done.stdout


@pytest.mark.slow
def test_when_the_time_is_over_what_is_left_is_recorded() -> None:
    done = run("gpu_speed.py", "--layers", "--tiny", "--minutes=0")
    assert done.returncode == 1
    late = [f"{name}: FAILED\nnot run: 0 minutes are over\n" for name in CHECKS]
    assert done.stdout == "".join(late)


def test_without_a_gpu_only_small_sizes_run() -> None:
    done = run("gpu_speed.py")
    assert done.returncode == 2
    assert "expected a CUDA device; without one, only --tiny runs" in done.stderr
