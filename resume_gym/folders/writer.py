"""Writer of the files of a folder; nothing is written through links or into pipes and devices.

A process that is killed, or that meets a full disk, leaves whole lines and whole files. Only a kill
in the middle of a write can leave an incomplete last line, which readers recognise.
"""

import fcntl
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from resume_gym.folders.reader import INCOMPLETE, FolderReader
from resume_gym.support.atomic_write import replacing, sync
from resume_gym.support.json_lines import seal
from resume_gym.support.user_errors import TaskError


class FolderWriter:
    """Writer of the files of a folder.

    Args:
        path: folder to write to; it must exist when a file is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def lock(self, name: str, signed: bool = True) -> Iterator[None]:
        """Lock a file of the folder during the block; a crash releases the lock, too.

        Args:
            name: name of the file.
            signed: whether the file holds nothing but the name of the process that locked it.

        Raises:
            TaskError: Another process holds the lock, or the file is not regular.
        """
        with os.fdopen(open_to_append(self.path / name), "a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = (file.read(200).strip() if signed else "") or "another process"
                raise TaskError(
                    f"{self.path}: {holder} writes to this folder; wait until the process ends, or "
                    "choose another folder"
                ) from None
            if signed:
                file.truncate(0)
                file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
                file.flush()
            yield

    def append(self, name: str, text: str, synced: bool = False) -> None:
        """Append a text to a file, whole or, if the disk is full, not at all.

        Args:
            name: name of the file.
            text: text to append, which ends with a line feed.
            synced: whether to wait until the text would survive a power cut.

        Raises:
            OSError: The text could not be written, such as on a full disk.
            TaskError: The file is not regular.
        """
        path, rest = self.path / name, text.encode("utf-8", "replace")
        file = open_to_append(path)
        end = os.fstat(file).st_size
        try:
            while rest:  # a call may write only a part
                rest = rest[os.write(file, rest) :]
        except OSError as error:
            os.ftruncate(file, end)  # the next line must not follow a part of this one
            raise OSError(error.errno, error.strerror, str(path)) from None
        finally:
            os.close(file)
        if synced:
            sync(path)
            sync(self.path)

    def append_row(self, name: str, row: Mapping[str, object], synced: bool = False) -> None:
        """Append a row with its checksum to a JSON Lines file; see `append`."""
        self.append(name, f"{seal(row)}\n", synced)

    def replace(self, name: str, text: str) -> None:
        """Write a file atomically: it has its previous or its complete new content."""
        with replacing(self.path / name) as unfinished:
            unfinished.write_text(text, encoding="utf-8")

    def replace_rows(self, name: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Write a JSON Lines file of rows with their checksums; see `replace`."""
        self.replace(name, "".join(f"{seal(row)}\n" for row in rows))

    def mend(self, name: str) -> None:
        """Remove an incomplete last line, which a killed process has left."""
        for line in FolderReader(self.path).lines(name):
            if line.problem == INCOMPLETE:
                os.truncate(self.path / name, line.start)


def open_to_append(path: Path) -> int:
    """Open a file for reading and appending, create it if missing, and return its descriptor.

    Raises:
        TaskError: The path is not a regular file, or is a link, which may lead out of the folder.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    # checked before opening, since a device may react to being opened
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise TaskError(f"{path}: expected a regular file, got something else; remove it")
    return os.open(path, flags, 0o666)
