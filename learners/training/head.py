"""Language-model head with chunked log-probabilities, to save memory.

The logits [tokens, vocabulary] are by far the largest tensor of a training step. They are computed
in chunks in the forward pass, and again in the backward pass, instead of being stored.
"""

from typing import Any

import torch
from torch import Tensor, nn

from learners.config import ConfigError

CHUNK = 1024
"""Chunk size in tokens."""


class Head(nn.Linear):
    """Output layer of a causal LM that computes logits, or log-probabilities of targets.

    It shares the weight of the linear layer that it replaces, so tied embeddings stay tied and
    parameter names do not change.

    Raises:
        ConfigError: the linear layer has a bias.
    """

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        if linear.bias is not None:
            raise ConfigError("model: expected output embeddings without a bias, got one")
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight = linear.weight
        self.register_parameter("bias", None)

    def forward(
        self, hidden: Tensor, targets: Tensor | None = None, temperature: float = 1.0
    ) -> Any:
        """Return log-probabilities [n] of `targets` and entropies [n] (no gradient), in fp32.

        Args:
            hidden: [n, width].
            targets: token ids [n]; None to return the fp32 logits [n, vocabulary] instead.
            temperature: divisor of the logits.
        """
        if targets is None:
            return _logits(hidden, self.weight) / temperature
        return _Selected.apply(hidden, self.weight, targets, temperature)  # type: ignore[no-untyped-call]


class _Selected(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        # starts with an empty tensor, so that `cat` works for a row without loss tokens
        logprobs, entropies, totals = [hidden.new_zeros(0, dtype=torch.float32)], [], []
        wide = _wide(weight)
        for part, wanted in zip(hidden.split(CHUNK), targets.split(CHUNK), strict=True):
            logits = _logits(part, wide).div_(temperature)
            total = logits.logsumexp(1, keepdim=True)
            every = logits.sub_(total)
            logprobs.append(every.gather(1, wanted[:, None])[:, 0])
            entropies.append(-torch.linalg.vecdot(every.exp(), every))
            totals.append(total)
        ctx.save_for_backward(hidden, weight, targets, torch.cat([logprobs[0][:, None], *totals]))
        ctx.temperature = temperature
        entropy = torch.cat([logprobs[0], *entropies])
        ctx.mark_non_differentiable(entropy)
        return torch.cat(logprobs), entropy

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, totals = ctx.saved_tensors
        wide = _wide(weight)
        # accumulates in fp32: a bf16 sum over chunks would lose small terms
        whole = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        parts = [hidden.new_zeros(0, hidden.shape[1])]
        pieces = (one.split(CHUNK) for one in (hidden, targets, totals, grad))
        for part, wanted, total, slope in zip(*pieces, strict=True):
            logits = _logits(part, wide).div_(ctx.temperature)
            slope = slope[:, None] / ctx.temperature
            # gradient with respect to the logits: slope * (onehot(target) - softmax)
            errors = logits.sub_(total).exp_().mul_(-slope)
            errors.scatter_add_(1, wanted[:, None], slope)
            errors = errors.to(wide.dtype)
            parts.append((errors @ wide).to(hidden.dtype))
            if whole is not None:
                whole += _product(errors.T, part.to(wide.dtype))
        return torch.cat(parts), None if whole is None else whole.to(weight.dtype), None, None


def _wide(weight: Tensor) -> Tensor:
    """Return the weight for `_product`: in fp32 on CPUs, whose bf16 kernels return no fp32."""
    return weight if weight.is_cuda else weight.float()


def _logits(hidden: Tensor, weight: Tensor) -> Tensor:
    # logits need fp32: autocast would round the product to bf16
    with torch.autocast(hidden.device.type, enabled=False):
        wide = _wide(weight)
        return _product(hidden.to(wide.dtype), wide.T)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Return a matrix product in fp32; half-precision inputs are supported on CUDA only."""
    if left.dtype == torch.float32:
        return left @ right
    return torch.mm(left, right, out_dtype=torch.float32)
