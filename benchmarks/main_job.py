"""What the default run learns: three seeds, before and after on 40 held-out mini tasks x 4.

    python benchmarks/main_job.py            # three whole runs, one after the other
    python benchmarks/main_job.py --quick    # one run of two steps, to see that it works
    python benchmarks/main_job.py --keep F   # the runs stay in the folder F

Each seed is the command `python learners/aipo.py --seed S --eval-rollouts 4` in a separate folder.
At the end, the trained policies play the held-out tasks, and lines that they changed are sampled
for readers (`written_lines.py`).
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from record import Figure, finish, parser
from written_lines import sample

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
    minutes = (time.monotonic() - began) / 60
    metrics = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    settings = (path / "config.toml").read_text().splitlines()
    laps = ("seconds_rollout", "seconds_train", "seconds_publish")
    return {
        "seed": seed,
        "minutes": minutes,
        "minutes_of_steps": sum(row[lap] for row in metrics for lap in laps) / 60,
        "before": json.loads((path / "before.json").read_text()),
        "after": json.loads((path / "after.json").read_text()),
        "reward_by_step": [round(row["reward"], 4) for row in metrics],
        "config": [line for line in settings if not line.startswith(("runs =", "name ="))],
    }


def play(trained: list[Path], out: str) -> Path:
    """Episodes of the trained policies and of the careful agent, one on each held-out task."""
    agents = [f"--agent={one}" for one in (*trained, "careful")]
    command = [sys.executable, "-m", "resume_gym", "eval", "--env", "ResumeEditMini-v0"]
    subprocess.run([*command, *agents, "--rollouts", "1", "--out", f"{out}/played"], check=True)
    return Path(out) / "played" / "episodes.jsonl"


def main() -> int:
    """Run, print, record; 1 if a figure is not as wanted."""
    reader = parser(__doc__ or "")
    reader.add_argument("--keep", help="folder for the runs (default: a temporary one)")
    args = reader.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or temporary
        seeds = SEEDS[:1] if args.quick else SEEDS
        flags = QUICK if args.quick else ["--eval-rollouts=4"]
        runs = [run(seed, folder, flags) for seed in seeds]
        if not args.quick:
            sample(play([Path(folder) / f"seed-{seed}" for seed in seeds], temporary), "nano")
    before, after = ([one[when] for one in runs] for when in ("before", "after"))
    by_weakness = {
        weakness: fmean(one["by_weakness"][weakness] for one in after)
        for weakness in after[0]["by_weakness"]
    }
    figures = [
        Figure("mean reward before", fmean(one["reward"] for one in before)),
        Figure("submit rate before", fmean(one["submit_rate"] for one in before)),
        Figure("share of edits that failed, before", fmean(one["failed_share"] for one in before)),
        Figure(
            "hallucination score before",
            fmean(one["verdict"]["hallucination"] for one in before),
        ),
        Figure("mean reward after", fmean(one["reward"] for one in after), at_least=5.4),
        Figure("least mean reward after", min(one["reward"] for one in after)),
        Figure("content after", fmean(one["content"] for one in after), at_least=1.8),
        *(
            Figure(f"mean reward after, {weakness}", value, at_least=4.0)
            for weakness, value in by_weakness.items()
        ),
        Figure("submit rate after", fmean(one["submit_rate"] for one in after), at_least=0.95),
        Figure(
            "share of edits that failed, after",
            fmean(one["failed_share"] for one in after),
            at_most=0.08,
        ),
        Figure(
            "hallucination score after",
            fmean(one["verdict"]["hallucination"] for one in after),
            at_least=0.85,
        ),
        Figure("minutes, the longest", max(one["minutes"] for one in runs), at_most=10),
        # before, during and after; start and export count as well
        Figure(
            "share of the time that an evaluation takes, at most",
            fmean((1 - one["minutes_of_steps"] / one["minutes"]) / 3 for one in runs),
            at_most=0.1,
        ),
    ]
    return finish("main_job", args, figures, {"runs": runs}, ("torch", "transformers"))


if __name__ == "__main__":
    sys.exit(main())
