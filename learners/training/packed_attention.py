"""Causal attention within packed rows: each response attends to its group's prompt and itself.

Implementations: blocks of a flash kernel on CPUs, a variable-length flash kernel for half precision
on CUDA, and otherwise a loop over PyTorch's SDPA, the reference in tests.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Span(NamedTuple):
    """Position of a group in a row: its prompt, then its responses, as [start, stop) pairs."""

    prompt: tuple[int, int]
    responses: tuple[tuple[int, int], ...]


def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, scaling: float | None, spans: tuple[Span, ...]
) -> Tensor:
    """Attend within the groups of a packed row.

    Args:
        query: [1, heads, t, size].
        key: [1, key heads, t, size].
        value: [1, key heads, t, size].
        scaling: factor of the scores; None for 1 / sqrt(size).
        spans: the groups, which cover the row.

    Returns:
        Outputs [1, heads, t, size].
    """
    # under autocast, norms and rotary embeddings return fp32; only values are in half precision
    query, key = query.to(value.dtype), key.to(value.dtype)
    return _implementation(value)(query, key, value, scaling, spans)


def _implementation(value: Tensor) -> Callable[..., Tensor]:
    if value.device.type == "cpu":
        return _in_blocks
    size = value.shape[3]
    # the flash kernel's limits on dtype and head size
    half = value.dtype in (torch.bfloat16, torch.float16)
    fits = value.is_cuda and half and size % 8 == 0 and size <= 256
    return _in_one_kernel if fits else _in_a_loop


def repeat_heads(states: Tensor, heads: int) -> Tensor:
    """Repeat keys or values [batch, key heads, t, size] for grouped-query attention."""
    times = heads // states.shape[1]
    return states if times == 1 else states.repeat_interleave(times, dim=1)


def _in_blocks(
    query: Tensor, key: Tensor, value: Tensor, scaling: float | None, spans: tuple[Span, ...]
) -> Tensor:
    heads = query.shape[1]
    key, value = repeat_heads(key, heads), repeat_heads(value, heads)
    return _Blocks.apply(query, key, value, scaling, spans)  # type: ignore[no-any-return,no-untyped-call]


class _Blocks(torch.autograd.Function):
    """Attention in unmasked blocks: causal self-blocks, and all responses to their prompt.

    Partial outputs are merged by the log-sum-exp of their scores. The backward kernel needs only
    the merged output and log-sum-exp, so gradients use the same blocks. No scores are computed
    that a mask between responses would hide.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scaling: float | None,
        spans: tuple[Span, ...],
    ) -> Tensor:
        out = torch.empty_like(query)
        sums = query.new_empty(query.shape[:3], dtype=torch.promote_types(query.dtype, torch.float))
        for rows, columns, causal in _blocks(spans):
            q, k, v = query[:, :, rows], key[:, :, columns], value[:, :, columns]
            part, part_sum = _flash(q, k, v, 0.0, causal, scale=scaling)
            if rows == columns:  # `_blocks` yields the self-block of a response before its prompt
                out[:, :, rows], sums[:, :, rows] = part, part_sum
                continue
            # each part of the softmax has the weight exp(its log-sum-exp - the total one)
            total = torch.logaddexp(sums[:, :, rows], part_sum)
            share = (part_sum - total).exp()[..., None]
            out[:, :, rows] = out[:, :, rows] * (1 - share) + part * share
            sums[:, :, rows] = total
        ctx.save_for_backward(query, key, value, out, sums)
        ctx.scaling, ctx.spans = scaling, spans
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, out, sums = ctx.saved_tensors
        grads = [torch.zeros_like(states) for states in (query, key, value)]
        for rows, columns, causal in _blocks(ctx.spans):
            q, k, v = query[:, :, rows], key[:, :, columns], value[:, :, columns]
            # The kernel recomputes the weights as exp(score - log-sum-exp). With the merged values,
            # these are the weights of the whole softmax, so gradients of blocks only need a sum.
            merged = out[:, :, rows], sums[:, :, rows]
            parts = _flash_backward(
                grad[:, :, rows], q, k, v, *merged, 0.0, causal, scale=ctx.scaling
            )
            for total, part, place in zip(grads, parts, (rows, columns, columns), strict=True):
                total[:, :, place] += part
        return *grads, None, None


def _blocks(spans: tuple[Span, ...]) -> Iterator[tuple[slice, slice, bool]]:
    """Yield the queries and keys of each block, and whether it is a causal self-block."""
    for prompt, responses in spans:
        for start, stop in (prompt, *responses):
            if stop > start:
                yield slice(start, stop), slice(start, stop), True
        # one block for all responses: they are adjacent, and each sees the whole prompt
        if responses and responses[-1][1] > prompt[1]:
            yield slice(prompt[1], responses[-1][1]), slice(*prompt), False


def _in_a_loop(
    query: Tensor, key: Tensor, value: Tensor, scaling: float | None, spans: tuple[Span, ...]
) -> Tensor:
    """Reference implementation: one call per prompt and one per response."""
    heads = query.shape[1]
    key, value = repeat_heads(key, heads), repeat_heads(value, heads)
    sizes = [stop - start for span in spans for start, stop in (span.prompt, *span.responses)]
    # split once: each slice would have a gradient tensor as long as the row
    queries = iter(query.split(sizes, dim=2))
    keys = iter(key.split(sizes, dim=2))
    values = iter(value.split(sizes, dim=2))
    parts = []
    for _, responses in spans:
        q, k, v = next(queries), next(keys), next(values)
        parts.append(scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling))
        for _ in responses:
            q = next(queries)
            mask = _mask(k.shape[2], q.shape[2], q.dtype, q.device)
            all_k, all_v = torch.cat([k, next(keys)], dim=2), torch.cat([v, next(values)], dim=2)
            parts.append(scaled_dot_product_attention(q, all_k, all_v, mask, scale=scaling))
    return torch.cat(parts, dim=2)


@lru_cache(maxsize=64)  # all layers use the same masks
def _mask(prompt: int, response: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a response's additive mask [r, p + r]: all of the prompt is visible, the rest causal.

    `is_causal` would align the first query with the first key, which belongs to the prompt.
    """
    with torch.inference_mode(False):  # autograd rejects inference tensors, even cached ones
        hidden = torch.full((response, prompt + response), -torch.inf, dtype=dtype, device=device)
        return hidden.triu(prompt + 1)


def _in_one_kernel(
    query: Tensor, key: Tensor, value: Tensor, scaling: float | None, spans: tuple[Span, ...]
) -> Tensor:
    """Attend in one call, with a copy of the prompt's keys and values for each response.

    The copies cost memory, but no computation: projections and MLPs run once a prompt.
    """
    q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))
    segments = _segments(spans)
    k, v = _after_prompts(k, segments), _after_prompts(v, segments)
    causal = (-1, 0)  # left and right window; the last query is aligned with the last key
    lengths = _lengths(spans, value.device)
    out = varlen_attn(q, k, v, *lengths, scale=scaling, window_size=causal, enable_gqa=True)
    assert isinstance(out, Tensor)
    return out.transpose(0, 1)[None]


def _segments(spans: tuple[Span, ...]) -> list[tuple[int, int]]:
    """Return the numbers of queries and keys of each prompt and each non-empty response."""
    segments: list[tuple[int, int]] = []
    for (first, end), responses in spans:
        prompt = end - first
        lengths = [stop - start for start, stop in responses if stop > start]
        segments += [(prompt, prompt), *((length, prompt + length) for length in lengths)]
    return segments


def _after_prompts(states: Tensor, segments: list[tuple[int, int]]) -> Tensor:
    """Lay out keys or values [t, heads, size] as [P | P R1 | P R2 ...] for each group."""
    blocks = []
    prompt = states[:0]
    # split and cat, since the backward pass of an index gather uses atomic additions
    parts = states.split([queries for queries, _ in segments])
    for part, (queries, keys) in zip(parts, segments, strict=True):
        if queries == keys:  # a prompt
            prompt = part
            blocks.append(part)
        else:
            blocks += [prompt, part]
    return torch.cat(blocks)


@lru_cache(maxsize=64)  # all layers use the same lengths
def _lengths(spans: tuple[Span, ...], device: torch.device) -> tuple[Tensor, Tensor, int, int]:
    """Return cumulative lengths of queries and keys, int32 [segments + 1], and their maxima."""
    queries, keys = zip(*_segments(spans), strict=True)
    bounds = [list(accumulate(lengths, initial=0)) for lengths in (queries, keys)]
    with torch.inference_mode(False):  # as for `_mask`
        of_queries, of_keys = torch.tensor(bounds, dtype=torch.int32, device=device)
    return of_queries, of_keys, max(queries), max(keys)
