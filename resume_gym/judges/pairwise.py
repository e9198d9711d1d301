"""Pairwise: the revisions of a group and their original, ranked by who is preferred to whom.

A judge that says "better" of all sixteen revisions tells nothing apart. Compared with each other
they have an order, and the original in it says which are better than it.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import combinations
from typing import Any, Protocol, cast

import numpy as np

from resume_gym.judges import (
    JudgeError,
    JudgeMisconfigured,
    JudgeUnavailable,
    as_async,
    make_judge,
)
from resume_gym.judges.rubric import RubricJudge, compare
from resume_gym.judges.vetoes import veto
from resume_gym.judges.votes import Composed, drawn, gravest
from resume_gym.rewards import Verdict
from resume_gym.tasks import Task

_PRIOR = 2.0  # standard deviation of the strengths, in log-odds; keeps the winless finite
_BYE = ""  # who meets it sits out


class Compares(Protocol):
    """A judge that knows which of two texts is the better one, and is blind to their order.

    It asks in both orders, or its answer changes its sign with the order: it is asked once a match.
    What the texts make up need not count, as the verdicts say that.
    """

    async def compare(self, task: Task, first: str, second: str, draw: int = 0) -> int:
        """1 if the second text is better, -1 if the first is, 0 if neither is.

        Raises:
            JudgeError: there is no answer.
        """
        ...


class _Rubric:
    """The rubric's comparison, which changes its sign with the order by its making."""

    async def compare(self, task: Task, first: str, second: str, draw: int = 0) -> int:
        found = await asyncio.to_thread(compare, task, first, second)
        return found.grade("preference")


@dataclass(frozen=True, slots=True)
class Match:
    """Two contestants, by id, and what came of it.

    Attributes:
        outcome: 1 if the second is better, -1 if the first is, 0 if neither is; or why nobody
            knows.
    """

    first: str
    second: str
    outcome: int | JudgeError


@dataclass(frozen=True, slots=True)
class Ranking:
    """Texts by how strongly they are preferred.

    Attributes:
        ids: of the texts, in the order in which they were given; equal texts share one.
        original: id of the original.
        strengths: by id, in log-odds: one that is stronger by x is preferred e^x : 1. That of the
            original is 0. Who has no comparisons that lead to the original is not in it.
        order: the ids in it, strongest first.
        matches: the comparisons.
    """

    ids: tuple[str, ...]
    original: str
    strengths: Mapping[str, float]
    order: tuple[str, ...]
    matches: tuple[Match, ...]

    def failure(self, contestant: str) -> JudgeError:
        """Why a contestant has no strength."""
        told = f"no comparison of revision {contestant} leads to the original"
        own = [one.outcome for one in self.matches if contestant in (one.first, one.second)]
        failures = [one for one in own if isinstance(one, JudgeError)]
        cause = gravest(failures) if failures else JudgeUnavailable("others could not be compared")
        return type(cause)(f"{told}: {cause}")


class Pairwise(Composed):
    """The preference by rank within the group, the other fields by the inner judge.

    The contestants are the different texts among the revisions, and the original. All revisions
    meet the original. Up to six also meet each other; more play Swiss rounds, in which those who
    are level meet, and nobody twice. Strengths are those of Bradley and Terry, a tie being half a
    win, with a wide normal prior. A revision is better than the original if the odds that it is
    preferred are at least `margin` to one, worse at the inverse, else the same; one that claims
    what has no support is never better.

    With a model as the judge a match takes two requests, one for each order, and a verdict three:
    of these two are those of the match with the original, which the client sends once.

    Comparisons that fail are left out. A revision which no chain of comparisons links to the
    original has no verdict. A revision that a veto settles keeps the veto's verdict and does not
    compete.

    Args:
        judge: gives the other fields, and compares unless `compares` is given.
        rounds: Swiss rounds; by default ceil(log2 n) + 1 for n revisions. More rounds than half
            the revisions mean all pairs.
        margin: odds from which a revision differs from the original.
        compares: another judge to compare; the rubric can.

    Raises:
        ValueError: a judge that is to compare cannot, or a number is out of range.
    """

    grouped = True

    def __init__(
        self,
        judge: str | Mapping[str, Any],
        rounds: int | None = None,
        margin: float = 1.5,
        compares: str | Mapping[str, Any] | None = None,
    ) -> None:
        if rounds is not None and (type(rounds) is not int or rounds < 1):
            raise ValueError(f"pairwise: rounds: expected a whole number from 1, got {rounds!r}")
        if not isinstance(margin, int | float) or not margin >= 1:
            raise ValueError(f"pairwise: margin: expected odds of at least 1, got {margin!r}")
        inner = make_judge(judge)
        comparing = inner if compares is None else make_judge(compares)
        if not isinstance(comparing, RubricJudge) and not hasattr(comparing, "compare"):
            raise ValueError(f"pairwise: {comparing.name!r} cannot compare; set compares")
        rubric = isinstance(comparing, RubricJudge)
        self._compares = _Rubric() if rubric else cast(Compares, comparing)
        self._judge, self._rounds, self._margin = as_async(inner), rounds, margin
        self.parts = (self._judge,) if comparing is inner else (self._judge, comparing)
        by = "" if comparing is inner else f", {comparing.name}"
        self.name = f"pairwise({inner.name}{by})"

    async def averdict(self, task: Task, revised: str, draw: int = 0) -> Verdict:
        """The verdict on a group of one; see `AsyncJudge`."""
        (said,) = await self.averdicts(task, [revised], draw)
        if isinstance(said, JudgeError):
            raise said
        return said

    async def averdicts(
        self, task: Task, group: Sequence[str], draw: int = 0
    ) -> list[Verdict | JudgeError]:
        """The verdicts of a group that is ranked as one; see `AsyncJudge`."""
        vetoes = await asyncio.to_thread(lambda: [veto(task, revised) for revised in group])
        texts = [text for text, vetoed in zip(group, vetoes, strict=True) if vetoed is None]
        said = iter(await self._ranked(task, texts, draw) if texts else ())
        return [next(said) if vetoed is None else vetoed for vetoed in vetoes]

    async def _ranked(
        self, task: Task, texts: Sequence[str], draw: int
    ) -> list[Verdict | JudgeError]:
        try:
            # at once: what both ask is then on its way only once
            said, ranking = await asyncio.gather(
                drawn(self._judge, draw).averdicts(task, texts), self.rank(task, texts, draw)
            )
        except JudgeMisconfigured as error:
            return [error] * len(texts)
        return [
            one if isinstance(one, JudgeError) else self._placed(one, ranking, contestant)
            for one, contestant in zip(said, ranking.ids, strict=True)
        ]

    def _placed(self, verdict: Verdict, ranking: Ranking, contestant: str) -> Verdict | JudgeError:
        """The verdict with the preference that the ranking says."""
        strength = ranking.strengths.get(contestant)
        if strength is None:
            return ranking.failure(contestant)
        odds = math.exp(abs(strength))
        better = (strength > 0) - (strength < 0) if odds >= self._margin else 0
        sure = odds / (1 + odds) if better else 2 / (1 + odds)
        place, of = ranking.order.index(contestant) + 1, len(ranking.order)
        winner = "it is preferred to the original" if strength >= 0 else "the original is preferred"
        reason = f"Place {place} of {of}, with the original; {winner} with odds of {odds:.1f} to 1."
        if verdict.hallucination < 0 < better:
            better, sure = 0, verdict.confidence.get("hallucination", sure)
            reason = f"No better, for a claim without support. {reason}"
        return replace(
            verdict,
            preference=better,
            reasons={**verdict.reasons, "preference": reason},
            confidence={**verdict.confidence, "preference": sure},
        )

    async def rank(self, task: Task, texts: Sequence[str], draw: int = 0) -> Ranking:
        """The revisions of a resume and the original, ranked.

        Raises:
            JudgeMisconfigured: nothing can be compared.
        """
        ids = tuple(map(_identity, texts))
        original = _identity(task.resume)
        contestants = {**dict(zip(ids, texts, strict=True)), original: task.resume}

        async def meet(pairs: Iterable[tuple[str, str]]) -> list[Match]:
            every = (self._match(task, contestants, *pair, draw) for pair in pairs)
            return await asyncio.gather(*every)

        matches = await self._play(sorted(contestants.keys() - {original}), original, meet)
        linked = sorted(_linked(original, matches))
        level = bradley_terry(linked, matches)
        # rounded, so that equals are equal
        strengths = {one: round(level[one] - level[original], 9) for one in linked}
        order = sorted(linked, key=lambda one: (-strengths[one], one))
        return Ranking(ids, original, strengths, tuple(order), tuple(matches))

    async def _play(
        self,
        ids: Sequence[str],
        original: str,
        meet: Callable[[Iterable[tuple[str, str]]], Awaitable[list[Match]]],
    ) -> list[Match]:
        rounds = self._rounds or math.ceil(math.log2(max(2, len(ids)))) + 1
        first = [(original, one) for one in ids]
        if 2 * rounds > len(ids) + 1:
            return await meet([*first, *combinations(ids, 2)])
        matches = await meet(first)
        for _ in range(rounds):
            matches += await meet(pairing(ids, matches))
        return matches

    async def _match(
        self, task: Task, contestants: Mapping[str, str], first: str, second: str, draw: int
    ) -> Match:
        one, other = contestants[first], contestants[second]
        try:
            outcome = await self._compares.compare(task, one, other, draw)
        except JudgeMisconfigured:
            raise
        except JudgeError as error:
            return Match(first, second, error)
        return Match(first, second, outcome)


def _identity(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def pairing(ids: Sequence[str], matches: Iterable[Match]) -> list[tuple[str, str]]:
    """Who meets whom in the next Swiss round.

    Neighbours by the score so far (wins less losses, those against others included), and nobody
    twice. One of an odd number sits out: the last who has not yet. A match that failed counts as
    played.
    """
    score = dict.fromkeys(ids, 0)
    met: dict[str, set[str]] = {one: set() for one in ids}
    for match in matches:
        for one, other, sign in ((match.first, match.second, -1), (match.second, match.first, 1)):
            if one in met:
                met[one] |= {other} & met.keys()
                score[one] += 0 if isinstance(match.outcome, JudgeError) else sign * match.outcome
    order = sorted(ids, key=lambda one: (-score[one], one))
    if len(ids) % 2:
        played = max(map(len, met.values()))
        met[_BYE] = {one for one in ids if len(met[one]) < played}
        for one in met[_BYE]:
            met[one].add(_BYE)
        order.append(_BYE)
    pairs = _pair_off(order, met)
    if pairs is None:
        raise ValueError(f"pairwise: {len(ids)} contestants have no round left without a rematch")
    return [pair for pair in pairs if _BYE not in pair]


def _pair_off(order: Sequence[str], met: Mapping[str, set[str]]) -> list[tuple[str, str]] | None:
    if not order:
        return []
    first, *rest = order
    for other in rest:
        if other not in met[first]:
            left = _pair_off([one for one in rest if one != other], met)
            if left is not None:
                return [(first, other), *left]
    return None


def _linked(contestant: str, matches: Iterable[Match]) -> set[str]:
    """Whom a chain of comparisons links to a contestant, with him."""
    pairs = [(m.first, m.second) for m in matches if not isinstance(m.outcome, JudgeError)]
    linked, grown = {contestant}, True
    while grown:
        more = {one for pair in pairs if linked & set(pair) for one in pair} - linked
        linked |= more
        grown = bool(more)
    return linked


def bradley_terry(
    ids: Sequence[str], matches: Iterable[Match], prior: float = _PRIOR
) -> dict[str, float]:
    """The most probable strengths, in log-odds, by Newton's method.

    The same as choix's `opt_pairwise`, which would bring scipy for these lines.

    Args:
        ids: of the contestants; the matches of others do not count.
        matches: a tie is half a win of each.
        prior: standard deviation of a normal distribution of the strengths around 0.
    """
    place = {one: number for number, one in enumerate(ids)}
    wins = np.zeros((len(ids), len(ids)))  # [n, n]: how often one was preferred to another
    for match in matches:
        known = match.first in place and match.second in place
        if known and not isinstance(match.outcome, JudgeError):
            first, second = place[match.first], place[match.second]
            wins[second, first] += (1 + match.outcome) / 2
            wins[first, second] += (1 - match.outcome) / 2
    games, strength = wins + wins.T, np.zeros(len(ids))
    for _ in range(200):
        chance = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))  # [n, n]
        slope = (wins - games * chance).sum(axis=1) - strength / prior**2
        spread = games * chance * (1 - chance)
        bend = np.diag(spread.sum(axis=1) + 1 / prior**2) - spread
        step = np.linalg.solve(bend, slope)
        size = float(np.abs(step).max())
        strength += step / max(1.0, size)  # a long step could overshoot
        if size < 1e-12:
            break
    return dict(zip(ids, strength.tolist(), strict=True))
