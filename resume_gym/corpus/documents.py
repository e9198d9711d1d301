"""Read resumes, jobs and other documents from files as Markdown.

`read_document` selects the reader for a file and validates the input and the result. The readers
of Word, PDF, JSON Resume and plain text are separate modules. The content of a file must match its
extension.
"""

import codecs
import re
from dataclasses import dataclass
from pathlib import Path

from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.json_resume import json_markdown
from resume_gym.corpus.outline import write_markdown
from resume_gym.corpus.pdf import pdf_rows
from resume_gym.corpus.plain_text import text_rows
from resume_gym.corpus.word import word_rows
from resume_gym.document import unix_lines
from resume_gym.tools import text_fault

FORMATS = {
    ".md": "Markdown",
    ".markdown": "Markdown",
    ".txt": "plain text",
    ".text": "plain text",
    ".json": "JSON Resume",
    ".docx": "Word",
    ".pdf": "PDF",
}
"""Formats by extension."""

MOST_BYTES = 20_000_000
MOST_CHARACTERS = 200_000

_MARKDOWN = re.compile(r"^#{1,3} \S", re.MULTILINE)
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_OLD_WORD = b"\xd0\xcf\x11\xe0"  # magic number of OLE files: .doc and encrypted .docx
_LOCKED = "EncryptedPackage".encode("utf-16-le")  # OLE stream of an encrypted .docx


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file.

    Attributes:
        text: Markdown with a final newline.
        kind: file format, one of the values of `FORMATS`.
        notes: warnings about content that was omitted or is uncertain.
        contacts: (field, value) of emails, phones and links that the format labels as such.
    """

    text: str
    kind: str
    notes: tuple[str, ...] = ()
    contacts: tuple[tuple[str, str], ...] = ()


def read_document(path: Path, *, outline: bool = True) -> Document:
    """Read a file.

    Args:
        path: the file; its extension determines the format.
        outline: whether to convert plain text to a Markdown resume instead of keeping it as is.

    Raises:
        DocumentError: the file is missing, empty, too large, password-protected, scanned, or not
            in the format of its extension.
        ModuleNotFoundError: the package for the format is missing; the message names the extra.
    """
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        known = ", ".join(FORMATS)
        hint = "; save it as .docx" if path.suffix.lower() in (".doc", ".odt", ".rtf") else ""
        raise DocumentError(f"expected {known}; got {path.suffix or 'no extension'}{hint}")
    data = _bytes(path, MOST_BYTES if kind in ("Word", "PDF") else 4 * MOST_CHARACTERS)
    _check_kind(kind, data)
    try:
        document = _convert(kind, data, outline)
    except (DocumentError, ModuleNotFoundError):
        raise
    except Exception as problem:  # third-party parsers may raise anything
        why = f"{type(problem).__name__}: {problem}"[:200]
        raise DocumentError(f"its {kind} cannot be read ({why})") from problem
    if not document.text.strip():
        raise DocumentError("there is no text in it")
    _check_length(document.text)
    if fault := text_fault(document.text):
        raise DocumentError(f"it holds {fault}")
    return document


def _convert(kind: str, data: bytes, outline: bool) -> Document:
    if kind in ("Word", "PDF"):
        rows, notes = word_rows(data) if kind == "Word" else pdf_rows(data)
        return Document(write_markdown(rows), kind, tuple(notes))
    text = decode(data)
    _check_length(text)
    if kind == "JSON Resume":
        markdown, notes, contacts = json_markdown(text)
        return Document(markdown, kind, tuple(notes), contacts)
    # A .txt file with Markdown headings needs no conversion.
    if kind == "Markdown" or not outline or _MARKDOWN.search(text):
        return Document(text.strip("\n") + "\n", kind)
    return Document(write_markdown(text_rows(text)), kind)


def _check_length(text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise DocumentError(f"expected at most {MOST_CHARACTERS:,} characters, got {len(text):,}")


def _bytes(path: Path, most: int) -> bytes:
    try:
        if path.is_dir():
            raise DocumentError("it is a folder; name the files in it")
        size = path.stat().st_size
        if size > most:
            raise DocumentError(f"expected at most {most:,} bytes, got {size:,}")
        data = path.read_bytes()
    except OSError as problem:
        raise DocumentError(problem.strerror or type(problem).__name__) from None
    if not data.strip():
        raise DocumentError("it is empty")
    return data


def _check_kind(kind: str, data: bytes) -> None:
    if data.startswith(_OLD_WORD):
        if _LOCKED in data:
            raise DocumentError("it is protected by a password; save it without one")
        raise DocumentError("it is a Word file of the old format (.doc); save it as .docx")
    content = _detect(data)
    if content != (kind if kind in ("Word", "PDF") else "text"):
        raise DocumentError(f"its extension says {kind}, its content is {content}")


def _detect(data: bytes) -> str:
    """Detect the format of a file from its content."""
    # PDF readers accept the header anywhere in the first 1024 bytes.
    if b"%PDF-" in data[:1024]:
        return "PDF"
    if data.startswith(b"PK\x03\x04"):
        # ZIP does not compress the names of its members.
        return "Word" if b"word/" in data else "a ZIP archive"
    if data.startswith(b"{\\rtf"):
        return "RTF"
    if b"\x00" in data and not data.startswith(_MARKS):
        return "binary"
    return "text"


def decode(data: bytes) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark, and convert line ends to line feeds.

    Raises:
        DocumentError: the encoding differs; the message locates the first invalid byte.
    """
    encoding = "utf-16" if data.startswith(_MARKS) else "utf-8-sig"
    try:
        return unix_lines(data.decode(encoding))
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        byte = f"byte 0x{data[problem.start]:02x} in line {line}"
        name = encoding.removesuffix("-sig").upper()
        raise DocumentError(f"it is not in {name} ({byte}); save it as UTF-8") from None
