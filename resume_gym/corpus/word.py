"""Word files (.docx) to rows: styles, lists, tables, headers, text boxes and links.

Bold type inside a paragraph is not kept; a short paragraph all in bold is a heading or the head
of a job.
"""

import io
import re
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from resume_gym.corpus.documents import DocumentError
from resume_gym.corpus.outline import Hint, Row, clean, is_dated, looks_like_heading, split_bullet
from resume_gym.mistakes import missing

if TYPE_CHECKING:
    from docx.document import Document as WordFile

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_PAGE = re.compile(r"(?:page\s+)?\d+(?:\s*(?:of|/)\s*\d+)?", re.IGNORECASE)
_MOST_BYTES = 100_000_000  # unpacked


def word_rows(data: bytes) -> tuple[list[Row], list[str]]:
    """The rows of a Word file, and notes on what was left out.

    Raises:
        DocumentError: it is damaged, or unreasonably large when unpacked.
        ModuleNotFoundError: python-docx is missing.
    """
    try:
        from docx import Document
        from docx.opc.exceptions import PackageNotFoundError
    except ImportError:
        raise missing("reading Word files needs", "python-docx", "data") from None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(one.file_size for one in archive.infolist())
        if size > _MOST_BYTES:
            raise DocumentError(f"expected at most {_MOST_BYTES:,} bytes unpacked, got {size:,}")
        file = Document(io.BytesIO(data))
    except (zipfile.BadZipFile, PackageNotFoundError, KeyError, SyntaxError, OSError) as problem:
        raise DocumentError(f"it is damaged ({type(problem).__name__})") from None
    rows = [*_margin(file, "header"), *_rows(file.element.body, file)]
    below = _margin(file, "footer")
    notes = ["footer put at the end"] if below else []
    if file.inline_shapes:
        notes.append(f"pictures left out: {len(file.inline_shapes)}")
    return [*rows, *below], notes


def _margin(file: "WordFile", place: str) -> list[Row]:
    """The rows of headers or footers, each once, without page numbers."""
    rows: dict[str, Row] = {}
    for section in file.sections:
        parts = [getattr(section, place)]
        if section.different_first_page_header_footer:
            parts.insert(0, getattr(section, f"first_page_{place}"))
        for part in parts:
            if not part.is_linked_to_previous:
                for row in _rows(part._element, part):
                    rows.setdefault(row.text, row)
    return [row for text, row in rows.items() if not _PAGE.fullmatch(text.strip())]


def _rows(parent: Any, owner: Any) -> Iterator[Row]:
    """The rows of the paragraphs and tables of an element, in order."""
    gap = False
    for element in parent:
        if element.tag == f"{_W}p":
            found = [*_paragraph(element, owner)]
            for row in found:
                yield row._replace(gap=row.gap or gap)
            gap = not found
        elif element.tag == f"{_W}tbl":
            yield from _table(element, owner)
            gap = True
        elif element.tag == f"{_W}sdt":
            for content in element.iterchildren(f"{_W}sdtContent"):
                yield from _rows(content, owner)


def _table(table: Any, owner: Any) -> Iterator[Row]:
    """The rows of a table: short cells side by side are columns, longer ones follow each other."""
    for line in table.iterchildren(f"{_W}tr"):
        cells = [list(_rows(cell, owner)) for cell in line.iterchildren(f"{_W}tc")]
        cells = [cell for cell in cells if cell]
        if len(cells) > 1 and len(cells[0]) == 1 and is_dated(cells[0][0].text):
            # Dates beside a job belong to its head.
            head, *rest = cells[1]
            text = f"{head.text}\t{cells[0][0].text}"
            cells = [[head._replace(text=text, hint="entry" if rest else ""), *rest], *cells[2:]]
        if len(cells) > 1 and all(len(cell) == 1 and cell[0].hint != "bullet" for cell in cells):
            yield Row("\t".join(cell[0].text for cell in cells), gap=True)
            continue
        for cell in cells:
            yield cell[0]._replace(gap=True)
            yield from cell[1:]


def _paragraph(element: Any, owner: Any) -> Iterator[Row]:
    """The rows of a paragraph, one for each of its lines; then those of its text boxes."""
    from docx.text.paragraph import Paragraph

    paragraph = Paragraph(element, owner)
    text = clean(_text(element, paragraph))
    name = (paragraph.style.name or "").lower() if paragraph.style else ""
    depth = _list_level(element, paragraph)
    space = paragraph.paragraph_format.space_before
    for number, line in enumerate(part for part in text.split("\n") if part.strip()):
        marker, said = split_bullet(line.strip())
        gap = not number and bool(space and space.pt >= 6)
        if (depth is not None and not number) or marker:
            yield Row(said, "bullet", depth or 0, gap, marker or "-")
        else:
            yield Row(line.strip(), _hint(name, said, element, paragraph), gap=gap)
    boxes = element.iter(f"{_W}txbxContent")
    for box in boxes:
        # Word writes each box twice, the second time for readers that do not know shapes.
        if not any("Fallback" in str(one.tag) for one in box.iterancestors()):
            yield from _rows(box, owner)


def _text(element: Any, paragraph: Any) -> str:
    """The text of a paragraph with its links; insertions count, deletions do not."""
    from docx.text.run import Run

    pieces: list[str] = []
    link, start = None, 0
    for run in [*element.iter(f"{_W}r"), None]:
        outer = None if run is None else _within(run, element)
        if run is not None and outer is False:
            continue
        if outer is not link:
            _close_link(pieces, start, link, paragraph)
            link, start = outer, len(pieces)
        if run is not None:
            pieces.append(Run(run, paragraph).text)
    return "".join(pieces)


def _within(run: Any, paragraph: Any) -> Any:
    """The link that a run of a paragraph stands in, None for none, False for a text box."""
    link = None
    for one in run.iterancestors():
        if one is paragraph:
            return link
        if one.tag in (f"{_W}txbxContent", f"{_W}del", f"{_W}moveFrom"):
            return False
        if one.tag == f"{_W}hyperlink":
            link = one
    return link


def _close_link(pieces: list[str], start: int, link: Any, paragraph: Any) -> None:
    """Write the pieces of a link as [text](address), unless the text is the address."""
    relation = None if link is None else link.get(f"{_R}id")
    text = "".join(pieces[start:])
    if not relation or not text.strip():
        return
    address = paragraph.part.rels[relation].target_ref.removeprefix("mailto:")
    bare = re.sub(r"^https?://(www\.)?", "", address).rstrip("/")
    if bare.lower() not in text.lower():
        pieces[start:] = [f"[{text.strip()}]({address})" + " " * text.endswith(" ")]


def _list_level(element: Any, paragraph: Any) -> int | None:
    """The level of a list's item, by its own numbering or its style's; None for other text."""
    style = paragraph.style
    name = (style.name or "") if style else ""
    if name.startswith("Heading"):
        return None  # numbered headings
    listed = re.match(r"List (?:Bullet|Number)(?: (\d))?", name)
    for properties in (element.pPr, style.element.pPr if style else None):
        number = None if properties is None else properties.numPr
        if number is not None and (number.numId is None or number.numId.val != 0):
            own = number.ilvl.val if number.ilvl is not None else 0
            return max(own, int(listed[1]) - 1) if listed and listed[1] else own
    return int(listed[1] or 1) - 1 if listed else None


def _hint(style: str, text: str, element: Any, paragraph: Any) -> Hint:
    if style == "title":
        return "name"
    if style in ("heading 1", "heading 2", "heading 3", "heading 4"):
        return "heading" if style == "heading 1" or looks_like_heading(text) else "entry"
    if looks_like_heading(text):
        return "heading"
    runs = [run for run in paragraph.runs if run.text.strip()]
    bold = bool(runs) and all(run.bold for run in runs)
    return "entry" if bold and len(text.split()) <= 12 and not text.endswith(".") else ""
