"""Interface of training backends, which hold the policy's weights and optimizer."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from learners.losses import Loss
from learners.training.batching import PackedRow
from learners.training.policy import Policy


class Backend(Protocol):
    """Training backend; all methods are collective, so every rank has to call them."""

    def prepare(self) -> Policy:
        """Load the model, shard it over the ranks, and create the optimizer.

        Returns:
            The policy to train.
        """
        ...

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the next steps."""
        ...

    def train_step(self, batches: Sequence[PackedRow], loss: Loss) -> Mapping[str, float]:
        """Take one optimizer step on a global batch, which is the same on all ranks.

        A batch whose advantages are all zero changes nothing; see `step.train_step`.

        Returns:
            Metrics, such as means over the loss tokens of the global batch.

        Raises:
            ValueError: the batch has no loss tokens.
            FloatingPointError: the gradient is not finite; the weights are unchanged.
        """
        ...

    def score(self, batch: PackedRow) -> Tensor:
        """Return log-probabilities [n] of a row's loss tokens; all ranks pass the same row."""
        ...

    def iter_weights(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, full tensor), named as in Hugging Face checkpoints, in step on all ranks.

        Args:
            dtype: what the caller converts the tensors to; a backend may do so before it gathers.
        """
        ...

    def save(self, folder: Path) -> "Future[Any] | None":
        """Write weights and optimizer state into an empty folder.

        Returns:
            A future if the write continues in the background, otherwise None.
        """
        ...

    def load(self, folder: Path) -> None:
        """Load a checkpoint written by `save`, even on another number of ranks."""
        ...
