"""A head start on copying: two attention heads of a random nano model, set by hand.

An exact quote needs an induction circuit: a head in the first layer that tells every token which
token came before it, and one in the second that finds the place whose predecessor is the current
token and copies what stands there. A small model discovers it late: after 1.75 M tokens of random
sequences repeated, on the easiest vocabulary, it still guessed. Set by hand, the circuit needs no
discovery; training refines it, as it does all other weights.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3ForCausalLM

_NEAR_PAIRS = slice(0, 12)
"""Rotary pairs that turn fast: they tell the previous token from its neighbours."""
_FAR_PAIRS = slice(14, 32)
"""Rotary pairs that turn slowly: they compare contents at any distance."""
_SHARPNESS = 2.0
_CONSTANT = 0.4
_WRITE_PREDECESSOR = 1.5
_WRITE_COPY = 6.0


@torch.no_grad()
def install(model: Qwen3ForCausalLM, seed: int = 0) -> None:
    """Set the first key head of layers 0 and 1, and the query heads that they serve, in place.

    The residual stream gets a subspace of one head's size for each token's predecessor. One of
    its directions is first a constant, so that a head can attend by position alone: without
    biases nothing else is the same at every token.
    """
    config: Any = model.config
    width, size = config.hidden_size, config.head_dim
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(width, width, generator=generator))[0]
    identity, predecessor, content = (basis[:, i * size : (i + 1) * size] for i in range(3))
    constant = predecessor[:, 0]
    embeddings = model.model.embed_tokens.weight
    embeddings -= embeddings @ predecessor @ predecessor.T
    embeddings += _CONSTANT * constant

    first, second = (model.model.layers[i].self_attn for i in range(2))
    for attention in (first, second):
        attention.q_norm.weight.fill_(_SHARPNESS)
        attention.k_norm.weight.fill_(_SHARPNESS)
    query, key = _one_back(size, config.rope_parameters["rope_theta"])
    first.q_proj.weight[:size] = torch.outer(query, constant)
    first.k_proj.weight[:size] = torch.outer(key, constant)
    first.v_proj.weight[:size] = identity.T
    first.o_proj.weight[:, :size] = _WRITE_PREDECESSOR * predecessor

    compare = _comparison(size, generator)
    told = predecessor - torch.outer(constant, predecessor.T @ constant)
    second.k_proj.weight[:size] = compare @ told.T
    second.v_proj.weight[:size] = content.T
    for head in range(config.num_attention_heads // config.num_key_value_heads):
        own = slice(head * size, (head + 1) * size)
        second.q_proj.weight[own] = compare @ identity.T
        second.o_proj.weight[:, own] = _WRITE_COPY * content


def _one_back(size: int, theta: float) -> tuple[Tensor, Tensor]:
    """A query and a key [size] whose rotated product is greatest at a distance of one."""
    half = size // 2
    angle = theta ** (-torch.arange(0, size, 2) / size)
    key = torch.zeros(size)
    key[_NEAR_PAIRS] = 1.0
    turned = key[:half] * angle.cos(), -key[:half] * angle.sin()
    return torch.cat(turned), key


def _comparison(size: int, generator: torch.Generator) -> Tensor:
    """A map [size, size] from contents to the rotary pairs that turn slowly."""
    half = size // 2
    pairs = torch.arange(half)[_FAR_PAIRS]
    places = torch.cat([pairs, pairs + half])
    mixed = torch.linalg.qr(torch.randn(size, size, generator=generator))[0]
    compare = torch.zeros(size, size)
    compare[places] = mixed[: len(places)]
    return compare
