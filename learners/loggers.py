"""Training shown by TensorBoard, Weights & Biases or trackio: mirrors of a run's folder.

`metrics.jsonl`, the evaluations and the journal are always written, by `RunFolder`, and are what
counts. A logger is told what it does not have yet, and `logged.json` keeps what each was told, so
a resumed run, or one that gets another logger halfway, goes on without a gap.

A resumed run forgets the steps after its last checkpoint and plays them again. TensorBoard can
forget them too and is told every step at once. W&B and trackio cannot (W&B's rewinding is not
open to all), so they are told a step when a checkpoint holds it.
"""

import json
import os
import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from io import StringIO
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self

from learners import checkpoint
from learners.config import Config, ConfigError, to_toml
from learners.monitors import Metrics, RunFolder

PROJECT = "resume-gym"
"""Of W&B, unless WANDB_PROJECT names another, and of trackio."""


class Logger(Protocol):
    """Where figures go. Its methods may raise anything; `Loggers` sees to it.

    Attributes:
        forgets: whether it can forget steps that it was told, and so is told them at once.
    """

    forgets: ClassVar[bool]

    def __init__(self, config: Config, run: RunFolder, name: str, first: int) -> None:
        """Open it.

        Args:
            config: of the run.
            run: its folder.
            name: of the run there, the same whenever it goes on.
            first: whatever it was told of this step and later ones is void.
        """

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Take the figures of a step, or of an evaluation of its weights."""

    def say(self, step: int, sentence: str) -> None:
        """Take a sentence of the journal."""

    def flush(self) -> None:
        """Return when what was told outlives this process."""

    def close(self, failed: bool) -> None:
        """Let go.

        Args:
            failed: the run was cut short.
        """


class TensorBoard:
    """Event files in the run's `tensorboard/`; `tensorboard --logdir runs` shows all runs."""

    forgets: ClassVar[bool] = True

    def __init__(self, config: Config, run: RunFolder, name: str, first: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = str(run.path / "tensorboard")
        self._writer: Any = SummaryWriter(folder, purge_step=first)
        if first == 0:
            indented = to_toml(config).replace("\n", "\n    ")
            self._writer.add_text("config", f"    {indented}", 0)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Take figures."""
        for tag, value in figures.items():
            self._writer.add_scalar(tag, value, step)

    def say(self, step: int, sentence: str) -> None:
        """Take a sentence."""
        self._writer.add_text("journal", sentence, step)

    def flush(self) -> None:
        """Write it all."""
        self._writer.flush()

    def close(self, failed: bool) -> None:
        """Let go."""
        self._writer.close()


class WandB:
    """A run of Weights & Biases, whose own variables say where it goes; files in `wandb/`.

    The journal is one of its files. Steps are a figure of ours: W&B's own may not go back, and
    an evaluation may end when later steps have.
    """

    forgets: ClassVar[bool] = False

    def __init__(self, config: Config, run: RunFolder, name: str, first: int) -> None:
        import wandb

        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            id=name,
            name=config.name,
            dir=run.path,
            config=_plain(config),
            resume="allow",
        )
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")
        self._journal = run.path / "journal.md"

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Take figures."""
        self._run.log({"step": step, **figures})

    def say(self, step: int, sentence: str) -> None:
        """Have the journal uploaded, as it grows."""
        self._run.save(self._journal, base_path=self._journal.parent, policy="live")

    def flush(self) -> None:
        """Do nothing: a process of W&B's own has it, which outlives this one."""

    def close(self, failed: bool) -> None:
        """Let go."""
        self._run.finish(exit_code=int(failed))


class Trackio:
    """A run of trackio, on this machine or where its own variables say; `trackio show`.

    It is opened and closed with each checkpoint: between the two its thread keeps figures for a
    while in memory, which a killed run would lose.
    """

    forgets: ClassVar[bool] = False

    def __init__(self, config: Config, run: RunFolder, name: str, first: int) -> None:
        import trackio

        self._trackio: Any = trackio
        self._settings = {"name": name, "config": _plain(config), "resume": "allow"}
        self._rows: list[tuple[int, dict[str, Any]]] = []

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Take figures."""
        self._rows.append((step, dict(figures)))

    def say(self, step: int, sentence: str) -> None:
        """Take a sentence."""
        self._rows.append((step, {"journal": self._trackio.Markdown(sentence)}))

    def flush(self) -> None:
        """Write it all."""
        if not self._rows:
            return
        quiet = {"auto_log_cpu": False, "auto_log_gpu": False, "embed": False}
        # it prints in the midst of the progress display, and what fails is but a warning
        with redirect_stdout(StringIO()), warnings.catch_warnings(record=True) as failures:
            warnings.simplefilter("always", UserWarning)
            run = self._trackio.init(PROJECT, **self._settings, **quiet)
            for step, figures in self._rows:
                run.log(figures, step=step)
            self._trackio.finish()
        if failures:
            raise OSError(str(failures[0].message))
        self._rows.clear()

    def close(self, failed: bool) -> None:
        """Let go."""
        self.flush()


LOGGERS: Mapping[str, type[Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "trackio": Trackio,
}


@dataclass
class _Told:
    """What a logger was told: the name of the run there, its last step, its evaluations."""

    name: str
    step: int = -1
    evaluations: list[str] = field(default_factory=list)


def require(config: Config) -> None:
    """See that the packages are there, before anything takes time.

    Raises:
        ConfigError: one is not; says how to install it.
    """
    for name in config.log_to:
        if find_spec(name) is None:
            raise ConfigError(f"log_to: {name} needs `pip install -e .[{name}]`")


class Loggers:
    """All loggers of a run.

    >>> with Loggers(config, run, done) as loggers:
    ...     loggers.say(step, sentence)
    ...     loggers.update()

    One that fails is let go until the same command is given again, and then told what it missed;
    the run goes on, and a sentence says so. Before the first step it ends the run instead.

    Args:
        config: `log_to` names them.
        run: its folder, without the steps that a resumed run has to forget.
        done: steps done before.

    Raises:
        ConfigError: one cannot be opened, and no step has been done yet.
    """

    def __init__(self, config: Config, run: RunFolder, done: int) -> None:
        self._run, self._marks = run, run.path / "logged.json"
        known = json.loads(self._marks.read_text()) if self._marks.exists() else {}
        self._told = {name: _Told(**told) for name, told in known.items()}
        self._open: dict[str, Logger] = {}
        self._sentences: list[tuple[int, str]] = []
        self._failures: list[str] = []
        self._heard: dict[str, int] = {}
        for name in config.log_to:
            told = self._told.setdefault(name, _Told(f"{config.name}-{secrets.token_hex(4)}"))
            told.step = min(told.step, done)
            told.evaluations = [one for one in told.evaluations if _of(one) <= told.step]
            try:
                self._open[name] = LOGGERS[name](config, run, told.name, told.step + 1)
            except Exception as error:  # whatever its maker thought of
                if done == 0:
                    raise ConfigError(f"log_to: {name}: {_line(error)}") from error
                self._failed(name, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self._open):
            try:
                self._open.pop(name).close(kind is not None)
            except Exception as failure:
                self._failed(name, failure)
        for sentence in self.failures():
            self._run.note(sentence)

    def say(self, step: int, sentence: str) -> None:
        """Pass on a sentence of the journal with the next update."""
        self._sentences.append((step, sentence))

    def update(self) -> list[str]:
        """Tell each logger what the run's folder has, and it does not have yet.

        Returns:
            A sentence on each logger that has failed.
        """
        history = self._run.metrics() if self._open else []
        last = int(history[-1]["step"]) if history else 0
        found = checkpoint.latest(self._run.checkpoints)
        for name, logger in list(self._open.items()):
            until = last if logger.forgets else found[0] if found else 0
            try:
                self._tell(name, logger, history, until)
            except Exception as error:  # whatever its maker thought of
                del self._open[name]
                self._failed(name, error)
        return self.failures()

    def failures(self) -> list[str]:
        """A sentence on each logger that has failed since this was last asked."""
        told, self._failures = self._failures, []
        return told

    def _tell(self, name: str, logger: Logger, history: Sequence[Metrics], until: int) -> None:
        told = self._told[name]
        evaluations = {
            key: one
            for key, one in self._evaluations(history)
            if key not in told.evaluations and _of(key) <= until
        }
        heard = self._heard.get(name, 0)
        sentences = [one for one in self._sentences[heard:] if one[0] <= until]
        for row in history:
            if told.step < row["step"] <= until:
                figures = {_tag(key): value for key, value in row.items() if key != "step"}
                logger.log(int(row["step"]), figures)
        for step, figures in evaluations.values():
            logger.log(step, figures)
        for step, sentence in sentences:
            logger.say(step, sentence)
        logger.flush()
        self._heard[name] = heard + len(sentences)
        now = _Told(told.name, max(told.step, until), [*told.evaluations, *evaluations])
        self._told[name] = now
        marks = {key: asdict(one) for key, one in self._told.items()}
        checkpoint.write_text(self._marks, json.dumps(marks, indent=1) + "\n")

    def _evaluations(
        self, history: Sequence[Metrics]
    ) -> Iterator[tuple[str, tuple[int, dict[str, float]]]]:
        """Those in the run's folder: a key of each, the step of its weights, its figures."""
        last = int(history[-1]["step"]) if history else 0
        for name, step in (("before", 0), ("after", last)):
            if (found := self._run.result(name)) is not None:
                yield f"{name} {step}", (step, _flat("held_out", asdict(found)))
        for one in self._run.evaluations():
            yield f"evaluation {one['step']}", (one["step"], _flat("evaluation", one))

    def _failed(self, name: str, error: Exception) -> None:
        self._failures.append(
            f"Warning, {name} gets nothing more until the same command is given again: "
            f"{_line(error)}."
        )


def _of(evaluation: str) -> int:
    """The step whose weights an evaluation is of, by its key."""
    return int(evaluation.split()[1])


def _tag(metric: str) -> str:
    """A metric's name under a heading, by which loggers arrange their plots."""
    if metric.startswith("verdict_"):
        return f"judge/{metric.removeprefix('verdict_')}"
    timed = metric.startswith("seconds_") or metric.endswith("_per_s") or metric == "tflops"
    return f"{'speed' if timed else 'train'}/{metric}"


def _flat(head: str, figures: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an evaluation, those of its parts among them."""
    flat: dict[str, float] = {}
    for name, value in figures.items():
        if isinstance(value, Mapping):
            flat |= _flat(f"{head}/{name}", value)
        elif isinstance(value, int | float) and name != "step":
            flat[f"{head}/{name}"] = value
    return flat


def _plain(config: Config) -> dict[str, Any]:
    """A configuration as JSON values."""
    return {name: str(one) if name == "runs" else one for name, one in asdict(config).items()}


def _line(error: Exception) -> str:
    """What an error says, on one line."""
    told = " ".join(str(error).split()).rstrip(".")
    return told or type(error).__name__
