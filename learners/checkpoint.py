"""Checkpoints: a folder is there completely, or not at all.

`checkpoints/step-000010/` is written under a temporary name beside it, made durable, and renamed.
What a killed process leaves behind keeps its temporary name, which nothing reads.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from resume_gym.replacing import UNFINISHED, replacing, sync

KEPT = 2
_STEP = re.compile(r"step-(\d{6,})")
_BEST = "best"


class CheckpointError(Exception):
    """A checkpoint could not be written; the one before is still there."""


def begin(folder: Path, step: int) -> Path:
    """An empty folder for a checkpoint to be written into; it counts once it is finished.

    Args:
        folder: of all checkpoints; made if it is missing.
        step: optimizer steps done.

    Raises:
        FileExistsError: this step, or a later one, has been saved before.
    """
    last = latest(folder)
    if last and last[0] >= step:
        raise FileExistsError(f"step {step}: {last[1]} has been saved before")
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{UNFINISHED}*"):
        shutil.rmtree(leftover)
    unfinished = folder / f"{UNFINISHED}step-{step:06d}"
    unfinished.mkdir()
    return unfinished


def finish(folder: Path, step: int) -> Path:
    """Make the checkpoint that was begun durable, name it; keep the newest two and the best."""
    final = folder / f"step-{step:06d}"
    _publish(folder / f"{UNFINISHED}{final.name}", final)
    spared = best(folder)
    for _, old in _saved(folder)[:-KEPT]:
        if old != spared:
            _remove(old)
    return final


def best(folder: Path) -> Path | None:
    """The checkpoint that `mark_best` named, if it is there."""
    file = folder / _BEST
    found = folder / file.read_text().strip() if file.exists() else None
    return found if found and found.is_dir() else None


def mark_best(folder: Path, step: int) -> bool:
    """Keep a step's checkpoint from now on, whatever comes; whether it is there."""
    found = folder / f"step-{step:06d}"
    if found.is_dir():
        write_text(folder / _BEST, f"{found.name}\n")
    return found.is_dir()


def write_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Write a folder that is there completely, or is what it was before, or is not there."""
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    write(unfinished)
    if path.exists():
        _remove(path)
    _publish(unfinished, path)


def _publish(unfinished: Path, final: Path) -> None:
    for root, _, files in os.walk(unfinished):
        for path in (*(Path(root, name) for name in files), Path(root)):
            sync(path)
    unfinished.rename(final)
    sync(final.parent)


def _remove(folder: Path) -> None:
    # rename first: a removal that is cut short must not leave half a folder
    shutil.rmtree(folder.rename(folder.with_name(f"{UNFINISHED}old-{folder.name}")))


def latest(folder: Path) -> tuple[int, Path] | None:
    """The newest checkpoint: its step and its folder."""
    return max(_saved(folder), default=None)


def write_text(path: Path, text: str) -> None:
    """Write a file that is there completely, or is what it was before."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def _saved(folder: Path) -> list[tuple[int, Path]]:
    """All checkpoints, oldest first."""
    found = [(_STEP.fullmatch(path.name), path) for path in folder.glob("step-*")]
    return sorted((int(match[1]), path) for match, path in found if match and path.is_dir())
