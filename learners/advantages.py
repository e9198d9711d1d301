"""Advantages of rollouts, relative to the other rollouts of their group."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from resume_gym.episode.rewards import TOOL_REWARDS, TOOL_TERMS

BLOCKS = ("tools", "layout", "hallucination", "preference", "craft", "comparison")
"""Blocks: disjoint sets of reward terms, which `by_turn` treats separately; see `block_of`."""
WEIGHTS: Mapping[str, float] = dict.fromkeys((*BLOCKS, "call"), 1.0)
"""Weight of each block in `by_turn`, and of the extra advantage term of edit calls ("call")."""
SCALE_DECAY = 0.9
LEAST_SCALE = 0.25
"""Minimum scale of a block, equal to the smallest reward; less would inflate small deviations."""


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


def by_turn(
    ledgers: Sequence[Sequence[Mapping[str, float]]],
    groups: Tensor,
    tokens: Sequence[Sequence[int]],
    scales: Mapping[str, float],
) -> tuple[list[list[float]], dict[str, float]]:
    """Return one advantage per turn, without credit for the tool rewards of earlier turns.

    `BLOCKS` divides the reward terms into blocks, such as "tools" (the rewards of tool calls) and
    "layout". For each block, a turn has a return, a baseline and a scale:

    - Return: for the block "tools", the sum of the tool rewards from this turn to the end of the
      episode. For every other block, the sum of the block's terms over the whole episode, which is
      the same for all turns of the episode.
    - Baseline: for the block "tools", turn k is compared with turn k of the other rollouts: the
      baseline is the mean return of turn k over the group's rollouts that have at least k turns.
      For every other block, it is the mean return over all rollouts of the group.
    - Scale: the square root of a running mean of (return - baseline)^2 over all sampled tokens, but
      at least `LEAST_SCALE`; 1 for the block "comparison", whose weight the judge sets.

    The advantage of a turn is the sum over the blocks of weight * (return - baseline) / scale. If
    the turn calls an edit tool, the advantage has one more term: the reward of this call minus the
    mean reward of the group's edit calls, divided by the reward of a valid edit. Finally, all
    advantages of the batch are multiplied by one factor, so that their root mean square equals that
    of the plain sums of (return - baseline). Weights and scales thus do not change the size of
    updates.

    Args:
        ledgers: for each rollout [b], the reward terms of each turn, by name.
        groups: group number of each rollout [b].
        tokens: for each rollout [b], the number of sampled tokens of each turn.
        scales: running mean of (return - baseline)^2 by block, as the previous call returned it;
            empty in the first call.

    Returns:
        For each rollout [b], the advantages of its turns; and the `scales` for the next batch.
    """
    turns = torch.tensor([len(one) for one in ledgers])
    owner = torch.repeat_interleave(torch.arange(len(turns)), turns)
    flat = [turn for one in ledgers for turn in one]
    weights = torch.tensor([n for one in tokens for n in one], dtype=torch.float64)
    rewards = torch.zeros(len(flat), len(BLOCKS), dtype=torch.float64)
    for row, turn in enumerate(flat):
        for name, value in turn.items():
            rewards[row, BLOCKS.index(block_of(name))] += value
    ends = torch.zeros(len(turns), len(BLOCKS), dtype=torch.float64).index_add(0, owner, rewards)

    def mean_square(values: Tensor) -> float:
        return float((weights * values.square()).sum() / weights.sum())

    # tool rewards of the turns before each turn, which the turn's return must leave out
    earned = torch.cat([one.cumsum(0) - one for one in rewards[:, 0].split(turns.tolist())])
    place = torch.cat([torch.arange(n) for n in turns.tolist()])
    reached = groups[owner] * int(turns.max()) + place
    parts = {"tools": mean_centred(ends[owner, 0] - earned, reached)}
    for column, name in enumerate(BLOCKS[1:], 1):
        parts[name] = mean_centred(ends[:, column], groups)[owner]
    # equal rewards differ from their mean by rounding errors, which the scales must not inflate
    parts = {name: part.round(decimals=12) for name, part in parts.items()}
    plain = torch.stack([*parts.values()]).sum(0)

    squares = {name: mean_square(part) for name, part in parts.items()}
    squares = {
        name: SCALE_DECAY * scales.get(name, new) + (1 - SCALE_DECAY) * new
        for name, new in squares.items()
    }
    total = torch.zeros(len(flat), dtype=torch.float64)
    for name, part in parts.items():
        scale = 1.0 if name == "comparison" else max(LEAST_SCALE, squares[name] ** 0.5)
        total += WEIGHTS[name] * part / scale
    calls = torch.tensor([not turn.keys().isdisjoint(("edit", "failed_edit")) for turn in flat])
    own = torch.tensor([turn.get("edit", turn.get("failed_edit", 0.0)) for turn in flat]).double()
    total[calls] += (
        WEIGHTS["call"] * mean_centred(own[calls], groups[owner][calls]) / TOOL_REWARDS["edit"]
    )
    size = mean_square(total)
    if size > 0:
        total *= (mean_square(plain) / size) ** 0.5
    return [one.tolist() for one in total.split(turns.tolist())], squares


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


def block_of(term: str) -> str:
    """Return the block of a reward term; terms that belong to no other block are in "craft"."""
    if term in TOOL_TERMS:
        return "tools"
    return term if term in BLOCKS else "craft"
