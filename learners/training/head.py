"""Language-model head that computes log-probabilities chunk by chunk, to save memory.

The logits [tokens, vocabulary] would be by far the largest tensor of a training step. They are not
stored: each chunk is computed in the forward pass and computed again in the backward pass.
"""

from typing import Any

import torch
from torch import Tensor, nn

from learners.errors import ConfigError

CHUNK = 1024
"""Number of tokens in a chunk; only the logits of one chunk exist at a time."""


class ChunkedHead(nn.Linear):
    """Output layer of a causal LM that computes logits, or log-probabilities of targets.

    The head shares the weight of the linear layer that it replaces, so tied embeddings stay tied
    and parameter names do not change.

    Raises:
        ConfigError: the linear layer has a bias.
    """

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)  # `nn.Linear.__init__` would allocate and initialise a weight
        if linear.bias is not None:
            raise ConfigError("model: expected output embeddings without a bias, got a bias")
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight = linear.weight
        self.register_parameter("bias", None)

    def forward(  # type: ignore[override]
        self, hidden: Tensor, targets: Tensor | None = None, temperature: float = 1.0
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return log-probabilities [n] of `targets`, and entropies [n] without gradient, in fp32.

        Args:
            hidden: hidden states [n, width].
            targets: token ids [n]; None to return the fp32 logits [n, vocabulary] instead.
            temperature: divisor of the logits in log-probabilities and entropies.
        """
        if targets is None:
            return _logits(hidden, self.weight.to(_dtype(self.weight)))
        selected: tuple[Tensor, Tensor] = _Selected.apply(hidden, self.weight, targets, temperature)  # type: ignore[no-untyped-call]
        return selected


class _Selected(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        # `cat` needs at least one part, and a row without loss tokens has none
        empty = hidden.new_zeros(0, dtype=torch.float32)
        logprobs, entropies, totals = [empty], [empty], [empty[:, None]]
        dtype = _dtype(weight)
        operand = weight.to(dtype)
        for part, ids in zip(hidden.split(CHUNK), targets.split(CHUNK), strict=True):
            # computed in place, since a chunk of logits is the largest tensor of the step
            logits = _logits(part, operand).div_(temperature)
            total = logits.logsumexp(1, keepdim=True)
            normalised = logits.sub_(total)
            logprobs.append(normalised.gather(1, ids[:, None])[:, 0])
            entropies.append(-torch.linalg.vecdot(normalised.exp(), normalised))
            totals.append(total)
        # with one log-sum-exp per token, the backward pass can recompute the softmax
        ctx.save_for_backward(hidden, weight, targets, torch.cat(totals))
        ctx.temperature, ctx.dtype = temperature, dtype
        entropy = torch.cat(entropies)
        ctx.mark_non_differentiable(entropy)
        return torch.cat(logprobs), entropy

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, totals = ctx.saved_tensors
        operand = weight.to(ctx.dtype)  # the backward pass runs outside autocast
        # A frozen head needs no weight gradient, which saves one of three matrix products. The
        # weight gradient is summed in fp32, since a bf16 sum over chunks would lose small terms.
        trained = ctx.needs_input_grad[1]
        weight_grad = torch.zeros_like(weight, dtype=torch.float32) if trained else None
        hidden_grads = [hidden.new_zeros(0, hidden.shape[1])]
        chunks = (column.split(CHUNK) for column in (hidden, targets, totals, grad))
        for part, ids, total, slope in zip(*chunks, strict=True):
            logits = _logits(part, operand).div_(ctx.temperature)
            slope = slope[:, None] / ctx.temperature
            # `slope` is the gradient of log p(target), so logits have slope * (onehot - softmax)
            errors = logits.sub_(total).exp_().mul_(-slope)
            errors.scatter_add_(1, ids[:, None], slope)
            # cast the logits' gradient to the dtype of matrix products, as `nn.Linear` does
            errors = errors.to(ctx.dtype)
            hidden_grads.append((errors @ operand).to(hidden.dtype))
            if weight_grad is not None:
                weight_grad += _product(errors.T, part.to(ctx.dtype))
        if weight_grad is not None:
            weight_grad = weight_grad.to(weight.dtype)
        return torch.cat(hidden_grads), weight_grad, None, None


def _dtype(weight: Tensor) -> torch.dtype:
    """Return the dtype of the inputs of the head's matrix products.

    The dtype is fp32 on CPUs. On GPUs it is autocast's dtype if autocast is enabled, and otherwise
    that of `weight`.
    """
    kind = weight.device.type
    if kind == "cpu":  # CPUs cannot return products of half-precision inputs in fp32
        return torch.float32
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype


def _logits(hidden: Tensor, operand: Tensor) -> Tensor:
    # logits need fp32: autocast would round the product
    with torch.autocast(hidden.device.type, enabled=False):
        return _product(hidden.to(operand.dtype), operand.T)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Return a matrix product in fp32; half-precision inputs are supported on CUDA only."""
    if left.dtype == torch.float32:
        return left @ right
    return torch.mm(left, right, out_dtype=torch.float32)
