"""What a run does around the steps of the algorithm: alarms, checkpoints and evaluations."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from learners.config import Config
from learners.engines import EngineError
from learners.errors import RunStopped
from learners.rollouts.batch import Batch
from learners.rollouts.rollout import EpisodeError
from learners.rollouts.rollout_source import RolloutSource
from learners.run.reaction import Action
from learners.run.report import RunReport
from learners.training.trainer import Trainer
from resume_gym.evaluation import Returns
from resume_gym.judges import JudgeError


class Supervisor:
    """Supervisor of a run, whose methods the training loop calls in this order.

    >>> run = Supervisor(config, trainer, rollouts, report)
    >>> for step in run.steps():
    ...     batch = run.batch(step)
    ...     ...  # train
    ...     run.react(step, batch, trained)
    ...     ...  # publish the weights
    ...     run.complete(step, probe)
    >>> status = run.finish()

    All ranks call the same methods.

    Args:
        config: settings of the run.
        trainer: the policy, its optimizer and its checkpoints.
        rollouts: source of graded episodes of the current policy.
        report: the run's folder, loggers and display.
    """

    def __init__(
        self, config: Config, trainer: Trainer, rollouts: RolloutSource, report: RunReport
    ) -> None:
        self._config, self._trainer = config, trainer
        self._rollouts, self._report = rollouts, report
        self._action, self._metrics, self._tokens = Action({}), dict[str, float](), 0

    def steps(self) -> Iterator[int]:
        """Resume the run, and yield the number of each step to train.

        A run evaluates the policy before its first step. It ends early if its goal is reached or
        its budget is used up.
        """
        done = self._done = self._trainer.resume()
        self._report.start(done)
        self._rollouts.publish(done)
        self._before = self._evaluation("before")
        # a resumed run repeats its latest evaluation if that evaluation was interrupted
        self._evaluate_if_due(done - done % (self._config.eval_every or 1))
        for step in range(done + 1, self._config.steps + 1):
            with self._saving():
                self._report.evaluations(self._rollouts.evaluations(wait=False))
            if self._report.ended():
                self._trainer.save_unsaved(self._done)
                return
            yield step

    def batch(self, step: int) -> Batch:
        """Return the graded rollouts of a step, without those that an alarm drops."""
        self._report.begin("rollout", step)
        with self._saving():
            batch = self._rollouts.batch(step, self._report.dropped)
            if self._config.colocated:  # the engine must not sleep during an evaluation
                self._report.evaluations(self._rollouts.evaluations(wait=True))
        self._report.begin("train", step)
        return batch

    @contextmanager
    def _saving(self) -> Iterator[None]:
        """If sampling fails, save the last step, so that no step is lost."""
        try:
            yield
        except (JudgeError, EngineError, EpisodeError, RunStopped):
            self._trainer.save_unsaved(self._done)
            raise

    def react(self, step: int, batch: Batch, trained: Mapping[str, float]) -> None:
        """React to the alarms of a step, which may return the run to earlier weights."""
        self._metrics, self._tokens = {**batch.metrics, **trained}, batch.response_tokens
        self._action = self._report.react(step, self._metrics)
        if self._action.back is not None:
            self._trainer.roll_back(self._action.back)
        self._report.begin("publish", step)

    def complete(self, step: int, probe: float) -> None:
        """Record a step, save a checkpoint and start an evaluation if they are due.

        Args:
            step: number of the step.
            probe: difference between engine and trainer, see `RolloutSource.publish`.

        Raises:
            RunStopped: an alarm ends the run.
        """
        config, action = self._config, self._action
        metrics = {**self._metrics, "probe": probe}
        self._report.step(step, metrics, self._tokens, action)
        # evaluated steps are saved, because the checkpoint with the best evaluation is kept
        saved = due(config.save_every, step) or due(config.eval_every, step)
        if saved or step == config.steps or action.back is not None or action.stop:
            self._trainer.save(step)
        if action.stop:
            self._trainer.wait_for_checkpoint()
            raise RunStopped(f"step {step}: {action.stop}")
        self._evaluate_if_due(step)
        self._done = step

    def finish(self) -> int:
        """Export and evaluate the policy; return the exit status of the process."""
        self._report.begin("export", self._done)
        self._trainer.export(self._report.model, replace=not self._report.finished)
        self._report.evaluations(self._rollouts.evaluations(wait=True))
        return self._report.finish(self._before, self._evaluation("after"))

    def _evaluation(self, when: str) -> Returns:
        """Return the result "before" or "after" training; evaluate if there is none."""
        if (recorded := self._report.result(when)) is not None:
            return recorded
        self._report.begin(when, self._done)
        self._rollouts.evaluate(self._done)
        (ended,) = self._rollouts.evaluations(wait=True)
        return self._report.write_result(when, *ended)

    def _evaluate_if_due(self, step: int) -> None:
        """Start an evaluation if one is due after `step`, unless it ended before a restart.

        `_evaluation` runs the evaluations before the first and after the last step.
        """
        is_due = due(self._config.eval_every, step) and step < self._config.steps
        if is_due and not self._report.evaluated(step):
            self._report.begin("evaluate", step)
            self._rollouts.evaluate(step)


def due(every: int, step: int) -> bool:
    """Return whether an action with an interval of `every` steps is due; 0 means never."""
    return every > 0 and step % every == 0
