"""Loggers receive what the run folder contains, and a logger that fails does not end a run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from learners.config import Config, to_dict
from learners.errors import ConfigError
from learners.run import loggers
from learners.run.folder import RunFolder
from learners.run.loggers import LOGGERS, Log, Loggers

SETTINGS = to_dict(Config())


def row(step: int, reward: float) -> dict[str, float]:
    return {"step": step, "reward": reward, "verdict_clarity": 0.5, "seconds_train": 2.0}


def events(run: RunFolder) -> EventAccumulator:
    """Load all events, as the TensorBoard server does."""
    every = {"scalars": 0, "text": 0}
    return EventAccumulator(str(run.path / "tensorboard"), tensor_size_guidance=every).Reload()


def shown(run: RunFolder, tag: str = "train/reward") -> list[tuple[int, float]]:
    found = events(run).Tensors(tag)
    return [(one.step, float(make_ndarray(one.tensor_proto))) for one in found]


class Recorder:
    """A logger that keeps what it has received."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, float]] = []
        self.names: list[str] = []
        self.broken = False

    @contextmanager
    def open(self, settings: Any, run: RunFolder, name: str, done: int) -> Iterator[Log]:
        if self.broken:
            raise OSError("no\nnetwork.")
        self.names.append(name)
        yield self.log

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if self.broken:
            raise OSError("no network")
        self.rows.append((step, values["train/reward"]))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(loggers, "LOGGERS", {**LOGGERS, "wandb": made.open})
    return made


def test_tensorboard_shows_steps_at_once_and_a_resumed_run_hides_what_it_repeats(
    tmp_path: Path,
) -> None:
    run = RunFolder(tmp_path)
    killed = Loggers(("tensorboard",), SETTINGS, run, 0)  # not closed
    killed.log_evaluation({"step": 0, "reward": 1.0, "verdict": {"clarity": 0.25}})
    for step in (1, 2, 3):
        assert killed.log_step(row(step, step / 2)) == []
        assert len(shown(run)) == step
    assert shown(run, "judge/clarity")[0] == (1, 0.5)
    assert shown(run, "speed/seconds_train")[0] == (1, 2.0)
    assert shown(run, "held_out/reward") == [(0, 1.0)]
    assert shown(run, "held_out/verdict/clarity") == [(0, 0.25)]
    (config,) = events(run).Tensors("config/text_summary")
    assert 'name = "nano"' in config.tensor_proto.string_val[0].decode()
    # event files are read in the order of the seconds in their names
    (file,) = (run.path / "tensorboard").iterdir()
    file.rename(file.with_name("events.out.tfevents.0000000001.first"))
    with Loggers(("tensorboard",), SETTINGS, run, 2) as resumed:
        resumed.log_step(row(3, 7.0))
    assert shown(run) == [(1, 0.5), (2, 1.0), (3, 7.0)]


def test_a_logger_that_fails_is_dropped_until_the_run_is_resumed(
    tmp_path: Path, recorder: Recorder
) -> None:
    run, names = RunFolder(tmp_path), ("wandb", "tensorboard")
    (run.path / "started").write_text("0123456789abcdef\n")
    with Loggers(names, SETTINGS, run, 0) as opened:
        recorder.broken = True
        told = "Warning, wandb failed and receives no data until the run is resumed: no network."
        assert opened.log_step(row(1, 1.0)) == [told]
        recorder.broken = False
        assert opened.log_step(row(2, 2.0)) == []
    assert recorder.rows == []
    assert shown(run) == [(1, 1.0), (2, 2.0)]
    with Loggers(names, SETTINGS, run, 2) as opened:
        opened.log_step(row(3, 3.0))
    assert recorder.rows == [(3, 3.0)]
    assert recorder.names == ["nano-01234567"] * 2, "both processes continue one run"


def test_a_logger_that_cannot_be_opened_ends_a_new_run(tmp_path: Path, recorder: Recorder) -> None:
    recorder.broken = True
    run, names = RunFolder(tmp_path), ("wandb",)
    with pytest.raises(ConfigError, match=r"^log_to: wandb: no network$"):
        Loggers(names, SETTINGS, run, 0)
    with Loggers(names, SETTINGS, run, 1) as opened:
        (warning,) = opened.log_step(row(2, 1.0))
    assert "wandb failed and receives no data" in warning
