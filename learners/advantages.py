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


def by_edit(earned: Sequence[Sequence[float]], groups: Tensor) -> list[list[float]]:
    """Return one advantage per turn, with credit for what this turn and later turns earned.

    The return of turn k is the sum of what turns k, k + 1 and so on earned. Its baseline is the
    mean return of turn k in the *other* rollouts of the group that have at least k turns. If there
    are none, the baseline is the mean return of turn k in all rollouts that have at least k turns.
    The advantage is the return minus the baseline; nothing is scaled.

    Args:
        earned: for each rollout [b], what each of its turns earned; see `rollouts.drafts.earned`.
        groups: group number of each rollout [b].

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
    baseline = torch.where(members > 1, others, group_means(returns, place))
    # rounded, since a batch whose advantages are all exactly 0 is not trained on
    advantages = (returns - baseline).round(decimals=12)
    return [one.tolist() for one in advantages.split(turns)]
