"""A second judge on a sample of a step's final documents, never for the reward.

Where the policy learns to please the judge and not to write better, the judge's mean rises over the
second judge's.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from statistics import fmean
from typing import Any

from learners.rollouts.journal import Faults
from learners.rollouts.rollout import Rollout
from resume_gym.evaluation import grade
from resume_gym.judges import Judge

SAMPLE = 32
"""Largest number of documents."""


async def compare(
    rollouts: Sequence[Rollout], judge: Judge, timeout_s: float, threads: Executor, faults: Faults
) -> dict[str, float]:
    """Return how the verdicts of the judge and of the second judge on the same documents differ.

    Args:
        rollouts: graded rollouts; some of those with a verdict are graded again, spread evenly.
        judge: the second judge.
        timeout_s: timeout of a verdict in seconds, retries included.
        threads: runs a synchronous judge.
        faults: reports failures to the journal.

    Returns:
        second_judge_lead: how much more content the judge pays than the second judge would, as a
            share of the range of verdicts; none if the second judge failed on all documents.
        second_judge_failed: number of documents on which the second judge failed.
    """
    sessions: list[Any] = [one.session for one in rollouts if one.session.verdict]
    size = min(SAMPLE, len(sessions))
    sample = [sessions[n * len(sessions) // size] for n in range(size)]
    twins = [session.fork() for session in sample]
    errors = await asyncio.gather(*(grade([one], judge, timeout_s, threads) for one in twins))
    leads, failed = [], 0
    for session, twin, (error,) in zip(sample, twins, errors, strict=True):
        if error is None:
            leads.append((session.reward - twin.reward) / _range(session))
        else:
            failed += 1
            faults.report(f"The second judge failed on {session.task.task_id}", error)
    lead = {"second_judge_lead": fmean(leads)} if leads else {}
    return {**lead, "second_judge_failed": failed}


def _range(session: Any) -> float:
    """Return the difference between the best and the worst verdict, in reward."""
    least, greatest = session.bounds
    fields = 2 * session.verdict_limit * sum(session.weights.values())
    return float(min(fields, greatest - least))  # counts of lines have no useful limit
