import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.advantages import group_means, mean_centred, standardised

rollouts = st.lists(
    st.tuples(st.integers(-28, 32).map(lambda n: n / 4), st.integers(0, 4)), min_size=1, max_size=30
)


def test_by_hand() -> None:
    rewards = torch.tensor([1.0, 6.0, 4.0, -2.0, 3.0])
    groups = torch.tensor([7, 2, 7, 2, 5])  # members need not be neighbours
    assert group_means(rewards, groups).tolist() == [2.5, 2.0, 2.5, 2.0, 3.0]
    assert mean_centred(rewards, groups).tolist() == [-1.5, 4.0, 1.5, -4.0, 0.0]


@settings(deadline=None)
@given(rollouts, st.sampled_from([torch.float32, torch.float64]))
def test_each_group_sums_to_zero_and_keeps_its_differences(
    rows: list[tuple[float, int]], dtype: torch.dtype
) -> None:
    rewards = torch.tensor([reward for reward, _ in rows], dtype=dtype)
    groups = torch.tensor([group for _, group in rows])
    advantages = mean_centred(rewards, groups)
    assert advantages.dtype == dtype
    for group in groups.unique():
        own = groups == group
        assert float(advantages[own].sum()) == pytest.approx(0, abs=1e-4)
        gaps, wanted = advantages[own].diff(), rewards[own].diff()
        torch.testing.assert_close(gaps, wanted, atol=1e-5, rtol=0)


@settings(deadline=None)
@given(rollouts)
def test_a_groups_level_does_not_matter(rows: list[tuple[float, int]]) -> None:
    rewards = torch.tensor([reward for reward, _ in rows])
    groups = torch.tensor([group for _, group in rows])
    shifted = mean_centred(rewards + 10.0 * groups, groups)
    torch.testing.assert_close(shifted, mean_centred(rewards, groups), atol=1e-4, rtol=0)


def test_standardised_by_hand() -> None:
    rewards = torch.tensor([1.0, 6.0, 4.0, -2.0, 3.0, 7.0])
    groups = torch.tensor([7, 2, 7, 2, 5, 7])
    # group 7 is 1, 4, 7: mean 4, variance (9 + 0 + 9) / 2; group 2 is 6, -2: 2 and (16 + 16) / 1
    half = 4 / 32**0.5
    wanted = torch.tensor([-1, half, 0, -half, 0, 1])
    torch.testing.assert_close(standardised(rewards, groups), wanted)


@settings(deadline=None)
@given(rollouts, st.sampled_from([torch.float32, torch.float64]))
def test_standardised_groups_have_unit_variance(
    rows: list[tuple[float, int]], dtype: torch.dtype
) -> None:
    rewards = torch.tensor([reward for reward, _ in rows], dtype=dtype)
    groups = torch.tensor([group for _, group in rows])
    advantages = standardised(rewards, groups)
    assert advantages.dtype == dtype
    for group in groups.unique():
        own = groups == group
        if len(rewards[own].unique()) == 1:
            assert not advantages[own].any()
        else:
            assert float(advantages[own].mean()) == pytest.approx(0, abs=1e-4)
            assert float(advantages[own].std()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 49])
@pytest.mark.parametrize("reward", [0.0, 0.1, 0.7, -1 / 3, 1e-6, 6.1e7])
def test_equal_rewards_have_no_advantage(reward: float, size: int, dtype: torch.dtype) -> None:
    """Exactly: the mean of equal numbers may be off by a rounding, which must not be divided."""
    rewards = torch.tensor([reward] * size + [1.0, 2.0], dtype=dtype)
    groups = torch.tensor([3] * size + [4, 4])
    advantages = standardised(rewards, groups)
    assert advantages[:size].tolist() == [0.0] * size
    assert advantages[size:].tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])
