"""Second judge, which grades a sample of a step's final documents but never affects rewards.

The first judge sets the rewards. If the policy learns to please the first judge instead of writing
better, the mean verdict of the first judge rises above the mean verdict of the second judge.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from statistics import fmean
from typing import Any

from learners.rollouts.journal import Faults
from learners.rollouts.rollout import Rollout
from resume_gym.evaluation import grade
from resume_gym.judges import Judge

SAMPLE = 32
"""Maximum number of documents of a step that the second judge grades."""


async def compare(
    rollouts: Sequence[Rollout],
    judges: Mapping[str, Judge],
    timeout_s: float,
    threads: Executor,
    faults: Faults,
) -> dict[str, float]:
    """Grade a sample of the documents with the second judge, and compare the judges' verdicts.

    Args:
        rollouts: graded rollouts; an evenly spaced sample of those with a verdict is graded again.
        judges: the second judge of each environment, by the environment's name in the rollouts.
        timeout_s: time limit for a verdict in seconds, including retries; see `grade`.
        threads: executor that runs a synchronous judge.
        faults: log that reports failures of the second judge to the journal.

    Returns:
        second_judge_lead: mean of (reward with the first judge's verdict - reward with the second
            judge's verdict) / (range of the reward over all possible verdicts); missing if the
            second judge failed on all documents.
        second_judge_failed: number of documents on which the second judge failed.
    """
    graded = [one for one in rollouts if one.session.verdict]
    size = min(SAMPLE, len(graded))
    chosen = [graded[n * len(graded) // size] for n in range(size)]
    sample: list[Any] = [one.session for one in chosen]
    twins = [session.fork() for session in sample]
    asked = (judges[one.env] for one in chosen)
    errors = await asyncio.gather(
        *(
            grade([twin], judge, timeout_s, threads)
            for twin, judge in zip(twins, asked, strict=True)
        )
    )
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
    """Return the reward with the best possible verdict minus the reward with the worst."""
    least, greatest = session.scale
    fields = 2 * session.verdict_limit * sum(session.weights.values())
    # if a verdict counts lines, its fields never reach `verdict_limit`
    return float(min(fields, greatest - least))
