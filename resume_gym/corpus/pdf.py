"""Convert PDF files to rows; infer columns, bullets and wrapped lines from word positions.

A PDF file gives positions of words but no paragraphs. Two columns are read one after the other if
each has at least six lines beside the gutter between them. A column of dates is instead read line
by line with the column beside it. Links become Markdown. Notes count what is left out: pictures,
invisible text, and headers, footers and page numbers that repeat.
"""

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.markup import told
from resume_gym.corpus.outline import Hint, OutlineRow
from resume_gym.corpus.pdf_runs import LOST, Run, by_line, page_runs
from resume_gym.corpus.plain_text import PageLine, join_lines
from resume_gym.corpus.recognition import looks_like_heading
from resume_gym.support.user_errors import missing

_MOST_PAGES = 50
_COLUMN_ROWS = 6  # minimum number of lines on each side of the gutter between two columns
_UNREAD = ("Widget", "FreeText")  # annotations: form fields and text comments
_DATE = re.compile(r"(?:19|20)\d\d|present|now", re.IGNORECASE)


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

        from resume_gym.corpus.pdf_page import visible_page
    except ImportError:
        raise missing("reading PDF files needs", "pdfplumber", "data") from None
    counts: Counter[str] = Counter()
    try:
        with pdfplumber.open(io.BytesIO(data), raise_unicode_errors=False) as file:
            if len(file.pages) > _MOST_PAGES:
                raise DocumentError(f"expected at most {_MOST_PAGES} pages, got {len(file.pages)}")
            pages = []
            for page in file.pages:
                shown = visible_page(page, file.rsrcmgr, counts)
                pages.append(list(page_runs(shown, page.hyperlinks)))
                kinds = [str(note["data"].get("Subtype")).strip("/'") for note in page.annots]
                counts["form fields and text comments"] += sum(kind in _UNREAD for kind in kinds)
    except PdfminerException as problem:
        if any(isinstance(one, PDFPasswordIncorrect) for one in problem.args):
            raise DocumentError("it is protected by a password; save it without one") from None
        raise DocumentError(f"it is damaged ({problem})") from None
    if not any(pages):
        raise DocumentError("there is no text in it; run OCR first")
    empty = [str(number) for number, runs in enumerate(pages, start=1) if not runs]
    notes = [f"no text on page {', '.join(empty)}; run OCR first"] if empty else []
    bodies = _without_margins(pages, counts)
    parts = [_columns(runs) for runs in bodies]
    if split := sum(len(part) > 1 for part in parts):
        notes.append(f"pages whose two columns are read one after the other: {split}")
    columns = [column for part in parts for column in part]
    rows = join_lines(_lines(columns))
    if lost := sum(len(LOST.findall(row.text)) for row in rows):
        notes.append(f"characters that the file's fonts do not map to text: {lost}")
    return rows, notes + told(counts)


def _without_margins(pages: Sequence[list[Run]], counts: Counter[str]) -> list[list[Run]]:
    """Drop page numbers, and headers and footers except for their first occurrence.

    Such a line is at the same height on most pages, and a gap separates it from the other text; a
    page number must be the number of its page.
    """
    edges: list[dict[tuple[str, int], list[Run]]] = []
    for number, runs in enumerate(pages, start=1):
        edges.append({})
        for line in _edge_lines(runs):
            text = " ".join(run.text for run in line)
            text = re.sub(rf"(?<!\d){number}(?!\d)", "#", text, count=1)
            edges[-1][text, round(line[0].top / 2)] = line
    places = Counter(place for lines in edges for place in lines)
    seen: set[tuple[str, int]] = set()
    kept: list[list[Run]] = []
    for runs, lines in zip(pages, edges, strict=True):
        repeated = {one for one in lines if 1 < places[one] > len(pages) / 2}
        spare = {one for one in repeated if one in seen or "#" in one[0]}
        counts["lines of repeated page headers and footers"] += len(spare)
        kept.append([run for run in runs if not any(run in lines[one] for one in spare)])
        seen |= repeated
    return kept


def _edge_lines(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Yield up to three lines at either end of a page that a gap separates from the other text."""
    lines = by_line(runs)
    for ordered in (lines, lines[::-1]):
        for count, (one, other) in enumerate(pairwise(ordered[:4]), start=1):
            upper, lower = sorted((one[0], other[0]), key=lambda run: run.top)
            if lower.top - upper.bottom > 1.5 * upper.size:
                yield from ordered[:count]
                break


def _columns(runs: Sequence[Run]) -> list[list[Run]]:
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


def _gutter(runs: Sequence[Run]) -> tuple[float, float, float] | None:
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


def _stretches(runs: Sequence[Run], x: float) -> Iterator[list[Run]]:
    """Sort runs from top to bottom; split them at runs that cross the vertical line at `x`."""
    part: list[Run] = []
    for run in sorted(runs, key=lambda run: run.bottom):
        if run.x0 < x < run.x1:
            yield part
            part = []
        else:
            part.append(run)
    yield part


def _dated(runs: Sequence[Run]) -> bool:
    """Return whether most runs have a date, so that they belong to the column beside them."""
    return 2 * sum(bool(_DATE.search(run.text)) for run in runs) > len(runs)


def _lines(columns: Sequence[Sequence[Run]]) -> list[PageLine]:
    """Return the lines of all columns; infer the gap above and the role (hint) of each line."""
    lines = [(line, column) for column in columns for line in by_line(column)]
    runs = [run for line, _ in lines for run in line]
    letters: Counter[float] = Counter()
    for run in runs:
        letters[run.size] += len(run.text)
    body = letters.most_common(1)[0][0]
    largest = max(run.size for line, _ in lines[:8] for run in line)
    steps = sorted(b[0].top - a[0].top for (a, _), (b, _) in pairwise(lines))
    steps = [step for step in steps if step > 0]
    # The lower quartile of the steps is the usual line spacing; gaps are over 1.35 times as large.
    space = steps[len(steps) // 4] if steps else 12.0
    # Use the end of the first run, since dates at the right margin make lines wider than the text.
    ends = {id(column): [line[0].x1 for line, its in lines if its is column] for column in columns}
    found: list[PageLine] = []
    top = 0.0
    for line, column in lines:
        first = line[0]
        large = first.size > 1.15 * body
        bold = (first.bold or large) and len(first.text.split()) < 12
        hint: Hint = "entry" if bold and not first.text.endswith(":") else ""
        if large and first.size == largest:
            hint = "name"
        elif len(line) == 1 and looks_like_heading(first.text):
            hint = "heading"
        found.append(
            PageLine(
                "\t".join(run.text for run in line),
                first.x0,
                line[-1].x1,
                edge=max(ends[id(column)]),
                letter=(first.x1 - first.x0) / len(first.text),
                gap=not found or not 0 <= first.top - top <= 1.35 * space,
                hint=hint,
                style=(first.size, first.bold),
            )
        )
        top = first.top
    return found
