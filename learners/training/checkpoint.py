"""Atomic checkpoints: the folder of a checkpoint is complete, or does not exist.

`checkpoints/step-000010/` is written under a temporary name in `checkpoints/`, synced to disk and
renamed. A killed process leaves only the temporary folder, which readers ignore. A manifest with
the step, the SHA-256 of each file and a checksum of itself shows whether a checkpoint is damaged.
A valid manifest does not prove where a checkpoint comes from, so loading is restricted to data,
which cannot execute code; see `only_data`.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from resume_gym.folders.reader import FolderReader
from resume_gym.folders.writer import FolderWriter
from resume_gym.support.atomic_write import UNFINISHED, sync
from resume_gym.support.json_lines import seal, unseal

KEPT = 2
_STEP = re.compile(r"step-(\d{6,})")
_BEST = "best"
_MANIFEST = "manifest.json"
_ONLY_DATA = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


class CheckpointError(Exception):
    """A checkpoint could not be loaded or written; earlier checkpoints still exist."""


def begin(folder: Path, step: int) -> Path:
    """Create an empty folder with a temporary name for a checkpoint; `finish` renames it.

    Args:
        folder: folder of all checkpoints; created if missing.
        step: number of completed optimizer steps.

    Raises:
        FileExistsError: a checkpoint of this step or a later step exists already.
    """
    last = latest(folder)
    if last and last[0] >= step:
        raise FileExistsError(f"step {step}: {last[1]} exists already")
    folder.mkdir(parents=True, exist_ok=True)
    # only one process saves into a folder, so leftovers are from a process that was killed
    remove_unfinished(folder)
    unfinished = folder / f"{UNFINISHED}step-{step:06d}"
    unfinished.mkdir()
    return unfinished


def remove_unfinished(folder: Path) -> None:
    """Remove what an interrupted save has left in the folder of all checkpoints."""
    for leftover in folder.glob(f"{UNFINISHED}*"):
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()


def finish(folder: Path, step: int, keep_steps: int = 0) -> Path:
    """Give a checkpoint its final name; delete older ones except the previous and the best.

    Args:
        folder: folder of all checkpoints.
        step: see `begin`.
        keep_steps: if not 0, also keep the checkpoints of the last `keep_steps` steps, and the
            newest checkpoint before those steps.
    """
    final = path_of(folder, step)
    unfinished = folder / f"{UNFINISHED}{final.name}"
    manifest = seal({"step": step, "files": _digests(unfinished)})
    (unfinished / _MANIFEST).write_text(manifest + "\n")
    _publish(unfinished, final)
    spared = [best(folder)]
    if keep_steps:
        saved = _saved(folder)
        before = [path for one, path in saved if one <= step - keep_steps]
        spared += before[-1:] + [path for one, path in saved if one > step - keep_steps]
    for _, old in _saved(folder)[:-KEPT]:
        if old not in spared:
            _remove(old)
    return final


def set_damaged_aside(folder: Path) -> list[str]:
    """Rename the damaged checkpoints that are newer than the newest undamaged checkpoint.

    Returns:
        A sentence about each renamed checkpoint.

    Raises:
        CheckpointError: all checkpoints are damaged; they keep their names.
    """
    damaged = []
    for _, path in reversed(_saved(folder)):
        if damage := damage_of(path):
            damaged.append((path, damage))
            continue
        break
    else:
        if damaged:
            path, damage = damaged[0]
            raise CheckpointError(f"{path} is damaged: {damage}; no checkpoint is intact")
    told = []
    for path, damage in damaged:
        aside = path.with_name(f"damaged-{path.name}")
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
        told.append(f"The damaged checkpoint {path.name} was renamed to {aside.name}: {damage}.")
    return told


def damage_of(folder: Path) -> str | None:
    """Return how a checkpoint differs from its manifest, or None if it does not differ."""
    try:
        manifest = unseal(FolderReader(folder).content(_MANIFEST) or b"")
        step, written = int(manifest["step"]), dict(manifest["files"])
        found = _digests(folder)
    except OSError as error:
        return str(error)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        return f"{_MANIFEST}: {error}"
    if folder.name != f"step-{step:06d}":
        return f"{_MANIFEST}: it belongs to step {step}"
    # also check files that are not in the manifest, since a backend could load an added file
    names = sorted({*written, *found})
    changed = [name for name in names if name not in found or found[name] != written.get(name)]
    return f"{', '.join(changed)} changed after the checkpoint was saved" if changed else None


def _digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a checkpoint, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _MANIFEST)

    def digest(path: Path) -> tuple[str, str]:
        with path.open("rb") as file:
            return str(path.relative_to(folder)), hashlib.file_digest(file, "sha256").hexdigest()

    with ThreadPoolExecutor() as threads:  # hashing releases the interpreter's lock
        return dict(threads.map(digest, files))


@contextmanager
def only_data() -> Iterator[None]:
    """Make every `torch.load` accept only data, even if a library passes `weights_only=False`.

    Unpickling objects other than tensors and plain values can execute any code. The environment
    variable TORCH_FORCE_WEIGHTS_ONLY_LOAD takes precedence over the argument `weights_only`.
    """
    before = os.environ.get(_ONLY_DATA)
    os.environ[_ONLY_DATA] = "1"
    try:
        yield
    finally:
        os.environ.pop(_ONLY_DATA)
        if before is not None:
            os.environ[_ONLY_DATA] = before


def best(folder: Path) -> Path | None:
    """Return the checkpoint marked by `mark_best`, if it exists."""
    mark = folder / _BEST
    marked = mark.read_text(errors="replace").strip() if mark.is_file() else None
    return next((path for _, path in _saved(folder) if path.name == marked), None)


def mark_best(folder: Path, step: int) -> bool:
    """Mark a step's checkpoint as the best, which `finish` keeps; return False if it is missing.

    A checkpoint that a thread is still writing counts as existing; `finish` will publish it.
    """
    name = f"step-{step:06d}"
    exists = (folder / name).is_dir() or (folder / f"{UNFINISHED}{name}").is_dir()
    if exists:
        FolderWriter(folder).replace(_BEST, f"{name}\n")
    return exists


def write_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Write or replace a folder; a crash leaves the old folder, the new folder, or no folder.

    Args:
        path: path of the folder.
        write: function that gets the path of an empty folder, and writes the content into it.
    """
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    write(unfinished)
    if path.exists():  # a rename cannot replace a folder that has content
        _remove(path)
    _publish(unfinished, path)


def _remove(folder: Path) -> None:
    # rename the folder first: an interrupted removal must not leave a partial checkpoint or model
    old = folder.with_name(f"{UNFINISHED}old-{folder.name}")
    shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(folder.rename(old))


def _publish(unfinished: Path, final: Path) -> None:
    # sync before the rename, or a power cut could leave the name without the content
    for root, _, files in os.walk(unfinished):
        for path in (*(Path(root, name) for name in files), Path(root)):
            sync(path)
    unfinished.rename(final)
    sync(final.parent)  # also sync the parent folder, which holds the new name


def path_of(folder: Path, step: int) -> Path:
    """Return the path of the checkpoint of a step."""
    return folder / f"step-{step:06d}"


def steps(folder: Path) -> list[int]:
    """Return the steps of all checkpoints, oldest first."""
    return [step for step, _ in _saved(folder)]


def latest(folder: Path) -> tuple[int, Path] | None:
    """Return step and folder of the newest checkpoint; None if there is no checkpoint."""
    return max(_saved(folder), default=None)


def _saved(folder: Path) -> list[tuple[int, Path]]:
    """Return all checkpoints, oldest first."""
    # sort by number: sorted by name, step-1000000 would precede step-999999
    matches = [(_STEP.fullmatch(path.name), path) for path in folder.glob("step-*")]
    return sorted((int(match[1]), path) for match, path in matches if match and path.is_dir())
