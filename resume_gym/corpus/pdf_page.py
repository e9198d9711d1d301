"""Read the visible characters of a PDF page, and count the invisible ones."""

from collections import Counter
from typing import Any

from pdfminer.converter import PDFPageAggregator
from pdfminer.pdfinterp import PDFPageInterpreter

# A PDF draws text in render mode 3 invisibly. Such text gets this value in place of its colour.
_UNPAINTED = ("unpainted",)
_INVISIBLE_MODE = 3
_LEAST_SIZE = 1.5  # size of readable characters in points


class _Device(PDFPageAggregator):
    """Layout device that records which text is not painted."""

    def render_string(self, textstate: Any, seq: Any, ncs: Any, graphicstate: Any) -> None:
        if textstate.render == _INVISIBLE_MODE:
            graphicstate.ncolor = _UNPAINTED
        super().render_string(textstate, seq, ncs, graphicstate)


def visible_page(page: Any, manager: Any, counts: Counter[str]) -> Any:
    """Return a page of pdfplumber without invisible characters and without duplicates.

    Invisible characters, and pictures, are counted in `counts`. A character is invisible if it lies
    outside the page, is tiny, is white with nothing behind it, or is drawn in the text mode for
    invisible text. Characters over a picture are kept, since OCR puts the text of a scanned page
    there. A duplicate is a character that is drawn again at the same place.
    """
    device = _Device(manager, pageno=page.page_number)
    PDFPageInterpreter(manager, device).process_page(page.page_obj)
    page._layout = device.get_result()  # pdfplumber's own device drops the text mode
    counts["pictures"] += len(page.images)
    shapes = [one for one in (*page.rects, *page.curves) if one["fill"] and not _is_white(one)]
    shaded = "Shading" in (page.page_obj.resources or {})  # may be behind any text
    left, top, right, bottom = page.cropbox

    def is_visible(char: Any) -> bool:
        x, y = (char["x0"] + char["x1"]) / 2, (char["top"] + char["bottom"]) / 2
        if not (left <= x <= right and top <= y <= bottom) or char["size"] < _LEAST_SIZE:
            return False
        painted = char["non_stroking_color"] != _UNPAINTED
        behind = (*page.images, *(shapes if painted else ()))
        if painted and (shaded or not _is_white(char)):
            return True
        return any(
            one["x0"] <= x <= one["x1"] and one["top"] <= y <= one["bottom"] for one in behind
        )

    # pdfplumber's own filter for characters printed twice, `dedupe_chars`, takes quadratic time
    seen: dict[tuple[str, int, int], tuple[float, float]] = {}

    def is_shown(one: Any) -> bool:
        if one["object_type"] != "char":
            return True
        if not is_visible(one):
            counts["invisible characters"] += not one["text"].isspace()
            return False
        text, x, y = one["text"], one["x0"], one["top"]
        column, row = round(x), round(y)
        for key in ((text, column + i, row + j) for i in (-1, 0, 1) for j in (-1, 0, 1)):
            other = seen.get(key, (x + 9, y))
            if abs(other[0] - x) <= 1 and abs(other[1] - y) <= 1:
                return False
        seen[text, column, row] = x, y
        return True

    return page.filter(is_shown)


def _is_white(one: Any) -> bool:
    """Return whether the fill colour of a character or a shape is white, or nearly so."""
    parts = one["non_stroking_color"]
    parts = parts if isinstance(parts, list | tuple) else (parts,)
    if not parts or not all(isinstance(part, int | float) for part in parts):
        return False  # a pattern
    if one.get("ncs") in ("Separation", "Indexed", "DeviceN"):
        return False
    return bool(max(parts) <= 0.05 if len(parts) == 4 else min(parts) >= 0.95)
