"""Play and grade many episodes of one agent concurrently; the entry point is `play_all`.

If the agent or the judge fails on an episode, that episode ends with an error message instead of a
reward, and the others continue. Configuration errors, e.g. a wrong key or address, end the run.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from resume_gym.editing import EditSession
from resume_gym.evaluation.episodes import grade
from resume_gym.evaluation.players import Player
from resume_gym.judges import Judge, JudgeError, JudgeMisconfigured
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
    max_concurrency: int,
    ended: Callable[[Job], object],
) -> None:
    """Play and grade episodes concurrently.

    A synchronous judge blocks the event loop, one episode at a time. Each episode is judged alone,
    even if the judge could rank the rollouts of a task.

    Args:
        player: player of the episodes.
        jobs: episodes, consumed lazily.
        judge: judge of the final documents.
        max_concurrency: number of concurrent episodes.
        ended: callback after each episode, graded or failed, in order of completion.

    Raises:
        GivenUpError: max(`IN_A_ROW`, 2 * `max_concurrency`) episodes failed in a row.
        JudgeMisconfigured: the judge can grade no episode.
        Misconfigured: the player can play no episode.
    """
    rest = iter(jobs)
    limit = max(IN_A_ROW, 2 * max_concurrency)
    failed = 0

    async def work() -> None:
        nonlocal failed
        for job in rest:
            # a scripted agent with a synchronous judge never yields to the event loop, which could
            # then neither cancel this task nor handle Ctrl-C
            await asyncio.sleep(0)
            await _play_and_grade(player, job, judge)
            failed = failed + 1 if job.failure else 0
            ended(job)
            if failed >= limit:
                message = f"{failed} episodes failed in a row, the last of them by {job.failure}"
                raise GivenUpError(message)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(max_concurrency):
                group.create_task(work())
    except ExceptionGroup as several:
        failures = several.exceptions
    else:
        return
    raise failures[0]


async def _play_and_grade(player: Player, job: Job, judge: Judge) -> None:
    """Play and grade an episode, or set `job.failure`."""
    session = job.session
    try:
        if not session.done:
            await player.play(session, job.seed)
        if session.needs_verdict:
            (error,) = await grade([session], judge)
            if error:
                raise error
    except (Misconfigured, JudgeMisconfigured):
        raise
    except (ModelError, JudgeError) as problem:
        message = f"{type(problem).__name__}: {problem}"
        # lone surrogates in a message would make the results unwritable
        job.failure = message.encode("utf-8", "backslashreplace").decode()
