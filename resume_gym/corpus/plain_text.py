"""Convert lines of plain text or PDF pages to rows: detect bullets, join wrapped lines."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import NamedTuple

from resume_gym.corpus.outline import Hint, OutlineRow
from resume_gym.corpus.recognition import (
    begins_with_symbol,
    bullet_symbols,
    has_date,
    is_contact,
    is_dated,
    is_section,
    looks_like_heading,
    split_bullet,
)

_RULES = [{mark} for mark in "=-_~*#"]
_LABEL = re.compile(r"[A-Z][\w &/-]{1,30}:\s")
_LONGEST = 60  # maximum number of characters in a word
_LONG = 30  # a line below this length was wrapped only if the next line begins in lower case
_LEAST_WIDTH = 60  # minimum width of wrapped plain text, in characters
_HASHES = re.compile(r"#{1,3} (?=\S)")


class PageLine(NamedTuple):
    """A line of a page; lengths are in characters for plain text, in points for PDF files.

    Attributes:
        text: content, with tabs between columns.
        left: position of the line's start.
        right: position of the line's end.
        edge: position of the rightmost line end in the same column.
        letter: mean width of a character.
        gap: whether there is vertical space above the line.
        hint: role of the line, inferred from its font or wording; "" if unknown.
        style: font size, and whether the font is bold.
    """

    text: str
    left: float
    right: float
    edge: float
    letter: float = 1.0
    gap: bool = False
    hint: Hint = ""
    style: tuple[float, bool] = (0.0, False)


def is_markdown(text: str) -> bool:
    """Return whether all section headings of a .txt file (if none: its first line) have a "#"."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    names = [line for line in lines if looks_like_heading(line.lstrip("# ")) and is_section(line)]
    hashes = [bool(_HASHES.match(line)) for line in (*names, *lines[:1])]
    return any(hashes) and all(hashes[:-1])


def text_rows(text: str) -> list[OutlineRow]:
    """Convert plain text to rows.

    A heading is in capitals, is a known section name, or has a line such as `---` below it.
    """
    source = [line.rstrip().expandtabs(4) for line in text.split("\n")]
    edge = max(_LEAST_WIDTH, *map(len, source))
    lines: list[PageLine] = []
    gap = False
    for line, below in pairwise([*source, ""]):
        body = line.strip()
        if not body or _is_rule(body):
            gap = True
            continue
        underlined = _is_rule(below.strip()) and len(body.split()) <= 6
        hint: Hint = "heading" if underlined or looks_like_heading(body) else ""
        columns = re.sub(" {3,}", "\t", body)
        left = len(line) - len(line.lstrip())
        lines.append(PageLine(columns, left, len(line), edge, gap=gap, hint=hint))
        gap = False
    return join_lines(lines)


def _is_rule(line: str) -> bool:
    return len(line) > 2 and set(line) in _RULES


def join_lines(lines: Sequence[PageLine]) -> list[OutlineRow]:
    """Convert lines in reading order to rows, joining wrapped lines."""
    rows: list[OutlineRow] = []
    texts: list[list[str]] = []  # the source lines of each row
    indents: list[float] = []  # left edges of the enclosing bullets, outermost first
    before: PageLine | None = None
    symbols = bullet_symbols(line.text for line in lines)
    # A hyphen at a line end is kept if the same hyphenated word also occurs within a line.
    words = {word.rstrip(",.;:)") for line in lines for word in line.text.split()}
    compounds = {word for word in words if "-" in word}
    for line, below in pairwise([*lines, None]):
        assert line
        marker, text = split_bullet(line.text, symbols)
        if marker:
            outer = [indent for indent in indents if indent < line.left - line.letter / 2]
            indents = [*outer, line.left]
            rows.append(OutlineRow(text, "bullet", len(outer), line.gap, marker))
            texts.append([text])
        elif before and _continues(rows[-1], before, line, below, indents):
            above = texts[-1]
            above[-1:] = _joined(above[-1], line.text, compounds)
        else:
            rows.append(OutlineRow(line.text, line.hint, gap=line.gap))
            texts.append([line.text])
            indents = []
        before = line
    return [row._replace(text=" ".join(text)) for row, text in zip(rows, texts, strict=True)]


def _continues(
    row: OutlineRow,
    before: PageLine,
    line: PageLine,
    below: PageLine | None,
    indents: Sequence[float],
) -> bool:
    """Return whether `line` continues `row`, whose last line so far is `before`."""
    apart = line.gap or line.style != before.style or begins_with_symbol(line.text)
    if apart or "\t" in line.text:
        return False
    lower = line.text[:1].islower()
    # The line `before` was wrapped if the first word of `line` would not have fitted on it.
    word = line.letter * (len(line.text.split()[0]) + 1)
    full = before.right + word > before.edge and len(before.text) >= _LONG
    doubtful = has_date(line.text) or (line.hint == "heading" and is_section(line.text))
    if row.hint == "bullet":
        if lower or line.left > indents[-1] + line.letter / 2:
            return True
        # Below a full line, the title of the next job looks like the end of the bullet.
        title = below and (has_date(below.text) or below.style != line.style)
        return full and line.left > indents[-1] - line.letter / 2 and not (doubtful or title)
    if row.hint == "name" or "\t" in row.text:
        return line.hint == "name"
    if row.hint == "heading" or (doubtful and line.hint == "heading"):
        return False
    if _LABEL.match(line.text) or is_contact(line.text) or is_dated(line.text):
        return False
    if lower:
        return before.right - before.left > (before.edge - before.left) / 2
    return full and not is_dated(before.text)


def _joined(above: str, below: str, compounds: AbstractSet[str]) -> list[str]:
    """Return [above, below], or one joined line if a hyphen splits a word between the two."""
    left, right = above[-_LONGEST:].rpartition(" ")[2], below[:_LONGEST].partition(" ")[0]
    letters = left[:-1].isalpha() and right[:1].isalpha() and right[:1].islower()
    if not (left.endswith("-") and letters):
        return [above, below]
    word = (left + right).rstrip(",.;:)")
    return [f"{above if word in compounds else above[:-1]}{below}"]
