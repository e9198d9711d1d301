"""Muon: an optimizer whose momentum update of each matrix has singular values near 1.

Source: Jordan et al. (2024), https://kellerjordan.github.io/posts/muon/. `torch.optim.Muon`
computes in bfloat16, which a CPU without instructions for it emulates: a step of the nano policy
then takes 20 seconds. This class computes in the data type that the caller chooses.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

_A, _B, _C = 3.4445, -4.7750, 2.0315  # coefficients of the quintic iteration
_ITERATIONS = 5
_MOMENTUM = 0.95


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum, and updates scaled to the size of AdamW's.

    Args:
        matrices: trained matrices.
        lr: learning rate.
        weight_decay: decoupled weight decay.
        dtype: data type of the orthogonalisation.
    """

    def __init__(
        self, matrices: Iterable[Tensor], lr: float, weight_decay: float, dtype: torch.dtype
    ) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all matrices that have a gradient; `closure` is not supported."""
        assert closure is None, "Muon takes no closure"
        for group in self.param_groups:
            rate, decay = group["lr"], group["weight_decay"]
            for weight in group["params"]:
                if weight.grad is not None:
                    update = orthogonal(self._momentum(weight), self._dtype)
                    weight.mul_(1 - rate * decay)
                    weight.add_(update, alpha=-0.2 * rate * max(weight.shape) ** 0.5)

    def _momentum(self, weight: Tensor) -> Tensor:
        state: dict[str, Any] = self.state[weight]
        mean = state.setdefault("momentum_buffer", torch.zeros_like(weight))
        mean.lerp_(weight.grad, 1 - _MOMENTUM)
        return weight.grad.lerp(mean, _MOMENTUM)  # type: ignore[union-attr]


def orthogonal(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a matrix [m, n] with the singular vectors of `matrix` and singular values near 1."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    found = wide.to(dtype)
    found = found / found.norm().clamp(min=1e-7)
    for _ in range(_ITERATIONS):
        gram = found @ found.T
        found = torch.addmm(found, torch.addmm(gram, gram, gram, beta=_B, alpha=_C), found, beta=_A)
    return (found if wide is matrix else found.T).to(matrix.dtype)
