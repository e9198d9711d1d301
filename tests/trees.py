"""Rollouts that share beginnings, and prefix trees in a row, as Hypothesis draws them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, count, pairwise

import torch
from hypothesis import strategies as st
from torch import Tensor

from learners.training.packed_attention import Node
from learners.training.rows import Hinted, Sample

# few ids, so that rollouts often have the same next token
_TOKENS = st.integers(1, 3)


@st.composite
def rollouts(draw: st.DrawFn, least: int = 0) -> list[Sample]:
    """Groups of rollouts; each begins like another one of its group, and is as long or shorter.

    Every advantage is unique, and thus tells a token's rollout and place. Some turns have a second
    context, which begins like the first.
    """
    fresh = count(1)
    samples = []
    for group in range(draw(st.integers(least, 3))):
        # the first token tells the group
        prompt = [10 + group, *draw(st.lists(_TOKENS, max_size=4))]
        responses: list[list[int]] = []
        for _ in range(draw(st.integers(1, 5))):
            earlier = draw(st.sampled_from([[], *responses]))
            # often equal to the other, or a prefix of it
            cut = draw(st.integers(0, len(earlier)) | st.just(len(earlier)))
            responses.append(earlier[:cut] + draw(st.lists(_TOKENS, max_size=4)))
        for response in responses:
            n = len(response)
            sampled = draw(st.lists(st.booleans(), min_size=n, max_size=n))
            known = [-next(fresh) / 8 if own else 0.0 for own in sampled]
            advantages = [next(fresh) / 8 for _ in sampled]
            one = Sample(group, prompt, response, sampled, known, advantages)
            samples.append(replace(one, hinted=draw(_hinted(one))))
    order = draw(st.permutations(samples))  # members of a group need not be neighbours
    return list(order)


@st.composite
def _hinted(draw: st.DrawFn, one: Sample) -> tuple[Hinted, ...]:
    found = []
    for start, own in enumerate(one.sampled):
        if own and not (start and one.sampled[start - 1]) and draw(st.integers(0, 2)) == 0:
            context = one.prompt + one.response[:start]
            kept = context[: draw(st.integers(1, len(context)))]
            found.append(Hinted(start, kept + draw(st.lists(_TOKENS, max_size=3))))
    return tuple(found)


def turn(one: Sample, start: int) -> list[int]:
    """The tokens of the turn that begins at this place of the response."""
    stop = next((n for n in range(start, len(one.sampled)) if not one.sampled[n]), None)
    return one.response[start:stop]


def sequences(samples: Sequence[Sample]) -> list[list[int]]:
    """The rollouts, and turns after their second contexts."""
    hinted = [two.context + turn(one, two.start) for one in samples for two in one.hinted]
    return [one.prompt + one.response for one in samples] + hinted


def prefixes(samples: Sequence[Sample]) -> set[tuple[int, ...]]:
    """All non-empty beginnings of the sequences: the tokens of their tree."""
    ids = [*map(tuple, sequences(samples))]
    return {one[:stop] for one in ids for stop in range(1, len(one) + 1)}


@st.composite
def trees(draw: st.DrawFn) -> tuple[Node, ...]:
    """Trees of any shape in a row."""
    depths, lengths = [0], [draw(st.integers(1, 5))]
    for _ in range(draw(st.integers(0, 8))):
        depths.append(draw(st.integers(0, depths[-1] + 1)))
        lengths.append(draw(st.integers(1, 5)))
    return nodes_of(zip(depths, lengths, strict=True))


def nodes_of(shape: Iterator[tuple[int, int]] | Sequence[tuple[int, int]]) -> tuple[Node, ...]:
    """Nodes in the order of the row, from their depths and lengths."""
    depths, lengths = zip(*shape, strict=True)
    bounds = list(accumulate(lengths, initial=0))
    nodes = []
    for number, (depth, (start, stop)) in enumerate(zip(depths, pairwise(bounds), strict=True)):
        later = range(number + 1, len(depths))
        after = next((one for one in later if depths[one] <= depth), len(depths))
        nodes.append(Node(start, stop, bounds[after]))
    return tuple(nodes)


def visible(nodes: Sequence[Node]) -> Tensor:
    """Which keys each query sees, bool [t, t]: earlier ones of its node and of ancestors."""
    owner = [node for node in nodes for _ in range(node.start, node.stop)]
    seen = [
        [key <= query and above.start <= own.start < above.end for key, above in enumerate(owner)]
        for query, own in enumerate(owner)
    ]
    return torch.tensor(seen)
