"""Low-rank adapters (LoRA, arXiv 2106.09685) on all linear layers but the head, through peft."""

import math
from collections.abc import Iterable, Iterator
from zlib import crc32

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor
from transformers import PreTrainedModel


def inject(model: PreTrainedModel, rank: int, alpha: int) -> None:
    """Freeze the model and put adapters into it, in place; they change nothing at first.

    The frozen layers of its config get none. Weights keep their names but for an infix, see
    `merged`.
    """
    frozen = getattr(model.config, "frozen_layers", 0)
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules="all-linear",
        exclude_modules=rf"lm_head|.*\.layers\.({'|'.join(map(str, range(frozen)))})\..*",
    )
    for weight in model.parameters():
        weight.requires_grad_(False)
    inject_adapter_in_model(config, model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if is_adapter(name) and not weight.is_meta:
                weight.copy_(initial(name, weight.shape))


def is_adapter(name: str) -> bool:
    """Whether a weight of an adapted model is an adapter's."""
    return ".lora_A." in name or ".lora_B." in name


def initial(name: str, shape: torch.Size) -> Tensor:
    """An adapter's weight before training, drawn from its name: the same on all ranks."""
    if ".lora_B." in name:
        return torch.zeros(shape)
    generator = torch.Generator().manual_seed(crc32(name.encode()))
    bound = 1 / math.sqrt(shape[1])
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


def merged(
    weights: Iterable[tuple[str, Tensor]], rank: int, alpha: int
) -> Iterator[tuple[str, Tensor]]:
    """Names and weights of an adapted model as those of the model without adapters.

    Args:
        weights: full tensors in the order of the model's parameters: a layer's own weight comes
            before its adapter's two.
        rank: of the adapters.
        alpha: see `LoraConfig`.
    """
    base: Tensor | None = None
    down: Tensor | None = None
    for name, weight in weights:
        if name.endswith(".base_layer.weight"):
            base = weight
        elif ".lora_A." in name:
            down = weight
        elif ".lora_B." in name:
            assert base is not None
            assert down is not None
            layer = name.partition(".lora_B.")[0]
            yield f"{layer}.weight", base + (weight @ down) * (alpha / rank)
        else:
            yield name.replace(".base_layer.", "."), weight
