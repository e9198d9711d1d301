"""Write a revision into a copy of the Word file that the resume was read from.

Each line of the Markdown is matched to the paragraph with the same letters and digits. Only the
paragraphs of changed lines are edited. A reworded paragraph keeps its style and the format of its
unchanged words. A new paragraph copies the format of the nearest paragraph of the same kind (such
as heading or bullet). Tables, pictures, headers and margins of the file are kept.
"""

import io
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from difflib import SequenceMatcher
from typing import Any

from resume_gym.apps.revise.diffs import changed_spans
from resume_gym.apps.revise.word_xml import (
    W,
    add_run,
    clear,
    loosen,
    paragraphs_of,
    remove,
    splice,
    text_of,
    texts_of,
)
from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.outline import clean, split_bullet, write_markdown
from resume_gym.corpus.word import word_rows
from resume_gym.support.user_errors import missing

_MOST_UNPACKED = 200_000_000  # bytes, after decompression
_STYLES = {"# ": "Title", "## ": "Heading 1", "### ": "Heading 2", "- ": "List Bullet"}
_KIND = re.compile(r"(#{1,6} |\s*(?:[-*+]|\d{1,2}[.)]) +)")
_MARKUP = re.compile(
    r"\*\*(?P<bold>\S|\S.*?\S)\*\*|(?<![\w*])\*(?P<italic>[^\s*]|[^\s*][^*]*?[^\s*])\*(?![\w*])"
    r"|\[(?P<link>[^\]]+)\]\((?P<address>[^)\s]+)\)"
)


def open_word(data: bytes) -> Any:
    """Open a Word file for writing.

    Raises:
        DocumentError: python-docx cannot read the file.
        ModuleNotFoundError: python-docx is not installed.
    """
    try:
        import docx
    except ImportError:
        raise missing("writing Word files needs", "python-docx", "data") from None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:  # check the unpacked size first
            size = sum(part.file_size for part in archive.infolist())
        if size > _MOST_UNPACKED:
            raise ValueError(f"expected at most {_MOST_UNPACKED:,} bytes unpacked, got {size:,}")
        return docx.Document(io.BytesIO(data))
    except Exception as problem:  # python-docx may raise anything
        why = f"{type(problem).__name__}: {problem}"[:200]
        raise DocumentError(f"its revision cannot be written as a Word file ({why})") from problem


def revise_word(data: bytes, old: str, new: str) -> tuple[bytes, list[str]]:
    """Apply changes of the Markdown to a Word file; return the new file and notes on lost text.

    Args:
        data: content of the Word file.
        old: Markdown that `read_document` made from this file.
        new: revised Markdown.

    Raises:
        DocumentError, ModuleNotFoundError: see `open_word`.
    """
    document = open_word(data)
    writer = _Writer(document, _lines(old))
    writer.write(_lines(new))
    file = io.BytesIO()
    document.save(file)
    rows, _ = word_rows(file.getvalue())
    wanted, written = (Counter(map(_key, _lines(text))) for text in (new, write_markdown(rows)))
    lines = (wanted - written).total()
    notes = {
        "paragraphs rewritten without their tabs or cells": writer.anew,
        "lines that differ between the revision and the Word file": lines,
    }
    return file.getvalue(), [
        f"{note}: {count}; check the file" for note, count in notes.items() if count
    ]


class _Writer:
    """Writer that maps lines of the Markdown to paragraphs of the document.

    Attributes:
        anew: number of paragraphs that were replaced because they did not match exactly one line.
    """

    def __init__(self, document: Any, lines: Sequence[str]) -> None:
        self._document, self._lines = document, lines
        self._styles = {style.name: style.style_id for style in document.styles}
        paragraphs = list(paragraphs_of(document))
        keys, theirs = [*map(_key, lines)], [_key(text_of(one)) for one in paragraphs]
        # (start, stop, paragraphs): original lines [start, stop) and the paragraphs that hold them
        self._units: list[tuple[int, int, list[Any]]] = []
        for kind, i, stop, j, end in SequenceMatcher(None, keys, theirs, False).get_opcodes():
            if kind == "equal":
                pairs = zip(range(i, stop), paragraphs[j:end], strict=True)
                self._units += [(n, n + 1, [paragraph]) for n, paragraph in pairs]
            elif i < stop:
                self._units.append((i, stop, paragraphs[j:end]))
        self.anew = 0
        # copies of the original paragraphs; `write` uses the copies as models for new paragraphs
        self._models = {
            start: deepcopy(own[0])
            for start, stop, own in self._units
            if len(own) == stop - start == 1
        }

    def write(self, lines: Sequence[str]) -> None:
        """Change the document so that its paragraphs hold the given lines of Markdown."""
        now = _owned(self._lines, lines)
        last = None
        for start, stop, paragraphs in self._units:
            own = list(self._lines[start:stop])
            wanted = [line for number in range(start, stop) for line in now[number]]
            kept = self._kept(start, wanted)
            gone: list[Any] = []
            if wanted[: len(own)] == own:
                last, wanted = (paragraphs or [last])[-1], wanted[len(own) :]
            elif kept >= 0:
                last = paragraphs[0]
                for line in wanted[:kept]:
                    last.addprevious(self._paragraph(line, start))
                if wanted[kept] != own[0]:
                    self._reword(last, own[0], wanted[kept])
                wanted = wanted[kept + 1 :]
            else:
                last, gone = (paragraphs or [last])[-1], paragraphs
            for line in wanted:
                last = self._after(last, self._paragraph(line, start))
            for paragraph in gone:
                last = paragraph.getprevious() if last is paragraph else last
                remove(paragraph)
            self.anew += len(gone) * (start not in self._models)

    def _kept(self, start: int, wanted: Sequence[str]) -> int:
        """Return the index in `wanted` of the line that reuses line `start`'s paragraph, or -1."""
        line = self._lines[start]
        alike = [n for n, one in enumerate(wanted) if _kind(one) == _kind(line)]
        same = [n for n in alike if wanted[n] == line]
        return (same or alike or [-1])[0] if start in self._models else -1

    def _after(self, last: Any, paragraph: object) -> Any:
        """Insert `paragraph` after `last`, or at the body's start or end if `last` is outside."""
        body = self._document.element.body
        root = body.getparent() if last is None else last.getroottree().getroot()
        if last is not None and root is body.getparent():
            last.addnext(paragraph)
        else:
            # the last element of the body holds the section properties
            body.insert(len(body) - 1 if root.tag == f"{W}ftr" else 0, paragraph)
        return paragraph

    def _paragraph(self, line: str, place: int) -> Any:
        """Make a paragraph for `line`: copy that of an equal line or the nearest of its kind."""
        if line in self._lines and (model := self._models.get(self._lines.index(line))) is not None:
            return loosen(deepcopy(model))
        near = [n for n in self._models if _kind(self._lines[n]) == _kind(line)]
        if near:
            paragraph = loosen(deepcopy(self._models[min(near, key=lambda n: abs(n - place))]))
        else:
            paragraph = self._document.element.body.makeelement(f"{W}p")
            self._style(paragraph, _kind(line).lstrip())
        self._fill(paragraph, _body(line))
        return paragraph

    def _style(self, paragraph: Any, kind: str) -> None:
        if style := self._styles.get(_STYLES.get(kind, "")):
            paragraph.get_or_add_pPr().get_or_add_pStyle().set(f"{W}val", style)
        elif kind == "- ":
            add_run(paragraph, "• ", None)

    def _reword(self, paragraph: object, old: str, new: str) -> None:
        """Replace the changed words of a paragraph; unchanged words keep their runs and format."""
        before, after = _body(old), _body(new)
        texts = texts_of(paragraph)
        start = "".join(text.text or "" for text in texts).find(_plain(before))
        if start < 0 or _addresses(before) != _addresses(after):
            self._fill(paragraph, after)
            return
        words, others = (re.findall(r"\s+|\S+", _plain(body)) for body in (before, after))
        codes = SequenceMatcher(None, words, others, autojunk=False).get_opcodes()
        for kind, i, stop, j, end in reversed(codes):  # backwards, so that positions stay valid
            if kind != "equal":
                first = start + len("".join(words[:i]))
                gone = len("".join(words[i:stop]))
                splice(texts, first, first + gone, "".join(others[j:end]))

    def _fill(self, paragraph: object, body: str) -> None:
        """Replace a paragraph's text; use the format of its longest run and apply inline markup."""
        texts = texts_of(paragraph)
        main = max(reversed(texts), key=lambda text: len(text.text or ""), default=None)
        style = None if main is None else main.getparent().find(f"{W}rPr")
        whole = text_of(paragraph)
        marker = whole[: len(whole) - len(split_bullet(whole)[1])]
        clear(paragraph)
        at = 0
        if marker:
            add_run(paragraph, marker, style)
        for match in _MARKUP.finditer(body):
            add_run(paragraph, body[at : match.start()], style)
            at = match.end()
            if match["link"]:
                self._link(paragraph, match["link"], match["address"], style)
            else:
                mark = "b" if match["bold"] else "i"
                add_run(paragraph, match["bold"] or match["italic"], style, mark)
        add_run(paragraph, body[at:], style)

    def _link(self, paragraph: Any, text: str, address: str, style: object) -> None:
        from docx.opc.constants import RELATIONSHIP_TYPE

        part = self._document.part
        target = address if ":" in address else f"mailto:{address}" if "@" in address else address
        link = paragraph.makeelement(f"{W}hyperlink")
        name = part.relate_to(target, RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
        link.set("{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id", name)
        add_run(link, text, style)
        if look := self._styles.get("Hyperlink"):
            link[0].get_or_add_rPr().style = look
        paragraph.append(link)


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _kind(line: str) -> str:
    """Return the Markdown marker of a line, with "- " for any list item; empty for plain text."""
    marker = match[0] if (match := _KIND.match(line)) else ""
    return marker if marker[:1] in ("#", "") else " " * (len(marker) - len(marker.lstrip())) + "- "


def _body(line: str) -> str:
    return _KIND.sub("", line, count=1).strip()


def _plain(body: str) -> str:
    """Return a text without its inline markup."""
    return _MARKUP.sub(lambda match: match["bold"] or match["italic"] or match["link"], body)


def _addresses(body: str) -> list[str]:
    """Return the bold and italic passages and the link addresses of a text."""
    return [match["address"] or match[0] for match in _MARKUP.finditer(body)]


def _key(line: str) -> str:
    """Return the letters and digits of a line or paragraph, or the whole line if it has none."""
    body = split_bullet(_plain(clean(_body(line))))[1]
    return re.sub(r"[\W_]+", "", body).casefold() or line.strip()


def _owned(old: Sequence[str], new: Sequence[str]) -> list[list[str]]:
    """Return, for each old line, the new lines that replace it or are inserted after it."""
    now = [[line] for line in old]
    first: list[str] = []
    for i, stop, j, end in changed_spans(old, new):
        for number in range(i, stop):
            now[number] = []
        (now[stop - 1] if stop else first).extend(new[j:end])
    now[0][:0] = first
    return now
