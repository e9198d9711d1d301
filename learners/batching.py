"""Trajectories to packed rows that share their group's prompt. Pure; no model in sight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from learners.packed_attention import Span


@dataclass(frozen=True, slots=True)
class Sample:
    """What the trainer needs of one rollout.

    Attributes:
        group: rollouts of one group have the same prompt.
        prompt: token ids [p], at least one.
        response: token ids [r] after the prompt, sampled and not.
        sampled: bool [r], True where the policy sampled the token: it trains on these.
        logprobs: [r], the sampler's; 0 where it did not sample.
        advantage: of the rollout.
    """

    group: int
    prompt: list[int]
    response: list[int]
    sampled: list[bool]
    logprobs: list[float]
    advantage: float

    def __post_init__(self) -> None:
        lengths = len(self.response), len(self.sampled), len(self.logprobs)
        assert len(set(lengths)) == 1, f"per-token lists differ in length: {lengths}"
        assert self.prompt, "a sample needs a prompt"


@dataclass(frozen=True, slots=True)
class Batch:
    """One packed row and its loss tokens.

    Attributes:
        tokens: ids [t].
        positions: position ids [t]; each response goes on from its prompt's end.
        spans: the groups' places in the row.
        predicts: index [n] of the hidden state that predicts each loss token.
        targets: ids [n] of the loss tokens.
        logprobs: the sampler's [n].
        advantages: [n].
        sequences: [n], which of the row's `rollouts` a token belongs to.
        rollouts: number of rollouts in the row.
    """

    tokens: Tensor
    positions: Tensor
    spans: tuple[Span, ...]
    predicts: Tensor
    targets: Tensor
    logprobs: Tensor
    advantages: Tensor
    sequences: Tensor
    rollouts: int

    def __post_init__(self) -> None:
        per_token = [len(one) for one in (self.tokens, self.positions)]
        assert len(set(per_token)) == 1, f"tokens and positions differ in length: {per_token}"
        known = self.predicts, self.targets, self.logprobs, self.advantages, self.sequences
        per_target = [len(one) for one in known]
        assert len(set(per_target)) == 1, f"loss tokens' tensors differ in length: {per_target}"
        place = 0
        for prompt, responses in self.spans:
            for start, stop in (prompt, *responses):
                assert start == place <= stop, f"spans leave {place} to {start} out, or overlap"
                place = stop
        assert place == len(self.tokens), f"spans of {place} tokens in a row of {len(self.tokens)}"

    def to(self, device: torch.device | str) -> "Batch":
        """The same row with its tensors on `device`."""
        return replace(
            self,
            tokens=self.tokens.to(device),
            positions=self.positions.to(device),
            predicts=self.predicts.to(device),
            targets=self.targets.to(device),
            logprobs=self.logprobs.to(device),
            advantages=self.advantages.to(device),
            sequences=self.sequences.to(device),
        )


def pack(samples: Sequence[Sample], max_tokens: int, rows: int = 1) -> list[Batch]:
    """Pack samples into rows of at most `max_tokens` tokens, first fit by whole groups.

    A group that is longer is split, and each part computes the prompt again; a single rollout
    that is longer gets a row of its own. Every sampled token is in exactly one row.

    Args:
        samples: members of a group need not be neighbours.
        max_tokens: limit of a row.
        rows: how many are wanted at least, as for ranks that want work; the limit shrinks for it,
            but not below the longest group, so fewer may come of it.
    """
    groups: dict[int, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    sizes = [_size(members) for members in groups.values()]
    limit = min(max_tokens, max([-(-sum(sizes) // rows), *sizes]))
    parts = [part for members in groups.values() for part in _split(members, limit)]
    packed: list[list[list[Sample]]] = []
    room: list[int] = []
    for part in sorted(parts, key=_size, reverse=True):
        size = _size(part)
        fit = next((i for i, free in enumerate(room) if size <= free), None)
        if fit is None:
            packed.append([part])
            room.append(limit - size)
        else:
            packed[fit].append(part)
            room[fit] -= size
    return [_row(row) for row in packed]


def unshare(samples: Sequence[Sample]) -> list[Sample]:
    """Each rollout as a group of its own, so that its prompt is computed for it alone."""
    return [replace(sample, group=number) for number, sample in enumerate(samples)]


def distribute(
    batches: Sequence[Batch], ranks: int, cost: Callable[[Batch], float]
) -> list[list[Batch]]:
    """Share rows out to ranks, heaviest first to the rank with the least so far.

    Every rank gets the same number of rows, or a collective would wait for ever: as few as hold
    them all, missing ones filled with `dummy`. Rows without loss tokens are left out. No rank's
    rows cost more than another's and the heaviest row together.

    Args:
        batches: the global list; every rank passes the same and takes its own share.
        ranks: number of shares.
        cost: of a row, not negative.

    Returns:
        A share for each rank; empty ones if there are no loss tokens.
    """
    rows = sorted((one for one in batches if len(one.targets)), key=cost, reverse=True)
    most = -(-len(rows) // ranks)
    shares: list[list[Batch]] = [[] for _ in range(ranks)]
    costs = [0.0] * ranks
    for row in rows:
        free = (rank for rank in range(ranks) if len(shares[rank]) < most)
        rank = min(free, key=lambda one: (costs[one], len(shares[one])))
        shares[rank].append(row)
        costs[rank] += cost(row)
    return [share + [dummy() for _ in range(most - len(share))] for share in shares]


def dummy() -> Batch:
    """A row of two tokens and no loss tokens: it adds nothing, through every weight."""
    return _row([[Sample(0, [0], [0], [False], [0.0], 0.0)]])


def _size(part: Sequence[Sample]) -> int:
    return len(part[0].prompt) + sum(len(one.response) for one in part)


def _split(members: list[Sample], max_tokens: int) -> list[list[Sample]]:
    parts: list[list[Sample]] = []
    for sample in members:
        assert sample.prompt == members[0].prompt, "members of a group differ in their prompt"
        if parts and _size([*parts[-1], sample]) <= max_tokens:
            parts[-1].append(sample)
        else:
            parts.append([sample])
    return parts


def _row(parts: list[list[Sample]]) -> Batch:
    tokens: list[int] = []
    positions: list[int] = []
    spans: list[Span] = []
    # of each rollout's loss tokens: predicting places, targets, log-probabilities, advantages
    loss: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for part in parts:
        start = len(tokens)
        prompt = part[0].prompt
        tokens += prompt
        positions += range(len(prompt))
        end = len(tokens)
        responses = []
        for sample in part:
            first = len(tokens)
            tokens += sample.response
            positions += range(len(prompt), len(prompt) + len(sample.response))
            responses.append((first, len(tokens)))
            sampled = torch.tensor(sample.sampled, dtype=torch.bool)
            (places,) = torch.where(sampled)
            # a response's first token is predicted by its prompt's last
            predicts = torch.where(places == 0, end - 1, first + places - 1)
            targets = torch.tensor(sample.response, dtype=torch.long)[places]
            logprobs = torch.tensor(sample.logprobs, dtype=torch.float32)[places]
            advantages = torch.full((len(places),), sample.advantage, dtype=torch.float32)
            loss.append((predicts, targets, logprobs, advantages))
        spans.append(Span((start, end), tuple(responses)))
    predicts, targets, logprobs, advantages = map(torch.cat, zip(*loss, strict=True))
    counts = torch.tensor([len(one[0]) for one in loss])
    return Batch(
        torch.tensor(tokens),
        torch.tensor(positions),
        tuple(spans),
        predicts,
        targets,
        logprobs,
        advantages,
        torch.repeat_interleave(torch.arange(len(loss)), counts),
        len(loss),
    )
