"""Engines sample tokens. They know nothing of episodes, tools or text."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor


class EngineError(Exception):
    """An engine gave no tokens, or cannot take weights."""


class RefusedError(EngineError):
    """An engine will not continue this conversation; others it may."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample: always the full distribution, so that log-probabilities are exact.

    Attributes:
        temperature: divides the logits; greater than 0.
        max_tokens: limit of one completion, its end token included.
        stop: the token id that ends a completion.
        seed: integers, at least 0, that name this turn of this episode; an engine whose draws can
            be repeated draws the same for the same ones, whatever else it samples.
    """

    temperature: float
    max_tokens: int
    stop: int
    seed: tuple[int, ...]


class Completion(NamedTuple):
    """Sampled tokens, all [n].

    Attributes:
        ids: of the tokens.
        logprobs: theirs, at the sampling temperature.
        versions: the optimizer steps behind the weights that sampled each token.
    """

    ids: list[int]
    logprobs: list[float]
    versions: list[int]


Weights = Callable[[], Iterable[tuple[str, Tensor]]]
"""Names and full tensors in Hugging Face's format, from the first on at each call."""


class Engine(Protocol):
    """Token ids in, token ids and log-probabilities out.

    Attributes:
        at_once: how many conversations it continues side by side.
        repeatable: whether the same conversations, side by side, are continued by the same tokens
            with the same log-probabilities, to the last bit.
    """

    at_once: int
    repeatable: bool

    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        """Continue a conversation by one completion.

        Args:
            key: names the conversation from turn to turn.
            ids: all its tokens so far.
            sampling: how.

        Raises:
            EngineError: no tokens could be had.
        """
        ...

    def release(self, key: int) -> None:
        """Forget what is cached for a conversation."""
        ...

    def load_weights(self, version: int, source: Weights) -> None:
        """Sample with other weights from now on.

        Args:
            version: optimizer steps behind them.
            source: where they come from.

        Raises:
            EngineError: they could not be taken.
        """
        ...

    def close(self) -> None:
        """Let go of processes, connections and memory."""
        ...
