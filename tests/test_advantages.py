import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.advantages import group_means, mean_centred

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
