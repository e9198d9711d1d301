import pytest
import torch
from hypothesis import given
from tiny import ARCHITECTURES, make_sample, tiny_model
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen3ForCausalLM
from trees import trees, visible

from learners.training import models
from learners.training.flops import (
    Sizes,
    find_gpu,
    forward_flops,
    pairs,
    train_flops,
    training_bytes,
)
from learners.training.packed_attention import Node
from learners.training.rows import pack

QWEN3_14B = Sizes(models.read_config("Qwen/Qwen3-14B"))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_those_of_the_model(architecture: str, tied: bool) -> None:
    config = tiny_model(architecture).config
    config.tie_word_embeddings = tied
    model = type(tiny_model(architecture))(config)
    assert Sizes(config).parameters == sum(one.numel() for one in model.parameters())


def test_an_architecture_that_the_formulas_do_not_describe_is_refused() -> None:
    config = tiny_model("llama").config
    config.model_type = "mixtral"
    with pytest.raises(
        ValueError, match="expected a llama or mistral or qwen2 or qwen3 model, got 'mixtral'"
    ):
        Sizes(config)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_flops_are_those_that_pytorch_counts(architecture: str) -> None:
    model = tiny_model(architecture)
    model.set_attn_implementation("eager")  # computes every pair, masked or not
    sizes, tokens = Sizes(model.config), 13
    with FlopCounterMode(display=False) as forward:
        logits = model(torch.arange(tokens)[None], use_cache=False).logits
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    wanted = forward_flops(sizes, tokens, tokens * tokens, tokens)
    assert forward.get_total_flops() == wanted
    assert backward.get_total_flops() == 2 * wanted


def test_training_flops_are_three_forward_passes_over_what_the_row_holds() -> None:
    own = [True, False, True, True]
    (row,) = pack([make_sample(0, [1] * 5, [n, 2, 2, 2], sampled=own) for n in range(3)], 100)
    sizes = Sizes(tiny_model("qwen3").config)
    needed = 15 + 3 * (4 * 5 + 10)
    assert train_flops(sizes, row) == 3 * forward_flops(sizes, 5 + 3 * 4, needed, 9)
    # under adapters: forward and the gradient of what goes through, not of the weights
    attention = forward_flops(sizes, 0, needed, 0)
    products = forward_flops(sizes, 5 + 3 * 4, 0, 9)
    assert train_flops(sizes, row, frozen=True) == 2 * products + 3 * attention


@given(trees())
def test_attention_pairs_match_a_brute_force_count(nodes: tuple[Node, ...]) -> None:
    assert pairs(nodes) == visible(nodes).sum()


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989.5),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A10G", None),
        ("NVIDIA L40S", 362),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
    ],
)
def test_peaks_by_name(name: str, teraflops: float | None) -> None:
    gpu = find_gpu(name)
    assert (gpu and gpu.flops) == (None if teraflops is None else teraflops * 1e12)


def test_a_layer_saves_what_the_formula_says() -> None:
    config = tiny_model("qwen3").config
    config.num_key_value_heads = config.num_attention_heads  # no repeated keys, which are copies
    config._attn_implementation = "sdpa"
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    tokens = 64
    hidden = torch.randn(1, tokens, config.hidden_size, dtype=torch.bfloat16, requires_grad=True)
    angles = model.model.rotary_emb(hidden, torch.arange(tokens)[None])
    known = {one.data_ptr() for one in (*model.parameters(), hidden, *angles)}
    saved: dict[int, int] = {}

    def keep(one: torch.Tensor) -> torch.Tensor:
        storage = one.untyped_storage()
        if storage.data_ptr() not in known:
            saved[storage.data_ptr()] = storage.nbytes()
        return one

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one):
        out = model.model.layers[0](hidden, position_embeddings=angles)
    wanted = training_bytes(Sizes(config), 1, tokens).layer
    assert sum(saved.values()) == pytest.approx(wanted, rel=0.05)
    assert out.requires_grad
