from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from tiny import ARCHITECTURES, tiny_model
from torch import Tensor

from learners.backends.local import LocalBackend
from learners.batching import Batch, Sample, pack
from learners.losses import aipo
from learners.policy import Policy

RESPONSES = [[7, 8, 9, 5], [1, 2], [11, 3, 5]]
ADVANTAGES = [2.0, -1.5, -0.5]


def make(architecture: str = "qwen3", seed: int = 0, rate: float = 1e-3) -> LocalBackend:
    return LocalBackend(Policy(tiny_model(architecture, seed), 1.0, "float32"), rate, 0.01, 1.0)


def policy_of(backend: LocalBackend) -> Policy:
    return backend._policy


def rows(policy: Policy, limit: int = 1000) -> list[Batch]:
    """A group with the policy's own log-probabilities."""

    def batches(known: list[list[float]], limit: int) -> list[Batch]:
        each = zip(RESPONSES, known, ADVANTAGES, strict=True)
        return pack([Sample(0, [4, 6], r, [True] * len(r), k, a) for r, k, a in each], limit)

    with torch.no_grad():
        found = iter(policy(batches([[0.0] * len(r) for r in RESPONSES], 1000)[0])[0].tolist())
    return batches([[next(found) for _ in r] for r in RESPONSES], limit)


def weights(backend: LocalBackend) -> list[Tensor]:
    return [one.detach().clone() for one in policy_of(backend).parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(map(torch.equal, one, other))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_step_makes_what_was_good_likelier(architecture: str) -> None:
    backend = make(architecture)
    batches = rows(policy_of(backend))
    seen = backend.train_step(batches, aipo)
    moved = policy_of(backend)(batches[0])[0].detach() - batches[0].logprobs
    for rollout, advantage in enumerate(ADVANTAGES):
        own = moved[batches[0].sequences == rollout].sum()
        assert float(own) * advantage > 0
    assert seen["ratio"] == pytest.approx(1, abs=1e-5)
    assert seen["gap"] == pytest.approx(0, abs=1e-5)
    assert seen["masked"] == 0
    assert 0 < seen["entropy"] < 4.2
    assert seen["gradient_norm"] > 0


def gradient(backend: LocalBackend, folder: Path) -> Tensor:
    """The clipped gradient of the first step: AdamW's first moment is a tenth of it."""
    backend.save(folder)
    state = torch.load(folder / "optimizer.pt")["state"].values()
    return 10 * torch.cat([one["exp_avg"].flatten() for one in state])


def test_rows_make_one_step(tmp_path: Path) -> None:
    """However a batch is cut into rows, it is the same step."""
    whole, cut = make(), make()
    batches = rows(policy_of(whole), 1000), rows(policy_of(whole), 7)
    assert (len(batches[0]), len(batches[1])) == (1, 2)
    one, other = whole.train_step(batches[0], aipo), cut.train_step(batches[1], aipo)
    assert one == pytest.approx(other, abs=1e-5)
    ours, theirs = gradient(whole, tmp_path), gradient(cut, tmp_path)
    assert (ours - theirs).norm() < 1e-5 * theirs.norm()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_loaded_backend_goes_on_bit_by_bit(architecture: str, tmp_path: Path) -> None:
    backend = make(architecture)
    batches = rows(policy_of(backend))
    backend.train_step(batches, aipo)
    backend.save(tmp_path)
    saved = weights(backend)
    first = backend.train_step(batches, aipo)
    other = make(architecture, seed=1)
    assert not same(weights(other), saved)
    other.load(tmp_path)
    assert same(weights(other), saved)
    assert other.train_step(batches, aipo) == first
    assert same(weights(other), weights(backend))


def exploding(
    logprobs: Tensor,
    known: Tensor,
    advantages: Tensor,
    sequences: Tensor,
    rollouts: int,
    total: int,
) -> tuple[Tensor, Mapping[str, float]]:
    return torch.inf * logprobs.sum(), {}


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    backend, calm = make(), make()
    batches = rows(policy_of(backend))
    before = weights(backend)
    with pytest.raises(FloatingPointError, match=r"the gradient norm is (nan|inf)"):
        backend.train_step(batches, exploding)
    assert same(weights(backend), before)
    # nor does it leave anything behind
    assert backend.train_step(batches, aipo) == calm.train_step(batches, aipo)
    assert same(weights(backend), weights(calm))


def test_a_batch_without_sampled_tokens_is_refused() -> None:
    backend = make()
    silent = pack([Sample(0, [4], [2], [False], [0.0], 1.0)], 100)
    for batches in (silent, []):
        with pytest.raises(ValueError, match="without sampled tokens"):
            backend.train_step(batches, aipo)
    batches = rows(policy_of(backend))
    alone = make().train_step(batches, aipo)
    assert backend.train_step([*silent, *batches], aipo) == alone


def test_the_gradient_is_clipped(tmp_path: Path) -> None:
    told, kept = [], []
    for limit in (1e9, 1e-3):
        backend = LocalBackend(Policy(tiny_model("qwen3"), 1.0, "float32"), 1e-3, 0.0, limit)
        told.append(backend.train_step(rows(policy_of(backend)), aipo)["gradient_norm"])
        kept.append(float(gradient(backend, tmp_path).norm()))
    assert told[0] == told[1] > 0.01, "the norm before clipping is told"
    assert kept == pytest.approx([told[0], 1e-3], rel=1e-3)
