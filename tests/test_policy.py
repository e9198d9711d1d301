from random import Random

import pytest
import torch
from tiny import ARCHITECTURES, VOCABULARY, make_sample, plain_logprobs, tiny_model, tiny_policy
from torch import nn
from torch._dynamo.utils import counters
from transformers.models.qwen3 import modeling_qwen3

from learners.config import ConfigError
from learners.training import head
from learners.training.head import ChunkedHead
from learners.training.policy import Policy
from learners.training.rows import PackedRow, pack

PROMPT = [3, 1, 4]
TEMPERATURE = 0.7


def response(n: int) -> list[int]:
    return Random(n).choices(range(VOCABULARY), k=n)


def row(*lengths: int) -> PackedRow:
    return pack([make_sample(0, PROMPT, response(n)) for n in lengths], 1000)[0]


def gradient(policy: Policy, batch: PackedRow) -> torch.Tensor:
    policy.zero_grad()
    logprobs, _ = policy(batch)
    (logprobs * torch.linspace(-1, 1, len(logprobs))).sum().backward()
    found = [one.grad.flatten() for one in policy.parameters() if one.grad is not None]
    return torch.cat(found)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_chunks_change_nothing(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, _ = tiny_policy(architecture)
    batch = row(7, 3, 4)
    whole, whole_gradient = policy(batch), gradient(policy, batch)
    monkeypatch.setattr(head, "CHUNK", 3)
    parts, parts_gradient = policy(batch), gradient(policy, batch)
    for one, other in zip(whole, parts, strict=True):
        assert one.shape == (14,)
        torch.testing.assert_close(one, other, atol=5e-6, rtol=0)
    assert (whole_gradient - parts_gradient).norm() <= 1e-6 * whole_gradient.norm()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_logprobs_and_entropies_are_those_at_the_temperature(temperature: float) -> None:
    policy, plain = tiny_policy("qwen3", temperature)
    ids = response(5)
    logprobs, entropies = policy(row(5))
    every = plain_logprobs(plain, PROMPT + ids, temperature)[len(PROMPT) - 1 : -1]
    torch.testing.assert_close(logprobs, every[torch.arange(5), ids], atol=1e-5, rtol=0)
    wanted = torch.distributions.Categorical(logits=every).entropy()
    torch.testing.assert_close(entropies, wanted, atol=1e-5, rtol=0)
    assert not entropies.requires_grad


@pytest.fixture
def rotary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore afterwards what is compiled for the whole process."""
    plain = modeling_qwen3.apply_rotary_pos_emb
    monkeypatch.setattr(modeling_qwen3, "apply_rotary_pos_emb", plain)


@pytest.mark.slow
@pytest.mark.usefixtures("rotary")
def test_a_compiled_policy_gives_the_same_for_rows_of_any_length() -> None:
    rows = [row(5), row(7, 3), row(2, 1, 9)]
    plain = tiny_policy("qwen3")[0].train()
    wanted = [(*plain(one), gradient(plain, one)) for one in rows]
    compiled = Policy(tiny_model("qwen3"), 1.0, "float32", checkpointing=True, compiled=True)
    counters.clear()
    # 8-bit AdamW on a CPU, in other tests, switches compilation off
    with torch.compiler.set_stance("default"):
        for one, expected in zip(rows, wanted, strict=True):
            logprobs, entropies = compiled.train()(one)
            torch.testing.assert_close(logprobs, expected[0], atol=5e-6, rtol=0)
            torch.testing.assert_close(entropies, expected[1], atol=5e-6, rtol=0)
            ours = gradient(compiled, one)
            assert (ours - expected[2]).norm() <= 1e-5 * expected[2].norm()
            # norms of two widths, the MLP and rotary embeddings, once for all layers and rows
            assert counters["stats"]["unique_graphs"] == 4


def test_gradients_of_halves_are_summed_in_single(monkeypatch: pytest.MonkeyPatch) -> None:
    """As FSDP2 calls the head: a sum over many chunks in bf16 would lose the small ones."""
    monkeypatch.setattr(head, "CHUNK", 1)
    torch.manual_seed(0)
    hidden, weight = torch.randn(500, 16).bfloat16(), torch.randn(31, 16).bfloat16()
    targets = torch.randint(0, 31, (500,))
    found = []
    for dtype in (torch.bfloat16, torch.float64):
        linear = nn.Linear(16, 31, bias=False, dtype=dtype)
        linear.weight.data.copy_(weight)
        logprobs, _ = ChunkedHead(linear)(hidden.to(dtype), targets)
        logprobs.sum().backward()
        found.append((logprobs.detach().double(), linear.weight.grad.double()))
    (logprobs, gradient), (wanted, exact) = found
    torch.testing.assert_close(logprobs, wanted, atol=1e-5, rtol=0)
    # one rounding to bf16, which is up to 1 / 256
    assert ((gradient - exact).abs() <= exact.abs() / 256 + 1e-4).all()


@pytest.mark.parametrize("precision", ["float64", "bfloat16"])
def test_a_frozen_head_gives_the_gradient_of_a_trained_one(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for tokens that are almost certain, whose gradient is a small difference."""
    monkeypatch.setattr(head, "CHUNK", 4)
    torch.manual_seed(0)
    targets = torch.randint(0, 31, (10,))
    weight = torch.randn(31, 16, dtype=torch.float64)
    sure = weight[targets[:5]] / 2  # probabilities near 1
    states = torch.cat([sure, torch.randn(5, 16, dtype=torch.float64)])
    slopes = torch.linspace(-1, 2, 10, dtype=torch.float64)
    half = precision == "bfloat16"
    found = []
    for frozen in (False, True):
        dtype = torch.float32 if half and frozen else torch.float64
        linear = nn.Linear(16, 31, bias=False, dtype=dtype).requires_grad_(not frozen)
        linear.weight.data.copy_(weight)
        hidden = states.to(dtype, copy=True).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=half and frozen):
            logprobs, _ = ChunkedHead(linear)(hidden, targets, TEMPERATURE)
        (logprobs * slopes).sum().backward()
        assert hidden.grad is not None
        found.append(hidden.grad.double())
    ours, wanted = found[1], found[0]
    limit = 0.02 if half else 1e-12
    assert ((ours - wanted).norm(dim=1) <= limit * wanted.norm(dim=1)).all()


@pytest.mark.parametrize("frozen", [False, True])
def test_divergences_are_those_of_the_whole_distributions(
    frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And their gradients do not reach the weight by the hidden states after a hint."""
    monkeypatch.setattr(head, "CHUNK", 8)  # two pairs at a time
    torch.manual_seed(0)
    linear = nn.Linear(16, 31, bias=False, dtype=torch.float64).requires_grad_(not frozen)
    hidden = torch.randn(9, 16, dtype=torch.float64, requires_grad=True)
    targets, marked = torch.tensor([3, 1, 4, 1, 5, 9]), torch.tensor([4, 0, 5])
    slopes = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)

    every = (hidden @ linear.weight.T / TEMPERATURE).log_softmax(1)
    one, other = every[marked], every[6:].detach()
    wanted = (other.exp() * (other - one)).sum(1)
    parts = hidden, *[linear.weight] * (not frozen)
    wanted_slopes = torch.autograd.grad((wanted * slopes).sum(), parts, retain_graph=True)

    found = ChunkedHead(linear)(hidden[:6], targets, TEMPERATURE, marked, hidden[6:].detach())
    assert [len(column) for column in found] == [9, 6, 3]
    logprobs, divergences = found[0].split([6, 3])
    pairs = [
        (logprobs, every[torch.arange(6), targets]),
        (found[2], other[torch.arange(3), targets[marked]]),
        (divergences, wanted),
        *zip(torch.autograd.grad((divergences * slopes).sum(), parts), wanted_slopes, strict=True),
    ]
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
    assert not found[2].requires_grad


def test_a_head_with_a_bias_is_refused() -> None:
    with pytest.raises(ConfigError, match="without a bias"):
        ChunkedHead(nn.Linear(2, 3))
