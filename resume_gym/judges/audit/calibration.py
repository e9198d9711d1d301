"""Calibration: measure a judge against labelled pairs.

`pairs.jsonl` holds pairs of an original and a revision, labelled with the verdict of a careful
editor. `calibrate` runs a judge on such pairs and computes its accuracy, recall, false alarms and
cost. A pair on which the judge fails is excluded from the statistics and counted by error type.
`freeze` labels pairs with a judge's own verdicts, so that a later calibration shows whether a
hosted model has drifted.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from resume_gym.episode.rewards import GRADED_FIELDS, VERDICT_FIELDS
from resume_gym.judges import (
    OFFLINE,
    AsyncJudge,
    JudgeError,
    JudgeUnavailable,
    attempt,
    together,
)
from resume_gym.judges.audit.agreement import Agreement, Share, share, weighted_kappa
from resume_gym.judges.audit.pairs import FABRICATIONS, LabelledPair, values, write_pairs
from resume_gym.judges.votes import drawn
from resume_gym.llm import Usage
from resume_gym.support.user_errors import TaskError, number_of

T = TypeVar("T")


class PairResult(NamedTuple):
    """Result of a judge on one pair: `fields` of the verdict, or the error type in `failure`."""

    pair: LabelledPair
    fields: Mapping[str, int] | None
    failure: str
    seconds: float


async def calibrate(
    judge: AsyncJudge,
    pairs: Sequence[LabelledPair],
    repeats: int = 1,
    swap: bool = False,
    concurrency: int = 8,
) -> Agreement:
    """Run a judge on all pairs and return its statistics.

    Args:
        judge: the judge to measure; if it asks a model, each repeat samples new answers.
        pairs: the labelled pairs.
        repeats: number of verdicts per pair.
        swap: whether to measure position bias, too.
        concurrency: maximum number of concurrent verdicts.

    Raises:
        TaskError: `swap` is set, but the judge has neither a method `flips` nor `compare`.
        JudgeMisconfigured: the judge cannot judge anything.
    """
    if swap and not (hasattr(judge, "flips") or hasattr(judge, "compare")):
        raise TaskError(f"--swap: expected a judge that can compare two texts; got {judge.name!r}")
    before = judge.usage
    runs = [
        await ask(judge, pairs, draw=repeat, concurrency=concurrency) for repeat in range(repeats)
    ]
    failures = Counter(answer.failure for answers in runs for answer in answers if answer.failure)
    flips = None
    if swap:
        flips, failed = await _swapped(judge, pairs, concurrency)
        failures += failed
    usage = judge.usage - before if judge.usage and before else None
    return _report(judge.name, runs, flips, failures, usage)


async def freeze(judge: AsyncJudge, pairs: Sequence[LabelledPair], path: Path) -> Mapping[str, str]:
    """Write pairs to a file, with the judge's verdicts in place of their labels.

    Returns:
        Error types by pair id, for the pairs that got no verdict and so were not written.

    Raises:
        JudgeUnavailable: no pair received a verdict.
    """
    answers = await ask(judge, pairs)
    failures = {answer.pair.pair_id: answer.failure for answer in answers if answer.failure}
    frozen = [replace(one.pair, labels=one.fields) for one in answers if one.fields is not None]
    if not frozen:
        kinds = ", ".join(sorted(set(failures.values())))
        told = number_of(len(pairs), "pair")
        raise JudgeUnavailable(f"{judge.name}: no verdict on any of {told}: {kinds}")
    date = datetime.now(UTC).date().isoformat()
    write_pairs(path, frozen, {"judge": judge.name, "served": judge.served, "date": date})
    return failures


async def ask(
    judge: AsyncJudge, pairs: Sequence[LabelledPair], draw: int = 0, concurrency: int = 8
) -> list[PairResult]:
    """Return the result of a judge on each pair, in order.

    Raises:
        JudgeMisconfigured: the judge cannot judge anything.
    """
    judge = drawn(judge, draw)

    async def one(pair: LabelledPair) -> PairResult:
        start = time.perf_counter()
        said = await attempt(judge.averdict(pair.task, pair.revised))
        seconds = time.perf_counter() - start
        if isinstance(said, JudgeError):
            return PairResult(pair, None, type(said).__name__, seconds)
        return PairResult(pair, values(said), "", seconds)

    return await _bounded(one, pairs, concurrency)


async def _bounded(
    work: Callable[[Any], Awaitable[T]], items: Iterable[object], concurrency: int
) -> list[T]:
    """Run `work` on all items, `concurrency` at a time; if one fails, cancel the rest."""
    gate = asyncio.Semaphore(concurrency)

    async def one(item: object) -> T:
        async with gate:
            return await work(item)

    return await together(map(one, items))


async def _swapped(
    judge: Any, pairs: Sequence[LabelledPair], concurrency: int
) -> tuple[Share, Counter[str]]:
    """Return the share of grades that depend on the order of the texts, and failures by type.

    The method `flips` of a `ModelJudge` returns, for each graded field, whether the two orders give
    different grades. For a judge without `flips`, the method `compare`, which grades only the
    preference, compares original and revision in both orders.
    """

    async def flips(pair: LabelledPair) -> list[bool]:
        if hasattr(judge, "flips"):
            return list((await judge.flips(pair.task, pair.revised)).values())
        first = await judge.compare(pair.task, pair.task.resume, pair.revised)
        return [first != -await judge.compare(pair.task, pair.revised, pair.task.resume)]

    found = await _bounded(lambda pair: attempt(flips(pair)), pairs, concurrency)
    failures = Counter(type(one).__name__ for one in found if isinstance(one, JudgeError))
    return share(flip for one in found if isinstance(one, list) for flip in one), failures


def _report(
    judge: str,
    asked: Sequence[Sequence[PairResult]],
    flips: Share | None,
    failures: Mapping[str, int],
    usage: Usage | None,
) -> Agreement:
    """Compute a judge's statistics; `asked[r]` holds the results of repeat r, one for each pair."""
    # Only the first repeat is compared with the labels: more would make the intervals too narrow.
    given = [(answer.pair, answer.fields) for answer in asked[0] if answer.fields is not None]
    every = [answer for answers in asked for answer in answers]
    alarms = {"honest_rewrite": [p for p in given if p[0].kind == "honest_rewrite"]}
    alarms["all"] = [(pair, said) for pair, said in given if pair.honest]
    kinds = [kind for kind in FABRICATIONS if any(pair.kind == kind for pair, _ in given)]
    seconds = [answer.seconds for answer in every]
    return Agreement(
        judge=judge,
        pairs=len(asked[0]),
        repeats=len(asked),
        accuracy={
            field: share(said[field] == pair.labels[field] for pair, said in given)
            for field in VERDICT_FIELDS
        },
        kappa={
            field: weighted_kappa([(pair.labels[field], said[field]) for pair, said in given])
            for field in GRADED_FIELDS
        },
        recall={
            kind: share(said["hallucination"] < 0 for pair, said in given if pair.kind == kind)
            for kind in kinds
        },
        false_alarms={
            name: share(said["hallucination"] < 0 for _, said in graded)
            for name, graded in alarms.items()
        },
        consistency={
            field: weighted_kappa(
                [
                    (one.fields[field], other.fields[field])
                    for run, again in combinations(asked, 2)
                    for one, other in zip(run, again, strict=True)
                    if one.fields and other.fields
                ]
            )
            for field in VERDICT_FIELDS
        },
        flips=flips,
        failures=dict(sorted(failures.items())),
        asked=len(every),
        dollars=usage.dollars if usage else 0.0 if judge in OFFLINE else None,
        stored=usage.stored if usage else 0,
        seconds={
            f"p{part}": float(np.percentile(seconds, part, method="inverted_cdf"))
            for part in (50, 95)
        },
    )
