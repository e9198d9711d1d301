"""Reports of a run: metrics, evaluations, journal, model card and lines in the terminal."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

from learners.config import Config, to_dict
from learners.errors import STOPPED, ConfigError, RunStopped
from learners.goals import End, holds
from learners.rollouts.measures import HACKS
from learners.rollouts.rollout import Record
from learners.rollouts.summaries import HeldOutResult
from learners.rollouts.workload import Workload, floor_of
from learners.run import model_card
from learners.run.alarms import BACK
from learners.run.folder import TOTALS, Metrics, RunFolder, numbered
from learners.run.heartbeat import Heartbeat
from learners.run.loggers import Loggers
from learners.run.progress import line, milestones, seconds_left
from learners.run.reaction import Action, holding, react
from learners.training import checkpoint, ranks
from resume_gym.evaluation import Returns, table
from resume_gym.figures.dashboard import dashboard
from resume_gym.support.user_errors import number_of

_PHASES = ("rollout", "train", "publish")
HIGHEST_PAID = 10
"""Number of episodes with the highest rewards that the journal lists for an evaluation."""


class Stopwatch:
    """Stopwatch for the phases of a training step, in seconds."""

    def __init__(self) -> None:
        self._phase, self._since = "", time.monotonic()
        self._seconds: dict[str, float] = {}

    def begin(self, phase: str) -> None:
        """Begin a phase, and end the previous phase."""
        now = time.monotonic()
        self._seconds[self._phase], self._phase, self._since = now - self._since, phase, now

    def metrics(self) -> dict[str, float]:
        """Return the latest duration of each phase of a step, in seconds."""
        return {f"seconds_{phase}": self._seconds[phase] for phase in _PHASES}


class RunReport:
    """Writer of the run folder and the printed progress on rank 0; other ranks write nothing.

    Args:
        config: settings of the run.
        run: folder of the run.
        works: tasks, rules and judge of each environment; empty except on rank 0.
        heart: heartbeat of the run.

    Attributes:
        model: folder of the exported policy.
    """

    def __init__(
        self, config: Config, run: RunFolder, works: Sequence[Workload], heart: Heartbeat
    ) -> None:
        self.model: Path = run.path / "model"
        self._config, self._run, self._works, self._heart = config, run, works, heart
        self._clock = Stopwatch()
        self._history: list[dict[str, float]] = []
        self._evaluation_s: float | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.__exit__(*error)  # type: ignore[arg-type]

    def start(self, done: int) -> None:
        """Prepare the run folder for the steps after `done`; open the loggers.

        Raises:
            ConfigError: a logger cannot be opened, or `before.json` is missing.
            RunStopped: under the current settings, an alarm of step `done` stops the run.
        """
        if stop := ranks.broadcast(self._start(done) if self._works else ""):
            raise RunStopped(stop)

    def _start(self, done: int) -> str:
        """Prepare the run folder; return why an alarm stops the run, or an empty string."""
        run, steps = self._run, self._config.steps
        if done and run.result("before") is None:  # trained weights cannot reproduce this result
            raise ConfigError(
                f"{run.path}: before.json is missing; restore it, or choose another run name"
            )
        self._introduce(model_card.write_facts(run, self._config, self._works))
        self._begun = run.begun(done)
        if done or self._begun:
            again = f"; repeats {numbered(self._begun)}" if self._begun else ""
            run.note(f"Resumed after step {done}{again}.")
            self._say(f"{run.path}: resumed after step {done} of {steps}{again}")
        else:
            episodes = number_of(self._config.groups * self._config.group_size, "episode")
            trained = f"trains {self._config.model} in {number_of(steps, 'step')} of {episodes}"
            self._say(f"{run.path}: {trained}")
        for sentence in run.truncate(done):
            run.note(sentence)
            self._say(f"warning: {sentence}")
        self._history = run.metrics()
        if self._history:
            self._evaluation_s = self._history[-1].get("seconds_evaluation")
        if done < steps and not run.ended():
            run.set_aside(done)
        if run.result("floor") is None and (floor := floor_of(self._works)):
            run.write_result("floor", floor)
        loggers = Loggers(self._config.log_to, to_dict(self._config), run, done)
        self._loggers = self._open.enter_context(loggers)
        ended = self._history and BACK not in self._history[-1]
        stop = self._react(self._history).stop if ended else ""
        return f"step {done}: {stop}" if stop else ""

    def _introduce(self, facts: Mapping[str, Any]) -> None:
        """Note in the journal what this process runs."""
        run = self._run
        run.note(f"Command: {facts['command']}")
        own, *others = map(" ".join, facts["versions"].items())
        run.note(f"{own} on {facts['machine']}.")
        run.note(f"Versions: {', '.join(others)}.")
        run.note(f"Settings that differ from the defaults: {run.unusual() or 'none'}.")

    def ended(self) -> End | None:
        """Return on every rank why the run ends before its last step; None if the run continues."""
        end: End | None = ranks.broadcast(self._run.ended() if self._works else None)
        return end

    @property
    def finished(self) -> bool:
        """Whether the run folder has the result after training; False except on rank 0."""
        return bool(self._works) and self._run.result("after") is not None

    def begin(self, phase: str, step: int) -> None:
        """Begin a phase of a step, and end the previous phase."""
        self._clock.begin(phase)
        self._heart.now(phase, step)

    def result(self, when: str) -> Returns | None:
        """Return the held-out figures "before" or "after" training; None if not yet played."""
        result: Returns | None = ranks.broadcast(self._run.result(when) if self._works else None)
        if self._works and result is None:
            tasks = sum(len(work.held_out) for work in self._works)
            count = tasks * self._config.eval_rollouts
            self._say(f"playing {number_of(count, 'held-out episode')} {when} training")
        return result

    def write_result(self, when: str, step: int, evaluation: HeldOutResult) -> Returns:
        """Store the held-out figures "before" or "after" training."""
        if self._works:
            self._record(step, evaluation)
            self._run.write_result(when, evaluation.summary)
        return evaluation.summary

    @property
    def dropped(self) -> list[str]:
        """Names of hacks whose episodes are left out of the next batch; empty except on rank 0."""
        if not self._works or self._config.on_hack != "drop" or not self._history:
            return []
        return [name for name in HACKS if name in holding(self._history[-1])]

    def react(self, step: int, metrics: Metrics) -> Action:
        """Return on every rank the reaction to new alarms after a step; see `reaction.react`."""
        found = Action({})
        if self._works:
            found = self._react([*self._history, {"step": step, **metrics}])
        return ranks.broadcast(found)

    def _react(self, history: Sequence[Metrics]) -> Action:
        saved = checkpoint.steps(self._run.checkpoints)
        return react(history, self._config.on_collapse, self._config.on_hack, saved)

    def step(self, step: int, metrics: Metrics, tokens: int, action: Action) -> None:
        """Record the metrics of a step, the milestones it reaches, and the reaction to its alarms.

        Args:
            step: number of the step.
            metrics: metrics of the step, except times.
            tokens: number of tokens after the prompts in the batch.
            action: reaction to the alarms of the step.
        """
        self.begin("save", step)
        if not self._works:
            return
        seconds = self._clock.metrics()
        totals = self._heart.totals(metrics)
        own = {name: value for name, value in metrics.items() if name not in TOTALS}
        row = {"step": step, **own, **seconds, **totals, **action.metrics}
        if step not in self._begun:  # a repeated step may read its episodes from disk
            row["tokens_per_s"] = tokens / sum(seconds.values())
        if self._evaluation_s is not None:  # a resumed run estimates the time left from it
            row["seconds_evaluation"] = self._evaluation_s
        self._history.append(row)
        self._run.append(row)
        self._tell(self._loggers.log_step(row))
        self._say(line(row, self._config.steps, self._seconds_left(step)))
        told = [(sentence, True) for sentence in milestones(self._history)]
        for sentence, aloud in (*told, *action.sentences):
            self._tell([f"Step {step}: {sentence}."], aloud)
        if step % self._config.save_every == 0:
            self._draw()

    def _seconds_left(self, step: int) -> float | None:
        if self._evaluation_s is None:
            return None
        config = self._config
        every = 0 if config.engine == "vllm" else config.eval_every  # vLLM plays during the steps
        times = [row.get(f"seconds_{phase}", 0.0) for row in self._history for phase in _PHASES]
        step_s = sum(times) / len(self._history)
        return seconds_left(step, config.steps, every, step_s, self._evaluation_s)

    def evaluated(self, step: int) -> bool:
        """Return whether the evaluation after a step is in the folder."""
        ended = (
            [evaluation["step"] for evaluation in self._run.evaluations()] if self._works else ()
        )
        return step in ended

    def evaluations(self, ended: Sequence[tuple[int, HeldOutResult]]) -> None:
        """Record evaluations, and mark the checkpoint with the best evaluation."""
        if not self._works:
            return
        for step, evaluation in ended:
            self._record(step, evaluation)

    def _record(self, step: int, evaluation: HeldOutResult) -> None:
        if self.evaluated(step):  # an interrupted process has recorded this evaluation already
            return
        run, summary, dropped = self._run, evaluation.summary, evaluation.dropped_episodes
        self._evaluation_s = evaluation.seconds
        counts = {"step": step, "versions": evaluation.versions, "dropped_episodes": dropped}
        row = {**counts, **asdict(summary), **evaluation.by_env}
        run.writer.append_row("evaluations.jsonl", row, synced=True)
        self._tell(self._loggers.log_evaluation(row))
        best = max(run.evaluations(), key=itemgetter("reward"))
        marked = best["step"] == step and checkpoint.mark_best(run.checkpoints, step)
        message = f"Step {step}: mean reward {summary.reward:.2f} on held-out tasks"
        if len(self._works) > 1:
            rewards = {work.env: evaluation.by_env[f"{work.env}/reward"] for work in self._works}
            message += f" ({', '.join(f'{env} {mean:.2f}' for env, mean in rewards.items())})"
        left_out = f", {number_of(dropped, 'episode')} left out" if dropped else ""
        goal = run.goal()
        reached = ", the goal holds" if goal and holds(goal, row) else ""
        self._tell([f"{message}{left_out}{', best so far' if marked else ''}{reached}."])
        self._tell([self._highest_paid(step)], aloud=False)

    def _highest_paid(self, step: int) -> str:
        """Return a sentence that names the held-out episodes with the highest rewards."""
        played = self._run.trajectories.held_out().graded(step)
        paid = sorted(played, key=itemgetter("reward"), reverse=True)[:HIGHEST_PAID]
        names = [f"{_task(one)} rollout {one['member']} ({one['reward']:.2f})" for one in paid]
        return (
            f"Step {step}: highest rewards, shown by `resume-gym view {self._run.path}` at "
            f"#/episodes?step={step}&flags=held-out&sort=-reward: {', '.join(names)}."
        )

    def finish(self, before: Returns, after: Returns) -> int:
        """Write the model card and show the figures before and after training.

        Returns:
            The exit status: 3 if a budget is used up, else 0.
        """
        end = self.ended()
        status = STOPPED if end and end.kind == "budget" else 0
        if not self._works:
            return status
        self._heart.save()  # saves the run's time, for the journal and the model card
        kind, why = end or ("steps", f"all {self._config.steps} steps are done")
        self._heart.end(kind, why)
        if not (self.model / model_card.CARD).exists():
            steps = number_of(len(self._history), "step")
            self._run.note(f"Ended: {steps} took {self._run.duration()} (h:mm:ss); {why}.")
            self._draw()
            model_card.write(self._run, self.model)
        floor = self._run.result("floor")
        columns = {f"before: {self._config.model}": before, "after": after}
        self._heart.console.print(table({**columns, **({"floor": floor} if floor else {})}))
        if floor:
            self._say("floor: an agent that improves nothing")
        if end:
            self._say(f"ended: {why}")
        files = "config, metrics, trajectories, checkpoints, journal, model, dashboard.png"
        self._say(f"{self._run.path}: {files}")
        self._say(f"every episode, in a browser: resume-gym view {self._run.path}")
        return status

    def _draw(self) -> None:
        picture = self._run.path / model_card.PICTURE
        if self._history:  # empty if the file of metrics is lost
            floor = self._run.result("floor")
            figures = floor.metrics() if floor else None
            title = f"{self._config.name}: {self._config.model}"
            dashboard(self._history, picture, title, self._run.evaluations(), figures)

    def _tell(self, sentences: Sequence[str], aloud: bool = True) -> None:
        for sentence in sentences:
            self._run.note(sentence)
            if aloud:
                self._say(sentence)

    def _say(self, text: str) -> None:
        self._heart.say(text)


def _task(record: Record) -> str:
    """Return the task of an episode, with its environment in a run of several."""
    return " of ".join(record[name] for name in ("task_id", "env") if name in record)
