"""Atomic checkpoints: a folder exists completely or not at all.

`checkpoints/step-000010/` is written under a temporary name in the same folder, synced to disk and
renamed. A killed process leaves only the temporary folder, which readers ignore.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from resume_gym.atomic_write import UNFINISHED, replacing, sync

KEPT = 2
_STEP = re.compile(r"step-(\d{6,})")
_BEST = "best"


class CheckpointError(Exception):
    """A checkpoint could not be written; the previous one still exists."""


def begin(folder: Path, step: int) -> Path:
    """Create an empty folder for a checkpoint, to be published by `finish`.

    Args:
        folder: folder of all checkpoints; created if missing.
        step: number of completed optimizer steps.

    Raises:
        FileExistsError: this step or a later one is already saved.
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
    """Publish the checkpoint from `begin`; remove all but the newest two and the best."""
    final = folder / f"step-{step:06d}"
    _publish(folder / f"{UNFINISHED}{final.name}", final)
    spared = best(folder)
    for _, old in _saved(folder)[:-KEPT]:
        if old != spared:
            _remove(old)
    return final


def best(folder: Path) -> Path | None:
    """Return the checkpoint marked by `mark_best`, if it exists."""
    file = folder / _BEST
    found = folder / file.read_text().strip() if file.exists() else None
    return found if found and found.is_dir() else None


def mark_best(folder: Path, step: int) -> bool:
    """Mark a step's checkpoint as the best, to keep it; return whether it exists."""
    found = folder / f"step-{step:06d}"
    if found.is_dir():
        write_text(folder / _BEST, f"{found.name}\n")
    return found.is_dir()


def write_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Write a folder; a crash leaves the new one, the old one or none, but never a partial one."""
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    write(unfinished)
    if path.exists():
        _remove(path)
    _publish(unfinished, path)


def _publish(unfinished: Path, final: Path) -> None:
    # sync before the rename, or a power cut could leave the name without the content
    for root, _, files in os.walk(unfinished):
        for path in (*(Path(root, name) for name in files), Path(root)):
            sync(path)
    unfinished.rename(final)
    sync(final.parent)


def _remove(folder: Path) -> None:
    # rename first: an interrupted removal must not leave a partial folder
    shutil.rmtree(folder.rename(folder.with_name(f"{UNFINISHED}old-{folder.name}")))


def latest(folder: Path) -> tuple[int, Path] | None:
    """Return step and folder of the newest checkpoint."""
    return max(_saved(folder), default=None)


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def _saved(folder: Path) -> list[tuple[int, Path]]:
    """Return all checkpoints, oldest first."""
    found = [(_STEP.fullmatch(path.name), path) for path in folder.glob("step-*")]
    return sorted((int(match[1]), path) for match, path in found if match and path.is_dir())
