"""Functions that edit paragraphs, and runs of equally formatted text, in a Word file's XML."""

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
"""XML namespace of Word's elements."""

_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_SHAPES = (f"{W}drawing", f"{W}pict", f"{W}object")
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def paragraphs_of(document: Any) -> Iterator[Any]:
    """Yield a document's nonempty paragraphs, in the order in which `corpus.word` reads them."""
    margins = [
        (place, rel.target_part.element)
        for rel in document.part.rels.values()
        for place in ("header", "footer")
        if not rel.is_external and rel.reltype.endswith(f"/{place}")
    ]
    above, below = ([root for at, root in margins if at == place] for place in ("header", "footer"))
    for root in (*above, document.element.body, *below):
        for paragraph in root.iter(f"{W}p"):
            hidden = any(parent.tag == _FALLBACK for parent in paragraph.iterancestors())
            if not hidden and text_of(paragraph).strip():
                yield paragraph


def texts_of(paragraph: Any) -> list[Any]:
    """Return the text elements of a paragraph, without those of text boxes in it."""
    return [
        text for text in paragraph.iter(f"{W}t") if next(text.iterancestors(f"{W}p")) is paragraph
    ]


def text_of(paragraph: object) -> str:
    """Return the text of a paragraph."""
    return "".join(text.text or "" for text in texts_of(paragraph))


def add_run(parent: Any, text: str, style: object, mark: str = "") -> None:
    """Append a run with the properties `style`; `mark` is "b" (bold), "i" (italic) or ""."""
    if not text:
        return
    run = parent.makeelement(f"{W}r")
    if style is not None:
        run.append(deepcopy(style))
    parent.append(run)
    if mark:
        getattr(run.get_or_add_rPr(), f"get_or_add_{mark}")()
    element = run.makeelement(f"{W}t")
    _set(element, text)
    run.append(element)


def _set(element: Any, text: str) -> None:
    element.text = _NO_XML.sub("\ufffd", text)
    element.set(_SPACE, "preserve")


def splice(texts: Sequence[Any], start: int, stop: int, new: str) -> None:
    """Replace characters [start, stop) of the joined texts; the first affected text gets `new`."""
    at = 0
    for text in texts:
        body = text.text or ""
        first, last = max(start - at, 0), min(stop - at, len(body))
        at += len(body)
        if first <= last and (first < last or new):
            _set(text, body[:first] + new + body[last:])
            new = ""


def clear(paragraph: Any) -> None:
    """Remove the content of a paragraph, except its properties and pictures."""
    for child in list(paragraph):
        if child.tag != f"{W}pPr" and not any(True for _ in child.iter(*_SHAPES)):
            paragraph.remove(child)


def loosen(paragraph: Any) -> Any:
    """Remove section ends, bookmarks and pictures from a copied paragraph; return the paragraph."""
    once = ("sectPr", "bookmarkStart", "bookmarkEnd", "drawing", "pict", "object")
    for element in list(paragraph.iter(*(f"{W}{name}" for name in once))):
        element.getparent().remove(element)
    return paragraph


def remove(paragraph: Any) -> None:
    """Remove a paragraph, or only its text if it has a picture, a section end or no sibling."""
    alone = len(paragraph.getparent().findall(f"{W}p")) == 1
    if alone or any(True for _ in paragraph.iter(f"{W}sectPr", *_SHAPES)):
        clear(paragraph)
    else:
        paragraph.getparent().remove(paragraph)
