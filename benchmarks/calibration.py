"""Compare the rubric judge's verdicts with the labels of pairs (original and revised resume).

python benchmarks/calibration.py

The rubric judge was developed on the same pairs. This script prints the figures, then the table of
docs/results.md. For other judges, use `resume-gym judge calibrate`.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from record import Figure, finish, options

from resume_gym.episode.rewards import GRADED_FIELDS
from resume_gym.judges import as_async, make_judge
from resume_gym.judges.audit import (
    FABRICATIONS,
    HALVES,
    Agreement,
    Share,
    calibrate,
    load_pairs,
)
from resume_gym.llm.loop import submit

RECALL = dict.fromkeys(FABRICATIONS, 0.97) | {"moved_number": 0.9, "prose_claim": 0.7}
FALSE_ALARMS = 0.03
RIGHT = 0.85


def main() -> int:
    """Judge the labelled pairs; print and record figures; return 1 if one misses its target."""
    args = options(__doc__ or "")
    judge = as_async(make_judge("rubric"))
    found = {half: submit(calibrate(judge, load_pairs(half=half), swap=True)) for half in HALVES}
    reports = {half: one.result() for half, one in found.items()}
    rounds = 1 if args.quick else 5
    alone = [submit(calibrate(judge, load_pairs(), concurrency=1)).result() for _ in range(rounds)]
    seconds = {part: [one.seconds[part] for one in alone] for part in ("p50", "p95")}
    figures = [
        *wanted(reports["test"]),
        Figure("time for a verdict, median, ms", 1e3 * median(seconds["p50"]), at_most=9.0),
        Figure("time for a verdict, 95th percentile, ms", 1e3 * median(seconds["p95"])),
    ]
    repetitions: dict[str, Any] = {half: asdict(one) for half, one in reports.items()}
    status = finish(
        "calibration",
        args,
        figures,
        {**repetitions, "seconds alone": seconds},
        ("rapidfuzz", "snowballstemmer"),
    )
    print("\n" + markdown(reports))
    return status


def wanted(found: Agreement) -> list[Figure]:
    """Return figures of the judge's agreement with the labels of the "test" half, with targets."""
    recall = [
        Figure(f"test half, {kind}: found", value(one), at_least=RECALL[kind])
        for kind, one in found.recall.items()
    ]
    alarms = value(found.false_alarms["honest_rewrite"])
    right = [
        Figure(f"test half, {field}: right", value(found.accuracy[field]), at_least=RIGHT)
        for field in GRADED_FIELDS
    ]
    return [*recall, Figure("test half, false alarms", alarms, at_most=FALSE_ALARMS), *right]


def value(one: Share) -> float:
    if one.value is None:
        raise ValueError("expected labelled pairs of every kind, got none of one")
    return one.value


def markdown(reports: Mapping[str, Agreement]) -> str:
    """Return a Markdown table of the agreement on both halves of the pairs, "test" and "dev"."""
    test, dev = reports["test"], reports["dev"]
    rows = [
        "| rubric judge | test half | 95 % interval | wanted | development |",
        "|---|---|---|---|---|",
    ]
    for kind, one in test.recall.items():
        name = f"found: {kind.replace('_', ' ')}"
        rows.append(row(name, one, f">= {RECALL[kind]:.0%}", dev.recall[kind]))
    for name, limit in (("honest_rewrite", f"<= {FALSE_ALARMS:.0%}"), ("all", "")):
        label = "rewordings" if name == "honest_rewrite" else "all honest revisions"
        one, other = test.false_alarms[name], dev.false_alarms[name]
        rows.append(row(f"false alarms: {label}", one, limit, other))
    for field in GRADED_FIELDS:
        kappa = test.kappa[field]
        name = f"right: {field}" + (f" (kappa {kappa:.2f})" if kappa is not None else "")
        rows.append(row(name, test.accuracy[field], f">= {RIGHT:.0%}", dev.accuracy[field]))
    return "\n".join(rows)


def row(name: str, one: Share, limit: str, other: Share) -> str:
    interval = f"{one.low:.0%} to {one.high:.0%}"
    return f"| {name} | {tell(one)} | {interval} | {limit} | {tell(other)} |"


def tell(one: Share) -> str:
    return f"{value(one):.1%} ({one.hits}/{one.total})"


if __name__ == "__main__":
    sys.exit(main())
