"""What loggers are told, and that killed and resumed runs are shown as they were trained."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from learners import checkpoint, loggers
from learners.config import Config, ConfigError
from learners.loggers import LOGGERS, Loggers, require
from learners.monitors import RunFolder
from resume_gym.evaluation import Returns

TENSORBOARD = Config(log_to=("tensorboard",))


def train(run: RunFolder, step: int, reward: float) -> None:
    run.append({"step": step, "reward": reward, "verdict_clarity": 0.5, "seconds_train": 2.0})


def save(run: RunFolder, step: int) -> None:
    checkpoint.begin(run.checkpoints, step)
    checkpoint.finish(run.checkpoints, step)


def events(run: RunFolder) -> EventAccumulator:
    """All that TensorBoard's page is served from."""
    every = {"scalars": 0, "text": 0}
    return EventAccumulator(str(run.path / "tensorboard"), tensor_size_guidance=every).Reload()


def shown(run: RunFolder, tag: str = "train/reward") -> list[tuple[int, float]]:
    found = events(run).Tensors(tag)
    return [(one.step, float(make_ndarray(one.tensor_proto))) for one in found]


def texts(run: RunFolder, tag: str) -> list[str]:
    found = events(run).Tensors(f"{tag}/text_summary")
    return [one.tensor_proto.string_val[0].decode() for one in found]


class Recorder:
    """A logger that cannot forget; it keeps what it was told beyond its own life."""

    forgets: ClassVar[bool] = False
    told: ClassVar[list[tuple[str, int, Any]]]
    broken: ClassVar[bool]

    def __init__(self, config: Config, run: RunFolder, name: str, first: int) -> None:
        if self.broken:
            raise OSError("no\nnetwork.")
        self.name = name

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        if self.broken:
            raise OSError("no network")
        self.told.append((self.name, step, dict(figures)))

    def say(self, step: int, sentence: str) -> None:
        self.told.append((self.name, step, sentence))

    def flush(self) -> None: ...

    def close(self, failed: bool) -> None:
        self.told.append((self.name, -1, failed))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> type[Recorder]:
    Recorder.told, Recorder.broken = [], False
    monkeypatch.setattr(loggers, "LOGGERS", {**LOGGERS, "wandb": Recorder})
    return Recorder


def steps(recorder: type[Recorder]) -> list[tuple[int, float]]:
    figures = [(step, one) for _, step, one in recorder.told if isinstance(one, dict)]
    return [(step, one["train/reward"]) for step, one in figures if "train/reward" in one]


def test_tensorboard_shows_what_the_folder_has(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_result("before", Returns(8, 2, 1.0, 0.5))
    with Loggers(TENSORBOARD, run, 0) as telling:
        assert telling.update() == []
        assert shown(run, "held_out/reward") == [(0, 1.0)]
        for step in (1, 2):
            train(run, step, step / 2)
            telling.say(step, f"Step {step}: a *sentence*.")
            telling.update()
            assert len(shown(run)) == step, "a step is there at once"
        run.append_evaluation(
            {"step": 1, "versions": [1, 2], "reward": 2.5, "verdict": {"clarity": 0.25}}
        )
        run.write_result("after", Returns(8, 2, 3.0, 0.5))
        telling.update()
        telling.update()
    assert shown(run) == [(1, 0.5), (2, 1.0)]
    assert shown(run, "judge/clarity") == [(1, 0.5), (2, 0.5)]
    assert shown(run, "speed/seconds_train") == [(1, 2.0), (2, 2.0)]
    assert shown(run, "evaluation/reward") == [(1, 2.5)]
    assert shown(run, "evaluation/verdict/clarity") == [(1, 0.25)]
    assert shown(run, "held_out/reward") == [(0, 1.0), (2, 3.0)]
    assert texts(run, "journal") == ["Step 1: a *sentence*.", "Step 2: a *sentence*."]
    assert 'name = "nano"' in texts(run, "config")[0]


KILLED = """
import os, signal, sys, time
from pathlib import Path
from learners.loggers import Loggers
from learners.monitors import RunFolder
sys.path.insert(0, sys.argv[2])
from test_loggers import TENSORBOARD, save, train
run = RunFolder(Path(sys.argv[1]))
telling = Loggers(TENSORBOARD, run, 0)
telling.update()
for step in range(1, 6):
    train(run, step, step / 2)
    if step in (2, 4):
        save(run, step)
    telling.say(step, f"Of the first life: {step}.")
    telling.update()
time.sleep(1.1)  # event files are read in the order of the seconds in their names
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_is_shown_without_doubled_or_lost_steps(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent)]
    done = subprocess.run(command, check=False)
    assert done.returncode == -signal.SIGKILL
    run = RunFolder(tmp_path)
    assert shown(run) == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 2.0), (5, 2.5)]
    run.truncate(4)
    with Loggers(TENSORBOARD, run, 4) as telling:
        telling.update()
        assert [step for step, _ in shown(run)] == [1, 2, 3, 4]
        for step in (5, 6):
            train(run, step, 7.0)
            telling.say(step, f"Of the second life: {step}.")
            telling.update()
    assert shown(run) == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 2.0), (5, 7.0), (6, 7.0)]
    first = [f"Of the first life: {step}." for step in range(1, 5)]
    assert texts(run, "journal") == [*first, *(f"Of the second life: {n}." for n in (5, 6))]
    assert len(texts(run, "config")) == 1


def test_what_was_shown_but_not_marked_is_not_doubled(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    marks = run.path / "logged.json"
    with Loggers(TENSORBOARD, run, 0) as telling:
        train(run, 1, 1.0)
        telling.update()
        known = marks.read_text()
        train(run, 2, 2.0)
        save(run, 2)
        telling.update()
    marks.write_text(known)
    with Loggers(TENSORBOARD, run, 2) as telling:
        telling.update()
    assert shown(run) == [(1, 1.0), (2, 2.0)]


def test_a_logger_that_comes_later_is_told_the_beginning(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_result("before", Returns(8, 2, 1.0, 0.5))
    with Loggers(Config(), run, 0) as telling:
        train(run, 1, 1.0)
        assert telling.update() == []
        save(run, 1)
    assert not (run.path / "logged.json").exists()
    with Loggers(TENSORBOARD, run, 1) as telling:
        train(run, 2, 2.0)
        telling.update()
    assert shown(run) == [(1, 1.0), (2, 2.0)]
    assert shown(run, "held_out/reward") == [(0, 1.0)]


def test_one_that_cannot_forget_is_told_what_a_checkpoint_holds(
    tmp_path: Path, recorder: type[Recorder]
) -> None:
    run, config = RunFolder(tmp_path), Config(log_to=("wandb",))
    telling = Loggers(config, run, 0)
    for step in (1, 2, 3):
        train(run, step, step)
        if step == 2:
            save(run, step)
        telling.say(step, f"Step {step}.")
        telling.update()
    assert steps(recorder) == [(1, 1), (2, 2)]
    run.truncate(2)  # killed, and given again
    with Loggers(config, run, 2) as telling:
        train(run, 3, 30)
        telling.update()
        save(run, 3)
        telling.say(3, "Step 3, again.")
        telling.update()
    assert steps(recorder) == [(1, 1), (2, 2), (3, 30)]
    said = [one for _, _, one in recorder.told if isinstance(one, str)]
    assert said == ["Step 1.", "Step 2.", "Step 3, again."]
    assert len({name for name, _, _ in recorder.told}) == 1, "it is one run there"
    assert recorder.told[-1][2] is False


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_an_evaluation_that_is_played_again_is_shown_once(
    name: str, tmp_path: Path, recorder: type[Recorder]
) -> None:
    run, config = RunFolder(tmp_path), Config(log_to=(name,))
    for reward in (1.0, 2.0):  # killed after the step, and given again
        telling = Loggers(config, run, 2 if reward == 2.0 else 0)
        for step in (3,) if reward == 2.0 else (1, 2, 3):
            train(run, step, reward)
            if step == 2:
                save(run, step)
                run.append_evaluation({"step": 2, "versions": [2, 2], "reward": 0.5})
            telling.update()
        run.append_evaluation({"step": 3, "versions": [3, 3], "reward": reward})
        telling.update()
        if reward == 1.0:
            run.truncate(2)
    save(run, 3)
    telling.update()
    if name == "tensorboard":
        assert shown(run, "evaluation/reward") == [(2, 0.5), (3, 2.0)]
    else:
        figures = [(step, one) for _, step, one in recorder.told if isinstance(one, dict)]
        told = [(step, one["evaluation/reward"]) for step, one in figures if len(one) == 1]
        assert told == [(2, 0.5), (3, 2.0)]


def test_one_that_fails_is_let_go_told_of_and_caught_up_with(
    tmp_path: Path, recorder: type[Recorder]
) -> None:
    run, config = RunFolder(tmp_path), Config(log_to=("wandb", "tensorboard"))
    with Loggers(config, run, 0) as telling:
        train(run, 1, 1.0)
        save(run, 1)
        recorder.broken = True
        (told,) = telling.update()
        assert told == (
            "Warning, wandb gets nothing more until the same command is given again: no network."
        )
        train(run, 2, 2.0)
        save(run, 2)
        recorder.broken = False
        assert telling.update() == []
    assert steps(recorder) == []
    assert shown(run) == [(1, 1.0), (2, 2.0)]
    with Loggers(config, run, 2) as telling:
        assert telling.update() == []
    assert steps(recorder) == [(1, 1.0), (2, 2.0)]
    assert shown(run) == [(1, 1.0), (2, 2.0)]


def test_one_that_cannot_be_opened_ends_a_run_that_has_not_begun(
    tmp_path: Path, recorder: type[Recorder]
) -> None:
    recorder.broken = True
    run, config = RunFolder(tmp_path), Config(log_to=("wandb",))
    with pytest.raises(ConfigError, match=r"^log_to: wandb: no network$"):
        Loggers(config, run, 0)
    train(run, 1, 1.0)
    save(run, 1)
    with Loggers(config, run, 1) as telling:
        (told,) = telling.update()
    assert "wandb gets nothing more" in told


def test_a_run_that_is_cut_short_is_told_as_such(tmp_path: Path, recorder: type[Recorder]) -> None:
    run = RunFolder(tmp_path)
    with (
        pytest.raises(KeyboardInterrupt),
        Loggers(Config(log_to=("wandb",)), run, 0),
    ):
        raise KeyboardInterrupt
    assert recorder.told[-1][2] is True


@pytest.mark.parametrize("name", LOGGERS)
def test_what_is_not_installed_is_told_with_its_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("learners.loggers.find_spec", lambda package: None)
    require(Config())
    with pytest.raises(ConfigError, match=rf"{name} needs `pip install -e \.\[{name}\]`"):
        require(Config(log_to=(name,)))  # type: ignore[arg-type]


@pytest.mark.slow
def test_packages_are_imported_only_when_they_are_asked_for() -> None:
    code = "import sys, learners.loggers; print(*{one.partition('.')[0] for one in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"tensorboard", "wandb", "trackio"} & set(done.stdout.split())


def test_marks_are_json_of_each_logger(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with Loggers(TENSORBOARD, run, 0) as telling:
        train(run, 1, 1.0)
        telling.update()
    assert json.loads((tmp_path / "logged.json").read_text())["tensorboard"]["step"] == 1
