"""Votes: the same judge asked several times, the median of each field.

At 2 % wrong fields a verdict, one group of 16 in seven is free of them; with three votes, nine in
ten are. The mean would turn ties into signal; the median stays one of -1, 0 and +1.
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
    """A judge made of others: it draws if one of them does, and spends what they spend.

    Its `averdict` takes the number of a draw, and its `averdicts` too if it judges groups.

    Attributes:
        parts: the judges and clients that it asks, each once.
    """

    parts: Sequence[Any]

    @property
    def usage(self) -> Usage | None:
        """What its parts have asked and paid so far; None if none of them asks a model."""
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
        """The versions of the models that answered last."""
        told = (getattr(one, "served", None) for one in self.parts)
        return ", ".join(dict.fromkeys(str(one) for one in told if one))


def can_draw(judge: AsyncJudge) -> bool:
    """Whether a judge can be asked again and answer independently."""
    if isinstance(judge, Composed):
        return any(can_draw(one) for one in judge.parts if isinstance(one, AsyncJudge))
    return "draw" in inspect.signature(judge.averdict).parameters


def drawn(judge: AsyncJudge, draw: int) -> AsyncJudge:
    """The judge at one of its draws; itself at the first, or if it has no draws."""
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
    """The median of several independent verdicts, field by field.

    A vote that fails is not replaced. There is a verdict if whatever the missing votes might have
    said would not change it: of three, two that agree in every field will do. Else the failure is
    that of the votes, an unavailable one first, since asking again may help.

    A field's confidence is the share of all planned votes that agree with the outcome, and its
    reason that of the first such vote.

    Args:
        judge: whose votes; a name or a mapping for `make_judge`. It must draw: a judge that
            computes would say the same each time.
        votes: how many; odd.

    Raises:
        ValueError: the judge does not draw, or the number is not odd.
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
        """See `AsyncJudge`; a draw of n votes is made of n draws, and no two have one in common."""
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
    """The outcome of a vote; None if the votes that are missing could change it.

    Args:
        votes: those given.
        planned: how many there should be, an odd number.
    """
    missing = planned - len(votes)
    outcome: dict[str, int] = {}
    for field in VERDICT_FIELDS:
        said = [getattr(vote, field) for vote in votes]
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
    """The failure to report of several, which says what to do: mend, ask again, or give up."""
    order = (JudgeMisconfigured, JudgeUnavailable, JudgeRefused, JudgeError)
    return min(failures, key=lambda one: [isinstance(one, kind) for kind in order].index(True))
