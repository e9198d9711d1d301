"""Loggers that show a run's metrics: TensorBoard, Weights & Biases and trackio.

The run folder is the record of the run; loggers only show what it contains. A resumed run repeats
the steps after its last checkpoint, so W&B and trackio may show such a step twice.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, Self

import tomli_w

from learners.errors import ConfigError
from learners.run.folder import RunFolder
from resume_gym.support.trust import STARTED

PROJECT = "resume-gym"
"""Name of the project in trackio, and in W&B unless WANDB_PROJECT is set."""

Settings = Mapping[str, object]
"""Settings of the run, as values that TOML can represent."""
Log = Callable[[int, Mapping[str, float]], object]
"""Function that logs a step's values by name; may raise any error."""
Open = Callable[[Settings, RunFolder, str, int], AbstractContextManager[Log]]
"""Function that opens a logger, given settings, run folder, run name and number of steps done."""


@contextmanager
def _tensorboard(settings: Settings, run: RunFolder, name: str, done: int) -> Iterator[Log]:
    from torch.utils.tensorboard import SummaryWriter

    writer: Any
    # TensorBoard hides earlier values of the steps that this process repeats
    with SummaryWriter(str(run.path / "tensorboard"), purge_step=done + 1) as writer:
        if done == 0:
            indented = tomli_w.dumps(settings).replace("\n", "\n    ")  # a code block in Markdown
            writer.add_text("config", f"    {indented}", 0)

        def log(step: int, values: Mapping[str, float]) -> None:
            for tag, value in values.items():
                writer.add_scalar(tag, value, step)
            writer.flush()

        yield log


@contextmanager
def _wandb(settings: Settings, run: RunFolder, name: str, done: int) -> Iterator[Log]:
    import wandb

    project = os.environ.get("WANDB_PROJECT") or PROJECT
    names = {"project": project, "id": name, "name": settings["name"]}
    wandb_run: Any
    with wandb.init(**names, dir=run.path, config=settings, resume="allow") as wandb_run:
        # W&B's own step cannot decrease, but an evaluation can end after later training steps
        wandb_run.define_metric("step")
        wandb_run.define_metric("*", step_metric="step")
        yield lambda step, values: wandb_run.log({"step": step, **values})


@contextmanager
def _trackio(settings: Settings, run: RunFolder, name: str, done: int) -> Iterator[Log]:
    import trackio

    trackio.init(PROJECT, name=name, config=settings, resume="allow")
    try:
        yield lambda step, values: trackio.log(dict(values), step=step)
    finally:
        trackio.finish()


LOGGERS: Mapping[str, Open] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "trackio": _trackio,
}


class Loggers:
    """All loggers of a run.

    >>> with Loggers(["tensorboard"], to_dict(config), run, done) as loggers:
    ...     loggers.log_step({"step": 1, "reward": 2.5})

    A logger that fails receives no more values until the run is resumed, and the run continues.

    Args:
        names: names of the loggers.
        settings: settings of the run, which loggers show.
        run: the run folder.
        done: number of steps that earlier processes have completed.

    Raises:
        ConfigError: a logger cannot be opened, and no step of the run is completed yet.
    """

    def __init__(self, names: Iterable[str], settings: Settings, run: RunFolder, done: int) -> None:
        self._run, self._warnings = run, list[str]()
        self._contexts = {name: ExitStack() for name in names}
        self._open: dict[str, Log] = {}
        for name, context in self._contexts.items():
            with self._guarded(name, done == 0):
                opening = LOGGERS[name](settings, run, _run_name(settings, run), done)
                self._open[name] = context.enter_context(opening)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for name, context in self._contexts.items():
            with self._guarded(name):
                context.__exit__(*error)  # type: ignore[arg-type]
        for warning in self._warnings:
            self._run.note(warning)

    def log_step(self, metrics: Mapping[str, float]) -> list[str]:
        """Log the metrics of a step, which include `step`; return warnings about failed loggers."""
        values = {_tag(name): value for name, value in metrics.items() if name != "step"}
        return self._log(int(metrics["step"]), values)

    def log_evaluation(self, evaluation: Mapping[str, Any]) -> list[str]:
        """Log the numbers of an evaluation, with its `step`; return warnings like `log_step`."""
        values = {name: value for name, value in evaluation.items() if name != "step"}
        return self._log(int(evaluation["step"]), _flat("held_out", values))

    def _log(self, step: int, values: Mapping[str, float]) -> list[str]:
        for name, log in list(self._open.items()):
            with self._guarded(name):
                log(step, values)
        warnings, self._warnings = self._warnings, []
        return warnings

    @contextmanager
    def _guarded(self, name: str, required: bool = False) -> Iterator[None]:
        """If the block raises an exception, stop using the logger; or end the run if `required`."""
        try:
            yield
        except Exception as error:
            self._open.pop(name, None)
            message = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            if required:
                raise ConfigError(f"log_to: {name}: {message}") from error
            self._warnings.append(
                f"Warning, {name} failed and receives no data until the run is resumed: {message}."
            )


def _run_name(settings: Settings, run: RunFolder) -> str:
    """Return the run's name in loggers, which is the same when the run is resumed.

    It ends with the random id of the run folder, since another folder may have the same name.
    """
    with suppress(OSError):
        return f"{settings['name']}-{(run.path / STARTED).read_text(encoding='utf-8')[:8]}"
    return f"{settings['name']}"


def _tag(metric: str) -> str:
    """Return a metric's name with the prefix by which loggers group plots, such as "speed/"."""
    if metric.startswith("verdict_"):
        return f"judge/{metric.removeprefix('verdict_')}"
    timed = metric.startswith("seconds_") or metric.endswith("_per_s") or metric == "tflops"
    return f"{'speed' if timed else 'train'}/{metric}"


def _flat(head: str, figures: Mapping[str, object]) -> dict[str, float]:
    """Return the numbers in nested mappings, each named by its path in the mappings."""
    flat: dict[str, float] = {}
    for name, value in figures.items():
        if isinstance(value, Mapping):
            flat |= _flat(f"{head}/{name}", value)
        elif isinstance(value, int | float):
            flat[f"{head}/{name}"] = value
    return flat
