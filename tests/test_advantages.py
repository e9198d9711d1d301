import pytest
import torch

from learners.advantages import group_means, mean_centred, standardised


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
