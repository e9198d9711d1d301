r"""Causal attention within packed rows of prefix trees: a node attends to its ancestors and itself.

In the row below, a group has two members, P A B and P A C, which share the prompt P and the turn A.
Another group has one member, D:

    row     P P P | A A | B B B | C C | D D D D          node  start  stop  end
            0       3     5       8     10      14        P      0      3    10
                                                          A      3      5    10
                       keys                               B      5      8     8
                       P A B C D                          C      8     10    10
    queries         P  \ . . . .                          D     10     14    14
                    A  # \ . . .
                    B  # # \ . .      \  causal block of a node
                    C  # # . \ .      #  unmasked block: a node's descendants attend to all of it
                    D  . . . . \      .  hidden, and not computed

There are two implementations. The first calls a flash-attention kernel for each block. It is used
on CPUs, and on CUDA in half precision if the kernel supports the head size. The second calls
PyTorch's SDPA for each node. It is used in all other cases, and as the reference in tests. There is
no dropout, and rows have no padding.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

_cpu_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_cpu_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
# `varlen_attn` calls these operators, but its backward pass does not accept a merged log-sum-exp
_flash = torch.ops.aten._flash_attention_forward
_flash_backward = torch.ops.aten._flash_attention_backward
Scaling = float | None
"""Factor of the attention scores; None for 1 / sqrt(size)."""


class Node(NamedTuple):
    """Place of a node in a row: tokens [start, stop) are its own, [stop, end) its descendants'.

    Nodes are in the order of the row. The descendants of a node follow it directly.
    """

    start: int
    stop: int
    end: int


def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, scaling: Scaling, nodes: tuple[Node, ...]
) -> Tensor:
    """Attend within the prefix trees of a packed row.

    Args:
        query: queries [1, heads, t, size].
        key: keys [1, key heads, t, size].
        value: values [1, key heads, t, size].
        scaling: factor of the attention scores; None for 1 / sqrt(size).
        nodes: nodes of the prefix trees, which together cover the row.

    Returns:
        Outputs [1, heads, t, size].
    """
    # under autocast, norms and rotary embeddings return queries and keys in fp32, not bf16
    query, key = query.to(value.dtype), key.to(value.dtype)
    return _implementation(value)(query, key, value, scaling, nodes)


def _implementation(value: Tensor) -> Callable[..., Tensor]:
    if value.device.type == "cpu":
        return partial(_in_blocks, cuda=False)
    size = value.shape[3]
    # the flash kernel supports only these dtypes and head sizes
    half = value.dtype in (torch.bfloat16, torch.float16)
    fits = value.is_cuda and half and size % 8 == 0 and size <= 256
    return partial(_in_blocks, cuda=True) if fits else _in_a_loop


def repeat_heads(states: Tensor, heads: int) -> Tensor:
    """Repeat keys or values [batch, key heads, t, size] for grouped-query attention."""
    times = heads // states.shape[1]
    return states if times == 1 else states.repeat_interleave(times, dim=1)


class _Block(NamedTuple):
    """Queries and keys of a packed row for one call of the attention kernel.

    Attributes:
        rows: positions of the queries in the packed row.
        columns: positions of the keys in the packed row.
        causal: whether each segment of tokens attends causally to itself; if not, to an ancestor.
        bounds: for CUDA, the cumulative lengths of the query segments and of the key segments,
            int32 [segments + 1] each, and the two maximum lengths; see `_segments`.
    """

    rows: slice | Tensor
    columns: slice | Tensor
    causal: bool
    bounds: tuple[Any, ...] = ()


def _in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: Scaling,
    nodes: tuple[Node, ...],
    cuda: bool,
) -> Tensor:
    """Attend in blocks, with the flash kernel of CUDA or of CPUs."""
    if not cuda:  # only CUDA's kernel supports grouped-query attention
        key, value = (repeat_heads(states, query.shape[1]) for states in (key, value))
    return _Blocks.apply(query, key, value, scaling, nodes, cuda)  # type: ignore[no-any-return,no-untyped-call]


class _Blocks(torch.autograd.Function):
    """Attention in blocks: each node attends causally to itself, and its descendants attend to it.

    Partial outputs are merged by the log-sum-exp of their scores. The backward pass calls a kernel
    for each block, too, with the merged output and log-sum-exp. Scores between different branches
    of a tree are not computed, and prefixes are not copied.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scaling: Scaling,
        nodes: tuple[Node, ...],
        cuda: bool,
    ) -> Tensor:
        out = torch.empty_like(query)
        lse = query.new_empty(query.shape[:3], dtype=torch.promote_types(query.dtype, torch.float))
        for block in _blocks(nodes, query.device if cuda else None):
            rows, columns = block.rows, block.columns
            q, k, v = query[:, :, rows], key[:, :, columns], value[:, :, columns]
            if cuda:
                part, part_lse = _on_cuda(q, k, v, block, scaling)
            else:
                part, part_lse = _cpu_flash(q, k, v, 0.0, block.causal, scale=scaling)
            if block.causal:  # these blocks come first, so there is no earlier result to merge with
                out[:, :, rows], lse[:, :, rows] = part, part_lse
                continue
            # each part of the softmax has the weight exp(part's log-sum-exp - total log-sum-exp)
            total = torch.logaddexp(lse[:, :, rows], part_lse)
            # `lerp` computes the weighted mean in one kernel, but needs the weight in the dtype of
            # the outputs
            share = (part_lse - total).exp().to(out.dtype)[..., None]
            out[:, :, rows] = torch.lerp(out[:, :, rows], part, share)
            lse[:, :, rows] = total
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.scaling, ctx.nodes, ctx.cuda = scaling, nodes, cuda
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *states, lse = ctx.saved_tensors
        states, dtype = [*states, grad], grad.dtype
        if not ctx.cuda:
            # the CPU kernel is 1.2 to 9 times as slow in bf16 as in fp32, slowest for short nodes
            states = [one.to(torch.promote_types(dtype, torch.float32)) for one in states]
        query, key, value, out, grad = states
        grads = [torch.zeros_like(one) for one in (query, key, value)]
        for block in _blocks(ctx.nodes, query.device if ctx.cuda else None):
            rows, columns = block.rows, block.columns
            # The kernel recomputes weights as exp(score - log-sum-exp). With the merged
            # log-sum-exp, these are weights of the whole softmax, so block gradients just add up.
            reads = grad[:, :, rows], query[:, :, rows], key[:, :, columns], value[:, :, columns]
            merged = out[:, :, rows], lse[:, :, rows]
            if ctx.cuda:
                parts = _on_cuda_backward((*reads, *merged), block, ctx.scaling)
            else:
                options = 0.0, block.causal
                parts = _cpu_flash_backward(*reads, *merged, *options, scale=ctx.scaling)
            for total, part, place in zip(grads, parts, (rows, columns, columns), strict=True):
                total[:, :, place] += part
        return *(total.to(dtype) for total in grads), None, None, None


@lru_cache(maxsize=8)  # all layers use the same blocks, and a copy to a GPU waits for the GPU
def _blocks(nodes: tuple[Node, ...], device: torch.device | None) -> tuple[_Block, ...]:
    """Return a row's blocks: first nodes paired with themselves, then with their descendants.

    Args:
        nodes: nodes of the prefix trees, which together cover the row.
        device: the CUDA device; None for CPUs. CUDA's kernel processes many nodes in one call,
            so one block pairs each node with itself, and one block per depth of the trees pairs
            the nodes at this depth with their descendants.
    """
    if device is None:
        own = [slice(node.start, node.stop) for node in nodes]
        # A single block serves all descendants of a node, since they are adjacent in the row and
        # each of them attends to the whole node.
        inner = [node for node in nodes if node.end > node.stop]
        return (
            *(_Block(span, span, True) for span in own),
            *(_Block(slice(one.stop, one.end), slice(one.start, one.stop), False) for one in inner),
        )
    depths: dict[int, list[Node]] = {}
    ends: list[int] = []  # ends of the current node's ancestors
    for node in nodes:
        while ends and ends[-1] <= node.start:
            ends.pop()
        if node.end > node.stop:
            depths.setdefault(len(ends), []).append(node)
            ends.append(node.end)
    own = [slice(node.start, node.stop) for node in nodes]
    blocks = [_segments(own, own, True, device)]
    for inner in depths.values():
        descendants = [slice(node.stop, node.end) for node in inner]
        themselves = [slice(node.start, node.stop) for node in inner]
        blocks.append(_segments(descendants, themselves, False, device))
    return tuple(blocks)


def _segments(
    rows: list[slice], columns: list[slice], causal: bool, device: torch.device
) -> _Block:
    """Return a block for CUDA; the n-th segment of queries sees the n-th segment of keys."""
    queries, keys = ([span.stop - span.start for span in spans] for spans in (rows, columns))
    starts = [list(accumulate(lengths, initial=0)) for lengths in (queries, keys)]
    with torch.inference_mode(False):  # autograd rejects tensors made in inference mode
        queried, seen = (_places(spans, device) for spans in (rows, columns))
        bounds = torch.tensor(starts, dtype=torch.int32, device=device)
        # With grouped heads, the kernel returns log-sum-exps as [heads, queries] only if the stated
        # maximum length of a query segment is at least 2.
        return _Block(queried, seen, causal, (*bounds, max(2, *queries), max(keys)))


def _places(spans: list[slice], device: torch.device) -> slice | Tensor:
    """Return the indices in `spans`; adjacent spans give a slice, which indexes without a copy."""
    if all(one.stop == other.start for one, other in pairwise(spans)):
        return slice(spans[0].start, spans[-1].stop)
    return torch.cat([torch.arange(one.start, one.stop) for one in spans]).to(device)


def _on_cuda(
    query: Tensor, key: Tensor, value: Tensor, block: _Block, scaling: Scaling
) -> tuple[Tensor, Tensor]:
    q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))
    out, lse, *_ = _flash(q, k, v, *block.bounds, 0.0, block.causal, False, scale=scaling)
    return out.transpose(0, 1)[None], lse[None]


def _on_cuda_backward(
    tensors: Sequence[Tensor], block: _Block, scaling: Scaling
) -> Sequence[Tensor]:
    *states, lse = tensors
    parts = (one[0].transpose(0, 1) for one in states)
    # the kernel ignores strides, so it needs log-sum-exps [heads, queries] to be contiguous
    lse = lse[0].contiguous()
    unused = lse.new_empty(2, dtype=torch.uint64)  # state of random numbers, for dropout only
    settings = 0.0, block.causal, unused, unused
    grads = _flash_backward(*parts, lse, *block.bounds, *settings, scale=scaling)
    return [grad.transpose(0, 1)[None] for grad in grads]


def _in_a_loop(
    query: Tensor, key: Tensor, value: Tensor, scaling: Scaling, nodes: tuple[Node, ...]
) -> Tensor:
    """Attend with one call of SDPA per node; the reference implementation."""
    heads = query.shape[1]
    key, value = repeat_heads(key, heads), repeat_heads(value, heads)
    # use `split`, since the gradient of each slice would be a tensor as long as the row
    sizes = [stop - start for start, stop, _ in nodes]
    queries, keys, values = (states.split(sizes, dim=2) for states in (query, key, value))
    parts = []
    for number, node in enumerate(nodes):
        seen = [i for i in range(number) if nodes[i].end > node.start] + [number]
        q, k, v = queries[number], *(torch.cat([x[i] for i in seen], 2) for x in (keys, values))
        # `is_causal` would align the node's first query with the first key, which is an ancestor's.
        # A cache of masks would take gigabytes for a row of 64 nodes with long rollouts.
        mask = q.new_full((q.shape[2], k.shape[2]), -torch.inf).triu(k.shape[2] - q.shape[2] + 1)
        parts.append(scaled_dot_product_attention(q, k, v, mask, scale=scaling))
    return torch.cat(parts, dim=2)
