"""Models and a tokenizer small enough for a test, and what an ordinary forward says of them."""

from collections.abc import Sequence
from copy import deepcopy
from functools import cache

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

from learners.imitation import make_tokenizer
from learners.policy import Policy

ARCHITECTURES = ("qwen3", "llama")
VOCABULARY = 61
TEXTS = (
    'Revise the resume. {"name": "str_replace", "arguments": {"old": "Helped", "new": "Built"}}',
    "error (not_found): `old` is not in the resume\nturns left: 7/10 | edits: 3",
    "- Helped build a booking pipeline for 12 harbours, 语言 and café menus",
)


def tiny_model(architecture: str, seed: int = 0) -> PreTrainedModel:
    """A random two-layer model in fp32, wide awake: its distributions are far from uniform."""
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
    if architecture == "llama":
        return LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=False)).eval()
    # a head size that is not width / heads
    return Qwen3ForCausalLM(Qwen3Config(**sizes, head_dim=16, tie_word_embeddings=True)).eval()


def tiny_policy(architecture: str, temperature: float = 1.0) -> tuple[Policy, PreTrainedModel]:
    """A policy, and its twin with an attention of transformers' own."""
    model = tiny_model(architecture)
    plain = deepcopy(model)
    plain.set_attn_implementation("eager")
    return Policy(model, temperature, "float32"), plain


def plain_logprobs(plain: PreTrainedModel, ids: Sequence[int], temperature: float) -> Tensor:
    """Log-probabilities [n, vocabulary] of what follows each token."""
    logits = plain(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0]
    return torch.log_softmax(logits.float() / temperature, dim=-1)


@cache
def tiny_tokenizer() -> PreTrainedTokenizerBase:
    """The nano policy's kind of tokenizer, trained on a few texts."""
    return make_tokenizer(TEXTS)
