"""Verdicts of a judge on finished episodes, in evaluation and in training."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

from resume_gym.episode.editing import AnySession
from resume_gym.judges import AsyncJudge, Judge, JudgeError, JudgeMalformed, JudgeUnavailable
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
    deadline, pause = time.monotonic() + timeout_s, _RETRY_S
    while True:
        verdicts = await _ask(judge, task, texts, deadline, threads)
        unavailable = any(isinstance(verdict, JudgeUnavailable) for verdict in verdicts)
        if not unavailable or time.monotonic() + pause > deadline:
            break
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_RETRY_S)
    return [_grade(*pair) for pair in zip(sessions, verdicts, strict=True)]


def _grade(session: AnySession, verdict: object) -> JudgeError | None:
    if isinstance(verdict, JudgeError):
        return verdict
    try:
        session.grade(verdict)
    except ValueError as malformed:
        return JudgeMalformed(str(malformed))
    return None


async def _ask(
    judge: Judge, task: Any, texts: Sequence[str], deadline: float, threads: Executor | None
) -> list[Any]:
    """Return the verdict on each text, or a `JudgeError` in its place.

    An unexpected exception of a judge becomes the cause of a `JudgeError`.
    """
    error: JudgeError
    try:
        if isinstance(judge, AsyncJudge):
            verdicts = await asyncio.wrap_future(submit(judge.averdicts(task, texts)))
            if len(verdicts) != len(texts):
                raise JudgeMalformed(f"expected {len(texts)} verdicts, got {len(verdicts)}")
            return verdicts
        (text,) = texts
        if threads is None:
            return [judge.judge(task, text)]
        async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
            loop = asyncio.get_running_loop()
            return [await loop.run_in_executor(threads, judge.judge, task, text)]
    except TimeoutError:
        error = JudgeUnavailable(f"the judge {judge.name!r} has not answered in time")
    except JudgeError as failure:
        error = failure
    except Exception as bug:  # a user's judge may raise anything
        error = JudgeError(f"the judge {judge.name!r} raised {type(bug).__name__}: {bug}")
        error.__cause__ = bug
    return [error] * len(texts)
