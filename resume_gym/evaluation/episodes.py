"""Sequential evaluation of scripted agents: `play` runs one episode, `evaluate` many."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import product
from random import Random

from resume_gym.agents import Agent
from resume_gym.evaluation.figures import Episode
from resume_gym.judges import AsyncJudge, Judge
from resume_gym.rewards import Verdict
from resume_gym.session import Rules, Session
from resume_gym.tasks import Task

_AT_ONCE = 256  # maximum number of episodes with a pending verdict


def episode_seed(seed: int, rollout: int, task_id: str) -> int:
    """Return the seed of one episode; it is independent of the other tasks in the evaluation."""
    return Random(f"{seed}:{rollout}:{task_id}").getrandbits(32)


def play(agent: Agent, task: Task, rules: Rules) -> Session:
    """Play one episode; return the finished session without a verdict."""
    session = Session(task, rules)
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
) -> tuple[Episode, ...]:
    """Play and grade `rollouts` episodes of an agent on each task.

    Args:
        agent: makes the agent of an episode from a seed.
        tasks: tasks to play.
        rules: limits of an episode.
        judge: judge of the final resumes.
        rollouts: episodes per task.
        seed: base of the episode seeds; equal seeds produce equal episodes.

    Raises:
        JudgeError: the judge returned no verdict; a failure never becomes a reward.
    """
    waiting: deque[tuple[Session, Future[Verdict]]] = deque()
    # an asynchronous judge grades while further episodes are played; a synchronous one computes
    # its verdict within `_asked`, so a queue would gain nothing
    at_once = _AT_ONCE if isinstance(judge, AsyncJudge) else 1
    played = []
    try:
        for rollout, task in product(range(rollouts), tasks):
            session = play(agent(episode_seed(seed, rollout, task.task_id)), task, rules)
            waiting.append((session, _asked(judge, session)))
            if len(waiting) == at_once:
                played.append(_graded(*waiting.popleft()))
        while waiting:
            played.append(_graded(*waiting.popleft()))
    finally:
        for _, verdict in waiting:
            verdict.cancel()
    return tuple(played)


def _asked(judge: Judge, session: Session) -> Future[Verdict]:
    """Request a verdict, if the episode needs one; else the future stays pending, unused."""
    if session.needs_verdict and isinstance(judge, AsyncJudge):
        return judge.submit(session.task, session.text)
    verdict: Future[Verdict] = Future()
    if session.needs_verdict:
        verdict.set_result(judge.judge(session.task, session.text))
    return verdict


def _graded(session: Session, verdict: Future[Verdict]) -> Episode:
    if session.needs_verdict:
        session.grade(verdict.result())
    return Episode.of(session)
