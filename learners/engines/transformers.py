"""In-process engine: batched decoding with a transformers KV cache that persists between turns.

Between turns, the cache of each conversation is parked. A turn stacks the caches of a batch, feeds
only the new tokens, and samples. Conversations with the same prompt share its cache.
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

from learners.engines import Completion, Sampling, Weights
from learners.training.attention import Shared
from learners.training.policy import Policy

_FEED_TOKENS = 8192  # limit of a prefill batch, padding included
_GROW = 128  # tokens by which the cache's capacity grows
_COMPACT_BELOW = 0.75  # share of unfinished rows


class _RaggedLayer(CacheLayerMixin):
    """KV cache of one layer, [rows, key heads, capacity, head size], with a length for each row.

    Slots behind a row's end hold garbage, which the mask hides and later tokens overwrite.
    """

    def __init__(self, keys: Tensor, values: Tensor, starts: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys: Tensor = keys
        self.values: Tensor = values
        self.starts = starts
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Do nothing: the tensors exist already."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write new tokens at each row's end; return all keys and values."""
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
        """Return length and offset of the keys visible to a query of this length."""
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        return int(self.starts.max())

    def get_max_length(self) -> int:
        """Return -1, for no limit."""
        return -1


class _Ragged:
    """Stacked KV caches of a batch of conversations.

    Args:
        own: cache of each row after its prompt, [layers, 2, key heads, tokens, head size].
        prompts: cache of each row's prompt, in the same layout; rows that share a prompt pass the
            same object. None to prefill the prompts themselves.
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
        """Run new tokens through the model; return each row's last hidden state [rows, width]."""
        counts = torch.tensor([len(one) for one in tokens])
        q = int(counts.max())
        padded = torch.tensor([one + [0] * (q - len(one)) for one in tokens])
        slots = self.starts[:, None] + torch.arange(q)
        end = int(self.starts.max()) + q
        # causal; also hides the garbage behind each row's end
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
        # the padding of shorter rows was written too, but lies behind their new ends
        self.starts = self.starts + counts
        return hidden[torch.arange(len(tokens)), counts - 1]

    def park(self, row: int) -> Tensor:
        """Return a copy of one row's cache, [layers, 2, key heads, tokens, head size]."""
        n = int(self.starts[row])
        rows = [torch.stack([one.keys[row, :, :n], one.values[row, :, :n]]) for one in self.layers]
        return torch.stack(rows)

    def keep(self, rows: list[int]) -> None:
        self.starts = self.starts[rows]
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
        logprobs: [n, vocabulary].
        numbers: uniform random numbers [n] in [0, 1), fp64.

    Returns:
        Token ids [n].
    """
    passed = logprobs.exp().cumsum(1, dtype=torch.float64)
    # normalised, so that the last value is exactly 1 and exceeds every number despite rounding
    return torch.searchsorted(passed / passed[:, -1:], numbers[:, None], right=True)[:, 0]


class Request(NamedTuple):
    """One turn to sample.

    Attributes:
        key: identifies the conversation across turns.
        ids: all token ids of the conversation so far.
        sampling: sampling parameters.
    """

    key: int
    ids: list[int]
    sampling: Sampling


class _Parked(NamedTuple):
    """A conversation between turns: cached token ids, KV cache of the prompt and of the rest."""

    ids: list[int]
    prompt: Tensor
    own: Tensor


class TransformersEngine:
    """Samples from a policy in this process; concurrent requests form one batch.

    Args:
        policy: the policy to sample from.
        own: whether its weights are a copy, filled by `load_weights`; otherwise they are the
            trainer's, which training changes in place.
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
        """Sample all requests, once a pass of the event loop adds no more."""
        if len(self._asked) > before:
            asyncio.get_running_loop().call_soon(self._collect, len(self._asked))
            return
        asked, self._asked = self._asked, []
        requests, answers = zip(*asked, strict=True)
        try:
            for answer, said in zip(answers, self.sample(requests), strict=True):
                answer.set_result(said)
        except Exception as error:  # every caller must get it, or it would wait forever
            for answer in answers:
                if not answer.done():
                    answer.set_exception(error)

    def load_weights(self, version: int, source: Weights) -> None:
        """Replace the weights, and free the caches of all conversations; see `Engine`."""
        if self._own:
            own = dict(self._policy.model.named_parameters())
            with torch.no_grad():
                for name, weight in source():
                    own[name].copy_(weight)
        self._version = version
        self._parked.clear()

    def release(self, key: int) -> None:
        """Free the cache of a conversation."""
        self._parked.pop(key, None)

    def behind(self, version: int) -> list[str]:
        """Return an empty list: there are no servers."""
        return []

    async def probe(self, ids: Sequence[int], sampling: Sampling) -> list[Completion]:
        """Return an empty list: training compares every sampled token."""
        return []

    def sleep(self) -> None:
        """Do nothing: `colocated` requires vLLM."""

    def wake(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Free all caches."""
        self._parked.clear()

    @torch.inference_mode()
    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Continue each request by one completion, all in one batch.

        Random numbers depend on the seed of each request only. The last bits of log-probabilities
        depend on the batch size, so only the same batch of requests has the same results.

        Raises:
            ValueError: a conversation does not extend its tokens of the last turn.
        """
        if not requests:
            return []
        device = self._policy.model.device
        # default device of new tensors; skipped on CPUs, since it slows down every PyTorch call
        place = nullcontext() if device.type == "cpu" else device
        with place, self._policy.autocast():
            self._prefill([one for one in requests if one.key not in self._parked])
            for key, ids, _ in requests:
                cached = self._parked[key].ids
                if ids[: len(cached)] != cached or len(ids) == len(cached):
                    raise ValueError(f"conversation {key} does not extend what it was")
            return self._decode(requests)

    def _prefill(self, requests: Sequence[Request]) -> None:
        """Compute and park the caches of new conversations, without their last token."""
        keys_of: dict[tuple[int, ...], list[int]] = {}
        for key, ids, _ in requests:
            keys_of.setdefault(tuple(ids[:-1]), []).append(key)
        config = self._policy.model.config
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        # under autocast keys are fp32, but attention converts them to bf16: cache the result
        dtype = getattr(torch, self._policy.precision)
        shape = config.num_hidden_layers, 2, config.num_key_value_heads, 0, size
        empty = torch.zeros(shape, dtype=dtype)
        for key in keys_of.pop((), []):  # conversations of one token have no prefix to compute
            self._parked[key] = _Parked([], empty, empty)
        # prompts of similar length share a batch, which needs little padding
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
                    # the last token has not been fed, so it is not in the cache
                    self._parked[key] = _Parked(
                        [*before, *ids[:-1]], parked[index].prompt, cache.park(row)
                    )
            if not live:
                break
            # finished rows stay in the batch until enough have finished to justify a copy
            if len(live) < _COMPACT_BELOW * len(rows):
                kept = [row for row, index in enumerate(rows) if index in live]
                cache.keep(kept)
                rows, new = [rows[row] for row in kept], [new[row] for row in kept]
        return done
