"""Whether a judge still says what it said: frozen pairs, judged again.

A model behind an address may change without notice, and with it what a reward means. `freeze`
keeps pairs and verdicts in a file; `drift` judges the same pairs again and lists what changed.
A judge that draws changes some fields by chance: set the limit above what `resume-gym judge
calibrate --repeats 2` shows.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from resume_gym.arguments import add_json, add_parser, check_new_file, positive, print_json
from resume_gym.judges import AsyncJudge, JudgeError, JudgeUnavailable
from resume_gym.judges.calibration import Answer, ask, chosen, spread
from resume_gym.judges.pairs import PAIRS, Pair, load_pairs
from resume_gym.judges.votes import can_draw
from resume_gym.llm.loop import submit
from resume_gym.rewards import VERDICT_FIELDS, Verdict
from resume_gym.tasks import Task, TaskError


class DriftError(JudgeError):
    """A judge says other things than it did."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """What a judge said once.

    Attributes:
        judge: its name.
        served: the version that answered, where the judge tells; else empty.
        date: when, as 2026-01-31.
        pairs: what it was asked; their labels are what it said.
    """

    judge: str
    served: str
    date: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Drift:
    """What a judge says now.

    Attributes:
        fields: how many fields of verdicts were compared.
        changed: pair, field, the value that was, the value that is.
        failures: pairs without a verdict now, with the type of the error; not compared.
        stored: answers that came from the store, and not from a model.
    """

    fields: int
    changed: tuple[tuple[str, str, int, int], ...]
    failures: Mapping[str, str]
    stored: int = 0

    @property
    def share(self) -> float:
        """Of the fields, those that changed."""
        return len(self.changed) / self.fields


async def freeze(judge: AsyncJudge, pairs: Sequence[Pair], path: Path) -> Mapping[str, str]:
    """Judge pairs, and keep them with the verdicts; gives the pairs without one, left out.

    Raises:
        JudgeUnavailable: there was no verdict on any.
    """
    answers = await ask(judge, pairs)
    known = _answered(answers)
    tasks = {one.pair.task.task_id: one.pair.task.to_row() for one in known}
    rows = [
        {
            "id": one.pair.pair_id,
            "task_id": one.pair.task.task_id,
            "revised": one.pair.revised,
            "verdict": one.fields,
        }
        for one in known
    ]
    served = str(getattr(judge, "served", ""))
    head = {"judge": judge.name, "served": served, "date": _today().isoformat()}
    text = json.dumps({**head, "tasks": tasks, "pairs": rows}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return _failures(answers)


async def drift(judge: AsyncJudge, frozen: Frozen) -> Drift:
    """Judge frozen pairs again.

    Raises:
        JudgeUnavailable: there was no verdict on any.
    """
    # A draw of its own each day: what the store keeps of an earlier one would show no change.
    before = _stored(judge)
    answers = await ask(judge, frozen.pairs, draw=_today().toordinal())
    known = _answered(answers)
    changed = tuple(
        (one.pair.pair_id, field, one.pair.labels[field], one.fields[field])
        for one in known
        for field in VERDICT_FIELDS
        if one.fields and one.fields[field] != one.pair.labels[field]
    )
    return Drift(
        len(known) * len(VERDICT_FIELDS), changed, _failures(answers), _stored(judge) - before
    )


def load_frozen(path: Path) -> Frozen:
    """What `freeze` kept.

    Raises:
        TaskError: the file is not one of `freeze`.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        tasks = {name: Task.from_row(row) for name, row in found["tasks"].items()}
        pairs = tuple(_pair(row, tasks) for row in found["pairs"])
        return Frozen(found["judge"], found["served"], found["date"], pairs)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as problem:
        kind = type(problem).__name__
        raise TaskError(f"{path}: expected a file of --freeze ({kind}: {problem})") from None


def _pair(row: Mapping[str, Any], tasks: Mapping[str, Task]) -> Pair:
    verdict = {field: row["verdict"][field] for field in VERDICT_FIELDS}
    Verdict(**verdict)  # checks the values
    return Pair(row["id"], tasks[row["task_id"]], row["revised"], "frozen", "", verdict)


def _answered(answers: Sequence[Answer]) -> list[Answer]:
    known = [one for one in answers if one.fields is not None]
    if not known:
        kinds = ", ".join(sorted(set(_failures(answers).values())))
        raise JudgeUnavailable(f"no verdict on any of {len(answers)} pairs: {kinds}")
    return known


def _failures(answers: Sequence[Answer]) -> dict[str, str]:
    return {one.pair.pair_id: one.failure for one in answers if one.failure}


def _stored(judge: AsyncJudge) -> int:
    usage = getattr(judge, "usage", None)
    return usage.stored if usage else 0


def _today() -> date:
    return datetime.now(UTC).date()


# The command


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
    judge = chosen(options.judge)
    if options.freeze:
        check_new_file("--frozen", options.frozen)
        if options.frozen.exists():
            load_frozen(options.frozen)  # nothing else is replaced
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
    """How much has changed, in words, if it is within the limits.

    Raises:
        DriftError: it is not.
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
