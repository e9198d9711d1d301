"""Interface of engines, which sample tokens; engines do not handle episodes, tools or text.

An engine works on token ids, so this package does not import `learners.rollouts`, which uses it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor


class EngineError(Exception):
    """An engine failed to return tokens or to load weights."""


class RefusedError(EngineError):
    """An engine rejected a conversation, but may continue other conversations."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters; no top-k or top-p, since the trainer computes full distributions.

    Attributes:
        temperature: divisor of the logits, greater than 0.
        max_tokens: maximum number of tokens in one completion, end token included.
        stops: ids of the end tokens.
        seed: non-negative integers that identify this turn of this episode. An engine with
            reproducible sampling derives its random numbers only from the seed, not from the batch.
    """

    temperature: float
    max_tokens: int
    stops: Collection[int]
    seed: tuple[int, ...]


class Completion(NamedTuple):
    """Tokens that an engine sampled in one turn.

    Attributes:
        ids: token ids [n] of the sampled tokens.
        logprobs: log-probability [n] of each token at the sampling temperature.
        versions: for each token [n], the optimizer step of the weights that sampled it.
    """

    ids: list[int]
    logprobs: list[float]
    versions: list[int]


Weights = Callable[[], Iterable[tuple[str, Tensor]]]
"""Function that returns a new iterator over pairs (name in Hugging Face files, full tensor)."""


class Engine(Protocol):
    """Sampler that continues conversations, given as token ids, and returns log-probabilities.

    Attributes:
        max_concurrency: maximum number of concurrent conversations.
        repeatable: whether the same concurrent requests return the same tokens and
            log-probabilities, to the last bit.
    """

    max_concurrency: int
    repeatable: bool

    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        """Continue a conversation by one completion.

        Args:
            key: identifies the conversation across turns.
            ids: all token ids of the conversation so far.
            sampling: sampling parameters.

        Raises:
            EngineError: the engine returned no tokens.
        """
        ...

    def release(self, key: int) -> None:
        """Free the cache of a conversation."""
        ...

    def load_weights(self, version: int, source: Weights) -> None:
        """Replace the weights from which the engine samples.

        Args:
            version: number of the optimizer step that produced the new weights; 0 before training.
            source: function that returns the new weights.

        Raises:
            EngineError: the weights could not be loaded.
        """
        ...

    async def probe(self, ids: Sequence[int], sampling: Sampling) -> list[Completion]:
        """Sample a completion on each server, to compare its log-probabilities with the trainer's.

        An in-process engine returns an empty list, since each training step compares the engine's
        log-probabilities with the trainer's anyway.
        """
        ...

    def close(self) -> None:
        """Close connections and free memory."""
        ...
