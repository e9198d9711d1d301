"""`resume-gym judge sentinel`: detect drift in a judge's verdicts."""

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from resume_gym.atomic_write import check_new_file
from resume_gym.cli.arguments import (
    Commands,
    add_judge,
    add_options,
    add_parser,
    make_async_judge,
    positive,
    print_json,
)
from resume_gym.judges import AsyncJudge
from resume_gym.judges.audit.pairs import PAIRS, load_pairs, spread
from resume_gym.judges.audit.sentinel import Drift, DriftError, Frozen, drift, freeze, load_frozen
from resume_gym.judges.votes import can_draw
from resume_gym.llm.loop import submit
from resume_gym.render import say


def add_command(commands: Commands) -> None:
    """Add `sentinel`."""
    command = add_parser(
        commands,
        "sentinel",
        "detect drift: judge frozen pairs again and compare the verdicts",
        "Judge frozen pairs again and list the verdicts that changed. With --freeze, make the file "
        "of frozen pairs.",
        [
            "judge sentinel --judge gemini --frozen verdicts.json --freeze",
            "judge sentinel --judge gemini --frozen verdicts.json",
        ],
        done="the changes are within the limits",
        failed="failure, or more changes or missing verdicts than the limits",
    )
    add = command.add_argument
    add_judge(add)
    add("--frozen", type=Path, required=True, metavar="FILE", help="frozen pairs with verdicts")
    add("--freeze", action="store_true", help="judge labelled pairs and write FILE")
    add("--pairs", type=Path, default=PAIRS, metavar="FILE", help="to freeze (default: bundled)")
    add("--limit", type=positive, metavar="N", help="freeze only N pairs, spread over all kinds")
    add(
        "--allow",
        type=_share,
        default=0.02,
        metavar="SHARE",
        help="limit of changed fields (default: %(default)s)",
    )
    add(
        "--allow-failures",
        type=_share,
        default=0.05,
        metavar="SHARE",
        help="limit of pairs without a verdict (default: %(default)s)",
    )
    add_options(add, "--json")
    command.set_defaults(run=_run)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to below 1, got {text!r}")
    return share


def _run(options: argparse.Namespace) -> None:
    judge = make_async_judge(options.judge)
    if options.freeze:
        check_new_file("--frozen", options.frozen)
        if options.frozen.exists():
            load_frozen(options.frozen)  # raises if the file was not made by --freeze
        pairs = spread(load_pairs(options.pairs), options.limit)
        failures = submit(freeze(judge, pairs, options.frozen)).result()
        count = len(pairs) - len(failures)
        if options.json:
            print_json({"judge": judge.name, "pairs": count, "failures": failures})
            return
        say(f"{options.frozen}: {count} pairs with verdicts of {judge.name}")
        _report_failures(failures, "left out")
        return
    frozen = load_frozen(options.frozen)
    result = submit(drift(judge, frozen)).result()
    (_print_json if options.json else _print)(judge, frozen, result)
    summary = _check_limits(options, judge, frozen, result)
    if not options.json:
        say(summary)


def _print_json(judge: AsyncJudge, frozen: Frozen, result: Drift) -> None:
    names = ("pair", "field", "was", "is")
    changed = [dict(zip(names, change, strict=True)) for change in result.changed]
    before = {"judge": frozen.judge, "served": frozen.served, "date": frozen.date}
    now = {"judge": judge.name, "served": str(getattr(judge, "served", ""))}
    changes = {**asdict(result), "changed": changed, "share": result.share}
    print_json({"frozen": {**before, "pairs": len(frozen.pairs)}, **now, **changes})


def _print(judge: AsyncJudge, frozen: Frozen, result: Drift) -> None:
    if judge.name != frozen.judge:
        say(f"judge: frozen with {frozen.judge}, now {judge.name}")
    served = str(getattr(judge, "served", ""))
    if served != frozen.served:
        say(f"version: frozen with {frozen.served or 'unknown'}, now {served or 'unknown'}")
    for pair, field, old, new in result.changed:
        say(f"{pair}: {field} was {old:+d}, is {new:+d}")
    _report_failures(result.failures, "not compared")


def _check_limits(
    options: argparse.Namespace, judge: AsyncJudge, frozen: Frozen, result: Drift
) -> str:
    """Return a sentence on the drift, if it is within the limits.

    Raises:
        DriftError: the drift or the failures exceed the limits, or the verdicts come from the store
            of a judge that cannot draw anew.
    """
    if result.stored and not can_draw(judge):
        raise DriftError(
            f"{judge.name} repeated {result.stored} stored answers; set it up without a store"
        )
    summary = (
        f"{len(result.changed)} of {result.fields} fields changed since {frozen.date} "
        f"({result.share:.1%}, allowed {options.allow:.1%})"
    )
    if result.stored:
        summary += f"; {result.stored} answers came from the store of an earlier run today"
    missing = len(result.failures) / len(frozen.pairs)
    if missing > options.allow_failures:
        raise DriftError(
            f"{len(result.failures)} of {len(frozen.pairs)} pairs have no verdict "
            f"({missing:.1%}, allowed {options.allow_failures:.1%}); {summary}"
        )
    if result.share > options.allow:
        raise DriftError(summary)
    return summary


def _report_failures(failures: Mapping[str, str], what: str) -> None:
    for pair, kind in failures.items():
        say(f"{pair}: no verdict, {what} ({kind})")
