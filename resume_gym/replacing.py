"""A file that is there completely, or is what it was before."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place to write to; what was written there is in the file's place at the end.

    Args:
        path: of the file. It is left alone, and nothing stays beside it, if writing fails.
    """
    unfinished = path.with_name(f".unfinished-{path.name}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
