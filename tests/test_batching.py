from collections import Counter
from itertools import count

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.batching import Batch, Sample, pack


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


@settings(deadline=None)
@given(rollouts(), st.integers(1, 40))
def test_every_sampled_token_is_a_target_once_and_rightly(
    samples: list[Sample], limit: int
) -> None:
    owner = {token: one for one in samples for token in one.response}
    before = {
        token: last
        for one in samples
        for last, token in zip([one.prompt[-1], *one.response], one.response, strict=False)
    }
    seen: Counter[int] = Counter()
    for row in pack(samples, limit):
        targets = row.targets.tolist()
        seen.update(targets)
        assert row.tokens[row.predicts].tolist() == [before[token] for token in targets]
        assert row.logprobs.tolist() == [-token / 8 for token in targets]
        assert row.advantages.tolist() == [owner[token].advantage for token in targets]
        tokens_of: dict[int, set[float]] = {}
        for number, advantage in zip(row.sequences.tolist(), row.advantages.tolist(), strict=True):
            assert 0 <= number < row.rollouts
            tokens_of.setdefault(number, set()).add(advantage)
        assert all(len(one) == 1 for one in tokens_of.values()), "a rollout has one advantage"
        assert len(set(row.advantages.tolist())) == len(tokens_of)
    wanted = [t for one in samples for t, s in zip(one.response, one.sampled, strict=True) if s]
    assert seen == Counter(wanted)


def check_layout(row: Batch, samples: list[Sample]) -> list[Sample]:
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
@given(rollouts(), st.integers(1, 40))
def test_rows_hold_whole_rollouts_within_the_limit(samples: list[Sample], limit: int) -> None:
    rows = pack(samples, limit)
    for row in rows:
        held = check_layout(row, samples)
        assert len(row.tokens) <= limit or len(held) == 1
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


def test_nothing_sampled_is_a_row_without_targets() -> None:
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
