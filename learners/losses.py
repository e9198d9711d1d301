"""Policy losses: pure functions of the loss tokens of a packed row.

Each has the signature of `Loss`. The caller adds rows up and steps once a batch, so every loss
is already divided by the number of loss tokens of the GLOBAL batch, counted before masking.
"""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

TOKEN_RATIO = (0.125, 8.0)
SEQUENCE_RATIO = (0.1, 10.0)
ANY_RATIO = 100.0


class Loss(Protocol):
    """A loss over n loss tokens of r rollouts."""

    def __call__(
        self,
        logprobs: Tensor,
        sampler_logprobs: Tensor,
        advantages: Tensor,
        sequences: Tensor,
        rollouts: int,
        total_tokens: int,
    ) -> tuple[Tensor, Mapping[str, float]]:
        """The loss, and sums over tokens of what is worth watching.

        Args:
            logprobs: the trainer's [n], with gradient.
            sampler_logprobs: the sampler's [n], at the same temperature.
            advantages: [n].
            sequences: [n], in [0, rollouts).
            rollouts: r.
            total_tokens: loss tokens of the global batch.
        """
        ...


def aipo(
    logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    sequences: Tensor,
    rollouts: int,
    total_tokens: int,
) -> tuple[Tensor, Mapping[str, float]]:
    """Asynchronous GRPO with importance ratios against the sampler itself.

    -sum over kept tokens of stopgrad(ratio * A) * logp / total_tokens, where
    ratio = exp(logp - sampler's logp). A token is dropped when its ratio leaves
    [0.125, 8]; a rollout when any of its ratios exceeds 100 or their geometric mean leaves
    [0.1, 10]. Source: PRIME-RL 0.4.
    """
    with torch.no_grad():
        log_ratio = logprobs - sampler_logprobs
        ratio = log_ratio.exp()
        token = (ratio >= TOKEN_RATIO[0]) & (ratio <= TOKEN_RATIO[1])
        zeros = torch.zeros(rollouts, dtype=logprobs.dtype, device=logprobs.device)
        counts = zeros.index_add(0, sequences, torch.ones_like(logprobs)).clamp(min=1)
        means = (zeros.index_add(0, sequences, log_ratio) / counts).exp()
        wild = zeros.index_add(0, sequences, (ratio > ANY_RATIO).to(logprobs.dtype)) > 0
        whole = (means >= SEQUENCE_RATIO[0]) & (means <= SEQUENCE_RATIO[1]) & ~wild
        keep = token & whole[sequences]
        # picked, not multiplied by zero: what is dropped may be infinite
        weight = (ratio * advantages)[keep]
    loss = -(weight * logprobs[keep]).sum() / total_tokens
    return loss, {
        "masked": float((~keep).sum()),
        "ratio": float(ratio[keep].sum()),
        "gap": float(log_ratio.abs().sum()),
    }
