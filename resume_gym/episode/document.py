"""Text documents: exact and fuzzy replacement, wrapping, page layout, unified diffs.

To edit, call `find`, then `replace`; `page` formats the result. Nothing is specific to resumes.

One wrapping rule applies to all texts. A source line is broken at spaces into page lines, each as
long as possible up to `width` characters; the spaces at a break are dropped. A word longer than
`width` is split. A blank line counts as one line. A newline at the end of the text does not start
another line. Every character, including tabs and wide characters, counts as one column.
"""

import difflib
import re
import unicodedata
from bisect import bisect
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

Match = Literal["exact", "fuzzy"]

# The pattern can match only from the first of several blanks in a row; trying a match from each of
# them would take quadratic time.
_AROUND_LINES = re.compile(r"\n[ \t]*+|(?<![ \t])[ \t]++\n[ \t]*+")
_BLANKS = re.compile(r"\s++")
_FINE_DIFF_LINES = 200
"""Maximum number of lines to pass to difflib (quadratic time); a longer text's diff is one hunk."""


_MOST_MARKS = 30
"""Maximum number of combining marks to normalize at once (quadratic time); see UAX #15."""


class Document(NamedTuple):
    """A text with its number of wrapped lines and the length of its longest line.

    Attributes:
        text: source text, with line feeds as line endings.
        lines: number of lines after wrapping.
        longest_line: length of the longest source line in characters.
    """

    text: str
    lines: int
    longest_line: int


class Edit(NamedTuple):
    """The result of a replacement: the new document and a unified diff."""

    document: Document
    diff: str


def unix_lines(text: str) -> str:
    """Convert all line endings to line feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def wrap(line: str, width: int) -> list[str]:
    """Split a source line into page lines of at most `width` characters."""
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
    """Return the number of page lines that `lines` wrap to; do not count an empty last line."""
    height = 0
    for line in lines:
        height += 1 if len(line) <= width else len(wrap(line, width))
    return height if lines[-1] else height - 1


def wrapped_lines(text: str, width: int) -> int:
    """Count the lines of `text` on a page `width` characters wide."""
    return _height(text.split("\n"), width)


def longest_line(text: str) -> int:
    """Return the length of the longest source line in characters."""
    return max(map(len, text.split("\n")))


def make_document(text: str, width: int) -> Document:
    """Measure a text and return it as a document."""
    return Document(text, wrapped_lines(text, width), longest_line(text))


def find(text: str, old: str, match: Match) -> list[tuple[int, int]]:
    """Find the occurrences of `old` in `text`, from left to right.

    Args:
        text: text to search.
        old: text to find; an empty text never matches.
        match: "exact" or "fuzzy". Without an exact match, "fuzzy" first ignores indentation and
            trailing blanks, then all differences in whitespace, and finally also differences in
            typography (see `untyped`).

    Returns:
        Start and end offset of each occurrence. The list ends at the first occurrence that overlaps
        the previous one, since only one of the two can be replaced.
    """
    if not old:  # an empty text matches everywhere, and `_occurrences` would never advance
        return []
    spans = _occurrences(text, old)
    if spans or match == "exact" or not old.strip():
        return spans
    if spans := _find_loosely(text, old):
        return spans
    text, places = untyped(text)
    spans = _find_loosely(text, untyped(old)[0])
    return [(places[start], places[stop]) for start, stop in spans]


def _find_loosely(text: str, old: str) -> list[tuple[int, int]]:
    if spans := _occurrences(text, old):
        return spans
    lines = "\n".join(line.strip() for line in old.strip().split("\n"))
    words = " ".join(old.split())
    for blanks, shown, wanted in (_AROUND_LINES, "\n", lines), (_BLANKS, " ", words):
        if spans := _looser(text, blanks, shown, wanted):
            break
    return spans


def _occurrences(text: str, old: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start, end = text.find(old), 0
    while start >= 0:
        if start < end:
            return [*spans, (start, start + len(old))]
        end = start + len(old)
        spans.append((start, end))
        within = text.find(old, start + 1, end + len(old) - 1)
        start = within if within >= 0 else text.find(old, end)
    return spans


def _looser(text: str, blanks: re.Pattern[str], shown: str, wanted: str) -> list[tuple[int, int]]:
    """Find `wanted` in a copy of `text` in which each match of `blanks` is replaced by `shown`.

    Return the start and end offset of each occurrence in the original `text`. `str.find` searches
    the modified text in linear time. A regular expression for `wanted` would restart its search at
    each line, and take quadratic time in a text with many similar lines.
    """
    parts: list[str] = []
    # start offsets of the pieces between blanks: `loose` in the modified text, `exact` in `text`
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

    # The first and the last character of a match are not blank, so each has one offset in `text`.
    # The character after a match may replace several blanks, and then has several offsets in
    # `text`.
    spans = _occurrences("".join(parts), wanted)
    return [(original(start), original(stop - 1) + 1) for start, stop in spans]


_TYPOGRAPHY = {
    **dict.fromkeys(map(ord, "‘’‚‛′´`ʼ＇"), "'"),
    **dict.fromkeys(map(ord, "“”„‟″«»＂"), '"'),
    **dict.fromkeys([*range(0x2010, 0x2016), 0x2212, 0xFE58, 0xFE63, 0xFF0D], "-"),
    **dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " "),
    # Soft hyphens, zero-width spaces and bidirectional control characters.
    **dict.fromkeys([0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), 0x2060, 0xFEFF], ""),
}


def untyped(text: str) -> tuple[str, Sequence[int]]:
    """Convert quotes, dashes and spaces to ASCII, apply NFC, and drop invisible characters.

    Returns:
        The converted text, and the offset in `text` of each character of the converted text. A last
        offset, the length of `text`, stands for the end.
    """
    if text.isascii():
        return text, range(len(text) + 1)
    parts: list[str] = []
    places: list[int] = []
    start = 0
    for stop in range(1, len(text) + 1):
        joined = stop < len(text) and unicodedata.combining(text[stop])
        if joined and stop - start <= _MOST_MARKS:
            continue
        part = unicodedata.normalize("NFC", text[start:stop]).translate(_TYPOGRAPHY)
        parts.append(part)
        places += [start] * len(part)
        start = stop
    return "".join(parts), [*places, len(text)]


def difference(text: str, old: str) -> str:
    """Describe the first difference between `old` and its approximate match in `text`.

    The match ignores typography (see `untyped`). Without a match, or if `text` is ASCII, the
    description is empty.
    """
    if text.isascii() or not (wanted := untyped(old)[0].strip()):
        return ""
    loose, places = untyped(text)
    start = loose.find(wanted)
    if start < 0:
        return ""
    shown = text[places[start] : places[start + len(wanted)]]
    old = old.strip()
    pairs = enumerate(zip(shown, old, strict=False))
    at = next((n for n, (a, b) in pairs if a != b), min(len(shown), len(old)))
    heads = (shown[at : at + 1], old[at : at + 1])
    at -= bool(at) and any(unicodedata.combining(one) for one in "".join(heads))
    return f"{_named(shown[at:])}, `old` has {_named(old[at:])}"


def _named(text: str) -> str:
    """Return the Unicode names of a text's first character and of the accents that follow it."""
    if not text:
        return "no character there"
    stop = next(
        (n for n, one in enumerate(text) if n and not unicodedata.combining(one)), len(text)
    )
    names = (f"U+{ord(one):04X} {unicodedata.name(one, 'unnamed')}" for one in text[:stop])
    return " and ".join(names)


def without_margin(text: str, old: str, new: str) -> tuple[str, str]:
    """Strip the whitespace at the ends of `old`, and the same whitespace from the ends of `new`.

    If `old` is blank, or `text` contains `old` exactly, both strings are returned unchanged.
    """
    core = old.strip()
    if not core or old in text:
        return old, new
    left, right = old.split(core, 1)
    return core, new.removeprefix(left).removesuffix(right)


def rewrite(document: Document, text: str, width: int) -> Edit:
    """Return the edit that replaces the whole text of a document."""
    before, after = document.text.split("\n"), text.split("\n")
    if max(len(before), len(after)) <= _FINE_DIFF_LINES:
        rows = difflib.unified_diff(before, after, n=0, lineterm="")
        diff = "\n".join(list(rows)[2:])  # drop the header with file names
    else:
        diff = _hunk(0, 0, before, after)
    return Edit(make_document(text, width), diff)


def replace(document: Document, spans: list[tuple[int, int]], new: str, width: int) -> Edit:
    """Replace each span of a document by `new`; only lines that overlap a span are wrapped again.

    Args:
        document: document to edit.
        spans: sorted, non-overlapping start and end offsets, from `find`.
        new: replacement text.
        width: page width in characters.
    """
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
    # if the longest line was edited, all lines may be shorter now: scan the whole text
    if longest < document.longest_line:
        longest = longest_line(whole) if was_longest else document.longest_line
    return Edit(Document(whole, lines, longest), "\n".join(hunks))


_Region = tuple[int, int, list[tuple[int, int]]]


def _regions(text: str, spans: list[tuple[int, int]]) -> Iterator[_Region]:
    """Yield the regions of a text, each as (start, end, spans).

    A region is a run of consecutive lines that overlap spans.

    A region ends after a newline or at the end of the text. Lines wrap independently, so the number
    of wrapped lines of the text changes by the sum of the changes in the regions.
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
    """Return `text[first:last]` with each span replaced by `new`."""
    ends = [first, *(stop for _, stop in spans)]
    starts = [*(start for start, _ in spans), last]
    return new.join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _hunk(first: int, now: int, before: list[str], after: list[str]) -> str:
    """Format a unified diff of one hunk without context lines.

    Args:
        first: zero-based line number of `before` in the old text.
        now: zero-based line number of `after` in the new text.
        before: old lines. The hunk omits common first and last lines of `before` and `after`.
        after: new lines.
    """
    most = min(len(before), len(after))
    # If both texts end in a newline, both lists end in "". This "" must not count as part of the
    # common first lines, or the hunk of an insertion would start one line too late.
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
    """Format a range of lines, counted from 1, as `diff -u` does.

    An empty range is given by the number of the line before it.
    """
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def page(document: Document, page_lines: int, width: int) -> str:
    """Return the whole text of a document; if it is too long for the page, mark the page's end.

    The mark is the line `overflow_delimiter` before the first source line that does not fit
    completely.
    """
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
    """Return the line that separates what fits on the page from the overflow."""
    return f"===== the page ends here: {page_lines} lines ====="
