from itertools import groupby

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import ARCHITECTURES, VOCABULARY, plain_logprobs, tiny_policy
from torch import Tensor
from transformers import PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from learners.attention import NAME, _seen
from learners.batching import Batch, Sample, pack

TEMPERATURE = 0.8
tokens = st.integers(0, VOCABULARY - 1)


@st.composite
def groups(draw: st.DrawFn) -> list[Sample]:
    """Up to three groups of up to four rollouts, some of them empty; each token is a target."""
    samples = []
    for group in range(draw(st.integers(1, 3))):
        prompt = draw(st.lists(tokens, min_size=1, max_size=6))
        for response in draw(st.lists(st.lists(tokens, max_size=5), min_size=1, max_size=4)):
            n = len(response)
            samples.append(Sample(group, prompt, response, [True] * n, [0.0] * n, 1.0))
    return samples


def apart(plain: PreTrainedModel, samples: list[Sample]) -> Tensor:
    """Log-probabilities of the response tokens, each rollout a sequence of its own."""
    found = [torch.zeros(0)]
    for one in samples:
        every = plain_logprobs(plain, one.prompt + one.response, TEMPERATURE)
        first = len(one.prompt) - 1
        found.append(every[torch.arange(first, first + len(one.response)), one.response])
    return torch.cat(found)


def gradients(model: PreTrainedModel, value: Tensor) -> Tensor:
    model.zero_grad()
    value.backward()
    return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples=groups())
def test_a_packed_row_is_its_rollouts_apart(architecture: str, samples: list[Sample]) -> None:
    if not any(one.response for one in samples):
        return
    policy, plain = tiny_policy(architecture, TEMPERATURE)
    (row,) = pack(samples, 1000)
    packed, _ = policy(row)
    # groups come into the row by size; the rollouts of each keep their order
    whole = [list(members) for _, members in groupby(samples, key=lambda one: one.group)]
    whole.sort(key=lambda g: len(g[0].prompt) + sum(len(m.response) for m in g), reverse=True)
    wanted = apart(plain, [one for members in whole for one in members])
    torch.testing.assert_close(packed, wanted, atol=1e-5, rtol=0)
    weights = torch.linspace(-1, 1, len(wanted))
    ours = gradients(policy.model, (weights * packed).sum())
    theirs = gradients(plain, (weights * wanted).sum())
    assert (ours - theirs).norm() <= 1e-5 * theirs.norm()


def row() -> Batch:
    """Two groups of two rollouts."""
    samples = [
        Sample(group, [group + 1, 2, 3], [n, 7, group], [True] * 3, [0.0] * 3, 1.0)
        for group in range(2)
        for n in range(2)
    ]
    return pack(samples, 1000)[0]


def test_a_rollout_sees_neither_its_siblings_nor_other_groups() -> None:
    policy, _ = tiny_policy("qwen3")
    batch = row()
    before = policy(batch)[0]
    first, stop = batch.spans[0].responses[0]
    batch.tokens[first : stop - 1] += 20  # all but the last: it predicts nothing
    changed = (policy(batch)[0] != before).tolist()
    assert changed == [False, True, True] + [False] * 9


def test_masks_of_inference_serve_training_too() -> None:
    policy, _ = tiny_policy("qwen3")
    _seen.cache_clear()
    with torch.inference_mode():
        before = policy(row())[0]
    after = policy(row())[0]
    after.sum().backward()
    assert torch.equal(before, after)


def test_transformers_builds_no_mask_for_it() -> None:
    """With a mask function, position resets would be read as packing and hide the prompts."""
    assert NAME not in ALL_MASK_ATTENTION_FUNCTIONS


def test_a_mask_is_refused() -> None:
    policy, _ = tiny_policy("qwen3")
    batch = row()
    ids, positions, spans = batch.tokens[None], batch.positions[None], batch.spans
    n = ids.shape[1]
    causal = torch.zeros(1, 1, n, n).masked_fill(torch.ones(n, n).triu(1) > 0, -torch.inf)
    with pytest.raises(ValueError, match="no attention mask"):
        policy.hidden(ids, positions, spans=spans, attention_mask=causal)
    for layout in ({}, {"spans": spans, "slot_mask": causal == 0}):
        with pytest.raises(ValueError, match="either spans or slot_mask"):
            policy.hidden(ids, positions, **layout)


@pytest.mark.parametrize("use_cache", [False, True])
def test_a_cache_does_not_switch_packing_off(use_cache: bool) -> None:
    batch = row()
    policy, _ = tiny_policy("qwen3", TEMPERATURE)
    hidden = policy.hidden(
        batch.tokens[None], batch.positions[None], spans=batch.spans, use_cache=use_cache
    )
    found = policy.logprobs(hidden[0, batch.predicts])[torch.arange(12), batch.targets]
    torch.testing.assert_close(found, policy(batch)[0])


def test_the_trap_that_this_attention_avoids() -> None:
    """Own packing of transformers is silently off with a cache or a mask of ones."""
    _, plain = tiny_policy("qwen3")
    one, two = [1, 2, 3], [4, 5, 6, 7]
    ids = torch.tensor([one + two])
    positions = torch.tensor([[*range(3), *range(4)]])
    with torch.no_grad():
        wanted = plain_logprobs(plain, two, 1.0)

        def second(**options: object) -> Tensor:
            logits = plain(input_ids=ids, position_ids=positions, **options).logits
            return torch.log_softmax(logits[0, 3:], -1)

        torch.testing.assert_close(second(use_cache=False), wanted, atol=1e-5, rtol=0)
        ones = torch.ones_like(ids)
        for options in ({"use_cache": True}, {"use_cache": False, "attention_mask": ones}):
            assert (second(**options) - wanted).abs().max() > 0.01
