"""Backends hold the weights that are trained and step them."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from learners.batching import Batch
from learners.config import Config
from learners.losses import Loss
from learners.policy import Policy


class Backend(Protocol):
    """What the main job asks of a trainer; each call is made on all ranks at once."""

    def prepare(self, config: Config) -> Policy:
        """Load the configured model, share it out over the ranks, and make the optimizer.

        Returns:
            The policy that is trained.
        """
        ...

    def train_step(self, batches: Sequence[Batch], loss: Loss) -> Mapping[str, float]:
        """One optimizer step on a global batch, the same on all ranks; means over its loss tokens.

        A batch whose advantages are all zero changes nothing, see `step.train_step`.

        Raises:
            ValueError: no token was sampled.
            FloatingPointError: the gradient is not finite; the weights are as they were.
        """
        ...

    def score(self, batch: Batch) -> Tensor:
        """Log-probabilities [n] of a row's loss tokens; the same row on all ranks."""
        ...

    def iter_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Names and full tensors of the model in Hugging Face's format, one at a time."""
        ...

    def save(self, folder: Path) -> "Future[Any] | None":
        """Write weights and optimizer state into an empty folder.

        Returns:
            The writing, where it goes on while this returns.
        """
        ...

    def load(self, folder: Path) -> None:
        """Read what `save` wrote, also on another number of ranks."""
        ...


def make_backend(config: Config) -> Backend:
    """The backend of a configuration, with its weights loaded.

    Raises:
        ImportError: its library is not installed.
    """
    names = {"local": "LocalBackend", "fsdp2": "FSDP2Backend", "deepspeed": "DeepSpeedBackend"}
    module = import_module(f"learners.backends.{config.backend}")
    return getattr(module, names[config.backend])()  # type: ignore[no-any-return]
