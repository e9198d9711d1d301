"""W&B and trackio show a run, and go on when it is resumed.

Environment variables in `tox.toml` make both write to this machine only.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb
from trackio.sqlite_storage import SQLiteStorage
from wandb.proto.wandb_internal_pb2 import Record

from learners.config import Config, to_dict
from learners.run.folder import RunFolder
from learners.run.loggers import PROJECT, Loggers

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


SETTINGS = to_dict(Config(name="one"))
NAME = "one-01234567"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "one")
    (made.path / "started").write_text("0123456789abcdef\n")
    return made


def twice(run: RunFolder, name: str) -> None:
    """Log three steps, of which two are saved; then resume from the second."""
    with pytest.raises(KeyboardInterrupt):
        interrupted(run, name)
    with Loggers([name], SETTINGS, run, 2) as loggers:
        assert loggers.log_step({"step": 3, "reward": 30}) == []


def interrupted(run: RunFolder, name: str) -> None:
    with Loggers([name], SETTINGS, run, 0) as loggers:
        assert loggers.log_evaluation({"step": 0, "reward": 1.5}) == []
        for step in (1, 2, 3):
            assert loggers.log_step({"step": step, "reward": step}) == []
        raise KeyboardInterrupt


def test_wandb_continues_a_resumed_run(run: RunFolder) -> None:
    twice(run, "wandb")
    first, second = wandb_has(run)
    assert history(first, "train/reward") == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert history(second, "train/reward") == [(3, 30.0)]
    assert history(first, "held_out/reward") == [(0, 1.5)]
    started = [one.run for some in (first, second) for one in some if one.HasField("run")]
    assert {one.run_id for one in started} == {NAME}
    assert {(one.project, one.display_name) for one in started} == {(PROJECT, "one")}
    settings = {one.key: json.loads(one.value_json) for one in started[0].config.update}
    assert settings["learning_rate"] == 2e-4
    ends = [one.exit.exit_code for some in (first, second) for one in some if one.HasField("exit")]
    assert ends == [1, 0], "the first was interrupted"


def test_trackio_continues_a_resumed_run(run: RunFolder) -> None:
    twice(run, "trackio")
    assert [one["name"] for one in SQLiteStorage.get_run_records(PROJECT)] == [NAME]
    rows = SQLiteStorage.get_logs(PROJECT, NAME)
    steps = [(one["step"], one["train/reward"]) for one in rows if "train/reward" in one]
    assert steps == [(1, 1.0), (2, 2.0), (3, 3.0), (3, 30.0)]
    assert [one["step"] for one in rows if "held_out/reward" in one] == [0]
