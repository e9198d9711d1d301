"""Language-model head that computes log-probabilities chunk by chunk, to save memory.

The logits [tokens, vocabulary] would be by far the largest tensor of a training step. They are not
stored: each chunk is computed in the forward pass and computed again in the backward pass. If the
head is frozen, the forward pass computes the gradient of the hidden states as well, so the backward
pass needs no logits.
"""

from collections.abc import Iterable, Iterator
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
        self,
        hidden: Tensor,
        targets: Tensor | None = None,
        temperature: float = 1.0,
        marked: Tensor | None = None,
        taught: Tensor | None = None,
        teacher: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """Return log-probabilities [n] of `targets`, and entropies [n] without gradient, in fp32.

        With `marked`, the first tensor [n + m] ends with the divergences KL(teacher || policy) of
        the marked tokens, whose gradient goes through `hidden` only. A third tensor has the
        teacher's log-probabilities [m] of the tokens, without gradient. DeepSpeed requires the same
        number of calls and of differentiable results on all ranks, so there is one of each.

        Args:
            hidden: hidden states [n, width].
            targets: token ids [n]; None to return the fp32 logits [n, vocabulary] instead.
            temperature: divisor of the logits in log-probabilities and entropies.
            marked: indices [m], among the n tokens, of those that a teacher predicts, too.
            taught: hidden states [m, teacher's width] of the teacher, without gradient.
            teacher: head [vocabulary, teacher's width] of the teacher; None if the teacher is this
                model, after a hint.
        """
        if targets is None:
            return _logits(hidden, self.weight.to(_dtype(self.weight)))
        selected = _Selected.apply(hidden, self.weight, targets, temperature)  # type: ignore[no-untyped-call]
        if marked is None or taught is None:
            return selected  # type: ignore[no-any-return]
        both = self.weight, self.weight.detach() if teacher is None else teacher
        compared = _Compared.apply(  # type: ignore[no-untyped-call]
            hidden[marked], taught, *both, targets[marked], temperature
        )
        (logprobs, entropies), (known, divergences) = selected, compared
        return torch.cat([logprobs, divergences]), entropies, known


class _Selected(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        # `cat` needs at least one part, and a row without loss tokens has none
        empty = hidden.new_zeros(0, dtype=torch.float32)
        logprobs, entropies, totals = [empty], [empty], [empty[:, None]]
        slopes = [hidden.new_zeros(0, hidden.shape[1])]
        dtype = _dtype(weight)
        operand = weight.to(dtype)
        is_moved, is_trained, *_ = ctx.needs_input_grad
        ahead = is_moved and not is_trained
        narrow = weight.to(_narrow(weight)) if ahead else None
        for part, ids in zip(hidden.split(CHUNK), targets.split(CHUNK), strict=True):
            # computed in place, since a chunk of logits is the largest tensor of the step
            logits = _logits(part, operand).div_(temperature)
            total = logits.logsumexp(1, keepdim=True)
            normalised = logits.sub_(total)
            logprobs.append(normalised.gather(1, ids[:, None])[:, 0])
            probabilities = normalised.exp()
            entropies.append(-torch.linalg.vecdot(probabilities, normalised))
            totals.append(total)
            if narrow is not None:
                # the gradient of log p(target): logits have onehot - softmax
                one = total.new_ones(total.shape)
                errors = probabilities.neg_().scatter_add_(1, ids[:, None], one).to(narrow.dtype)
                slopes.append((errors @ narrow).to(hidden.dtype) / temperature)
        ctx.ahead = ahead
        if ahead:
            ctx.save_for_backward(torch.cat(slopes))
        else:
            # with one log-sum-exp per token, the backward pass can recompute the softmax
            ctx.save_for_backward(hidden, weight, targets, torch.cat(totals))
        ctx.temperature, ctx.dtype = temperature, dtype
        entropy = torch.cat(entropies)
        ctx.mark_non_differentiable(entropy)
        return torch.cat(logprobs), entropy

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.ahead:
            (slopes,) = ctx.saved_tensors
            return (grad[:, None] * slopes).to(slopes.dtype), None, None, None
        hidden, weight, targets, totals = ctx.saved_tensors
        operand = weight.to(ctx.dtype)  # the backward pass runs outside autocast

        def errors() -> Iterator[Tensor]:
            chunks = (column.split(CHUNK) for column in (hidden, targets, totals, grad))
            for part, ids, total, slope in zip(*chunks, strict=True):
                logits = _logits(part, operand).div_(ctx.temperature)
                slope = slope[:, None] / ctx.temperature
                # `slope` is the gradient of log p(target): logits have slope * (onehot - softmax)
                yield logits.sub_(total).exp_().mul_(-slope).scatter_add_(1, ids[:, None], slope)

        trained = ctx.needs_input_grad[1]
        return *_gradients(hidden, weight, operand, errors(), trained), None, None


class _Compared(torch.autograd.Function):
    """A teacher's log-probabilities of target tokens, and KL(teacher || policy) at each token."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        taught: Tensor,
        weight: Tensor,
        teacher: Tensor,
        targets: Tensor,
        temperature: float,
    ) -> tuple[Tensor, Tensor]:
        empty = hidden.new_zeros(0, dtype=torch.float32)
        logprobs, divergences = [empty], [empty]
        dtype = _dtype(weight)
        both = (hidden, weight.to(dtype)), (taught, teacher.to(dtype))
        for place, one, other in _pairs(*both, temperature):
            logprobs.append(other.gather(1, targets[place, None])[:, 0])
            divergences.append(torch.linalg.vecdot(other.exp(), other - one))
        ctx.save_for_backward(hidden, taught, weight, teacher)
        ctx.temperature, ctx.dtype = temperature, dtype
        logprob = torch.cat(logprobs)
        ctx.mark_non_differentiable(logprob)
        return logprob, torch.cat(divergences)

    @staticmethod
    def backward(ctx: Any, _: Tensor, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, taught, weight, teacher = ctx.saved_tensors
        operand = weight.to(ctx.dtype)
        slopes = grad[:, None] / ctx.temperature
        pairs = _pairs((hidden, operand), (taught, teacher.to(ctx.dtype)), ctx.temperature)
        errors = ((one.exp() - other.exp()) * slopes[place] for place, one, other in pairs)
        trained = ctx.needs_input_grad[2]
        hidden_grad, weight_grad = _gradients(hidden, weight, operand, errors, trained)
        return hidden_grad, None, weight_grad, None, None, None


def _pairs(
    policy: tuple[Tensor, Tensor], teacher: tuple[Tensor, Tensor], temperature: float
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield each chunk's slice, and log-probabilities [c, vocabulary] of policy and of teacher.

    Each model is given by its hidden states [m, width] and its head [vocabulary, width].
    """
    size = max(1, CHUNK // 4)  # several tensors of this size exist at a time
    for start in range(0, len(policy[0]), size):
        place = slice(start, start + size)
        one, other = (
            _logits(hidden[place], operand) / temperature for hidden, operand in (policy, teacher)
        )
        yield place, one.log_softmax(1), other.log_softmax(1)


def _gradients(
    hidden: Tensor, weight: Tensor, operand: Tensor, errors: Iterable[Tensor], trained: bool
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of `hidden` and `weight`; `errors` has the logits' gradient by chunk."""
    # A frozen head needs no weight gradient, which saves one of three matrix products. The
    # weight gradient is summed in fp32, since a bf16 sum over chunks would lose small terms.
    weight_grad = torch.zeros_like(weight, dtype=_wide(weight.dtype)) if trained else None
    hidden_grads = [hidden.new_zeros(0, hidden.shape[1])]
    start = 0
    for error in errors:
        # cast the logits' gradient to the dtype of matrix products, as `nn.Linear` does
        narrow = error.to(operand.dtype)
        hidden_grads.append((narrow @ operand).to(hidden.dtype))
        if weight_grad is not None:
            part = hidden[start : start + len(error)]
            weight_grad += _product(narrow.T, part.to(operand.dtype))
        start += len(error)
    if weight_grad is not None:
        weight_grad = weight_grad.to(weight.dtype)
    return torch.cat(hidden_grads), weight_grad


def _dtype(weight: Tensor) -> torch.dtype:
    """Return the dtype of the inputs of the head's matrix products.

    The dtype is at least fp32 on CPUs. On GPUs it is autocast's dtype if autocast is enabled, and
    otherwise that of `weight`.
    """
    if weight.device.type == "cpu":  # CPUs cannot return products of half-precision inputs in fp32
        return _wide(weight.dtype)
    return _narrow(weight)


def _narrow(weight: Tensor) -> torch.dtype:
    """Return autocast's dtype if autocast is enabled, and otherwise that of `weight`."""
    kind = weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _logits(hidden: Tensor, operand: Tensor) -> Tensor:
    # logits need fp32: autocast would round the product
    with torch.autocast(hidden.device.type, enabled=False):
        return _product(hidden.to(operand.dtype), operand.T)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Return a matrix product in at least fp32; CPUs do not support half-precision inputs."""
    if left.dtype == _wide(left.dtype):
        return left @ right
    return torch.mm(left, right, out_dtype=torch.float32)
