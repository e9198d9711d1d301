"""The document: exact and fuzzy replacement, wrapping, layout, unified diff.

The wrap rule is our own and is the same everywhere: a source line is filled greedily up to
`width` characters and broken at a space, which is dropped with the spaces around it; a word
longer than `width` is cut; a blank line counts one; a final newline opens no further line.
Every character counts one, tabs and wide characters too.
"""

import difflib
import re
from bisect import bisect
from collections.abc import Iterator
from typing import Literal, NamedTuple

Match = Literal["exact", "fuzzy"]

_AROUND_LINES, _BLANKS = re.compile(r"[ \t]*+\n[ \t]*+"), re.compile(r"\s++")
_FINE_DIFF_LINES = 200
"""Longer rewritten texts are shown as one hunk: difflib takes quadratic time."""


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
    spans = _occurrences(text, old)
    if spans or match == "exact" or not old.strip():
        return spans
    lines = "\n".join(line.strip() for line in old.strip().split("\n"))
    words = " ".join(old.split())
    for blanks, shown, wanted in (_AROUND_LINES, "\n", lines), (_BLANKS, " ", words):
        if spans := _looser(text, blanks, shown, wanted):
            break
    return spans


def _occurrences(text: str, old: str) -> list[tuple[int, int]]:
    spans = []
    start = text.find(old)
    while start >= 0:
        spans.append((start, start + len(old)))
        start = text.find(old, start + len(old))
    return spans


def _looser(text: str, blanks: re.Pattern[str], shown: str, wanted: str) -> list[tuple[int, int]]:
    """Spans of `wanted` after each match of `blanks` is replaced by `shown`, a single character.

    String search takes linear time. A regular expression of all lines would start again at each
    line, which takes quadratic time where many lines are alike.
    """
    parts: list[str] = []
    # where each piece between blanks begins, in the rewritten text and in the text
    loose, place, exact, end = [0], 0, [0], 0
    for hit in blanks.finditer(text):
        parts += (text[end : hit.start()], shown)
        place += hit.start() - end + 1
        end = hit.end()
        loose.append(place)
        exact.append(end)
    parts.append(text[end:])

    def original(at: int) -> int:
        piece = bisect(loose, at) - 1
        return exact[piece] + at - loose[piece]

    # `wanted` begins and ends with characters that were not rewritten
    spans = _occurrences("".join(parts), wanted)
    return [(original(start), original(stop - 1) + 1) for start, stop in spans]


def without_margin(text: str, old: str, new: str) -> tuple[str, str]:
    """Drop the white space around `old` that a fuzzy match ignores, and the same around `new`."""
    core = old.strip()
    if not core or old in text:
        return old, new
    left, right = old.split(core, 1)
    return core, new.removeprefix(left).removesuffix(right)


def rewrite(document: Document, text: str, width: int) -> Edit:
    """Put a text in the place of all, measured anew."""
    before, after = document.text.split("\n"), text.split("\n")
    if max(len(before), len(after)) <= _FINE_DIFF_LINES:
        rows = difflib.unified_diff(before, after, n=0, lineterm="")
        diff = "\n".join(list(rows)[2:])  # the file names say nothing here
    else:
        diff = _hunk(0, 0, before, after)
    return Edit(make_document(text, width), diff)


def replace(document: Document, spans: list[tuple[int, int]], new: str, width: int) -> Edit:
    """Put `new` in the place of each span; this costs the lines that the spans touch."""
    text, lines = document.text, document.lines
    parts: list[str] = []
    hunks: list[str] = []
    longest, was_longest = 0, False
    end = number = added = 0
    for first, last, inside in _regions(text, spans):
        number += text.count("\n", end, first)
        region = _put(text, first, last, inside, new)
        before, after = text[first:last].split("\n"), region.split("\n")
        lines += _height(after, width) - _height(before, width)
        longest = max(longest, *map(len, after))
        was_longest = was_longest or max(map(len, before)) == document.longest_line
        if before != after:
            hunks.append(_hunk(number, number + added, before, after))
        number += len(before) - 1
        added += len(after) - len(before)
        parts += (text[end:first], region)
        end = last
    whole = "".join((*parts, text[end:]))
    if longest < document.longest_line:
        longest = longest_line(whole) if was_longest else document.longest_line
    return Edit(Document(whole, lines, longest), "\n".join(hunks))


_Region = tuple[int, int, list[tuple[int, int]]]


def _regions(text: str, spans: list[tuple[int, int]]) -> Iterator[_Region]:
    """Whole lines that spans touch, and the spans in them; neighbouring lines are one region.

    A region ends after a newline or with the text, so that heights of regions add up.
    """
    first = last = 0
    inside: list[tuple[int, int]] = []
    for start, stop in spans:
        if not inside or start > last:
            begins = text.rfind("\n", last, start) + 1 or last
            if inside and begins > last:
                yield first, last, inside
            if not inside or begins > last:
                first, inside = begins, []
        if stop >= last:
            last = text.find("\n", stop) + 1 or len(text)
        inside.append((start, stop))
    yield first, last, inside


def _put(text: str, first: int, last: int, spans: list[tuple[int, int]], new: str) -> str:
    """The text from `first` to `last` with `new` in the place of each span."""
    ends = [first, *(stop for _, stop in spans)]
    starts = [*(start for start, _ in spans), last]
    return new.join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _hunk(first: int, now: int, before: list[str], after: list[str]) -> str:
    """A unified diff of one hunk without context.

    Args:
        first: number of the first line, from 0.
        now: its number after the edits before it.
        before: the lines.
        after: those in their place.
    """
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
    removed, added = _range(first + head, len(old)), _range(now + head, len(new))
    rows = [f"@@ -{removed} +{added} @@"]
    rows += ["-" + line for line in old]
    rows += ["+" + line for line in new]
    return "\n".join(rows)


def _range(start: int, length: int) -> str:
    """Where a hunk lies, as `diff -u` writes it: from 1, the line before if it is empty."""
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


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
