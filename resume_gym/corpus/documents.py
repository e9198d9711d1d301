"""Read files with resumes, jobs or other documents, and convert them to Markdown.

`read_document` checks the file and reads it in a child process with resource limits (`sandbox`),
where the module `readers` selects the reader. The content of a file must match the file's
extension.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.readers import MOST_CHARACTERS, UTF16
from resume_gym.corpus.sandbox import read_apart

FORMATS = {
    ".md": "Markdown",
    ".markdown": "Markdown",
    ".txt": "plain text",
    ".text": "plain text",
    ".docx": "Word",
    ".pdf": "PDF",
}
"""File formats by file extension."""

MOST_BYTES = 20_000_000
_ADDRESS = re.compile(r"[a-z]{2,}:/", re.IGNORECASE)  # a `Path` has no "//"
_EXPECTED = "expected Markdown (.md), plain text (.txt), PDF (.pdf) or Word (.docx)"

_OLD_WORD = b"\xd0\xcf\x11\xe0"  # magic number of OLE files: .doc and encrypted .docx
_LOCKED = "EncryptedPackage".encode("utf-16-le")  # OLE stream of an encrypted .docx


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that was read and converted to Markdown.

    Attributes:
        text: Markdown with a final newline.
        kind: file format, one of the values of `FORMATS`.
        notes: warnings about omitted, changed or uncertain content.
        blocks: pairs (lines in `text`, lines in the file), one for each successive part. Only for
            Markdown, and for plain text whose lines were kept; otherwise empty.
        raw: bytes of the file.
    """

    text: str
    kind: str
    notes: tuple[str, ...] = ()
    blocks: tuple[tuple[int, int], ...] = ()
    raw: bytes = b""


def read_document(path: Path, *, outline: bool = True) -> ReadFile:
    """Read a document as Markdown, in a child process with resource limits.

    Args:
        path: the file; its extension determines the format.
        outline: whether to convert plain text to a Markdown resume instead of keeping its lines.

    Raises:
        DocumentError: the file is missing, empty, too large, password-protected, scanned, not a
            regular file, or not in the format of its extension; or reading it exceeds a limit; or
            `path` is an address.
        ModuleNotFoundError: a package for the format is missing; the message names the pip extra.
    """
    if _ADDRESS.match(str(path)):
        raise DocumentError("expected a file, got an address; save the page as text (.txt)")
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        hint = "; save it as .docx" if path.suffix.lower() in (".doc", ".odt", ".rtf") else ""
        raise DocumentError(f"{_EXPECTED}; got {path.suffix or 'no extension'}{hint}")
    binary = kind in ("Word", "PDF")
    data = _bytes(path, MOST_BYTES if binary else 4 * MOST_CHARACTERS)
    if (content := _detect(data)) != (kind if binary else "text"):
        raise DocumentError(f"its extension says {kind}, but its content is {content}")
    found = read_apart(kind, data, outline)
    blocks = tuple(map(tuple, found["blocks"]))
    return ReadFile(found["text"], kind, tuple(found["notes"]), blocks, data)


def _bytes(path: Path, most: int) -> bytes:
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise DocumentError("expected a regular file, got a device, pipe or socket")
            if status.st_size > most:
                raise DocumentError(f"expected at most {most:,} bytes, got {status.st_size:,}")
            data = file.read(most + 1)
    except OSError as problem:
        if path.is_dir():
            raise DocumentError("it is a folder; pass the files in it") from None
        raise DocumentError(problem.strerror or type(problem).__name__) from None
    if len(data) > most:
        raise DocumentError(f"expected at most {most:,} bytes, got more")
    if not data.strip():
        raise DocumentError("it is empty")
    return data


def _detect(data: bytes) -> str:
    """Return the format of a file, judged by its content; reject .doc and encrypted Word files."""
    if data.startswith(_OLD_WORD):
        if _LOCKED in data:
            raise DocumentError("it is protected by a password; save it without one")
        raise DocumentError("it is a Word file of the old format (.doc); save it as .docx")
    # PDF readers accept the header anywhere in the first 1024 bytes.
    if b"%PDF-" in data[:1024]:
        return "PDF"
    if data.startswith(b"PK\x03\x04"):
        # A Word file is a ZIP archive with a folder word/; ZIP stores file names uncompressed.
        return "Word" if b"word/" in data else "a ZIP archive"
    if data.startswith(b"{\\rtf"):
        return "RTF"
    if b"\x00" in data and not data.startswith(UTF16):
        return "binary"
    return "text"
