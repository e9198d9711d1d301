"""Convert Word files (.docx), including tables, links and page headers, to `OutlineRow`s.

mammoth converts the body to HTML. Bold type is dropped, but a short paragraph that is entirely bold
becomes a heading or a job header. Page headers come first and page footers last.
"""

import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from xml.etree import ElementTree
from xml.parsers import expat

from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.outline import (
    PAGE_NUMBER,
    RAISED,
    Hint,
    OutlineRow,
    clean,
    is_dated,
    link,
    looks_like_heading,
    split_bullet,
)
from resume_gym.support.user_errors import missing

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MOST_XML = 5_000_000
_UNREAD = re.compile(rb"(?<=:)(?:cr|ptab)(?=[\s/>])")
"""Names of two XML elements that mammoth ignores: `cr` is a line break, `ptab` is a tab."""
_STYLES = """\
br[type='page'] => br
br[type='column'] => br
p[style-name='Title'] => p.name:fresh
p[style-name='List Bullet 2']:unordered-list(1) => ul|ol > li > ul > li:fresh
p[style-name='List Number 2']:ordered-list(1) => ul|ol > li > ol > li:fresh
p[style-name='List Bullet 3']:unordered-list(1) => ul|ol > li > ul|ol > li > ul > li:fresh
p[style-name='List Number 3']:ordered-list(1) => ul|ol > li > ul|ol > li > ol > li:fresh
"""


def word_rows(data: bytes) -> tuple[list[OutlineRow], list[str]]:
    """Return the rows of a Word file, and notes on omitted or moved content.

    Raises:
        DocumentError: the file is damaged, has a DOCTYPE declaration, or has over 5 MB of XML.
        ModuleNotFoundError: mammoth is not installed.
    """
    try:
        import mammoth
    except ImportError:
        raise missing("reading Word files needs", "mammoth", "data") from None
    no_image = mammoth.images.img_element(lambda image: {})
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = _check_parts(archive)
            above, below = _margin(archive, "header"), _margin(archive, "footer")
            text = "".join(_body_text(archive))
            readable = _readable(archive, parts)
        html = mammoth.convert_to_html(
            readable,
            style_map=_STYLES,
            convert_image=no_image,
            ignore_empty_paragraphs=False,
        ).value
    except (zipfile.BadZipFile, KeyError, SyntaxError, OSError) as problem:
        raise DocumentError(f"it is damaged ({type(problem).__name__})") from None
    body = ElementTree.fromstring(f"<body>{html}</body>")
    notes = ["footer moved to the end"] if below else []
    lost = Counter(text) - Counter("".join(body.itertext()))
    if left := sum(count for char, count in lost.items() if not char.isspace()):
        notes.append(f"characters left out, for example in formulas or fields: {left}")
    if pictures := len([*body.iter("img")]):
        notes.append(f"pictures left out: {pictures}")
    return [*above, *_rows(body), *below], notes


def _check_parts(archive: zipfile.ZipFile) -> set[str]:
    """Return the names of a file's XML parts; refuse large XML and DOCTYPE declarations.

    Checking the declared sizes is enough, since `zipfile` reads no more than the declared size.
    """
    roots: list[str] = []

    def refuse(*_: object) -> None:
        raise DocumentError("it has a DOCTYPE declaration, which Word files do not have")

    size, names = 0, set[str]()
    for part in archive.infolist():
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = refuse
        parser.StartElementHandler = lambda name, _: roots.append(name)
        roots.clear()
        with archive.open(part) as file, suppress(expat.ExpatError):  # not XML, but e.g. a picture
            while not roots and (piece := file.read(1 << 16)):
                parser.Parse(piece)
        if roots:
            size += part.file_size
            names.add(part.filename)
        if size > _MOST_XML:
            raise DocumentError(f"expected at most {_MOST_XML:,} bytes of XML, got {size:,}")
    return names


def _readable(archive: zipfile.ZipFile, names: Iterable[str]) -> io.BytesIO:
    """Copy parts to a new archive, with the elements `cr` and `ptab` renamed to `br` and `tab`."""
    copied = io.BytesIO()
    with zipfile.ZipFile(copied, "w") as copy:
        for name in names:
            xml = archive.read(name)
            known = _UNREAD.sub(lambda hit: b"br" if hit[0] == b"cr" else b"tab", xml)
            copy.writestr(name, known)
    return copied


def _margin(archive: zipfile.ZipFile, place: str) -> list[OutlineRow]:
    """Return the distinct paragraphs of the headers or footers, without page numbers."""
    names = sorted(name for name in archive.namelist() if re.match(rf"word/{place}\d*\.xml", name))
    paragraphs = [
        p for name in names for p in ElementTree.fromstring(archive.read(name)).iter(f"{_W}p")
    ]
    texts = dict.fromkeys(clean("".join(_margin_text(p))).strip() for p in paragraphs)
    return [OutlineRow(text) for text in texts if text and not PAGE_NUMBER.fullmatch(text)]


def _margin_text(element: ElementTree.Element) -> Iterator[str]:
    for child in element:
        if child.tag == f"{_W}t":
            yield child.text or ""
        elif child.tag in (f"{_W}tab", f"{_W}br", f"{_W}cr", f"{_W}ptab"):
            yield "\t"
        elif child.tag != f"{_W}p":  # paragraphs in text boxes are rows of their own
            yield from _margin_text(child)


def _body_text(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield all visible texts of the body, footnotes and endnotes, in no particular order."""
    parts = [f"word/{part}.xml" for part in ("document", "footnotes", "endnotes")]
    names = {*archive.namelist()}
    stack = [ElementTree.fromstring(archive.read(part)) for part in parts if part in names]
    while stack:
        element = stack.pop()
        tags = [child.tag.rpartition("}")[2] for child in element]
        hidden = ("moveFrom", "Choice" if "Fallback" in tags else "")
        if element.tag.endswith("}t"):
            yield element.text or ""
        stack += [child for child, tag in zip(element, tags, strict=True) if tag not in hidden]


def _rows(parent: ElementTree.Element, level: int = 0) -> Iterator[OutlineRow]:
    """Yield the rows of the paragraphs, lists and tables of an HTML element, in order."""
    gap = False
    for element in parent:
        if element.tag in ("ul", "ol"):
            for item in element:
                text = " ".join(_text(item).split())
                yield OutlineRow(split_bullet(text)[1], "bullet", level, gap)
                yield from _rows(item, level + 1)
                gap = False
        elif element.tag == "table":
            yield from _table(element)
            gap = True
        elif element.tag[0] in "ph":
            lines = [line.strip() for line in _text(element).split("\n") if line.strip()]
            for line in lines:
                marker, text = split_bullet(line)
                hint: Hint = "bullet" if marker else _hint(element, text)
                yield OutlineRow(text, hint, gap=gap, marker=marker or "-")
                gap = False
            gap = not lines


def _table(table: ElementTree.Element) -> Iterator[OutlineRow]:
    """Yield one `OutlineRow` per table row of one-line cells; read other rows cell by cell."""
    for line in (*table.iterfind("tr"), *table.iterfind("*/tr")):
        cells = [cell for cell in map(list, map(_rows, line)) if cell]
        if len(cells) > 1 and len(cells[0]) == 1 and is_dated(cells[0][0].text):
            # A cell with dates belongs to the job header in the cell beside it.
            head, *rest = cells[1]
            text = f"{head.text}\t{cells[0][0].text}"
            cells = [[head._replace(text=text, hint="entry" if rest else ""), *rest], *cells[2:]]
        if len(cells) > 1 and all(len(cell) == 1 and cell[0].hint != "bullet" for cell in cells):
            yield OutlineRow("\t".join(cell[0].text for cell in cells), gap=True)
            continue
        for cell in cells:
            yield cell[0]._replace(gap=True)
            yield from cell[1:]


def _text(element: ElementTree.Element) -> str:
    """Return the text of a paragraph or list item, without the lists in it."""
    pieces = [element.text or ""]
    for child in element:
        if child.tag == "br":
            pieces.append("\n")
        elif child.tag == "a":
            pieces.append(link(_text(child), child.get("href", "")))
        elif child.tag == "sup":
            text = _text(child)
            pieces.append("^" * bool(RAISED.match(text)) + text)
        elif child.tag not in ("ul", "ol", "table"):
            apart = "\n" * (child.tag == "p")  # a paragraph in a paragraph is a text box
            pieces += (apart, _text(child), apart)
        pieces.append(child.tail or "")
    return clean("".join(pieces))


def _hint(element: ElementTree.Element, text: str) -> Hint:
    if element.get("class") == "name":
        return "name"
    if element.tag == "h1" or looks_like_heading(text):
        return "heading"
    bold = "".join(part for strong in element.iter("strong") for part in strong.itertext())
    short = len(text.split()) <= 12 and not text.endswith(".")
    all_bold = bold.split() == "".join(element.itertext()).split()
    return "entry" if element.tag != "p" or (all_bold and short) else ""
