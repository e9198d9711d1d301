"""Listwise judge: one request to a model ranks all revisions of a group.

A group takes two requests, one for each of two orders of its n revisions; pairwise comparisons take
about n log n. The rankings give scores for training; the verdicts are those of an inner judge.
"""

from collections.abc import Mapping, Sequence
from random import Random
from statistics import fmean
from typing import Any

from resume_gym.episode.rewards import Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import (
    AsyncJudge,
    Outcome,
    Score,
    as_async,
    check_weight,
    make_judge,
    together,
)
from resume_gym.judges.votes import drawn, score_unvetoed


class Listwise(AsyncJudge):
    """Judge that scores the revisions of a group by rankings; an inner judge gives the verdicts.

    The distinct revisions are ranked twice: in a random order, and in the reversed order, since the
    order may bias a model. The score of a revision is the share of the others that it is placed
    above, minus the share that it is placed below, averaged over both rankings; it is from -1 to 1.
    A group in which all revisions are equal is not ranked, and all scores are 0. If a ranking
    fails, the group has no scores.

    Args:
        judge: the inner judge, which also ranks unless `ranks` is given.
        ranks: another judge that ranks. Its coroutine `places(task, texts, draw)` returns the place
            of each text, 1 for the best; texts may share a place. Model judges and `rubric` rank.
        weight: weight of the scores in training; 0 for no scores.
        seed: random seed of the order; the order also depends on the texts.

    Raises:
        ValueError: the ranking judge has no `places`, or a number is out of range.
    """

    def __init__(
        self,
        judge: str | Mapping[str, object],
        ranks: str | Mapping[str, object] | None = None,
        weight: float = 1.0,
        seed: int = 0,
    ) -> None:
        check_weight("listwise: weight", weight)
        if type(seed) is not int:
            raise ValueError(f"listwise: seed: expected a whole number, got {seed!r}")
        self._judge = as_async(make_judge(judge))
        self.parts = (self._judge, *([] if ranks is None else [make_judge(ranks)]))
        self.grouped = self._judge.grouped
        self._ranks: Any = self.parts[-1]
        if not hasattr(self._ranks, "places"):
            raise ValueError(f"listwise: {self._ranks.name!r} cannot rank; set option 'ranks'")
        self.group_weight, self._seed = weight, seed
        self.name = f"listwise({', '.join(part.name for part in self.parts)})"

    async def averdict(self, task: Task, revised: str, draw: int = 0) -> Verdict:
        """Return the verdict of the inner judge; see `AsyncJudge`."""
        return await drawn(self._judge, draw).averdict(task, revised)

    async def averdicts(self, task: Task, group: Sequence[str], draw: int = 0) -> list[Outcome]:
        """Return the verdicts of the inner judge; see `AsyncJudge`."""
        return await drawn(self._judge, draw).averdicts(task, group)

    async def judge_group(self, task: Task, group: Sequence[str]) -> list[Score]:
        """Return the scores of a group's revisions; see `GroupScorer`.

        Raises:
            JudgeError: a ranking failed.
        """

        async def score(texts: Sequence[str]) -> list[Score]:
            order = sorted(set(texts))
            Random(f"{self._seed}:{order}").shuffle(order)
            scores = dict.fromkeys(order, 0.0)
            if len(order) > 1:
                there, back = await together(
                    self._ranks.places(task, one) for one in (order, order[::-1])
                )
                rankings = [dict(zip(order, there, strict=True))]
                rankings.append(dict(zip(order[::-1], back, strict=True)))
                scores = {text: fmean(_lead(one, text) for one in rankings) for text in order}
            return [scores[text] for text in texts]

        return await score_unvetoed(task, group, score)


def _lead(places: Mapping[str, int], text: str) -> float:
    """Return the share of the other texts placed below a text, minus the share placed above it."""
    own = places[text]
    lead = sum((place > own) - (place < own) for place in places.values())
    return lead / (len(places) - 1)
