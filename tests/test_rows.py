from collections import Counter
from math import ceil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import make_sample, tiny_policy
from trees import nodes_of, prefixes, rollouts, turn

from learners.training.packed_attention import Node
from learners.training.rows import PackedRow, Sample, distribute, dummy, pack


def sizes(samples: list[Sample]) -> list[int]:
    """Tokens of each group in one piece."""
    groups = {one.group for one in samples}
    return [len(prefixes([one for one in samples if one.group == group])) for group in groups]


def losses(rows: list[PackedRow]) -> Counter[tuple[float, ...]]:
    """Target, log-probability and advantage of each loss token."""
    columns = [(row.targets, row.logprobs, row.advantages) for row in rows]
    return Counter(
        entry for row in columns for entry in zip(*(column.tolist() for column in row), strict=True)
    )


def sampled(samples: list[Sample]) -> Counter[tuple[float, ...]]:
    """The same of each sampled token."""
    return Counter(
        (token, logprob, advantage)
        for one in samples
        for token, own, logprob, advantage in zip(
            one.response, one.sampled, one.logprobs, one.advantages, strict=True
        )
        if own
    )


def paths(row: PackedRow) -> list[tuple[int, ...]]:
    """What leads to each token of a row, this token included."""
    tokens, found = row.tokens.tolist(), []
    for place in range(len(tokens)):
        above = [node for node in row.nodes if node.start <= place < node.end]
        indices = [i for node in above for i in range(node.start, min(node.stop, place + 1))]
        assert row.positions[indices].tolist() == list(range(len(indices)))
        found.append(tuple(tokens[i] for i in indices))
    return found


@settings(deadline=None)
@given(rollouts(), st.integers(1, 40), st.integers(1, 5))
def test_every_sampled_token_has_one_loss_behind_what_its_rollout_begins_with(
    samples: list[Sample], limit: int, wanted: int
) -> None:
    owner = {
        advantage: (number, place)
        for number, one in enumerate(samples)
        for place, advantage in enumerate(one.advantages)
    }
    rows = pack(samples, limit, wanted)
    assert losses(rows) == sampled(samples)
    for row in rows:
        before, numbers = paths(row), {}
        columns = row.predicts.tolist(), row.sequences.tolist(), row.advantages.tolist()
        for predicts, sequence, advantage in zip(*columns, strict=True):
            number, place = owner[advantage]
            one = samples[number]
            assert before[predicts] == (*one.prompt, *one.response[:place])
            assert numbers.setdefault(sequence, number) == number, "a sequence is one rollout"
            assert 0 <= sequence < row.rollouts
        assert len({*numbers.values()}) == len(numbers), "a rollout is one sequence"


@settings(deadline=None)
@given(rollouts(), st.integers(1, 40), st.integers(1, 5))
def test_turns_with_hints_are_in_the_row_of_their_rollout_twice(
    samples: list[Sample], limit: int, wanted: int
) -> None:
    rows = pack(samples, limit, wanted)
    found = []
    for row in rows:
        before = paths(row)
        for marked, hinted in zip(row.marked.tolist(), row.hinted.tolist(), strict=True):
            found.append((float(row.advantages[marked]), before[hinted]))
            assert int(row.targets[marked]) in {
                own[-1] for own in before if own[:-1] == before[hinted]
            }, "the token is there after both contexts"
    assert Counter(found) == Counter(
        (one.advantages[hint.start + place], (*hint.context, *own[:place]))
        for one in samples
        for hint in one.hinted
        for own in [turn(one, hint.start)]
        for place in range(len(own))
    )


def check_nodes(row: PackedRow) -> None:
    """Nodes cover the row, and lie within one another or apart."""
    place = 0
    for number, node in enumerate(row.nodes):
        assert place == node.start < node.stop <= node.end <= len(row.tokens)
        place = node.stop
        for later in row.nodes[number + 1 :]:
            assert later.start >= node.end or later.end <= node.end
    assert place == len(row.tokens)


@settings(deadline=None)
@given(rollouts(), st.integers(1, 40), st.integers(1, 5))
def test_rows_hold_whole_rollouts_within_the_limit(
    samples: list[Sample], limit: int, wanted: int
) -> None:
    rows = pack(samples, limit, wanted)
    tokens = sizes(samples)
    enough = min(limit, max([ceil(sum(tokens) / wanted), *tokens]))
    found: set[tuple[int, ...]] = set()
    for row in rows:
        check_nodes(row)
        assert len(row.tokens) <= enough or row.rollouts == 1
        found |= {*paths(row)}
    assert found == prefixes(samples), "and nothing else"
    assert sum(row.rollouts for row in rows) == len(samples)
    if max(tokens, default=0) <= limit:
        assert sum(len(row.tokens) for row in rows) == sum(tokens), "a group that fits is whole"


def test_parts_of_a_group_share_what_they_can() -> None:
    responses = [[5, 1], [6], [5, 2, 3], [5, 2, 4], [5, 1]]
    samples = [make_sample(0, [8, 9], one) for one in responses]
    (whole,) = pack(samples, 8)
    assert whole.tokens.tolist() == [8, 9, 5, 1, 2, 3, 4, 6]
    assert whole.positions.tolist() == [0, 1, 2, 3, 3, 4, 4, 2]
    assert whole.nodes == nodes_of([(0, 2), (1, 1), (2, 1), (2, 1), (3, 1), (3, 1), (1, 1)])
    # the last two of [5, 1] have the same path, and losses of their own
    assert whole.predicts.tolist() == [1, 2, 1, 2, 1, 2, 4, 1, 2, 4, 1]
    assert whole.sequences.tolist() == [0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4]
    parts = [row.tokens.tolist() for row in pack(samples, 6)]
    assert parts == [[8, 9, 5, 1, 2, 3], [8, 9, 5, 2, 4, 6]]
    # one rollout a row where none fits; equal ones are apart, too
    assert sorted(len(row.tokens) for row in pack(samples, 2)) == [3, 4, 4, 5, 5]


@pytest.mark.parametrize(
    ("groups", "wanted", "lengths"),
    [
        ((4, 4, 4, 2, 2), 1, [16]),
        ((4, 4, 4, 2, 2), 2, [8, 8]),
        ((4, 4, 4, 2, 2), 3, [6, 6, 4]),
        ((9, 2, 2, 2), 3, [9, 6]),  # the longest group makes shorter rows useless
        ((30, 2, 2, 2), 3, [20, 17]),  # and one beyond the limit is split as ever
    ],
)
def test_rows_are_as_short_as_gives_each_rank_work(
    groups: tuple[int, ...], wanted: int, lengths: list[int]
) -> None:
    samples = [
        make_sample(group, [1], [n]) for group, size in enumerate(groups) for n in range(size - 1)
    ]
    assert [len(row.tokens) for row in pack(samples, 20, wanted)] == lengths


@st.composite
def shares(draw: st.DrawFn) -> tuple[list[Sample], list[PackedRow], dict[int, float], int]:
    """Samples, their rows, what each row costs, and a number of ranks."""
    samples = draw(rollouts())
    rows = pack(samples, draw(st.integers(1, 40)), draw(st.integers(1, 5)))
    price = st.integers(0, 3) | st.floats(0, 100)
    return samples, rows, {id(row): draw(price) for row in rows}, draw(st.integers(1, 5))


@settings(deadline=None)
@given(shares())
def test_ranks_get_each_loss_token_once_in_equally_many_rows_of_similar_cost(
    case: tuple[list[Sample], list[PackedRow], dict[int, float], int],
) -> None:
    samples, rows, prices, ranks = case
    with_targets = {id(row) for row in rows if len(row.targets)}
    found = distribute(rows, ranks, lambda row: prices[id(row)])
    held = [row for share in found for row in share]
    assert [len(share) for share in found] == [-(-len(with_targets) // ranks)] * ranks
    assert losses(held) == sampled(samples)
    fillers = [row for row in held if id(row) not in with_targets]
    assert len(held) - len(fillers) == len(with_targets)
    assert all(len(row.targets) == 0 and len(row.tokens) == 2 for row in fillers)
    costs = [sum(prices.get(id(row), 0) for row in share) for share in found]
    heaviest = max((prices[id(row)] for row in rows if len(row.targets)), default=0)
    assert max(costs) <= min(costs) + heaviest + 1e-9


def test_rollouts_without_sampled_tokens_have_no_targets() -> None:
    (row,) = pack([make_sample(0, [1, 2], []), make_sample(0, [1, 2], [3], sampled=[False])], 9)
    assert row.tokens.tolist() == [1, 2, 3]
    assert row.rollouts == 2
    for one in (row.predicts, row.targets, row.sequences):
        assert (one.shape, one.dtype) == ((0,), torch.long)
    for one in (row.logprobs, row.advantages):
        assert (one.shape, one.dtype) == ((0,), torch.float32)
    assert pack([], 9) == []


def test_a_group_may_have_several_prompts() -> None:
    prompts = [[1, 2, 3], [1, 2, 4], [5]]
    (row,) = pack([make_sample(0, prompt, [6]) for prompt in prompts], 100)
    assert row.tokens.tolist() == [1, 2, 3, 6, 4, 6, 5, 6]
    assert row.nodes == (Node(0, 2, 6), Node(2, 4, 4), Node(4, 6, 6), Node(6, 8, 8))
    assert row.predicts.tolist() == [2, 4, 6]


def test_a_filler_reaches_every_weight_and_moves_none() -> None:
    policy, _ = tiny_policy("llama")
    policy(dummy())[0].sum().backward()
    for one in policy.parameters():
        assert one.grad is not None
        assert not one.grad.any()
