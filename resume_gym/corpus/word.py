"""Convert Word files (.docx), including tables, links and page headers, to `OutlineRow`s.

mammoth converts the body to HTML. Before that, hidden text, tracked deletions, prompts of empty
template fields and struck-through text are removed and counted. Bold type is dropped, but a short
paragraph that is entirely bold becomes a heading or a job header. Page headers come first and page
footers last.
"""

import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.parsers import expat

from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.markup import told
from resume_gym.corpus.outline import Hint, OutlineRow
from resume_gym.corpus.recognition import (
    PAGE_NUMBER,
    RAISED,
    clean,
    is_dated,
    link,
    looks_like_heading,
    split_bullet,
)
from resume_gym.support.user_errors import missing

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MOST_XML = 5_000_000
_BODY = ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml")
_KNOWN = {f"{_W}cr": f"{_W}br", f"{_W}ptab": f"{_W}tab"}
"""XML elements that mammoth ignores, and their equivalents that it reads."""
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
    counts: Counter[str] = Counter()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            xml = {part: archive.read(part) for part in _check_parts(archive)}
        trees = {part: ElementTree.fromstring(text) for part, text in xml.items()}
        styles = trees.get("word/styles.xml", Element("styles"))
        hidden, struck = _styles_with(styles, "vanish"), _styles_with(styles, "strike", "dstrike")
        for tree in trees.values():
            _remove_unseen(tree, hidden, struck, counts)
        html = mammoth.convert_to_html(
            _archive(trees),
            style_map=_STYLES,
            convert_image=no_image,
            ignore_empty_paragraphs=False,
        ).value
    except (zipfile.BadZipFile, KeyError, SyntaxError, OSError) as problem:
        raise DocumentError(f"it is damaged ({type(problem).__name__})") from None
    body = ElementTree.fromstring(f"<body>{html}</body>")
    above, below = _margin(trees, "header", counts), _margin(trees, "footer", counts)
    notes = ["footer moved to the end"] if below else []
    runs = (run for part in _BODY if part in trees for run in trees[part].iter(f"{_W}r"))
    colours = ((run, run.find(f"{_W}rPr/{_W}color")) for run in runs)
    white = (run for run, one in colours if one is not None and one.get(f"{_W}val") == "FFFFFF")
    if size := sum(len(_text_of(run)) for run in white):
        notes.append(f"white characters, which may be invisible, kept: {size}")
    text = "".join(_text_of(trees[part]) for part in _BODY if part in trees)
    lost = Counter(text) - Counter("".join(body.itertext()))
    left = sum(count for char, count in lost.items() if not char.isspace())
    counts["characters, for example in formulas or fields,"] = left
    counts["pictures"] = len([*body.iter("img")])
    counts["comments"] = len(trees.get("word/comments.xml", ()))
    return [*above, *_rows(body), *below], notes + told(counts)


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


def _styles_with(styles: Element, *names: str) -> AbstractSet[str]:
    """Return the IDs of the styles that have one of the properties, or inherit it."""
    found = {one.get(f"{_W}styleId", "") for one in styles if any(_is_on(one, x) for x in names)}
    while (
        more := {
            one.get(f"{_W}styleId", "")
            for one in styles
            if (base := one.find(f"{_W}basedOn")) is not None
            and base.get(f"{_W}val") in found
            and all(one.find(f"{_W}rPr/{_W}{name}") is None for name in names)
        }
        - found
    ):
        found |= more
    return found


def _remove_unseen(
    parent: Element, hidden: AbstractSet[str], struck: AbstractSet[str], counts: Counter[str]
) -> None:
    """Remove what Word does not show, and struck-through text; count it in `counts`.

    Args:
        parent: the element whose content is examined.
        hidden: IDs of the styles of hidden text.
        struck: IDs of the styles of struck-through text.
        counts: numbers of removed characters, fields and documents.
    """
    tags = [child.tag.rpartition("}")[2] for child in parent]
    for child, tag in zip([*parent], tags, strict=True):
        child.tag = _KNOWN.get(child.tag, child.tag)
        if tag in ("del", "moveFrom"):
            counts["deleted characters"] += len(_text_of(child))
        elif tag == "sdt" and child.find(f"{_W}sdtPr/{_W}showingPlcHdr") is not None:
            counts["empty template fields"] += 1
        elif _is_on(child, "vanish") or _style(child) in hidden:
            counts["hidden characters"] += len(_text_of(child))
        elif _is_on(child, "strike") or _is_on(child, "dstrike") or _style(child) in struck:
            counts["struck-through characters"] += len(_text_of(child))
        elif tag == "altChunk":
            counts["embedded documents"] += 1
        elif not (tag == "Choice" and "Fallback" in tags):  # mammoth reads "Fallback"
            _remove_unseen(child, hidden, struck, counts)
            continue
        parent.remove(child)


def _is_on(element: Element, name: str) -> bool:
    """Return whether a run or a style has the property `name` switched on."""
    found = element.find(f"{_W}rPr/{_W}{name}")
    return found is not None and found.get(f"{_W}val") not in ("0", "false", "off")


def _style(element: Element) -> str | None:
    paths = (f"{_W}rPr/{_W}rStyle", f"{_W}pPr/{_W}pStyle")
    found = (element.find(path) for path in paths)
    return next((one.get(f"{_W}val") for one in found if one is not None), None)


def _text_of(element: Element) -> str:
    tags = ("}t", "}delText")
    return "".join(one.text or "" for one in element.iter() if one.tag.endswith(tags))


def _archive(trees: Mapping[str, Element]) -> io.BytesIO:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for part, tree in trees.items():
            archive.writestr(part, ElementTree.tostring(tree))
    return data


def _margin(trees: Mapping[str, Element], place: str, counts: Counter[str]) -> list[OutlineRow]:
    """Return the distinct paragraphs of the headers or footers, without page numbers."""
    names = sorted(name for name in trees if re.match(rf"word/{place}\d*\.xml", name))
    paragraphs = (p for name in names for p in trees[name].iter(f"{_W}p"))
    texts = dict.fromkeys(clean("".join(_margin_text(p))).strip() for p in paragraphs)
    kept = [text for text in texts if text and not PAGE_NUMBER.fullmatch(text)]
    counts["page numbers"] += sum(map(bool, texts)) - len(kept)
    return [OutlineRow(text) for text in kept]


def _margin_text(element: Element) -> Iterator[str]:
    for child in element:
        if child.tag == f"{_W}t":
            yield child.text or ""
        elif child.tag in (f"{_W}tab", f"{_W}br"):
            yield "\t"
        elif child.tag != f"{_W}p":  # paragraphs in text boxes are rows of their own
            yield from _margin_text(child)


def _rows(parent: Element, level: int = 0, *, in_table: bool = False) -> Iterator[OutlineRow]:
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
                hint: Hint = "bullet" if marker else _hint(element, text, in_table)
                yield OutlineRow(text, hint, gap=gap, marker=marker or "-")
                gap = False
            gap = not lines


def _table(table: Element) -> Iterator[OutlineRow]:
    """Yield one row for each table row of one-line cells; yield other cells one after another."""
    for line in (*table.iterfind("tr"), *table.iterfind("*/tr")):
        cells = [rows for cell in line if (rows := [*_rows(cell, in_table=len(line) > 1)])]
        sizes = {len(cell) for cell in cells}
        dates = any(len(cell) == 1 and is_dated(cell[0].text) for cell in cells)
        plain = all(not row.hint for cell in cells for row in cell)
        labels = all(len(row.text.split()) <= 4 for cell in cells[:1] for row in cell)
        if len(cells) == 2 and len(sizes) == 2 and dates:
            # Dates belong to the job header in the cell beside them.
            (left, *rest), (right, *others) = cells
            yield OutlineRow(f"{left.text}\t{right.text}", "entry", gap=True)
            yield from (row._replace(gap=True) for row in (*rest, *others))
        elif len(cells) > 1 and (sizes == {1} or (len(sizes) == 1 and labels and plain)):
            # As many values as labels: each value belongs to the label beside it.
            for texts in zip(*([row.text for row in cell] for cell in cells), strict=True):
                yield OutlineRow("\t".join(texts), gap=True)
        else:
            for cell in cells:
                yield cell[0]._replace(gap=True)
                yield from cell[1:]


def _text(element: Element) -> str:
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


def _hint(element: Element, text: str, in_table: bool) -> Hint:
    if element.get("class") == "name":
        return "name"
    words = " ".join("".join(element.itertext()).split())
    bold = " ".join("".join(t for one in element.iter("strong") for t in one.itertext()).split())
    # "Languages:", or "Languages" in a table, is the label of a value.
    label = text.endswith(":") or (in_table and bold != words)
    if element.tag == "h1" or (looks_like_heading(text) and (text.isupper() or not label)):
        return "heading"
    short = len(text.split()) <= 12 and not text.endswith((".", ":"))
    return "entry" if element.tag != "p" or (bold == words and short) else ""
