import shutil
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError

import pytest
import torch
from jobs import garble

from learners.training import checkpoint
from learners.training.checkpoint import (
    CheckpointError,
    begin,
    finish,
    latest,
    only_data,
    set_damaged_aside,
)
from resume_gym.support.json_lines import seal


def put(folder: Path) -> None:
    (folder / "weights").write_text("all of it")
    (folder / "more").mkdir()
    (folder / "more" / "state").write_bytes(b"\0" * 1000)


def save(folder: Path, step: int, write: Callable[[Path], None]) -> Path:
    write(begin(folder, step))
    return finish(folder, step)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_two_stay(tmp_path: Path) -> None:
    (tmp_path / "step-2000000").write_text("a file")
    (tmp_path / "step-12").mkdir()
    assert latest(tmp_path) is None
    for step in (5, 10, 999_999, 1_000_000):
        saved = save(tmp_path, step, put)
    assert names(tmp_path) == ["step-1000000", "step-12", "step-2000000", "step-999999"]
    assert latest(tmp_path) == (1_000_000, saved)
    assert names(saved) == ["manifest.json", "more", "weights"]


def test_the_best_stays_too(tmp_path: Path) -> None:
    assert checkpoint.best(tmp_path) is None
    save(tmp_path, 5, put)
    assert checkpoint.mark_best(tmp_path, 5)
    for step in (10, 15, 20):
        save(tmp_path, step, put)
    assert names(tmp_path) == ["best", "step-000005", "step-000015", "step-000020"]
    assert checkpoint.best(tmp_path) == tmp_path / "step-000005"
    assert checkpoint.mark_best(tmp_path, 20)
    save(tmp_path, 25, put)
    assert names(tmp_path) == ["best", "step-000020", "step-000025"]
    assert not checkpoint.mark_best(tmp_path, 5), "it is gone"
    assert checkpoint.best(tmp_path) == tmp_path / "step-000020"
    assert latest(tmp_path) == (25, tmp_path / "step-000025")


def test_a_checkpoint_from_before_the_last_steps_stays_to_roll_back_to(tmp_path: Path) -> None:
    for step in range(1, 13):
        checkpoint.begin(tmp_path, step)
        checkpoint.finish(tmp_path, step, keep_steps=5)
        before = list(range(1, step - 4))
        assert checkpoint.steps(tmp_path) == [*before[-1:], *range(max(1, step - 4), step + 1)]
    checkpoint.begin(tmp_path, 20)
    checkpoint.finish(tmp_path, 20, keep_steps=5)
    assert checkpoint.steps(tmp_path) == [12, 20]


def test_the_best_may_be_marked_before_it_is_complete(tmp_path: Path) -> None:
    put(checkpoint.begin(tmp_path, 5))
    assert checkpoint.mark_best(tmp_path, 5)
    assert checkpoint.best(tmp_path) is None
    checkpoint.finish(tmp_path, 5)
    for step in (10, 15, 20):
        save(tmp_path, step, put)
    assert checkpoint.best(tmp_path) == tmp_path / "step-000005"


def test_a_save_that_was_cut_off_keeps_the_previous_checkpoint(tmp_path: Path) -> None:
    before = save(tmp_path, 5, put)
    (begin(tmp_path, 10) / "weights").write_text("half")
    assert latest(tmp_path) == (5, before)
    after = save(tmp_path, 10, put)
    assert names(tmp_path) == ["step-000005", "step-000010"]
    assert (after / "weights").read_text() == "all of it"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda saved: garble(saved / "more" / "state"), "more/state changed"),
        (lambda saved: (saved / "weights").unlink(), "weights changed"),
        (lambda saved: (saved / "manifest.json").unlink(), "manifest.json: expected a checksum"),
        (lambda saved: garble(saved / "manifest.json", -80), "manifest.json: "),
        *(
            (lambda saved, text=text: (saved / "manifest.json").write_text(text), told)
            for text, told in (
                ("{}", "manifest.json: expected a checksum at the end"),
                ('{"weights": "3f"}', "manifest.json: expected a checksum at the end"),
                (seal({"step": 10}), "manifest.json: 'files'"),
                (seal({"step": 10, "files": {}}), "more/state, weights changed"),
                (seal({"step": 10, "files": {"absent": None}}), "absent, more/state, weights"),
                (seal({"step": 9, "files": {}}), "manifest.json: it belongs to step 9"),
                (seal({"step": 10, "files": {}}).replace("10", "9"), "does not match the content"),
            )
        ),
        (lambda saved: (saved / "more" / "added").touch(), "more/added changed"),
    ],
)
def test_a_damaged_checkpoint_is_set_aside(
    damage: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    assert set_damaged_aside(tmp_path) == []
    before = save(tmp_path, 5, put)
    last = save(tmp_path, 10, put)
    assert set_damaged_aside(tmp_path) == []
    damage(last)
    (sentence,) = set_damaged_aside(tmp_path)
    assert "step-000010 was renamed to damaged-step-000010" in sentence
    assert told in sentence
    assert latest(tmp_path) == (5, before)
    assert set_damaged_aside(tmp_path) == []
    save(tmp_path, 10, put)
    damage(before)
    assert set_damaged_aside(tmp_path) == [], "a newer one is whole"


def test_without_a_whole_checkpoint_nothing_is_renamed(tmp_path: Path) -> None:
    for step in (5, 10):
        garble(save(tmp_path, step, put) / "weights")
    for _ in range(2):  # the second try does not start at step 0
        with pytest.raises(CheckpointError, match=r"step-000010 is damaged: weights changed"):
            set_damaged_aside(tmp_path)
    assert names(tmp_path) == ["step-000005", "step-000010"]


def test_only_data_is_loaded_whatever_the_caller_asks_for(tmp_path: Path) -> None:
    file = tmp_path / "state.pt"
    torch.save({"a": torch.ones(2), "path": tmp_path}, file)
    with only_data(), pytest.raises(UnpicklingError):
        torch.load(file, weights_only=False)
    assert torch.load(file, weights_only=False)["path"] == tmp_path


def test_a_step_is_saved_once_and_in_order(tmp_path: Path) -> None:
    save(tmp_path, 10, put)
    for step in (10, 5):
        with pytest.raises(FileExistsError, match=f"step {step}: .*step-000010"):
            save(tmp_path, step, put)
    assert names(tmp_path) == ["step-000010"]


def test_a_checkpoint_is_synced_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, rename = checkpoint.sync, Path.rename

    def watch_sync(path: Path) -> None:
        events.append(path.name)
        sync(path)

    def watch_rename(self: Path, target: Path) -> Path:
        events.append(f"-> {target.name}")
        return rename(self, target)

    monkeypatch.setattr(checkpoint, "sync", watch_sync)
    monkeypatch.setattr(Path, "rename", watch_rename)
    save(tmp_path, 1, put)
    renamed = events.index("-> step-000001")
    files = {"weights", "state", "more", "manifest.json", ".unfinished-step-000001"}
    assert files == set(events[:renamed])
    assert events[renamed + 1 :] == [tmp_path.name]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "model"

    def fail(unfinished: Path) -> None:
        (unfinished / "weights").write_text("half")
        raise KeyboardInterrupt

    checkpoint.write_folder(folder, put)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.write_folder(folder, fail)
    assert (folder / "weights").read_text() == "all of it"
    # killed while it removed an old one
    shutil.copytree(folder, tmp_path / ".unfinished-old-model")
    checkpoint.write_folder(folder, lambda unfinished: (unfinished / "new").touch())
    assert names(tmp_path) == ["model"]
    assert names(folder) == ["new"]


def test_strange_files_among_checkpoints_do_no_harm(tmp_path: Path) -> None:
    outside, checkpoints = tmp_path / "outside", tmp_path / "checkpoints"
    save(outside, 1, put)
    checkpoints.mkdir()
    for name in (".unfinished-a", ".unfinished-step-000005"):
        (checkpoints / name).symlink_to(outside)
    for step, mark in ((5, "x" * 300), (6, "../outside/step-000001")):
        (checkpoints / "best").write_text(mark)
        save(checkpoints, step, put)
        assert checkpoint.best(checkpoints) is None
    assert names(checkpoints) == ["best", "step-000005", "step-000006"]
    assert names(outside) == ["step-000001"]
