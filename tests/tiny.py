"""Small models and a tokenizer for tests, and log-probabilities of an ordinary forward pass."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from learners.nano.model import make_tokenizer
from learners.training.policy import Policy
from learners.training.rows import Sample, pack

ARCHITECTURES = ("qwen3", "llama")
VOCABULARY = 61
TEXTS = (
    'Revise the resume. {"name": "str_replace", "arguments": {"old": "Helped", "new": "Built"}}',
    "error (not_found): `old` is not in the resume\nturns left: 7/10 | edits: 3",
    "- Helped build a booking pipeline for 12 harbours, 语言 and café menus",
)


def tiny_model(architecture: str, seed: int = 0) -> PreTrainedModel:
    """A random two-layer model in fp32, whose distributions are far from uniform."""
    torch.manual_seed(seed)
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "initializer_range": 0.2,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    if architecture == "wide":
        sizes |= {"hidden_size": 128, "intermediate_size": 128}
    if architecture == "llama":
        return LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=False)).eval()
    # with a head size that is not width / heads
    return Qwen3ForCausalLM(Qwen3Config(**sizes, head_dim=16, tie_word_embeddings=True)).eval()


def tiny_policy(architecture: str, temperature: float = 1.0) -> tuple[Policy, PreTrainedModel]:
    """A policy, and the same model with the eager attention of transformers."""
    model = tiny_model(architecture)
    plain = deepcopy(model)
    plain.set_attn_implementation("eager")
    return Policy(model, temperature, "float32"), plain


def save_tiny(architecture: str, folder: Path, seed: int = 0) -> Path:
    """Save the tiny model in Hugging Face's format, in several files as for large models."""
    tiny_model(architecture, seed).save_pretrained(folder, max_shard_size="20KB")
    assert (folder / "model.safetensors.index.json").is_file()
    return folder


def make_sample(
    group: int,
    prompt: Sequence[int],
    response: Sequence[int],
    advantage: float = 1.0,
    *,
    sampled: Sequence[bool] | None = None,
    logprobs: Sequence[float] | None = None,
) -> Sample:
    """A rollout with one advantage; all tokens of the response are sampled unless told otherwise.

    The sampler's log-probabilities are 0 by default.
    """
    n = len(response)
    own = [True] * n if sampled is None else list(sampled)
    known = [0.0] * n if logprobs is None else list(logprobs)
    return Sample(group, list(prompt), list(response), own, known, [advantage] * n)


def tiny_group(policy: Policy) -> list[Sample]:
    """Two groups of rollouts of different lengths, with the policy's log-probabilities.

    Rollouts of opposite advantages begin with the same tokens.
    """
    shapes = {(4, 6): [[7, 8, 9, 5], [7, 8, 2], [11, 3, 5]], (9,): [[3, 2], [40, 41, 42, 43, 44]]}
    rewards = iter([2.0, -1.5, -0.5, -1.0, 1.0])
    samples = [
        make_sample(group, prompt, one, next(rewards))
        for group, (prompt, responses) in enumerate(shapes.items())
        for one in responses
    ]
    # each in a row of its own: a row has its rollouts in another order
    with torch.no_grad():
        found = [policy(pack([one], 1000)[0])[0].tolist() for one in samples]
    return [replace(one, logprobs=own) for one, own in zip(samples, found, strict=True)]


def plain_logprobs(plain: PreTrainedModel, ids: Sequence[int], temperature: float) -> Tensor:
    """Log-probabilities [n, vocabulary] of the token after each token."""
    logits = plain(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0]
    return torch.log_softmax(logits / temperature, dim=-1)


@cache
def tiny_tokenizer() -> PreTrainedTokenizerBase:
    """A tokenizer like the nano policy's, trained on a few texts."""
    return make_tokenizer(TEXTS)
