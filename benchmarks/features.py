"""Measure what each feature of the environment and of the training buys, from the same start.

    python benchmarks/features.py --keep F                  # all features, two seeds, hours
    python benchmarks/features.py --keep F --ended --seeds 3      # and third runs
    python benchmarks/features.py --keep F --arms "pay by the line" evidence --seeds 1
    python benchmarks/features.py --quick                   # to see that it works

Each feature is an arm with `--seeds` runs of the default length, kept in F and reused. All models
play the same held-out mini pages as in `main_job.py`, whose `Matrix` trains and plays; the same
episodes are graded by pay by the line and by the default table. Each arm is compared with the arm
that lacks only its feature (`BASES`). If the feature is an environment (`ENVS`), the arm, its base
and the start also play the held-out pages of this environment. Those rewards are reported by
weakness.

Importing this module registers `ResumeEditLayoutMini-v0`, the default table with continuous layout.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium as gym
from main_job import Arm, Matrix, named
from record import Figure, finish, parser

from learners.run.folder import RunFolder
from resume_gym.episode.rewards import components

MINI = gym.spec("ResumeEditMini-v0")
gym.register(
    id="ResumeEditLayoutMini-v0",
    entry_point=MINI.entry_point,
    kwargs={**MINI.kwargs, "layout_reward": "continuous"},
)
ENVS: Mapping[str, str] = {
    "continuous layout": "features:ResumeEditLayoutMini-v0",
    "feedback tool": "ResumeEditFeedbackMini-v0",
    "evidence": "ResumeEditEvidenceMini-v0",
}
"""Features that are environments, each with the default table."""
DEFAULT = "--env=ResumeEditMini-v0"
RANKED = '{"name": "listwise", "judge": "rubric", "weight": 0.5}'
ARMS: Mapping[str, Arm] = {
    "pay by the line": Arm(),
    "default table": Arm((DEFAULT,)),
    **{name: Arm((f"--env={env}",)) for name, env in ENVS.items()},
    "ladder": Arm(("--tasks=ladder-mini:5",)),
    "targeted feedback": Arm(("--feedback-weight=0.1",)),
    "targeted feedback, sampled": Arm(("--feedback-weight=0.1", "--feedback-form=sampled")),
    "targeted feedback alone": Arm(("--feedback-weight=0.1", "--credit=none")),
    "default table, by episode": Arm((DEFAULT, "--credit=episode")),
    "group comparison": Arm((DEFAULT, "--credit=episode", f"--judge={RANKED}")),
}
"""Features by name. The judge of the last one is asked once an episode, so it has credit by
episode."""
BASES: Mapping[str, str] = {
    **dict.fromkeys(("start", *ARMS), "pay by the line"),
    **dict.fromkeys((*ENVS, "default table, by episode"), "default table"),
    "group comparison": "default table, by episode",
}
"""The arm that each arm is compared with."""
GROUPS = ("equal_groups", "equal_groups_left")
"""Shares of groups whose members earn the same, without and with the scores of a group."""


def main() -> int:
    """Train, play, then print and record the figures."""
    args = read_arguments()
    with tempfile.TemporaryDirectory() as temporary:
        matrix = Matrix(args, (args.keep or Path(temporary)).resolve(), ARMS)
        models = {"start": [args.start]}
        models |= {arm: found for arm in args.arms if (found := matrix.models(arm))}
        repetitions = {
            "mini": matrix.table("mini", models, BASES),
            "own environment": {arm: own(matrix, arm, models) for arm in ENVS if arm in models},
            "groups": {arm: groups(found) for arm, found in models.items() if arm != "start"},
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
        args.seeds, args.rollouts = 1, 1
        args.arms = ["continuous layout", "targeted feedback", "group comparison"]
    return args


def own(
    matrix: Matrix, arm: str, models: Mapping[str, list[str]]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return the rewards of the start, of an arm and of its base in the arm's environment.

    Returns:
        For each of them, the mean reward and its parts, for all pages and by weakness.
    """
    arms = ("start", BASES[arm], arm)
    agents = {name: model for one in arms for name, model in named(one, models.get(one, []))}
    found: dict[str, dict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in matrix.played("mini", agents, matrix.rollouts, (), env=ENVS[arm]):
        parts = {"reward": row["reward"], **components(row["ledger"])}
        for pages in ("all", row["weakness"]):
            found[row["agent"].rpartition(" ")[0]][pages].append(parts)
    return {
        name: {
            pages: {part: fmean(one[part] for one in rows) for part in rows[0]}
            for pages, rows in sorted(kinds.items())
        }
        for name, kinds in found.items()
    }


def groups(models: Iterable[str]) -> dict[str, float]:
    """Return the mean shares `GROUPS` in the training of these models; empty without scores."""
    steps = [row for model in models for row in RunFolder(Path(model).parent).metrics()]
    found = {name: [float(row[name]) for row in steps if name in row] for name in GROUPS}
    return {name: fmean(values) for name, values in found.items() if values}


def figures(found: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the figures of all arms on the same pages, and what their features buy."""
    for arm, row in found["mini"].items():
        yield Figure(f"{arm}: reward, pay by the line", row["net"])
        yield Figure(f"{arm}: reward, default table", row["default"])
        yield Figure(f"{arm}: share of edits that failed", row["failed share"])
        yield Figure(f"{arm}: failed calls an episode", row["failed calls"])
        if "more" in row and arm in ARMS:
            low, high = row["interval of more"]
            told = f"{arm}: more than {row['base']}, pay by the line ({low:.2f} to {high:.2f})"
            yield Figure(told, row["more"])
        if arm in found["minutes"]:
            yield Figure(f"{arm}: minutes a run", fmean(found["minutes"][arm]))
    for arm, rows in found["own environment"].items():
        for name, kinds in rows.items():
            for pages, parts in kinds.items():
                yield Figure(f"in {ENVS[arm]}, {pages}: {name}: reward", parts["reward"])


if __name__ == "__main__":
    sys.exit(main())
