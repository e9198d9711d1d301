from collections import Counter
from dataclasses import fields, replace
from itertools import count
from math import ceil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_policy
from torch import Tensor

from learners.training.batching import PackedRow, Sample, distribute, dummy, pack, unshare


@st.composite
def rollouts(draw: st.DrawFn) -> list[Sample]:
    """Groups of rollouts in which each token id, log-probability and advantage is unique."""
    fresh = count(1)
    samples = []
    for group in range(draw(st.integers(0, 4))):
        prompt = [next(fresh) for _ in range(draw(st.integers(1, 8)))]
        masks = st.lists(st.lists(st.booleans(), max_size=9), min_size=1, max_size=5)
        for sampled in draw(masks):
            response = [next(fresh) for _ in sampled]
            known = [-t / 8 if s else 0.0 for s, t in zip(sampled, response, strict=True)]
            samples.append(Sample(group, prompt, response, sampled, known, float(next(fresh))))
    order = draw(st.permutations(samples))  # members of a group need not be neighbours
    return list(order)


def sizes(samples: list[Sample]) -> dict[int, int]:
    """Tokens of each group in one piece."""
    found: dict[int, int] = {}
    for one in samples:
        found.setdefault(one.group, len(one.prompt))
        found[one.group] += len(one.response)
    return found


def targets(rows: list[PackedRow]) -> Counter[int]:
    return Counter(token for row in rows for token in row.targets.tolist())


def sampled(samples: list[Sample]) -> Counter[int]:
    return Counter(
        token
        for one in samples
        for token, known in zip(one.response, one.sampled, strict=True)
        if known
    )


@settings(deadline=None)
@given(rollouts(), st.integers(1, 40), st.integers(1, 5))
def test_every_sampled_token_is_a_target_once_and_rightly(
    samples: list[Sample], limit: int, wanted: int
) -> None:
    owner = {token: one for one in samples for token in one.response}
    before = {
        token: last
        for one in samples
        for last, token in zip([one.prompt[-1], *one.response], one.response, strict=False)
    }
    rows = pack(samples, limit, wanted)
    for row in rows:
        ids = row.targets.tolist()
        assert row.tokens[row.predicts].tolist() == [before[token] for token in ids]
        assert row.logprobs.tolist() == [-token / 8 for token in ids]
        assert row.advantages.tolist() == [owner[token].advantage for token in ids]
        tokens_of: dict[int, set[float]] = {}
        for number, advantage in zip(row.sequences.tolist(), row.advantages.tolist(), strict=True):
            assert 0 <= number < row.rollouts
            tokens_of.setdefault(number, set()).add(advantage)
        assert all(len(one) == 1 for one in tokens_of.values()), "a rollout has one advantage"
        assert len(set(row.advantages.tolist())) == len(tokens_of)
    assert targets(rows) == sampled(samples)


def check_layout(row: PackedRow, samples: list[Sample]) -> list[Sample]:
    """The row holds whole rollouts behind their prompts, and nothing else; which ones."""
    tokens, positions = row.tokens.tolist(), row.positions.tolist()
    place, held = 0, []
    for (start, stop), responses in row.spans:
        assert start == place
        place = stop
        prompt = tokens[start:stop]
        assert positions[start:stop] == list(range(len(prompt)))
        assert responses
        for first, last in responses:
            assert first == place
            place = last
            response = tokens[first:last]
            assert positions[first:last] == list(range(len(prompt), len(prompt) + last - first))
            held += [one for one in samples if (one.prompt, one.response) == (prompt, response)][:1]
    assert place == len(tokens) == len(positions)
    assert sum(len(responses) for _, responses in row.spans) == row.rollouts == len(held)
    return held


@settings(deadline=None)
@given(rollouts(), st.integers(1, 40), st.integers(1, 5))
def test_rows_hold_whole_rollouts_within_the_limit(
    samples: list[Sample], limit: int, wanted: int
) -> None:
    rows = pack(samples, limit, wanted)
    tokens = sizes(samples).values()
    enough = min(limit, max([ceil(sum(tokens) / wanted), *tokens]))
    for row in rows:
        held = check_layout(row, samples)
        assert len(row.tokens) <= enough or len(held) == 1
    assert sum(row.rollouts for row in rows) == len(samples)
    prompts = Counter(
        tuple(row.tokens[slice(*one.prompt)].tolist()) for row in rows for one in row.spans
    )
    for group, size in sizes(samples).items():
        prompt = next(tuple(one.prompt) for one in samples if one.group == group)
        assert prompts[prompt] >= 1
        if size <= limit:
            assert prompts[prompt] == 1, "a group that fits is in one piece"


def test_first_fit_leaves_no_room_unused() -> None:
    samples = [Sample(g, [1], [2] * n, [True] * n, [0.0] * n, 0.0) for g, n in enumerate((3, 5, 2))]
    assert [len(row.tokens) for row in pack(samples, 10)] == [10, 3]
    assert [len(row.tokens) for row in pack(samples, 13)] == [13]


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
        Sample(group, [1], [2], [True], [0.0], 0.0)
        for group, size in enumerate(groups)
        for _ in range(size - 1)
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
def test_ranks_get_each_loss_token_once_in_equally_many_rows(
    case: tuple[list[Sample], list[PackedRow], dict[int, float], int],
) -> None:
    samples, rows, prices, ranks = case
    with_targets = {id(row) for row in rows if len(row.targets)}
    found = distribute(rows, ranks, lambda row: prices[id(row)])
    held = [row for share in found for row in share]
    assert [len(share) for share in found] == [-(-len(with_targets) // ranks)] * ranks
    assert targets(held) == sampled(samples)
    fillers = [row for row in held if id(row) not in with_targets]
    assert len(held) - len(fillers) == len(with_targets)
    assert all(len(row.targets) == 0 and len(row.tokens) == 2 for row in fillers)
    again = distribute(rows, ranks, lambda row: prices[id(row)])
    real = [[id(row) for row in share if id(row) in with_targets] for share in found]
    assert real == [[id(row) for row in share if id(row) in with_targets] for share in again]


@settings(deadline=None)
@given(shares())
def test_ranks_differ_by_one_row_at_most(
    case: tuple[list[Sample], list[PackedRow], dict[int, float], int],
) -> None:
    _, rows, prices, ranks = case
    found = distribute(rows, ranks, lambda row: prices[id(row)])
    costs = [sum(prices.get(id(row), 0) for row in share) for share in found]
    heaviest = max((prices[id(row)] for row in rows if len(row.targets)), default=0)
    assert max(costs) <= min(costs) + heaviest + 1e-9


def test_heavy_rows_do_not_meet() -> None:
    rows = [
        pack([Sample(0, [1], [2] * n, [True] * n, [0.0] * n, 0.0)], 100)[0] for n in (1, 5, 3, 5, 2)
    ]
    found = distribute(rows, 2, lambda row: len(row.targets))
    assert [[len(row.targets) for row in share] for share in found] == [[5, 3, 0], [5, 2, 1]]


def test_rollouts_without_sampled_tokens_have_no_targets() -> None:
    rows = pack(
        [Sample(0, [1, 2], [], [], [], 1.0), Sample(0, [1, 2], [3], [False], [0.0], 1.0)], 9
    )
    (row,) = rows
    assert row.tokens.tolist() == [1, 2, 3]
    assert row.rollouts == 2
    for one in (row.predicts, row.targets, row.sequences):
        assert (one.shape, one.dtype) == ((0,), torch.long)
    for one in (row.logprobs, row.advantages):
        assert (one.shape, one.dtype) == ((0,), torch.float32)
    assert pack([], 9) == []


def test_a_sample_is_checked() -> None:
    with pytest.raises(AssertionError, match=r"differ in length: \(2, 1, 2\)"):
        Sample(0, [1], [2, 3], [True], [0.0, 0.0], 1.0)
    with pytest.raises(AssertionError, match="needs a prompt"):
        Sample(0, [], [2], [True], [0.0], 1.0)


def test_a_group_has_one_prompt() -> None:
    one, other = (Sample(0, [token], [2], [True], [0.0], 1.0) for token in (1, 5))
    with pytest.raises(AssertionError, match="differ in their prompt"):
        pack([one, other], 100)


@settings(deadline=None)
@given(rollouts(), st.integers(1, 40))
def test_unshared_rollouts_have_the_same_loss_tokens(samples: list[Sample], limit: int) -> None:
    apart = unshare(samples)
    rows = pack(apart, limit)
    assert targets(rows) == sampled(samples)
    assert all(len(span.responses) == 1 for row in rows for span in row.spans)
    assert [replace(a, group=b.group) for a, b in zip(apart, samples, strict=True)] == samples


def test_a_filler_reaches_every_weight_and_moves_none() -> None:
    policy, _ = tiny_policy("llama")
    policy(dummy())[0].sum().backward()
    for one in policy.parameters():
        assert one.grad is not None
        assert not one.grad.any()


def test_a_row_moves_as_a_whole() -> None:
    (row,) = pack([Sample(0, [1, 2], [3], [True], [0.0], 1.0)], 9)
    moved = row.to("meta")
    assert (moved.spans, moved.rollouts) == (row.spans, row.rollouts)
    for field in fields(row):
        one, other = getattr(row, field.name), getattr(moved, field.name)
        if isinstance(one, Tensor):
            assert (other.device.type, other.shape, other.dtype) == ("meta", one.shape, one.dtype)


def test_a_row_is_checked() -> None:
    (row,) = pack([Sample(0, [1, 2], [3], [True], [0.0], 1.0)], 9)
    with pytest.raises(AssertionError, match=r"tokens and positions differ in length: \[3, 2\]"):
        replace(row, positions=row.positions[1:])
    for name in ("predicts", "targets", "logprobs", "advantages", "sequences"):
        with pytest.raises(AssertionError, match="loss tokens' tensors differ in length"):
            replace(row, **{name: getattr(row, name)[1:]})
    (span,) = row.spans
    with pytest.raises(AssertionError, match="spans of 2 tokens in a row of 3"):
        replace(row, spans=(span._replace(responses=()),))
    with pytest.raises(AssertionError, match="spans leave 1 to 2 out"):
        replace(row, spans=(span._replace(prompt=(0, 1)),))
