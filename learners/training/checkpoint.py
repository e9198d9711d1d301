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
    # only one process saves into a folder, so these are from one that was killed
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
            # rename first: an interrupted removal must not leave a partial checkpoint
            shutil.rmtree(old.rename(_old(old)))
    return final


def best(folder: Path) -> Path | None:
    """Return the checkpoint marked by `mark_best`, if it exists."""
    mark = folder / _BEST
    marked = folder / mark.read_text().strip() if mark.exists() else None
    return marked if marked and marked.is_dir() else None


def mark_best(folder: Path, step: int) -> bool:
    """Mark a step's checkpoint as the best, to keep it; return whether it exists."""
    marked = folder / f"step-{step:06d}"
    if marked.is_dir():
        write_text(folder / _BEST, f"{marked.name}\n")
    return marked.is_dir()


def write_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Write or replace a folder; after a crash, `find_folder` returns the new or the old one.

    Args:
        path: the folder.
        write: writes its content into an empty folder.
    """
    unfinished, old = path.with_name(f"{UNFINISHED}{path.name}"), _old(path)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    write(unfinished)
    # No system call replaces a folder that has content, so the old folder stays under another name
    # until the new one has its own. It may be there already, from a crash between the renames.
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
    _publish(unfinished, path)
    shutil.rmtree(old, ignore_errors=True)


def find_folder(path: Path) -> Path:
    """Return a folder from `write_folder`: the previous one if a crash has left no other."""
    return _old(path) if _old(path).is_dir() and not path.is_dir() else path


def _old(path: Path) -> Path:
    return path.with_name(f"{UNFINISHED}old-{path.name}")


def _publish(unfinished: Path, final: Path) -> None:
    # sync before the rename, or a power cut could leave the name without the content
    for root, _, files in os.walk(unfinished):
        for path in (*(Path(root, name) for name in files), Path(root)):
            sync(path)
    unfinished.rename(final)
    sync(final.parent)  # the rename itself is on disk only with the parent's entries


def latest(folder: Path) -> tuple[int, Path] | None:
    """Return step and folder of the newest checkpoint."""
    return max(_saved(folder), default=None)


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def _saved(folder: Path) -> list[tuple[int, Path]]:
    """Return all checkpoints, oldest first."""
    # compared as numbers: with a seventh digit, names no longer sort by step
    matches = [(_STEP.fullmatch(path.name), path) for path in folder.glob("step-*")]
    return sorted((int(match[1]), path) for match, path in matches if match and path.is_dir())
