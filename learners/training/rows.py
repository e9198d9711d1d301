"""Packing of rollouts into rows of tokens, in which the rollouts of a group share prefixes.

The rollouts of a group form a prefix tree. A prefix that several rollouts share, from the start of
the prompt to the first different token, is in the row only once.
"""

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import Tensor

from learners.training.packed_attention import Node


class Hinted(NamedTuple):
    """A turn of a rollout, which training also predicts after another context, with a hint.

    Attributes:
        start: index in the response of the turn's first token.
        context: token ids [c] before the turn, with the hint.
    """

    start: int
    context: list[int]


@dataclass(frozen=True, slots=True)
class Sample:
    """Training data of one rollout.

    Attributes:
        group: number of the rollout's group; prefixes shared within a group are computed once.
        prompt: token ids [p], at least one.
        response: token ids [r] after the prompt, from the policy and from the environment.
        sampled: bool [r], True for tokens that the policy sampled; only sampled tokens have a loss.
        logprobs: the sampler's log-probabilities [r]; 0 for tokens that were not sampled.
        advantages: advantages [r]; ignored for tokens that were not sampled.
        hinted: turns that are also predicted after a context with a hint.
        teacher: log-probabilities [r] of a teacher on a server; empty without such a teacher.
    """

    group: int
    prompt: list[int]
    response: list[int]
    sampled: list[bool]
    logprobs: list[float]
    advantages: list[float]
    hinted: tuple[Hinted, ...] = ()
    teacher: Sequence[float] = ()

    def __post_init__(self) -> None:
        columns: list[Sequence[object]] = [self.response, self.sampled, self.logprobs]
        columns += [self.advantages, *([self.teacher] if self.teacher else [])]
        lengths = [len(column) for column in columns]
        assert len(set(lengths)) == 1, f"per-token lists differ in length: {lengths}"
        assert self.prompt, "a sample needs a prompt"

    @property
    def turns(self) -> list[int]:
        """Number of tokens of each turn; a turn is an uninterrupted sequence of sampled tokens."""
        return [len(list(run)) for own, run in groupby(self.sampled) if own]

    def credited(self, advantages: Sequence[float]) -> "Sample":
        """Return a copy with the advantage of each turn assigned to the turn's tokens."""
        pairs = list(zip(advantages, self.turns, strict=True))
        each = (value for value, tokens in pairs for _ in range(tokens))
        return replace(self, advantages=[next(each) if own else 0.0 for own in self.sampled])


@dataclass(frozen=True, slots=True)
class PackedRow:
    """One packed row and its loss tokens, which are the sampled tokens of each rollout.

    Attributes:
        tokens: token ids [t].
        positions: position ids [t]; the ids of a node continue from those of its parent.
        nodes: nodes of the groups' prefix trees, each before its descendants.
        predicts: index [n] of the hidden state that predicts each loss token. Indices repeat where
            rollouts share sampled tokens, since each rollout has its own loss for these tokens.
        targets: token ids [n] of the loss tokens.
        logprobs: the sampler's log-probabilities [n] of the loss tokens.
        advantages: advantages [n] of the loss tokens.
        sequences: index [n] of each loss token's rollout within the row.
        rollouts: number of rollouts in the row.
        marked: indices [m], among the n loss tokens, of the tokens of turns with a hint.
        hinted: index [m] of the hidden state that predicts each marked token after the hint.
        teacher: log-probabilities [n] of a teacher on a server; [0] without such a teacher.
    """

    tokens: Tensor
    positions: Tensor
    nodes: tuple[Node, ...]
    predicts: Tensor
    targets: Tensor
    logprobs: Tensor
    advantages: Tensor
    sequences: Tensor
    rollouts: int
    marked: Tensor
    hinted: Tensor
    teacher: Tensor

    def to(self, device: torch.device | str) -> "PackedRow":
        """Return a copy of the row with its tensors on `device`."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        for name, value in values.items():
            values[name] = value.to(device) if isinstance(value, Tensor) else value
        return PackedRow(**values)


def pack(samples: Sequence[Sample], max_tokens: int, rows: int = 1) -> list[PackedRow]:
    """Pack samples into rows of at most `max_tokens` tokens, by first-fit decreasing on groups.

    A group of more than `max_tokens` tokens is split into parts, and each part repeats the prefixes
    that it shares with other parts. A rollout of more than `max_tokens` tokens gets a row of its
    own. Every rollout is in exactly one row.

    Args:
        samples: rollouts in any order; members of a group need not be adjacent.
        max_tokens: maximum number of tokens of a row.
        rows: desired minimum number of rows, such as the number of ranks. To reach this number,
            `max_tokens` is lowered, but not below the largest group, so there may be fewer rows.
    """
    groups = _groups(samples)
    # lower the limit of a row if rows of `max_tokens` tokens would be fewer than desired
    sizes = [_split(members, None)[0][0] for members in groups]
    limit = min(max_tokens, max([-(-sum(sizes) // rows), *sizes]))
    parts = [part for members in groups for part in _split(members, limit)]
    packed: list[list[list[Sample]]] = []
    room: list[int] = []
    # place the largest parts first, since small parts fit into the space that they leave
    for size, part in sorted(parts, key=itemgetter(0), reverse=True):
        fit = next((i for i, free in enumerate(room) if size <= free), None)
        if fit is None:
            packed.append([part])
            room.append(limit - size)
        else:
            packed[fit].append(part)
            room[fit] -= size
    return [_row(row) for row in packed]


def tree_tokens(samples: Sequence[Sample]) -> int:
    """Return the number of tokens in the groups' prefix trees, where shared prefixes count once."""
    return sum(_split(members, None)[0][0] for members in _groups(samples))


def unshare(samples: Sequence[Sample]) -> list[Sample]:
    """Put each rollout into a separate group, so that rollouts share no prefixes."""
    return [replace(sample, group=number) for number, sample in enumerate(samples)]


def distribute(
    batches: Sequence[PackedRow], ranks: int, cost: Callable[[PackedRow], float]
) -> list[list[PackedRow]]:
    """Distribute rows over ranks: the costliest first, each to the rank with the lowest total cost.

    Every rank gets the same number of rows, since collectives would deadlock otherwise. This number
    is as small as possible, and shorter lists are padded with rows from `dummy`. Rows without loss
    tokens are dropped. Total costs of two ranks differ by at most the cost of the costliest row.

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
        # no rank gets more than `most` rows, even if its total cost is still the lowest
        free = (rank for rank in range(ranks) if len(shares[rank]) < most)
        rank = min(free, key=lambda rank: (costs[rank], len(shares[rank])))
        shares[rank].append(row)
        costs[rank] += cost(row)
    return [share + [dummy() for _ in range(most - len(share))] for share in shares]


def dummy() -> PackedRow:
    """Return a row without loss tokens; training on the row gives every weight a zero gradient."""
    return _row([[Sample(0, [0], [0], [False], [0.0], [0.0])]])


def _groups(samples: Sequence[Sample]) -> list[list[Sample]]:
    groups: dict[int, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    return list(groups.values())


def _split(members: Sequence[Sample], limit: int | None) -> list[tuple[int, list[Sample]]]:
    """Split a group into parts of at most `limit` tokens, each as (number of tokens, rollouts).

    A rollout of more than `limit` tokens is a part of its own.
    """
    parts: list[tuple[int, list[Sample]]] = []
    known: list[list[int]] = []  # the last part's sequences, in lexicographic order
    # in lexicographic order, rollouts with the longest common prefixes are neighbours
    for sample in sorted(members, key=_ids):
        sequences = [ids for ids, _ in _sequences(sample)]
        tried = known.copy()
        more = sum(_insert(tried, ids) for ids in sequences)
        if parts and (limit is None or parts[-1][0] + more <= limit):
            size, part = parts[-1]
            parts[-1], known = (size + more, [*part, sample]), tried
        else:
            known = []
            parts.append((sum(_insert(known, ids) for ids in sequences), [sample]))
    return parts


def _insert(known: list[list[int]], ids: list[int]) -> int:
    """Insert a sequence into a sorted list, and return how many tokens it adds to the tree."""
    place = bisect(known, ids)
    neighbours = known[max(0, place - 1) : place + 1]
    known.insert(place, ids)
    return len(ids) - max((_common(one, ids) for one in neighbours), default=0)


def _sequences(sample: Sample) -> Iterator[tuple[list[int], Hinted | None]]:
    """Yield (a rollout's token ids, None), and for each hint (ids of context and turn, hint)."""
    yield _ids(sample), None
    for one in sample.hinted:
        yield one.context + sample.response[one.start : _stop(sample, one)], one


def _stop(sample: Sample, hinted: Hinted) -> int:
    """Return the index in the response after the last token of a turn with a hint."""
    rest = sample.sampled[hinted.start :]
    return hinted.start + (rest.index(False) if False in rest else len(rest))


def _ids(sample: Sample) -> list[int]:
    return sample.prompt + sample.response


def _common(one: Sequence[int], other: Sequence[int], start: int = 0) -> int:
    """Return the length of two sequences' common prefix; it is known to be at least `start`."""
    low, high = start, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        # Python compares slices much faster than it loops over tokens
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _row(parts: Sequence[Sequence[Sample]]) -> PackedRow:
    tree = _Layout([], [], [], [])
    for part in parts:
        leaves = [_Leaf(ids, sample, hint) for sample in part for ids, hint in _sequences(sample)]
        for _, alike in groupby(sorted(leaves, key=_Leaf.key), lambda leaf: leaf.ids[0]):
            tree.add(list(alike), 0, ())
    own = [(leaf.sample, places) for leaf, places in tree.leaves if not leaf.hint]
    columns = [_losses(sample, places) for sample, places in own]
    predicts, targets, logprobs, advantages, teacher = map(torch.cat, zip(*columns, strict=True))
    counts = torch.tensor([len(column[0]) for column in columns])
    starts = dict(zip((id(sample) for sample, _ in own), counts.cumsum(0) - counts, strict=True))
    marked, hinted = [counts[:0]], [counts[:0]]
    for leaf, places in tree.leaves:
        if leaf.hint:
            first = sum(leaf.sample.sampled[: leaf.hint.start])
            length = _stop(leaf.sample, leaf.hint) - leaf.hint.start
            marked.append(starts[id(leaf.sample)] + first + torch.arange(length))
            hinted.append(places[-1 - length : -1])
    return PackedRow(
        tokens=torch.tensor(tree.tokens),
        positions=torch.tensor(tree.positions),
        nodes=tuple(tree.nodes),
        predicts=predicts,
        targets=targets,
        logprobs=logprobs,
        advantages=advantages,
        sequences=torch.repeat_interleave(torch.arange(len(counts)), counts),
        rollouts=len(counts),
        marked=torch.cat(marked),
        hinted=torch.cat(hinted),
        teacher=teacher,
    )


class _Leaf(NamedTuple):
    """A sequence of the tree: a rollout, or a turn of a rollout after its context with a hint."""

    ids: list[int]
    sample: Sample
    hint: Hinted | None

    def key(self) -> list[int]:
        return self.ids


class _Layout(NamedTuple):
    """Packed row under construction.

    Attributes:
        tokens: token ids so far.
        positions: position ids so far.
        nodes: nodes so far, each before its descendants.
        leaves: sequences so far, each with the indices of its tokens in the row.
    """

    tokens: list[int]
    positions: list[int]
    nodes: list[Node]
    leaves: list[tuple[_Leaf, Tensor]]

    def add(self, members: list[_Leaf], depth: int, path: tuple[Tensor, ...]) -> None:
        """Append a subtree of sequences whose first `depth` tokens are equal and in the row.

        Args:
            members: sequences in lexicographic order of the token ids.
            depth: number of tokens in the subtree's ancestors.
            path: for each ancestor, the indices of its tokens in the row.
        """
        ids, last = members[0].ids, members[-1].ids
        stop = _common(ids, last, depth)
        start, number = len(self.tokens), len(self.nodes)
        self.nodes.append(Node(start, start + stop - depth, 0))
        self.tokens.extend(ids[depth:stop])
        # count positions from the start of the rollout, not of the row, as in a separate sequence
        self.positions.extend(range(depth, stop))
        path = *path, torch.arange(start, len(self.tokens))
        for following, group in groupby(members, lambda member: member.ids[stop : stop + 1]):
            if following:
                self.add(list(group), stop, path)
            else:  # sequences that end with this node
                places = torch.cat(path)
                self.leaves.extend((leaf, places) for leaf in group)
        self.nodes[number] = self.nodes[number]._replace(end=len(self.tokens))


def _losses(sample: Sample, places: Tensor) -> tuple[Tensor, ...]:
    """Return a rollout's (predicts, targets, logprobs, advantages, teacher), each [n] or empty.

    `places` are the indices of the rollout's tokens in the row.
    """
    (sampled,) = torch.where(torch.tensor(sample.sampled, dtype=torch.bool))
    teacher = torch.tensor(sample.teacher, dtype=torch.float32)
    return (
        # in the row, a loss token may be far from its predecessor in the rollout, which predicts it
        places[len(sample.prompt) + sampled - 1],
        torch.tensor(sample.response, dtype=torch.long)[sampled],
        torch.tensor(sample.logprobs, dtype=torch.float32)[sampled],
        torch.tensor(sample.advantages, dtype=torch.float32)[sampled],
        teacher[sampled] if len(teacher) else teacher,
    )
