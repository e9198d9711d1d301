"""The document: exact and fuzzy replacement, wrapping, layout, unified diff.

The wrap rule is our own and is the same everywhere: a source line is filled greedily up to
`width` characters and broken at a space, which is dropped with the spaces around it; a word
longer than `width` is cut; a blank line counts one; a final newline opens no further line.
Every character counts one, tabs and wide characters too.
"""

import difflib
import re
from typing import Literal, NamedTuple

Match = Literal["exact", "fuzzy"]


class Document(NamedTuple):
    """A text with its layout, so that an edit only measures the lines it touches.

    Attributes:
        text: the source; lines end in a line feed.
        lines: its number of lines after wrapping.
        longest_line: characters of its longest source line.
    """

    text: str
    lines: int
    longest_line: int


class Edit(NamedTuple):
    """The outcome of a replacement: the new document and what changed."""

    document: Document
    diff: str


def unix_lines(text: str) -> str:
    """The text with line feeds as its only line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def wrap(line: str, width: int) -> list[str]:
    """The page lines of one source line."""
    rows = []
    start, end = 0, len(line)
    while end - start > width:
        cut = line.rfind(" ", start, start + width + 1)
        if cut < 0:
            rows.append(line[start : start + width])
            start += width
            continue
        if row := line[start:cut].rstrip(" "):
            rows.append(row)
        start = cut
        while start < end and line[start] == " ":
            start += 1
    if start < end or not rows:
        rows.append(line[start:])
    return rows


def _height(lines: list[str], width: int) -> int:
    """Page lines of source lines; an empty last one is what a final newline leaves."""
    height = 0
    for line in lines:
        height += 1 if len(line) <= width else len(wrap(line, width))
    return height if lines[-1] else height - 1


def wrapped_lines(text: str, width: int) -> int:
    """The number of lines of `text` on a page `width` characters wide."""
    return _height(text.split("\n"), width)


def longest_line(text: str) -> int:
    """Characters of the longest source line."""
    return max(map(len, text.split("\n")))


def make_document(text: str, width: int) -> Document:
    """Measure a text."""
    return Document(text, wrapped_lines(text, width), longest_line(text))


def find(text: str, old: str, match: Match) -> list[tuple[int, int]]:
    """Spans of `old` in `text`, left to right, without overlap.

    `fuzzy` falls back, only when the exact text is not there, to lines whose indentation and
    trailing blanks differ, then to any difference in white space.
    """
    if not old:  # it would be found everywhere, without end
        return []
    spans = []
    start = text.find(old)
    while start >= 0:
        spans.append((start, start + len(old)))
        start = text.find(old, start + len(old))
    if spans or match == "exact" or not old.strip():
        return spans
    lines = [re.escape(line.strip()) for line in old.strip().split("\n")]
    words = [re.escape(word) for word in old.split()]
    # possessive, so that long runs of blanks cost linear time
    for pattern in (r"[ \t]*+\n[ \t]*+".join(lines), r"\s++".join(words)):
        if spans := [hit.span() for hit in re.finditer(pattern, text)]:
            break
    return spans


def without_margin(text: str, old: str, new: str) -> tuple[str, str]:
    """Drop the white space around `old` that a fuzzy match ignores, and the same around `new`."""
    core = old.strip()
    if not core or old in text:
        return old, new
    left, right = old.split(core, 1)
    return core, new.removeprefix(left).removesuffix(right)


def rewrite(document: Document, text: str, width: int) -> Edit:
    """Put a text in the place of all, measured anew."""
    return Edit(make_document(text, width), _diff(document.text, text))


def replace(document: Document, spans: list[tuple[int, int]], new: str, width: int) -> Edit:
    """Put `new` in the place of each span.

    One span, the common case, costs the lines it touches; several are measured anew.
    """
    text = document.text
    if len(spans) > 1:
        parts: list[str] = []
        end = 0
        for start, stop in spans:
            parts += (text[end:start], new)
            end = stop
        return rewrite(document, "".join((*parts, text[end:])), width)

    start, stop = spans[0]
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", stop) + 1 or len(text)
    whole = f"{text[:start]}{new}{text[stop:]}"
    # both regions end after a newline or with the text, so heights add up
    before = text[first:last].split("\n")
    after = f"{text[first:start]}{new}{text[stop:last]}".split("\n")
    lines = document.lines - _height(before, width) + _height(after, width)
    longest = max(map(len, after))
    if longest < document.longest_line:
        was_longest = max(map(len, before)) == document.longest_line
        longest = longest_line(whole) if was_longest else document.longest_line
    hunk = _hunk(text.count("\n", 0, first), before, after)
    return Edit(Document(whole, lines, longest), hunk)


def _hunk(first: int, before: list[str], after: list[str]) -> str:
    """A unified diff of one hunk without context; line `first` (from 0) is the first."""
    most = min(len(before), len(after))
    # what follows the last newline is a line of the text below, not one to insert after
    below = before[-1] == after[-1] == ""
    head = 0
    while head < most - below and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < most - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    start = first + head
    rows = [f"@@ -{_range(start, len(old))} +{_range(start, len(new))} @@"]
    rows += ["-" + line for line in old]
    rows += ["+" + line for line in new]
    return "\n".join(rows)


def _range(start: int, length: int) -> str:
    """Where a hunk lies, as `diff -u` writes it: from 1, the line before if it is empty."""
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _diff(before: str, after: str) -> str:
    rows = difflib.unified_diff(before.split("\n"), after.split("\n"), n=0, lineterm="")
    return "\n".join(list(rows)[2:])  # the file names say nothing here


def page(document: Document, page_lines: int, width: int) -> str:
    """The source with a delimiter where the page ends, if it overflows."""
    if document.lines <= page_lines:
        return document.text.removesuffix("\n")
    room = page_lines
    lines = document.text.removesuffix("\n").split("\n")
    for number, line in enumerate(lines):
        room -= 1 if len(line) <= width else len(wrap(line, width))
        if room < 0:
            lines.insert(number, overflow_delimiter(page_lines))
            break
    return "\n".join(lines)


def overflow_delimiter(page_lines: int) -> str:
    """The line that stands between what fits on the page and what does not."""
    return f"===== the page ends here: {page_lines} lines ====="
