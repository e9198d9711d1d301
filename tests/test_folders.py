"""The reader and the writer of the folders of runs and evaluations."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from resume_gym import TaskError
from resume_gym.folders import writer
from resume_gym.folders.jobs import EVALUATION, RUN, Job, status
from resume_gym.folders.reader import INCOMPLETE, MOST_BYTES, FolderReader, GrowingFile
from resume_gym.folders.writer import FolderWriter
from resume_gym.support import atomic_write
from resume_gym.support.json_lines import seal

NAME = "rows.jsonl"


def write(folder: Path, numbers: range) -> Path:
    for number in numbers:
        FolderWriter(folder).append_row(NAME, {"number": number})
    return folder / NAME


def numbers(growing: GrowingFile) -> list[int]:
    return [line.record["number"] for line in growing.read() if not line.problem]


def test_damaged_and_incomplete_lines_are_told_from_sound_lines(tmp_path: Path) -> None:
    file = write(tmp_path, range(1))
    sound = seal({"number": 1})
    with file.open("ab") as opened:
        for line in (sound.replace("1", "2", 1).encode(), b"\xff", b"[1]", b"[" * 100_000, b"{}"):
            opened.write(line + b"\n")
        opened.write(sound[:-9].encode())
    lines = list(FolderReader(tmp_path).lines(NAME))
    assert [line.number for line in lines if not line.problem] == [1, 6]
    told = [line.problem for line in FolderReader(tmp_path).lines(NAME, sealed=True)]
    assert told[0] == ""
    assert "does not match" in told[1]
    assert "nested" in told[4] or "checksum" in told[4]
    assert "expected a checksum" in told[5]
    assert told[6] == INCOMPLETE
    FolderWriter(tmp_path).mend(NAME)
    assert [*FolderReader(tmp_path).lines(NAME)] == lines[:-1]


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, system_write = write(tmp_path, range(2)), os.write
    written = file.read_bytes()

    def full(handle: int, content: bytes) -> int:
        if len(content) < 50:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return system_write(handle, content[:20])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=rf"No space left on device: '.*{NAME}'"):
        write(tmp_path, range(2, 3))
    assert file.read_bytes() == written
    monkeypatch.undo()
    write(tmp_path, range(2, 3))
    assert [line.record["number"] for line in FolderReader(tmp_path).lines(NAME)] == [0, 1, 2]


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda file: file.symlink_to("/dev/zero"), lambda file: file.mkdir()]
)
def test_only_regular_files_are_read_and_written(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / NAME)
    reader, to = FolderReader(tmp_path), FolderWriter(tmp_path)
    for act in (
        lambda: reader.content(NAME),
        lambda: list(reader.lines(NAME)),
        lambda: to.append(NAME, "a\n"),
        lambda: to.lock(NAME).__enter__(),
    ):
        with pytest.raises(TaskError, match=f"{NAME}: expected a regular file"):
            act()


def test_links_are_neither_written_nor_without_trust_read(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("mine\n")
    for name in (NAME, f"{atomic_write.UNFINISHED}other"):
        (folder / name).symlink_to(outside)
    with pytest.raises(TaskError, match="expected a file in the folder, got a link"):
        FolderReader(folder, trusted=False).content(NAME)
    assert FolderReader(folder).content(NAME) == b"mine\n"
    with pytest.raises(TaskError, match="expected a regular file"):
        FolderWriter(folder).append(NAME, "theirs\n")
    for name in (NAME, "other"):
        FolderWriter(folder).replace(name, "new\n")
        assert not (folder / name).is_symlink()
    assert outside.read_text() == "mine\n"


def test_files_of_any_size_are_read_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(2 * MOST_BYTES)
    reader = FolderReader(tmp_path)
    for read in (lambda: reader.content(NAME), lambda: list(reader.lines(NAME))):
        with pytest.raises(TaskError, match=rf"{NAME}: expected .*at most 67,108,864 bytes"):
            read()


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"a": 1e999}', "\xff"])
def test_a_file_without_an_object_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(text, encoding="latin-1")
    with pytest.raises(TaskError, match=f"{NAME}: "):
        FolderReader(tmp_path).object(NAME)


def test_files_survive_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    replace = Path.replace

    def watch_replace(self: Path, target: Path) -> Path:
        events.append(f"-> {target.name}")
        return replace(self, target)

    for module in (atomic_write, writer):
        monkeypatch.setattr(
            module, "sync", lambda path: events.append(f"{path.name} {path.stat().st_size}")
        )
    monkeypatch.setattr(Path, "replace", watch_replace)
    to, entries = FolderWriter(tmp_path), f"{tmp_path.name} {tmp_path.stat().st_size}"
    to.append("a", "one\n", synced=True)
    to.append("a", "two\n", synced=True)
    to.replace("b", "three\n")
    named = [event.replace(entries, "folder") for event in events]
    assert [name for name in named if not name.startswith(tmp_path.name)] == [
        *("a 4", "folder", "a 8", "folder"),
        *(".unfinished-b 6", "-> b", "folder"),
    ]


def test_one_process_at_a_time_holds_a_lock(tmp_path: Path) -> None:
    to = FolderWriter(tmp_path)
    for name, signed, holder in (
        ("lock", True, f"process {os.getpid()} on "),
        (NAME, False, "another process"),
    ):
        for _ in range(2):
            with (
                to.lock(name, signed),
                pytest.raises(TaskError, match=f"{holder}.* writes to this folder; wait"),
            ):
                to.lock(name, signed).__enter__()
    assert (tmp_path / NAME).read_bytes() == b""


def test_a_growing_file_is_read_once_and_a_rewritten_one_anew(tmp_path: Path) -> None:
    file = write(tmp_path, range(3))
    growing = GrowingFile(file)
    assert numbers(growing) == [0, 1, 2]
    with file.open("a") as opened:
        opened.write(seal({"number": 3})[:9])
    assert not growing.is_rewritten()
    assert numbers(growing) == []
    assert growing.incomplete
    FolderWriter(tmp_path).mend(NAME)
    write(tmp_path, range(3, 5))
    assert not growing.is_rewritten()
    assert numbers(growing) == [3, 4]
    assert not growing.incomplete
    content = file.read_bytes()
    swapped = b"".join(content.splitlines(True)[number] for number in (0, 2, 1, 3, 4))
    for change in (content[:-1], swapped, swapped + content):
        file.write_bytes(change)
        os.utime(file, ns=(1, len(change)))
        assert growing.is_rewritten()
    file.write_bytes(content)
    assert not growing.is_rewritten()
    file.unlink()
    assert growing.is_rewritten()


@pytest.mark.parametrize("job", [RUN, EVALUATION])
def test_the_status_of_a_job_is_told_by_its_lock_and_its_last_file(
    job: Job, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    if job == RUN:
        (folder / "metrics.jsonl").touch()
        assert status(folder) == ""
    lock, last = folder / job.lock, folder / job.last
    lock.touch()
    last.touch()
    assert status(folder) == "ended"
    last.unlink()
    assert status(folder) == "interrupted"
    with FolderWriter(folder).lock(job.lock, signed=False):
        assert status(folder) == "running"
        for file in folder.rglob("*"):
            os.utime(file, (1, 1))
        assert status(folder) == "stale"
    assert status(folder) == "interrupted"
    lock.rename(tmp_path / "elsewhere")
    lock.symlink_to(tmp_path / "elsewhere")
    with (tmp_path / "elsewhere").open("a") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        assert status(folder) == "interrupted", "a link is not followed"
