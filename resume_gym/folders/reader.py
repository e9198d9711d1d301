"""Reader of the files of a folder, which a job may still write and a stranger may have made."""

import hashlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from resume_gym.support.json_lines import parse, unseal
from resume_gym.support.trust import FLAG
from resume_gym.support.user_errors import TaskError

MOST_BYTES = 2**26
"""Maximum size in bytes of a line, and of a file that is read whole."""
INCOMPLETE = "it is incomplete"
"""Problem of a last line without a line feed, which a job may still be writing."""


class Line(NamedTuple):
    """A line of a JSON Lines file.

    Attributes:
        number: number of the line, counted from 1.
        start: byte offset of the line.
        length: length of the line in bytes, with its line feed.
        record: JSON object in the line, without its checksum; empty if the line is damaged.
        problem: how the line is damaged; empty for a sound line.
    """

    number: int
    start: int
    length: int
    record: dict[str, Any]
    problem: str


class FolderReader:
    """Reader of the files of a folder.

    Args:
        path: folder to read.
        trusted: whether to follow links out of the folder, which could expose any file.
    """

    def __init__(self, path: Path, trusted: bool = True) -> None:
        self.path = path
        self.trusted = trusted

    def file(self, name: str) -> Path:
        """Return the path of a file in the folder; the file need not exist.

        Raises:
            TaskError: The file is a pipe or a device, whose reading might never end, or a link out
                of a folder that is not trusted.
        """
        file = self.path / name
        if file.exists() and not file.is_file():
            raise TaskError(f"{file}: expected a regular file")
        if not (self.trusted or file.resolve().is_relative_to(self.path.resolve())):
            raise TaskError(f"{file}: expected a file in the folder, got a link; see {FLAG}")
        return file

    def content(self, name: str) -> bytes | None:
        """Return the content of a file; None if the file does not exist.

        Raises:
            TaskError: The file is not regular, or larger than `MOST_BYTES`.
        """
        file = self.file(name)
        if not file.exists():
            return None
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise TaskError(f"{file}: expected at most {MOST_BYTES:,} bytes")
        return content

    def object(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file; an empty dict if the file does not exist.

        Raises:
            TaskError: The file holds no JSON object.
        """
        content = self.content(name)
        try:
            return {} if content is None else parse(content)
        except ValueError as problem:
            raise TaskError(f"{self.path / name}: {problem}") from None

    def lines(self, name: str, sealed: bool = False) -> Iterator[Line]:
        """Yield the lines of a JSON Lines file; none if the file does not exist.

        Args:
            name: name of the file.
            sealed: whether to treat a line without a checksum as damaged. Earlier versions of this
                package wrote no checksums.

        Raises:
            TaskError: The file is not regular, or a line is longer than `MOST_BYTES`.
        """
        return GrowingFile(self.file(name), sealed).read()


class GrowingFile:
    """JSON Lines file that a job appends to; each call of `read` yields the lines added since.

    Args:
        file: path of the file, which need not exist.
        sealed: whether to treat a line without a checksum as damaged. Earlier versions of this
            package wrote no checksums.

    Attributes:
        incomplete: whether the file ended with an incomplete line when it was last read.
    """

    def __init__(self, file: Path, sealed: bool = False) -> None:
        self.file, self._sealed = file, sealed
        self.incomplete = False
        self._number = self._end = 0
        self._digest = hashlib.sha256()
        self._state: tuple[int, ...] = ()

    def is_rewritten(self) -> bool:
        """Return whether the lines that were read are gone or have changed."""
        state = _state(self.file)
        if state == self._state or not self._end:
            return False
        digest, left = hashlib.sha256(), self._end
        if state:
            with self.file.open("rb") as opened:
                while part := opened.read(min(left, 2**20)):
                    digest.update(part)
                    left -= len(part)
        return digest.digest() != self._digest.digest()

    def read(self) -> Iterator[Line]:
        """Yield the lines that were added since the last call.

        An incomplete last line has the problem `INCOMPLETE` and is yielded again by the next call.

        Raises:
            TaskError: A line is longer than `MOST_BYTES`.
        """
        state = _state(self.file)
        if state == self._state:
            return
        self.incomplete = False
        with self.file.open("rb") if state else BytesIO() as opened:
            opened.seek(self._end)
            while content := opened.readline(MOST_BYTES):
                line = Line(self._number + 1, self._end, len(content), {}, INCOMPLETE)
                self.incomplete = not content.endswith(b"\n")
                if self.incomplete and len(content) == MOST_BYTES:
                    raise TaskError(f"{self.file}: expected lines of at most {MOST_BYTES:,} bytes")
                if self.incomplete:
                    yield line
                    break
                self._digest.update(content)
                self._number, self._end = line.number, line.start + line.length
                try:
                    yield line._replace(record=unseal(content, self._sealed), problem="")
                except ValueError as problem:
                    yield line._replace(problem=str(problem))
        self._state = state


def _state(file: Path) -> tuple[int, ...]:
    """Return numbers that change if a file is written; empty if the file does not exist."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
