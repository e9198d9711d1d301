import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.advantages import BLOCKS, by_turn, group_means, mean_centred, standardised

Ledgers = list[list[dict[str, float]]]

rollouts = st.lists(
    st.tuples(st.integers(-28, 32).map(lambda n: n / 4), st.integers(0, 4)), min_size=1, max_size=30
)


def test_by_hand() -> None:
    rewards = torch.tensor([1.0, 6.0, 4.0, -2.0, 3.0])
    groups = torch.tensor([7, 2, 7, 2, 5])  # members need not be neighbours
    assert group_means(rewards, groups).tolist() == [2.5, 2.0, 2.5, 2.0, 3.0]
    assert mean_centred(rewards, groups).tolist() == [-1.5, 4.0, 1.5, -4.0, 0.0]


def test_standardised_by_hand() -> None:
    rewards = torch.tensor([1.0, 6.0, 4.0, -2.0, 3.0, 7.0])
    groups = torch.tensor([7, 2, 7, 2, 5, 7])
    # group 7 is 1, 4, 7: mean 4, variance (9 + 0 + 9) / 2; group 2 is 6, -2: 2 and (16 + 16) / 1
    half = 4 / 32**0.5
    wanted = torch.tensor([-1, half, 0, -half, 0, 1])
    torch.testing.assert_close(standardised(rewards, groups), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 3, 16, 49])
@pytest.mark.parametrize("reward", [0.0, 0.1, -1 / 3, 6.1e7])
def test_equal_rewards_have_no_advantage(reward: float, size: int, dtype: torch.dtype) -> None:
    """Exactly: the mean of equal numbers may be off by a rounding, which must not be divided."""
    rewards = torch.tensor([reward] * size + [1.0, 2.0], dtype=dtype)
    groups = torch.tensor([3] * size + [4, 4])
    advantages = standardised(rewards, groups)
    assert advantages[:size].tolist() == [0.0] * size
    assert advantages[size:].tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])


EDIT, FAILED, REVIEW = {"edit": 0.25}, {"failed_edit": -0.25}, {"review": 1.0}
SUBMIT = {"submit": 1.0, "layout": 1.0}
BETTER = {
    "one more edit": ([EDIT, EDIT, SUBMIT], [EDIT, SUBMIT], 1),
    "the first review": ([REVIEW, EDIT, SUBMIT], [EDIT, SUBMIT], 0),
    "submit": ([EDIT, SUBMIT], [EDIT, {"malformed": -0.25, "no_submit": -1.0, "layout": 1.0}], 1),
}
"""Two rollouts, and the turn in which the first does better; all else is equal."""


def credited(*ledgers: list[dict[str, float]]) -> list[list[float]]:
    """Advantages of the turns of one group, whose turns have equally many tokens."""
    return by_turn(ledgers, torch.zeros(len(ledgers)), [[3] * len(one) for one in ledgers], {})[0]


@settings(deadline=None)
@given(
    rollouts,
    st.lists(st.integers(1, 4), min_size=30, max_size=30),
    st.sampled_from(["layout", "hallucination", "preference", "clarity", "taste"]),
)
def test_what_only_the_end_earns_is_that_of_the_episode_on_all_turns(
    rows: list[tuple[float, int]], turns: list[int], name: str
) -> None:
    rewards = torch.tensor([reward for reward, _ in rows])
    groups = torch.tensor([group for _, group in rows])
    counts = turns[: len(rows)]
    pairs = zip(rewards.tolist(), counts, strict=True)
    ledgers = [[*({} for _ in range(n - 1)), {name: reward}] for reward, n in pairs]
    found, _ = by_turn(ledgers, groups, [[2] * len(one) for one in ledgers], {})
    # scaled back to the size of the rewards, the factor is 1
    wanted = zip(mean_centred(rewards, groups).tolist(), counts, strict=True)
    assert found == [[pytest.approx(advantage, abs=1e-5)] * n for advantage, n in wanted]


@pytest.mark.parametrize(("better", "worse", "turn"), BETTER.values(), ids=BETTER)
def test_a_better_call_has_the_larger_advantage(
    better: list[dict[str, float]], worse: list[dict[str, float]], turn: int
) -> None:
    one, other = credited(better, worse)
    assert one[turn] > 0 > other[turn]
    assert all(above > below for above, below in zip(one[: turn + 1], other, strict=False))


def test_rollouts_of_equal_sums_and_unequal_parts_differ() -> None:
    late, early = credited([FAILED, REVIEW], [REVIEW, FAILED])
    assert late[1] > 0 > early[1]
    # each is 0.5 below the mean, but layout varies less and thus counts more
    parts = [(1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (-1.0, 1.0)]
    one, other, *_ = credited(*([{"preference": a, "layout": b}] for a, b in parts))
    assert one[0] < other[0] < 0


def test_equal_rollouts_have_no_advantage() -> None:
    end = {**SUBMIT, "hallucination": 1.0, "clarity": -0.25}
    assert credited(*[[REVIEW, FAILED, {}, EDIT, end]] * 3) == [[0.0] * 5] * 3


def test_a_turn_is_compared_with_those_who_reached_it() -> None:
    submit = {"submit": 1.0}
    found = credited([EDIT, submit], [submit], [EDIT, EDIT, submit])
    # still to go: 1.25, 1.0; 1.0; 1.5, 1.25, 1.0
    wanted = [[0.0, -0.125], [-0.25], [0.25, 0.125, 0.0]]
    assert found == [pytest.approx(one) for one in wanted]


def test_an_edit_is_also_compared_with_the_groups_edits() -> None:
    found = credited([FAILED, EDIT], [EDIT, EDIT])
    # still to go, beside the mean: -1/4, 0; 1/4, 0, or -1, 0; 1, 0 after division by the least
    # scale; the call itself: -3/2, 1/2; 1/2, 1/2; a sum with a root mean square of 3/2
    factor = (2 / 16 / 4) ** 0.5 / 1.5
    assert found == [
        pytest.approx([-2.5 * factor, factor / 2]),
        pytest.approx([1.5 * factor, factor / 2]),
    ]


def test_the_weight_of_comparisons_is_kept_beside_the_scaled_blocks() -> None:
    parts = [(1.0, 3.0), (1.0, -3.0), (-1.0, 3.0), (-1.0, -3.0)]
    found = credited(*([{"preference": 4 * a, "comparison": b}] for a, b in parts))
    # preference is divided by its root mean square, 4; comparisons, of 3, are not divided
    assert found[0][0] / found[1][0] == pytest.approx((1 + 3) / (1 - 3))


def test_scales_are_running_and_not_too_small() -> None:
    parts = [(0.1, 1.0), (0.1, -1.0), (-0.1, 1.0), (-0.1, -1.0)]
    ledgers = [[{"layout": a, "preference": b}] for a, b in parts]
    groups, tokens = torch.zeros(4), [[5]] * 4
    found, first = by_turn(ledgers, groups, tokens, {})
    nothing = dict.fromkeys(BLOCKS, 0.0)
    assert first == pytest.approx({**nothing, "layout": 0.01, "preference": 1.0})
    # layout is divided by 0.25, not by 0.1
    assert found[0][0] / found[1][0] == pytest.approx((0.4 + 1) / (0.4 - 1))

    found, second = by_turn(ledgers, groups, tokens, {**first, "layout": 1.0, "preference": 4.0})
    assert second == pytest.approx({**nothing, "layout": 0.901, "preference": 3.7})
    small, large = 0.1 / 0.901**0.5, 1 / 3.7**0.5
    assert found[0][0] / found[1][0] == pytest.approx((small + large) / (small - large))
