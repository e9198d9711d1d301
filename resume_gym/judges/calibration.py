"""How far a judge can be trusted: its verdicts on pairs whose verdict is known.

`pairs.jsonl` holds originals, revisions and the verdicts of a careful editor. `calibrate` asks any
judge for all of them, and `report` says how often it agrees, what it misses and what it costs.
A failure to judge is counted as one, by its type, and never as a verdict.
"""

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from resume_gym.arguments import add_json, add_parser, positive, print_json
from resume_gym.judges import AsyncJudge, JudgeError, JudgeMisconfigured, as_async, make_judge
from resume_gym.judges.agreement import (
    Report,
    Share,
    count,
    ordinal_alpha,
    quantile,
    share,
    table,
    weighted_kappa,
)
from resume_gym.judges.pairs import FABRICATIONS, HALVES, PAIRS, Pair, load_pairs, values
from resume_gym.judges.votes import drawn
from resume_gym.llm.loop import submit
from resume_gym.rewards import GRADED_FIELDS, VERDICT_FIELDS
from resume_gym.tasks import Evidence, TaskError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge said of a pair.

    Attributes:
        pair: which.
        fields: its verdict, field by field; None if there is none.
        failure: the type of the error then.
        seconds: how long it took.
    """

    pair: Pair
    fields: Mapping[str, int] | None
    failure: str
    seconds: float


# Asking


async def calibrate(
    judge: AsyncJudge,
    pairs: Sequence[Pair],
    repeats: int = 1,
    swap: bool = False,
    concurrency: int = 8,
) -> Report:
    """Ask a judge about all pairs, and report.

    Args:
        judge: whom to ask. One that draws gives another draw at each repeat.
        pairs: what to ask.
        repeats: how often to ask each.
        swap: also find out how often the order of the texts decides. Of votes and other judges of
            judges this sees what they make of it; calibrate the judge within for its own bias.
        concurrency: how many verdicts may be on the way at once.

    Raises:
        JudgeMisconfigured: nothing can be judged.
        ModuleNotFoundError: repeats need `krippendorff`; names the extra.
    """
    if repeats > 1:
        ordinal_alpha(())  # needs a package, which is to be missed before anything is paid for
    before = _dollars(judge)
    asked = [
        await ask(judge, pairs, draw=repeat, concurrency=concurrency) for repeat in range(repeats)
    ]
    failures = Counter(one.failure for answers in asked for one in answers if one.failure)
    flips = None
    if swap:
        flips, failed = await _swapped(judge, asked[0], concurrency)
        failures += failed
    after = _dollars(judge)
    cost = None if before is None or after is None else after - before
    return report(judge.name, asked, flips, failures, cost)


async def ask(
    judge: AsyncJudge, pairs: Sequence[Pair], draw: int = 0, concurrency: int = 8
) -> list[Answer]:
    """A judge's answer to each pair, in order.

    Raises:
        JudgeMisconfigured: nothing can be judged.
    """
    judge = drawn(judge, draw)

    async def one(pair: Pair) -> Answer:
        start = time.perf_counter()
        fields, failure = None, ""
        try:
            fields = values(await judge.averdict(pair.task, pair.revised))
        except JudgeMisconfigured:
            raise
        except JudgeError as problem:
            failure = type(problem).__name__
        return Answer(pair, fields, failure, time.perf_counter() - start)

    return await _bounded(one, pairs, concurrency)


async def _bounded(
    work: Callable[[Any], Awaitable[T]], items: Iterable[Any], concurrency: int
) -> list[T]:
    gate = asyncio.Semaphore(concurrency)

    async def one(item: Any) -> T:
        async with gate:
            return await work(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _swapped(
    judge: AsyncJudge, answers: Sequence[Answer], concurrency: int
) -> tuple[Share, Counter[str]]:
    """How often a verdict depends on the order, and failures to find out.

    A judge that asks in both orders itself, as `ModelJudge`, says on which fields they disagree
    (`flips`): to exchange its texts would ask the same again. One that can `compare` is asked so,
    in both orders. Any other judges the original as a revision of the revision, where both are
    true: what only one of them says goes along as evidence.
    """
    if hasattr(judge, "flips") or hasattr(judge, "compare"):
        return await _compared(judge, [one.pair for one in answers], concurrency)
    there = [one for one in answers if one.pair.honest and one.fields]
    back = await ask(judge, [_exchange(one.pair) for one in there], 0, concurrency)
    flips = [
        one.fields[field] != -other.fields[field]
        for one, other in zip(there, back, strict=True)
        if one.fields and other.fields
        for field in GRADED_FIELDS
    ]
    return share(sum(flips), len(flips)), Counter(one.failure for one in back if one.failure)


async def _compared(
    judge: Any, pairs: Sequence[Pair], concurrency: int
) -> tuple[Share, Counter[str]]:
    async def one(pair: Pair) -> list[bool] | str:
        try:
            if hasattr(judge, "flips"):
                return list((await judge.flips(pair.task, pair.revised)).values())
            first = await judge.compare(pair.task, pair.task.resume, pair.revised)
            second = await judge.compare(pair.task, pair.revised, pair.task.resume)
        except JudgeMisconfigured:
            raise
        except JudgeError as problem:
            return type(problem).__name__
        return [first != -second]

    found = await _bounded(one, pairs, concurrency)
    flips = [flip for some in found if not isinstance(some, str) for flip in some]
    return share(sum(flips), len(flips)), Counter(name for name in found if isinstance(name, str))


def _exchange(pair: Pair) -> Pair:
    """The pair with its texts in each other's place; what is true stays."""
    known = "\n".join((pair.task.resume, *pair.task.facts))
    evidence = (*pair.task.evidence, Evidence("project_notes", "What else is true", known))
    task = replace(pair.task, resume=pair.revised, fixes=(), evidence=evidence)
    return replace(pair, task=task, revised=pair.task.resume)


def _dollars(judge: AsyncJudge) -> float | None:
    usage = getattr(judge, "usage", None)
    return None if usage is None else usage.dollars


# Figures


def report(
    judge: str,
    asked: Sequence[Sequence[Answer]],
    flips: Share | None = None,
    failures: Mapping[str, int] | None = None,
    dollars: float | None = None,
) -> Report:
    """The figures of a judge's answers.

    Args:
        judge: its name.
        asked: for each repeat, the answers to the same pairs in the same order. All shares are
            of the first repeat: the same pair asked again is no further sample.
        flips: see `Report`; so are the next two.
        failures: counted from the answers unless given.
        dollars: what it cost.
    """
    given = [(one.pair, one.fields) for one in asked[0] if one.fields is not None]
    every = [one for answers in asked for one in answers]
    if failures is None:
        failures = Counter(one.failure for one in every if one.failure)
    alarms = {"honest_rewrite": [p for p in given if p[0].kind == "honest_rewrite"]}
    alarms["all"] = [(pair, said) for pair, said in given if pair.honest]
    kinds = [kind for kind in FABRICATIONS if any(pair.kind == kind for pair, _ in given)]
    times = sorted(one.seconds for one in every)
    return Report(
        judge=judge,
        pairs=len(asked[0]),
        repeats=len(asked),
        accuracy={
            field: count(said[field] == pair.labels[field] for pair, said in given)
            for field in VERDICT_FIELDS
        },
        kappa={
            field: weighted_kappa([(pair.labels[field], said[field]) for pair, said in given])
            for field in GRADED_FIELDS
        },
        recall={
            kind: count(said["hallucination"] < 0 for pair, said in given if pair.kind == kind)
            for kind in kinds
        },
        false_alarms={
            name: count(said["hallucination"] < 0 for _, said in some)
            for name, some in alarms.items()
        },
        alpha={field: _alpha(asked, field) for field in VERDICT_FIELDS},
        flips=flips,
        failures=dict(sorted(failures.items())),
        asked=len(every),
        dollars=dollars,
        seconds={"p50": quantile(times, 0.5), "p95": quantile(times, 0.95)},
    )


def _alpha(asked: Sequence[Sequence[Answer]], field: str) -> float | None:
    if len(asked) < 2:
        return None
    return ordinal_alpha([[a.fields[field] if a.fields else None for a in row] for row in asked])


# The command


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


def chosen(spec: str) -> AsyncJudge:
    """The judge of a command line.

    Raises:
        TaskError: there is no such judge.
    """
    try:
        return as_async(make_judge(spec))
    except ValueError as problem:
        raise TaskError(f"--judge: {str(problem).removeprefix('judge: ')}") from None


def spread(pairs: Sequence[Pair], limit: int | None) -> Sequence[Pair]:
    """So many pairs, of each kind as many as of another, in the order of the file."""
    if limit is None or limit >= len(pairs):
        return pairs
    order = list(pairs)
    Random(0).shuffle(order)
    seen: Counter[str] = Counter()
    ranked = []
    for pair in order:
        ranked.append((seen[pair.kind], pair.pair_id))
        seen[pair.kind] += 1
    taken = {name for _, name in sorted(ranked)[:limit]}
    return [pair for pair in pairs if pair.pair_id in taken]


def _run(options: argparse.Namespace) -> None:
    from rich.console import Console

    judge = chosen(options.judge)
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
