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

from learners.nano.imitation import make_tokenizer
from learners.training.batching import Sample, pack
from learners.training.policy import Policy

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


def tiny_group(policy: Policy) -> list[Sample]:
    """Two groups of rollouts of different lengths, with the policy's log-probabilities."""
    shapes = {(4, 6): [[7, 8, 9, 5], [1, 2], [11, 3, 5]], (9,): [[3, 2], [40, 41, 42, 43, 44]]}
    rewards = iter([2.0, -1.5, -0.5, -1.0, 1.0])
    samples = [
        Sample(group, list(prompt), one, [True] * len(one), [0.0] * len(one), next(rewards))
        for group, (prompt, responses) in enumerate(shapes.items())
        for one in responses
    ]
    with torch.no_grad():
        found = iter(torch.cat([policy(row)[0] for row in pack(samples, 1000)]).tolist())
    return [replace(one, logprobs=[next(found) for _ in one.response]) for one in samples]


def plain_logprobs(plain: PreTrainedModel, ids: Sequence[int], temperature: float) -> Tensor:
    """Log-probabilities [n, vocabulary] of the token after each token."""
    logits = plain(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0]
    return torch.log_softmax(logits.float() / temperature, dim=-1)


@cache
def tiny_tokenizer() -> PreTrainedTokenizerBase:
    """A tokenizer like the nano policy's, trained on a few texts."""
    return make_tokenizer(TEXTS)
