"""Floating point operations and memory of training a causal LM, from its configuration.

Model FLOPs only: what the mathematics needs of matrix products, once. Neither activation
checkpointing nor a head that is computed again in the backward pass counts, so a utilisation
(MFU) from these numbers can be compared with others' and does not grow with wasted work.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from learners.batching import Batch
from learners.config import ConfigError
from learners.packed_attention import Span

# whether an architecture normalises its queries and keys
_QK_NORM = {"llama": False, "mistral": False, "qwen2": False, "qwen3": True}

# Dense bf16 with fp32 accumulation, TFLOP/s, from the vendors' data sheets, which often print
# twice as much, "with sparsity". The first word that a device's name has decides.
_PEAKS = (
    ("GH200", 989.5),
    ("B200", 2250.0),
    ("H200 NVL", 835.5),
    ("H200", 989.5),
    ("H100 PCIe", 756.0),
    ("H100 NVL", 835.5),
    ("H100", 989.5),
    ("A100", 312.0),
    ("A10", 125.0),
    ("L40S", 362.0),
    ("L40", 181.0),
    ("L4", 121.0),
    ("RTX 5090", 209.5),
    ("RTX 4090", 165.2),
    ("RTX 3090", 71.0),
)
# a slice of a GPU, and cut-down chips sold under a big one's name
_LESS = re.compile(r"\bMIG\b|\bLaptop\b|\bD\b")


class Sizes(NamedTuple):
    """What the costs of a decoder depend on; the few biases that some have are left out.

    Attributes:
        layers: decoder layers.
        width: of the hidden states.
        heads: query heads.
        key_heads: key and value heads.
        head_size: of one head.
        intermediate: width of the gated MLP.
        vocabulary: tokens, rows of the embedding.
        tied: the head is the embedding.
        qk_norm: queries and keys are normalised, with a weight each a layer.
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
        """From a transformers configuration.

        Raises:
            ConfigError: an architecture whose costs these formulas do not describe.
        """
        if config.model_type not in _QK_NORM:
            known = " or ".join(sorted(_QK_NORM))
            raise ConfigError(f"model: expected a {known} model, got {config.model_type!r}")
        return cls(
            config.num_hidden_layers,
            config.hidden_size,
            config.num_attention_heads,
            config.num_key_value_heads,
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            config.intermediate_size,
            config.vocab_size,
            config.tie_word_embeddings,
            _QK_NORM[config.model_type],
        )

    @property
    def layer_matmuls(self) -> int:
        """Parameters of one layer that multiply a token: of attention and MLP, no norms."""
        attention = 2 * self.width * (self.heads + self.key_heads) * self.head_size
        return attention + 3 * self.width * self.intermediate

    @property
    def matmuls(self) -> int:
        """Likewise of all layers."""
        return self.layers * self.layer_matmuls

    @property
    def embeddings(self) -> int:
        """Parameters of the embedding and, where it is not the same, the head."""
        return (1 if self.tied else 2) * self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """All parameters."""
        norms = 2 * self.width + (2 * self.head_size if self.qk_norm else 0)
        return self.matmuls + self.layers * norms + self.width + self.embeddings


class Memory(NamedTuple):
    """Bytes on each GPU while a sharded model trains; see `training_bytes`.

    Attributes:
        weights: the fp32 masters' shard.
        gradients: their fp32 gradients' shard.
        optimizer: Adam's two fp32 moments' shard.
        gathered: whole bf16 weights of the layer at work and the next, embedding and head.
        reduced: whole gradients of one such part before they are sharded, bf16 and fp32.
        checkpoints: the bf16 hidden states kept before each layer.
        layer: what one layer saves for its backward pass, as it is computed again.
        logits: logits, log-probabilities and their gradient of one chunk, fp32.
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
        """All of it: the terms are taken to be there at the same time."""
        return sum(self)


def pairs(spans: Sequence[Span]) -> int:
    """Query-key pairs of causal attention within groups, each prompt computed once.

    p (p + 1) / 2 for a prompt, and r p + r (r + 1) / 2 for each of its responses.
    """
    total = 0
    for (start, stop), responses in spans:
        prompt = stop - start
        total += prompt * (prompt + 1) // 2
        for first, last in responses:
            own = last - first
            total += own * prompt + own * (own + 1) // 2
    return total


def forward_flops(sizes: Sizes, tokens: int, pairs: int, loss_tokens: int) -> int:
    """Floating point operations of a forward pass; a multiplication and an addition are two.

    Args:
        sizes: of the model.
        tokens: that go through the layers.
        pairs: query-key pairs that attention needs.
        loss_tokens: that go through the head.
    """
    layers = 2 * sizes.matmuls * tokens
    attention = 4 * sizes.heads * sizes.head_size * pairs * sizes.layers
    head = 2 * sizes.vocabulary * sizes.width * loss_tokens
    return layers + attention + head


def train_flops(sizes: Sizes, batch: Batch, frozen: bool = False) -> int:
    """Floating point operations of training on a packed row.

    The backward pass has two matrix products for each of the forward pass; where the weights are
    frozen under adapters, which are small enough to leave out, one for each product with weights.
    """
    tokens, loss_tokens = len(batch.tokens), len(batch.targets)
    forward = forward_flops(sizes, tokens, pairs(batch.spans), loss_tokens)
    with_weights = forward_flops(sizes, tokens, 0, loss_tokens)
    return 3 * forward - (with_weights if frozen else 0)


def peak_flops(name: str) -> float | None:
    """Dense bf16 peak of a GPU, in FLOP/s; None if it is not known.

    Args:
        name: as `torch.cuda.get_device_name` has it, such as "NVIDIA H100 80GB HBM3".
    """
    if _LESS.search(name):
        return None
    for key, teraflops in _PEAKS:
        if re.search(rf"\b{key}\b", name):
            return teraflops * 1e12
    return None


def layer_bytes(sizes: Sizes) -> int:
    """Bytes a token that one layer in bf16 saves for its backward pass.

    Norms compute in fp32: each saves its input as wide as that, and in bf16 what its weight
    multiplies. A norm's result is saved where a matrix product takes it.
    """
    query, key = sizes.heads * sizes.head_size, sizes.key_heads * sizes.head_size
    norms = 2 * (4 + 2 + 2) * sizes.width + (4 + 2) * (query + key) * sizes.qk_norm
    attention = 2 * (query + key + key + query)  # query, key, value, result
    mlp = 4 * 2 * sizes.intermediate  # gate, its activation, up, their product
    return norms + attention + mlp


def training_bytes(sizes: Sizes, ranks: int, tokens: int, chunk: int = 1024) -> Memory:
    """Memory of mixed-precision training with everything sharded and every layer checkpointed.

    Args:
        sizes: of the model.
        ranks: GPUs that share weights, gradients and optimizer state.
        tokens: of a packed row on each GPU.
        chunk: loss tokens whose logits are there at once.
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
