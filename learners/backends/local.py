"""One process, one device, plain PyTorch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_model, save_model

from learners.batching import Batch
from learners.losses import Loss
from learners.policy import Policy


class LocalBackend:
    """AdamW on the policy's own weights.

    Args:
        policy: trained in place.
        learning_rate: of AdamW, constant.
        weight_decay: of AdamW.
        clip_norm: limit of the global gradient norm.
    """

    def __init__(
        self, policy: Policy, learning_rate: float, weight_decay: float, clip_norm: float
    ) -> None:
        self._policy = policy
        self._clip_norm = clip_norm
        self._optimizer = torch.optim.AdamW(
            policy.parameters(), lr=learning_rate, weight_decay=weight_decay, betas=(0.9, 0.99)
        )

    def train_step(self, batches: Sequence[Batch], loss: Loss) -> Mapping[str, float]:
        """One optimizer step.

        Raises:
            ValueError: no token was sampled.
            FloatingPointError: the gradient is not finite; the weights are as they were.
        """
        total = sum(len(batch.targets) for batch in batches)
        if not total:
            raise ValueError("a batch without sampled tokens cannot be trained on")
        sums: Counter[str] = Counter()
        value = 0.0
        self._policy.train()
        for batch in batches:
            if not len(batch.targets):
                continue
            logprobs, entropy = self._policy(batch)
            part, seen = loss(
                logprobs,
                batch.logprobs,
                batch.advantages,
                batch.sequences,
                batch.rollouts,
                total,
            )
            part.backward()
            value += float(part.detach())
            sums.update({**seen, "entropy": float(entropy.sum())})
        norm = torch.nn.utils.clip_grad_norm_(self._policy.parameters(), self._clip_norm)
        if not torch.isfinite(norm):
            self._optimizer.zero_grad()
            raise FloatingPointError(f"the gradient norm is {float(norm)}")
        self._optimizer.step()
        self._optimizer.zero_grad()
        means = {name: total_ / total for name, total_ in sums.items()}
        return {**means, "loss": value, "gradient_norm": float(norm)}

    def save(self, folder: Path) -> None:
        """Write weights (safetensors) and optimizer state."""
        save_model(self._policy, str(folder / "policy.safetensors"))
        torch.save(self._optimizer.state_dict(), folder / "optimizer.pt")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        load_model(self._policy, str(folder / "policy.safetensors"))
        state = torch.load(folder / "optimizer.pt", weights_only=True)
        self._optimizer.load_state_dict(state)
