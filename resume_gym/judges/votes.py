"""Voting judge: the median of several independent verdicts of one judge, field by field.

If a judge grades 2 % of the fields wrongly, only one in seven groups of 16 revisions is graded
without any error. With three votes, nine in ten groups are. The median of the votes is again a
grade (-1, 0 or 1), while their mean would change with every wrong vote.
"""

import asyncio
import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from resume_gym.episode.rewards import VERDICT_FIELDS, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import (
    AsyncJudge,
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeUnavailable,
    Outcome,
    Score,
    as_async,
    make_judge,
    outcomes_of,
)
from resume_gym.judges.vetoes import find_veto, veto


class GroupJudge(AsyncJudge):
    """Base class of composite judges whose verdict on a revision depends on the rest of its group.

    A vetoed revision keeps the veto's verdict and does not affect the rest of the group.
    """

    grouped = True

    async def averdict(self, task: Task, revised: str, draw: int = 0) -> Verdict:
        """Return the verdict on a revision, judged as a group of one; see `AsyncJudge`."""
        (outcome,) = await self.averdicts(task, [revised], draw)
        if isinstance(outcome, JudgeError):
            raise outcome
        return outcome

    async def averdicts(self, task: Task, group: Sequence[str], draw: int = 0) -> list[Outcome]:
        """Return the verdicts on a group, judged together; see `AsyncJudge`."""
        vetoes = await asyncio.to_thread(lambda: [veto(task, revised) for revised in group])
        places = [place for place, vetoed in enumerate(vetoes) if vetoed is None]
        texts = [group[place] for place in places]
        outcomes = await self._judge_together(task, texts, draw) if texts else []
        judged = dict(zip(places, outcomes, strict=True))
        return [vetoed or judged[place] for place, vetoed in enumerate(vetoes)]

    @abstractmethod
    async def _judge_together(self, task: Task, texts: Sequence[str], draw: int) -> list[Outcome]:
        """Return the outcomes of one or more revisions, none of which is vetoed."""


async def score_unvetoed(
    task: Task, group: Sequence[str], score: Callable[[Sequence[str]], Awaitable[Sequence[Score]]]
) -> list[Score]:
    """Return the scores of a group's revisions; vetoed ones get the lowest score minus 1.

    Args:
        task: the original with its facts and evidence.
        group: the revisions.
        score: function that scores the revisions that are not vetoed. A revision that is
            vetoed because it looks the same as the original is scored as the original.
    """
    vetoes = await asyncio.to_thread(lambda: [find_veto(task, revised) for revised in group])
    same = [one is not None and one.kind == "unchanged" for one in vetoes]
    texts = [task.resume if is_same else text for text, is_same in zip(group, same, strict=True)]
    places = [place for place, one in enumerate(vetoes) if one is None or same[place]]
    scores = await score([texts[place] for place in places]) if places else []
    known = dict(zip(places, scores, strict=True))
    least = min([one for one in scores if not isinstance(one, JudgeError)], default=0.0)
    return [known.get(place, least - 1) for place in range(len(group))]


def can_draw(judge: AsyncJudge) -> bool:
    """Return whether a judge can give several independent verdicts on the same text.

    Such a judge has a parameter `draw`, the number of the sample, in `averdict` and, if it is
    `grouped`, also in `averdicts`. If the judge calls other judges, at least one of them must be
    able to draw samples, too.
    """
    judges = [part for part in judge.parts if isinstance(part, AsyncJudge)]
    asks = "draw" in inspect.signature(judge.averdict).parameters
    return asks and (not judges or any(map(can_draw, judges)))


def drawn(judge: AsyncJudge, draw: int) -> AsyncJudge:
    """Return a judge with a fixed `draw`; or `judge` itself if `draw` is 0, or it cannot draw."""
    return _Drawn(judge, draw) if draw and can_draw(judge) else judge


class _Drawn(AsyncJudge):
    def __init__(self, judge: Any, draw: int) -> None:
        self.name, self.grouped = judge.name, judge.grouped
        self._judge, self._draw = judge, draw

    async def averdict(self, task: Task, revised: str) -> Verdict:
        return await self._judge.averdict(task, revised, draw=self._draw)  # type: ignore[no-any-return]

    async def averdicts(self, task: Task, group: Sequence[str]) -> list[Outcome]:
        if not self.grouped:
            return await super().averdicts(task, group)
        return await self._judge.averdicts(task, group, draw=self._draw)  # type: ignore[no-any-return]


class Votes(AsyncJudge):
    """Judge whose verdict is the median of several independent verdicts, field by field.

    A failed vote is not repeated. The other votes suffice if the failed vote could not change the
    median of any field; of three votes, two equal ones suffice. Otherwise, one of the errors is
    raised: a `JudgeUnavailable` if there is one, since a retry may help. A `JudgeMisconfigured` is
    always raised. The confidence in a field is the share of all planned votes that agree with the
    median. The reason for the grade of a field is taken from the first vote that agrees with the
    median.

    Args:
        judge: specification of the judge that votes, for `make_judge`. The judge must be able
            to draw (see `can_draw`), since all votes of a deterministic judge are equal.
        votes: odd number of votes.

    Raises:
        ValueError: the judge cannot draw, or the number of votes is not odd.
    """

    def __init__(self, judge: str | Mapping[str, object], votes: int = 3) -> None:
        if type(votes) is not int or votes < 1 or votes % 2 == 0:
            raise ValueError(f"votes: expected an odd number >= 1, got {votes!r}")
        inner = as_async(make_judge(judge))
        if not can_draw(inner):
            raise ValueError(
                f"votes: expected a judge that samples its verdicts; {inner.name!r} does not"
            )
        self._judge, self.votes, self.parts = inner, votes, (inner,)
        self.name = f"votes({inner.name}, {votes})"

    async def averdict(self, task: Task, revised: str, draw: int = 0) -> Verdict:
        """Return the median verdict; another `draw` gives other votes of the inner judge."""
        draws = range(draw * self.votes, (draw + 1) * self.votes)
        votes = (drawn(self._judge, number).averdict(task, revised) for number in draws)
        outcomes = await outcomes_of(votes)
        verdicts = [outcome for outcome in outcomes if isinstance(outcome, Verdict)]
        failures = [outcome for outcome in outcomes if isinstance(outcome, JudgeError)]
        for failure in failures:
            # `JudgeMisconfigured` is raised even if other votes suffice: later calls would fail.
            if isinstance(failure, JudgeMisconfigured):
                raise failure
        verdict = count(verdicts, self.votes)
        if verdict is None:
            cause = gravest(failures)
            failed = f"{len(failures)} of {self.votes} votes of {self._judge.name!r} failed"
            raise type(cause)(f"{failed}: {cause}") from cause
        return verdict


def count(votes: Sequence[Verdict], planned: int) -> Verdict | None:
    """Return the median verdict of votes; None if the missing votes could change the median.

    Args:
        votes: the verdicts received.
        planned: number of votes requested, odd.
    """
    missing = planned - len(votes)
    outcome: dict[str, int] = {}
    items = dict.fromkeys(text for vote in votes for text in vote.items)
    for field in (*VERDICT_FIELDS, *items):
        grades = [_grade(vote, field) for vote in votes]
        # The median is monotone in each vote, so it lies between its values with all missing votes
        # at -1 and at 1.
        outcome[field] = median([*grades, *[-1] * missing])
        if outcome[field] != median([*grades, *[1] * missing]):
            return None
    reasons: dict[str, str] = {}
    confidence: dict[str, float] = {}
    for field, value in outcome.items():
        agree = [vote for vote in votes if _grade(vote, field) == value]
        confidence[field] = len(agree) / planned
        if field in agree[0].reasons:
            reasons[field] = agree[0].reasons[field]
    fields = {field: outcome.pop(field) for field in VERDICT_FIELDS}
    return Verdict(**fields, reasons=reasons, confidence=confidence, items=outcome)


def _grade(verdict: Verdict, field: str) -> Any:
    """Return the grade of a field, or of the rubric item whose text is `field`."""
    return verdict.items[field] if field in verdict.items else getattr(verdict, field)


def gravest(failures: Iterable[JudgeError]) -> JudgeError:
    """Return the gravest error, in the order: misconfigured, unavailable, refused, any other."""
    order = (JudgeMisconfigured, JudgeUnavailable, JudgeRefused, JudgeError)
    return min(failures, key=lambda error: [isinstance(error, k) for k in order].index(True))
