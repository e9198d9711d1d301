"""Attention for packed groups and for cache slots, behind one name in transformers.

A training row is `[P | R1 | ... | RG]` for each group in it: a prompt and the responses that
share it. Position ids of each response go on from the prompt's end, each response attends to its
prompt and to itself, so the row's numbers are those of G separate sequences while the prompt is
computed once.

The implementation is registered without a mask function, so that transformers builds no mask of
its own; with one it would read the position resets as packing and hide the prompts.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

NAME = "prefix_group"


class Span(NamedTuple):
    """One group's places in a row: its prompt, then its responses, as [start, stop) pairs."""

    prompt: tuple[int, int]
    responses: tuple[tuple[int, int], ...]


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    spans: tuple[Span, ...] | None = None,
    slot_mask: Tensor | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Attend within `spans` (training) or under `slot_mask` (decoding).

    Args:
        module: the attention layer.
        query: [batch, heads, q, size].
        key: [batch, key heads, k, size].
        value: [batch, key heads, k, size].
        attention_mask: None; transformers builds none for this implementation.
        scaling: of the scores.
        spans: the groups of a packed row; batch is 1.
        slot_mask: bool [batch, 1, q, k], True where a query may look.

    Returns:
        [batch, q, heads, size], and None for the weights.
    """
    if attention_mask is not None or (spans is None) == (slot_mask is None):
        raise ValueError("expected either spans or slot_mask, and no attention mask")
    if spans is not None:
        return _grouped(query, key, value, scaling, spans).transpose(1, 2), None
    assert slot_mask is not None
    batch, heads, q, size = query.shape
    if q == 1:  # fold the query heads of a key head into the query axis: no copy of the cache
        query = query.view(batch, key.shape[1], -1, size)
        out = scaled_dot_product_attention(query, key, value, slot_mask, scale=scaling)
        return out.reshape(batch, heads, 1, size).transpose(1, 2), None
    key, value = _repeat(key, heads), _repeat(value, heads)
    out = scaled_dot_product_attention(query, key, value, slot_mask, scale=scaling)
    return out.transpose(1, 2), None


def _repeat(states: Tensor, heads: int) -> Tensor:
    return states.repeat_interleave(heads // states.shape[1], dim=1)


def _grouped(
    query: Tensor, key: Tensor, value: Tensor, scaling: float | None, spans: tuple[Span, ...]
) -> Tensor:
    heads = query.shape[1]
    sizes = [stop - start for prompt, own in spans for start, stop in (prompt, *own)]
    # one split each: a slice's gradient is as long as the row, a split's is not
    queries = iter(query.split(sizes, dim=2))
    keys = iter(_repeat(key, heads).split(sizes, dim=2))
    values = iter(_repeat(value, heads).split(sizes, dim=2))
    parts = []
    for _, responses in spans:
        q, k, v = next(queries), next(keys), next(values)
        parts.append(scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling))
        for _ in responses:
            own_q, own_k, own_v = next(queries), next(keys), next(values)
            seen = _seen(k.shape[2], own_q.shape[2], own_q.dtype, own_q.device)
            all_k, all_v = torch.cat([k, own_k], dim=2), torch.cat([v, own_v], dim=2)
            parts.append(scaled_dot_product_attention(own_q, all_k, all_v, seen, scale=scaling))
    return torch.cat(parts, dim=2)


@lru_cache(maxsize=64)  # the layers of a row ask for the same masks
def _seen(prompt: int, own: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """What a response sees: its prompt, and itself up to each token; [own, prompt + own]."""
    with torch.inference_mode(False):  # one that evaluation asked for first must serve training too
        hidden = torch.full((own, prompt + own), -torch.inf, dtype=dtype, device=device)
        return hidden.triu(prompt + 1)


AttentionInterface.register(NAME, attention)
