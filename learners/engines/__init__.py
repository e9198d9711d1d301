"""Engines sample tokens. They know nothing of episodes, tools or text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample: always the full distribution, so that log-probabilities are exact.

    Attributes:
        temperature: divides the logits; greater than 0.
        max_tokens: limit of one completion, its end token included.
        stop: the token id that ends a completion.
        seed: of this call.
    """

    temperature: float
    max_tokens: int
    stop: int
    seed: int


class Completion(NamedTuple):
    """Sampled tokens with their log-probabilities at the sampling temperature, both [n]."""

    ids: list[int]
    logprobs: list[float]


class Engine(Protocol):
    """Token ids in, token ids and log-probabilities out."""

    def generate(self, requests: Sequence["Request"], sampling: Sampling) -> list[Completion]:
        """Continue each request by one completion."""
        ...

    def release(self, keys: Sequence[int]) -> None:
        """Forget what is cached for these conversations."""
        ...


class Request(NamedTuple):
    """A conversation so far: `key` names it from turn to turn, `ids` are all its tokens."""

    key: int
    ids: list[int]
