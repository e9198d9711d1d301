"""Advantages of rollouts, relative to the other rollouts of their group."""

from collections.abc import Sequence

import torch
from torch import Tensor


def group_means(rewards: Tensor, groups: Tensor) -> Tensor:
    """Return the mean reward [b] of each rollout's group."""
    _, index, counts = torch.unique(groups, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(counts), dtype=rewards.dtype).index_add(0, index, rewards)
    means: Tensor = sums / counts
    return means[index]


def mean_centred(rewards: Tensor, groups: Tensor) -> Tensor:
    """Return each rollout's advantage A = r - mean(r of its group), without standardisation.

    Args:
        rewards: reward of each rollout [b].
        groups: group number of each rollout [b].

    Returns:
        Advantages [b], which sum to zero in each group.
    """
    return rewards - group_means(rewards, groups)


def standardised(rewards: Tensor, groups: Tensor) -> Tensor:
    """Return A = (r - mean) / sd, with the mean and the sample standard deviation of the group.

    The standard deviation divides by n - 1. Source: GRPO, arXiv 2402.03300.

    Args:
        rewards: reward of each rollout [b].
        groups: group number of each rollout [b].

    Returns:
        Advantages [b], exactly zero in a group whose rewards are all equal.
    """
    same = groups[:, None] == groups
    # not `sd > 0`: rounding can make the standard deviation of equal rewards positive
    varied = (same & (rewards[:, None] != rewards)).any(1)
    counts = same.sum(1)
    centred = mean_centred(rewards, groups)
    variance = group_means(centred.square(), groups) * counts / (counts - 1)
    return torch.where(varied, centred / variance.sqrt(), 0.0)


def by_edit(
    earned: Sequence[Sequence[float]], groups: Tensor, gae_lambda: float = 1.0
) -> list[list[float]]:
    """Return one advantage per turn, with credit for what this turn and later turns earned.

    The return of turn k is the sum of what turns k, k + 1 and so on earned. The value of turn k is
    the mean return of turn k in the *other* rollouts of the group that have at least k turns; if
    there are none, in all rollouts that have at least k turns. With `gae_lambda` 1, the advantage
    is the return minus the value. Otherwise it is the sum of lambda^n d(k + n) for n = 0, 1 and so
    on, with d(k) = earned(k) + value(k + 1) - value(k): what later turns earn by chance then counts
    less. Source: generalised advantage estimation, arXiv 1506.02438.

    Args:
        earned: for each rollout [b], what each of its turns earned; see `rollouts.drafts.earned`.
        groups: group number of each rollout [b].
        gae_lambda: weight of the next turn's surprise relative to this turn's, from 0 to 1.

    Returns:
        For each rollout [b], the advantages of its turns.
    """
    turns = [len(one) for one in earned]
    place = torch.cat([torch.arange(n) for n in turns])
    columns = [torch.tensor(one, dtype=torch.float64) for one in earned]
    returns = torch.cat([one.flip(0).cumsum(0).flip(0) for one in columns])
    reached = groups.repeat_interleave(torch.tensor(turns)) * max(turns) + place
    _, index, counts = torch.unique(reached, return_inverse=True, return_counts=True)
    members = counts[index]
    sums = torch.zeros(len(counts), dtype=torch.float64).index_add(0, index, returns)[index]
    others = (sums - returns) / (members - 1)
    values = torch.where(members > 1, others, group_means(returns, place))
    found = []
    for own, value in zip(columns, values.split(turns), strict=True):
        surprises = own + torch.cat([value[1:], value.new_zeros(1)]) - value
        advantages, last = list[float](), 0.0
        for surprise in reversed(surprises.tolist()):
            last = surprise + gae_lambda * last
            advantages.append(
                round(last, 12)
            )  # a batch whose advantages are all 0 is not trained on
        found.append(advantages[::-1])
    return found
