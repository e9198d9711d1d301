"""Evaluation loop: play and grade one agent's rollouts on all tasks concurrently.

`evaluate` plays a scripted agent and raises the first failure. `play_all` plays any agent; if the
agent or the judge fails, the episode has an error instead of a reward. `grade` asks the judge for
verdicts, in evaluation and in training.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any, TypeVar

from resume_gym.agents import Agent
from resume_gym.episode.editing import AnySession
from resume_gym.episode.session import Rules, Session
from resume_gym.episode.tasks import Task
from resume_gym.evaluation.players import Player, Scripted
from resume_gym.evaluation.records import Episode
from resume_gym.judges import (
    AsyncJudge,
    Judge,
    JudgeError,
    JudgeMalformed,
    JudgeMisconfigured,
    JudgeUnavailable,
    together,
)
from resume_gym.llm import Answer, Misconfigured, ModelError
from resume_gym.llm.client import heard
from resume_gym.llm.loop import submit

T = TypeVar("T")
IN_A_ROW = 64
"""`play_all` gives up after this number of failures in a row, or more if concurrency is high."""
_RETRY_S, _MAX_RETRY_S = 0.5, 30.0  # first and longest pause before asking a judge again


@dataclass
class PendingEpisode:
    """One episode to play and grade.

    Attributes:
        rollout: index of the episode among those of its task.
        session: new session, or a finished one that still needs a verdict.
        seed: seed of the episode.
        error: error that ended the episode; None if it has not failed.
        costs: tokens and seconds of each turn, if a model behind a server plays the episode.
        asked: prompts and answers of a model judge, with tokens and seconds.
    """

    rollout: int
    session: AnySession
    seed: int
    error: ModelError | JudgeError | None = None
    costs: list[dict[str, float]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)

    @property
    def failure(self) -> str:
        """The error of the episode as text; empty without an error."""
        told = f"{type(self.error).__name__}: {self.error}" if self.error else ""
        # escape lone surrogates: UTF-8, the encoding of the results, cannot represent them
        return told.encode("utf-8", "backslashreplace").decode()


def episode_seed(seed: int, rollout: int, task_id: str) -> int:
    """Return the seed of one episode, independent of the other tasks in the evaluation."""
    return Random(f"{seed}:{rollout}:{task_id}").getrandbits(32)


def evaluate(
    agent: Callable[[int], Agent],
    tasks: Sequence[Task],
    rules: Rules,
    judge: Judge,
    rollouts: int = 1,
    seed: int = 0,
    session_type: type[Session] = Session,
) -> tuple[Episode, ...]:
    """Play and grade `rollouts` episodes of a scripted agent on each task.

    Args:
        agent: function that makes the agent of an episode from a seed.
        tasks: tasks to play.
        rules: limits of an episode.
        judge: judge of the final resumes.
        rollouts: episodes per task.
        seed: number from which the episode seeds are derived; equal seeds give equal episodes.
        session_type: session class; each episode is played in a new session.

    Returns:
        The episodes: rollout 0 of each task, then rollout 1 of each task, and so on.

    Raises:
        JudgeError: the judge returned no verdict.
    """
    jobs = [
        PendingEpisode(
            rollout, session_type(task, rules), episode_seed(seed, rollout, task.task_id)
        )
        for rollout, task in product(range(rollouts), tasks)
    ]

    def ended(job: PendingEpisode) -> None:
        if job.error:
            raise job.error

    player = Scripted(agent)
    _run(play_all(player, jobs, judge, player.max_concurrency, ended))
    return tuple(Episode.of(job.session) for job in jobs)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, even if an event loop is already running, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def play_all(
    player: Player,
    jobs: Iterable[PendingEpisode],
    judge: Judge,
    max_concurrency: int,
    ended: Callable[[PendingEpisode], object],
) -> None:
    """Play and grade episodes concurrently.

    A synchronous judge runs in the event loop and blocks it. Each episode is judged alone, even if
    the judge could rank the rollouts of a task.

    Args:
        player: player of the episodes.
        jobs: episodes to play or grade, consumed lazily.
        judge: judge of the final documents.
        max_concurrency: number of concurrent episodes.
        ended: callback after each episode, graded or failed, in order of completion; its
            exceptions end the loop.

    Raises:
        ModelError: max(`IN_A_ROW`, 2 * `max_concurrency`) episodes failed in a row.
        JudgeMisconfigured: the judge can grade no episode.
        Misconfigured: the player can play no episode.
    """
    rest = iter(jobs)
    limit = max(IN_A_ROW, 2 * max_concurrency)
    failed = 0

    async def work() -> None:
        nonlocal failed
        for job in rest:
            # a scripted agent and a synchronous judge never await; without this line, the event
            # loop could neither cancel this task nor handle Ctrl-C
            await asyncio.sleep(0)
            await _play_and_grade(player, job, judge)
            failed = failed + 1 if job.error else 0
            ended(job)
            if failed >= limit:
                message = f"{failed} episodes failed in a row, the last with {job.failure}"
                raise ModelError(message)

    await together(work() for _ in range(max_concurrency))


async def _play_and_grade(player: Player, job: PendingEpisode, judge: Judge) -> None:
    """Play and grade an episode; on failure set `job.error`, or raise if no episode can succeed."""
    session = job.session
    try:
        if not session.done:
            with heard() as turns:
                await player.play(session, job.seed)
            job.costs = [_cost(answer) for _, answer in turns]
        if session.needs_verdict:
            with heard() as asked:
                (job.error,) = await grade([session], judge)
            job.asked = [
                {"system": prompt.system, "user": prompt.user, "answer": answer.text}
                | {"kind": prompt.kind, **_cost(answer)}
                for prompt, answer in asked
            ]
    except Misconfigured:
        raise
    except ModelError as problem:
        job.error = problem
    if isinstance(job.error, JudgeMisconfigured):
        raise job.error


def _cost(answer: Answer) -> dict[str, float]:
    seconds = round(answer.seconds, 3)
    return {"tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out, "seconds": seconds}


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
