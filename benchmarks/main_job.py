"""What the default run learns: three seeds, before and after on 20 held-out mini tasks x 16.

    python benchmarks/main_job.py            # three whole runs, one after the other
    python benchmarks/main_job.py --quick    # one run of two steps, to see that it works

Each seed is the command `python learners/aipo.py --seed S` in a folder of its own.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from record import Figure, finish, options

ROOT = Path(__file__).parents[1]
SEEDS = (1, 2, 3)
QUICK = ["--steps=2", "--groups=1", "--group-size=4", "--eval-tasks=2", "--eval-rollouts=2"]


def run(seed: int, folder: str, extra: list[str]) -> dict[str, Any]:
    """One run: what it measured before and after, its metrics, its wall time in minutes."""
    name = f"seed-{seed}"
    flags = ["--seed", str(seed), "--name", name, "--runs", folder, *extra]
    began = time.monotonic()
    subprocess.run([sys.executable, str(ROOT / "learners" / "aipo.py"), *flags], check=True)
    path = Path(folder) / name
    metrics = (path / "metrics.jsonl").read_text().splitlines()
    settings = (path / "config.toml").read_text().splitlines()
    return {
        "seed": seed,
        "minutes": (time.monotonic() - began) / 60,
        "before": json.loads((path / "before.json").read_text()),
        "after": json.loads((path / "after.json").read_text()),
        "reward_by_step": [round(json.loads(line)["reward"], 4) for line in metrics],
        "config": [line for line in settings if not line.startswith(("runs =", "name ="))],
    }


def main() -> int:
    """Run, print, record; 1 if a figure is not as wanted."""
    args = options(__doc__ or "")
    with tempfile.TemporaryDirectory() as folder:
        seeds = SEEDS[:1] if args.quick else SEEDS
        runs = [run(seed, folder, QUICK if args.quick else []) for seed in seeds]
    before, after = ([one[when] for one in runs] for when in ("before", "after"))
    figures = [
        Figure("mean reward before", fmean(one["reward"] for one in before)),
        Figure("mean reward after", fmean(one["reward"] for one in after), at_least=5.4),
        Figure("least mean reward after", min(one["reward"] for one in after)),
        Figure("submit rate after", fmean(one["submit_rate"] for one in after), at_least=0.95),
        Figure(
            "share of edits that failed, after",
            fmean(one["failed_share"] for one in after),
            at_most=0.08,
        ),
        Figure(
            "hallucination score after",
            fmean(one["verdict"]["hallucination"] for one in after),
            at_least=0.8,
        ),
        Figure("minutes, the longest", max(one["minutes"] for one in runs), at_most=12),
    ]
    return finish("main_job", args, figures, {"runs": runs}, ("torch", "transformers"))


if __name__ == "__main__":
    sys.exit(main())
