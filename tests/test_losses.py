import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from learners.losses import aipo


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def loss_of(
    ratios: list[list[float]], advantages: list[float], total: int, sampler: float = -2.0
) -> tuple[float, list[float], dict[str, float]]:
    """The loss of rollouts with these ratios, its gradient by token, and what is watched."""
    flat = [(ratio, i) for i, row in enumerate(ratios) for ratio in row]
    known = torch.full((len(flat),), sampler, dtype=torch.float64)
    logprobs = (known + doubles(*(math.log(ratio) for ratio, _ in flat))).requires_grad_()
    sequences = torch.tensor([i for _, i in flat])
    each = doubles(*(advantages[i] for _, i in flat))
    loss, seen = aipo(logprobs, known, each, sequences, len(ratios), total)
    loss.backward()
    assert logprobs.grad is not None
    return loss.item(), logprobs.grad.tolist(), dict(seen)


def test_by_hand() -> None:
    loss, gradient, seen = loss_of([[1.0, 2.0], [0.5]], [1.5, -3.0], total=10)
    # -(1 * 1.5 * -2 + 2 * 1.5 * (ln 2 - 2) + 0.5 * -3 * (-ln 2 - 2)) / 10
    assert loss == pytest.approx((3 + 6 - 3 * math.log(2) - 1.5 * (2 + math.log(2))) / 10)
    assert gradient == pytest.approx([-0.15, -0.3, 0.15])
    assert seen == pytest.approx({"masked": 0, "ratio": 3.5, "gap": 2 * math.log(2)})


@pytest.mark.parametrize(
    ("ratios", "kept"),
    [
        ([[0.124, 1.0]], [[0, 1]]),
        ([[0.126, 1.0]], [[1, 1]]),
        ([[8.1, 1.0]], [[0, 1]]),
        ([[7.9, 1.0]], [[1, 1]]),
        # one ratio over 100 drops its rollout, and only that one
        ([[101.0, *[1.0] * 9], [1.0]], [[0] * 10, [1]]),
        ([[99.0, *[1.0] * 9], [1.0]], [[0, *[1] * 9], [1]]),
        # geometric means out of [0.1, 10], with tokens that would have stayed
        ([[99.0, 99.0, 1.1], [1.0, 2.0]], [[0, 0, 0], [1, 1]]),
        ([[28.0, 28.0, 1.1], [1.0, 2.0]], [[0, 0, 1], [1, 1]]),
        ([[0.01, 0.01, 0.9], [1.0, 2.0]], [[0, 0, 0], [1, 1]]),
        ([[0.04, 0.04, 0.9], [1.0, 2.0]], [[0, 0, 1], [1, 1]]),
    ],
)
def test_masks(ratios: list[list[float]], kept: list[list[int]]) -> None:
    advantages = [2.0, -1.0][: len(ratios)]
    loss, gradient, seen = loss_of(ratios, advantages, total=7)
    tokens = [
        (math.log(ratio) - 2, keep * ratio, advantage)
        for row, keeps, advantage in zip(ratios, kept, advantages, strict=True)
        for ratio, keep in zip(row, keeps, strict=True)
    ]
    # what is dropped still counts in the denominator, which is of the global batch
    assert loss == pytest.approx(-sum(logprob * ratio * a for logprob, ratio, a in tokens) / 7)
    assert gradient == pytest.approx([-ratio * a / 7 for _, ratio, a in tokens])
    assert seen["masked"] == sum(row.count(0) for row in kept)
    assert seen["ratio"] == pytest.approx(sum(ratio for _, ratio, _ in tokens))
    assert seen["gap"] == pytest.approx(sum(abs(logprob + 2) for logprob, _, _ in tokens))


numbers = st.floats(-3, 0, allow_subnormal=False)


@settings(deadline=None)
@given(st.lists(st.tuples(numbers, numbers, st.floats(-2, 2)), min_size=1, max_size=6))
def test_the_gradient_is_that_of_the_surrogate(tokens: list[tuple[float, float, float]]) -> None:
    """Finite differences of -sum of ratio * A * logp / n with the ratio held where it was."""
    x, known, advantages = (list(column) for column in zip(*tokens, strict=True))
    kept = [math.exp(a - b) * c if 0.125 <= math.exp(a - b) <= 8 else 0.0 for a, b, c in tokens]
    if not 0.1 <= math.exp(sum(a - b for a, b in zip(x, known, strict=True)) / len(x)) <= 10:
        kept = [0.0] * len(x)

    def surrogate(at: list[float]) -> float:
        return -sum(w * one for w, one in zip(kept, at, strict=True)) / 9

    logprobs = doubles(*x).requires_grad_()
    zeros = torch.zeros(len(x), dtype=torch.long)
    aipo(logprobs, doubles(*known), doubles(*advantages), zeros, 1, 9)[0].backward()
    assert logprobs.grad is not None
    for i, slope in enumerate(logprobs.grad.tolist()):
        up, down = ([*x[:i], x[i] + step, *x[i + 1 :]] for step in (1e-4, -1e-4))
        assert slope == pytest.approx((surrogate(up) - surrogate(down)) / 2e-4, abs=1e-9)


@pytest.mark.parametrize("ours", [-0.5, -torch.inf])
@pytest.mark.parametrize("theirs", [-1000.0, -torch.inf])
def test_an_infinite_ratio_is_dropped(ours: float, theirs: float) -> None:
    logprobs = torch.tensor([-1.0, ours, -1.0, -2.0], requires_grad=True)
    known = torch.tensor([-1.0, theirs, -1.0, -2.0])
    sequences = torch.tensor([0, 0, 0, 1])
    loss, seen = aipo(logprobs, known, torch.ones(4), sequences, 2, 4)
    loss.backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [0, 0, 0, -0.25]
    assert loss.item() == pytest.approx(0.5)
    assert (seen["masked"], seen["ratio"]) == (3, 1)


def test_rows_add_up() -> None:
    torch.manual_seed(0)
    lengths = [5, 0, 3, 8, 1]
    sequences = torch.arange(5).repeat_interleave(torch.tensor(lengths))
    n = len(sequences)
    logprobs, advantages = -3 * torch.rand(n).double(), torch.randn(5).double()[sequences]
    known = logprobs + torch.randn(n).double()
    whole, seen = aipo(logprobs, known, advantages, sequences, 5, n)
    parts = []
    for first, stop in ((0, 2), (2, 3), (3, 5)):
        own = (sequences >= first) & (sequences < stop)
        columns = logprobs[own], known[own], advantages[own], sequences[own] - first
        parts.append(aipo(*columns, stop - first, n))
    assert sum(float(part) for part, _ in parts) == pytest.approx(float(whole))
    for name, value in seen.items():
        assert sum(part[name] for _, part in parts) == pytest.approx(value)


def test_all_may_be_dropped() -> None:
    logprobs = torch.tensor([-9.0], requires_grad=True)
    one = torch.zeros(1, dtype=torch.long)
    loss, seen = aipo(logprobs, torch.zeros(1), torch.ones(1), one, 1, 1)
    loss.backward()
    assert loss.item() == 0
    assert seen == {"masked": 1, "ratio": 0, "gap": 9}
