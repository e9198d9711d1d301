"""Verdicts of a judge on finished episodes, in evaluation and in training.

Scores (`score_group`) are for training alone: they compare the revisions of one task with each
other, so means of scores over tasks or agents have no meaning.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

from resume_gym.episode.editing import AnySession
from resume_gym.judges import (
    LARGEST,
    AsyncJudge,
    Judge,
    JudgeError,
    JudgeMalformed,
    JudgeUnavailable,
    Score,
    unexpected,
)
from resume_gym.llm.loop import submit

_RETRY_S, _MAX_RETRY_S = 0.5, 30.0  # first and longest pause before asking a judge again


async def grade(
    sessions: Sequence[AnySession],
    judge: Judge,
    timeout_s: float = 0.0,
    threads: Executor | None = None,
) -> list[JudgeError | None]:
    """Grade finished sessions of one task; more than one session requires an `AsyncJudge`.

    Args:
        sessions: finished sessions; a `grouped` judge compares them with each other.
        judge: judge of the final documents.
        timeout_s: time limit for retries of an unavailable judge, in seconds; 0 asks once.
        threads: executor that runs a synchronous judge, for at most `timeout_s` seconds; if None,
            the judge blocks the event loop. `timeout_s` does not interrupt an `AsyncJudge`, which
            limits the time of each request itself.

    Returns:
        For each session, its error if it got no verdict; None if it was graded.
    """
    task, texts = sessions[0].task, [session.text for session in sessions]
    deadline = time.monotonic() + timeout_s

    def ask() -> Awaitable[Sequence[Any]]:
        return _verdicts(judge, task, texts, deadline, threads)

    verdicts = await _answers(judge, ask, len(texts), deadline)
    return [_grade(*pair) for pair in zip(sessions, verdicts, strict=True)]


async def score_group(
    task: Any, texts: Sequence[str], judge: Any, timeout_s: float = 0.0
) -> list[Score]:
    """Return a judge's score of each revision of a group, or the judge's error in its place.

    Args:
        task: task of the group.
        texts: the revisions.
        judge: judge with the coroutine `judge_group`; see `GroupScorer`.
        timeout_s: time limit for retries of an unavailable judge, in seconds; 0 asks once.
    """

    def ask() -> Awaitable[Sequence[Any]]:
        return asyncio.wrap_future(submit(judge.judge_group(task, texts)))

    scores = await _answers(judge, ask, len(texts), time.monotonic() + timeout_s)
    return [score if isinstance(score, JudgeError) else _finite(score) for score in scores]


def _finite(score: Any) -> Score:
    with suppress(TypeError, ValueError):
        if abs(score) <= LARGEST:
            return float(score)
    return JudgeMalformed(f"expected a finite score, at most 1e6 in size, got {score!r:.40}")


def _grade(session: AnySession, verdict: object) -> JudgeError | None:
    if isinstance(verdict, JudgeError):
        return verdict
    try:
        session.grade(verdict)
    except ValueError as malformed:
        return JudgeMalformed(str(malformed))
    return None


async def _verdicts(
    judge: Judge, task: Any, texts: Sequence[str], deadline: float, threads: Executor | None
) -> Sequence[Any]:
    if isinstance(judge, AsyncJudge):
        return await asyncio.wrap_future(submit(judge.averdicts(task, texts)))
    (text,) = texts
    if threads is None:
        return [judge.judge(task, text)]
    async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
        loop = asyncio.get_running_loop()
        return [await loop.run_in_executor(threads, judge.judge, task, text)]


async def _answers(
    judge: Judge, ask: Callable[[], Awaitable[Sequence[Any]]], count: int, deadline: float
) -> Sequence[Any]:
    """Ask a judge, again while it is unavailable, until the deadline; return `count` answers."""
    pause = _RETRY_S
    while True:
        answers = await _attempt(judge, ask, count)
        unavailable = any(isinstance(answer, JudgeUnavailable) for answer in answers)
        if not unavailable or time.monotonic() + pause > deadline:
            return answers
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_RETRY_S)


async def _attempt(
    judge: Judge, ask: Callable[[], Awaitable[Sequence[Any]]], count: int
) -> Sequence[Any]:
    """Return the answer on each of `count` texts, or a `JudgeError` in its place.

    An unexpected exception of a judge becomes the cause of a `JudgeError`.
    """
    error: JudgeError
    try:
        answers = await ask()
        if len(answers) != count:
            raise JudgeMalformed(f"expected {count} answers, got {len(answers)}")
        return answers
    except TimeoutError:
        error = JudgeUnavailable(f"the judge {judge.name!r} has not answered in time")
    except JudgeError as failure:
        error = failure
    except (Exception, SystemExit) as bug:  # a user's judge may raise anything
        error = unexpected(judge.name, bug)
    return [error] * count
