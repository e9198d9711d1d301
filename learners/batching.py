"""Trajectories to packed rows that share their group's prompt. Pure; no model in sight."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from learners.attention import Span


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


def pack(samples: Sequence[Sample], max_tokens: int) -> list[Batch]:
    """Pack samples into rows of at most `max_tokens` tokens, first fit by whole groups.

    A group that is longer is split, and each part computes the prompt again; a single rollout
    that is longer gets a row of its own. Every sampled token is in exactly one row.
    """
    groups: dict[int, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    parts = [part for members in groups.values() for part in _split(members, max_tokens)]
    rows: list[list[list[Sample]]] = []
    room: list[int] = []
    for part in sorted(parts, key=_size, reverse=True):
        size = _size(part)
        fit = next((i for i, free in enumerate(room) if size <= free), None)
        if fit is None:
            rows.append([part])
            room.append(max_tokens - size)
        else:
            rows[fit].append(part)
            room[fit] -= size
    return [_row(row) for row in rows]


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
    # predicting place, target, sampler's log-probability, advantage, rollout
    loss: list[tuple[int, int, float, float, int]] = []
    rollouts = 0
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
            for i, sampled in enumerate(sample.sampled):
                if sampled:
                    before = first + i - 1 if i else end - 1
                    known = sample.logprobs[i], sample.advantage, rollouts
                    loss.append((before, sample.response[i], *known))
            rollouts += 1
        spans.append(Span((start, end), tuple(responses)))
    predicts, targets, logprobs, advantages, sequences = (
        zip(*loss, strict=True) if loss else [()] * 5
    )
    return Batch(
        torch.tensor(tokens),
        torch.tensor(positions),
        tuple(spans),
        torch.tensor(predicts, dtype=torch.long),
        torch.tensor(targets, dtype=torch.long),
        torch.tensor(logprobs, dtype=torch.float32),
        torch.tensor(advantages, dtype=torch.float32),
        torch.tensor(sequences, dtype=torch.long),
        rollouts,
    )
