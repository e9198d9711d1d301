"""Voting judge: the median of several independent verdicts of one judge, field by field.

If 2 % of a judge's fields are wrong, one group of 16 in seven has no wrong field; with three
votes, nine in ten have none. A mean would turn ties into signal; the median stays -1, 0 or +1.
"""

import asyncio
import inspect
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from resume_gym.judges import (
    AsyncJudge,
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeUnavailable,
    as_async,
    make_judge,
)
from resume_gym.llm import Usage
from resume_gym.rewards import VERDICT_FIELDS, Verdict
from resume_gym.tasks import Task


class Composed(AsyncJudge):
    """Base class of judges composed of others: has draws if a part has, and sums their usage.

    A subclass accepts the keyword `draw` in `averdict`, and in `averdicts` too if it is `grouped`.

    Attributes:
        parts: the judges and clients in use, each listed once.
    """

    parts: Sequence[Any]

    @property
    def usage(self) -> Usage | None:
        """Total requests, tokens and cost of the parts so far; None if no part uses a model."""
        spent = [one.usage for one in self.parts if getattr(one, "usage", None) is not None]
        if not spent:
            return None
        dollars = [one.dollars for one in spent]
        return Usage(
            sum(one.calls for one in spent),
            sum(one.stored for one in spent),
            sum(one.tokens_in for one in spent),
            sum(one.tokens_out for one in spent),
            None if None in dollars else sum(dollars),
        )

    @property
    def served(self) -> str:
        """Versions of the models that answered last, separated by commas."""
        told = (getattr(one, "served", None) for one in self.parts)
        return ", ".join(dict.fromkeys(str(one) for one in told if one))


def can_draw(judge: AsyncJudge) -> bool:
    """Return whether a judge can give several independent verdicts on the same text."""
    if isinstance(judge, Composed):
        return any(can_draw(one) for one in judge.parts if isinstance(one, AsyncJudge))
    return "draw" in inspect.signature(judge.averdict).parameters


def drawn(judge: AsyncJudge, draw: int) -> AsyncJudge:
    """Return the judge bound to a draw; the judge itself for draw 0, or if it has no draws."""
    return _Drawn(judge, draw) if draw and can_draw(judge) else judge


class _Drawn(AsyncJudge):
    def __init__(self, judge: Any, draw: int) -> None:
        self.name, self.grouped = judge.name, judge.grouped
        self._judge, self._draw = judge, draw

    async def averdict(self, task: Task, revised: str) -> Verdict:
        said: Verdict = await self._judge.averdict(task, revised, draw=self._draw)
        return said

    async def averdicts(self, task: Task, group: Sequence[str]) -> list[Verdict | JudgeError]:
        if not self.grouped:
            return await super().averdicts(task, group)
        said: list[Verdict | JudgeError]
        said = await self._judge.averdicts(task, group, draw=self._draw)
        return said


class Votes(Composed):
    """Judge whose verdict is the median of several independent verdicts, field by field.

    A failed vote is not replaced. There is a verdict if no outcome of the missing votes could
    change it: of three votes, two that agree in every field suffice. Otherwise a failure of the
    votes is raised, an unavailable one first, since a retry may help.

    The confidence of a field is the share of all planned votes that agree with the outcome, and
    its reason that of the first such vote.

    Args:
        judge: specification of the voting judge for `make_judge`. It must support draws, since
            the votes of a deterministic judge are all equal.
        votes: number of votes, odd.

    Raises:
        ValueError: the judge has no draws, or the number is not odd.
    """

    def __init__(self, judge: str | Mapping[str, Any], votes: int = 3) -> None:
        if type(votes) is not int or votes < 1 or votes % 2 == 0:
            raise ValueError(f"votes: expected an odd number, got {votes!r}")
        inner = as_async(make_judge(judge))
        if not can_draw(inner):
            raise ValueError(
                f"votes: expected a judge that samples its verdicts; {inner.name!r} has no draws"
            )
        self._judge, self.votes = inner, votes
        self.parts = (inner,)
        self.name = f"votes({inner.name}, {votes})"

    async def averdict(self, task: Task, revised: str, draw: int = 0) -> Verdict:
        """Return the median verdict; no two draws share a draw of the inner judge."""
        draws = range(draw * self.votes, (draw + 1) * self.votes)
        asked = (drawn(self._judge, one).averdict(task, revised) for one in draws)
        said = await asyncio.gather(*asked, return_exceptions=True)
        errors = [one for one in said if isinstance(one, BaseException)]
        if bug := next((one for one in errors if not isinstance(one, JudgeError)), None):
            raise bug
        failures = [one for one in errors if isinstance(one, JudgeError)]
        if broken := next((one for one in failures if isinstance(one, JudgeMisconfigured)), None):
            raise broken
        verdict = count([one for one in said if isinstance(one, Verdict)], self.votes)
        if verdict is None:
            cause = gravest(failures)
            told = f"{len(failures)} of {self.votes} votes of {self._judge.name!r} failed: {cause}"
            raise type(cause)(told) from cause
        return verdict


def count(votes: Sequence[Verdict], planned: int) -> Verdict | None:
    """Return the median verdict; None if the missing votes could change it.

    Args:
        votes: the verdicts received.
        planned: number of votes requested, odd.
    """
    missing = planned - len(votes)
    outcome: dict[str, int] = {}
    for field in VERDICT_FIELDS:
        said = [getattr(vote, field) for vote in votes]
        # The median is monotone: all missing votes at -1 and all at +1 bound the outcome.
        outcome[field] = median([*said, *[-1] * missing])
        if outcome[field] != median([*said, *[1] * missing]):
            return None
    reasons: dict[str, str] = {}
    confidence: dict[str, float] = {}
    for field, value in outcome.items():
        agree = [vote for vote in votes if getattr(vote, field) == value]
        confidence[field] = len(agree) / planned
        if field in agree[0].reasons:
            reasons[field] = agree[0].reasons[field]
    return Verdict(**outcome, reasons=reasons, confidence=confidence)


def gravest(failures: Iterable[JudgeError]) -> JudgeError:
    """Return the failure to report: misconfigured before unavailable, refused and others."""
    order = (JudgeMisconfigured, JudgeUnavailable, JudgeRefused, JudgeError)
    return min(failures, key=lambda one: [isinstance(one, kind) for kind in order].index(True))
