from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import make_sample, plain_logprobs, tiny_model, tiny_policy
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.library import Library
from torch.nn.attention import register_flash_attention_impl
from transformers import PreTrainedModel
from trees import nodes_of, rollouts, trees, visible

from learners.aipo import aipo_loss
from learners.losses import LossInput, Totals
from learners.training import lora
from learners.training import packed_attention as packed
from learners.training.packed_attention import Node, packed_attention
from learners.training.policy import Policy
from learners.training.rows import Sample, pack

TEMPERATURE = 0.8
# for CPUs and for CUDA
BLOCKS = [partial(packed._in_blocks, cuda=cuda) for cuda in (False, True)]


def policies(architecture: str, dtype: torch.dtype, variant: str) -> tuple[Policy, PreTrainedModel]:
    """A policy, and the same model with PyTorch's attention on whole sequences."""
    model = tiny_model(architecture)
    if variant == "adapters":
        lora.inject(model, 4, 8)
        for name, weight in model.named_parameters():
            if ".lora_B." in name:  # zero at first, so that A has no gradient
                nn.init.normal_(weight, std=0.1)
    model.to(dtype)
    plain = deepcopy(model)
    plain.set_attn_implementation("sdpa")
    policy = Policy(model, TEMPERATURE, "float32", checkpointing=variant == "checkpointing")
    for norm in (*model.modules(), *plain.modules()):
        if type(norm).__name__.endswith("RMSNorm"):  # those of transformers round to single
            weight, epsilon = norm.weight, norm.variance_epsilon
            norm.forward = partial(
                nn.functional.rms_norm,
                normalized_shape=tuple(weight.shape),
                weight=weight,
                eps=epsilon,
            )
    return policy.train(), plain


def apart(plain: PreTrainedModel, one: Sample) -> Tensor:
    """Log-probabilities of a rollout's sampled tokens, computed as a sequence of its own."""
    every = plain_logprobs(plain, one.prompt + one.response, TEMPERATURE)
    (own,) = torch.where(torch.tensor(one.sampled, dtype=torch.bool))
    return every[len(one.prompt) - 1 + own, torch.tensor(one.response, dtype=torch.long)[own]]


def gradients(model: PreTrainedModel, value: Tensor) -> Tensor:
    model.zero_grad()
    value.backward()
    return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


def near(samples: list[Sample], plain: PreTrainedModel) -> list[Sample]:
    """The rollouts as if sampled by nearly this model, so that no token is masked."""
    with torch.no_grad():
        found = [apart(plain, one).tolist() for one in samples]
    return [
        replace(
            one,
            logprobs=[
                next(known) - 0.1 * (place % 3) if own else 0.0
                for place, own in enumerate(one.sampled)
            ],
        )
        for one, known in zip(samples, map(iter, found), strict=True)
    ]


@pytest.mark.parametrize(
    ("architecture", "dtype", "variant"),
    [
        ("qwen3", torch.float64, "plain"),
        ("llama", torch.float64, "adapters"),
        ("qwen3", torch.float32, "checkpointing"),
    ],
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples=rollouts(1))
def test_a_packed_row_equals_separate_rollouts(
    architecture: str, dtype: torch.dtype, variant: str, samples: list[Sample]
) -> None:
    """Log-probabilities, loss and gradient, with advantages that differ on shared tokens."""
    policy, plain = policies(architecture, dtype, variant)
    samples = near(samples, plain)
    tokens = sum(sum(one.sampled) for one in samples)
    if not tokens:
        return
    total = Totals(tokens, len(samples))
    (row,) = pack(samples, 1000)
    packed = policy(row)[0][: len(row.targets)]
    columns = row.logprobs, row.advantages, row.sequences, row.rollouts
    loss, _ = aipo_loss(LossInput(packed, *columns, total))

    wanted: dict[float, Tensor] = {}
    wanted_loss = torch.zeros(())
    for one in samples:
        found = apart(plain, one)
        own = torch.tensor(one.sampled, dtype=torch.bool)
        known, advantages = (torch.tensor(column)[own] for column in (one.logprobs, one.advantages))
        wanted |= zip(advantages.tolist(), found, strict=True)
        sequence = torch.zeros(len(found), dtype=torch.long)
        wanted_loss = (
            wanted_loss + aipo_loss(LossInput(found, known, advantages, sequence, 1, total))[0]
        )
    pairs = [
        (packed, torch.stack([wanted[advantage] for advantage in row.advantages.tolist()])),
        (loss[None], wanted_loss[None]),
        (gradients(policy.model, loss), gradients(plain, wanted_loss)),
    ]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype == dtype
        if dtype == torch.float64:
            torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)
        else:
            assert (ours - theirs).norm() <= 1e-5 * theirs.norm()


def test_a_mask_is_refused() -> None:
    policy, _ = tiny_policy("qwen3")
    batch = pack([make_sample(0, [1, 2, 3], [4, 5])], 9)[0]
    ids, positions, nodes = batch.tokens[None], batch.positions[None], batch.nodes
    n = ids.shape[1]
    causal = torch.zeros(1, 1, n, n).masked_fill(torch.ones(n, n).triu(1) > 0, -torch.inf)
    with pytest.raises(ValueError, match="no attention mask"):
        policy.hidden(ids, positions, nodes=nodes, attention_mask=causal)
    for layout in ({}, {"nodes": nodes, "slot_mask": causal == 0}):
        with pytest.raises(ValueError, match="either nodes or slot_mask"):
            policy.hidden(ids, positions, **layout)


class PlainFlash:
    """The contract of CUDA's flash kernel: segments, grouped queries, and a given log-sum-exp."""

    @staticmethod
    def segments(
        q: Tensor, k: Tensor, queries: Tensor, keys: Tensor, max_q: int, max_k: int
    ) -> list[tuple[slice, slice]]:
        assert queries.dtype == keys.dtype == torch.int32
        assert (len(q), len(k)) == (queries[-1], keys[-1])
        assert queries.diff().min() > 0
        # with one query and grouped heads, the kernel would return sums in another order
        assert max_q == max(2, *queries.diff().tolist())
        assert max_k == max(keys.diff())
        assert q.stride(-1) == k.stride(-1) == 1
        places = ([slice(*pair) for pair in pairwise(one.tolist())] for one in (queries, keys))
        return list(zip(*places, strict=True))

    @staticmethod
    def scores(q: Tensor, k: Tensor, causal: bool, scale: float | None) -> Tensor:
        scores = torch.einsum("qhd,khd->hqk", q, k) * (
            q.shape[2] ** -0.5 if scale is None else scale
        )
        hidden = torch.ones(len(q), len(k)).triu(1 + len(k) - len(q)) > 0
        return scores.masked_fill(hidden, -torch.inf) if causal else scores

    @classmethod
    def forward(
        cls, q: Tensor, k: Tensor, v: Tensor, *settings: Any, scale: float | None
    ) -> tuple[Tensor, Tensor]:
        *bounds, dropout, causal, debug = settings
        assert (dropout, debug) == (0, False)
        group = q.shape[1] // k.shape[1]
        outs, sums = [], []
        for rows, columns in cls.segments(q, k, *bounds):
            keys, values = (one[columns].repeat_interleave(group, 1) for one in (k, v))
            scores = cls.scores(q[rows], keys, causal, scale)
            outs.append(torch.einsum("hqk,khd->qhd", scores.softmax(2), values))
            sums.append(scores.logsumexp(2))
        return torch.cat(outs), torch.cat(sums, 1)

    @classmethod
    def backward(
        cls,
        grad: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        sums: Tensor,
        *settings: Any,
        scale: float | None,
    ) -> list[Tensor]:
        *bounds, dropout, causal, _, _ = settings
        assert dropout == 0
        assert sums.is_contiguous()
        dtype = q.dtype
        # the kernel's sums are in fp32 for half precision, too
        grad, q, k, v, out = (one.to(sums.dtype) for one in (grad, q, k, v, out))
        heads, size = k.shape[1:]
        factor = size**-0.5 if scale is None else scale
        grads = [torch.zeros_like(one) for one in (q, k, v)]
        for rows, columns in cls.segments(q, k, *bounds):
            keys, values = (
                one[columns].repeat_interleave(q.shape[1] // heads, 1) for one in (k, v)
            )
            weights = (cls.scores(q[rows], keys, causal, scale) - sums[:, rows, None]).exp()
            errors = torch.einsum("qhd,khd->hqk", grad[rows], values)
            slope = weights * (errors - (grad[rows] * out[rows]).sum(2).T[..., None]) * factor
            grads[0][rows] += torch.einsum("hqk,khd->qhd", slope, keys)
            for total, part in (
                (grads[1], torch.einsum("hqk,qhd->khd", slope, q[rows])),
                (grads[2], torch.einsum("hqk,qhd->khd", weights, grad[rows])),
            ):
                total[columns] += part.unflatten(1, (heads, -1)).sum(2)
        return [one.to(dtype) for one in grads]


def states(nodes: tuple[Node, ...], heads: int, key_heads: int) -> list[Tensor]:
    """Random queries, keys and values for a row, laid out in memory as a model's are."""
    tokens = nodes[-1].stop
    torch.manual_seed(tokens)
    return [
        torch.randn(1, tokens, n, 8, dtype=torch.float64).transpose(1, 2).requires_grad_()
        for n in (heads, key_heads, key_heads)
    ]


def masked(
    query: Tensor, key: Tensor, value: Tensor, scaling: float | None, nodes: tuple[Node, ...]
) -> Tensor:
    """Attention as one dense product under a mask."""
    key, value = (packed.repeat_heads(states, query.shape[1]) for states in (key, value))
    scores = query @ key.transpose(2, 3) * (scaling or query.shape[3] ** -0.5)
    return scores.masked_fill(~visible(nodes), -torch.inf).softmax(3) @ value


@settings(max_examples=25, deadline=None)
@given(
    nodes=trees(),
    heads=st.sampled_from([(4, 2), (4, 1), (2, 2)]),
    scaling=st.sampled_from([None, 0.3]),
)
def test_all_ways_give_the_same(
    nodes: tuple[Node, ...], heads: tuple[int, int], scaling: float | None
) -> None:
    """CUDA's kernel needs a GPU: a plain reading of its source stands in for it here."""

    def attend(way: Callable[..., Tensor]) -> list[Tensor]:
        inputs = states(nodes, *heads)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packed, "_implementation", lambda value: way)
            patch.setattr(packed, "_flash", PlainFlash.forward)
            patch.setattr(packed, "_flash_backward", PlainFlash.backward)
            out = packed_attention(*inputs, scaling, nodes)
            weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
            return [out, *torch.autograd.grad((weights * out).sum(), inputs)]

    wanted = attend(masked)
    for way in (packed._in_a_loop, *BLOCKS):
        torch.testing.assert_close(attend(way), wanted, atol=1e-10, rtol=0)


class Registered:
    """Kernels for both flash operators, registered as packages such as FlashAttention 3 do."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.library: Library | None = Library("aten", "IMPL", "CPU")
        self.library.impl("_flash_attention_forward", self.forward)
        self.library.impl("_flash_attention_backward", self.backward)

    def remove(self) -> None:
        self.library = None

    def forward(self, *tensors: Any, scale: float | None = None) -> tuple[Tensor, ...]:
        self.calls.append("forward")
        unused = tensors[0].new_empty(0)
        return *PlainFlash.forward(*tensors, scale=scale), unused, unused, unused

    def backward(self, *tensors: Any, scale: float | None = None) -> tuple[Tensor, ...]:
        self.calls.append("backward")
        return tuple(PlainFlash.backward(*tensors, scale=scale))


def test_registered_kernels_are_used_while_they_are_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    from gpu_checks import flash

    nodes, made = nodes_of([(0, 9), (1, 5), (2, 4), (1, 6)]), list[Registered]()
    register_flash_attention_impl("plain", register_fn=lambda: made.append(Registered()) or made[0])
    monkeypatch.setattr(packed, "_implementation", lambda value: BLOCKS[1])
    inputs = states(nodes, 4, 2)
    with flash("plain"):
        out = packed_attention(*inputs, None, nodes)
        found = [out, *torch.autograd.grad(out.sum(), inputs)]
    wanted = masked(*inputs, None, nodes)
    wanted = [wanted, *torch.autograd.grad(wanted.sum(), inputs)]
    torch.testing.assert_close(found, wanted, atol=1e-10, rtol=0)
    assert set(made[0].calls) == {"forward", "backward"}
    with pytest.raises(NotImplementedError):
        packed_attention(*inputs, None, nodes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("way", BLOCKS, ids=["cpu", "cuda"])
def test_blocks_are_as_near_as_their_precision_allows(
    way: Callable[..., Tensor], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "_implementation", lambda value: way)
    monkeypatch.setattr(packed, "_flash", PlainFlash.forward)
    monkeypatch.setattr(packed, "_flash_backward", PlainFlash.backward)
    # two nodes at one depth have descendants, so that a block has places instead of slices
    nodes = nodes_of([(0, 40), (1, 35), (2, 1), (2, 20), (1, 55), (2, 30)])
    exact = [one.detach() for one in states(nodes, 4, 2)]
    near = [one.to(dtype).requires_grad_() for one in exact]
    out = packed_attention(*near, None, nodes)
    assert out.dtype == dtype
    out.sum().backward()
    wanted = packed._in_a_loop(*(one.requires_grad_() for one in exact), None, nodes)
    wanted.sum().backward()
    limit = {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    pairs = [(out, wanted), *((a.grad, b.grad) for a, b in zip(near, exact, strict=True))]
    for ours, theirs in pairs:
        assert (ours.double() - theirs).norm() < limit * theirs.norm()


def test_the_kernel_takes_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arguments and shapes, on tensors without data and in the dtypes of autocast."""
    monkeypatch.setattr(packed, "_implementation", lambda value: BLOCKS[1])
    nodes = nodes_of([(0, 3), (1, 2), (2, 1), (1, 3)])
    dtypes = (torch.float32, torch.float32, torch.bfloat16)
    inputs = [
        torch.empty(1, n, 9, 16, dtype=dtype, device="meta", requires_grad=True)
        for n, dtype in zip((4, 2, 2), dtypes, strict=True)
    ]
    out = packed_attention(*inputs, None, nodes)
    assert (out.shape, out.dtype) == ((1, 4, 9, 16), torch.bfloat16)
    out.sum().backward()
    assert [(one.grad.shape, one.grad.dtype) for one in inputs] == [
        (one.shape, one.dtype) for one in inputs
    ]


@pytest.mark.parametrize(
    ("device", "dtype", "size", "cuda"),
    [
        ("cuda", torch.bfloat16, 128, True),
        ("cuda", torch.float16, 64, True),
        ("cuda", torch.float32, 64, None),  # a loop
        ("cuda", torch.bfloat16, 20, None),
        ("cuda", torch.bfloat16, 512, None),
        ("cpu", torch.bfloat16, 64, False),
    ],
)
def test_the_way_follows_device_and_dtype(
    device: str, dtype: torch.dtype, size: int, cuda: bool | None
) -> None:
    with FakeTensorMode():
        way = packed._implementation(torch.empty(1, 2, 5, size, dtype=dtype, device=device))
    assert getattr(way, "keywords", {}).get("cuda") is cuda
