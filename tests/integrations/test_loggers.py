"""W&B and trackio have each step of a resumed run once.

Environment variables in `tox.toml` make both write to this machine only.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from trackio.sqlite_storage import SQLiteStorage
from wandb.proto.wandb_internal_pb2 import Record

from learners.config import Config, to_dict
from learners.run.folder import RunFolder
from learners.run.loggers import PROJECT, Loggers
from learners.training import checkpoint

BLOCK = 2**15


def records(file: Path) -> Iterator[Record]:
    """Yield the records of an offline W&B run: LevelDB's log format after a header of 7 bytes."""
    data, place, whole = file.read_bytes(), 7, b""
    while place + 7 <= len(data):
        if (left := BLOCK - place % BLOCK) < 7:
            place += left
            continue
        _, size, kind = struct.unpack("<IHB", data[place : place + 7])
        whole += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # complete, or the last part
            yield Record.FromString(whole)
            whole = b""


def wandb_has(run: RunFolder) -> list[list[Record]]:
    """Return the records of each process of the run."""
    wandb.teardown()  # finish() may return before the file is complete
    files = sorted(
        run.path.glob("wandb/offline-run-*/*.wandb"), key=lambda one: one.stat().st_mtime
    )
    return [list(records(file)) for file in files]


def history(some: list[Record], metric: str) -> list[tuple[int, float]]:
    rows = []
    for one in some:
        items = {
            (item.key or "/".join(item.nested_key)): json.loads(item.value_json)
            for item in one.history.item
        }
        if metric in items:
            rows.append((items["step"], items[metric]))
    return rows


def trackio_has(run: RunFolder) -> list[dict[str, Any]]:
    name = json.loads((run.path / "logged.json").read_text())["trackio"]["name"]
    records = SQLiteStorage.get_run_records(PROJECT)
    assert [one["name"] for one in records].count(name) == 1, "both processes continue one run"
    return SQLiteStorage.get_logs(PROJECT, name)


SETTINGS = to_dict(Config(name="one"))


def twice(run: RunFolder, *names: str) -> None:
    """Run five steps, of which four are saved; then resume from the fourth."""
    run.configure(Config(name="one"))
    run.append_evaluation({"step": 0, "reward": 1.5})
    with pytest.raises(KeyboardInterrupt), Loggers(names, SETTINGS, run, 0) as loggers:
        interrupted(run, loggers)
    run.truncate(4)
    with Loggers(names, SETTINGS, run, 4) as loggers:
        play(run, loggers, range(5, 7), 10.0)


def interrupted(run: RunFolder, loggers: Loggers) -> None:
    play(run, loggers, range(1, 6), 1.0)
    raise KeyboardInterrupt


def play(run: RunFolder, loggers: Loggers, steps: range, factor: float) -> None:
    for step in steps:
        run.append({"step": step, "reward": factor * step})
        run.note(f"Step {step}.")
        if step % 2 == 0:
            checkpoint.begin(run.checkpoints, step)
            checkpoint.finish(run.checkpoints, step)
        assert loggers.update() == []


WANTED = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 50.0), (6, 60.0)]


def test_wandb_has_each_step_once(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "one")
    twice(run, "wandb")
    first, second = wandb_has(run)
    assert history(first, "train/reward") + history(second, "train/reward") == WANTED
    assert history(first, "held_out/reward") == [(0, 1.5)]
    assert history(second, "held_out/reward") == []
    started = [one.run for some in (first, second) for one in some if one.HasField("run")]
    assert len({one.run_id for one in started}) == 1
    assert {(one.project, one.display_name) for one in started} == {(PROJECT, "one")}
    settings = {one.key: json.loads(one.value_json) for one in started[0].config.update}
    assert settings["learning_rate"] == 2e-4
    ends = [one.exit.exit_code for some in (first, second) for one in some if one.HasField("exit")]
    assert ends == [1, 0], "the first was interrupted"


def test_trackio_has_each_step_once(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "one")
    twice(run, "trackio")
    rows = trackio_has(run)
    assert [(one["step"], one["train/reward"]) for one in rows if "train/reward" in one] == WANTED
    held = [(one["step"], one["held_out/reward"]) for one in rows if "held_out/reward" in one]
    assert held == [(0, 1.5)]


def test_a_failure_of_which_trackio_only_warns_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, names = RunFolder(tmp_path / "one"), ("trackio",)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    with Loggers(names, SETTINGS, run, 0) as loggers:
        run.append({"step": 1, "reward": 1.0})
        checkpoint.begin(run.checkpoints, 1)
        checkpoint.finish(run.checkpoints, 1)
        with monkeypatch.context() as during:
            during.setattr(SQLiteStorage, "bulk_log", full)
            (warning,) = loggers.update()
    assert "no space left" in warning
    with Loggers(names, SETTINGS, run, 1) as loggers:
        assert loggers.update() == []
    assert [one["step"] for one in trackio_has(run)] == [1]
