"""Measure what the default training run learns, with three seeds, on 40 held-out tasks.

    python benchmarks/main_job.py            # six whole runs, one after the other
    python benchmarks/main_job.py --quick    # one run of two steps, to see that it works
    python benchmarks/main_job.py --keep F   # keep runs in the folder F; reuse finished runs there
    python benchmarks/main_job.py --seeds 1 --episode-seeds 0  # only seed 1

The run of seed S is the command `python learners/aipo.py --seed S --eval-rollouts 4`. Three more
runs add `--credit episode`. At the end, the trained policies and the scripted agents `floor` and
`careful` play the held-out tasks. A random sample of the lines that they changed is written to a
file for readers, whose labels `readers.py` counts.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from readers import sample
from record import Figure, finish, parser

ROOT = Path(__file__).parents[1]
SEEDS = (1, 2, 3)
BESIDE = ("floor", "careful")
STEPS = (5, 10, 20)
CURVES = ("reward", "content", "failed_share", "submit_rate", "verdict_hallucination")
"""Metrics whose means over the five steps that end at each of `STEPS` are recorded."""
FLAGS = ["--eval-rollouts=4"]
QUICK = ["--steps=2", "--groups=1", "--group-size=4", "--eval-tasks=2", "--eval-rollouts=2"]


def run(name: str, seed: int, folder: Path, extra: list[str]) -> dict[str, Any]:
    """Return the results of a training run; train only if `folder` holds no results of it."""
    file = folder / f"{name}.json"
    if file.exists():
        return json.loads(file.read_text())  # type: ignore[no-any-return]
    flags = ["--seed", str(seed), "--name", name, "--runs", str(folder), *extra]
    began = time.monotonic()
    subprocess.run([sys.executable, str(ROOT / "learners" / "aipo.py"), *flags], check=True)
    path = folder / name
    minutes = (time.monotonic() - began) / 60
    metrics = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    settings = (path / "config.toml").read_text().splitlines()
    laps = ("seconds_rollout", "seconds_train", "seconds_publish")
    after = json.loads((path / "after.json").read_text())
    held_out = after | {f"verdict_{name}": value for name, value in after["verdict"].items()}
    measured = {
        "seed": seed,
        "minutes": minutes,
        "minutes_of_steps": sum(row[lap] for row in metrics for lap in laps) / 60,
        "before": json.loads((path / "before.json").read_text()),
        "after": after,
        "reward_by_step": [round(row["reward"], 4) for row in metrics],
        "curves": {
            name: {
                **{f"step {n}": fmean(row[name] for row in metrics[n - 5 : n]) for n in STEPS},
                "held-out": held_out[name],
            }
            for name in CURVES
            if len(metrics) >= max(STEPS)
        },
        "config": [line for line in settings if not line.startswith(("runs =", "name ="))],
    }
    file.write_text(json.dumps(measured))
    return measured


def play(trained: list[Path], out: Path) -> tuple[Path, dict[str, Any]]:
    """Let each trained policy and each agent in `BESIDE` play each held-out task once.

    Returns:
        Path of `episodes.jsonl`, and the summary of each scripted agent by its name.
    """
    agents = [f"--agent={one}" for one in (*trained, *BESIDE)]
    command = [sys.executable, "-m", "resume_gym", "eval", "--env", "ResumeEditMini-v0"]
    subprocess.run([*command, *agents, "--rollouts", "1", "--out", str(out)], check=True)
    played = json.loads((out / "evaluation.json").read_text())["agents"]
    return out / "episodes.jsonl", {name: played[name]["summary"] for name in BESIDE}


def main() -> int:
    """Train, then print and record the figures; return 1 if a figure misses its target."""
    reader = parser(__doc__ or "")
    reader.add_argument("--keep", help="folder for the runs (default: a temporary one)")
    reader.add_argument("--seeds", type=int, choices=SEEDS, default=len(SEEDS), help="how many")
    more = "how many of the seeds also run with `--credit episode`"
    reader.add_argument("--episode-seeds", type=int, choices=(0, *SEEDS), default=3, help=more)
    reader.add_argument("--threads", type=int, default=0, help="CPU threads (default: all cores)")
    args = reader.parse_args()
    seeds = SEEDS[: args.seeds]
    flags = [*FLAGS, f"--threads={args.threads}"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(args.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if args.quick:
            runs, by_episode, beside = [run("seed-1", 1, folder, QUICK)], [], {}
        else:
            runs = [run(f"seed-{seed}", seed, folder, flags) for seed in seeds]
            episode = [*flags, "--credit=episode"]
            compared = seeds[: args.episode_seeds]
            by_episode = [run(f"episode-{seed}", seed, folder, episode) for seed in compared]
            trained = [folder / f"seed-{seed}" for seed in seeds]
            episodes, beside = play(trained, Path(temporary) / "played")
            sample(episodes, "nano")
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
        *(Figure(f"mean reward, {name}", one["reward"]) for name, one in beside.items()),
        Figure(
            "mean reward after",
            fmean(one["reward"] for one in after),
            at_least=fmean(one["reward"] for one in beside.values()) if beside else None,
        ),
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
        # This is an upper bound, since all time outside of training steps counts as time of the
        # three evaluations.
        Figure(
            "share of the time that an evaluation takes, at most",
            fmean((1 - one["minutes_of_steps"] / one["minutes"]) / 3 for one in runs),
            at_most=0.1,
        ),
    ]
    same_seeds = runs[: len(by_episode)]
    for credit, which in (("turn", same_seeds), ("episode", by_episode)) if by_episode else ():
        for name in CURVES:
            for when in which[0]["curves"][name]:
                value = fmean(one["curves"][name][when] for one in which)
                figures.append(Figure(f"credit by {credit}, {when}: {name}", value))
    repetitions = {"runs": runs, "by_episode": by_episode, "beside": beside}
    return finish("main_job", args, figures, repetitions, ("torch", "transformers"))


if __name__ == "__main__":
    sys.exit(main())
