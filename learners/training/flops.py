"""FLOPs and memory of training a causal LM, computed from its configuration.

FLOPs are model FLOPs: every necessary matrix product counts once. Recomputation, by activation
checkpointing or by the head in the backward pass, does not count, so the model FLOPs utilisation
(MFU) is comparable with published values and does not grow with wasted work.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from transformers import PretrainedConfig

from learners.errors import ConfigError
from learners.training.head import CHUNK
from learners.training.packed_attention import Node
from learners.training.rows import PackedRow

# supported architectures, and whether they normalise queries and keys
_QK_NORM = {"llama": False, "mistral": False, "qwen2": False, "qwen3": True}


class GPU(NamedTuple):
    """Figures of a GPU, from its vendor's data sheet.

    Attributes:
        flops: peak of dense bf16 products with fp32 accumulation, in FLOP/s; data sheets often
            print the peak "with sparsity" instead, which is twice as high.
        bandwidth: bandwidth of the GPU's memory, in bytes/s.
        memory: size of the GPU's memory, in bytes.
    """

    flops: float
    bandwidth: float
    memory: int


# Columns: name, TFLOP/s, GB/s and GB. `find_gpu` takes the first match, so the variants of a model
# come before the model itself.
GPUS = {
    name: GPU(teraflops * 1e12, bandwidth * 1e9, memory * 10**9)
    for name, teraflops, bandwidth, memory in (
        ("GH200", 989.5, 4000, 96),
        ("B200", 2250.0, 8000, 180),
        ("H200 NVL", 835.5, 4800, 141),
        ("H200", 989.5, 4800, 141),
        ("H100 PCIe", 756.0, 2000, 80),
        ("H100 NVL", 835.5, 3900, 94),
        ("H100", 989.5, 3350, 80),
        ("A100", 312.0, 2039, 80),
        ("A10", 125.0, 600, 24),
        ("L40S", 362.0, 864, 48),
        ("L40", 181.0, 864, 48),
        ("L4", 121.0, 300, 24),
        ("RTX 5090", 209.5, 1792, 32),
        ("RTX 4090", 165.2, 1008, 24),
        ("RTX 3090", 71.0, 936, 24),
    )
}
# `find_gpu` rejects MIG slices, and slower chips that are sold under the name of a faster chip
_SLOWER = re.compile(r"\bMIG\b|\bLaptop\b|\bD\b")


class Sizes:
    """Dimensions of a decoder, which determine its FLOPs and memory; biases are ignored.

    Attributes:
        key_heads: number of key heads, which is also the number of value heads.
        intermediate: width of the gated MLP.
        tied: whether the head shares the weight of the embedding.
        qk_norm: whether each layer normalises queries and keys, with one weight vector each.

    Raises:
        ConfigError: the formulas of this class do not cover the architecture.
    """

    def __init__(self, config: PretrainedConfig) -> None:
        if config.model_type not in _QK_NORM:
            types = " or ".join(sorted(_QK_NORM))
            raise ConfigError(f"model: expected a {types} model, got {config.model_type!r}")
        self.layers: int = config.num_hidden_layers
        self.width: int = config.hidden_size
        self.heads: int = config.num_attention_heads
        self.key_heads: int = config.num_key_value_heads
        self.head_size: int = getattr(config, "head_dim", None) or self.width // self.heads
        self.intermediate: int = config.intermediate_size
        self.vocabulary: int = config.vocab_size
        self.tied: bool = config.tie_word_embeddings
        self.qk_norm = _QK_NORM[config.model_type]

    @property
    def layer_matmuls(self) -> int:
        """Number of weights in the matrices of one layer: attention and MLP, without norms."""
        attention = 2 * self.width * (self.heads + self.key_heads) * self.head_size
        return attention + 3 * self.width * self.intermediate

    @property
    def matmuls(self) -> int:
        """Number of weights in the matrices of all layers."""
        return self.layers * self.layer_matmuls

    def adapters(self, rank: int) -> int:
        """Return the number of parameters of LoRA adapters on all matrices of all layers."""
        query, key = self.heads * self.head_size, self.key_heads * self.head_size
        attention = 2 * (self.width + query) + 2 * (self.width + key)
        return rank * self.layers * (attention + 3 * (self.width + self.intermediate))

    @property
    def embeddings(self) -> int:
        """Number of parameters of the embedding and, unless tied, the head."""
        return (1 if self.tied else 2) * self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """Number of all parameters of the model."""
        norms = 2 * self.width + (2 * self.head_size if self.qk_norm else 0)
        return self.matmuls + self.layers * norms + self.width + self.embeddings


class Memory(NamedTuple):
    """Estimated memory use of a trainer's device, in bytes; see `training_bytes`.

    Attributes:
        weights: shard of the fp32 master weights.
        gradients: shard of the fp32 gradients.
        optimizer: shard of Adam's two fp32 moments.
        gathered: full weights of two layers, the embedding and the head; if the backend does not
            gather weights layer by layer, autocast's bf16 copy of all weights.
        reduced: full gradients of a layer, or of the embedding and head, before they are sharded.
        checkpoints: hidden states stored before each layer.
        layer: activations stored for the backward pass: those of one layer if layers are
            recomputed, otherwise those of all layers.
        logits: logits, log-probabilities and their gradient for one chunk of tokens, in fp32.
    """

    weights: int
    gradients: int
    optimizer: int
    gathered: int
    reduced: int
    checkpoints: int
    layer: int
    logits: int

    @property
    def total(self) -> int:
        """Sum of all parts of the memory, which are assumed to peak at the same time."""
        return sum(self)


def pairs(nodes: Sequence[Node]) -> int:
    """Count the query-key pairs of causal attention within prefix trees.

    A node of n tokens has n (n + 1) / 2 pairs within itself. If its descendants have d tokens in
    total, their queries have n * d pairs with its keys.
    """
    own = ((stop - start, end - stop) for start, stop, end in nodes)
    return sum(n * (n + 1) // 2 + n * below for n, below in own)


def forward_flops(sizes: Sizes, tokens: int, pairs: int, loss_tokens: int) -> int:
    """Return the FLOPs of a forward pass; a multiply-add counts as two FLOPs.

    Args:
        sizes: dimensions of the model.
        tokens: number of tokens that pass through the layers.
        pairs: number of query-key pairs in attention.
        loss_tokens: number of tokens that pass through the head.
    """
    layers = 2 * sizes.matmuls * tokens
    # for each pair and channel: 2 FLOPs for the score, and 2 for its product with the value
    attention = 4 * sizes.heads * sizes.head_size * pairs * sizes.layers
    head = 2 * sizes.vocabulary * sizes.width * loss_tokens
    return layers + attention + head


def train_flops(sizes: Sizes, batch: PackedRow, frozen: bool = False) -> int:
    """Return the FLOPs of training on a packed row.

    For each matrix product of the forward pass, the backward pass has two products, or only one if
    the weights of the product are frozen. The FLOPs of LoRA adapters are negligible.
    """
    tokens, loss_tokens = len(batch.tokens), len(batch.targets) + len(batch.hinted)
    forward = forward_flops(sizes, tokens, pairs(batch.nodes), loss_tokens)
    with_weights = forward_flops(sizes, tokens, 0, loss_tokens)
    return 3 * forward - (with_weights if frozen else 0)


def find_gpu(name: str) -> GPU | None:
    """Return the figures of a GPU; None for unknown GPUs, MIG slices and slower variants.

    Args:
        name: name from `torch.cuda.get_device_name`, such as "NVIDIA H100 80GB HBM3".
    """
    if _SLOWER.search(name):
        return None
    found = (gpu for key, gpu in GPUS.items() if re.search(rf"\b{key}\b", name, re.I))
    return next(found, None)


def training_bytes(
    sizes: Sizes,
    shards: int,
    tokens: int,
    *,
    sharded: bool = True,
    checkpointed: bool = True,
    half: bool = True,
    lora_rank: int = 0,
) -> Memory:
    """Estimate a trainer's memory, most accurately for the defaults of the keyword arguments.

    Args:
        sizes: dimensions of the model.
        shards: number of GPUs that weights, gradients and optimizer state are sharded over.
        tokens: number of tokens in the packed row of each GPU.
        sharded: whether the backend gathers weights layer by layer.
        checkpointed: whether layers are recomputed in the backward pass.
        half: whether the forward pass is in bf16; otherwise in fp32.
        lora_rank: rank of LoRA adapters on a frozen model; 0 if all weights are trained.
    """
    adapters = sizes.adapters(lora_rank)
    parameters = sizes.parameters + adapters
    state = -(-4 * (adapters or parameters) // shards)
    size = 2 if half else 4
    gathered = size * (2 * sizes.layer_matmuls + sizes.embeddings)
    reduced = (2 + 4) * max(sizes.layer_matmuls, sizes.embeddings)
    if not sharded:  # autocast caches a bf16 copy of the weights
        gathered, reduced = (2 * parameters if half else 0), 4 * sizes.embeddings
    return Memory(
        weights=-(-4 * parameters // shards),
        gradients=state,
        optimizer=2 * state,
        gathered=gathered,
        reduced=0 if lora_rank else reduced,
        checkpoints=size * sizes.layers * tokens * sizes.width if checkpointed else 0,
        layer=size * _layer_elements(sizes) * tokens * (1 if checkpointed else sizes.layers),
        logits=3 * 4 * min(CHUNK, tokens) * sizes.vocabulary,
    )


def _layer_elements(sizes: Sizes) -> int:
    """Return the number of values that a layer stores per token for the backward pass.

    A norm stores its input in fp32, which counts as two bf16 values, and the normalised input. The
    matrix product that follows keeps the norm's output for its own backward pass.
    """
    query, key = sizes.heads * sizes.head_size, sizes.key_heads * sizes.head_size
    norms = 2 * (2 + 1 + 1) * sizes.width + (2 + 1) * (query + key) * sizes.qk_norm
    attention = query + key + key + query  # query, key, value, result
    mlp = 4 * sizes.intermediate  # gate, its activation, up, their product
    return norms + attention + mlp
