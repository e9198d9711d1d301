"""Pairwise judge: rank the revisions of a group and their original by pairwise comparisons.

If all revisions of a group get the same verdict, their advantages are zero. Comparisons rank even
revisions with equal verdicts. A revision that ranks clearly above the original counts as better;
in training, the strengths estimated by the ranking can also be added to rewards (`weight`).
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from resume_gym.episode.tasks import Task
from resume_gym.judges import (
    JudgeError,
    JudgeMisconfigured,
    JudgeUnavailable,
    Outcome,
    Score,
    as_async,
    attempt,
    check_weight,
    make_judge,
)
from resume_gym.judges.votes import GroupJudge, drawn, gravest, score_unvetoed

_PRIOR = 2.0  # standard deviation of the prior on strengths; the prior keeps strengths finite
# a virtual opponent; the contestant that is paired with it does not play in this Swiss round
_BYE = ""
_GROUPS = 1000  # maximum number of groups whose scores are kept


class Match(NamedTuple):
    """A comparison of two contestants (revisions or the original), which are identified by id.

    Attributes:
        outcome: 1 if `second` is better, -1 if `first` is, 0 for a tie; or the error of the judge.
    """

    first: str
    second: str
    outcome: int | JudgeError


class Ranking(NamedTuple):
    """Result of `Pairwise.rank`.

    Attributes:
        ids: ids of the texts passed to `rank`, in the same order; equal texts share one id.
        original: id of the original resume.
        strengths: Bradley-Terry strength by id, in log-odds relative to the original: a text
            stronger than another by x is preferred to it with odds of e^x to 1. A text that no
            chain of successful comparisons links to the original is left out.
        order: the ids in `strengths`, the strongest contestant first.
        matches: all comparisons, including failed comparisons.
    """

    ids: tuple[str, ...]
    original: str
    strengths: Mapping[str, float]
    order: tuple[str, ...]
    matches: tuple[Match, ...]

    def failure(self, contestant: str) -> JudgeError:
        """Return the error that explains why a contestant has no strength."""
        unlinked = f"no chain of comparisons links revision {contestant} to the original"
        outcomes = [m.outcome for m in self.matches if contestant in (m.first, m.second)]
        failures = [outcome for outcome in outcomes if isinstance(outcome, JudgeError)]
        cause = gravest(failures) if failures else JudgeUnavailable("other comparisons failed")
        return type(cause)(f"{unlinked}: {cause}")


class Pairwise(GroupJudge):
    """Judge that grades `preference` by ranking the group; an inner judge grades the other fields.

    The contestants are the distinct revisions and the original. Every revision is compared with the
    original. By default, groups of up to six revisions are also compared in all pairs. Larger
    groups play Swiss rounds: each round pairs revisions of similar score that have not met.
    Strengths are estimated with the Bradley-Terry model and a wide normal prior; a tie counts as
    half a win for each side. A revision is better if it is preferred to the original with odds of
    at least `margin` to 1, worse if the original is preferred with at least these odds, and
    otherwise the same. A revision with an unsupported claim is never better.

    With a model judge, a verdict costs three requests: a claim check, and a comparison with the
    original in both orders. A match of two revisions costs two requests, one for each order. A
    match with the original costs none, since it reuses the comparisons of the verdict.

    Failed comparisons are ignored. A revision that no chain of comparisons links to the original
    gets an error. A revision that a veto rejects keeps the verdict of the veto and is not ranked.

    With a `weight`, the judge also scores groups (see `GroupScorer`), without more comparisons: the
    score of a revision is its strength, but at most that of the original (0) if the inner judge
    finds an unsupported claim.

    Args:
        judge: the inner judge, which also makes the comparisons unless `compares` is given.
        rounds: number of Swiss rounds; by default ceil(log2 n) + 1 for n revisions. With
            more than (n + 1) / 2 rounds, all pairs of revisions are compared instead.
        margin: minimum odds at which a revision is better or worse than the original.
        compares: another judge for the comparisons, such as `rubric`. Its coroutine
            `compare(task, first, second, draw)` returns 1 if the second text is better, -1 if the
            first is, else 0; it must have no position bias. `judge` grades the other fields.
        weight: weight of the scores in training; 0 for no scores.

    Raises:
        ValueError: the comparing judge has no `compare`, or a number is out of range.
    """

    def __init__(
        self,
        judge: str | Mapping[str, object],
        rounds: int | None = None,
        margin: float = 1.5,
        compares: str | Mapping[str, object] | None = None,
        weight: float = 0.0,
    ) -> None:
        check_weight("pairwise: weight", weight)
        if rounds is not None and (type(rounds) is not int or rounds < 1):
            raise ValueError(f"pairwise: rounds: expected a whole number >= 1, got {rounds!r}")
        if not isinstance(margin, int | float) or not margin >= 1:
            raise ValueError(f"pairwise: margin: expected odds >= 1, got {margin!r}")
        inner = make_judge(judge)
        comparing = inner if compares is None else make_judge(compares)
        if not hasattr(comparing, "compare"):
            raise ValueError(f"pairwise: {comparing.name!r} cannot compare; set option 'compares'")
        self._compares: Any = comparing
        self._judge, self._rounds, self._margin = as_async(inner), rounds, margin
        self.group_weight = weight
        # (task id, ids of the revisions) -> scores by id, until `judge_group` takes them
        self._scores: dict[tuple[str, frozenset[str]], Mapping[str, Score]] = {}
        self.parts = (self._judge,) if comparing is inner else (self._judge, comparing)
        self.name = f"pairwise({', '.join(part.name for part in self.parts)})"

    async def judge_group(self, task: Task, group: Sequence[str]) -> list[Score]:
        """Return the strengths of a group's revisions; see `GroupScorer`."""

        async def score(texts: Sequence[str]) -> list[Score]:
            revised = {_identity(text): text for text in texts if text != task.resume}
            scores = self._scores.pop((task.task_id, frozenset(revised)), None)
            if scores is None:
                judged = await self._ranked(task, [*revised.values()], 0) if revised else []
                scores = {one: score for one, (_, score) in zip(revised, judged, strict=True)}
            return [0.0 if text == task.resume else scores[_identity(text)] for text in texts]

        return await score_unvetoed(task, group, score)

    async def _judge_together(self, task: Task, texts: Sequence[str], draw: int) -> list[Outcome]:
        judged = await self._ranked(task, texts, draw)
        if self.group_weight:  # keep the scores, since new comparisons would cost as much again
            if len(self._scores) >= _GROUPS:
                del self._scores[next(iter(self._scores))]
            pairs = zip(texts, judged, strict=True)
            scores = {_identity(text): score for text, (_, score) in pairs}
            self._scores[task.task_id, frozenset(scores)] = scores
        return [outcome for outcome, _ in judged]

    async def _ranked(
        self, task: Task, texts: Sequence[str], draw: int
    ) -> list[tuple[Outcome, Score]]:
        """Return the outcome and the score of each of several revisions."""
        try:
            # Verdicts and matches run concurrently; the client merges identical requests of both.
            outcomes, ranking = await asyncio.gather(
                drawn(self._judge, draw).averdicts(task, texts), self.rank(task, texts, draw)
            )
        except JudgeMisconfigured as error:
            return [(error, error)] * len(texts)
        pairs = zip(outcomes, ranking.ids, strict=True)
        return [self._placed(outcome, ranking, contestant) for outcome, contestant in pairs]

    def _placed(self, verdict: Outcome, ranking: Ranking, contestant: str) -> tuple[Outcome, Score]:
        if isinstance(verdict, JudgeError):
            return verdict, verdict
        strength = ranking.strengths.get(contestant)
        if strength is None:
            failure = ranking.failure(contestant)
            return failure, failure
        odds = math.exp(abs(strength))
        better = (strength > 0) - (strength < 0) if odds >= self._margin else 0
        # The confidence is the probability that the stronger text wins. In a tie, it is twice the
        # probability that the weaker one wins, which gives 1 at even odds.
        sure = odds / (1 + odds) if better else 2 / (1 + odds)
        place, of = ranking.order.index(contestant) + 1, len(ranking.order)
        winner = "it is preferred to the original" if strength >= 0 else "the original is preferred"
        reason = f"Place {place} of {of}, original included; {winner} with odds of {odds:.1f} to 1."
        if verdict.hallucination < 0 < better:
            better, sure = 0, verdict.confidence.get("hallucination", sure)
            reason = f"Not graded better because of an unsupported claim. {reason}"
        placed = replace(
            verdict,
            preference=better,
            reasons={**verdict.reasons, "preference": reason},
            confidence={**verdict.confidence, "preference": sure},
        )
        return placed, min(strength, 0.0) if verdict.hallucination < 0 else strength

    async def rank(self, task: Task, texts: Sequence[str], draw: int = 0) -> Ranking:
        """Rank the revisions of a resume together with the original.

        Raises:
            JudgeMisconfigured: the comparing judge cannot compare anything.
        """
        ids = tuple(map(_identity, texts))
        original = _identity(task.resume)
        contestants = {**dict(zip(ids, texts, strict=True)), original: task.resume}

        async def meet(pairs: Iterable[tuple[str, str]]) -> list[Match]:
            matches = (self._match(task, contestants, *pair, draw) for pair in pairs)
            return await asyncio.gather(*matches)

        matches = await self._play(sorted(contestants.keys() - {original}), original, meet)
        linked = sorted(_linked(original, matches))
        level = bradley_terry(linked, matches)
        # Strengths are rounded, so that numerical errors do not decide the order of equal
        # strengths.
        strengths = {name: round(level[name] - level[original], 9) for name in linked}
        order = sorted(linked, key=lambda name: (-strengths[name], name))
        return Ranking(ids, original, strengths, tuple(order), tuple(matches))

    async def _play(
        self,
        ids: Sequence[str],
        original: str,
        meet: Callable[[Iterable[tuple[str, str]]], Awaitable[list[Match]]],
    ) -> list[Match]:
        rounds = self._rounds or math.ceil(math.log2(max(2, len(ids)))) + 1
        with_original = [(original, revision) for revision in ids]
        if 2 * rounds > len(ids) + 1:
            return await meet([*with_original, *combinations(ids, 2)])
        matches = await meet(with_original)
        for _ in range(rounds):
            matches += await meet(pairing(ids, matches))
        return matches

    async def _match(
        self, task: Task, contestants: Mapping[str, str], first: str, second: str, draw: int
    ) -> Match:
        texts = contestants[first], contestants[second]
        outcome = await attempt(self._compares.compare(task, *texts, draw))
        return Match(first, second, outcome)


def _identity(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def pairing(ids: Sequence[str], matches: Iterable[Match]) -> list[tuple[str, str]]:
    """Return the pairs of the next Swiss round: neighbours by score that have not met.

    The score of a contestant is its wins minus its losses, including matches with contestants
    outside `ids`. If the number of contestants is odd, the lowest-scoring contestant that has not
    yet skipped a round skips this round. A failed match counts as played.

    Raises:
        ValueError: every pairing of the contestants repeats a match.
    """
    score = dict.fromkeys(ids, 0)
    met: dict[str, set[str]] = {name: set() for name in ids}
    for match in matches:
        won = 0 if isinstance(match.outcome, JudgeError) else match.outcome
        for name, other, sign in ((match.first, match.second, -1), (match.second, match.first, 1)):
            if name in met:
                met[name] |= {other} & met.keys()
                score[name] += sign * won
    order = sorted(ids, key=lambda name: (-score[name], name))
    if len(ids) % 2:
        # a contestant that has met fewer opponents than others has already skipped a round
        played = max(map(len, met.values()))
        met[_BYE] = {name for name in ids if len(met[name]) < played}
        for name in met[_BYE]:
            met[name].add(_BYE)
        order.append(_BYE)
    pairs = _pair_off(order, met)
    if pairs is None:
        raise ValueError(f"pairwise: every further round of {len(ids)} contestants repeats a match")
    return [pair for pair in pairs if _BYE not in pair]


def _pair_off(order: Sequence[str], met: Mapping[str, set[str]]) -> list[tuple[str, str]] | None:
    """Pair contestants of similar score that have not met, by backtracking; None if impossible."""
    if not order:
        return []
    first, *rest = order
    for other in rest:
        if other not in met[first]:
            pairs = _pair_off([name for name in rest if name != other], met)
            if pairs is not None:
                return [(first, other), *pairs]
    return None


def _linked(contestant: str, matches: Iterable[Match]) -> set[str]:
    """Return the contestants linked to `contestant` by chains of successful comparisons."""
    pairs = [(m.first, m.second) for m in matches if not isinstance(m.outcome, JudgeError)]
    linked, grown = {contestant}, True
    while grown:
        more = {name for pair in pairs if linked & set(pair) for name in pair} - linked
        linked |= more
        grown = bool(more)
    return linked


def bradley_terry(
    ids: Sequence[str], matches: Iterable[Match], prior: float = _PRIOR
) -> dict[str, float]:
    """Return the maximum a posteriori Bradley-Terry strengths, in log-odds, by Newton's method.

    The function is equivalent to `opt_pairwise` of the package choix, but does not need scipy.

    Args:
        ids: ids of the contestants; matches with other contestants are ignored.
        matches: the comparisons; a tie counts as half a win for each side.
        prior: standard deviation of the zero-mean normal prior on strengths, in log-odds.
    """
    place = {name: number for number, name in enumerate(ids)}
    # [n, n]: how often the row's text won against the column's
    wins = np.zeros((len(ids), len(ids)))
    for match in matches:
        listed = match.first in place and match.second in place
        if listed and not isinstance(match.outcome, JudgeError):
            first, second = place[match.first], place[match.second]
            wins[second, first] += (1 + match.outcome) / 2
            wins[first, second] += (1 - match.outcome) / 2
    games, strength = wins + wins.T, np.zeros(len(ids))
    for _ in range(200):
        # [n, n]: probability that the row's text is preferred to the column's
        chance = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
        slope = (wins - games * chance).sum(axis=1) - strength / prior**2
        spread = games * chance * (1 - chance)
        bend = np.diag(spread.sum(axis=1) + 1 / prior**2) - spread
        # `bend`, the negative Hessian, is positive definite because of the prior.
        step = np.linalg.solve(bend, slope)
        size = float(np.abs(step).max())
        strength += step / max(1.0, size)  # a full Newton step could overshoot
        if size < 1e-12:
            break
    return dict(zip(ids, strength.tolist(), strict=True))
