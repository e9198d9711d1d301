"""What a training step is, whoever holds the weights."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from learners import flops, ranks
from learners.batching import Batch, distribute
from learners.config import Config
from learners.losses import Loss, Totals
from learners.policy import Policy


def make_policy(config: Config, model: PreTrainedModel, precision: str) -> Policy:
    """The policy to train: adapters, if there are to be any, and activation checkpointing."""
    if config.lora_rank:
        from learners import lora

        lora.inject(model, config.lora_rank, config.lora_alpha)
    return Policy(model, config.temperature, precision, config.activation_checkpointing)


def plain(config: Config, named: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Names and full tensors of the policy's model as those of one without adapters."""
    if not config.lora_rank:
        return named
    from learners import lora

    return lora.merged(named, config.lora_rank, config.lora_alpha)


def make_optimizer(weights: Iterable[Tensor], config: Config) -> torch.optim.Optimizer:
    """AdamW over the weights that are trained."""
    trained = [one for one in weights if one.requires_grad]
    settings = {"lr": config.learning_rate, "weight_decay": config.weight_decay}
    if config.optimizer == "adamw":
        return torch.optim.AdamW(trained, betas=(0.9, 0.99), **settings)  # type: ignore[arg-type]
    from torchao.optim import AdamW8bit

    if ranks.device().type == "cpu":  # its step is compiled, which takes minutes on a CPU
        torch.compiler.set_stance("force_eager")
    return AdamW8bit(trained, betas=(0.9, 0.99), **settings)  # type: ignore[no-any-return]


def make_cost(config: Config, model: PreTrainedModel) -> Callable[[Batch], float]:
    """What training on a row costs, in floating point operations.

    Raises:
        ConfigError: the costs of the model's architecture are not known.
    """
    return partial(flops.train_flops, flops.Sizes.of(model.config), frozen=bool(config.lora_rank))


def train_step(
    policy: Callable[[Batch], tuple[Tensor, Tensor]],
    cost: Callable[[Batch], float],
    batches: Sequence[Batch],
    loss: Loss,
    backward: Callable[[Tensor, bool], object],
    optimize: Callable[[], float],
) -> dict[str, float]:
    """Forward and backward over this rank's share of a global batch, then an optimizer step.

    If all advantages are zero, as they are when all rollouts of each group earned the same, the
    batch is measured and no step is taken: momentum alone would move the weights.

    Args:
        policy: log-probabilities and entropies of a row's loss tokens.
        cost: of training on a row, in floating point operations; see `make_cost`.
        batches: rows of the global batch, the same on all ranks.
        loss: already divided by the global batch's tokens.
        backward: given a loss, and whether it is the last of this step.
        optimize: clips and steps, returns the gradient's norm; if that is not finite, it leaves
            everything as it was.

    Returns:
        Means over the global batch's loss tokens, `loss`, `gradient_norm`, speed, and `skipped`.

    Raises:
        ValueError: no token was sampled.
        FloatingPointError: the gradient is not finite.
    """
    began = time.monotonic()
    rollouts = sum(len(batch.sequences.unique()) for batch in batches)
    total = Totals(sum(len(batch.targets) for batch in batches), rollouts)
    if not total.tokens:
        raise ValueError("a batch without sampled tokens cannot be trained on")
    skipped = not any(bool(batch.advantages.any()) for batch in batches)
    own = distribute(batches, ranks.world(), cost)[ranks.rank()]
    sums: dict[str, float] = {}
    largest: dict[str, float] = {}
    for place, row in enumerate(own):
        batch = row.to(ranks.device())
        with torch.set_grad_enabled(not skipped):
            logprobs, entropy = policy(batch)
            columns = batch.logprobs, batch.advantages, batch.sequences
            part, seen = loss(logprobs, *columns, batch.rollouts, total)
        if not skipped:
            backward(part, place == len(own) - 1)
        figures = {**seen, "loss": float(part.detach()), "entropy": float(entropy.sum())}
        for name, value in figures.items():
            if name.endswith("_max"):
                largest[name] = max(value, largest.get(name, 0.0))
            else:
                sums[name] = sums.get(name, 0.0) + value
    norm = 0.0 if skipped else optimize()
    if not math.isfinite(norm):
        raise FloatingPointError(f"the gradient norm is {norm}")
    seconds = time.monotonic() - began
    found = ranks.reduce({**sums, **largest})
    means = {
        name: value if name in ("loss", *largest) else value / total.tokens
        for name, value in found.items()
    }
    kept = max(1e-9, 1 - means["masked"])
    mean, square = means.pop("ratio") / kept, means.pop("ratio_deviation") / kept
    return {
        **means,
        "ratio": mean,
        "ratio_std": math.sqrt(max(0.0, square - (mean - 1) ** 2)),
        "gradient_norm": norm,
        "skipped": float(skipped),
        **_speed(batches, sum(map(cost, batches)), seconds),
    }


def _speed(batches: Sequence[Batch], operations: float, seconds: float) -> dict[str, float]:
    """Tokens computed, a shared prompt once, and floating-point operations that they take."""
    a_rank = operations / seconds / ranks.world()
    where = ranks.device()
    peak = flops.peak_flops(torch.cuda.get_device_name(where)) if where.type == "cuda" else None
    return {
        "trained_tokens": sum(len(batch.tokens) for batch in batches),
        "trained_tokens_per_s": sum(len(batch.tokens) for batch in batches) / seconds,
        "tflops": a_rank / 1e12,
        **({"mfu": a_rank / peak} if peak else {}),
    }
