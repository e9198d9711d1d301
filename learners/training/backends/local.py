"""Backend for one process and one device, in plain PyTorch."""

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor
from torch.distributed.tensor import DTensor

from learners.losses import Loss
from learners.training import models, ranks
from learners.training.backends.step import (
    OptimizerSettings,
    PolicySettings,
    make_cost,
    make_optimizer,
    make_policy,
    merge_adapters,
    set_learning_rate,
    train_step,
)
from learners.training.batching import PackedRow
from learners.training.policy import Policy


class LocalBackend:
    """AdamW on unsharded weights, and the base of the backends that shard them.

    All methods are collective: every rank has to call them.

    Args:
        policy: what the policy is made of.
        optimizer: settings of the optimizer.
    """

    def __init__(self, policy: PolicySettings, optimizer: OptimizerSettings) -> None:
        self._settings, self._optimizer_settings = policy, optimizer

    def prepare(self) -> Policy:
        """Load the model and create the optimizer; training changes the policy in place."""
        settings = self._settings
        model = models.load(settings.model, ranks.device())
        self._policy = make_policy(settings, model, settings.precision)
        self._cost = make_cost(model, bool(settings.lora_rank))
        ends: Any = model.get_input_embeddings(), model.get_output_embeddings()
        vocabulary = [one.weight for one in ends]
        weights = self._policy.parameters()
        self._optimizer = make_optimizer(weights, self._optimizer_settings, vocabulary)
        return self._policy

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the next steps."""
        set_learning_rate(self._optimizer, rate)

    def train_step(self, batches: Sequence[PackedRow], loss: Loss) -> Mapping[str, float]:
        """Take one optimizer step on a global batch, which is the same on all ranks.

        A batch whose advantages are all zero changes nothing; see `step.train_step`.

        Returns:
            Metrics, such as means over the loss tokens of the global batch.

        Raises:
            ValueError: the batch has no loss tokens.
            FloatingPointError: the gradient is not finite; the weights are unchanged.
        """
        self._policy.train()
        try:
            steps = self._backward, self._optimize
            return train_step(self._policy, self._cost, batches, loss, *steps)
        finally:
            # sampling comes next, which needs neither gradients nor recomputed activations
            self._optimizer.zero_grad()
            self._policy.eval()

    def _backward(self, part: Tensor, last: bool) -> None:
        part.backward()

    def _optimize(self) -> float:
        weights = self._policy.parameters()
        norm = torch.nn.utils.clip_grad_norm_(weights, self._optimizer_settings.max_grad_norm)
        # of shards, the norm is a DTensor of partial sums
        value = float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
        if math.isfinite(value):  # nan would also spoil Adam's moments, for all later steps
            self._optimizer.step()
        return value

    @torch.no_grad()
    def score(self, batch: PackedRow) -> Tensor:
        """Return log-probabilities [n] of a row's loss tokens; all ranks pass the same row."""
        logprobs: Tensor = self._policy(batch.to(ranks.device()))[0]
        return logprobs

    def iter_weights(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, full tensor), named as in Hugging Face checkpoints, in step on all ranks.

        Args:
            dtype: what the caller converts the tensors to; a backend may do so before it gathers.
        """
        # a tied head is not listed twice, as in the model's files
        weights = self._policy.model.named_parameters()
        named = ((name, weight.detach()) for name, weight in weights)
        return merge_adapters(self._settings, named)

    def save(self, folder: Path) -> "Future[object] | None":
        """Write weights and optimizer state into an empty folder.

        Returns:
            A future if the write continues in the background, otherwise None.
        """
        # a frozen base model is written too: a checkpoint needs no other file to be loaded
        save_model(self._policy, str(folder / "policy.safetensors"))
        torch.save(self._optimizer.state_dict(), folder / "optimizer.pt")
        return None

    def load(self, folder: Path) -> None:
        """Load a checkpoint written by `save`; sharded ones even on another number of ranks."""
        load_model(self._policy, str(folder / "policy.safetensors"))
        # by default, tensors go to the GPU that saved them, which may be another or none
        state = torch.load(folder / "optimizer.pt", map_location="cpu", weights_only=True)
        self._optimizer.load_state_dict(state)
