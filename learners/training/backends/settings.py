"""Settings of a training backend, and functions that create its policy and its optimizer."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from learners.training.cpu import has_bfloat16
from learners.training.muon import Muon
from learners.training.policy import Policy

StateDict = dict[str, Any]
"""State of an optimizer, as PyTorch defines it."""


@dataclass(frozen=True)
class BackendSettings:
    """Settings of a training backend, with the names that they have in `Config`.

    Attributes:
        model: name or folder of the model.
        temperature: sampling temperature.
        precision: dtype of the forward pass, "float32" or "bfloat16".
        lora_rank: rank of LoRA adapters on the frozen model; 0 trains all weights.
        lora_alpha: scale of LoRA adapters; their output is multiplied by lora_alpha / lora_rank.
        activation_checkpointing: whether layers are recomputed in the backward pass.
        compile: whether MLPs, norms and rotary embeddings are compiled.
        optimizer: "adamw" or "muon".
        learning_rate: learning rate of a new optimizer; the trainer sets the rate of each step.
        weight_decay: weight decay of the optimizer.
        max_grad_norm: maximum norm of the gradient; larger gradients are scaled down to this norm.
        replicas: number of copies of the weights, each sharded over an equal part of the ranks.
        offload: whether sharded weights and optimizer state are kept in CPU memory.
        async_save: whether checkpoints are written in a background thread.
        teacher: name or folder of the teacher that each rank loads; empty for none.
        feedback_weight: weight of the difference between policy and teacher in the loss.
        feedback_form: "full" if the loss needs divergences over the vocabulary, or "sampled".
    """

    model: str
    temperature: float
    precision: str
    lora_rank: int = 0
    lora_alpha: int = 32
    activation_checkpointing: bool = False
    compile: bool = False
    optimizer: str = "adamw"
    learning_rate: float = 0.0
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    replicas: int = 1
    offload: bool = False
    async_save: bool = False
    teacher: str = ""
    feedback_weight: float = 0.0
    feedback_form: str = "full"


def make_policy(settings: BackendSettings, model: PreTrainedModel, precision: str) -> Policy:
    """Turn a loaded model into the policy to train; the model is changed in place."""
    if settings.lora_rank:
        from learners.training import lora

        lora.inject(model, settings.lora_rank, settings.lora_alpha)
    speed = settings.activation_checkpointing, settings.compile
    return Policy(model, settings.temperature, precision, *speed)


def merge_adapters(
    settings: BackendSettings, named: Iterator[tuple[str, Tensor]]
) -> Iterator[tuple[str, Tensor]]:
    """Return the (name, full tensor) pairs; merge adapters, if there are any, into the weights."""
    if not settings.lora_rank:
        return named
    from learners.training import lora

    return lora.merged(named, settings.lora_rank, settings.lora_alpha)


class _Together:
    """Optimizers of different weights, used as one optimizer."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self._parts = parts

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        # not stored, since `load_state_dict` of an optimizer replaces its groups
        return [group for part in self._parts for group in part.param_groups]

    def step(self) -> None:
        for part in self._parts:
            part.step()

    def zero_grad(self) -> None:
        for part in self._parts:
            part.zero_grad()

    def state_dict(self) -> StateDict:
        return {str(number): part.state_dict() for number, part in enumerate(self._parts)}

    def load_state_dict(self, state: Mapping[str, StateDict]) -> None:
        for number, part in enumerate(self._parts):
            part.load_state_dict(state[str(number)])


def make_optimizer(
    weights: Iterable[Tensor], settings: BackendSettings, ends: Iterable[Tensor] = ()
) -> torch.optim.Optimizer | _Together:
    """Create the optimizer of the trainable weights.

    With "muon", Muon trains all matrices except `ends`, the weights of embedding and head; AdamW
    trains `ends` and the vectors. Both optimizers have the same learning rate, since Muon's updates
    are scaled to the size of AdamW's updates.
    """
    trained = [weight for weight in weights if weight.requires_grad]
    rate, decay = settings.learning_rate, settings.weight_decay
    # the default of the second value, 0.999, averages over 1,000 steps, which is more than most
    # runs have
    betas = (0.9, 0.99)
    if settings.optimizer == "adamw":
        # fused AdamW is faster, but not used on CPUs, where its rounding differs from the default
        # loop's
        fused = all(weight.is_cuda for weight in trained) or None
        return torch.optim.AdamW(trained, rate, betas, weight_decay=decay, fused=fused)
    others = set(map(id, ends))
    matrices = [one for one in trained if one.ndim == 2 and id(one) not in others]
    rest = [one for one in trained if one.ndim != 2 or id(one) in others]
    dtype = torch.bfloat16 if has_bfloat16() else torch.float32
    return _Together(
        Muon(matrices, rate, decay, dtype),
        torch.optim.AdamW(rest, rate, betas, weight_decay=decay),
    )
