"""Many episodes of one agent at once: played, graded, handed on as they end.

An episode whose agent could not act, or that got no verdict, ends with a failure and without a
number; the others go on. What no episode can survive, a wrong key or address, ends all.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from resume_gym.editing import EditSession
from resume_gym.evaluation.players import Player
from resume_gym.judges import AsyncJudge, Judge, JudgeError, JudgeMisconfigured
from resume_gym.llm import Misconfigured, ModelError

IN_A_ROW = 64
"""After so many failures without a graded episode between them something is wrong with all."""


@dataclass
class Job:
    """One episode.

    Attributes:
        rollout: its number among those of its task.
        session: new, or finished before and without a verdict yet.
        seed: of the episode.
        failure: why there is no number; empty if there is one, or it has not ended.
    """

    rollout: int
    session: EditSession[Any, Any]
    seed: int
    failure: str = ""


class GivenUpError(ModelError):
    """Too many episodes failed in a row; what ended before is not lost."""


async def play_all(
    player: Player,
    jobs: Iterable[Job],
    judge: Judge,
    at_once: int,
    ended: Callable[[Job], object],
) -> None:
    """Play and grade episodes, some side by side.

    A judge that computes is asked in this loop, one episode after the other; each episode is
    judged alone, also where a judge could rank those of a task.

    Args:
        player: plays.
        jobs: taken one by one.
        judge: grades.
        at_once: how many side by side.
        ended: called as each ends, in any order, well or not.

    Raises:
        GivenUpError: `IN_A_ROW` failed, or twice as many as there are side by side.
        JudgeMisconfigured: no verdict can be had on anything.
        Misconfigured: the player can do nothing.
    """
    rest = iter(jobs)
    run = _Run(player, judge, ended, max(IN_A_ROW, 2 * at_once))
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(run.work(rest))
    except ExceptionGroup as several:
        failures = several.exceptions
    else:
        return
    raise failures[0]


class _Run:
    def __init__(
        self, player: Player, judge: Judge, ended: Callable[[Job], object], most: int
    ) -> None:
        self._player, self._judge, self._ended = player, judge, ended
        self._most = most
        self._in_a_row = 0

    async def work(self, jobs: Iterator[Job]) -> None:
        """Play one after the other; other workers take from the same."""
        for job in jobs:
            await asyncio.sleep(0)  # who never waits for anybody must still be interruptible
            try:
                await self._one(job)
            except (Misconfigured, JudgeMisconfigured):
                raise
            except (ModelError, JudgeError) as problem:
                told = f"{type(problem).__name__}: {problem}"
                job.failure = told.encode("utf-8", "backslashreplace").decode()
            self._in_a_row = self._in_a_row + 1 if job.failure else 0
            self._ended(job)
            if self._in_a_row >= self._most:
                told = f"{self._in_a_row} episodes failed in a row"
                raise GivenUpError(f"{told}, the last of them by {job.failure}")

    async def _one(self, job: Job) -> None:
        session, judge = job.session, self._judge
        if not session.done:
            await self._player.play(session, job.seed)
        if not session.needs_verdict:
            return
        verdict: Any
        if isinstance(judge, AsyncJudge):
            verdict = await asyncio.wrap_future(judge.submit(session.task, session.text))
        else:
            verdict = judge.judge(session.task, session.text)
        session.grade(verdict)
