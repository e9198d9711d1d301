"""Attention over packed prefix trees with FlexAttention, for the GPU benchmarks."""

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from learners.training.packed_attention import Node


def attend(
    query: Tensor, key: Tensor, value: Tensor, scaling: float | None, nodes: tuple[Node, ...]
) -> Tensor:
    """Attend within the prefix trees of a packed row, like `packed_attention`."""
    # only tests on CPUs use FlexAttention without compilation, which also computes masked pairs
    function = compiled() if query.is_cuda else flex_attention
    mask = block_mask(nodes, query.device)
    return function(query, key, value, block_mask=mask, scale=scaling, enable_gqa=True)


@lru_cache(maxsize=1)
def compiled():
    """Return the compiled FlexAttention kernel, for rows of any length."""
    return torch.compile(flex_attention, dynamic=True)


@lru_cache(maxsize=4)  # all layers use the same mask
def block_mask(nodes: tuple[Node, ...], device: torch.device) -> BlockMask:
    """Return the block mask of a packed row from the nodes of its prefix trees."""
    ends = torch.tensor([end for start, stop, end in nodes for _ in range(start, stop)])
    with torch.inference_mode(False):
        ends = ends.to(device)

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        # a key is visible to the positions [key, ends[key]): the rest of its node and all
        # descendants
        return (key <= query) & (query < ends[key])

    return create_block_mask(visible, None, None, len(ends), len(ends), device=device)
