"""Advantages of the rollouts of a batch."""

import torch
from torch import Tensor


def group_means(rewards: Tensor, groups: Tensor) -> Tensor:
    """The mean reward of each rollout's group, [b]."""
    _, index, counts = torch.unique(groups, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(counts), dtype=rewards.dtype).index_add(0, index, rewards)
    means: Tensor = sums / counts
    return means[index]


def mean_centred(rewards: Tensor, groups: Tensor) -> Tensor:
    """A = r - mean(r of the group); no standard deviation, no length normalisation.

    Args:
        rewards: [b].
        groups: [b], equal for the rollouts of one group.

    Returns:
        [b]; sums to zero in each group.
    """
    return rewards - group_means(rewards, groups)


def standardised(rewards: Tensor, groups: Tensor) -> Tensor:
    """A = (r - mean) / standard deviation of the group (a sample's: over n - 1).

    Args:
        rewards: [b].
        groups: [b], equal for the rollouts of one group.

    Returns:
        [b]; exactly zero in a group whose rewards are all equal. Source: arXiv 2402.03300.
    """
    same = groups[:, None] == groups
    # not by deviation > 0: the mean of equal rewards may be off by a rounding
    varied = (same & (rewards[:, None] != rewards)).any(1)
    counts = same.sum(1)
    centred = mean_centred(rewards, groups)
    variance = group_means(centred.square(), groups) * counts / (counts - 1)
    return torch.where(varied, centred / variance.sqrt(), 0.0)
