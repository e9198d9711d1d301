"""FLOPs and memory of training a causal LM, computed from its configuration.

FLOPs are model FLOPs: every necessary matrix product counts once. Recomputation, by activation
checkpointing or by the head in the backward pass, does not count, so the model FLOPs utilisation
(MFU) is comparable with published values and does not grow with wasted work.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from learners.errors import ConfigError
from learners.training.batching import PackedRow
from learners.training.packed_attention import Node

# supported architectures, and whether they normalise queries and keys
_QK_NORM = {"llama": False, "mistral": False, "qwen2": False, "qwen3": True}

# Dense bf16 with fp32 accumulation, in TFLOP/s, and memory bandwidth in GB/s, from the vendors'
# data sheets, which often print the doubled FLOP/s "with sparsity". The first match counts, so
# variants precede their base model.
_PEAKS = (
    ("GH200", 989.5, 4000),
    ("B200", 2250.0, 8000),
    ("H200 NVL", 835.5, 4800),
    ("H200", 989.5, 4800),
    ("H100 PCIe", 756.0, 2000),
    ("H100 NVL", 835.5, 3900),
    ("H100", 989.5, 3350),
    ("A100", 312.0, 2039),
    ("A10", 125.0, 600),
    ("L40S", 362.0, 864),
    ("L40", 181.0, 864),
    ("L4", 121.0, 300),
    ("RTX 5090", 209.5, 1792),
    ("RTX 4090", 165.2, 1008),
    ("RTX 3090", 71.0, 936),
)
# MIG slices, and slower chips sold under the name of a larger one
_SLOWER = re.compile(r"\bMIG\b|\bLaptop\b|\bD\b")


class Sizes(NamedTuple):
    """Dimensions of a decoder, which determine its costs; biases are ignored.

    Attributes:
        layers: number of decoder layers.
        width: size of the hidden states.
        heads: number of query heads.
        key_heads: number of key and value heads.
        head_size: size of one head.
        intermediate: width of the gated MLP.
        vocabulary: number of rows of the embedding.
        tied: whether the head shares the weight of the embedding.
        qk_norm: whether each layer normalises queries and keys, with one weight vector each.
    """

    layers: int
    width: int
    heads: int
    key_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    tied: bool
    qk_norm: bool

    @classmethod
    def of(cls, config: Any) -> "Sizes":
        """Read the sizes from a transformers configuration.

        Raises:
            ConfigError: these formulas do not cover the architecture.
        """
        if config.model_type not in _QK_NORM:
            types = " or ".join(sorted(_QK_NORM))
            raise ConfigError(f"model: expected a {types} model, got {config.model_type!r}")
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return cls(
            layers=config.num_hidden_layers,
            width=config.hidden_size,
            heads=config.num_attention_heads,
            key_heads=config.num_key_value_heads,
            head_size=size,
            intermediate=config.intermediate_size,
            vocabulary=config.vocab_size,
            tied=config.tie_word_embeddings,
            qk_norm=_QK_NORM[config.model_type],
        )

    @property
    def layer_matmuls(self) -> int:
        """Number of weights in the matrices of one layer: attention and MLP, without norms."""
        attention = 2 * self.width * (self.heads + self.key_heads) * self.head_size
        return attention + 3 * self.width * self.intermediate

    @property
    def matmuls(self) -> int:
        """Number of weights in the matrices of all layers."""
        return self.layers * self.layer_matmuls

    @property
    def embeddings(self) -> int:
        """Number of parameters of the embedding and, unless tied, the head."""
        return (1 if self.tied else 2) * self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """Number of all parameters."""
        norms = 2 * self.width + (2 * self.head_size if self.qk_norm else 0)
        return self.matmuls + self.layers * norms + self.width + self.embeddings


class Memory(NamedTuple):
    """Bytes on each GPU while a sharded model trains; see `training_bytes`.

    Attributes:
        weights: shard of the fp32 master weights.
        gradients: shard of the fp32 gradients.
        optimizer: shard of Adam's two fp32 moments.
        gathered: full bf16 weights of the current and the next layer, embedding and head.
        reduced: full gradients of the largest such part before sharding, in bf16 and fp32.
        checkpoints: bf16 hidden states stored before each layer.
        layer: activations that one recomputed layer stores for its backward pass.
        logits: logits, log-probabilities and their gradient for one chunk, in fp32.
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
        """Sum of all terms, which are assumed to coincide."""
        return sum(self)


def pairs(nodes: Sequence[Node]) -> int:
    """Count the query-key pairs of causal attention within prefix trees.

    n (n + 1) / 2 for a node of n tokens, and n d for its descendants with d tokens.
    """
    own = ((stop - start, end - stop) for start, stop, end in nodes)
    return sum(n * (n + 1) // 2 + n * below for n, below in own)


def forward_flops(sizes: Sizes, tokens: int, pairs: int, loss_tokens: int) -> int:
    """Return the FLOPs of a forward pass; a multiply-add counts as two.

    Args:
        sizes: dimensions of the model.
        tokens: number of tokens that pass the layers.
        pairs: number of query-key pairs in attention.
        loss_tokens: number of tokens that pass the head.
    """
    layers = 2 * sizes.matmuls * tokens
    # per pair and channel: 2 for the scores, and 2 for their product with the values
    attention = 4 * sizes.heads * sizes.head_size * pairs * sizes.layers
    head = 2 * sizes.vocabulary * sizes.width * loss_tokens
    return layers + attention + head


def train_flops(sizes: Sizes, batch: PackedRow, frozen: bool = False) -> int:
    """Return the FLOPs of training on a packed row.

    The backward pass has two matrix products for each one of the forward pass, but only one for
    a product with weights that are frozen under adapters. The adapters are too small to count.
    """
    tokens, loss_tokens = len(batch.tokens), len(batch.targets)
    forward = forward_flops(sizes, tokens, pairs(batch.nodes), loss_tokens)
    with_weights = forward_flops(sizes, tokens, 0, loss_tokens)
    return 3 * forward - (with_weights if frozen else 0)


def peak_flops(name: str) -> float | None:
    """Return the dense bf16 peak of a GPU in FLOP/s, or None for an unknown GPU.

    Args:
        name: name from `torch.cuda.get_device_name`, such as "NVIDIA H100 80GB HBM3".
    """
    peaks = _peaks(name)
    return peaks[0] * 1e12 if peaks else None


def peak_bandwidth(name: str) -> float | None:
    """Return the memory bandwidth of a GPU in bytes/s, or None for an unknown GPU."""
    peaks = _peaks(name)
    return peaks[1] * 1e9 if peaks else None


def _peaks(name: str) -> tuple[float, float] | None:
    if _SLOWER.search(name):
        return None
    for key, teraflops, gigabytes in _PEAKS:
        if re.search(rf"\b{key}\b", name, re.I):
            return teraflops, gigabytes
    return None


def layer_bytes(sizes: Sizes) -> int:
    """Return the bytes per token that one bf16 layer stores for its backward pass.

    Norms compute in fp32: each stores its input in fp32, and the normalised input in bf16. The
    output of a norm is stored by the matrix product that follows.
    """
    query, key = sizes.heads * sizes.head_size, sizes.key_heads * sizes.head_size
    norms = 2 * (4 + 2 + 2) * sizes.width + (4 + 2) * (query + key) * sizes.qk_norm
    attention = 2 * (query + key + key + query)  # query, key, value, result
    mlp = 4 * 2 * sizes.intermediate  # gate, its activation, up, their product
    return norms + attention + mlp


def training_bytes(sizes: Sizes, ranks: int, tokens: int, chunk: int = 1024) -> Memory:
    """Return the memory of mixed-precision training, fully sharded, with every layer checkpointed.

    Args:
        sizes: dimensions of the model.
        ranks: number of GPUs that weights, gradients and optimizer state are sharded over.
        tokens: number of tokens in the packed row of each GPU.
        chunk: number of loss tokens whose logits exist at a time.
    """
    shard = -(-4 * sizes.parameters // ranks)
    return Memory(
        weights=shard,
        gradients=shard,
        optimizer=2 * shard,
        gathered=2 * (2 * sizes.layer_matmuls + sizes.embeddings),
        reduced=(2 + 4) * max(sizes.layer_matmuls, sizes.embeddings),
        checkpoints=2 * sizes.layers * tokens * sizes.width,
        layer=layer_bytes(sizes) * tokens,
        logits=3 * 4 * min(chunk, tokens) * sizes.vocabulary,
    )
