"""Scrollable document widget: numbered and wrapped lines, page end, selection of text."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from resume_gym.document import wrap
from resume_gym.editing import Rules
from resume_gym.render import visible

_GUTTER = 5  # cells of a line number and a space
_MARKER = re.compile(r"^(#+|\s*[-*+])\s+")


class PageRow(NamedTuple):
    """Row of the pane: a part of a page line, or the edge of the page.

    Attributes:
        number: page line, from 1; 0 for continuation rows and the edge.
        line: source line, from 0; -1 for the edge.
        start: source column of the first character.
        text: displayed text, with one character per source character.
        over: whether the row lies beyond the page.
    """

    number: int
    line: int
    start: int
    text: str
    over: bool


def page_rows(text: str, rules: Rules, width: int) -> list[PageRow]:
    """Return the rows of a pane `width` cells wide; narrow panes fold page lines."""
    rows: list[PageRow] = []
    number = 0
    for line, source in enumerate(text.removesuffix("\n").split("\n") if text else []):
        at = 0
        for piece in wrap(source, rules.page_width):
            start = source.index(piece, at)  # `wrap` drops the spaces at line breaks
            at = start + len(piece)
            number += 1
            if number == rules.page_lines + 1:
                rows.append(
                    PageRow(0, -1, 0, f"the page ends here: {rules.page_lines} lines", True)
                )
            over = number > rules.page_lines
            for column, part in fold(visible(piece), width):
                rows.append(PageRow(0 if column else number, line, start + column, part, over))
    if number <= rules.page_lines:
        free = rules.page_lines - number
        rows.append(PageRow(0, -1, 0, f"{free} of {rules.page_lines} lines left", False))
    return rows


def fold(text: str, width: int) -> Iterator[tuple[int, str]]:
    """Split a text into parts of at most `width` cells; yield (start column, part) pairs."""
    start = 0
    while cell_len(text[start:]) > width:
        end, cells = start, 0
        while (cells := cells + cell_len(text[end])) <= width:
            end += 1
        # break after the last space, else anywhere; a part has at least one character
        end = text.rfind(" ", start, end) + 1 or max(end, start + 1)
        yield start, text[start:end]
        start = end
    if start < len(text) or not text:
        yield start, text[start:]


def changed_lines(diff: str) -> frozenset[int]:
    """Return the numbers, from 0, of the lines that a unified diff without context added."""
    lines: set[int] = set()
    for first, count in re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", diff, re.MULTILINE):
        lines.update(range(int(first) - 1, int(first) - 1 + int(count or 1)))
    return frozenset(lines)


class Page(ScrollView, can_focus=True):
    """Document view; the mouse selects text, the keys select lines."""

    COMPONENT_CLASSES = {  # noqa: RUF012
        "page--number", "page--edge", "page--over", "page--heading", "page--changed",
        "page--match", "page--cursor",
    }  # fmt: skip
    DEFAULT_CSS = """
    Page { scrollbar-size-vertical: 1; overflow-x: hidden; overflow-y: scroll; }
    Page .page--number { text-style: dim; }
    Page .page--edge { text-style: dim; }
    Page .page--over { color: $text-error; }
    Page .page--heading { text-style: bold; }
    Page .page--changed { color: $text-success; }
    Page .page--match { background: $warning-muted; }
    Page .page--cursor { background: $primary-muted; }
    """
    BINDINGS = [  # noqa: RUF012
        Binding("up", "move(-1)", "Line up", show=False),
        Binding("down", "move(1)", "Line down", show=False),
        Binding("shift+up", "move(-1, True)", "Extend", show=False),
        Binding("shift+down", "move(1, True)", "Extend", show=False),
        Binding("pageup", "move(-10)", "Up", show=False),
        Binding("pagedown", "move(10)", "Down", show=False),
        Binding("enter,space", "pick", "Take text"),
        Binding("delete", "pick(True)", "Take line"),
    ]

    class Picked(Message):
        """Message that document text was picked for the form."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    def __init__(self, rules: Rules, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._rules = rules
        self._text = ""
        self._rows: list[PageRow] = []
        self._changed: frozenset[int] = frozenset()
        self._matches: dict[int, list[tuple[int, int]]] = {}
        self._cursor = self._anchor = 0

    @property
    def lines(self) -> list[str]:
        """Source lines; a final newline does not start another line."""
        return self._text.removesuffix("\n").split("\n")

    def show(self, text: str, changed: frozenset[int] = frozenset()) -> None:
        """Display a document and scroll to the first of its changed lines."""
        self._text, self._changed = text, changed
        self._cursor = self._anchor = min(self._cursor, len(self.lines) - 1)
        self._matches = {}
        self._fold()
        if changed:
            self._reveal(min(changed))

    def mark(self, spans: Sequence[tuple[int, int]]) -> None:
        """Highlight the (start, end) spans of a text and scroll to the first."""
        self._matches = {}
        for start, stop in spans:
            first = self._text.count("\n", 0, start)
            at = self._text.rfind("\n", 0, start) + 1
            for number, part in enumerate(self._text[at:stop].split("\n")):
                column = start - at if number == 0 else 0
                self._matches.setdefault(first + number, []).append((column, len(part)))
        if self._matches:
            self._reveal(min(self._matches))
        self.refresh()

    def _fold(self) -> None:
        width = self.size.width - _GUTTER
        if width > 0:
            self._rows = page_rows(self._text, self._rules, width)
            self.virtual_size = Size(self.size.width, len(self._rows))
        self.refresh()

    def on_resize(self) -> None:
        """Fold the lines to the new width."""
        self._fold()

    def _reveal(self, line: int) -> None:
        rows = [number for number, row in enumerate(self._rows) if row.line == line]
        if rows:
            region = Region(0, rows[0], 1, len(rows))
            self.scroll_to_region(region, animate=False, force=True, x_axis=False)

    def action_move(self, by: int, extend: bool = False) -> None:
        """Move the cursor by lines; `extend` keeps the start of the selection."""
        self._cursor = max(0, min(self._cursor + by, len(self.lines) - 1))
        if not extend:
            self._anchor = self._cursor
        self._reveal(self._cursor)
        self.refresh()

    def action_pick(self, whole: bool = False) -> None:
        """Pick the selected lines for the form.

        A single line loses its heading or bullet marker. With `whole`, the text keeps it and
        includes a line break, so that deleting the text removes the lines.
        """
        lines = self.lines
        first, last = sorted((self._anchor, self._cursor))
        text = "\n".join(lines[first : last + 1])
        if whole:
            # without a final newline, take the line break before the last line
            at_end = last + 1 == len(lines) and not self._text.endswith("\n")
            text = f"\n{text}" if at_end and first else text if at_end else f"{text}\n"
        elif first == last:
            text = _MARKER.sub("", text)
        if text:
            self.post_message(self.Picked(text))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked line; a double click picks the line."""
        offset = event.style.meta.get("offset")
        if offset:
            self._cursor = self._anchor = min(offset[1], len(self.lines) - 1)
            self.refresh()
            if event.chain == 2:
                self.action_pick()
        if event.chain > 1:
            event.prevent_default()  # Textual would select the whole widget

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected source text and its end, without line numbers and folds."""
        lines = self.lines
        # `render_line` attaches source columns and lines to the strips
        start, end = selection
        first, left = (start.y, start.x) if start else (0, 0)
        last, right = (end.y, end.x) if end else (len(lines) - 1, len(lines[-1]))
        last = min(last, len(lines) - 1)
        if first > last:
            return None
        part = lines[first : last + 1]
        part[-1] = part[-1][:right]
        part[0] = part[0][left:]
        return "\n".join(part), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Redraw the selection."""
        self.refresh()

    def render(self) -> str:
        """Return an empty text; `render_line` draws the rows."""
        return ""

    def render_line(self, y: int) -> Strip:
        """Render one row of the pane."""
        number, width = self.scroll_offset.y + y, self.size.width
        style = self.rich_style
        if number >= len(self._rows):
            return Strip.blank(width, style)
        row = self._rows[number]
        if row.line < 0:
            edge_style = style + self._look("over" if row.over else "edge")
            edge = f"──── {row.text} ".ljust(width, "─")[:width]
            return _margin(edge, edge_style, self._after(number))
        gutter = _margin(f"{row.number or '':>4} ", style + self._look("number"), row)
        body = Strip(self._styled(row).render(self.app.console))
        body = body.extend_cell_length(max(0, width - _GUTTER)).apply_style(style)
        return Strip.join([gutter, body.apply_offsets(row.start, row.line)])

    def _after(self, number: int) -> PageRow:
        """Return the next text row, or the end of the document."""
        end = PageRow(0, len(self.lines) - 1, len(self.lines[-1]), "", False)
        return next((row for row in self._rows[number:] if row.line >= 0), end)

    def _look(self, part: str) -> Style:
        return self.get_component_rich_style(f"page--{part}", partial=True)

    def _styled(self, row: PageRow) -> Text:
        text = Text(row.text, end="", no_wrap=True)
        source = self.lines[row.line]
        if row.over:
            text.stylize(self._look("over"))
        elif row.line in self._changed:
            text.stylize(self._look("changed"))
        if source.startswith("#"):
            text.stylize(self._look("heading"))
        first, last = sorted((self._anchor, self._cursor))
        if self.has_focus and first <= row.line <= last:
            text.stylize(self._look("cursor"))
        for start, stop in self._matches.get(row.line, ()):
            text.stylize(self._look("match"), max(0, start - row.start), max(0, stop - row.start))
        selection = self.text_selection
        span = selection.get_span(row.line) if selection else None  # -1: the line end
        if span:
            start, stop = span[0] - row.start, (len(source) if span[1] < 0 else span[1]) - row.start
            selected = self.screen.get_component_rich_style("screen--selection")
            text.stylize(selected, max(0, start), max(0, stop))
        return text


def _margin(text: str, style: Style, row: PageRow) -> Strip:
    """Return a strip outside the text; selections there refer to the row's start."""
    offset = Style.from_meta({"offset": (row.start, row.line)})
    return Strip([Segment(letter, style + offset) for letter in text])
