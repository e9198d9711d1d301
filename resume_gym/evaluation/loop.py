"""Loop that plays and grades episodes concurrently, in evaluation and in training.

`Loop` is the loop itself; its caller says how episodes are played and graded. `play_all` runs the
loop for an agent; if the agent or the judge fails, the episode has an error instead of a reward.
`evaluate` plays a scripted agent and raises the first failure.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from resume_gym.agents import Agent
from resume_gym.episode.editing import AnySession
from resume_gym.episode.session import Rules, Session
from resume_gym.episode.tasks import Task
from resume_gym.evaluation.grading import grade
from resume_gym.evaluation.players import Player, Scripted
from resume_gym.evaluation.records import Episode
from resume_gym.judges import (
    Judge,
    JudgeError,
    JudgeMisconfigured,
    together,
)
from resume_gym.llm import Answer, Misconfigured, ModelError
from resume_gym.llm.client import heard

T = TypeVar("T")
IN_A_ROW = 64
"""`play_all` gives up after this number of failures in a row, or more if concurrency is high."""


class Job(Protocol):
    """An episode to play and grade, in a session.

    Attributes:
        session: session of the episode.
        error: error that ended the episode; None if it has not failed.
    """

    session: Any
    error: Any


J = TypeVar("J", bound=Job)


@dataclass
class PendingEpisode:
    """One episode of an agent in an evaluation.

    Attributes:
        rollout: index of the episode among those of its task.
        session: new session, or a finished one that still needs a verdict.
        seed: seed of the episode.
        error: error that ended the episode; None if it has not failed.
        costs: tokens (None if unknown) and seconds of each turn, if a model behind a server plays
            the episode.
        asked: prompts and answers of a model judge, with tokens and seconds.
    """

    rollout: int
    session: AnySession
    seed: int
    error: ModelError | JudgeError | None = None
    costs: list[dict[str, float | None]] = field(default_factory=list)
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


class Loop(Generic[J]):
    """Loop that plays and grades episodes concurrently.

    Args:
        play: plays the session of an episode to its end; sets `error` if only this episode failed.
        grade: grades finished episodes, or sets their `error`. Each episode that needs a verdict is
            graded alone, or with its group.
        ended: called with each episode that was graded, failed, or needs no verdict; its exceptions
            end the loop.
        groups: groups whose episodes are graded together when the last of them has ended.
    """

    def __init__(
        self,
        play: Callable[[J], Awaitable[None]],
        grade: Callable[[Sequence[J]], Awaitable[None]],
        ended: Callable[[J], object] = lambda job: None,
        groups: Sequence[Sequence[J]] = (),
    ) -> None:
        self._play, self._grade, self._ended = play, grade, ended
        self._groups = {id(job): group for group in groups for job in group}
        self._playing = {id(group): len(group) for group in groups}

    async def run(self, jobs: Iterable[J], max_concurrency: int) -> None:
        """Play and grade episodes; raise the first exception of `play`, `grade` or `ended`.

        Args:
            jobs: episodes to play or only to grade, consumed lazily.
            max_concurrency: number of concurrent episodes.

        Raises:
            JudgeMisconfigured: the judge can grade no episode.
        """
        rest = iter(jobs)

        async def work() -> None:
            for job in rest:
                await self._play(job)
                await self._end(job)

        await together(work() for _ in range(max_concurrency))

    async def _end(self, job: J) -> None:
        group = self._groups.get(id(job), (job,))
        if len(group) > 1:
            self._playing[id(group)] -= 1
            if self._playing[id(group)]:
                return
        judged = [one for one in group if one.session.needs_verdict]
        if judged and len(group) > 1:
            # a verdict depends on the whole group: members that have one are judged again, too
            judged = [one for one in group if one.session.needs_verdict or one.session.verdict]
        if judged:
            await self._grade(judged)
        for one in group:
            self._ended(one)
        for one in group:
            if isinstance(one.error, JudgeMisconfigured):
                raise one.error


async def play_all(
    player: Player,
    jobs: Iterable[PendingEpisode],
    judge: Judge,
    max_concurrency: int,
    ended: Callable[[PendingEpisode], object],
) -> None:
    """Play and grade the episodes of an agent concurrently.

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
    limit = max(IN_A_ROW, 2 * max_concurrency)
    failed = 0

    async def play(job: PendingEpisode) -> None:
        # a scripted agent and a synchronous judge never await; without this line, the event loop
        # could neither cancel this task nor handle Ctrl-C
        await asyncio.sleep(0)
        if job.session.done:
            return
        with heard() as turns:
            try:
                await player.play(job.session, job.seed)
            except Misconfigured:
                raise
            except ModelError as problem:
                job.error = problem
                return
        job.costs = [_cost(answer) for _, answer in turns]

    async def graded(group: Sequence[PendingEpisode]) -> None:
        (job,) = group
        with heard() as asked:
            (job.error,) = await grade([job.session], judge)
        job.asked = [
            {"system": prompt.system, "user": prompt.user, "answer": answer.text}
            | {"kind": prompt.kind, **_cost(answer)}
            for prompt, answer in asked
        ]

    def take(job: PendingEpisode) -> None:
        nonlocal failed
        failed = failed + 1 if job.error else 0
        ended(job)
        if failed >= limit:
            message = f"{failed} episodes failed in a row, the last with {job.failure}"
            raise ModelError(message)

    await Loop(play, graded, take).run(jobs, max_concurrency)


def _cost(answer: Answer) -> dict[str, float | None]:
    seconds = round(answer.seconds, 3)
    return {"tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out, "seconds": seconds}
