"""Policy losses other than AIPO's own, which is in `aipo.py`, and what all losses need.

A loss is a pure function (type `Loss`), whose input is the sampled tokens of one packed row.

The caller sums the losses of all rows before the optimizer step. Each loss is therefore divided by
the number of tokens or rollouts in the whole global batch, masked tokens included.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

PROBABILITY_SHIFT = 0.2
PENALTY = 1e-3
PPO_CLIP = (0.8, 1.2)
FEEDBACK_CLIP = 2.0
"""Limit of the log-probability gap that `pulled` adds to an advantage."""


class Totals(NamedTuple):
    """Sizes of the global batch.

    Attributes:
        tokens: number of loss tokens, counted before any token is masked.
        rollouts: number of rollouts with at least one loss token.
    """

    tokens: int
    rollouts: int


class Feedback(NamedTuple):
    """A teacher's predictions for the m marked tokens of a row; see `aipo.feedback_loss`.

    Attributes:
        marked: index [m] of each marked token in the n loss tokens.
        logprobs: the teacher's log-probabilities [m], without gradient.
        divergences: KL(teacher || policy) [m] over the vocabulary, with gradient through the policy
            only; [0] if the teacher's probabilities of other tokens are unknown.
    """

    marked: Tensor
    logprobs: Tensor
    divergences: Tensor


class LossInput(NamedTuple):
    """The n loss tokens (sampled tokens) of a packed row that contains r rollouts.

    Attributes:
        logprobs: log-probabilities [n] of the trained policy, with gradient.
        sampler_logprobs: log-probabilities [n] of the sampler, at the same temperature.
        advantages: advantage of each token [n].
        sequences: index [n] of the rollout of each token, in [0, rollouts); all loss tokens of a
            rollout are in one row.
        rollouts: number of rollouts r.
        total: sizes of the global batch.
        feedback: the marked tokens; None for a row without any.
    """

    logprobs: Tensor
    sampler_logprobs: Tensor
    advantages: Tensor
    sequences: Tensor
    rollouts: int
    total: Totals
    feedback: Feedback | None = None


LossOutput = tuple[Tensor, Mapping[str, float]]
"""The loss of a row as a scalar tensor, and metrics of the row's tokens by name.

Metrics whose names end in _max are maxima; all others are sums over tokens. "masked" is the number
of tokens without a policy gradient. Over all other tokens, "ratio" is the sum of the importance
ratios exp(logp - sampler's logp), "ratio_max" their maximum, and "ratio_deviation" the sum of
(ratio - 1)^2. "gap" is the sum of |logp - sampler's logp| over all tokens for which this difference
is finite. For marked tokens, "feedback_tokens" is their number, and "feedback_gap" is the sum of
|teacher's logp - logp|.
"""
Loss = Callable[[LossInput], LossOutput]
"""Type of the policy losses."""


def ipo(row: LossInput) -> LossOutput:
    """Return AIPO's loss with a penalty on log ratios, and a trust region instead of its masks.

    The loss is (-sum over kept tokens of stopgrad(ratio * A) * logp + 1e-3 * sum over all tokens of
    (log ratio)^2) / total.tokens. A token is masked if its probability has changed by more than
    0.2 since it was sampled. Source: PRIME-RL, based on the paper DPPO (arXiv 2602.04879).
    """
    keep = _shift(row).abs() <= PROBABILITY_SHIFT
    return _penalised(row, keep)


def dppo_kl(row: LossInput) -> LossOutput:
    """Return the loss of `ipo`, but mask only tokens whose update would widen the shift.

    The shift of a token is its probability under the trained policy minus its probability under the
    sampler.

    A token is masked if its shift is above 0.2 and its advantage A is positive, or if its shift is
    below -0.2 and A is negative. Source: PRIME-RL, based on the paper DPPO (arXiv 2602.04879).
    """
    keep = _shift(row) * row.advantages.sign() <= PROBABILITY_SHIFT
    return _penalised(row, keep)


def grpo(row: LossInput) -> LossOutput:
    """Return PPO's clipped loss, averaged over the tokens of each rollout and then over rollouts.

    A token's loss is -min(ratio * A, clip(ratio, 0.8, 1.2) * A), without a KL term to a reference
    model. Advantages must be standardised in each group. Source: arXiv 2402.03300.
    """
    lengths = per_rollout(torch.ones_like(log_ratios(row)), row)
    weights = 1 / (lengths[row.sequences] * row.total.rollouts)
    return _clipped(row, weights)


def dr_grpo(row: LossInput) -> LossOutput:
    """Return the loss of `grpo` with equal weights for tokens of short and long rollouts.

    The sum of token losses is divided by total.tokens. Advantages must be mean-centred, but not
    standardised. Source: arXiv 2503.20783.
    """
    return _clipped(row, 1 / row.total.tokens)


def likelihood(row: LossInput) -> LossOutput:
    """Return the weighted negative log-likelihood of the tokens, for imitation.

    The weights are the advantages A: the loss is -sum of A * logp / total.tokens, and
    `sampler_logprobs` is ignored.
    """
    loss = -(row.advantages * row.logprobs).sum() / row.total.tokens
    agreed = torch.zeros_like(_wide(row.logprobs.detach()))
    return loss, watched(agreed, agreed == 0)


def raft(row: LossInput) -> LossOutput:
    """Return the negative log-likelihood of the tokens that earned more than the rest of the group.

    This is rejection sampling: tokens with a positive advantage are imitated, all others are
    masked. The loss is -sum over unmasked tokens of logp / total.tokens, without importance ratios.
    Source: RAFT, arXiv 2304.06767, where a sample is a whole answer.
    """
    log_ratio = log_ratios(row).detach()
    keep = (row.advantages > 0) & _finite(log_ratio)
    loss = policy_term(row.logprobs, torch.ones_like(log_ratio), keep)
    return loss / row.total.tokens, watched(log_ratio, keep)


LOSSES: Mapping[str, Loss] = {
    "ipo": ipo,
    "dppo_kl": dppo_kl,
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "raft": raft,
}
"""Policy losses by the names that the setting `loss` accepts, besides AIPO's."""

STANDARDISED = frozenset({"grpo"})
"""Names of the losses that need standardised advantages; all other losses need centred ones."""


def pulled(row: LossInput, feedback: Feedback, weight: float) -> LossInput:
    """Return the row with advantages that draw the marked tokens towards the teacher.

    A marked token's advantage grows by weight * clip(log p(teacher) - log p, -2, 2).
    """
    gap = feedback_gap(row, feedback).clamp(-FEEDBACK_CLIP, FEEDBACK_CLIP)
    return row._replace(
        advantages=row.advantages.index_add(0, feedback.marked, (weight * gap).to(row.advantages))
    )


def divergence(row: LossInput, feedback: Feedback, keep: Tensor) -> Tensor:
    """Return the sum of divergences of marked tokens with `keep` [n], divided by total.tokens."""
    kept = torch.where(keep[feedback.marked], feedback.divergences, 0.0)
    return kept.sum() / row.total.tokens


def feedback_gap(row: LossInput, feedback: Feedback) -> Tensor:
    """Return log p(teacher) - log p [m] of the marked tokens, without gradient."""
    return _wide(feedback.logprobs) - _wide(row.logprobs.detach()[feedback.marked])


def log_ratios(row: LossInput) -> Tensor:
    """Return log p - log q [n] of each token: p is the trained policy's, q the sampler's."""
    return _wide(row.logprobs) - _wide(row.sampler_logprobs)


def per_rollout(values: Tensor, row: LossInput) -> Tensor:
    """Return the sum [r] of the values [n] of each rollout's tokens."""
    return values.new_zeros(row.rollouts).index_add(0, row.sequences, values)


def policy_term(logprobs: Tensor, weights: Tensor, keep: Tensor) -> Tensor:
    """Return -sum of weight * logp over the tokens where `keep` [n], a bool mask, is true."""
    # `where` instead of a product of weights and mask, because 0 * inf is nan
    return -(torch.where(keep, weights, 0.0) * torch.where(keep, logprobs, 0.0)).sum()


def watched(
    log_ratio: Tensor, keep: Tensor, counted: Mapping[str, Tensor] | None = None
) -> dict[str, float]:
    """Return the metrics of a row's tokens, see `LossOutput`.

    Args:
        log_ratio: `log_ratios` [n], without gradient.
        keep: bool [n], False for tokens without policy gradient.
        counted: bool masks [n] by name; each adds a metric that counts the tokens in the mask.
    """
    ratio = torch.where(keep, log_ratio.exp(), 0.0)
    figures = {
        "masked": (~keep).sum(),
        "ratio": ratio.sum(),
        "ratio_deviation": torch.where(keep, ratio - 1, 0.0).square().sum(),
        "ratio_max": torch.cat([ratio, ratio.new_zeros(1)]).amax(),  # for rows without tokens
        "gap": torch.where(log_ratio.isfinite(), log_ratio.abs(), 0.0).sum(),
        **{name: tokens.sum() for name, tokens in (counted or {}).items()},
    }
    # one transfer from the device for all metrics
    values = torch.stack([figure.to(ratio.dtype) for figure in figures.values()]).tolist()
    return dict(zip(figures, values, strict=True))


def _wide(values: Tensor) -> Tensor:
    # 16-bit floats cannot represent sums and counts over long rollouts
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _shift(row: LossInput) -> Tensor:
    return _wide(row.logprobs.detach()).exp() - _wide(row.sampler_logprobs).exp()


def _finite(log_ratio: Tensor) -> Tensor:
    return log_ratio.isfinite() & log_ratio.exp().isfinite()


def _penalised(row: LossInput, keep: Tensor) -> LossOutput:
    log_ratio = log_ratios(row)
    fixed = log_ratio.detach()
    keep = keep & _finite(fixed)
    policy = policy_term(row.logprobs, fixed.exp() * row.advantages, keep)
    penalty = PENALTY * torch.where(fixed.isfinite(), log_ratio, 0.0).square().sum()
    return (policy + penalty) / row.total.tokens, watched(fixed, keep)


def _clipped(row: LossInput, weights: Tensor | float) -> LossOutput:
    log_ratio = log_ratios(row)
    fixed = log_ratio.detach()
    finite = _finite(fixed)
    # masked before `exp`: an infinite ratio has a nan gradient, even if `where` discards the ratio
    ratio = torch.where(finite, log_ratio, 0.0).exp()
    gain = torch.minimum(ratio * row.advantages, ratio.clamp(*PPO_CLIP) * row.advantages)
    loss = -(torch.where(finite, gain, 0.0) * weights).sum()
    # tokens have no gradient where the clipped term, a constant, is the minimum of the two terms
    rose, fell = ratio > PPO_CLIP[1], ratio < PPO_CLIP[0]
    active = (rose & (row.advantages > 0)) | (fell & (row.advantages < 0))
    return loss, watched(fixed, finite & ~active)
