"""Training step, policy and optimizer, shared by all backends."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from learners.losses import Loss, LossInput, Totals
from learners.training import flops, ranks
from learners.training.batching import PackedRow, distribute
from learners.training.policy import Policy


@dataclass(frozen=True)
class PolicySettings:
    """What a policy is made of.

    Attributes:
        model: name or folder of the model.
        temperature: sampling temperature.
        precision: "float32" or "bfloat16", of the forward pass.
        lora_rank: rank of adapters on the frozen model; 0 trains all weights.
        lora_alpha: scale of the adapters.
        checkpointing: whether layers are recomputed in the backward pass.
        compiled: whether MLPs, norms and rotary embeddings are compiled.
    """

    model: str
    temperature: float
    precision: str
    lora_rank: int = 0
    lora_alpha: int = 32
    checkpointing: bool = False
    compiled: bool = False


@dataclass(frozen=True)
class OptimizerSettings:
    """Settings of an optimizer.

    Attributes:
        kind: "adamw", "adamw8bit" or "muon".
        learning_rate: initial learning rate.
        weight_decay: weight decay.
        max_grad_norm: norm to which gradients are clipped.
    """

    kind: str
    learning_rate: float
    weight_decay: float
    max_grad_norm: float


def make_policy(settings: PolicySettings, model: PreTrainedModel, precision: str) -> Policy:
    """Create the policy to train from its loaded model, in place."""
    if settings.lora_rank:
        from learners.training import lora

        lora.inject(model, settings.lora_rank, settings.lora_alpha)
    speed = settings.checkpointing, settings.compiled
    return Policy(model, settings.temperature, precision, *speed)


def merge_adapters(
    settings: PolicySettings, named: Iterator[tuple[str, Tensor]]
) -> Iterator[tuple[str, Tensor]]:
    """Return (name, full tensor) pairs of the policy's model with its adapters merged."""
    if not settings.lora_rank:
        return named
    from learners.training import lora

    return lora.merged(named, settings.lora_rank, settings.lora_alpha)


class _Together:
    """Optimizers of different weights, used as one."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self._parts = parts
        self.param_groups = [group for part in parts for group in part.param_groups]

    def step(self) -> None:
        for part in self._parts:
            part.step()

    def zero_grad(self) -> None:
        for part in self._parts:
            part.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        return {str(number): part.state_dict() for number, part in enumerate(self._parts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for number, part in enumerate(self._parts):
            part.load_state_dict(state[str(number)])


def make_optimizer(
    weights: Iterable[Tensor], settings: OptimizerSettings, ends: Iterable[Tensor] = ()
) -> Any:
    """Create the optimizer of the trainable weights.

    Muon takes the matrices, AdamW vectors and `ends`, embeddings and head, at the same learning
    rate: Muon's updates are scaled to the size of AdamW's.
    """
    trained = [weight for weight in weights if weight.requires_grad]
    rates = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.kind == "muon":
        others = set(map(id, ends))
        matrices = [one for one in trained if one.ndim == 2 and id(one) not in others]
        rest = [one for one in trained if one.ndim != 2 or id(one) in others]
        muon = torch.optim.Muon(matrices, adjust_lr_fn="match_rms_adamw", **rates)  # type: ignore[arg-type]
        return _Together(muon, torch.optim.AdamW(rest, betas=(0.9, 0.99), **rates))  # type: ignore[arg-type]
    # the default beta2, 0.999, averages over 1,000 steps, more than most runs have
    if settings.kind == "adamw":
        # one kernel that reads everything once; on CPUs it would round differently
        fused = all(weight.is_cuda for weight in trained)
        return torch.optim.AdamW(trained, betas=(0.9, 0.99), fused=fused or None, **rates)  # type: ignore[arg-type]
    from torchao.optim import AdamW8bit

    if ranks.device().type == "cpu":  # compiling its step takes minutes on a CPU
        torch.compiler.set_stance("force_eager")
    return AdamW8bit(trained, betas=(0.9, 0.99), **rates)


def set_learning_rate(optimizer: Any, rate: float) -> None:
    """Set the learning rate of all weights."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):  # 8-bit AdamW refuses another object
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def make_cost(model: PreTrainedModel, frozen: bool) -> Callable[[PackedRow], float]:
    """Return the function that computes the FLOPs of training on a row.

    Args:
        model: the model, whose configuration has its dimensions.
        frozen: whether its weights are frozen under adapters.

    Raises:
        ConfigError: the FLOPs of the model's architecture are unknown.
    """
    return partial(flops.train_flops, flops.Sizes.of(model.config), frozen=frozen)


def train_step(
    policy: Callable[[PackedRow], tuple[Tensor, Tensor]],
    cost: Callable[[PackedRow], float],
    batches: Sequence[PackedRow],
    loss: Loss,
    backward: Callable[[Tensor, bool], object],
    optimize: Callable[[], float],
) -> dict[str, float]:
    """Run forward and backward passes on this rank's rows of a global batch, then the optimizer.

    If all advantages are zero, since the rewards in each group are equal, only the metrics are
    computed: an optimizer step would change the weights by momentum alone.

    Args:
        policy: returns log-probabilities and entropies of a row's loss tokens.
        cost: returns the FLOPs of training on a row; see `make_cost`.
        batches: rows of the global batch, the same on all ranks.
        loss: policy loss, normalised by the size of the global batch.
        backward: called with the loss of a row, and whether it is the last row of this step.
        optimize: clips the gradient, updates the weights, and returns the gradient norm; changes
            nothing if the norm is not finite.

    Returns:
        Means over the loss tokens of the global batch, `loss`, `gradient_norm`, speed and
        `skipped`.

    Raises:
        ValueError: the batch has no loss tokens.
        FloatingPointError: the gradient is not finite.
    """
    began = time.monotonic()
    rollouts = sum(len(batch.sequences.unique()) for batch in batches)
    total = Totals(sum(len(batch.targets) for batch in batches), rollouts)
    if not total.tokens:
        raise ValueError("a batch without sampled tokens cannot be trained on")
    skipped = not any(bool(batch.advantages.any()) for batch in batches)
    rows = distribute(batches, ranks.world(), cost)[ranks.rank()]
    sums: dict[str, float] = {}
    largest: dict[str, float] = {}
    for number, row in enumerate(rows, 1):
        batch = row.to(ranks.device())
        # a skipped batch still runs forward, for its metrics, on all ranks alike
        with torch.set_grad_enabled(not skipped):
            logprobs, entropy = policy(batch)
            columns = batch.logprobs, batch.advantages, batch.sequences, batch.rollouts
            part, metrics = loss(LossInput(logprobs, *columns, total))
        # row by row: the gradients add up, and only one row's activations exist at a time
        if not skipped:
            backward(part, number == len(rows))
        metrics = {**metrics, "loss": float(part.detach()), "entropy": float(entropy.sum())}
        for name, value in metrics.items():
            if name.endswith("_max"):
                largest[name] = max(value, largest.get(name, 0.0))
            else:
                sums[name] = sums.get(name, 0.0) + value
    norm = 0.0 if skipped else optimize()
    if not math.isfinite(norm):
        raise FloatingPointError(f"the gradient norm is {norm}")
    ranks.synchronize()  # a GPU may still be updating the weights
    seconds = time.monotonic() - began
    # the loss is divided by the size of the global batch already; see `losses`
    means = {
        name: value if name in ("loss", *largest) else value / total.tokens
        for name, value in ranks.reduce({**sums, **largest}).items()
    }
    # ratios are sums over unmasked tokens only, so divide by the share of those
    share = max(1e-9, 1 - means["masked"])
    mean, square = means.pop("ratio") / share, means.pop("ratio_deviation") / share
    return {
        **means,
        "ratio": mean,
        # E[(r - 1)^2] - (E[r] - 1)^2, which rounding can make negative
        "ratio_std": math.sqrt(max(0.0, square - (mean - 1) ** 2)),
        "gradient_norm": norm,
        "skipped": float(skipped),
        **_speed(batches, sum(map(cost, batches)), seconds),
    }


def _speed(batches: Sequence[PackedRow], operations: float, seconds: float) -> dict[str, float]:
    """Return throughput in tokens, a shared prefix counted once, and in FLOPs per rank."""
    tokens = sum(len(batch.tokens) for batch in batches)
    flops_per_s = operations / seconds / ranks.world()
    device = ranks.device()
    peak = flops.peak_flops(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
    return {
        "trained_tokens": tokens,
        "trained_tokens_per_s": tokens / seconds,
        "tflops": flops_per_s / 1e12,
        **({"mfu": flops_per_s / peak} if peak else {}),
    }
