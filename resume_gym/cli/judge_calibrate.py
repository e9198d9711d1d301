"""`resume-gym judge calibrate`: measure a judge on labelled pairs."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from resume_gym.cli.arguments import add_json, add_parser, make_async_judge, positive, print_json
from resume_gym.judges import JudgeError
from resume_gym.judges.audit.agreement import (
    table,
)
from resume_gym.judges.audit.calibration import calibrate
from resume_gym.judges.audit.pairs import HALVES, PAIRS, load_pairs, spread
from resume_gym.llm.loop import submit
from resume_gym.rewards import VERDICT_FIELDS


def add_command(commands: Any) -> None:
    """Add `calibrate` to the commands of `resume-gym judge`."""
    command = add_parser(
        commands,
        "calibrate",
        "measure a judge on labelled pairs",
        "Ask a judge about pairs of resumes whose verdict is known, and print how often it agrees, "
        "what it misses, and what it costs.",
        ["judge calibrate", "judge calibrate --judge gemini --limit 56 --repeats 2 --swap"],
    )
    add = command.add_argument
    add("--judge", default="rubric", metavar="SPEC", help="a name or JSON (default: %(default)s)")
    add("--pairs", type=Path, default=PAIRS, metavar="FILE", help="(default: the bundled pairs)")
    add("--half", choices=HALVES, help="of the pairs (default: both)")
    add("--repeats", type=positive, default=1, metavar="N", help="ask each N times (default: 1)")
    add("--swap", action="store_true", help="also find out how often the order decides")
    add("--limit", type=positive, metavar="N", help="ask about N pairs, spread over all kinds")
    add("--concurrency", type=positive, default=8, metavar="N", help="at once (default: 8)")
    add_json(add)
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from rich.console import Console

    judge = make_async_judge(options.judge)
    pairs = spread(load_pairs(options.pairs, options.half), options.limit)
    work = calibrate(judge, pairs, options.repeats, options.swap, options.concurrency)
    found = submit(work).result()
    if options.json:
        print_json(asdict(found))
    else:
        Console().print(table(found))
    if found.accuracy[VERDICT_FIELDS[0]].total == 0:
        kinds = ", ".join(found.failures)
        raise JudgeError(f"{judge.name}: no verdict on any of {found.pairs} pairs: {kinds}")
