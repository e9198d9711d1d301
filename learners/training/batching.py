"""Packing of trajectories into rows that share the prompt of a group; independent of models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
class PackedRow:
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
        lengths = [len(self.tokens), len(self.positions)]
        assert len(set(lengths)) == 1, f"tokens and positions differ in length: {lengths}"
        columns = self.predicts, self.targets, self.logprobs, self.advantages, self.sequences
        lengths = [len(column) for column in columns]
        assert len(set(lengths)) == 1, f"loss tokens' tensors differ in length: {lengths}"
        place = 0
        for prompt, responses in self.spans:
            for start, stop in (prompt, *responses):
                assert start == place <= stop, f"spans leave {place} to {start} out, or overlap"
                place = stop
        assert place == len(self.tokens), f"spans of {place} tokens in a row of {len(self.tokens)}"

    def to(self, device: torch.device | str) -> "PackedRow":
        """Return a copy of the row with its tensors on `device`."""
        tensors: dict[str, Any] = {
            name: value.to(device)
            for name in self.__slots__
            if isinstance(value := getattr(self, name), Tensor)
        }
        return replace(self, **tensors)


def pack(samples: Sequence[Sample], max_tokens: int, rows: int = 1) -> list[PackedRow]:
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
    # below `max_tokens` if there would be too few rows to keep every rank busy
    limit = min(max_tokens, max([-(-sum(sizes) // rows), *sizes]))
    parts = [part for members in groups.values() for part in _split(members, limit)]
    packed: list[list[list[Sample]]] = []
    room: list[int] = []
    # the largest first, since small parts fill the gaps that they leave
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
    batches: Sequence[PackedRow], ranks: int, cost: Callable[[PackedRow], float]
) -> list[list[PackedRow]]:
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
    rows = sorted((row for row in batches if len(row.targets)), key=cost, reverse=True)
    most = -(-len(rows) // ranks)
    shares: list[list[PackedRow]] = [[] for _ in range(ranks)]
    costs = [0.0] * ranks
    for row in rows:
        # a full rank gets no more rows, however cheap its rows are: equal counts come first
        free = (rank for rank in range(ranks) if len(shares[rank]) < most)
        rank = min(free, key=lambda rank: (costs[rank], len(shares[rank])))
        shares[rank].append(row)
        costs[rank] += cost(row)
    return [share + [dummy() for _ in range(most - len(share))] for share in shares]


def dummy() -> PackedRow:
    """Return a row of two tokens without loss, which gives every weight a gradient of zero."""
    return _row([[Sample(0, [0], [0], [False], [0.0], 0.0)]])


def _size(part: Sequence[Sample]) -> int:
    return len(part[0].prompt) + sum(len(sample.response) for sample in part)


def _split(members: list[Sample], max_tokens: int) -> list[list[Sample]]:
    parts: list[list[Sample]] = []
    for sample in members:
        assert sample.prompt == members[0].prompt, "members of a group differ in their prompt"
        if parts and _size([*parts[-1], sample]) <= max_tokens:
            parts[-1].append(sample)
        else:
            parts.append([sample])
    return parts


def _row(parts: list[list[Sample]]) -> PackedRow:
    tokens: list[int] = []
    positions: list[int] = []
    spans: list[Span] = []
    # `predicts`, `targets`, `logprobs` and `advantages` of each rollout
    columns: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
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
            # as in a sequence of its own, so rotary embeddings see the same distances
            positions += range(len(prompt), len(prompt) + len(sample.response))
            responses.append((first, len(tokens)))
            sampled = torch.tensor(sample.sampled, dtype=torch.bool)
            (places,) = torch.where(sampled)
            # Logits at position i predict token i + 1, but for the first token of each response:
            # its predecessor is the end of the prompt, not the token before it in the row.
            predicts = torch.where(places == 0, end - 1, first + places - 1)
            targets = torch.tensor(sample.response, dtype=torch.long)[places]
            logprobs = torch.tensor(sample.logprobs, dtype=torch.float32)[places]
            advantages = torch.full((len(places),), sample.advantage, dtype=torch.float32)
            columns.append((predicts, targets, logprobs, advantages))
        spans.append(Span((start, end), tuple(responses)))
    predicts, targets, logprobs, advantages = map(torch.cat, zip(*columns, strict=True))
    counts = torch.tensor([len(column[0]) for column in columns])
    return PackedRow(
        torch.tensor(tokens),
        torch.tensor(positions),
        tuple(spans),
        predicts,
        targets,
        logprobs,
        advantages,
        torch.repeat_interleave(torch.arange(len(columns)), counts),
        len(columns),
    )
