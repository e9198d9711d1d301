"""The head: log-probabilities of loss tokens without logits of [tokens, vocabulary].

Logits are the largest tensor of a training step by far. They are computed in chunks, in the
forward pass for log-probabilities and again in the backward pass for gradients, and never kept.
"""

from typing import Any

import torch
from torch import Tensor, nn

from learners.config import ConfigError

CHUNK = 1024
"""Tokens whose logits exist at a time."""


class Head(nn.Linear):
    """A causal LM's output embeddings, called for logits or for log-probabilities of targets.

    It shares the weight of the linear layer that it takes the place of, so tied embeddings stay
    tied and names stay what they were.
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
        """Log-probabilities [n] of `targets` and entropies [n], which have no gradient; all fp32.

        Args:
            hidden: [n, width].
            targets: ids [n]; without them the logits [n, vocabulary] are returned, in fp32.
            temperature: divides the logits.
        """
        if targets is None:
            return _logits(hidden, self.weight) / temperature
        return _Selected.apply(hidden, self.weight, targets, temperature)  # type: ignore[no-untyped-call]


class _Selected(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
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
        # in fp32 over all chunks: a sum of many small parts in bf16 loses them
        whole = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        parts = [hidden.new_zeros(0, hidden.shape[1])]
        pieces = (one.split(CHUNK) for one in (hidden, targets, totals, grad))
        for part, wanted, total, slope in zip(*pieces, strict=True):
            logits = _logits(part, wide).div_(ctx.temperature)
            slope = slope[:, None] / ctx.temperature
            errors = logits.sub_(total).exp_().mul_(-slope)
            errors.scatter_add_(1, wanted[:, None], slope)
            errors = errors.to(wide.dtype)
            parts.append((errors @ wide).to(hidden.dtype))
            if whole is not None:
                whole += _product(errors.T, part.to(wide.dtype))
        return torch.cat(parts), None if whole is None else whole.to(weight.dtype), None, None


def _wide(weight: Tensor) -> Tensor:
    """What the products are computed from: fp32 on a CPU, which has no fp32 sums of bf16."""
    return weight if weight.is_cuda else weight.float()


def _logits(hidden: Tensor, weight: Tensor) -> Tensor:
    with torch.autocast(hidden.device.type, enabled=False):
        wide = _wide(weight)
        return _product(hidden.to(wide.dtype), wide.T)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """A matrix product in fp32, also of halves; those only where there are such kernels."""
    if left.dtype == torch.float32:
        return left @ right
    return torch.mm(left, right, out_dtype=torch.float32)
