"""Comparisons of the rollouts of a group, for the reward term "comparison".

A judge may score the members of a group against each other, which tells even members with equal
verdicts apart. The scores can be compared only within a group, so the term is centred: it changes
no group's mean reward, and evaluations, which have no groups, do not have it.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from learners.rollouts.rollout import Rollout
from resume_gym.evaluation import score_group
from resume_gym.judges import JudgeError, group_weight


async def compare(
    group: Sequence[Rollout], judge: Any, timeout_s: float
) -> list[JudgeError | None]:
    """Set the `comparison` of each rollout of a group: weight * (score - mean score).

    Args:
        group: finished rollouts of one task, graded if their documents have changed.
        judge: judge with the coroutine `judge_group`.
        timeout_s: time limit in seconds, including retries; see `score_group`.

    Returns:
        For each rollout, its error if it got no score, else None. The mean is over all scores.
    """
    texts = [one.session.text for one in group]
    scores = await score_group(group[0].session.task, texts, judge, timeout_s)
    weight = group_weight(judge)
    mean = fmean([one for one in scores if not isinstance(one, JudgeError)] or [0.0])
    for rollout, score in zip(group, scores, strict=True):
        if not isinstance(score, JudgeError):
            # rounded, so that equal scores, which differ from their mean by rounding errors, give 0
            rollout.comparison = round(weight * (score - mean), 12)
    return [one if isinstance(one, JudgeError) else None for one in scores]


def measures(groups: Sequence[Sequence[Rollout]]) -> dict[str, float]:
    """Return measures of the comparisons of a step; empty if nothing was compared.

    Returns:
        comparison_size: root mean square of the term "comparison".
        equal_groups: share of the groups whose rewards are all equal without the term.
        equal_groups_left: share of the groups whose rewards are all equal even with the term.
    """
    terms = [one.comparison for group in groups for one in group if one.comparison is not None]
    if not terms:
        return {}
    without = [len({one.session.reward for one in group}) == 1 for group in groups]
    left = [len({one.reward for one in group}) == 1 for group in groups]
    return {
        "comparison_size": math.sqrt(fmean(term**2 for term in terms)),
        "equal_groups": fmean(without),
        "equal_groups_left": fmean(left),
    }
