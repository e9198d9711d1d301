"""Low-rank adapters (LoRA, arXiv 2106.09685) on all linear layers except the head, with peft."""

import math
from collections.abc import Iterable, Iterator
from zlib import crc32

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor
from transformers import PreTrainedModel


def inject(model: PreTrainedModel, rank: int, alpha: int) -> None:
    """Freeze a model and insert LoRA adapters in place; their output is initially zero.

    The parameter names of layers with adapters get an infix, which `merged` removes.
    """
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules="all-linear",
        exclude_modules="lm_head",
    )
    for weight in model.parameters():
        weight.requires_grad_(False)
    inject_adapter_in_model(config, model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".lora_" in name and not weight.is_meta:
                weight.copy_(initial(name, weight.shape))


def initial(name: str, shape: torch.Size) -> Tensor:
    """Return an adapter's initial weight, seeded by its name so that all ranks agree."""
    if ".lora_B." in name:
        return torch.zeros(shape)
    generator = torch.Generator().manual_seed(crc32(name.encode()))
    # the distribution is the one with which peft initialises A
    bound = 1 / math.sqrt(shape[1])
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


def merged(
    weights: Iterable[tuple[str, Tensor]], rank: int, alpha: int
) -> Iterator[tuple[str, Tensor]]:
    """Merge adapters into the weights; yield (name, tensor) pairs with the original model's names.

    Args:
        weights: (name, full tensor) pairs in the order of the model's parameters: the base weight
            of a layer, then A and B of its adapter.
        rank: rank of the adapters.
        alpha: scale of the adapters; see `lora_alpha` in `BackendSettings`.
    """
    base: Tensor | None = None
    down: Tensor | None = None
    bias: tuple[str, Tensor] | None = None
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
            if bias is not None:
                yield bias
                bias = None
        elif name.endswith(".base_layer.bias"):
            # kept back until the layer's weight is yielded
            bias = name.replace(".base_layer.", "."), weight
        else:
            yield name, weight
