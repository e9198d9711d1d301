"""`resume-gym judge calibrate`: measure a judge on labelled pairs."""

import argparse
from dataclasses import asdict
from pathlib import Path

from resume_gym.cli.arguments import (
    Commands,
    add_judge,
    add_options,
    add_parser,
    make_async_judge,
    positive,
    print_json,
)
from resume_gym.judges import JudgeError
from resume_gym.judges.audit.agreement import table
from resume_gym.judges.audit.calibration import calibrate
from resume_gym.judges.audit.pairs import HALVES, PAIRS, load_pairs, spread
from resume_gym.llm.loop import submit
from resume_gym.rewards import VERDICT_FIELDS


def add_command(commands: Commands) -> None:
    """Add `calibrate`."""
    command = add_parser(
        commands,
        "calibrate",
        "measure a judge on labelled pairs",
        "Ask a judge for its verdicts on labelled pairs of resumes, and print its agreement with "
        "the labels, the errors it misses, and its cost.",
        ["judge calibrate", "judge calibrate --judge gemini --limit 56 --repeats 2 --swap"],
    )
    add = command.add_argument
    add_judge(add)
    add("--pairs", type=Path, default=PAIRS, metavar="FILE", help="pairs to use (default: bundled)")
    add("--half", choices=HALVES, help="half of the pairs (default: both)")
    add("--repeats", type=positive, default=1, metavar="N", help="calls per pair (default: 1)")
    add("--swap", action="store_true", help="also ask in the other order")
    add("--limit", type=positive, metavar="N", help="only N pairs, spread over all kinds")
    add("--concurrency", type=positive, default=8, metavar="N", help="parallel calls (default: 8)")
    add_options(add, "--json")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from resume_gym.terminal import Terminal

    judge = make_async_judge(options.judge)
    pairs = spread(load_pairs(options.pairs, options.half), options.limit)
    report = submit(
        calibrate(judge, pairs, options.repeats, options.swap, options.concurrency)
    ).result()
    if options.json:
        print_json(asdict(report))
    else:
        Terminal().print(table(report))
    if report.accuracy[VERDICT_FIELDS[0]].total == 0:
        kinds = ", ".join(report.failures)
        raise JudgeError(f"{judge.name}: no verdict on any of {report.pairs} pairs: {kinds}")
