"""Convert the content of a file to Markdown; `sandbox` calls `convert` in a child process."""

import codecs
from typing import Any

from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.markup import EMBEDDED, Block, front_matter, read_markdown
from resume_gym.corpus.outline import CHECK, write_markdown
from resume_gym.corpus.pdf import pdf_rows
from resume_gym.corpus.plain_text import is_markdown, text_rows
from resume_gym.corpus.recognition import clean
from resume_gym.corpus.word import word_rows
from resume_gym.episode.document import unix_lines
from resume_gym.episode.tools import text_fault
from resume_gym.text.languages import is_english

MOST_CHARACTERS = 200_000
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Byte order marks of UTF-16; a file in UTF-16 must begin with one of them."""

_FOREIGN = "not in English: not fit for the rubric judge; a resume is diagnosed by its length alone"


def convert(kind: str, data: bytes, outline: bool) -> dict[str, Any]:
    """Convert the content of a file to Markdown.

    Args:
        kind: format, one of the values of `documents.FORMATS`.
        data: content of the file.
        outline: whether to convert plain text to a Markdown resume instead of keeping its lines.

    Returns:
        The fields text, notes and blocks of a `documents.ReadFile`.

    Raises:
        DocumentError: the data is empty, too long, damaged or not in the format `kind`.
        ModuleNotFoundError: a package for the format is missing; the message names the pip extra.
    """
    blocks: list[Block] = []
    if kind in ("Word", "PDF"):
        rows, notes = word_rows(data) if kind == "Word" else pdf_rows(data)
        markdown = write_markdown(rows)
    else:
        text = decode(data)
        text = EMBEDDED.sub("data:", text) if kind == "Markdown" else text
        _check_length(text)
        if kind == "Markdown" or (outline and is_markdown(text)):
            blocks, notes = read_markdown(clean(text))
        elif outline:
            lines = clean(text).split("\n")
            front, keys = front_matter(lines)
            notes = [f"front matter left out: {', '.join(keys)}"] if front else []
            markdown = write_markdown(text_rows("\n".join(lines[front:])))
        else:
            blocks, notes = [([line], 1) for line in clean(text).split("\n")], []
    if blocks:
        _drop_margin(blocks)
        markdown = "\n".join(line for lines, _ in blocks for line in lines) + "\n"
    if not markdown.strip():
        raise DocumentError("there is no text in it")
    _check_length(markdown)
    if fault := text_fault(markdown):
        raise DocumentError(f"it contains {fault}")
    if not is_english(markdown):
        notes.append(_FOREIGN)
    if not blocks:
        notes.append(CHECK)
    return {
        "text": markdown,
        "notes": notes,
        "blocks": [(len(lines), size) for lines, size in blocks],
    }


def _drop_margin(blocks: list[Block]) -> None:
    """Remove the blank lines at both ends of a document, but keep the counts of source lines."""
    for order in (range(len(blocks)), reversed(range(len(blocks)))):
        for number in order:
            lines, size = blocks[number]
            if any(map(str.strip, lines)):
                break
            blocks[number] = ([], size)


def _check_length(text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise DocumentError(f"expected at most {MOST_CHARACTERS:,} characters, got {len(text):,}")


def decode(data: bytes) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark, and convert line ends to line feeds.

    Raises:
        DocumentError: the data is not valid UTF-8 or UTF-16; the message locates the first error.
    """
    encoding = "utf-16" if data.startswith(UTF16) else "utf-8-sig"
    try:
        return unix_lines(data.decode(encoding))
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        byte = f"byte 0x{data[problem.start]:02x} in line {line}"
        name = encoding.removesuffix("-sig").upper()
        raise DocumentError(f"it is not in {name} ({byte}); save it as UTF-8") from None
