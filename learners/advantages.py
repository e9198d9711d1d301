"""Advantages of rollouts, relative to the other rollouts of their group."""

import torch
from torch import Tensor


def group_means(rewards: Tensor, groups: Tensor) -> Tensor:
    """Return the mean reward [b] of each rollout's group."""
    _, index, counts = torch.unique(groups, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(counts), dtype=rewards.dtype).index_add(0, index, rewards)
    means: Tensor = sums / counts
    return means[index]


def mean_centred(rewards: Tensor, groups: Tensor) -> Tensor:
    """Return A = r - mean(r of the group), without standardisation or length normalisation.

    Args:
        rewards: [b].
        groups: [b], equal for the rollouts of one group.

    Returns:
        Advantages [b], which sum to zero in each group.
    """
    return rewards - group_means(rewards, groups)


def standardised(rewards: Tensor, groups: Tensor) -> Tensor:
    """Return A = (r - mean) / sd of the group, with the sample standard deviation (n - 1).

    Source: arXiv 2402.03300.

    Args:
        rewards: [b].
        groups: [b], equal for the rollouts of one group.

    Returns:
        Advantages [b], exactly zero in a group of equal rewards.
    """
    same = groups[:, None] == groups
    # not sd > 0: rounding of the mean can make the sd of equal rewards positive
    varied = (same & (rewards[:, None] != rewards)).any(1)
    counts = same.sum(1)
    centred = mean_centred(rewards, groups)
    variance = group_means(centred.square(), groups) * counts / (counts - 1)
    return torch.where(varied, centred / variance.sqrt(), 0.0)
