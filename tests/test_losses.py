import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from learners import losses
from learners.aipo import aipo_loss
from learners.losses import LossInput, Totals

# the trainer's and the sampler's probability of a token
Token = tuple[float, float]

LOSSES = {"aipo": aipo_loss, **losses.LOSSES}
every_loss = pytest.mark.parametrize("name", LOSSES)


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def loss_of(
    name: str, tokens: list[list[Token]], advantages: list[float], total: Totals
) -> tuple[float, list[float], dict[str, float]]:
    """The loss of these rollouts, its gradient by token, and what is watched."""
    flat = [(ours, theirs, i) for i, row in enumerate(tokens) for ours, theirs in row]
    logprobs = doubles(*(math.log(ours) for ours, _, _ in flat)).requires_grad_()
    known = doubles(*(math.log(theirs) for _, theirs, _ in flat))
    sequences = torch.tensor([i for _, _, i in flat])
    each = doubles(*(advantages[i] for _, _, i in flat))
    loss, seen = LOSSES[name](LossInput(logprobs, known, each, sequences, len(tokens), total))
    loss.backward()
    return loss.item(), logprobs.grad.tolist(), dict(seen)


def ln(x: float) -> float:
    return math.log(x)


@pytest.mark.parametrize(
    ("ratios", "kept", "reasons"),
    [
        ([[0.124, 1.0]], [[0, 1]], (1, 0, 0)),
        ([[0.126, 1.0]], [[1, 1]], (0, 0, 0)),
        ([[8.1, 1.0]], [[0, 1]], (0, 1, 0)),
        ([[7.9, 1.0]], [[1, 1]], (0, 0, 0)),
        # one ratio over 100 drops its rollout, and only that one
        ([[101.0, *[1.0] * 9], [1.0]], [[0] * 10, [1]], (0, 0, 10)),
        ([[99.0, *[1.0] * 9], [1.0]], [[0, *[1] * 9], [1]], (0, 1, 0)),
        # geometric means out of [0.1, 10], with tokens that would have stayed
        ([[34.0, 34.0, 1.1], [1.0, 2.0]], [[0, 0, 0], [1, 1]], (0, 0, 3)),
        ([[28.0, 28.0, 1.1], [1.0, 2.0]], [[0, 0, 1], [1, 1]], (0, 2, 0)),
        ([[0.03, 0.03, 0.9], [1.0, 2.0]], [[0, 0, 0], [1, 1]], (0, 0, 3)),
        ([[0.04, 0.04, 0.9], [1.0, 2.0]], [[0, 0, 1], [1, 1]], (2, 0, 0)),
    ],
)
def test_masks_of_aipo(
    ratios: list[list[float]], kept: list[list[int]], reasons: tuple[int, int, int]
) -> None:
    advantages = [2.0, -1.0][: len(ratios)]
    pairs = [[(ratio / 200, 1 / 200) for ratio in row] for row in ratios]
    loss, gradient, seen = loss_of("aipo", pairs, advantages, Totals(7, 2))
    tokens = [
        (math.log(ratio / 200), keep * ratio, advantage)
        for row, keeps, advantage in zip(ratios, kept, advantages, strict=True)
        for ratio, keep in zip(row, keeps, strict=True)
    ]
    # what is dropped still counts in the denominator, which is of the global batch
    assert loss == pytest.approx(-sum(logprob * ratio * a for logprob, ratio, a in tokens) / 7)
    assert gradient == pytest.approx([-ratio * a / 7 for _, ratio, a in tokens])
    assert seen["masked"] == sum(row.count(0) for row in kept)
    assert (seen["masked_low"], seen["masked_high"], seen["masked_rollout"]) == reasons
    assert seen["ratio"] == pytest.approx(sum(ratio for _, ratio, _ in tokens))
    assert seen["ratio_max"] == pytest.approx(max(ratio for _, ratio, _ in tokens))
    assert seen["gap"] == pytest.approx(sum(abs(logprob + ln(200)) for logprob, _, _ in tokens))
    deviation = sum((ratio - 1) ** 2 for _, ratio, _ in tokens if ratio)
    assert seen["ratio_deviation"] == pytest.approx(deviation)


@pytest.mark.parametrize(
    ("names", "token", "kept_up", "kept_down"),  # whether it stays with A = 2 and with A = -2
    [
        (["ipo"], (0.69, 0.5), 1, 1),
        (["ipo"], (0.71, 0.5), 0, 0),
        (["ipo"], (0.31, 0.5), 1, 1),
        (["ipo"], (0.29, 0.5), 0, 0),
        (["dppo_kl"], (0.69, 0.5), 1, 1),
        (["dppo_kl"], (0.71, 0.5), 0, 1),
        (["dppo_kl"], (0.31, 0.5), 1, 1),
        (["dppo_kl"], (0.29, 0.5), 1, 0),
        # a large ratio is no reason where the probabilities are small
        (["ipo", "dppo_kl"], (0.1, 0.001), 1, 1),
        (["grpo", "dr_grpo"], (0.119, 0.1), 1, 1),
        (["grpo", "dr_grpo"], (0.121, 0.1), 0, 1),
        (["grpo", "dr_grpo"], (0.081, 0.1), 1, 1),
        (["grpo", "dr_grpo"], (0.079, 0.1), 1, 0),
    ],
)
def test_masks(names: list[str], token: Token, kept_up: int, kept_down: int) -> None:
    ratio = token[0] / token[1]
    for name in names:
        pull = 2e-3 * ln(ratio) if name in ("ipo", "dppo_kl") else 0.0
        for advantage, kept in ((2.0, kept_up), (-2.0, kept_down)):
            _, gradient, seen = loss_of(name, [[token]], [advantage], Totals(1, 1))
            assert gradient == pytest.approx([pull - kept * ratio * advantage]), (name, advantage)
            assert seen["masked"] == 1 - kept
            assert seen["ratio"] == seen["ratio_max"] == pytest.approx(kept * ratio)
            assert seen["ratio_deviation"] == pytest.approx(kept * (ratio - 1) ** 2)
            assert seen["gap"] == pytest.approx(abs(ln(ratio)))


def surrogate(name: str, at: list[float], tokens: list[tuple[float, float, float]]) -> float:
    """One rollout's loss in plain arithmetic, with what is stopped held at `tokens`."""
    logs = [x - known for x, known, _ in tokens]
    mean = math.exp(sum(logs) / len(logs))
    value = 0.0
    for one, log, (x, known, a) in zip(at, logs, tokens, strict=True):
        moved = math.exp(x) - math.exp(known)
        ratio = math.exp(one - known)
        if name == "raft":
            value -= one * (a > 0)
            continue
        if name in ("grpo", "dr_grpo"):
            value -= min(ratio * a, min(max(ratio, 0.8), 1.2) * a)
            continue
        keep = {
            "aipo": 0.125 <= math.exp(log) <= 8 and 0.1 <= mean <= 10,
            "ipo": abs(moved) <= 0.2,
            "dppo_kl": moved <= 0.2 if a > 0 else moved >= -0.2 if a < 0 else True,
        }[name]
        value -= keep * math.exp(log) * a * one
        value += 1e-3 * (one - known) ** 2 * (name != "aipo")
    return value / (len(tokens) * 3 if name == "grpo" else 9)


numbers = st.floats(-3, 0, allow_subnormal=False)


@every_loss
@settings(deadline=None)
@given(tokens=st.lists(st.tuples(numbers, numbers, st.floats(-2, 2)), min_size=1, max_size=6))
def test_value_and_slope(name: str, tokens: list[tuple[float, float, float]]) -> None:
    """Against plain arithmetic and its finite differences."""
    # no finite difference across a kink of the clip
    kinks = [abs(math.exp(x - known) - clip) for x, known, _ in tokens for clip in (0.8, 1.2)]
    assume(min(kinks) > 1e-3)
    x, known, advantages = (list(column) for column in zip(*tokens, strict=True))
    logprobs = doubles(*x).requires_grad_()
    zeros = torch.zeros(len(x), dtype=torch.long)
    columns = logprobs, doubles(*known), doubles(*advantages), zeros
    loss, _ = LOSSES[name](LossInput(*columns, 1, Totals(9, 3)))
    loss.backward()
    assert loss.item() == pytest.approx(surrogate(name, x, tokens), abs=1e-12)
    for i, slope in enumerate(logprobs.grad.tolist()):
        up, down = (
            surrogate(name, [*x[:i], x[i] + step, *x[i + 1 :]], tokens) for step in (1e-4, -1e-4)
        )
        assert slope == pytest.approx((up - down) / 2e-4, abs=1e-7)


@every_loss
@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("ours", [-0.5, -3.0, -torch.inf])
@pytest.mark.parametrize("theirs", [-1000.0, -torch.inf])
def test_an_infinite_ratio_is_dropped(
    name: str, advantage: float, ours: float, theirs: float
) -> None:
    logprobs = torch.tensor([-1.0, ours, -1.0, -2.0], requires_grad=True)
    known = torch.tensor([-1.0, theirs, -1.0, -2.0])
    # both neighbours are in the rollout that aipo drops
    sequences = torch.tensor([0, 0, 0, 1])
    each = torch.full((4,), advantage)
    loss, seen = LOSSES[name](LossInput(logprobs, known, each, sequences, 2, Totals(4, 2)))
    loss.backward()
    assert loss.isfinite()
    assert all(map(math.isfinite, seen.values()))
    stay = {"aipo": 0, "grpo": 1 / 6}.get(name, 1 / 4)
    last = 1 / 2 if name == "grpo" else 1 / 4
    slopes = [-advantage * weight for weight in (stay, 0, stay, last)]
    if name in ("ipo", "dppo_kl") and math.isfinite(ours - theirs):
        slopes[1] = 2e-3 * (ours - theirs) / 4
    if name == "raft" and advantage < 0:
        assert (logprobs.grad.tolist(), seen["masked"]) == ([0, 0, 0, 0], 4)
        return
    assert logprobs.grad.tolist() == pytest.approx(slopes)
    assert seen["masked"] == (3 if name == "aipo" else 1)
    assert seen["ratio"] == (1 if name == "aipo" else 3)
    assert seen.get("masked_rollout", 3) == 3


@every_loss
@pytest.mark.parametrize("ours", [-3.0, -0.5])
def test_a_probability_of_zero_is_dropped(name: str, ours: float) -> None:
    """The other way round: the trainer has no probability left for what was sampled."""
    logprobs = torch.tensor([-torch.inf], requires_grad=True)
    known, one = torch.tensor([ours]), torch.zeros(1, dtype=torch.long)
    loss, seen = LOSSES[name](LossInput(logprobs, known, torch.ones(1), one, 1, Totals(1, 1)))
    loss.backward()
    assert (loss.item(), logprobs.grad.tolist()) == (0, [0])
    assert (seen["masked"], seen["ratio"], seen["gap"]) == (1, 0, 0)


@every_loss
def test_rows_add_up(name: str) -> None:
    torch.manual_seed(0)
    lengths = [5, 0, 3, 8, 1]
    sequences = torch.arange(5).repeat_interleave(torch.tensor(lengths))
    n = len(sequences)
    logprobs, advantages = -3 * torch.rand(n).double(), torch.randn(5).double()[sequences]
    known = logprobs + torch.randn(n).double()
    total = Totals(n, 4)
    whole, seen = LOSSES[name](LossInput(logprobs, known, advantages, sequences, 5, total))
    assert 0 < seen["masked"] < n
    parts = []
    for first, stop in ((0, 1), (1, 2), (2, 3), (3, 5)):  # the second has no token
        own = (sequences >= first) & (sequences < stop)
        columns = logprobs[own], known[own], advantages[own], sequences[own] - first
        parts.append(LOSSES[name](LossInput(*columns, stop - first, total)))
    assert sum(float(part) for part, _ in parts) == pytest.approx(float(whole))
    for figure, value in seen.items():
        add = max if figure.endswith("_max") else sum
        assert add(part[figure] for _, part in parts) == pytest.approx(value), figure
    if name == "aipo":
        reasons = [value for figure, value in seen.items() if figure.startswith("masked_")]
        assert (len(reasons), sum(reasons)) == (3, seen["masked"])


@every_loss
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_long_rollouts_in_any_precision(name: str, dtype: torch.dtype) -> None:
    """16 bits cannot count to 5000 in ones."""
    n = 5000
    known = torch.full((n,), -1.0, dtype=dtype)
    logprobs = known.clone().requires_grad_()
    zeros = torch.zeros(n, dtype=torch.long)
    loss, seen = LOSSES[name](
        LossInput(logprobs, known, torch.ones_like(known), zeros, 1, Totals(n, 1))
    )
    loss.backward()
    assert loss.item() == pytest.approx(-1 if name in ("grpo", "dr_grpo") else 1, rel=1e-5)
    assert logprobs.grad.tolist() == pytest.approx([-1 / n] * n, rel=1e-2)
    assert (seen["masked"], seen["ratio"], seen["ratio_deviation"]) == (0, n, 0)
