"""Episodes: `play` runs one of a scripted agent, `evaluate` many, and `grade` asks the judge.

`grade` serves every loop with concurrent episodes: `play_all` and the orchestrator of training.
Each decides on its own what a failed episode means.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from itertools import product
from random import Random
from typing import Any

from resume_gym.agents import Agent
from resume_gym.editing import EditSession
from resume_gym.evaluation.summary import Episode
from resume_gym.judges import AsyncJudge, Judge, JudgeError, JudgeMalformed, JudgeUnavailable
from resume_gym.llm.loop import submit
from resume_gym.session import Rules, Session
from resume_gym.tasks import Task

_RETRY_S, _MAX_RETRY_S = 0.5, 30.0  # first and longest pause before a judge is asked again


def episode_seed(seed: int, rollout: int, task_id: str) -> int:
    """Return the seed of one episode; it is independent of the other tasks in the evaluation."""
    return Random(f"{seed}:{rollout}:{task_id}").getrandbits(32)


def play(agent: Agent, task: Task, rules: Rules, session_type: type[Session] = Session) -> Session:
    """Play one episode; return the finished session without a verdict."""
    session = session_type(task, rules)
    while not session.done:
        session.step(agent(session))
    return session


def evaluate(
    agent: Callable[[int], Agent],
    tasks: Sequence[Task],
    rules: Rules,
    judge: Judge,
    rollouts: int = 1,
    seed: int = 0,
    session_type: type[Session] = Session,
) -> tuple[Episode, ...]:
    """Play and grade `rollouts` episodes of an agent on each task.

    Args:
        agent: makes the agent of an episode from a seed.
        tasks: tasks to play.
        rules: limits of an episode.
        judge: judge of the final resumes.
        rollouts: episodes per task.
        seed: base of the episode seeds; equal seeds produce equal episodes.
        session_type: class of the sessions.

    Raises:
        JudgeError: the judge returned no verdict; a failure never becomes a reward.
    """
    sessions = [
        play(agent(episode_seed(seed, rollout, task.task_id)), task, rules, session_type)
        for rollout, task in product(range(rollouts), tasks)
    ]
    waiting = [session for session in sessions if session.needs_verdict]
    if isinstance(judge, AsyncJudge):  # judges all of them concurrently
        futures = [judge.submit(session.task, session.text) for session in waiting]
        try:
            verdicts = [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
    else:
        verdicts = [judge.judge(session.task, session.text) for session in waiting]
    for session, verdict in zip(waiting, verdicts, strict=True):
        session.grade(verdict)
    return tuple(map(Episode.of, sessions))


async def grade(
    sessions: Sequence[EditSession[Any, Any]],
    judge: Judge,
    timeout_s: float = 0.0,
    threads: Executor | None = None,
) -> list[JudgeError | None]:
    """Grade finished sessions of one task, several only for an `AsyncJudge`.

    Args:
        sessions: the sessions; a grouped judge ranks them together.
        judge: judge of the final documents.
        timeout_s: seconds in which an unavailable judge is asked again; 0 asks once.
        threads: runs a synchronous judge, for at most `timeout_s` seconds; None runs it in the
            event loop and blocks it. An `AsyncJudge` has timeouts of its own, which exclude the
            time in its queue.

    Returns:
        The error of each session without a verdict; None for graded sessions.
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


def _grade(session: EditSession[Any, Any], verdict: Any) -> JudgeError | None:
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
    """Return the verdict on each text, or the error in its place.

    The cause of an error is the exception of a judge that raised another one than it should.
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
