"""Loggers that copy metrics from the run folder to TensorBoard, Weights & Biases and trackio.

The run folder is complete without loggers. `logged.json` records what each logger has received, so
that a resumed run, or a run to which a logger is added later, continues without gaps.

A resumed run repeats the steps after its last checkpoint. TensorBoard can discard the old values of
repeated steps, so it receives every step immediately. W&B and trackio cannot discard steps, so
they receive a step only when a checkpoint includes the step.
"""

import json
import math
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Self

import tomli_w

from learners.errors import ConfigError
from learners.run.folder import RunFolder
from learners.training import checkpoint

PROJECT = "resume-gym"
"""Name of the project in trackio, and in W&B unless WANDB_PROJECT is set."""


Rows = Mapping[str, Mapping[str, float]]
"""Values by row key and metric; `logged.json` lists the row keys, which begin with the step."""
Write = Callable[[Rows], None]
"""Function that writes rows so that they survive a crash of the process; may raise any error."""
Settings = Mapping[str, object]
"""Settings of the run, as values that TOML can represent."""
Open = Callable[[Settings, RunFolder, str, int], AbstractContextManager[Write]]
"""Function that opens a logger, given settings, run folder, run name and first missing step."""


@contextmanager
def _tensorboard(settings: Settings, run: RunFolder, name: str, first: int) -> Iterator[Write]:
    from torch.utils.tensorboard import SummaryWriter

    writer: Any
    with SummaryWriter(str(run.path / "tensorboard"), purge_step=first) as writer:
        if first == 0:
            indented = tomli_w.dumps(settings).replace("\n", "\n    ")  # a code block in Markdown
            writer.add_text("config", f"    {indented}", 0)
        writer.flush()

        def write(rows: Rows) -> None:
            for key, values in rows.items():
                for tag, value in values.items():
                    writer.add_scalar(tag, value, _step(key))
            writer.flush()

        yield write


@contextmanager
def _wandb(settings: Settings, run: RunFolder, name: str, first: int) -> Iterator[Write]:
    import wandb

    project = os.environ.get("WANDB_PROJECT") or PROJECT
    names = {"project": project, "id": name, "name": settings["name"]}
    wandb_run: Any = wandb.init(**names, dir=run.path, config=settings, resume="allow")
    # W&B's own step cannot decrease, but an evaluation can end after later training steps
    wandb_run.define_metric("step")
    wandb_run.define_metric("*", step_metric="step")

    def write(rows: Rows) -> None:
        for key, values in rows.items():
            wandb_run.log({"step": _step(key), **values})

    try:
        yield write
    except BaseException:
        wandb_run.finish(exit_code=1)
        raise
    wandb_run.finish()


@contextmanager
def _trackio(settings: Settings, run: RunFolder, name: str, first: int) -> Iterator[Write]:
    import trackio

    options: dict[str, Any] = {"name": name, "config": settings, "resume": "allow"}
    options |= {"auto_log_cpu": False, "auto_log_gpu": False, "embed": False}

    def write(rows: Rows) -> None:
        # hide what trackio prints, and catch its warnings, which are its only reports of failures
        with redirect_stdout(StringIO()), warnings.catch_warnings(record=True) as failures:
            warnings.simplefilter("always", UserWarning)
            trackio_run = trackio.init(PROJECT, **options)
            for key, values in rows.items():
                trackio_run.log(values, step=_step(key))
            trackio.finish()  # an open run buffers rows in memory, where a crash would lose them
        if failures:
            raise OSError(str(failures[0].message))

    yield write


LOGGERS: Mapping[str, Open] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "trackio": _trackio,
}
REWINDING = frozenset({"tensorboard"})
"""Loggers that, when opened, discard the first missing step and all later steps."""


class Loggers:
    """All loggers of a run.

    >>> with Loggers(["tensorboard"], to_dict(config), run, done) as loggers:
    ...     loggers.update()

    A logger that fails receives no more rows, and the run continues. When the run is resumed, the
    logger receives the missing rows.

    Args:
        names: names of the loggers.
        settings: settings of the run, which loggers show.
        run: the run folder, from which rows after step `done` have been removed.
        done: number of steps that earlier processes have completed.

    Raises:
        ConfigError: a logger cannot be opened, and no step of the run is completed yet.
    """

    def __init__(self, names: Iterable[str], settings: Settings, run: RunFolder, done: int) -> None:
        self._run, self._file = run, run.path / "logged.json"
        self._logged = _read_logged(self._file)
        self._contexts = {name: ExitStack() for name in names}
        self._open: dict[str, Write] = {}
        self._failures: dict[str, str] = {}
        for name, context in self._contexts.items():
            new = {"name": f"{settings['name']}-{secrets.token_hex(4)}", "rows": []}
            logged = self._logged.setdefault(name, new)
            keys = [key for key in logged["rows"] if _step(key) <= done]
            logged["rows"], first = keys, 1 + max(map(_step, keys), default=-1)
            with self._guarded(name):
                opening = LOGGERS[name](settings, run, logged["name"], first)
                self._open[name] = context.enter_context(opening)
            if self._failures and done == 0:
                raise ConfigError(f"log_to: {name}: {self._failures[name]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for name, context in self._contexts.items():
            with self._guarded(name):
                context.__exit__(*error)  # type: ignore[arg-type]
        for warning in self._take_warnings():
            self._run.note(warning)

    def update(self) -> list[str]:
        """Write to each logger the rows that it lacks; return warnings about failed loggers."""
        rows = _rows(self._run) if self._open else {}
        saved = checkpoint.latest(self._run.checkpoints)
        for name, write in list(self._open.items()):
            last = math.inf if name in REWINDING else saved[0] if saved else 0
            logged = set(self._logged[name]["rows"])
            due = {key: rows[key] for key in rows if _step(key) <= last and key not in logged}
            if not due:
                continue
            with self._guarded(name):
                write(due)
                self._logged[name]["rows"] += due
                checkpoint.write_text(self._file, json.dumps(self._logged) + "\n")
        return self._take_warnings()

    @contextmanager
    def _guarded(self, name: str) -> Iterator[None]:
        """Stop writing to the logger if the block raises an exception."""
        try:
            yield
        except Exception as error:
            self._open.pop(name, None)
            message = " ".join(str(error).split()).rstrip(".")
            self._failures[name] = message or type(error).__name__

    def _take_warnings(self) -> list[str]:
        failures, self._failures = self._failures, {}
        return [
            f"Warning, {name} failed and receives no data until the run is resumed: {message}."
            for name, message in failures.items()
        ]


def _read_logged(file: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of `logged.json`; empty if it is damaged or from another version.

    A logger without an entry receives all steps again, as a new run.
    """
    try:
        entries = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return {
            name: {"name": entry["name"], "rows": [key for key in entry["rows"] if _step(key) >= 0]}
            for name, entry in entries.items()
        }
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return {}


def _rows(run: RunFolder) -> Rows:
    """Return the metrics and evaluations in the run folder."""
    rows = {}
    for row in run.metrics():
        step = int(row.pop("step"))
        rows[f"{step}"] = {_tag(name): value for name, value in row.items()}
    for evaluation in run.evaluations():
        step = int(evaluation.pop("step"))
        rows[f"{step} evaluation"] = _flat("held_out", evaluation)
    return rows


def _step(key: str) -> int:
    return int(key.split()[0])


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
