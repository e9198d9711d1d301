"""Documents that are refused, and the limits of the process that reads them."""

import os
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import docx
import pytest
from document_files import column, pdf, put, saved, word_file, word_with

from resume_gym.corpus import sandbox
from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.documents import read_document
from resume_gym.corpus.readers import convert
from resume_gym.corpus.sandbox import Limits, read_apart
from resume_gym.support.user_errors import install

PAGE = column(72, 720, ["# Ada Moreno", "Lisbon"])


def objects(*bodies: bytes, to_unicode: bytes = b"") -> bytes:
    """A PDF of one page: its content, and forms of which each is drawn by the one before."""
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 5 0 R>>"
    streams = [to_unicode, *bodies]
    parts = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>"]
    parts.append(b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 6 0 R/Resources<<")
    parts[-1] += b"/Font<</F 4 0 R>>/XObject<</X 7 0 R>>>>>>"
    parts.append(font)
    for number, body in enumerate(streams, start=5):
        form = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</Font<</F 4 0 R>>/XObject<</X "
        form += b"%d 0 R>>>>/Length %d" % (number + 1, len(body))
        filtered = b"/Filter/FlateDecode" * body.startswith(b"x")
        parts.append(b"<<%s%s>>stream\n%s\nendstream" % (form, filtered, body))
    file, places = b"%PDF-1.7\n", []
    for number, part in enumerate(parts, start=1):
        places.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(parts) + 1, table)
    end += b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return file + end % (len(parts) + 1, len(file))


RANGE = b"begincmap 1 beginbfrange <00000000> <7fffffff> <0041> endbfrange endcmap"
LINE = b"BT /F 10 Tf (hi) Tj ET"


@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (objects(*[b"/X Do " * 10] * 9, LINE), "1 s of CPU time"),
        (objects(LINE, to_unicode=RANGE), "1 s of CPU time|800 MB of memory"),
        (objects(zlib.compress(bytes(900_000_000), 9)), "1 s of CPU time|800 MB of memory"),
    ],
)
def test_a_pdf_that_needs_too_much_is_refused_by_its_limit(data: bytes, limit: str) -> None:
    room = Limits(memory_mb=800, cpu_s=1)
    with pytest.raises(DocumentError, match=f"reading it exceeds (?:{limit})"):
        read_apart("PDF", data, True, room)


LOCKED_WORD = b"\xd0\xcf\x11\xe0" + bytes(20) + "EncryptedPackage".encode("utf-16-le")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"", "it is empty"),
        ("a.md", b" \n\t\n", "it is empty"),
        ("a.txt", b"Ada\nCaf\xe9\n", r"not in UTF-8 \(byte 0xe9 in line 2\); save it as UTF-8"),
        ("a.md", b"Ada\x00Moreno", "its extension says Markdown, but its content is binary"),
        ("a.txt", b"%PDF-1.7\n", "its extension says plain text, but its content is PDF"),
        ("a.pdf", b"# Ada", "its extension says PDF, but its content is text"),
        ("a.docx", b"{\\rtf1 Ada}", "its extension says Word, but its content is RTF"),
        ("a.docx", b"PK\x03\x04 nothing of the kind", "its content is a ZIP archive"),
        ("a.docx", b"PK\x03\x04 word/document.xml", "it is damaged"),
        ("a.docx", b"\xd0\xcf\x11\xe0 old", r"old format \(.doc\); save it as .docx"),
        ("a.docx", LOCKED_WORD, "protected by a password"),
        ("a.docx", (b">Lisbon<", b">" + b"a" * 9_000_000 + b"<"), "bytes of XML"),
        ("a.docx", (b"<w:body", b'<w:body x="' + b"a" * 9_000_000 + b'"'), "of XML, got 9,"),
        ("a.docx", (b"<w:document", b'<!DOCTYPE x [<!ENTITY e "h">]><w:document'), "a DOCTYPE"),
        ("a.doc", b"Ada", "expected Markdown .*; got .doc; save it as .docx"),
        (
            "a.json",
            b"{}",
            r"expected Markdown \(.md\), plain text .*, PDF .* or Word .*; got .json",
        ),
        ("ada", b"Ada", "got no extension"),
        ("a.pdf", b"a" * 20_000_001, "expected at most 20,000,000 bytes, got 20,000,001"),
        ("a.txt", b"a b\n" * 250_000, "expected at most 800,000 bytes, got 1,000,000"),
        ("a.txt", b"a b\n" * 60_000, "expected at most 200,000 characters"),
        ("a.pdf", b"%PDF-1.7\nbroken", "it is damaged"),
        ("a.pdf", lambda: pdf([]), "there is no text in it; run OCR first"),
        ("a.pdf", lambda: pdf(PAGE, encrypt="secret"), "protected by a password"),
        ("a.pdf", lambda: pdf(*[PAGE] * 51), "expected at most 50 pages, got 51"),
        ("a.docx", lambda: saved(docx.Document()), "there is no text in it"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: Any, says: str) -> None:
    made = word_with(*content) if isinstance(content, tuple) else content
    data = made() if callable(made) else made
    with pytest.raises(DocumentError, match=says):
        read_document(put(tmp_path, name, data))


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="No such file"):
        read_document(tmp_path / "a.md")
    for address in ("https://example.org/job", "HTTP://example.org/a.md", "file:///tmp/a.pdf"):
        with pytest.raises(DocumentError, match="got an address; save the page as text"):
            read_document(Path(address))
    (tmp_path / "b.md").mkdir()
    with pytest.raises(DocumentError, match="it is a folder; pass the files in it"):
        read_document(tmp_path / "b.md")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "zero.md").symlink_to("/dev/zero")
    for name in ("pipe.md", "zero.md"):
        with pytest.raises(DocumentError, match="expected a regular file, got a device, pipe"):
            read_document(tmp_path / name)


def test_reading_goes_on_after_a_reader_that_ended(tmp_path: Path) -> None:
    file = put(tmp_path, "a.md", "# Ada\n")
    assert read_document(file).text == "# Ada\n"
    assert sandbox._server
    sandbox._server[1].kill()
    with suppress(DocumentError):  # it may not have ended yet
        read_document(file)
    assert read_document(file).text == "# Ada\n"


@pytest.mark.parametrize(("kind", "package"), [("Word", "mammoth"), ("PDF", "pdfplumber")])
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, kind: str, package: str
) -> None:
    data = word_file() if kind == "Word" else pdf(PAGE)
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(install("data"))):
        convert(kind, data, True)
