"""Atomic file replacement: a file holds either its previous or its complete new content."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resume_gym.support.user_errors import TaskError

UNFINISHED = ".unfinished-"
"""Prefix of the names of temporary files."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, which replaces `path` when the `with` block ends.

    Args:
        path: file to replace. If the block raises an exception, `path` keeps its previous content
            and the temporary file is deleted.
    """
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    unfinished.unlink(missing_ok=True)  # a link at this path would redirect the writes
    try:
        yield unfinished
        sync(unfinished)
        unfinished.replace(path)
        sync(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to disk, so that they survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def through_links(path: Path) -> Path:
    """Return the file that a link leads to, which may not exist; any other path is unchanged.

    Write an output file that the user named to this path, since `replacing` replaces the link.
    """
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def check_new_file(option: str, path: Path | None) -> None:
    """Check that `path` can be an output file; call this before producing the file's content.

    Raises:
        TaskError: The folder of the file does not exist, or the path is a folder, a pipe or a
            device.
    """
    if not path:
        return
    if not (folder := through_links(path).parent).is_dir():
        raise TaskError(f"{option}: there is no folder {str(folder)!r}")
    if path.is_dir():
        raise TaskError(f"{option}: expected a file, but {str(path)!r} is a folder")
    if path.exists() and not path.is_file():
        raise TaskError(f"{option}: expected a file, but {str(path)!r} is a pipe or a device")
