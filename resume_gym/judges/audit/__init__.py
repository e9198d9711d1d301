"""Calibration: measure a judge against labelled pairs of an original and a revision.

`pairs.jsonl` holds pairs that are labelled with the verdict of a careful editor. `calibrate` runs a
judge on such pairs and computes its accuracy, recall, false alarms and cost (`Agreement`). A pair
on which the judge fails is excluded from the statistics and counted by error type. `freeze` labels
pairs with a judge's own verdicts, so that a later calibration shows whether a hosted model has
drifted.
"""

import json
import math
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import numpy as np

from resume_gym.episode.rewards import GRADED_FIELDS, VERDICT_FIELDS, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import (
    AsyncJudge,
    JudgeError,
    JudgeMalformed,
    JudgeUnavailable,
    attempt,
    bounded,
    unexpected,
)
from resume_gym.judges.rubric import RubricJudge
from resume_gym.judges.votes import drawn
from resume_gym.support.atomic_write import replacing, through_links
from resume_gym.support.user_errors import TaskError, number_of

T = TypeVar("T")

PAIRS = Path(__file__).with_name("pairs.jsonl")
FABRICATIONS = (
    "number", "tool", "employer", "title", "degree", "date", "moved_number", "prose_claim",
)  # fmt: skip
HALVES = ("dev", "test")

_ESCAPED = "backslashreplace"
_Z = 1.96  # quantile of the normal distribution for a two-sided 95 % interval
_KINDS = (*FABRICATIONS, "honest_rewrite", *GRADED_FIELDS)


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A revision with its correct verdict.

    Attributes:
        pair_id: unique id.
        task: the original with its facts and evidence.
        revised: the revision.
        kind: one of `FABRICATIONS`, "honest_rewrite", or the graded field that the revision tests.
        half: half of the data, "dev" or "test"; the halves share no resume. The rubric judge was
            developed on both halves.
        labels: correct value of each field of the verdict.
    """

    pair_id: str
    task: Task
    revised: str
    kind: str
    half: str
    labels: Mapping[str, int]

    @property
    def honest(self) -> bool:
        """Whether the revision has no unsupported claim."""
        return self.labels["hallucination"] == 1


def load_pairs(path: Path = PAIRS, half: str | None = None) -> tuple[LabelledPair, ...]:
    """Load the labelled pairs of a JSONL file, or only those of one half ("dev" or "test").

    The first line describes the data. The other lines hold either a task (`task`, `half` and
    `source`) or a pair (`id`, `task_id`, `kind`, `labels` and `edits`). An edit is a list of two
    texts: a passage that occurs exactly once in the resume, and its replacement.

    Raises:
        TaskError: a line is invalid, or there are no pairs; the message names file and line.
    """
    tasks: dict[str, tuple[Task, str]] = {}
    pairs: dict[str, LabelledPair] = {}
    for number, text in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            row = json.loads(text)
            if not isinstance(row, dict):
                raise TaskError(f"expected an object, got {row!r:.60}")
            if "task" in row:
                task = Task.from_row(row["task"])
                tasks[task.task_id] = (task, row["half"])
            elif "id" in row:
                if row["id"] in pairs:
                    raise TaskError(f"id: {row['id']!r} occurs twice")
                pairs[row["id"]] = _pair(row, *tasks[row["task_id"]])
            elif number > 1:
                raise TaskError(f"expected the key 'task' or 'id', got {', '.join(row)}")
        except KeyError as problem:
            raise TaskError(f"{path}, line {number}: {problem.args[0]}: missing") from None
        except (ValueError, TypeError, RecursionError) as problem:
            raise TaskError(f"{path}, line {number}: {problem}") from None
    selected = tuple(pair for pair in pairs.values() if half in (None, pair.half))
    if not selected:
        raise TaskError(f"{path}: no labelled pairs{f' in half {half!r}' if half else ''}")
    return selected


def _pair(row: Mapping[str, Any], task: Task, half: str) -> LabelledPair:
    revised = task.resume
    for old, new in row["edits"]:
        if revised.count(old) != 1:
            raise TaskError(f"edits: {old!r} occurs {revised.count(old)} times, expected once")
        revised = revised.replace(old, new)
    labels = Verdict(**row["labels"])  # validates the labels
    if row["kind"] not in _KINDS:
        raise TaskError(f"kind: expected one of {', '.join(_KINDS)}; got {row['kind']!r}")
    return LabelledPair(row["id"], task, revised, row["kind"], half, values(labels))


def write_pairs(path: Path, pairs: Sequence[LabelledPair], about: Mapping[str, str]) -> None:
    """Write pairs in the format of `load_pairs`; `about` is the first line of the file."""
    tasks = {pair.task.task_id: {"task": pair.task.to_row(), "half": pair.half} for pair in pairs}
    rows = [
        {
            "id": pair.pair_id,
            "task_id": pair.task.task_id,
            "kind": pair.kind,
            "labels": dict(pair.labels),
            "edits": [[pair.task.resume, pair.revised]],
        }
        for pair in pairs
    ]
    lines = (json.dumps(row, ensure_ascii=False) for row in (about, *tasks.values(), *rows))
    with replacing(through_links(path)) as unfinished:
        # a lone surrogate, which UTF-8 cannot encode, becomes its JSON escape
        unfinished.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", _ESCAPED))


def values(verdict: Verdict) -> dict[str, int]:
    """Return the fields of a verdict, without reasons and confidence."""
    return {field: getattr(verdict, field) for field in VERDICT_FIELDS}


def spread(pairs: Sequence[LabelledPair], limit: int | None) -> Sequence[LabelledPair]:
    """Return `limit` pairs (None: all) in file order, about equally many of each kind."""
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


@dataclass(frozen=True, slots=True)
class Share:
    """A proportion, hits / total, with the bounds of its 95 % Wilson interval; see `share`."""

    hits: int
    total: int
    value: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """Statistics of a judge on labelled pairs.

    Attributes:
        judge: name of the judge.
        pairs: number of pairs.
        repeats: number of verdicts per pair.
        accuracy: by field, the share of pairs whose label equals the judge's grade.
        kappa: by graded field, Cohen's kappa of labels and grades with quadratic weights; None if
            all labels and verdicts have the same value.
        recall: by kind of fabrication, the share that the judge detects.
        false_alarms: share of honest revisions in which the judge finds a fabrication: for the key
            "all", among all honest revisions, and for "honest_rewrite", among those of this kind.
        consistency: by field, the weighted kappa between the verdicts of two repeats, which is 1
            for a deterministic judge; None with a single repeat, or if all verdicts have the same
            value.
        flips: share of grades that depend on the order of the two texts (position bias); None if
            not measured.
        failures: by error type, the number of verdicts that failed, including those with the two
            texts exchanged.
        asked: number of verdicts requested.
        dollars: cost in dollars, 0 for a judge that asks no model; None if unknown.
        stored: number of model answers that were read from the persistent cache.
        seconds: median ("p50") and 95th percentile ("p95") of the wall time of a verdict.
    """

    judge: str
    pairs: int
    repeats: int
    accuracy: Mapping[str, Share]
    kappa: Mapping[str, float | None]
    recall: Mapping[str, Share]
    false_alarms: Mapping[str, Share]
    consistency: Mapping[str, float | None]
    flips: Share | None
    failures: Mapping[str, int]
    asked: int
    dollars: float | None
    stored: int
    seconds: Mapping[str, float]


def share(flags: Iterable[bool]) -> Share:
    """Return the share of true values and its 95 % Wilson interval ([0, 1] if `flags` is empty).

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference,
    1927.
    """
    values = list(flags)
    hits, total = sum(values), len(values)
    if not total:
        return Share(0, 0, None, 0.0, 1.0)
    value = hits / total
    centre = (value + _Z**2 / (2 * total)) / (1 + _Z**2 / total)
    spread = _Z * math.sqrt(value * (1 - value) / total + (_Z / (2 * total)) ** 2)
    half = spread / (1 + _Z**2 / total)
    return Share(hits, total, value, max(0.0, centre - half), min(1.0, centre + half))


def weighted_kappa(pairs: Sequence[tuple[int, int]]) -> float | None:
    """Return the quadratically weighted kappa of (label, verdict) pairs; None if undefined.

    Kappa is undefined without pairs, or if all labels and verdicts have the same value.

    Source: J. Cohen, Weighted kappa, 1968.
    """
    if not pairs:
        return None
    labels, verdicts = (Counter(side) for side in zip(*pairs, strict=True))
    seen = sum((label - verdict) ** 2 for label, verdict in pairs) / len(pairs)
    chance = sum(
        count * other * (label - verdict) ** 2
        for label, count in labels.items()
        for verdict, other in verdicts.items()
    ) / len(pairs) ** 2  # fmt: skip
    return 1 - seen / chance if chance else None


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
    # Only the first repeat is compared with the labels: repeats of the same pairs are not
    # independent, so the intervals would be too narrow.
    given = [(answer.pair, answer.fields) for answer in runs[0] if answer.fields is not None]
    seconds = [answer.seconds for answers in runs for answer in answers]
    offline = bool(judge.parts) and all(isinstance(one, RubricJudge) for one in judge.parts)
    return Agreement(
        judge=judge.name,
        pairs=len(pairs),
        repeats=repeats,
        **_compared(given),
        consistency=_consistency(runs),
        flips=flips,
        failures=dict(sorted(failures.items())),
        asked=len(seconds),
        dollars=usage.dollars if usage else 0.0 if offline else None,
        stored=usage.stored if usage else 0,
        seconds={
            f"p{part}": float(np.percentile(seconds, part, method="inverted_cdf"))
            for part in (50, 95)
        },
    )


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
        JudgeError: the judge has a bug: it raised another exception, or returned no `Verdict`.
    """
    judge = drawn(judge, draw)

    async def one(pair: LabelledPair) -> PairResult:
        start = time.perf_counter()
        said: Any = await _reply(judge, judge.averdict(pair.task, pair.revised))
        seconds = time.perf_counter() - start
        if isinstance(said, JudgeError):
            return PairResult(pair, None, type(said).__name__, seconds)
        if not isinstance(said, Verdict):
            raise JudgeMalformed(f"{judge.name}: expected a Verdict, got {said!r}")
        return PairResult(pair, values(said), "", seconds)

    return await bounded(one, pairs, concurrency)


async def _reply(judge: AsyncJudge, work: Awaitable[T]) -> T | JudgeError:
    """Return the result of `work` like `attempt`; raise any other exception as a `JudgeError`."""
    try:
        return await attempt(work)
    except JudgeError:
        raise
    except (Exception, SystemExit) as bug:  # a user's judge may raise anything
        raise unexpected(judge.name, bug) from bug


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

    found = await bounded(lambda pair: _reply(judge, flips(pair)), pairs, concurrency)
    failures = Counter(type(one).__name__ for one in found if isinstance(one, JudgeError))
    return share(flip for one in found if isinstance(one, list) for flip in one), failures


def _compared(given: Sequence[tuple[LabelledPair, Mapping[str, int]]]) -> dict[str, Any]:
    """Return the fields of an `Agreement` that compare labels and verdicts."""
    honest = [(pair, said) for pair, said in given if pair.kind == "honest_rewrite"]
    alarms = {"honest_rewrite": honest, "all": [one for one in given if one[0].honest]}
    kinds = [kind for kind in FABRICATIONS if any(pair.kind == kind for pair, _ in given)]
    return {
        "accuracy": {
            field: share(said[field] == pair.labels[field] for pair, said in given)
            for field in VERDICT_FIELDS
        },
        "kappa": {
            field: weighted_kappa([(pair.labels[field], said[field]) for pair, said in given])
            for field in GRADED_FIELDS
        },
        "recall": {
            kind: share(said["hallucination"] < 0 for pair, said in given if pair.kind == kind)
            for kind in kinds
        },
        "false_alarms": {
            name: share(said["hallucination"] < 0 for _, said in graded)
            for name, graded in alarms.items()
        },
    }


def _consistency(runs: Sequence[Sequence[PairResult]]) -> dict[str, float | None]:
    """Return, by field, the kappa between all pairs of repeats; `runs[r]` is repeat r."""
    both = [
        (one.fields, other.fields)
        for run, again in combinations(runs, 2)
        for one, other in zip(run, again, strict=True)
        if one.fields and other.fields
    ]
    return {
        field: weighted_kappa([(one[field], other[field]) for one, other in both])
        for field in VERDICT_FIELDS
    }
