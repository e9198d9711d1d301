"""Convert PDF files to rows; infer columns, bullets and wrapped lines from word positions.

A PDF file gives positions of words but no paragraphs. Two columns are read one after the other if
each has at least six lines beside the gutter between them. A column of dates is instead read line
by line with the column beside it. Text in images is not read. If a page has rotated text or more
than two columns, a note warns that the order may be wrong.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.outline import (
    PAGE_NUMBER,
    Hint,
    OutlineRow,
    clean,
    looks_like_heading,
    split_bullet,
)
from resume_gym.corpus.plain_text import PageLine, join_lines
from resume_gym.support.user_errors import missing

_MOST_PAGES = 50
_COLUMN_ROWS = 6  # minimum number of lines on each side of the gutter between two columns
_LOST = re.compile(r"\(cid:\d+\)|\ufffd")
_BOLD = re.compile("bold|black|heavy|semib|demi", re.IGNORECASE)
_DATE = re.compile(r"(?:19|20)\d\d|present|now", re.IGNORECASE)


class _Run(NamedTuple):
    """A word, or adjacent words on one line; coordinates in points from the top left."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    size: float
    bold: bool


def pdf_rows(data: bytes) -> tuple[list[OutlineRow], list[str]]:
    """Return the rows of a PDF, and notes on content that is left out or perhaps misordered.

    Raises:
        DocumentError: the file is damaged, password-protected, scanned, or over 50 pages long.
        ModuleNotFoundError: pdfplumber is not installed.
    """
    try:
        import pdfplumber
        from pdfminer.pdfdocument import PDFPasswordIncorrect
        from pdfplumber.utils.exceptions import PdfminerException
    except ImportError:
        raise missing("reading PDF files needs", "pdfplumber", "data") from None
    try:
        with pdfplumber.open(io.BytesIO(data), raise_unicode_errors=False) as file:
            if len(file.pages) > _MOST_PAGES:
                raise DocumentError(f"expected at most {_MOST_PAGES} pages, got {len(file.pages)}")
            pages = [list(_runs(page)) for page in file.pages]
            # a character's matrix is (a, b, c, d, x, y); b is not zero if the character is rotated
            chars = (char for page in file.pages for char in page.chars)
            turned = any(abs(char["matrix"][1]) > 0.01 for char in chars)
            kinds = [note["data"].get("Subtype") for page in file.pages for note in page.annots]
    except PdfminerException as problem:
        if any(isinstance(one, PDFPasswordIncorrect) for one in problem.args):
            raise DocumentError("it is protected by a password; save it without one") from None
        raise DocumentError(f"it is damaged ({problem})") from None
    if not any(pages):
        raise DocumentError("there is no text in it; run OCR first")
    empty = [str(number) for number, runs in enumerate(pages, start=1) if not runs]
    notes = [f"no text on page {', '.join(empty)}; run OCR first"] if empty else []
    columns = [column for runs in _without_margins(pages) for column in _columns(runs)]
    if turned or any(map(_is_wide, pages)) or any(map(_gutter, columns)):
        notes.append("it has rotated text or more than two columns: check the order of its text")
    if fields := sum(str(kind).strip("/'") in ("Widget", "FreeText") for kind in kinds):
        notes.append(f"form fields and text comments left out: {fields}")
    rows = join_lines(_lines(columns))
    if lost := sum(len(_LOST.findall(row.text)) for row in rows):
        notes.append(f"characters that the file's fonts do not map to text: {lost}")
    return rows, notes


def _is_wide(runs: Sequence[_Run]) -> bool:
    """Return whether at least three lines without dates have three or more runs (columns)."""
    wide = [line for line in _by_line(runs) if len(line) > 2]
    return sum(not any(_DATE.search(run.text) for run in line) for line in wide) > 2


def _runs(page: Any) -> Iterator[_Run]:
    """Yield the runs of a page line by line; words with small gaps between them form one run."""
    distinct = page.filter(_Distinct())
    found = distinct.extract_words(x_tolerance_ratio=0.15, return_chars=True)
    words = [
        _Run(
            clean(_spelled(word["chars"])).replace("\x00", "\ufffd"),
            word["x0"],
            word["x1"],
            word["top"],
            word["bottom"],
            round(word["chars"][0]["size"], 1),
            bool(_BOLD.search(word["chars"][0]["fontname"])),
        )
        for word in found
    ]
    for line in _by_line([*words, *_drawn_bullets(page, words)]):
        group = line[:1]
        for word in line[1:]:
            # A bullet marker may be far from its text.
            marker = len(group) == 1 and _is_marker(group[0].text)
            if word.x0 - group[-1].x1 > word.size and not marker:
                yield _merge(group)
                group = []
            group.append(word)
        yield _merge(group)


def _spelled(chars: Sequence[Any]) -> str:
    """Return the text of a word, with "^" before small raised digits, such as exponents."""
    text: str = chars[0]["text"]
    for left, char in pairwise(chars):
        small = char["text"].isdecimal() and char["size"] < 0.8 * left["size"]
        up = small and char["bottom"] < left["bottom"] - 0.1 * left["size"]
        text += "^" * up + char["text"]
    return text


class _Distinct:
    """Filter that drops a character if the same character was printed at most one point away.

    pdfplumber's own filter, `dedupe_chars`, takes quadratic time.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int, int], tuple[float, float]] = {}

    def __call__(self, one: Any) -> bool:
        if one["object_type"] != "char":
            return True
        text, x, y = one["text"], one["x0"], one["top"]
        column, row = round(x), round(y)
        for key in ((text, column + i, row + j) for i in (-1, 0, 1) for j in (-1, 0, 1)):
            left, top = self._seen.get(key, (x + 9, y))
            if abs(left - x) <= 1 and abs(top - y) <= 1:
                return False
        self._seen[text, column, row] = x, y
        return True


def _is_marker(word: str) -> bool:
    return bool(_LOST.fullmatch(word) or split_bullet(f"{word} x")[0])


def _drawn_bullets(page: Any, words: Sequence[_Run]) -> Iterator[_Run]:
    """Yield the bullets that are drawn as shapes, as in PDF files printed by browsers."""
    shapes: dict[_Run, list[Any]] = {}
    for shape in (*page.curves, *page.rects):
        middle = (shape["top"] + shape["bottom"]) / 2
        beside = [
            word
            for word in words
            if word.top < middle < word.bottom
            and 0 < word.x0 - shape["x1"] < 2 * word.size
            and 0.15 < shape["height"] / word.size < 0.5
            and 0.15 < shape["width"] / word.size < 0.5
        ]
        if beside:
            shapes.setdefault(min(beside, key=lambda word: word.x0), []).append(shape)
    for word, (shape, *others) in shapes.items():
        if not others:  # several shapes beside a word are an icon or a rating
            yield word._replace(text="•", x0=shape["x0"], x1=shape["x1"])


def _by_line(runs: Iterable[_Run]) -> list[list[_Run]]:
    """Group runs into lines by bottom edge, which varies less with font size than the top."""
    lines: list[list[_Run]] = []
    for run in sorted(runs, key=lambda run: (run.bottom, run.x0)):
        if lines and run.bottom - lines[-1][0].bottom <= 0.3 * run.size:
            lines[-1].append(run)
        else:
            lines.append([run])
    return [sorted(line, key=lambda run: run.x0) for line in lines]


def _merge(words: Sequence[_Run]) -> _Run:
    letters: Counter[tuple[float, bool]] = Counter()
    for word in words:
        letters[word.size, word.bold] += len(word.text)
    top, bottom = min(word.top for word in words), max(word.bottom for word in words)
    # A glyph that decodes to no character is usually a bullet if it begins a line.
    texts = [
        "•" if not n and _LOST.fullmatch(word.text) else word.text for n, word in enumerate(words)
    ]
    return _Run(
        " ".join(texts), words[0].x0, words[-1].x1, top, bottom, *letters.most_common(1)[0][0]
    )


def _without_margins(pages: Sequence[list[_Run]]) -> Iterator[list[_Run]]:
    """Drop page numbers, and headers or footers that repeat those of an earlier page."""
    seen: set[str] = set()
    for runs in pages:
        edges = {run.top for run in (*runs[:3], *runs[-3:])} if len(pages) > 1 else set()
        # a number alone on its line is a page number; beside a title, it may be a year
        beside = Counter(run.top for run in runs)
        yield [
            run
            for run in runs
            if run.top not in edges
            or not ((beside[run.top] == 1 and PAGE_NUMBER.fullmatch(run.text)) or run.text in seen)
        ]
        seen.update(run.text for run in runs if run.top in edges)


def _columns(runs: Sequence[_Run]) -> list[list[_Run]]:
    """Split the runs of a page into parts of one column each, in reading order."""
    gutter = _gutter(runs)
    if not gutter:
        return [[*runs]]
    x, top, bottom = gutter
    above = [run for run in runs if run.bottom <= top]
    below = [run for run in runs if run.top >= bottom]
    inside = [run for run in runs if run.bottom > top and run.top < bottom]
    columns = [[run for run in inside if run.x0 < x], [run for run in inside if run.x0 >= x]]
    # The column with the largest font contains the candidate's name, so it is read first.
    if not above:
        columns.sort(key=lambda column: -max(run.size for run in column))
    return [above, *columns, below]


def _gutter(runs: Sequence[_Run]) -> tuple[float, float, float] | None:
    """Return x, top and bottom of the gutter between two columns; None for a single column."""
    starts = Counter(round(run.x0) for run in runs)
    leftmost = min((run.x0 for run in runs), default=0.0)
    width = max((run.x1 for run in runs), default=0.0) - leftmost
    best: tuple[float, float, float] | None = None
    most = _COLUMN_ROWS - 1
    for start, count in starts.items():
        if count < _COLUMN_ROWS // 2 or not 0.15 < (start - leftmost) / width < 0.9:
            continue
        x = start - 2.0
        for part in _stretches(runs, x):
            sides = [run for run in part if run.x1 <= x], [run for run in part if run.x0 >= x]
            rows = min(len({run.bottom for run in side}) for side in sides)
            if rows > most and not any(map(_dated, sides)):
                most = rows
                best = (x, min(run.top for run in part), max(run.bottom for run in part))
    return best


def _stretches(runs: Sequence[_Run], x: float) -> Iterator[list[_Run]]:
    """Sort runs from top to bottom; split them at runs that cross the vertical line at `x`."""
    part: list[_Run] = []
    for run in sorted(runs, key=lambda run: run.bottom):
        if run.x0 < x < run.x1:
            yield part
            part = []
        else:
            part.append(run)
    yield part


def _dated(runs: Sequence[_Run]) -> bool:
    """Return whether most runs have a date, so that they belong to the column beside them."""
    return 2 * sum(bool(_DATE.search(run.text)) for run in runs) > len(runs)


def _lines(columns: Sequence[Sequence[_Run]]) -> list[PageLine]:
    """Return the lines of all columns; infer the gap above and the role (hint) of each line."""
    lines = [(line, column) for column in columns for line in _by_line(column)]
    runs = [run for line, _ in lines for run in line]
    letters: Counter[float] = Counter()
    for run in runs:
        letters[run.size] += len(run.text)
    body = letters.most_common(1)[0][0]
    largest = max(run.size for line, _ in lines[:8] for run in line)
    # A line of other wording is a heading only if it is as large as lines worded like headings.
    known = Counter(
        line[0].size
        for line, _ in lines
        if len(line) == 1 and looks_like_heading(line[0].text) and line[0].size >= body
    )
    least = max(known.most_common(1)[0][0] if known else 0.0, 1.15 * body)
    steps = sorted(b[0].top - a[0].top for (a, _), (b, _) in pairwise(lines))
    steps = [step for step in steps if step > 0]
    # The lower quartile of the steps is the usual line spacing; gaps are over 1.35 times as large.
    space = steps[len(steps) // 4] if steps else 12.0
    found: list[PageLine] = []
    top = 0.0
    for line, column in lines:
        first = line[0]
        named = first.size == largest > 1.15 * body
        found.append(
            PageLine(
                "\t".join(run.text for run in line),
                first.x0,
                line[-1].x1,
                edge=max(run.x1 for run in column),
                letter=(first.x1 - first.x0) / len(first.text),
                gap=not found or not 0 <= first.top - top <= 1.35 * space,
                hint="name" if named else _hint(line, least),
                style=(first.size, first.bold),
            )
        )
        top = first.top
    return found


def _hint(line: Sequence[_Run], least: float) -> Hint:
    """Infer the role of a line; `least` is the font size at which any short line is a heading."""
    first = line[0]
    words = len(first.text.split())
    if len(line) == 1 and looks_like_heading(first.text):
        return "heading"
    if first.size >= least and len(line) == 1 and words <= 4 and "," not in first.text:
        return "heading"
    return "entry" if (first.bold or first.size >= least) and words < 12 else ""
