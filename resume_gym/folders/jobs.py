"""The two kinds of jobs, runs and evaluations: their files, and whether their process runs."""

import fcntl
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_SILENT_S = 3600
"""Seconds without a write after which a job that holds its lock counts as stale."""


class Job(NamedTuple):
    """Kind of a job.

    Attributes:
        kind: "run" or "evaluation".
        lock: file that the job locks.
        last: file that the job writes at its end.
        files: files with results that the job writes before `last`, except in `trajectories`.
    """

    kind: str
    lock: str
    last: str
    files: tuple[str, ...]


RUN = Job(
    "run",
    "lock",
    "after.json",
    ("metrics.jsonl", "evaluations.jsonl", "before.json", "floor.json", "journal.md"),
)
EVALUATION = Job("evaluation", "episodes.jsonl", "evaluation.json", ("episodes.jsonl",))


def job_of(folder: Path) -> Job | None:
    """Return the kind of the job that wrote a folder; None if no job did."""
    if (folder / "trajectories").is_dir() or (folder / "metrics.jsonl").is_file():
        return RUN
    return EVALUATION if (folder / EVALUATION.lock).is_file() else None


def stamp(folder: Path) -> tuple[int, int]:
    """Return the last write time (ns since 1970) and the total bytes of the files of a job.

    Files in `trajectories` do not count. Both values are 0 if there is no file. No file is opened.
    """
    names = [name for job in (RUN, EVALUATION) for name in (*job.files, job.last)]
    files = [file.stat() for name in names if (file := folder / name).is_file()]
    return max((one.st_mtime_ns for one in files), default=0), sum(one.st_size for one in files)


def status(folder: Path) -> str:
    """Return a job's state: "running", "stale", "interrupted", "ended", or "" if unknown."""
    job = job_of(folder) or EVALUATION
    lock = folder / job.lock
    if _is_locked(lock):
        times = [file.lstat().st_mtime_ns for file in (folder / "trajectories").glob("*.jsonl")]
        silent_s = time.time() - max([*times, stamp(folder)[0]]) / 10**9
        return "stale" if silent_s > _SILENT_S else "running"
    if not lock.exists():  # earlier versions of imitation learning wrote no lock file
        return ""
    return "ended" if (folder / job.last).is_file() else "interrupted"


def _is_locked(file: Path) -> bool:
    """Return whether a process holds the lock of a file, by trying to take a shared lock."""
    if not file.is_file() or file.is_symlink():
        return False
    with suppress(OSError), file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
