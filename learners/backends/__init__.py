"""Backends hold the weights that are trained and step them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from learners.batching import Batch
from learners.losses import Loss


class Backend(Protocol):
    """What the main job asks of a trainer."""

    def train_step(self, batches: Sequence[Batch], loss: Loss) -> Mapping[str, float]:
        """One optimizer step on a global batch; means over its loss tokens."""
        ...

    def save(self, folder: Path) -> None:
        """Write weights and optimizer state into an empty folder."""
        ...

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        ...
