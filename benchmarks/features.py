"""Measure what each feature of the environment and of the training buys, from the same start.

    python benchmarks/features.py --keep F                  # all features, two seeds, hours
    python benchmarks/features.py --keep F --arms "pay by the line" evidence --seeds 1
    python benchmarks/features.py --quick                   # to see that it works

Each feature is an arm with `--seeds` runs of the default length, kept in F and reused. All models
play the same held-out mini pages as in `main_job.py`, whose `Matrix` trains and plays; the same
episodes are graded by pay by the line and by the default table. Each model also plays the held-out
tasks of the environment that it was trained in, where rewards are reported by weakness.

Importing this module registers `ResumeEditLayoutMini-v0`, the default table with continuous layout.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium as gym
from main_job import ENV, Arm, Matrix
from record import Figure, finish, parser

from resume_gym.env import make_edit_env

MINI = {"tasks": "mini", "max_turns": 6, "page_lines": 20}
gym.register(
    id="ResumeEditLayoutMini-v0",
    entry_point="resume_gym.env:ResumeEditEnv",
    kwargs={**MINI, "layout_reward": "continuous"},
)
ENVS: Mapping[str, str] = {
    "default table": "ResumeEditMini-v0",
    "continuous layout": "features:ResumeEditLayoutMini-v0",
    "feedback tool": "ResumeEditFeedbackMini-v0",
    "evidence": "ResumeEditEvidenceMini-v0",
}
"""Features that are environments; all other arms train in `ENV`."""
RANKED = '{"name": "listwise", "judge": "rubric", "weight": 0.5}'
ARMS: Mapping[str, Arm] = {
    "pay by the line": Arm(),
    **{name: Arm((f"--env={env}",)) for name, env in ENVS.items()},
    "ladder": Arm(("--tasks=ladder-mini:5",)),
    "targeted feedback": Arm(("--feedback-weight=0.1",)),
    "targeted feedback, sampled": Arm(("--feedback-weight=0.1", "--feedback-form=sampled")),
    "targeted feedback alone": Arm(("--feedback-weight=0.1", "--credit=none")),
    "default table, by episode": Arm(("--env=ResumeEditMini-v0", "--credit=episode")),
    "group comparison": Arm(("--env=ResumeEditMini-v0", "--credit=episode", f"--judge={RANKED}")),
}
"""Features by name. The last arm is compared with the one before it: its judge is asked once an
episode, so it has credit by episode."""


def main() -> int:
    """Train, play, then print and record the figures."""
    args = read_arguments()
    with tempfile.TemporaryDirectory() as temporary:
        matrix = Matrix(args, (args.keep or Path(temporary)).resolve(), ARMS)
        models = {"start": [args.start]}
        models |= {arm: found for arm in args.arms if (found := matrix.models(arm))}
        repetitions = {
            "mini": matrix.table("mini", models),
            "own environment": {
                arm: own(matrix, arm, models) for arm in args.arms if arm in models
            },
            "minutes": matrix.minutes(models),
        }
    return finish(
        "features", args, list(figures(repetitions)), repetitions, ("torch", "transformers")
    )


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    reader = parser(__doc__ or "")
    reader.add_argument("--keep", type=Path, help="folder of the runs (default: a temporary one)")
    reader.add_argument("--start", default="nano", help="model of the start (default: nano)")
    reader.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    reader.add_argument("--seeds", type=int, default=2, help="number of runs of each arm")
    reader.add_argument("--ended", action="store_true", help="play the ended runs, train none")
    reader.add_argument("--rollouts", type=int, default=4, help="episodes per page")
    reader.add_argument("--threads", type=int, default=0, help="CPU threads (default: all cores)")
    args = reader.parse_args()
    if args.quick:
        args.arms, args.seeds, args.rollouts = ["continuous layout", "group comparison"], 1, 1
    return args


def own(matrix: Matrix, arm: str, models: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the rewards of the start and of an arm in its environment, by weakness."""
    env = ENVS.get(arm, ENV)
    weakness = {task.task_id: task.weakness for task in make_edit_env(env, split="eval").tasks}
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    agents = {"start 0": models["start"][0]}
    agents |= {f"{arm} {n}": model for n, model in enumerate(models[arm])}
    for row in matrix.played("mini", agents, matrix.rollouts, (), env=env):
        name = row["agent"].rpartition(" ")[0]
        found[name][weakness[row["task_id"]]].append(row["reward"])
    return {
        name: {kind: fmean(rewards) for kind, rewards in sorted(kinds.items())}
        for name, kinds in found.items()
    }


def figures(found: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the rewards of all arms on both tables, and their failed calls."""
    for arm, row in found["mini"].items():
        yield Figure(f"{arm}: reward, pay by the line", row["net"])
        yield Figure(f"{arm}: reward, default table", row["default"])
        yield Figure(f"{arm}: share of edits that failed", row["failed share"])


if __name__ == "__main__":
    sys.exit(main())
