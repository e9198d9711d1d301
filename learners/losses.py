"""Policy losses: pure functions of the loss tokens of a packed row.

Each has the signature of `Loss`. The caller adds rows up and steps once a batch, so every loss
is already divided by what the GLOBAL batch holds, counted before masking.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

TOKEN_RATIO = (0.125, 8.0)
SEQUENCE_RATIO = (0.1, 10.0)
ANY_RATIO = 100.0
PROBABILITY_SHIFT = 0.2
PENALTY = 1e-3
CLIP = (0.8, 1.2)


class Totals(NamedTuple):
    """Sizes of the global batch.

    Attributes:
        tokens: loss tokens, counted before masking.
        rollouts: rollouts with at least one loss token.
    """

    tokens: int
    rollouts: int


class Loss(Protocol):
    """A loss over n loss tokens of r rollouts."""

    def __call__(
        self,
        logprobs: Tensor,
        sampler_logprobs: Tensor,
        advantages: Tensor,
        sequences: Tensor,
        rollouts: int,
        total: Totals,
    ) -> tuple[Tensor, Mapping[str, float]]:
        """The loss, and figures worth watching.

        Args:
            logprobs: the trainer's [n], with gradient.
            sampler_logprobs: the sampler's [n], at the same temperature.
            advantages: [n].
            sequences: [n], in [0, rollouts); all loss tokens of a rollout are in one call.
            rollouts: r.
            total: sizes of the global batch.

        Returns:
            The loss [] and the figures. Names that end in _max are maxima, all others sums over
            tokens: "masked" counts the tokens without policy gradient; "ratio",
            "ratio_deviation" (its square from 1) and "ratio_max" are of the others; "gap" is
            |logp - sampler's logp| of all tokens where it is finite.
        """
        ...


def aipo(
    logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    sequences: Tensor,
    rollouts: int,
    total: Totals,
) -> tuple[Tensor, Mapping[str, float]]:
    """Asynchronous GRPO with importance ratios against the sampler itself.

    -sum over kept tokens of stopgrad(ratio * A) * logp / total.tokens, where
    ratio = exp(logp - sampler's logp). A token is dropped when its ratio leaves
    [0.125, 8]; a rollout when any of its ratios exceeds 100 or their geometric mean leaves
    [0.1, 10]. Of the masked tokens, "masked_rollout" are in dropped rollouts; "masked_low" and
    "masked_high" are below and above the interval in the others. Source: PRIME-RL 0.4.
    """
    log_ratio = _log_ratio(logprobs, sampler_logprobs).detach()
    ratio = log_ratio.exp()
    low, high = ratio < TOKEN_RATIO[0], ratio > TOKEN_RATIO[1]
    zeros = log_ratio.new_zeros(rollouts)
    counts = _lengths(sequences, zeros).clamp(min=1)
    means = (zeros.index_add(0, sequences, log_ratio) / counts).exp()
    wild = zeros.index_add(0, sequences, (ratio > ANY_RATIO).to(zeros.dtype)) > 0
    # a nan among the ratios makes its rollout's mean nan, which is in no interval
    whole = ((means >= SEQUENCE_RATIO[0]) & (means <= SEQUENCE_RATIO[1]) & ~wild)[sequences]
    keep = whole & ~low & ~high
    loss = _policy_term(logprobs, ratio * advantages, keep) / total.tokens
    reasons = {"masked_low": whole & low, "masked_high": whole & high, "masked_rollout": ~whole}
    return loss, _watched(log_ratio, keep, reasons)


def ipo(
    logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    sequences: Tensor,
    rollouts: int,
    total: Totals,
) -> tuple[Tensor, Mapping[str, float]]:
    """As `aipo`, with a trust region in probabilities and a penalty on leaving the sampler.

    (-sum over kept tokens of stopgrad(ratio * A) * logp + 1e-3 * sum over all tokens of
    (log ratio)^2) / total.tokens. A token is dropped when its probability moved by more than
    0.2, whichever way. Source: PRIME-RL.
    """
    keep = _shift(logprobs, sampler_logprobs).abs() <= PROBABILITY_SHIFT
    return _penalised(logprobs, sampler_logprobs, advantages, keep, total)


def dppo_kl(
    logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    sequences: Tensor,
    rollouts: int,
    total: Totals,
) -> tuple[Tensor, Mapping[str, float]]:
    """As `ipo`, but a token is dropped only where its advantage would push it further away.

    That is where its probability rose by more than 0.2 and A > 0, or fell by more than 0.2 and
    A < 0. Source: PRIME-RL.
    """
    keep = _shift(logprobs, sampler_logprobs) * advantages.sign() <= PROBABILITY_SHIFT
    return _penalised(logprobs, sampler_logprobs, advantages, keep, total)


def grpo(
    logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    sequences: Tensor,
    rollouts: int,
    total: Totals,
) -> tuple[Tensor, Mapping[str, float]]:
    """PPO's clipped objective, a mean over each rollout's tokens and then over rollouts.

    -min(ratio * A, clip(ratio, 0.8, 1.2) * A); expects advantages that are standardised in
    their group. Without the KL term to a reference model. Source: arXiv 2402.03300.
    """
    lengths = _lengths(sequences, _log_ratio(logprobs, sampler_logprobs).new_zeros(rollouts))
    weights = 1 / (lengths[sequences] * total.rollouts)
    return _clipped(logprobs, sampler_logprobs, advantages, weights)


def dr_grpo(
    logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    sequences: Tensor,
    rollouts: int,
    total: Totals,
) -> tuple[Tensor, Mapping[str, float]]:
    """As `grpo`, but a token weighs the same in a short rollout as in a long one.

    The sum over tokens is divided by total.tokens; expects advantages that are mean-centred
    and not standardised. Source: arXiv 2503.20783.
    """
    return _clipped(logprobs, sampler_logprobs, advantages, 1 / total.tokens)


LOSSES: Mapping[str, Loss] = {
    "aipo": aipo,
    "ipo": ipo,
    "dppo_kl": dppo_kl,
    "grpo": grpo,
    "dr_grpo": dr_grpo,
}
"""The losses by name."""

STANDARDISED = frozenset({"grpo"})
"""Names of the losses that expect standardised advantages; the others want them mean-centred."""


def _wide(values: Tensor) -> Tensor:
    # sums and counts over long rollouts do not fit 16 bits
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _log_ratio(logprobs: Tensor, sampler_logprobs: Tensor) -> Tensor:
    return _wide(logprobs) - _wide(sampler_logprobs)


def _shift(logprobs: Tensor, sampler_logprobs: Tensor) -> Tensor:
    return _wide(logprobs.detach()).exp() - _wide(sampler_logprobs).exp()


def _finite(log_ratio: Tensor) -> Tensor:
    return log_ratio.isfinite() & log_ratio.exp().isfinite()


def _lengths(sequences: Tensor, zeros: Tensor) -> Tensor:
    ones = torch.ones_like(sequences, dtype=zeros.dtype)
    return zeros.index_add(0, sequences, ones)


def _policy_term(logprobs: Tensor, weights: Tensor, keep: Tensor) -> Tensor:
    # chosen, not multiplied by zero: what is dropped may be infinite
    return -(torch.where(keep, weights, 0.0) * torch.where(keep, logprobs, 0.0)).sum()


def _penalised(
    logprobs: Tensor, sampler_logprobs: Tensor, advantages: Tensor, keep: Tensor, total: Totals
) -> tuple[Tensor, Mapping[str, float]]:
    log_ratio = _log_ratio(logprobs, sampler_logprobs)
    fixed = log_ratio.detach()
    keep = keep & _finite(fixed)
    policy = _policy_term(logprobs, fixed.exp() * advantages, keep)
    penalty = PENALTY * torch.where(fixed.isfinite(), log_ratio, 0.0).square().sum()
    return (policy + penalty) / total.tokens, _watched(fixed, keep)


def _clipped(
    logprobs: Tensor, sampler_logprobs: Tensor, advantages: Tensor, weights: Tensor | float
) -> tuple[Tensor, Mapping[str, float]]:
    log_ratio = _log_ratio(logprobs, sampler_logprobs)
    fixed = log_ratio.detach()
    finite = _finite(fixed)
    # chosen before exp: the slope of an infinite ratio is not a number even when unused
    ratio = torch.where(finite, log_ratio, 0.0).exp()
    gain = torch.minimum(ratio * advantages, ratio.clamp(*CLIP) * advantages)
    loss = -(torch.where(finite, gain, 0.0) * weights).sum()
    rose, fell = ratio > CLIP[1], ratio < CLIP[0]
    active = (rose & (advantages > 0)) | (fell & (advantages < 0))
    return loss, _watched(fixed, finite & ~active)


def _watched(
    log_ratio: Tensor, keep: Tensor, counted: Mapping[str, Tensor] | None = None
) -> dict[str, float]:
    """The figures that `Loss` describes, and the sizes of further sets of tokens."""
    ratio = torch.where(keep, log_ratio.exp(), 0.0)
    figures = {
        "masked": (~keep).sum(),
        "ratio": ratio.sum(),
        "ratio_deviation": torch.where(keep, ratio - 1, 0.0).square().sum(),
        "ratio_max": torch.cat([ratio, ratio.new_zeros(1)]).amax(),  # a row may have no token
        "gap": torch.where(log_ratio.isfinite(), log_ratio.abs(), 0.0).sum(),
        **{name: tokens.sum() for name, tokens in (counted or {}).items()},
    }
    # one transfer from the device for all
    values = torch.stack([figure.to(ratio.dtype) for figure in figures.values()]).tolist()
    return dict(zip(figures, values, strict=True))
