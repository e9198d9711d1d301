"""Packing of trajectories into rows that share the prompt of a group; independent of models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from learners.training.packed_attention import Span


@dataclass(frozen=True, slots=True)
class Sample:
    """Training data of one rollout.

    Attributes:
        group: number of the group, whose rollouts have the same prompt.
        prompt: token ids [p], at least one.
        response: token ids [r] after the prompt, sampled or not.
        sampled: bool [r], True for tokens that the policy sampled; only these have a loss.
        logprobs: the sampler's log-probabilities [r]; 0 elsewhere.
        advantage: advantage of the rollout.
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
        tokens: token ids [t].
        positions: position ids [t]; each response continues from the end of its prompt.
        spans: positions of the groups in the row.
        predicts: index [n] of the hidden state that predicts each loss token.
        targets: token ids [n] of the loss tokens.
        logprobs: the sampler's log-probabilities [n].
        advantages: [n].
        sequences: index [n] of each loss token's rollout within the row.
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
        """Return a copy of the row with its tensors on `device`."""
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
    """Pack samples into rows of at most `max_tokens` tokens, by first-fit decreasing on groups.

    A longer group is split, and each part computes the prompt again; a longer rollout gets a
    separate row. Every sampled token is in exactly one row.

    Args:
        samples: rollouts in any order; members of a group need not be adjacent.
        max_tokens: limit of a row.
        rows: desired minimum number of rows, such as the number of ranks. It lowers the limit,
            but not below the longest group, so there may be fewer.
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
    """Put each rollout into a separate group, so that no prompt is shared."""
    return [replace(sample, group=number) for number, sample in enumerate(samples)]


def distribute(
    batches: Sequence[Batch], ranks: int, cost: Callable[[Batch], float]
) -> list[list[Batch]]:
    """Distribute rows over ranks: the heaviest first, each to the rank with the lowest total cost.

    Every rank gets the same, minimal number of rows, padded with `dummy`, since collectives would
    deadlock otherwise. Rows without loss tokens are dropped. The total costs of two ranks differ
    by at most the cost of the heaviest row.

    Args:
        batches: all rows; every rank passes the same list and uses its share of the result.
        ranks: number of ranks.
        cost: returns the non-negative cost of a row.

    Returns:
        The rows of each rank; empty lists if there are no loss tokens.
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
    """Return a row of two tokens without loss, which gives every weight a gradient of zero."""
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
    # `predicts`, `targets`, `logprobs` and `advantages` of each rollout
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
            # the first token of each response is predicted at the end of the prompt
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
