"""Play and grade many episodes of one agent concurrently; the entry point is `play_all`.

If the agent or the judge fails on an episode, that episode ends with an error message instead of a
reward, and the others continue. Configuration errors, e.g. a wrong key or address, end the run.
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
"""Minimum number of consecutive failures after which the evaluation gives up."""


@dataclass
class Job:
    """One episode to play and grade.

    Attributes:
        rollout: index among the episodes of its task.
        session: new session, or a finished one that still needs a verdict.
        seed: seed of the episode.
        failure: error message; empty unless the episode has failed.
    """

    rollout: int
    session: EditSession[Any, Any]
    seed: int
    failure: str = ""


class GivenUpError(ModelError):
    """Too many episodes failed in a row; episodes that ended before are kept."""


async def play_all(
    player: Player,
    jobs: Iterable[Job],
    judge: Judge,
    at_once: int,
    ended: Callable[[Job], object],
) -> None:
    """Play and grade episodes concurrently.

    A synchronous judge blocks the event loop, one episode at a time. Each episode is judged alone,
    even if the judge could rank the rollouts of a task.

    Args:
        player: player of the episodes.
        jobs: episodes, consumed lazily.
        judge: judge of the final documents.
        at_once: number of concurrent episodes.
        ended: callback after each episode, graded or failed, in order of completion.

    Raises:
        GivenUpError: max(`IN_A_ROW`, 2 * `at_once`) episodes failed in a row.
        JudgeMisconfigured: the judge can grade no episode.
        Misconfigured: the player can play no episode.
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
        """Play episodes from an iterator that all workers share."""
        for job in jobs:
            # a scripted agent with a synchronous judge never yields to the event loop, which could
            # then neither cancel this task nor handle Ctrl-C
            await asyncio.sleep(0)
            try:
                await self._one(job)
            except (Misconfigured, JudgeMisconfigured):
                raise
            except (ModelError, JudgeError) as problem:
                told = f"{type(problem).__name__}: {problem}"
                # lone surrogates in a message would make the results unwritable
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
