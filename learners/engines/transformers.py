"""In-process engine: batched decoding with a transformers KV cache that persists between turns.

Between turns, the engine stores a copy of each conversation's cache. For a turn, the engine stacks
the caches of a batch, feeds only the new tokens to the model, and samples. Conversations whose
tokens are all equal so far run through the model only once, and share a cache. Unlike vLLM, the
engine has no paged cache and no continuous batching: requests wait for the end of a running batch.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin

from learners.engines import Completion, Sampling, Weights
from learners.training.attention import Shared
from learners.training.policy import Policy

_FEED_TOKENS = 8192  # maximum number of tokens in a prefill batch, including padding
_GROW = 128  # number of tokens by which the capacity of the cache grows
_COMPACT_BELOW = 0.75  # share of unfinished rows below which finished rows are removed


class _RaggedLayer(CacheLayerMixin):
    """KV cache of one layer, [rows, key heads, capacity, head size], with a length for each row.

    Slots after a row's last token hold garbage, which the mask hides and later tokens overwrite.

    Attributes:
        starts: number of tokens in each row [rows] before the new tokens.
        longest: maximum of `starts`, as an int: reading a number from a GPU would block.
    """

    starts: Tensor
    longest: int

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys: Tensor = keys
        self.values: Tensor = values
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Do nothing: the tensors of the cache exist already."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new tokens at each row's end; return all keys and values."""
        rows, heads, q, size = key_states.shape
        end = self.longest + q
        # the capacity grows in large steps, since `torch.cat` copies the whole cache
        if end > self.keys.shape[2]:
            room = self.keys.new_zeros(rows, heads, end + _GROW - self.keys.shape[2], size)
            self.keys = torch.cat([self.keys, room], dim=2)
            self.values = torch.cat([self.values, room], dim=2)
        # write each row's new tokens after its last token, so that no padding lies between its
        # tokens
        row = torch.arange(rows)[:, None]
        slots = self.starts[:, None] + torch.arange(q)
        self.keys[row, :, slots] = key_states.transpose(1, 2).to(self.keys.dtype)
        self.values[row, :, slots] = value_states.transpose(1, 2).to(self.values.dtype)
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of keys that the mask of queries covers, and the first key's index."""
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        return self.longest

    def get_max_length(self) -> int:
        """Return -1: the cache has no maximum length."""
        return -1


class _Ragged:
    """Stacked KV caches of a batch of conversations.

    Args:
        caches: KV cache of each row after the prompt, [layers, 2, key heads, tokens, head size].
        prompts: KV cache of each row's prompt, in the same layout; rows that share a prompt pass
            the same object. None while the prompts are being prefilled.
    """

    def __init__(self, caches: Sequence[Tensor], prompts: Sequence[Tensor] | None = None) -> None:
        self.lengths = [cache.shape[3] for cache in caches]
        self.shared = Shared.of(prompts) if prompts else None
        layers, _, heads, _, size = caches[0].shape
        capacity = max(self.lengths) + _GROW
        stacked = caches[0].new_zeros(layers, 2, len(caches), heads, capacity, size)
        for row, cache in enumerate(caches):
            stacked[:, :, row, :, : cache.shape[3]] = cache
        self.layers = [_RaggedLayer(keys, values) for keys, values in stacked]

    def feed(self, policy: Policy, tokens: list[list[int]]) -> Tensor:
        """Run new tokens through the model; return each row's last hidden state [rows, width]."""
        counts = [len(row) for row in tokens]
        q, longest = max(counts), max(self.lengths)
        padded = torch.tensor([row + [0] * (q - len(row)) for row in tokens])
        starts = torch.tensor(self.lengths)
        slots = starts[:, None] + torch.arange(q)
        # a causal mask, which also hides the garbage behind each row's end
        mask = torch.arange(longest + q) <= slots[:, :, None]
        shared = self.shared
        for layer in self.layers:
            layer.starts, layer.longest = starts, longest
        hidden = policy.hidden(
            padded,
            # positions include the shared prompt, whose keys are in a separate cache
            slots if shared is None else slots + shared.lengths[shared.prompt_of, None],
            slot_mask=mask[:, None],
            shared=shared,
            past_key_values=Cache(layers=list(self.layers)),
            use_cache=True,
        )
        # the padding of shorter rows was written to the cache, but lies behind their new ends
        self.lengths = [n + more for n, more in zip(self.lengths, counts, strict=True)]
        return hidden[torch.arange(len(tokens)), torch.tensor(counts) - 1]

    def park(self, row: int) -> Tensor:
        """Return a copy of one row's cache, [layers, 2, key heads, tokens, head size]."""
        n = self.lengths[row]
        # copied, since a view would keep the cache of the whole batch in memory
        pairs = [(layer.keys[row, :, :n], layer.values[row, :, :n]) for layer in self.layers]
        return torch.stack([torch.stack(pair) for pair in pairs])

    def keep(self, rows: list[int]) -> None:
        self.lengths = [self.lengths[row] for row in rows]
        if self.shared is not None:
            self.shared = self.shared.keep(rows)
        for layer in self.layers:
            layer.keys, layer.values = layer.keys[rows], layer.values[rows]


def noise(seed: Sequence[int], tokens: int) -> list[float]:
    """Return uniform random numbers [tokens] in [0, 1) for one turn, determined by the seed."""
    return np.random.default_rng(seed).random(tokens).tolist()  # type: ignore[no-any-return]


def draw(logprobs: Tensor, numbers: Tensor) -> Tensor:
    """Sample from distributions by inverting their cumulative distribution functions.

    Args:
        logprobs: log-probabilities [n, vocabulary] of the distributions.
        numbers: uniform random numbers [n] in [0, 1), fp64.

    Returns:
        Ids [n] of the sampled tokens.
    """
    # `torch.multinomial` would draw numbers that depend on the batch; here, each row has its own.
    # Sums are in fp64: rounding of fp32 sums would distort the probabilities of the last tokens.
    sums = logprobs.exp().cumsum(1, dtype=torch.float64)
    # the division makes the last sum exactly 1, and all random numbers in [0, 1) are below 1
    return torch.searchsorted(sums / sums[:, -1:], numbers[:, None], right=True)[:, 0]


class Request(NamedTuple):
    """Request to sample one turn of a conversation.

    Attributes:
        key: identifies the conversation across turns.
        ids: all token ids of the conversation so far.
        sampling: sampling parameters.
    """

    key: int
    ids: list[int]
    sampling: Sampling


class _Parked(NamedTuple):
    """State of a conversation, cached between turns.

    Attributes:
        ids: token ids whose keys and values are in the two caches.
        shared: KV cache of a prefix, [layers, 2, key heads, tokens, head size]; conversations may
            share this object.
        own: KV cache of the tokens after the shared prefix.
    """

    ids: list[int]
    shared: Tensor
    own: Tensor


class TransformersEngine:
    """Engine that samples from a policy in this process; concurrent requests form one batch.

    Args:
        policy: the policy to sample from.
        copied: whether the policy's weights are a copy, filled by `load_weights`; otherwise they
            are the trainer's weights, which training changes in place.
    """

    max_concurrency = 128
    repeatable = True

    def __init__(self, policy: Policy, copied: bool = False) -> None:
        self._version = 0
        self._policy = policy
        self._copied = copied
        self._parked: dict[int, _Parked] = {}
        self._waiting: list[tuple[Request, asyncio.Future[Completion]]] = []

    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        """Continue a conversation by one completion; see `Engine`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Completion] = loop.create_future()
        self._waiting.append((Request(key, list(ids), sampling), future))
        if len(self._waiting) == 1:
            loop.call_soon(self._collect, 1)
        return await future

    def _collect(self, before: int) -> None:
        """Sample the waiting requests as soon as an event-loop iteration adds no request."""
        if len(self._waiting) > before:
            asyncio.get_running_loop().call_soon(self._collect, len(self._waiting))
            return
        waiting, self._waiting = self._waiting, []
        requests, futures = zip(*waiting, strict=True)
        try:
            for future, completion in zip(futures, self.sample(requests), strict=True):
                future.set_result(completion)
        except Exception as error:  # a caller that did not get the error would wait forever
            for future in futures:
                if not future.done():
                    future.set_exception(error)

    def load_weights(self, version: int, source: Weights) -> None:
        """Replace the weights, and free the caches of all conversations; see `Engine`."""
        if self._copied:
            weights = dict(self._policy.model.named_parameters())
            with torch.no_grad():
                for name, weight in source():
                    weights[name].copy_(weight)
        self._version = version
        self._parked.clear()  # the caches hold keys and values of the old weights

    def release(self, key: int) -> None:
        """Free the cache of a conversation."""
        self._parked.pop(key, None)

    async def probe(self, ids: Sequence[int], sampling: Sampling) -> list[Completion]:
        """Return an empty list: this engine has no servers to compare; see `Engine`."""
        return []

    def close(self) -> None:
        """Free the caches of all conversations."""
        self._parked.clear()

    @torch.inference_mode()
    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Continue each request by one completion, all in one batch.

        Random numbers depend only on the seed of each request. The last bits of log-probabilities
        depend on the batch size, so results are exactly equal only for the same batch of requests.

        Raises:
            ValueError: a request's token ids do not extend the conversation's tokens so far.
        """
        device = self._policy.model.device
        # create tensors on the GPU; on a CPU, a default device would only slow down PyTorch calls
        default = nullcontext() if device.type == "cpu" else device
        with default, self._policy.autocast():
            for key, ids, _ in requests:
                cached = self._parked[key].ids if key in self._parked else []
                if ids[: len(cached)] != cached or len(ids) == len(cached):
                    raise ValueError(f"conversation {key} does not extend its previous tokens")
            self._prefill(requests)
            return self._decode(requests)

    def _prefill(self, requests: Sequence[Request]) -> None:
        """Cache all but the last token of each conversation; equal conversations run only once."""
        keys_of: dict[tuple[int, ...], list[int]] = {}
        for key, ids, _ in requests:
            keys_of.setdefault(tuple(ids[:-1]), []).append(key)
        missing = []
        empty = self._empty()
        for fed, keys in keys_of.items():
            parked = max((self._parked.get(key, empty) for key in keys), key=lambda p: len(p.ids))
            self._parked.update(dict.fromkeys(keys, parked))
            if new := list(fed[len(parked.ids) :]):
                missing.append((new, parked, keys))
        # to limit padding, a batch has only new or only continued conversations, of similar lengths
        missing.sort(key=lambda one: (bool(one[1].ids), len(one[0])))
        for _, alike in groupby(missing, lambda one: bool(one[1].ids)):
            rest = list(alike)
            while rest:
                size = max(1, _FEED_TOKENS // len(rest[-1][0]))  # the last conversation is longest
                rest, batch = rest[:-size], rest[-size:]
                self._extend(batch)

    def _extend(self, batch: Sequence[tuple[list[int], "_Parked", list[int]]]) -> None:
        """Run new tokens through the model; keep each conversation's KV cache for its next turn.

        An entry of `batch` is (new tokens, state before them, keys of the conversations with both).
        """
        parked = [one for _, one, _ in batch]
        shared = [one.shared for one in parked] if parked[0].ids else None
        cache = _Ragged([one.own for one in parked], shared)
        cache.feed(self._policy, [tokens for tokens, _, _ in batch])
        users = Counter(id(one.shared) for one in self._parked.values())
        for row, (tokens, before, keys) in enumerate(batch):
            own, prefix = cache.park(row), before.shared
            # `Shared` recognises a common prefix by object identity, so all conversations in `keys`
            # get the same object. The tokens after the prefix join it, to be stored once, unless
            # other conversations use the prefix and copying it takes more memory than this saves.
            copied = prefix.shape[3] if users[id(prefix)] > len(keys) else 0
            if not before.ids or (len(keys) - 1) * own.shape[3] > copied:
                # cloned, since an empty view would keep the whole cache in memory
                prefix, own = torch.cat([prefix, own], dim=3), own[:, :, :, :0].clone()
            extended = _Parked([*before.ids, *tokens], prefix, own)
            self._parked.update(dict.fromkeys(keys, extended))

    def _empty(self) -> "_Parked":
        config = self._policy.model.config
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        # under autocast, keys are in fp32 until attention converts them to bf16, so cache them in
        # bf16
        dtype = getattr(torch, self._policy.precision)
        shape = config.num_hidden_layers, 2, config.num_key_value_heads, 0, size
        empty = torch.zeros(shape, dtype=dtype)
        return _Parked([], empty, empty)

    def _decode(self, requests: Sequence[Request]) -> list[Completion]:
        longest = max(request.sampling.max_tokens for request in requests)
        # drawn for all decoding steps now, so that random numbers do not depend on other requests
        numbers = [noise(request.sampling.seed, longest) for request in requests]
        temperatures = torch.tensor([[request.sampling.temperature] for request in requests])
        completions = [Completion([], [], []) for _ in requests]
        rows = list(range(len(requests)))  # index of the request that each cache row continues
        parked = [self._parked[request.key] for request in requests]
        cache = _Ragged([turn.own for turn in parked], [turn.shared for turn in parked])
        new = [request.ids[-1:] for request in requests]  # the caches hold all earlier tokens
        live = set(rows)
        for column in torch.tensor(numbers, dtype=torch.float64).T:
            logprobs = self._policy.logprobs(cache.feed(self._policy, new), temperatures[rows])
            tokens = draw(logprobs, column[rows])[:, None]
            chosen = logprobs.gather(1, tokens)[:, 0].tolist()
            new = tokens.tolist()
            for row, index in enumerate(rows):
                if index not in live:
                    continue
                ids, sampled, versions = completions[index]
                ids.append(new[row][0])
                sampled.append(chosen[row])
                versions.append(self._version)
                key, before, sampling = requests[index]
                if ids[-1] in sampling.stops or len(ids) == sampling.max_tokens:
                    live.remove(index)
                    # the last token has not been fed, so it is not in the cache
                    said = [*before, *ids[:-1]]
                    self._parked[key] = _Parked(said, parked[index].shared, cache.park(row))
            if not live:
                break
            # removing finished rows copies the caches, so wait until enough rows have finished
            if len(live) < _COMPACT_BELOW * len(rows):
                unfinished = [row for row, index in enumerate(rows) if index in live]
                cache.keep(unfinished)
                rows, new = [rows[row] for row in unfinished], [new[row] for row in unfinished]
        return completions
