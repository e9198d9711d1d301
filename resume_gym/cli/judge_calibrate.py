"""`resume-gym judge calibrate`: measure a judge on labelled pairs."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from resume_gym.cli.arguments import (
    Commands,
    add_judge,
    add_options,
    make_async_judge,
    positive,
    print_json,
)
from resume_gym.episode.rewards import VERDICT_FIELDS
from resume_gym.judges import JudgeError
from resume_gym.judges.audit import (
    HALVES,
    PAIRS,
    Agreement,
    Share,
    calibrate,
    freeze,
    load_pairs,
    spread,
)
from resume_gym.llm.loop import submit
from resume_gym.support.atomic_write import check_new_file
from resume_gym.support.printing import amount, say
from resume_gym.support.user_errors import TaskError, number_of

if TYPE_CHECKING:
    from rich.table import Table


def add_command(commands: Commands) -> None:
    """Add the parser of the command `judge calibrate`."""
    command = commands.add_parser(
        "calibrate",
        help="measure a judge on labelled pairs",
        description="Ask a judge for its verdicts on labelled pairs of resumes, and print its "
        "agreement with the labels, its detection of fabrications, and its cost. With --freeze, "
        "write the pairs with the judge's verdicts as labels; calibrate on that file later to see "
        "whether the judge has drifted.",
        examples=[
            "judge calibrate",
            "judge calibrate --judge gemini --limit 56 --repeats 2 --swap",
            "judge calibrate --judge gemini --freeze verdicts.jsonl",
            "judge calibrate --judge gemini --pairs verdicts.jsonl --least 0.98",
        ],
        failed="failure, or the verdicts match a smaller share of the labels than --least",
    )
    add = command.add_argument
    add_judge(add)
    add("--pairs", type=Path, default=PAIRS, metavar="FILE", help="pairs to use (default: bundled)")
    add("--half", choices=HALVES, help="half of the pairs (default: both)")
    add("--repeats", type=positive, default=1, metavar="N", help="verdicts per pair (default: 1)")
    add("--swap", action="store_true", help="also ask with the two resumes swapped")
    add("--limit", type=positive, metavar="N", help="only N pairs, spread over all kinds")
    add("--concurrency", type=positive, default=8, metavar="N", help="parallel calls (default: 8)")
    add("--freeze", type=Path, metavar="FILE", help="write pairs labelled by the judge, and exit")
    add("--least", type=float, metavar="SHARE", help="fail if a smaller share of labels is matched")
    add_options(add, "--json")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from resume_gym.support.terminal import Terminal

    if options.least is not None and not 0 <= options.least <= 1:
        raise TaskError(f"--least: expected a share from 0 to 1, got {options.least}")
    judge = make_async_judge(options.judge)
    pairs = spread(load_pairs(options.pairs, options.half), options.limit)
    if options.freeze:
        check_new_file("--freeze", options.freeze)
        if options.freeze.exists():
            raise TaskError(f"--freeze: expected a new file; {options.freeze} exists")
        failures = submit(freeze(judge, pairs, options.freeze)).result()
        frozen = number_of(len(pairs) - len(failures), "pair")
        say(f"{options.freeze}: {frozen} with verdicts of {judge.name}")
        for pair, kind in failures.items():
            say(f"{pair}: no verdict, left out ({kind})")
        return
    report = submit(
        calibrate(judge, pairs, options.repeats, options.swap, options.concurrency)
    ).result()
    if options.json:
        print_json(asdict(report))
    else:
        Terminal().print(_table(report))
    if report.accuracy[VERDICT_FIELDS[0]].total == 0:
        kinds, told = ", ".join(report.failures), number_of(report.pairs, "pair")
        raise JudgeError(f"{judge.name}: no verdict on any of {told}: {kinds}")
    if options.least is not None:
        _check_least(options.least, report)


def _check_least(least: float, report: Agreement) -> None:
    """Raise JudgeError if too few labels are matched, or if an answer came from a store."""
    if report.stored:
        # stored answers (see --freeze) cannot show that the model still gives the same answers
        answers = f"{report.judge} repeated {number_of(report.stored, 'stored answer')}"
        raise JudgeError(f"--least: {answers}; configure the judge without a store")
    met = sum(share.hits for share in report.accuracy.values())
    labels = report.pairs * len(VERDICT_FIELDS)
    if met < least * labels:
        raise JudgeError(f"--least: {met} of {labels} labels matched; expected >= {least:.1%}")


def _table(found: Agreement) -> "Table":
    """Format the agreement statistics of a judge as a table for the terminal."""
    from rich.table import Table

    repeats = f", {found.repeats} times each" if found.repeats > 1 else ""
    grid = Table(
        title=f"{found.judge} on {number_of(found.pairs, 'labelled pair')}{repeats}",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 3, 0, 0),
    )
    for name in ("", "share", "95 % interval", "of", "kappa", "repeats"):
        grid.add_column(name, justify="left" if not name else "right")
    rows = {
        "right": found.accuracy,
        "fabrications found": found.recall,
        "false alarms": found.false_alarms,
        "order decides": {"graded fields": found.flips} if found.flips else {},
    }
    for title, shares in rows.items():
        if shares:
            grid.add_row(title, style="bold")
        for name, proportion in shares.items():
            more = (found.kappa, found.consistency) if title == "right" else ({}, {})
            grid.add_row(
                f"  {name}",
                *_cells(proportion),
                *(_number(statistic.get(name)) for statistic in more),
            )
    dollars = "unknown" if found.dollars is None else f"${amount(found.dollars)}"
    failed = ", ".join(f"{name} {n}" for name, n in found.failures.items()) or "none"
    grid.add_row("no verdict", failed)
    grid.add_row(
        "seconds a verdict", f"{found.seconds['p50']:.3f}", f"p95 {found.seconds['p95']:.3f}"
    )
    grid.add_row("cost", "nothing" if found.dollars == 0 else dollars)
    if set(found.consistency.values()) <= {1.0, None} and found.repeats > 1:
        grid.caption = (
            "A value of 1 under repeats: all repeats agree, as they must for a deterministic "
            "judge. This agreement says nothing about the accuracy of the judge."
        )
        grid.caption_justify = "left"
    return grid


def _cells(proportion: Share) -> tuple[str, str, str]:
    value = "-" if proportion.value is None else f"{proportion.value:.1%}"
    return value, f"{proportion.low:.1%} to {proportion.high:.1%}", str(proportion.total)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
