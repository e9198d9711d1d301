"""Backend for one process and one device, in plain PyTorch."""

import math
import operator
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from learners.losses import Feedback, Loss, LossInput, Totals
from learners.training import flops, models, ranks
from learners.training.backends.settings import (
    BackendSettings,
    make_optimizer,
    make_policy,
    merge_adapters,
)
from learners.training.policy import Policy
from learners.training.rows import PackedRow, distribute
from learners.training.teacher import Teacher


class LocalBackend:
    """Backend with AdamW or Muon on unsharded weights; base class of the sharding backends.

    All methods are collective: every rank has to call each of them.
    """

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings

    def prepare(self) -> Policy:
        """Load the model, create the optimizer and return the policy, which training changes.

        Raises:
            ConfigError: the FLOPs of the model's architecture are unknown.
        """
        settings = self._settings
        model = models.load(settings.model, ranks.device())
        self._policy = self._make_policy(model, settings.precision)
        vocabulary = model.get_input_embeddings(), model.get_output_embeddings()
        ends = [weight for one in vocabulary for weight in one.parameters()]
        self._optimizer = make_optimizer(self._policy.parameters(), settings, ends)
        return self._policy

    def _make_policy(self, model: PreTrainedModel, precision: str) -> Policy:
        self._sizes = flops.Sizes(model.config)
        return make_policy(self._settings, model, precision)

    @cached_property
    def _teacher(self) -> Teacher | None:
        settings = self._settings
        if not settings.teacher:
            return None
        return Teacher(settings.teacher, settings.temperature, settings.precision)

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the next steps."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def train_step(self, batches: Sequence[PackedRow], loss: Loss) -> Mapping[str, float]:
        """Take one optimizer step on a global batch.

        If all advantages are zero, because the rewards in each group are equal, and neither hints
        nor a teacher contribute to the loss, this method only computes metrics: the optimizer's
        momentum would change the weights despite zero gradients.

        Args:
            batches: packed rows of the global batch, the same on all ranks.
            loss: policy loss, normalised by the size of the global batch.

        Returns:
            Means of metrics over the loss tokens of the global batch, or maxima for names `*_max`;
            `loss`; `gradient_norm`; throughput; `skipped`, which is 1 for a skipped update; and
            with a teacher, `ref_kl`, the mean of log p - log p(teacher).

        Raises:
            ValueError: the batch has no loss tokens.
            FloatingPointError: the gradient is not finite; the weights are unchanged.
        """
        self._policy.train()
        try:
            return self._train_step(batches, loss)
        finally:
            # the next phase is sampling, which needs no gradients and no activation checkpointing
            self._optimizer.zero_grad()
            self._policy.eval()

    def _train_step(self, batches: Sequence[PackedRow], loss: Loss) -> dict[str, float]:
        began = time.monotonic()
        rollouts = sum(len(batch.sequences.unique()) for batch in batches)
        total = Totals(sum(len(batch.targets) for batch in batches), rollouts)
        if not total.tokens:
            raise ValueError("a batch without sampled tokens cannot be trained on")
        taught = self._settings.teacher or any(len(row.teacher) for row in batches)
        drawn = taught and self._settings.feedback_weight
        moved = (len(row.marked) or bool(row.advantages.any()) for row in batches)
        skipped = not (drawn or any(moved))
        rows = distribute(batches, ranks.world(), self._cost)[ranks.rank()]
        sums: dict[str, float] = {}
        for number, row in enumerate(rows, 1):
            batch = row.to(ranks.device())
            # a skipped batch also needs the forward pass on all ranks, for its metrics
            with torch.set_grad_enabled(not skipped):
                logprobs, entropy, feedback = self._scored(batch)
                columns = batch.logprobs, batch.advantages, batch.sequences, batch.rollouts
                part, metrics = loss(LossInput(logprobs, *columns, total, feedback))
            # run the backward pass row by row, so that only one row's activations exist at a time
            if not skipped:
                self._backward(part, number == len(rows))
            metrics = {**metrics, "loss": float(part.detach()), "entropy": float(entropy.sum())}
            if feedback and not len(batch.marked):  # feedback of a teacher, not of hints
                metrics["ref_kl"] = float((logprobs.detach() - feedback.logprobs).sum())
            for name, value in metrics.items():
                add = max if name.endswith("_max") else operator.add
                sums[name] = add(sums.get(name, 0.0), value)
        norm = 0.0 if skipped else self._optimize()
        if not math.isfinite(norm):
            raise FloatingPointError(f"the gradient norm is {norm}")
        ranks.synchronize()  # wait, since a GPU may still be updating the weights
        seconds = time.monotonic() - began
        # the loss is already divided by the size of the global batch; see `losses`
        means = {
            name: value if name == "loss" or name.endswith("_max") else value / total.tokens
            for name, value in ranks.reduce(sums).items()
        }
        if (marked := means.pop("feedback_tokens", 0.0)) > 0:
            means["feedback_gap"] /= marked
        # masked tokens add 0 to both sums of ratios, so divide the sums by the number of unmasked
        # tokens
        share = max(1e-9, 1 - means["masked"])
        mean, square = means.pop("ratio") / share, means.pop("ratio_deviation") / share
        return {
            **means,
            "ratio": mean,
            # a ratio r has the variance E[(r - 1)^2] - (E[r] - 1)^2; rounding may yield less than 0
            "ratio_std": math.sqrt(max(0.0, square - (mean - 1) ** 2)),
            "gradient_norm": norm,
            "skipped": float(skipped),
            **_speed(batches, sum(map(self._cost, batches)), seconds),
        }

    def _scored(self, row: PackedRow) -> tuple[Tensor, Tensor, Feedback | None]:
        """Return log-probabilities [n] and entropies [n] of loss tokens, and feedback, if any."""
        settings, teacher, n = self._settings, self._teacher, len(row.targets)
        if teacher and settings.feedback_weight and settings.feedback_form == "full":
            scores, entropy, *known = self._policy(row, *teacher.states(row))
        else:
            scores, entropy, *known = self._policy(row)
        if teacher and not known:
            known = [teacher.logprobs(row)]
        elif len(row.teacher):
            known = [row.teacher]
        if not known:
            return scores, entropy, None
        marked = row.marked if len(row.marked) else torch.arange(n, device=scores.device)
        return scores[:n], entropy, Feedback(marked, known[0], scores[n:])

    def _cost(self, row: PackedRow) -> int:
        return flops.train_flops(self._sizes, row, frozen=bool(self._settings.lora_rank))

    def _backward(self, part: Tensor, last: bool) -> None:
        """Add the gradients of a row's loss; `last` marks the last row of a step."""
        part.backward()

    def _optimize(self) -> float:
        """Clip the gradient, update the weights if its norm is finite, and return the norm."""
        weights = self._policy.parameters()
        norm = torch.nn.utils.clip_grad_norm_(weights, self._settings.max_grad_norm)
        # the norm of sharded gradients is a DTensor whose parts are not combined yet
        value = float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
        if math.isfinite(value):  # nan would also stay in Adam's moments for all later steps
            self._optimizer.step()
        return value

    @torch.no_grad()
    def score(self, batch: PackedRow) -> Tensor:
        """Return log-probabilities [n] of a row's loss tokens; all ranks pass the same row."""
        logprobs: Tensor = self._policy(batch.to(ranks.device()))[0]
        return logprobs

    def iter_weights(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[str, Tensor]]:
        """Yield the weights on all ranks, as (name in Hugging Face checkpoints, full tensor).

        Every rank has to exhaust the iterator: ranks gather sharded tensors together, one by one.

        Args:
            dtype: dtype that the caller needs; a backend may yield tensors of another dtype.
        """
        # `named_parameters` lists a tied weight once, as the model's files do
        weights = self._policy.model.named_parameters()
        named = ((name, weight.detach()) for name, weight in weights)
        return merge_adapters(self._settings, named)

    def save(self, folder: Path) -> "Future[object] | None":
        """Write weights and optimizer state into an empty folder.

        Returns:
            A future if the write continues in the background, otherwise None.
        """
        # with adapters, the file includes the frozen base model: a checkpoint needs no other files
        save_model(self._policy, str(folder / "policy.safetensors"))
        torch.save(self._optimizer.state_dict(), folder / "optimizer.pt")
        return None

    def load(self, folder: Path) -> None:
        """Load a checkpoint written by `save`; only FSDP2 accepts a different number of ranks."""
        load_model(self._policy, str(folder / "policy.safetensors"))
        # by default, tensors go to the GPU from which they were saved, which may not exist here
        state = torch.load(folder / "optimizer.pt", map_location="cpu", weights_only=True)
        self._optimizer.load_state_dict(state)


def _speed(batches: Sequence[PackedRow], operations: float, seconds: float) -> dict[str, float]:
    """Return packed tokens and tokens/s of all ranks together, and TFLOP/s and MFU per rank."""
    tokens = sum(len(batch.tokens) for batch in batches)
    flops_per_s = operations / seconds / ranks.world()
    device = ranks.device()
    gpu = flops.find_gpu(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
    return {
        "trained_tokens": tokens,
        "trained_tokens_per_s": tokens / seconds,
        "tflops": flops_per_s / 1e12,
        **({"mfu": flops_per_s / gpu.flops} if gpu else {}),
    }
