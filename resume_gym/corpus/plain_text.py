"""Convert lines of plain text or of a PDF page to rows: bullets, wrapped lines, headings."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from resume_gym.corpus.outline import Hint, Row, clean, is_contact, looks_like_heading, split_bullet

_UNDERLINE = re.compile(r"\s*([=\-_~*#])\1{2,}\s*")
_LABEL = re.compile(r"[A-Z][\w &/-]{1,30}:\s")
_LONG = 30  # minimum characters of a line that was wrapped before a capital


class Line(NamedTuple):
    """A line of a page; lengths are in characters for plain text, in points for PDF files.

    Attributes:
        text: content, with tabs between columns.
        left: position of the start.
        right: position of the end.
        edge: position of the end of the longest line in the same column.
        letter: mean width of a character.
        gap: whether there is space above the line.
        hint: role according to the format; "" if unknown.
        style: type size and weight.
    """

    text: str
    left: float
    right: float
    edge: float
    letter: float = 1.0
    gap: bool = False
    hint: Hint = ""
    style: tuple[float, bool] = (0.0, False)


def text_rows(text: str) -> list[Row]:
    """Convert plain text to rows; capitals, known names and underlines mark headings."""
    source = [line.rstrip().expandtabs(4) for line in clean(text).split("\n")]
    edge = max(map(len, source))
    lines: list[Line] = []
    gap = False
    for line, below in pairwise([*source, ""]):
        body = line.strip()
        if not body or _UNDERLINE.fullmatch(line):
            gap = True
            continue
        underlined = _UNDERLINE.fullmatch(below) and len(body.split()) <= 6
        hint: Hint = "heading" if underlined or looks_like_heading(body) else ""
        columns = re.sub(" {3,}", "\t", body)
        left = len(line) - len(line.lstrip())
        lines.append(Line(columns, left, len(line), edge, gap=gap, hint=hint))
        gap = False
    return join_lines(lines)


def join_lines(lines: Sequence[Line]) -> list[Row]:
    """Convert lines in reading order to rows, joining wrapped lines."""
    rows: list[Row] = []
    indents: list[float] = []  # of the enclosing bullets, outermost first
    before: Line | None = None
    for line in lines:
        marker, text = split_bullet(line.text)
        if marker:
            outer = [indent for indent in indents if indent < line.left - line.letter / 2]
            indents = [*outer, line.left]
            rows.append(Row(text, "bullet", len(outer), line.gap, marker))
        elif before and _continues(rows[-1], before, line, indents):
            rows[-1] = rows[-1]._replace(text=_join(rows[-1].text, line.text, lines))
        else:
            rows.append(Row(line.text, line.hint, gap=line.gap))
            indents = []
        before = line
    return rows


def _continues(row: Row, before: Line, line: Line, indents: Sequence[float]) -> bool:
    """Return whether a line continues the row that ends in the line `before`."""
    if line.gap or "\t" in line.text or line.style != before.style:
        return False
    lower = line.text[:1].islower()
    if row.hint == "bullet":
        return lower or line.left > indents[-1] + line.letter / 2
    if row.hint in ("name", "heading") or line.hint == "heading" or "\t" in row.text:
        return False
    if _LABEL.match(line.text) or is_contact(line.text):
        return False
    if lower:
        return before.right - before.left > (before.edge - before.left) / 2
    # A line was wrapped if the next word did not fit.
    word = line.letter * (len(line.text.split()[0]) + 1)
    return before.right + word > before.edge and len(before.text) >= _LONG


def _join(above: str, below: str, lines: Sequence[Line]) -> str:
    """Join two lines of a paragraph, and remove hyphenation at the line end."""
    match = re.search(r"(\w+)-$", above.rpartition(" ")[2])
    word = re.match(r"[a-z]\w*", below)
    if not match or not word:
        return f"{above} {below}"
    # A hyphen that also occurs within a line is part of the word.
    kept = any(f"{match[1]}-{word[0]}" in line.text for line in lines)
    return f"{above if kept else above[:-1]}{below}"
