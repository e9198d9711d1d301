"""The GPU benchmark with small sizes on the CPU: it runs, and what it checks holds here."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.py"
CHECKS = ("ceilings", "layers", "weights")


@pytest.mark.slow
@pytest.mark.parametrize(
    "checks", [pytest.param("correctness", marks=pytest.mark.slow), "speed", "layers"]
)
def test_the_script_runs_on_a_cpu(checks: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), checks, "--tiny", "--minutes=60"],  # the machine may be busy
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert "MISSED" not in done.stdout


@pytest.mark.slow
def test_when_the_time_is_over_what_is_left_is_recorded() -> None:
    command = [sys.executable, str(SCRIPT), "layers", "--tiny", "--minutes=0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    late = [f"{name}: FAILED\nnot run: 0 minutes are over\n" for name in CHECKS]
    assert done.stdout == "".join(late)


def test_without_a_gpu_only_small_sizes_run() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "speed"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "expected a CUDA device; without one, only --tiny runs" in done.stderr
