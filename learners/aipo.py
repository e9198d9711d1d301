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

This file contains the training loop of AIPO, an algorithm from LlamaRL (arXiv 2505.24034). AIPO has
no critic, no reference model and no second pass over a batch. Processes, servers and error messages
are in `launch.py`, losses in `losses.py`, sampling in `rollouts/`, and backends in `training/`.
"""

import sys
from collections.abc import Mapping

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

from learners import launch
from learners.advantages import by_turn, mean_centred, standardised
from learners.command_line import Arguments
from learners.config import Config
from learners.engines import EngineError
from learners.errors import RunStopped
from learners.losses import STANDARDISED
from learners.rollouts.batch import Batch
from learners.rollouts.rollout import EpisodeError
from learners.rollouts.rollout_source import RolloutSource
from learners.run.report import RunReport
from learners.training.trainer import Trainer
from resume_gym.evaluation import Returns
from resume_gym.judges import JudgeError


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
    done = trainer.resume()
    report.start(done)
    rollouts.publish(done)
    before = evaluation("before", done, rollouts, report)
    # a resumed run repeats its latest evaluation if that evaluation was interrupted
    evaluate_if_due(config, done - done % (config.eval_every or 1), rollouts, report)

    for step in range(done + 1, config.steps + 1):
        try:
            report.evaluations(rollouts.evaluations(wait=False))
            if report.ended():
                trainer.save_unsaved(done)
                break
            report.begin("rollout", step)
            # The batch was sampled by weights at most `max_staleness` steps old. The loss corrects
            # for this lag: every token carries the log-probability with which it was sampled.
            batch = rollouts.batch(step, report.dropped)
            if config.colocated:  # the engine must not sleep during an evaluation
                report.evaluations(rollouts.evaluations(wait=True))
        except (JudgeError, EngineError, EpisodeError, RunStopped):
            trainer.save_unsaved(step - 1)  # so that the steps before this one are not lost
            raise

        report.begin("train", step)
        # A = r - mean(r), with a rollout's reward r and the mean over the rollouts of one task. The
        # mean is the baseline, so there is no critic. AIPO does not divide A by the standard
        # deviation, since the division would favour groups whose rewards hardly differ. With
        # `--credit turn`, each turn has its own A, to which tool rewards of earlier turns do not
        # contribute; see `by_turn`.
        advantages, trainer.state = credit(config, batch, trainer.state)
        # loss = -1/N sum over N tokens of stopgrad(p/q A) log p; p is a token's probability under
        # the trained policy, and q under the sampler. Tokens whose ratio p/q leaves [1/8, 8] are
        # masked, so that a stale or wrong q cannot dominate. A batch gives one optimizer step.
        with rollouts.asleep():  # during the step, an engine on the trainer's GPU frees its memory
            trained = trainer.step(step, batch.samples(advantages))
        # an alarm may end the run, or return the run to the weights of an earlier step
        action = report.react(step, {**batch.metrics, **trained})
        if action.back is not None:
            trainer.roll_back(action.back)

        report.begin("publish", step)
        # Episodes of later steps that have already begun continue with the new weights.
        probe = rollouts.publish(step)

        metrics = {**batch.metrics, **trained, "probe": probe}
        report.step(step, metrics, batch.response_tokens, action)
        # evaluated steps are saved, because the checkpoint with the best evaluation is kept
        saved = due(config.save_every, step) or due(config.eval_every, step)
        if saved or step == config.steps or action.back is not None or action.stop:
            trainer.save(step)
        if action.stop:
            trainer.wait_for_checkpoint()
            raise RunStopped(f"step {step}: {action.stop}")
        evaluate_if_due(config, step, rollouts, report)
        done = step

    report.begin("export", done)
    trainer.export(report.model, replace=not report.finished)
    report.evaluations(rollouts.evaluations(wait=True))
    after = evaluation("after", done, rollouts, report)
    return report.finish(before, after)


def credit(
    config: Config, batch: Batch, scales: Mapping[str, float]
) -> tuple[list[list[float]], Mapping[str, float]]:
    """Return the advantages of each rollout's turns, and `by_turn`'s `scales` for the next step."""
    if config.credit == "turn":
        return by_turn(batch.ledgers, batch.groups, batch.turns, scales)
    estimate = standardised if config.loss in STANDARDISED else mean_centred
    values = estimate(batch.rewards, batch.groups).tolist()
    return [[a] * len(turns) for a, turns in zip(values, batch.ledgers, strict=True)], scales


def evaluation(when: str, step: int, rollouts: RolloutSource, report: RunReport) -> Returns:
    """Return the result of the evaluation "before" or "after" training; evaluate if none exists."""
    if (recorded := report.result(when)) is not None:
        return recorded
    report.begin(when, step)
    rollouts.evaluate(step)
    (ended,) = rollouts.evaluations(wait=True)
    return report.write_result(when, *ended)


def evaluate_if_due(config: Config, step: int, rollouts: RolloutSource, report: RunReport) -> None:
    """Start an evaluation if one is due after `step`, unless it was completed before a restart.

    The function `evaluation` runs the evaluations before the first step and after the last step.
    """
    if due(config.eval_every, step) and step < config.steps and not report.evaluated(step):
        report.begin("evaluate", step)
        rollouts.evaluate(step)


def due(every: int, step: int) -> bool:
    """Return whether an action with an interval of `every` steps is due; 0 means never."""
    return every > 0 and step % every == 0


def main(arguments: Arguments) -> None:
    """Train with the settings of a command line."""
    launch.main(train, __file__, arguments)


if __name__ == "__main__":
    main(given)
