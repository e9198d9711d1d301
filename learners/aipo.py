"""AIPO: train a language-model agent from rewards, on rollouts sampled by slightly older weights.

    python learners/aipo.py                      # the bundled nano policy, two CPU cores
    python learners/aipo.py --config nano_vllm   # the same policy, sampled by vLLM during training
    python learners/aipo.py --config smollm2     # a real pretrained model, same loop
    python learners/aipo.py --backend fsdp2 --trainer-procs 2     # or deepspeed
    python learners/aipo.py --config qwen3_14b_4xh200 --dry-run   # memory and time, estimated
    python learners/aipo.py --help

`resume-gym train` and `python -m learners.aipo` run the same program. Results are in runs/NAME. To
resume an interrupted run, repeat its command. To use several machines, start this file with
torchrun and its rendezvous flags on each machine.

This file is the algorithm: AIPO, from LlamaRL (arXiv 2505.24034), with its advantages, its loss and
its training loop. AIPO has no critic, no reference model and no second pass over a batch. What else
happens in a run (alarms, checkpoints, evaluations) is in `supervisor.py`, processes and error
messages are in `launch.py`, sampling in `rollouts/`, and backends in `training/`.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from resume_gym.support.import_path import leave_current_folder
from resume_gym.support.user_errors import missing_of

if __name__ == "__main__":
    leave_current_folder()
    if missing := missing_of("training needs", "train"):
        # report missing packages here: the imports below would fail with a traceback
        print(f"resume-gym: {missing}", file=sys.stderr)
        raise SystemExit(2)
    from learners.command_line import parse

    given = parse(sys.argv[1:])  # reports mistakes before the imports below, which take seconds

import torch

from learners import launch
from learners.advantages import by_edit, mean_centred, standardised
from learners.command_line import Arguments
from learners.config import Config
from learners.losses import (
    LOSSES,
    STANDARDISED,
    LossInput,
    LossOutput,
    divergence,
    feedback_gap,
    log_ratios,
    per_rollout,
    policy_term,
    pulled,
    watched,
)
from learners.rollouts.batch import Batch
from learners.rollouts.rollout_source import RolloutSource
from learners.run.report import RunReport
from learners.supervisor import Supervisor
from learners.training.trainer import Trainer

TOKEN_RATIO, ROLLOUT_RATIO, ANY_RATIO = (0.125, 8.0), (0.1, 10.0), 100.0
"""Limits of p/q in `aipo_loss`: of a token, of a rollout's geometric mean, and of its maximum."""
FEEDBACK_SPAN = 10
"""Number of steps in each of the two consecutive spans that `feedback_weight` compares."""


def train(config: Config, trainer: Trainer, rollouts: RolloutSource, report: RunReport) -> int:
    """Train until the last step, or until the run's goal is reached or its budget is used up.

    Every rank runs this loop on the same batches. Only rank 0 samples and writes files; the
    other ranks receive the batches and errors of rank 0 through `rollouts`.

    Args:
        config: settings of the run.
        trainer: the policy, its optimizer and its checkpoints.
        rollouts: source of graded episodes of the current policy.
        report: the run's folder, loggers and display.

    Returns:
        The exit status of the process: 3 if a budget is used up, else 0.
    """
    loss = aipo_loss if config.loss == "aipo" else LOSSES[config.loss]
    run = Supervisor(config, trainer, rollouts, report)
    for step in run.steps():
        # The batch was sampled by weights at most `max_staleness` steps old. The loss corrects
        # for this lag: every token carries the log-probability with which it was sampled.
        batch = run.batch(step)
        advantages = credit(config, batch)
        weight = feedback_weight(config.feedback_weight, trainer.state)
        if config.feedback_weight:
            loss = partial(feedback_loss, weight=weight, form=config.feedback_form)
        samples = batch.samples(advantages, hinted=weight > 0)
        with rollouts.asleep():  # during the step, an engine on the trainer's GPU frees its memory
            trained = trainer.step(step, samples, loss)
        if config.feedback_weight:
            trained = {**trained, "feedback_weight": weight}
            if not config.teacher:  # hints end once they are learned, a teacher stays
                trainer.state = with_gap(trainer.state, trained)
        run.react(step, batch, trained)  # an alarm may restore the weights of an earlier step
        # Episodes of later steps that have already begun continue with the new weights.
        probe = rollouts.publish(step)
        run.complete(step, probe)
    return run.finish()


def credit(config: Config, batch: Batch) -> list[list[float]]:
    """Return the advantages of each rollout's turns.

    The advantage is A = r - mean(r), with a rollout's reward r and the mean over the rollouts of
    one task. The mean is the baseline, so there is no critic. AIPO does not divide A by the
    standard deviation, since the division would favour groups whose rewards hardly differ. With
    `--credit edit`, each turn has its own A: r is what the turn and all later turns earned, with
    each edit paid for what it changes; see `by_edit`. With `--credit none`, A is 0.
    """
    if config.credit == "none":
        return [[0.0] * turns for turns in batch.turns]
    if config.credit == "edit":
        return by_edit(batch.earned, batch.groups)
    estimate = standardised if config.loss in STANDARDISED else mean_centred
    values = estimate(batch.rewards, batch.groups).tolist()
    return [[a] * turns for a, turns in zip(values, batch.turns, strict=True)]


def aipo_loss(row: LossInput) -> LossOutput:
    """Return AIPO's loss: -1/N sum over N tokens of stopgrad(p/q A) log p.

    p is a token's probability under the trained policy, and q under the sampler. A token whose
    ratio p/q leaves [1/8, 8] is masked, so that a stale or wrong q cannot dominate. A rollout is
    masked if any of its ratios exceeds 100, or if their geometric mean leaves [0.1, 10]. N counts
    masked tokens, too. A batch gives one optimizer step.

    The metric "masked_rollout" counts the tokens of masked rollouts. In other rollouts,
    "masked_low" counts the tokens with ratios below 1/8, and "masked_high" those with ratios above
    8. Source: PRIME-RL 0.4, which masks tokens whose ratio LlamaRL would clip.
    """
    keep, reasons = _masks(row)
    log_ratio = log_ratios(row).detach()
    loss = policy_term(row.logprobs, log_ratio.exp() * row.advantages, keep) / row.total.tokens
    return loss, watched(log_ratio, keep, reasons)


def feedback_loss(row: LossInput, weight: float, form: str) -> LossOutput:
    """Return AIPO's loss, changed to draw the policy towards a teacher on the marked tokens.

    With `--teacher`, the teacher is another model, and all sampled tokens are marked. Without it
    (targeted textual feedback), the tokens of bad turns are marked, and the teacher is the policy
    itself, without gradient, with a hint in its context before the turn. The form "full" adds
    weight/N times the sum of KL(teacher || policy) over the vocabulary, for all marked tokens that
    AIPO does not mask. The form "sampled" adds weight times the clipped gap log p(teacher) - log p
    of each marked token to the token's advantage.

    The metric "feedback_gap" is the sum of |gap|, which the trainer turns into a mean. Sources:
    self-distillation with feedback in the context (SDPO, arXiv 2601.20802), and for "sampled",
    on-policy distillation.
    """
    feedback = row.feedback
    if feedback is None:
        return aipo_loss(row)
    gap = feedback_gap(row, feedback).abs()
    if form == "sampled":
        loss, metrics = aipo_loss(pulled(row, feedback, weight))
    else:
        loss, metrics = aipo_loss(row)
        loss = loss + weight * divergence(row, feedback, _masks(row)[0])
    total = float(torch.where(gap.isfinite(), gap, 0.0).sum())
    return loss, {**metrics, "feedback_gap": total, "feedback_tokens": float(len(gap))}


def feedback_weight(highest: float, state: Mapping[str, Any]) -> float:
    """Return the weight of the feedback, given the state from `with_gap`.

    Only steps with marked turns have a gap. The weight is `highest` until the mean gap over the
    last ten such steps is not below that over the ten before, and then 0 for the rest of the run.
    """
    gaps: Sequence[float] = state.get("feedback_gaps", ())
    if len(gaps) < 2 * FEEDBACK_SPAN:
        return highest
    falls = fmean(gaps[FEEDBACK_SPAN:]) < fmean(gaps[:FEEDBACK_SPAN])
    return highest if falls else 0.0


def with_gap(state: Mapping[str, Any], trained: Mapping[str, float]) -> Mapping[str, Any]:
    """Return the algorithm's state, with a step's feedback gap added if it had marked turns."""
    if "feedback_gap" not in trained:
        return state
    gaps = [*state.get("feedback_gaps", ()), trained["feedback_gap"]]
    return {**state, "feedback_gaps": gaps[-2 * FEEDBACK_SPAN :]}


def _masks(row: LossInput) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
    """Return a bool mask [n] of the tokens to keep, and one [n] for each "masked_" metric."""
    log_ratio = log_ratios(row).detach()
    ratio = log_ratio.exp()
    low, high = ratio < TOKEN_RATIO[0], ratio > TOKEN_RATIO[1]
    lengths = per_rollout(torch.ones_like(ratio), row).clamp(min=1)
    means = (per_rollout(log_ratio, row) / lengths).exp()
    wild = per_rollout((ratio > ANY_RATIO).to(ratio.dtype), row) > 0
    # written so that rollouts with a nan ratio are masked: comparisons with nan are False
    kept = (means >= ROLLOUT_RATIO[0]) & (means <= ROLLOUT_RATIO[1]) & ~wild
    whole = kept[row.sequences]
    keep = whole & ~low & ~high
    reasons = {"masked_low": whole & low, "masked_high": whole & high, "masked_rollout": ~whole}
    return keep, reasons


def main(arguments: Arguments) -> None:
    """Train with the settings of a command line."""
    launch.main(train, __file__, arguments)


if __name__ == "__main__":
    main(given)
