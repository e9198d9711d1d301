"""Resumes, jobs and other documents from files, as Markdown.

Word, PDF and JSON Resume have readers of their own; here is what they share: which reader a file
needs, and what is wrong with it. A file's content must be what its extension says.
"""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from resume_gym.corpus.outline import write_markdown
from resume_gym.corpus.plain_text import text_rows
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
_OLD_WORD = b"\xd0\xcf\x11\xe0"
_LOCKED = "EncryptedPackage".encode("utf-16-le")


class DocumentError(Exception):
    """A file is not a document that can be read; the message says why, and names no file."""


@dataclass(frozen=True, slots=True)
class Document:
    """What was read of a file.

    Attributes:
        text: Markdown, with a final newline.
        kind: its format, one of the values of `FORMATS`.
        notes: what was left out or could not be read with certainty.
        contacts: mails, phones and links that the format marks as such: (field, value).
    """

    text: str
    kind: str
    notes: tuple[str, ...] = ()
    contacts: tuple[tuple[str, str], ...] = ()


def read_document(path: Path, *, outline: bool = True) -> Document:
    """Read a file.

    Args:
        path: its extension says the format.
        outline: whether plain text becomes a resume in Markdown; else it stays as it is.

    Raises:
        DocumentError: it is missing, empty, too large, protected, scanned, or no file of the
            format that its extension says.
        ModuleNotFoundError: the package for its format is missing; names the extra.
    """
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        known = ", ".join(FORMATS)
        hint = "; save it as .docx" if path.suffix.lower() in (".doc", ".odt", ".rtf") else ""
        raise DocumentError(f"expected {known}; got {path.suffix or 'no extension'}{hint}")
    data = _bytes(path)
    _check_kind(kind, data)
    try:
        text, notes = _readers(outline)[kind](data)
        contacts = _contacts(data) if kind == "JSON Resume" else ()
    except (DocumentError, ModuleNotFoundError):
        raise
    except Exception as problem:  # parsers of files from anywhere meet what nobody foresaw
        why = f"{type(problem).__name__}: {problem}"[:200]
        raise DocumentError(f"its {kind} cannot be read ({why})") from problem
    if not text.strip():
        raise DocumentError("there is no text in it")
    if len(text) > MOST_CHARACTERS:
        raise DocumentError(f"expected at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
    if fault := text_fault(text):
        raise DocumentError(f"it holds {fault}")
    return Document(text, kind, tuple(notes), contacts)


def _readers(outline: bool) -> dict[str, Callable[[bytes], tuple[str, list[str]]]]:
    from resume_gym.corpus.json_resume import json_markdown
    from resume_gym.corpus.pdf import pdf_rows
    from resume_gym.corpus.word import word_rows

    def plain(data: bytes) -> tuple[str, list[str]]:
        text = decode(data)
        ready = not outline or _MARKDOWN.search(text)
        return (_as_is(text) if ready else write_markdown(text_rows(text))), []

    def word(data: bytes) -> tuple[str, list[str]]:
        rows, notes = word_rows(data)
        return write_markdown(rows), notes

    def pdf(data: bytes) -> tuple[str, list[str]]:
        rows, notes = pdf_rows(data)
        return write_markdown(rows), notes

    return {
        "Markdown": lambda data: (_as_is(decode(data)), []),
        "plain text": plain,
        "JSON Resume": lambda data: json_markdown(decode(data)),
        "Word": word,
        "PDF": pdf,
    }


def _contacts(data: bytes) -> tuple[tuple[str, str], ...]:
    from resume_gym.corpus.json_resume import contacts

    return contacts(decode(data))


def _as_is(text: str) -> str:
    return text.strip("\n") + "\n"


def _bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise DocumentError("it is a folder; name the files in it")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise DocumentError(f"expected at most {MOST_BYTES:,} bytes, got {size:,}")
        data = path.read_bytes()
    except OSError as problem:
        raise DocumentError(problem.strerror or type(problem).__name__) from None
    if not data.strip():
        raise DocumentError("it is empty")
    return data


def _check_kind(kind: str, data: bytes) -> None:
    if data.startswith(_OLD_WORD):
        if _LOCKED in data:
            _refuse("it is protected by a password; save it without one")
        _refuse("it is a Word file of the old format (.doc); save it as .docx")
    found = _found(data)
    wanted = {"Word": "Word", "PDF": "PDF"}.get(kind, "text")
    if found != wanted:
        _refuse(f"its extension says {kind}, its content is {found}")


def _found(data: bytes) -> str:
    """What a file's first bytes say that it is."""
    if b"%PDF-" in data[:1024]:
        return "PDF"
    if data.startswith(b"PK\x03\x04"):
        return "Word" if b"word/" in data else "a ZIP archive"
    if data.startswith(b"{\\rtf"):
        return "RTF"
    if b"\x00" in data and not data.startswith(_MARKS):
        return "binary"
    return "text"


def _refuse(why: str) -> NoReturn:
    raise DocumentError(why)


def decode(data: bytes) -> str:
    """The text of bytes in UTF-8, or in UTF-16 with a byte order mark; line ends become line feeds.

    Raises:
        DocumentError: they are in another encoding; says where that shows.
    """
    encoding = "utf-16" if data.startswith(_MARKS) else "utf-8-sig"
    try:
        return unix_lines(data.decode(encoding))
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        byte = f"byte 0x{data[problem.start]:02x} in line {line}"
        name = encoding.removesuffix("-sig").upper()
        raise DocumentError(f"it is not in {name} ({byte}); save it as UTF-8") from None
