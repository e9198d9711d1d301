"""The embedded engine: a batched decode loop over a transformers cache that spans turns.

Between turns a conversation's keys and values are parked; a turn stacks them, feeds only the
tokens that are new, and samples. Conversations with the same prompt share its cache.
"""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin

from learners.attention import Shared
from learners.engines import Completion, Sampling, Weights
from learners.policy import Policy

_FEED_TOKENS = 8192
_GROW = 128
_COMPACT_BELOW = 0.75


class _RaggedLayer(CacheLayerMixin):
    """One layer's keys and values [rows, key heads, capacity, head size].

    Each row has its own length; what lies behind it is garbage that the mask hides and the next
    token overwrites.
    """

    def __init__(self, keys: Tensor, values: Tensor, starts: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys: Tensor = keys
        self.values: Tensor = values
        self.starts = starts
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the layer is built with its tensors."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write new tokens, each row from its own start."""
        rows, heads, q, size = key_states.shape
        end = int(self.starts.max()) + q
        if end > self.keys.shape[2]:
            room = self.keys.new_zeros(rows, heads, end + _GROW - self.keys.shape[2], size)
            self.keys = torch.cat([self.keys, room], dim=2)
            self.values = torch.cat([self.values, room], dim=2)
        row = torch.arange(rows)[:, None]
        place = self.starts[:, None] + torch.arange(q)
        self.keys[row, :, place] = key_states.transpose(1, 2).to(self.keys.dtype)
        self.values[row, :, place] = value_states.transpose(1, 2).to(self.values.dtype)
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of the keys that a query of this length sees."""
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        """The longest row."""
        return int(self.starts.max())

    def get_max_length(self) -> int:
        """No limit."""
        return -1


class _Ragged:
    """The stacked caches of the conversations that are being continued.

    Args:
        own: each row's cache of what came after its prompt, [layers, 2, key heads, tokens, size].
        prompts: each row's prompt, likewise; the same object for rows that share it. None if the
            prompts are what is to be fed.
    """

    def __init__(self, own: Sequence[Tensor], prompts: Sequence[Tensor] | None = None) -> None:
        self.starts = torch.tensor([one.shape[3] for one in own])
        self.shared = Shared.of(prompts) if prompts else None
        layers, _, heads, _, size = own[0].shape
        capacity = int(self.starts.max()) + _GROW
        stacked = own[0].new_zeros(layers, 2, len(own), heads, capacity, size)
        for row, one in enumerate(own):
            stacked[:, :, row, :, : one.shape[3]] = one
        self.layers = [_RaggedLayer(keys, values, self.starts) for keys, values in stacked]

    def feed(self, policy: Policy, tokens: list[list[int]]) -> Tensor:
        """Run new tokens through the model; the hidden state [rows, width] of each row's last."""
        counts = torch.tensor([len(one) for one in tokens])
        q = int(counts.max())
        padded = torch.tensor([one + [0] * (q - len(one)) for one in tokens])
        slots = self.starts[:, None] + torch.arange(q)
        end = int(self.starts.max()) + q
        mask = torch.arange(end) <= slots[:, :, None]
        shared = self.shared
        for layer in self.layers:
            layer.starts = self.starts
        hidden = policy.hidden(
            padded,
            slots if shared is None else slots + shared.lengths[shared.prompt_of, None],
            slot_mask=mask[:, None],
            shared=shared,
            past_key_values=Cache(layers=list(self.layers)),
            use_cache=True,
        )
        self.starts = self.starts + counts
        return hidden[torch.arange(len(tokens)), counts - 1]

    def park(self, row: int) -> Tensor:
        """A copy of one row's own cache, [layers, 2, key heads, tokens, head size]."""
        n = int(self.starts[row])
        rows = [torch.stack([one.keys[row, :, :n], one.values[row, :, :n]]) for one in self.layers]
        return torch.stack(rows)

    def keep(self, rows: list[int]) -> None:
        """Drop the other rows."""
        self.starts = self.starts[rows]
        if self.shared is not None:
            self.shared = self.shared.keep(rows)
        for layer in self.layers:
            layer.keys, layer.values = layer.keys[rows], layer.values[rows]


def noise(seed: Sequence[int], tokens: int) -> list[float]:
    """Numbers in [0, 1), one for each of a turn's tokens; the seed alone says which."""
    return np.random.default_rng(seed).random(tokens).tolist()  # type: ignore[no-any-return]


def draw(logprobs: Tensor, numbers: Tensor) -> Tensor:
    """From each distribution the token at which its cumulated probabilities pass a number.

    Args:
        logprobs: [n, vocabulary].
        numbers: [n], in [0, 1), fp64.

    Returns:
        Token ids [n].
    """
    passed = logprobs.exp().cumsum(1, dtype=torch.float64)
    # over the last, which is then exactly 1: no number is beyond it
    return torch.searchsorted(passed / passed[:, -1:], numbers[:, None], right=True)[:, 0]


class Request(NamedTuple):
    """A turn that is wanted of a conversation.

    Attributes:
        key: names the conversation from turn to turn.
        ids: all its tokens so far.
        sampling: how to continue it.
    """

    key: int
    ids: list[int]
    sampling: Sampling


class _Parked(NamedTuple):
    """A conversation between turns: its tokens, its prompt's cache and that of the rest."""

    ids: list[int]
    prompt: Tensor
    own: Tensor


class TransformersEngine:
    """Samples from a policy in this process, all conversations that ask in one batch.

    Args:
        policy: samples.
        own: whether its weights are a copy, which `load_weights` has to fill; else they are the
            trainer's, and change under way.
    """

    at_once = 128
    repeatable = True

    def __init__(self, policy: Policy, own: bool = False) -> None:
        self._version = 0
        self._policy = policy
        self._own = own
        self._parked: dict[int, _Parked] = {}
        self._asked: list[tuple[Request, asyncio.Future[Completion]]] = []

    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        """Continue a conversation by one completion; see `Engine`."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Completion] = loop.create_future()
        self._asked.append((Request(key, list(ids), sampling), answer))
        if len(self._asked) == 1:
            loop.call_soon(self._collect, 1)
        return await answer

    def _collect(self, before: int) -> None:
        """Sample for all who ask, once nobody joins them any more."""
        if len(self._asked) > before:
            asyncio.get_running_loop().call_soon(self._collect, len(self._asked))
            return
        asked, self._asked = self._asked, []
        requests, answers = zip(*asked, strict=True)
        try:
            for answer, said in zip(answers, self.sample(requests), strict=True):
                answer.set_result(said)
        except Exception as error:  # whatever it is, those who wait must hear of it
            for answer in answers:
                if not answer.done():
                    answer.set_exception(error)

    def load_weights(self, version: int, source: Weights) -> None:
        """Take the weights, and forget every conversation's cache; see `Engine`."""
        if self._own:
            own = dict(self._policy.model.named_parameters())
            with torch.no_grad():
                for name, weight in source():
                    own[name].copy_(weight)
        self._version = version
        self._parked.clear()

    def release(self, key: int) -> None:
        """Forget a conversation's cache."""
        self._parked.pop(key, None)

    def close(self) -> None:
        """Forget all of them."""
        self._parked.clear()

    @torch.inference_mode()
    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Continue each request by one completion, all in one batch.

        Noise is each request's own, by its seed. The last bits of log-probabilities depend on how
        many rows a batch has, so only the same requests together repeat themselves exactly.

        Raises:
            ValueError: a conversation does not extend what it was at its last turn.
        """
        if not requests:
            return []
        device = self._policy.model.device
        # where new tensors are made; on a CPU this only costs, every call passes through it
        place = nullcontext() if device.type == "cpu" else device
        with place, self._policy.autocast():
            self._prefill([one for one in requests if one.key not in self._parked])
            for key, ids, _ in requests:
                cached = self._parked[key].ids
                if ids[: len(cached)] != cached or len(ids) == len(cached):
                    raise ValueError(f"conversation {key} does not extend what it was")
            return self._decode(requests)

    def _prefill(self, requests: Sequence[Request]) -> None:
        """Park every new conversation's cache of all but its last token."""
        keys_of: dict[tuple[int, ...], list[int]] = {}
        for key, ids, _ in requests:
            keys_of.setdefault(tuple(ids[:-1]), []).append(key)
        config = self._policy.model.config
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        # autocast leaves keys in fp32 and attends in bf16: the cache holds what attention reads
        dtype = getattr(torch, self._policy.precision)
        shape = config.num_hidden_layers, 2, config.num_key_value_heads, 0, size
        empty = torch.zeros(shape, dtype=dtype)
        for key in keys_of.pop((), []):  # one token: nothing to compute before it
            self._parked[key] = _Parked([], empty, empty)
        prompts = sorted(keys_of, key=len)
        at_once = max(1, _FEED_TOKENS // max(map(len, prompts), default=1))
        for first in range(0, len(prompts), at_once):
            some = prompts[first : first + at_once]
            cache = _Ragged([empty] * len(some))
            cache.feed(self._policy, [list(prompt) for prompt in some])
            for row, prompt in enumerate(some):
                computed = cache.park(row)
                for key in keys_of[prompt]:
                    self._parked[key] = _Parked(list(prompt), computed, empty)

    def _decode(self, requests: Sequence[Request]) -> list[Completion]:
        longest = max(one.sampling.max_tokens for one in requests)
        drawn = [noise(one.sampling.seed, longest) for one in requests]
        done = [Completion([], [], []) for _ in requests]
        rows = list(range(len(requests)))  # which request each row of the cache continues
        parked = [self._parked[one.key] for one in requests]
        cache = _Ragged([one.own for one in parked], [one.prompt for one in parked])
        new = [one.ids[len(before.ids) :] for one, before in zip(requests, parked, strict=True)]
        live = set(rows)
        for column in torch.tensor(drawn, dtype=torch.float64).T:
            logprobs = self._policy.logprobs(cache.feed(self._policy, new))
            tokens = draw(logprobs, column[rows])[:, None]
            chosen = logprobs.gather(1, tokens)[:, 0].tolist()
            new = tokens.tolist()
            for row, index in enumerate(rows):
                if index not in live:
                    continue
                ids, known, versions = done[index]
                ids.append(new[row][0])
                known.append(chosen[row])
                versions.append(self._version)
                key, before, sampling = requests[index]
                if ids[-1] == sampling.stop or len(ids) == sampling.max_tokens:
                    live.remove(index)
                    self._parked[key] = _Parked(
                        [*before, *ids[:-1]], parked[index].prompt, cache.park(row)
                    )
            if not live:
                break
            # a finished row rides along until enough have finished to pay for the copy
            if len(live) < _COMPACT_BELOW * len(rows):
                kept = [row for row, index in enumerate(rows) if index in live]
                cache.keep(kept)
                rows, new = [rows[row] for row in kept], [new[row] for row in kept]
        return done
