"""A file that is there completely, or is what it was before."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".unfinished-"
"""Begins the name of what is being written."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place to write to; what was written there is in the file's place at the end.

    Args:
        path: of the file. It is left alone, and nothing stays beside it, if writing fails.
    """
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        yield unfinished
        sync(unfinished)
        unfinished.replace(path)
        sync(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, survive a power cut."""
    if os.name == "nt":  # where no folder can be opened, and nothing synced that is only read
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
