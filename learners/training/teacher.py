"""A frozen model whose probabilities of the sampled tokens are compared with the policy's."""

import torch
from torch import Tensor

from learners.training import models, ranks
from learners.training.policy import Policy
from learners.training.rows import PackedRow


class Teacher:
    """Frozen model, of which each rank holds an unsharded copy.

    Args:
        name: name or folder of the model.
        temperature: divisor of the logits, equal to the policy's.
        precision: "float32" or "bfloat16"; see `Policy`.
    """

    def __init__(self, name: str, temperature: float, precision: str) -> None:
        model = models.load(name, ranks.device()).requires_grad_(False)
        if precision == "bfloat16":
            for weight in model.parameters():  # not `model.to()`: rotary frequencies need fp32
                weight.data = weight.data.bfloat16()
        self._policy = Policy(model, temperature, precision).eval()

    @torch.no_grad()
    def logprobs(self, row: PackedRow) -> Tensor:
        """Return log-probabilities [n] of a row's loss tokens."""
        logprobs: Tensor = self._policy(row)[0]
        return logprobs

    @torch.no_grad()
    def states(self, row: PackedRow) -> tuple[Tensor, Tensor]:
        """Return hidden states [n, width] that predict the loss tokens, and the head's weight."""
        with self._policy.autocast():
            head: Tensor = self._policy.model.get_output_embeddings().weight
            return self._policy.predicting(row), head
