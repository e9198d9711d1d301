"""PDF files to rows, by the places of their words: columns, bullets, wrapped lines.

A PDF knows words and places, no paragraphs. Two columns are read one after the other where a
gutter parts at least six rows; a column of dates beside a wider one is read row by row. Not
recovered: text in pictures, more than two columns, text set at an angle.
"""

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from resume_gym.corpus.documents import DocumentError
from resume_gym.corpus.outline import Hint, Row, clean, is_contact, looks_like_heading, split_bullet
from resume_gym.mistakes import missing

_MOST_PAGES = 50
_COLUMN_ROWS = 6
_GLYPH = re.compile(r"\(cid:\d+\)|\x00")
_LOST = re.compile(r"\(cid:\d+\)|\ufffd")
_LABEL = re.compile(r"[A-Z][\w &/-]{1,30}:\s")
_LONG = 45  # characters of a line that may have been broken
_PAGE = re.compile(r"(?:page\s+)?\d+(?:\s*(?:of|/)\s*\d+)?", re.IGNORECASE)
_DATE = re.compile(r"(?:19|20)\d\d|present|now", re.IGNORECASE)


class _Run(NamedTuple):
    """Words that stand close together on one line; places in points from the top left."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    size: float
    bold: bool


class _Line(NamedTuple):
    """The runs of one line of a column, which reaches to `right`."""

    runs: tuple[_Run, ...]
    right: float

    @property
    def text(self) -> str:
        return "\t".join(run.text for run in self.runs)


def pdf_rows(data: bytes) -> tuple[list[Row], list[str]]:
    """The rows of a PDF, and notes on what could not be read.

    Raises:
        DocumentError: it is damaged, protected by a password, scanned, or has too many pages.
        ModuleNotFoundError: pdfplumber is missing.
    """
    try:
        import pdfplumber
        from pdfminer.pdfdocument import PDFPasswordIncorrect
        from pdfplumber.utils.exceptions import PdfminerException
    except ImportError:
        raise missing("reading PDF files needs", "pdfplumber", "data") from None
    try:
        with pdfplumber.open(io.BytesIO(data)) as file:
            if len(file.pages) > _MOST_PAGES:
                raise DocumentError(f"expected at most {_MOST_PAGES} pages, got {len(file.pages)}")
            pages = [_runs(page) for page in file.pages]
    except PdfminerException as problem:
        if any(isinstance(one, PDFPasswordIncorrect) for one in problem.args):
            raise DocumentError("it is protected by a password; save it without one") from None
        raise DocumentError(f"it is damaged ({problem})") from None
    if not any(pages):
        raise DocumentError("there is no text in it; run OCR first")
    empty = [str(number) for number, runs in enumerate(pages, start=1) if not runs]
    notes = [f"no text on page {', '.join(empty)}; run OCR first"] if empty else []
    lines = [line for runs in _without_margins(pages) for line in _lines(runs)]
    rows = _rows(lines)
    if lost := sum(len(_LOST.findall(row.text)) for row in rows):
        notes.append(f"characters without a meaning in the file's fonts: {lost}")
    return rows, notes


def _runs(page: Any) -> list[_Run]:
    """The runs of a page, top to bottom, left to right."""
    words = page.dedupe_chars().extract_words(
        x_tolerance_ratio=0.15,
        y_tolerance=3,
        keep_blank_chars=False,
        use_text_flow=False,
        extra_attrs=["fontname", "size"],
        return_chars=False,
    )
    rows: list[list[Any]] = []
    for word in sorted(words, key=lambda one: (one["bottom"], one["x0"])):
        if rows and abs(rows[-1][0]["bottom"] - word["bottom"]) <= 0.3 * word["size"]:
            rows[-1].append(word)
        else:
            rows.append([word])
    runs = []
    for row in rows:
        row.sort(key=lambda one: one["x0"])
        group = [row[0]]
        for word in row[1:]:
            if word["x0"] - group[-1]["x1"] > word["size"] and not _is_mark(group):
                runs.append(_run(group))
                group = []
            group.append(word)
        runs.append(_run(group))
    return runs


def _is_mark(words: Sequence[Any]) -> bool:
    """Whether words are but the mark of a bullet, which stands apart from its text."""
    text = words[0]["text"]
    bullet = bool(split_bullet(f"{text} x")[0]) or bool(_GLYPH.fullmatch(text))
    return len(words) == 1 and bullet


def _run(words: Sequence[Any]) -> _Run:
    text = words[0]["text"]
    for before, word in pairwise(words):
        # A change of type parts words as well, as in "**Acme**, Lagos".
        text += " " * (word["x0"] - before["x1"] > 0.12 * word["size"]) + word["text"]
    text = _GLYPH.sub("•", text, count=1) if _GLYPH.match(text) else text
    text = clean(text).replace("\x00", "\ufffd")
    letters: Counter[tuple[float, bool]] = Counter()
    for word in words:
        bold = bool(re.search("bold|black|heavy|semib|demi", word["fontname"], re.IGNORECASE))
        letters[round(word["size"], 1), bold] += len(word["text"])
    size, bold = letters.most_common(1)[0][0]
    top, bottom = min(w["top"] for w in words), max(w["bottom"] for w in words)
    return _Run(text, words[0]["x0"], words[-1]["x1"], top, bottom, size, bold)


def _without_margins(pages: Sequence[list[_Run]]) -> Iterator[list[_Run]]:
    """Pages without numbers of pages, and without heads that an earlier page has as well."""
    seen: set[str] = set()
    for runs in pages:
        edges = {run.top for run in (*runs[:3], *runs[-3:])} if len(pages) > 1 else set()
        heads = [run.text for run in runs if run.top in edges]
        yield [
            run
            for run in runs
            if run.top not in edges or not (_PAGE.fullmatch(run.text) or run.text in seen)
        ]
        seen.update(heads)


def _lines(runs: Sequence[_Run]) -> list[_Line]:
    """The lines of a page in the order of reading."""
    if not runs:
        return []
    gutter = _gutter(runs)
    if not gutter:
        return _column(runs)
    x, top, bottom = gutter
    above = [run for run in runs if run.bottom <= top]
    below = [run for run in runs if run.top >= bottom]
    inside = [run for run in runs if run.bottom > top and run.top < bottom]
    left = [run for run in inside if run.x0 < x]
    right = [run for run in inside if run.x0 >= x]
    # The name comes first, and it has the largest type.
    columns = [left, right]
    if not above and max(run.size for run in right) > max(run.size for run in left):
        columns.reverse()
    return [line for part in (above, *columns, below) for line in _column(part)]


def _column(runs: Sequence[_Run]) -> list[_Line]:
    rows: list[list[_Run]] = []
    right = max((run.x1 for run in runs), default=0.0)
    for run in sorted(runs, key=lambda one: (one.bottom, one.x0)):
        if rows and abs(rows[-1][0].bottom - run.bottom) <= 0.3 * run.size:
            rows[-1].append(run)
        else:
            rows.append([run])
    return [_Line(tuple(sorted(row, key=lambda one: one.x0)), right) for row in rows]


def _gutter(runs: Sequence[_Run]) -> tuple[float, float, float] | None:
    """Where a second column begins, and the top and bottom of what it parts; None for none."""
    starts = Counter(round(run.x0) for run in runs)
    leftmost = min(run.x0 for run in runs)
    width = max(run.x1 for run in runs) - leftmost
    best: tuple[float, float, float] | None = None
    most = 0
    for start, count in starts.items():
        if count < _COLUMN_ROWS // 2 or not 0.15 < (start - leftmost) / width < 0.9:
            continue
        x = start - 2.0
        for part in _stretches(runs, x):
            left = [run for run in part if run.x1 <= x]
            right = [run for run in part if run.x0 >= x]
            rows = min(len({r.bottom for r in left}), len({r.bottom for r in right}))
            if rows >= max(_COLUMN_ROWS, most + 1) and not (_dates(left) or _dates(right)):
                most = rows
                best = (x, min(r.top for r in part), max(r.bottom for r in part))
    return best


def _stretches(runs: Sequence[_Run], x: float) -> Iterator[list[_Run]]:
    """The runs between those that cross `x`."""
    part: list[_Run] = []
    for run in sorted(runs, key=lambda one: one.bottom):
        if run.x0 < x < run.x1:
            yield part
            part = []
        else:
            part.append(run)
    yield part


def _dates(runs: Sequence[_Run]) -> bool:
    """Whether a column is one of dates, which belong to what stands beside them."""
    return 2 * sum(bool(_DATE.search(run.text)) for run in runs) > len(runs)


def _rows(lines: Sequence[_Line]) -> list[Row]:
    letters: Counter[float] = Counter()
    for line in lines:
        for run in line.runs:
            letters[run.size] += len(run.text)
    body = letters.most_common(1)[0][0]
    largest = max(run.size for line in lines[:8] for run in line.runs)
    headings = _heading_size(lines, body)
    space = _usual_space(lines)
    rows: list[Row] = []
    indents: list[float] = []
    before: _Line | None = None
    for line in lines:
        first = line.runs[0]
        gap = before is None or not 0 <= first.top - before.runs[0].top <= 1.35 * space
        marker, said = split_bullet(line.text)
        if marker:
            indents = [*(one for one in indents if one < first.x0 - 2), first.x0]
            rows.append(Row(said, "bullet", len(indents) - 1, gap, marker))
        elif before and rows and _continues(rows[-1], before, line, gap):
            rows[-1] = rows[-1]._replace(text=_join(rows[-1].text, line.text, lines))
        else:
            named = first.size == largest > 1.15 * body
            rows.append(Row(line.text, _hint(line, headings, named), gap=gap))
            indents = []
        before = line
    return rows


def _usual_space(lines: Sequence[_Line]) -> float:
    """From the top of a line to that of the next, in points."""
    steps = [b.runs[0].top - a.runs[0].top for a, b in pairwise(lines)]
    steps = sorted(step for step in steps if step > 0)
    return steps[len(steps) // 4] if steps else 12.0


def _heading_size(lines: Sequence[_Line], body: float) -> float:
    """The size of type of headings: that of known names of sections, else larger than text."""
    known = [
        line.runs[0].size
        for line in lines
        if len(line.runs) == 1 and looks_like_heading(line.text) and line.runs[0].size >= body
    ]
    return max(Counter(known).most_common(1)[0][0] if known else 0.0, 1.15 * body)


def _hint(line: _Line, least: float, named: bool) -> Hint:
    """What the type of a line says; `least` is the size of a heading with an unknown name."""
    first = line.runs[0]
    if named:
        return "name"
    words = len(first.text.split())
    if len(line.runs) == 1 and looks_like_heading(first.text):
        return "heading"
    if first.size >= least and len(line.runs) == 1 and words <= 4 and "," not in first.text:
        return "heading"
    return "entry" if (first.bold or first.size >= least) and words < 12 else ""


def _continues(row: Row, before: _Line, line: _Line, gap: bool) -> bool:
    """Whether a line goes on with the row that ends in the line before."""
    first, last = line.runs[0], before.runs[-1]
    same = (first.size, first.bold) == (last.size, last.bold)
    if gap or not same or row.hint in ("heading", "name") or len(line.runs) > 1:
        return False
    if row.hint == "bullet":
        marked = bool(split_bullet(before.text)[0])
        aligned = first.x0 > before.runs[0].x0 + 2 if marked else first.x0 >= before.runs[0].x0 - 2
        return aligned or first.text[:1].islower()
    if len(before.runs) > 1 or row.hint or _LABEL.match(first.text) or is_contact(first.text):
        return False
    if first.text[:1].islower():
        return True
    # A line was broken where the next word did not fit.
    letter = (first.x1 - first.x0) / max(1, len(first.text))
    full = last.x1 + letter * (len(first.text.split()[0]) + 1) > before.right
    return full and len(last.text) >= _LONG


def _join(above: str, below: str, lines: Sequence[_Line]) -> str:
    """Two parts of a paragraph; a word that was hyphenated at the end of a line is made whole."""
    match = re.search(r"(\w+)-$", above)
    word = re.match(r"[a-z]\w*", below)
    if not match or not word:
        return f"{above} {below}"
    whole = f"{match[1]}-{word[0]}"
    kept = any(whole in line.text for line in lines)
    return f"{above if kept else above[:-1]}{below}"
