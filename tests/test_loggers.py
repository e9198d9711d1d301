"""Loggers receive each step once, also when runs are killed and resumed."""

import time
from collections.abc import Callable, Iterator
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
from learners.run.loggers import LOGGERS, Loggers, Rows
from learners.training import checkpoint

SETTINGS = to_dict(Config())


def train(run: RunFolder, step: int, reward: float) -> None:
    run.append({"step": step, "reward": reward, "verdict_clarity": 0.5, "seconds_train": 2.0})


def save(run: RunFolder, step: int) -> None:
    checkpoint.begin(run.checkpoints, step)
    checkpoint.finish(run.checkpoints, step)


def events(run: RunFolder) -> EventAccumulator:
    """Load all events, as the TensorBoard server does."""
    every = {"scalars": 0, "text": 0}
    return EventAccumulator(str(run.path / "tensorboard"), tensor_size_guidance=every).Reload()


def shown(run: RunFolder, tag: str = "train/reward") -> list[tuple[int, float]]:
    found = events(run).Tensors(tag)
    return [(one.step, float(make_ndarray(one.tensor_proto))) for one in found]


def texts(run: RunFolder, tag: str) -> list[str]:
    found = events(run).Tensors(f"{tag}/text_summary")
    return [one.tensor_proto.string_val[0].decode() for one in found]


class Recorder:
    """A logger that cannot discard rows; it keeps what all of its runs have received."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, Any]] = []
        self.runs: list[str] = []
        self.interrupted: list[bool] = []
        self.broken = False

    @contextmanager
    def open(
        self, settings: Any, run: RunFolder, name: str, first: int
    ) -> Iterator[Callable[[Rows], None]]:
        if self.broken:
            raise OSError("no\nnetwork.")
        self.runs.append(name)
        self.interrupted.append(True)
        yield self.write
        self.interrupted[-1] = False

    def write(self, rows: Rows) -> None:
        if self.broken:
            raise OSError("no network")
        self.rows += [(int(key.split()[0]), values) for key, values in rows.items()]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(loggers, "LOGGERS", {**LOGGERS, "wandb": made.open})
    return made


def steps(recorder: Recorder, metric: str = "train/reward") -> list[tuple[int, float]]:
    return [(step, values[metric]) for step, values in recorder.rows if metric in values]


def test_tensorboard_shows_what_the_folder_has(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.append_evaluation({"step": 0, "versions": [0, 0], "reward": 1.0})
    with Loggers(("tensorboard",), SETTINGS, run, 0) as mirrors:
        assert mirrors.update() == []
        assert shown(run, "held_out/reward") == [(0, 1.0)]
        for step in (1, 2):
            train(run, step, step / 2)
            mirrors.update()
            assert len(shown(run)) == step, "a step is visible at once"
        run.append_evaluation(
            {"step": 1, "versions": [1, 2], "reward": 2.5, "verdict": {"clarity": 0.25}}
        )
        mirrors.update()
        mirrors.update()
    assert shown(run) == [(1, 0.5), (2, 1.0)]
    assert shown(run, "judge/clarity") == [(1, 0.5), (2, 0.5)]
    assert shown(run, "speed/seconds_train") == [(1, 2.0), (2, 2.0)]
    assert shown(run, "held_out/reward") == [(0, 1.0), (1, 2.5)]
    assert shown(run, "held_out/verdict/clarity") == [(1, 0.25)]
    assert 'name = "nano"' in texts(run, "config")[0]


def test_a_resumed_run_logs_each_step_once(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    killed = Loggers(("tensorboard",), SETTINGS, run, 0)  # not closed
    for step in range(1, 6):
        train(run, step, step / 2)
        killed.update()
    time.sleep(1.1)  # event files are read in the order of the seconds in their names
    assert shown(run) == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 2.0), (5, 2.5)]
    run.truncate(4)
    with Loggers(("tensorboard",), SETTINGS, run, 4) as mirrors:
        mirrors.update()
        assert [step for step, _ in shown(run)] == [1, 2, 3, 4]
        for step in (5, 6):
            train(run, step, 7.0)
            mirrors.update()
    assert shown(run) == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 2.0), (5, 7.0), (6, 7.0)]
    assert len(texts(run, "config")) == 1


def test_a_logger_that_cannot_rewind_receives_steps_with_their_checkpoint(
    tmp_path: Path, recorder: Recorder
) -> None:
    run, names = RunFolder(tmp_path), ("wandb",)
    mirrors = Loggers(names, SETTINGS, run, 0)
    for step in (1, 2, 3):
        train(run, step, step)
        if step == 2:
            save(run, step)
        mirrors.update()
    assert steps(recorder) == [(1, 1), (2, 2)]
    run.truncate(2)  # killed, and given again
    with Loggers(names, SETTINGS, run, 2) as mirrors:
        train(run, 3, 30)
        mirrors.update()
        save(run, 3)
        mirrors.update()
    assert steps(recorder) == [(1, 1), (2, 2), (3, 30)]
    assert len(recorder.runs) == 2
    assert len(set(recorder.runs)) == 1, "both processes continue one run"
    assert recorder.interrupted == [True, False]


@pytest.mark.parametrize(
    "logged",
    [
        '{"wandb": {"name": "old", "step": 1}}',
        '{"wandb": {"name": "old", "rows": ["", 1]}}',
        '{"wandb": ["name", "rows"]}',
        '["wandb"]',
        "[" * 100_000,
    ],
    ids=["version", "rows", "entry", "list", "deep"],
)
def test_a_logger_starts_over_if_another_version_wrote_what_it_has(
    logged: str, tmp_path: Path, recorder: Recorder
) -> None:
    run, names = RunFolder(tmp_path), ("wandb",)
    train(run, 1, 1.0)
    save(run, 1)
    (run.path / "logged.json").write_text(logged)
    with Loggers(names, SETTINGS, run, 1) as mirrors:
        assert mirrors.update() == []
    assert steps(recorder) == [(1, 1.0)]
    assert recorder.runs != ["old"], "the old run would have the step twice"


def test_a_logger_that_fails_is_dropped_and_catches_up_on_resume(
    tmp_path: Path, recorder: Recorder
) -> None:
    run, names = RunFolder(tmp_path), ("wandb", "tensorboard")
    with Loggers(names, SETTINGS, run, 0) as mirrors:
        train(run, 1, 1.0)
        save(run, 1)
        recorder.broken = True
        (warning,) = mirrors.update()
        told = "Warning, wandb failed and receives no data until the run is resumed: no network."
        assert warning == told
        train(run, 2, 2.0)
        save(run, 2)
        recorder.broken = False
        assert mirrors.update() == []
    assert steps(recorder) == []
    assert shown(run) == [(1, 1.0), (2, 2.0)]
    with Loggers(names, SETTINGS, run, 2) as mirrors:
        assert mirrors.update() == []
    assert steps(recorder) == [(1, 1.0), (2, 2.0)]
    assert shown(run) == [(1, 1.0), (2, 2.0)]


def test_a_logger_that_cannot_be_opened_ends_a_new_run(tmp_path: Path, recorder: Recorder) -> None:
    recorder.broken = True
    run, names = RunFolder(tmp_path), ("wandb",)
    with pytest.raises(ConfigError, match=r"^log_to: wandb: no network$"):
        Loggers(names, SETTINGS, run, 0)
    train(run, 1, 1.0)
    save(run, 1)
    with Loggers(names, SETTINGS, run, 1) as mirrors:
        (warning,) = mirrors.update()
    assert "wandb failed and receives no data" in warning
