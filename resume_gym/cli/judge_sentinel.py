"""`resume-gym judge sentinel`: detect drift in a judge's verdicts."""

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from resume_gym.atomic_write import check_new_file
from resume_gym.cli.arguments import add_json, add_parser, make_async_judge, positive, print_json
from resume_gym.judges import AsyncJudge
from resume_gym.judges.audit.pairs import PAIRS, load_pairs, spread
from resume_gym.judges.audit.sentinel import Drift, DriftError, Frozen, drift, freeze, load_frozen
from resume_gym.judges.votes import can_draw
from resume_gym.llm.loop import submit


def add_command(commands: Any) -> None:
    """Add `sentinel` to the commands of `resume-gym judge`."""
    command = add_parser(
        commands,
        "sentinel",
        "judge frozen pairs again; fail if the verdicts have drifted",
        "Judge frozen pairs again, and list what changed. With --freeze, make the file.",
        [
            "judge sentinel --judge gemini --frozen said.json --freeze",
            "judge sentinel --judge gemini --frozen said.json",
        ],
        done="the judge says what it said",
        failed="more changed, or has no verdict now, than the limits, or it failed",
    )
    add = command.add_argument
    add("--judge", default="rubric", metavar="SPEC", help="a name or JSON (default: %(default)s)")
    add("--frozen", type=Path, required=True, metavar="FILE", help="pairs with their verdicts")
    add("--freeze", action="store_true", help="judge labelled pairs and write the file")
    add("--pairs", type=Path, default=PAIRS, metavar="FILE", help="to freeze (default: bundled)")
    add("--limit", type=positive, metavar="N", help="freeze N pairs, spread over all kinds")
    add(
        "--allow",
        type=_share,
        default=0.02,
        metavar="SHARE",
        help="of the fields may change (default: %(default)s)",
    )
    add(
        "--allow-failures",
        type=_share,
        default=0.05,
        metavar="SHARE",
        help="of the pairs may have no verdict (default: %(default)s)",
    )
    add_json(add)
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
        lost = submit(freeze(judge, pairs, options.frozen)).result()
        if options.json:
            print_json({"judge": judge.name, "pairs": len(pairs) - len(lost), "failures": lost})
            return
        print(f"{options.frozen}: {len(pairs) - len(lost)} pairs as {judge.name} judges them")
        _tell_failures(lost, "left out")
        return
    frozen = load_frozen(options.frozen)
    found = submit(drift(judge, frozen)).result()
    (_print_json if options.json else _print)(judge, frozen, found)
    told = _settle(options, judge, frozen, found)
    if not options.json:
        print(told)


def _print_json(judge: AsyncJudge, frozen: Frozen, found: Drift) -> None:
    names = ("pair", "field", "was", "is")
    changed = [dict(zip(names, one, strict=True)) for one in found.changed]
    before = {"judge": frozen.judge, "served": frozen.served, "date": frozen.date}
    now = {"judge": judge.name, "served": str(getattr(judge, "served", ""))}
    told = {**asdict(found), "changed": changed, "share": found.share}
    print_json({"frozen": {**before, "pairs": len(frozen.pairs)}, **now, **told})


def _print(judge: AsyncJudge, frozen: Frozen, found: Drift) -> None:
    if judge.name != frozen.judge:
        print(f"judge: frozen with {frozen.judge}, now {judge.name}")
    served = str(getattr(judge, "served", ""))
    if served != frozen.served:
        print(f"version: frozen with {frozen.served or 'unknown'}, now {served or 'unknown'}")
    for pair, field, old, new in found.changed:
        print(f"{pair}: {field} was {old:+d}, is {new:+d}")
    _tell_failures(found.failures, "not compared")


def _settle(options: argparse.Namespace, judge: AsyncJudge, frozen: Frozen, found: Drift) -> str:
    """Return a sentence on the drift, if it is within the limits.

    Raises:
        DriftError: the drift or the failures exceed the limits, or the verdicts come from the store
            of a judge that cannot draw anew.
    """
    if found.stored and not can_draw(judge):
        raise DriftError(
            f"{judge.name} cannot draw anew: {found.stored} answers came from its store, as they "
            "were; set it up without a store"
        )
    told = (
        f"{len(found.changed)} of {found.fields} fields changed since {frozen.date} "
        f"({found.share:.1%}, allowed {options.allow:.1%})"
    )
    if found.stored:
        told += f"; {found.stored} answers came from the store, of an earlier run today"
    missing = len(found.failures) / len(frozen.pairs)
    if missing > options.allow_failures:
        raise DriftError(
            f"{len(found.failures)} of {len(frozen.pairs)} pairs have no verdict "
            f"({missing:.1%}, allowed {options.allow_failures:.1%}); {told}"
        )
    if found.share > options.allow:
        raise DriftError(told)
    return told


def _tell_failures(failures: Mapping[str, str], what: str) -> None:
    for pair, kind in failures.items():
        print(f"{pair}: no verdict, {what} ({kind})")
