"""Attention with shared prefixes for training and decoding, registered in transformers.

Training: the rollouts of a group form a prefix tree within a packed row. A node's position ids
continue from those of its parent, and its tokens attend to its ancestors and to itself. The results
equal those of separate sequences, but each common prefix is computed once; see `packed_attention`.

Decoding: each conversation is a row of the batch. Conversations with the same prompt share the
prompt's KV cache, and each has a separate cache for the tokens after the prompt. A decoding step
reads a prompt's keys once for all rows with this prompt.

The implementation is registered without a mask function, so transformers builds no mask. A
mask by transformers would hide shared prefixes, since transformers treats each jump in the position
ids as the start of a new sequence.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from learners.training.packed_attention import Node, packed_attention, repeat_heads

NAME = "prefix_tree"


class Shared(NamedTuple):
    """KV cache of the prompts of a decoding batch; a prompt that rows share is stored once.

    Attributes:
        keys: keys of the prompts [layers, prompts, key heads, p, size]; shorter prompts are padded.
        values: values of the prompts, in the shape of `keys`.
        lengths: prompt lengths [prompts].
        prompt_of: prompt index of each row [rows].
        members: for each prompt, the indices of its rows [prompts, n], padded with 0.
        place: for each row [rows], its index among the `members` of its prompt.
    """

    keys: Tensor
    values: Tensor
    lengths: Tensor
    prompt_of: Tensor
    members: Tensor
    place: Tensor

    @classmethod
    def of(cls, caches: Sequence[Tensor]) -> "Shared":
        """Stack the rows' prompt caches [layers, 2, key heads, tokens, size] without duplicates."""
        # caches are compared by identity: rows that were prefilled together hold the same object
        index: dict[int, int] = {}
        unique: list[Tensor] = []
        for cache in caches:
            if index.setdefault(id(cache), len(unique)) == len(unique):
                unique.append(cache)
        lengths = torch.tensor([cache.shape[3] for cache in unique])
        layers, _, heads, _, size = unique[0].shape
        # the dimension of keys and values comes first, so that both are contiguous tensors
        stacked = unique[0].new_zeros(2, layers, len(unique), heads, int(lengths.max()), size)
        for i, cache in enumerate(unique):
            stacked[:, :, i, :, : cache.shape[3]] = cache.transpose(0, 1)
        prompt_of = torch.tensor([index[id(cache)] for cache in caches])
        return cls(stacked[0], stacked[1], lengths, *_members(prompt_of, len(unique)))

    def keep(self, rows: list[int]) -> "Shared":
        """Return the cache of the given rows, without the prompts of other rows."""
        used, prompt_of = self.prompt_of[rows].unique(return_inverse=True)
        kept = self.keys, self.values, self.lengths
        if len(used) < len(self.lengths):
            kept = kept[0][:, used], kept[1][:, used], kept[2][used]
        return Shared(*kept, *_members(prompt_of, len(used)))

    def visible(self) -> Tensor:
        """Return the mask of keys that are not padding, bool [prompts, p]."""
        return torch.arange(self.keys.shape[3]) < self.lengths[:, None]


def _members(prompt_of: Tensor, prompts: int) -> tuple[Tensor, Tensor, Tensor]:
    rows: list[list[int]] = [[] for _ in range(prompts)]
    place = []
    for row, prompt in enumerate(prompt_of.tolist()):
        place.append(len(rows[prompt]))
        rows[prompt].append(row)
    longest = max(map(len, rows))
    # give all prompts equally many rows by repeating row 0; `by_row` drops the extra results
    members = torch.tensor([indices + [0] * (longest - len(indices)) for indices in rows])
    return prompt_of, members, torch.tensor(place)


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    nodes: tuple[Node, ...] | None = None,
    slot_mask: Tensor | None = None,
    shared: Shared | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Attend within the prefix trees of `nodes` (training), or to unmasked keys (decoding).

    Args:
        module: the attention layer.
        query: queries [batch, heads, q, size].
        key: keys [batch, key heads, k, size].
        value: values [batch, key heads, k, size].
        attention_mask: always None, since transformers builds no mask for this implementation.
        scaling: factor of the attention scores; None for 1 / sqrt(size).
        nodes: nodes of the prefix trees of a packed row; the batch size is 1.
        slot_mask: bool [batch, 1, q, k], True for visible keys.
        shared: cached prompts, which precede `key`; each query attends to its row's whole prompt.

    Returns:
        Outputs [batch, q, heads, size], and None for the attention weights.

    Raises:
        ValueError: `attention_mask` is given, or both or neither of `nodes` and `slot_mask` are.
    """
    # masks from transformers would be wrong, since transformers does not know prefix trees
    if attention_mask is not None or (nodes is None) == (slot_mask is None):
        raise ValueError("expected either nodes or slot_mask, and no attention mask")
    if nodes is not None:
        return packed_attention(query, key, value, scaling, nodes).transpose(1, 2), None
    assert slot_mask is not None
    heads, q = query.shape[1:3]
    if shared is not None:
        layer = int(module.layer_idx)  # type: ignore[arg-type]
        prompt_keys, prompt_values = shared.keys[layer], shared.values[layer]
        if q == 1:
            prompt = prompt_keys, prompt_values, shared
            return _decode(query, key, value, scaling, slot_mask, *prompt).transpose(1, 2), None
        # With several tokens per row, such as a tool reply, each row gets a copy of its prompt's
        # cache. Merging two softmaxes would avoid the copy, but the copy happens only once a turn.
        key = torch.cat([prompt_keys[shared.prompt_of], key], dim=2)
        value = torch.cat([prompt_values[shared.prompt_of], value], dim=2)
        visible = shared.visible()[shared.prompt_of, None, None].expand(-1, -1, q, -1)
        slot_mask = torch.cat([visible, slot_mask], dim=3)
    key, value = repeat_heads(key, heads), repeat_heads(value, heads)
    out = scaled_dot_product_attention(query, key, value, slot_mask, scale=scaling)
    return out.transpose(1, 2), None


def _decode(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: float | None,
    slot_mask: Tensor,
    prompt_keys: Tensor,
    prompt_values: Tensor,
    shared: Shared,
) -> Tensor:
    """Attend from one query per row to the keys of the shared prompt and to the row's own keys.

    Reading keys dominates the cost, so one matrix product covers all rows with the same prompt.
    """
    rows, heads, _, size = query.shape
    prompts, key_heads = prompt_keys.shape[:2]
    scale = size**-0.5 if scaling is None else scaling
    # `group` query heads share a key head: [rows, key heads, group, size]
    query = query.view(rows, key_heads, -1, size)

    def by_prompt(states: Tensor) -> Tensor:
        """Group [rows, key heads, group, x] by prompt: [prompts, key heads, n * group, x]."""
        gathered = states[shared.members].transpose(1, 2)
        return gathered.reshape(prompts, key_heads, -1, states.shape[-1])

    def by_row(states: Tensor) -> Tensor:
        """Undo `by_prompt`: return [rows, key heads, group, x], one entry per row of the batch."""
        grouped = states.view(prompts, key_heads, shared.members.shape[1], -1, states.shape[-1])
        return grouped[shared.prompt_of, :, shared.place]

    hidden = ~shared.visible()[:, None, None]
    far = (by_prompt(query) @ prompt_keys.mT * scale).masked_fill(hidden, -torch.inf)
    near = (query @ key.mT * scale).masked_fill(~slot_mask, -torch.inf)
    # one softmax over prompt and own keys, in fp32
    weights = torch.cat([by_row(far), near], dim=3).float().softmax(dim=3).to(value.dtype)
    far, near = weights.split([prompt_keys.shape[2], key.shape[2]], dim=3)
    out: Tensor = by_row(by_prompt(far) @ prompt_values) + near @ value
    return out.reshape(rows, heads, 1, size)


AttentionInterface.register(NAME, attention)
