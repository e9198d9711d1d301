"""Calibration: measure a judge against labelled pairs.

`pairs.jsonl` holds originals, revisions and the verdicts of a careful editor. `calibrate` runs a
judge on all of them, and `report` computes its accuracy, recall, false alarms and cost. Failures
to judge are counted by type, and never as verdicts.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from resume_gym.judges import AsyncJudge, JudgeError, JudgeMisconfigured
from resume_gym.judges.audit.agreement import (
    Agreement,
    Share,
    count,
    ordinal_alpha,
    quantile,
    share,
    weighted_kappa,
)
from resume_gym.judges.audit.pairs import FABRICATIONS, LabelledPair, values
from resume_gym.judges.votes import drawn
from resume_gym.rewards import GRADED_FIELDS, VERDICT_FIELDS
from resume_gym.tasks import Evidence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PairResult:
    """Result of a judge on one pair.

    Attributes:
        pair: the labelled pair.
        fields: the verdict by field; None if the judge failed.
        failure: name of the error type; empty if there is a verdict.
        seconds: wall-clock time in seconds.
    """

    pair: LabelledPair
    fields: Mapping[str, int] | None
    failure: str
    seconds: float


# Asking


async def calibrate(
    judge: AsyncJudge,
    pairs: Sequence[LabelledPair],
    repeats: int = 1,
    swap: bool = False,
    concurrency: int = 8,
) -> Agreement:
    """Run a judge on all pairs and report its statistics.

    Args:
        judge: the judge. If it has draws, each repeat uses another one.
        pairs: the labelled pairs.
        repeats: number of verdicts per pair.
        swap: whether to measure position bias as well. For composite judges such as votes this
            is the bias of the combined verdict; calibrate the inner judge for its own.
        concurrency: greatest number of concurrent verdicts.

    Raises:
        JudgeMisconfigured: the judge cannot judge anything.
        ModuleNotFoundError: `repeats` > 1 without `krippendorff`; the message names the extra.
    """
    if repeats > 1:
        ordinal_alpha(())  # fails on a missing package before any verdict is paid for
    before = _dollars(judge)
    runs = [
        await ask(judge, pairs, draw=repeat, concurrency=concurrency) for repeat in range(repeats)
    ]
    failures = Counter(answer.failure for answers in runs for answer in answers if answer.failure)
    flips = None
    if swap:
        flips, failed = await _swapped(judge, runs[0], concurrency)
        failures += failed
    after = _dollars(judge)
    cost = None if before is None or after is None else after - before
    return report(judge.name, runs, flips, failures, cost)


async def ask(
    judge: AsyncJudge, pairs: Sequence[LabelledPair], draw: int = 0, concurrency: int = 8
) -> list[PairResult]:
    """Return a judge's answer to each pair, in order.

    Raises:
        JudgeMisconfigured: the judge cannot judge anything.
    """
    judge = drawn(judge, draw)

    async def one(pair: LabelledPair) -> PairResult:
        start = time.perf_counter()
        fields, failure = None, ""
        try:
            fields = values(await judge.averdict(pair.task, pair.revised))
        except JudgeMisconfigured:
            raise
        except JudgeError as problem:
            failure = type(problem).__name__
        return PairResult(pair, fields, failure, time.perf_counter() - start)

    return await _bounded(one, pairs, concurrency)


async def _bounded(
    work: Callable[[Any], Awaitable[T]], items: Iterable[Any], concurrency: int
) -> list[T]:
    """Run `work` on each item with bounded concurrency; cancel the rest on an error."""
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
    judge: AsyncJudge, answers: Sequence[PairResult], concurrency: int
) -> tuple[Share, Counter[str]]:
    """Return the share of grades with position bias, and the failures by error type.

    A judge that uses both orders itself, such as `ModelJudge`, reports the fields on which they
    disagree (`flips`); exchanging its texts would only repeat its requests. A judge with `compare`
    compares each pair in both orders. Any other judges the original as a revision of the
    revision, for honest pairs only; the content of the original is then passed as evidence.
    """
    if hasattr(judge, "flips") or hasattr(judge, "compare"):
        return await _compared(judge, [answer.pair for answer in answers], concurrency)
    there = [answer for answer in answers if answer.pair.honest and answer.fields]
    back = await ask(judge, [_exchange(answer.pair) for answer in there], 0, concurrency)
    flips = [
        answer.fields[field] != -exchanged.fields[field]
        for answer, exchanged in zip(there, back, strict=True)
        if answer.fields and exchanged.fields
        for field in GRADED_FIELDS
    ]
    return share(sum(flips), len(flips)), Counter(
        answer.failure for answer in back if answer.failure
    )


async def _compared(
    judge: Any, pairs: Sequence[LabelledPair], concurrency: int
) -> tuple[Share, Counter[str]]:
    async def one(pair: LabelledPair) -> list[bool] | str:
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


def _exchange(pair: LabelledPair) -> LabelledPair:
    """Exchange original and revision; the facts of the original become evidence."""
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
    asked: Sequence[Sequence[PairResult]],
    flips: Share | None = None,
    failures: Mapping[str, int] | None = None,
    dollars: float | None = None,
) -> Agreement:
    """Compute the statistics of a judge's answers.

    Args:
        judge: name of the judge.
        asked: for each repeat, the answers to the same pairs in the same order. All shares use
            the first repeat only, since repeats of a pair are not independent samples.
        flips: see `Agreement`.
        failures: see `Agreement`; counted from the answers by default.
        dollars: see `Agreement`.
    """
    given = [(answer.pair, answer.fields) for answer in asked[0] if answer.fields is not None]
    every = [answer for answers in asked for answer in answers]
    if failures is None:
        failures = Counter(answer.failure for answer in every if answer.failure)
    alarms = {"honest_rewrite": [p for p in given if p[0].kind == "honest_rewrite"]}
    alarms["all"] = [(pair, said) for pair, said in given if pair.honest]
    kinds = [kind for kind in FABRICATIONS if any(pair.kind == kind for pair, _ in given)]
    times = sorted(answer.seconds for answer in every)
    return Agreement(
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
            name: count(said["hallucination"] < 0 for _, said in graded)
            for name, graded in alarms.items()
        },
        alpha={field: _alpha(asked, field) for field in VERDICT_FIELDS},
        flips=flips,
        failures=dict(sorted(failures.items())),
        asked=len(every),
        dollars=dollars,
        seconds={"p50": quantile(times, 0.5), "p95": quantile(times, 0.95)},
    )


def _alpha(asked: Sequence[Sequence[PairResult]], field: str) -> float | None:
    if len(asked) < 2:
        return None
    return ordinal_alpha([[a.fields[field] if a.fields else None for a in row] for row in asked])
