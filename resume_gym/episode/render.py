"""Rendering of a session's page as plain text, coloured terminal output or an image."""

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from resume_gym.episode.document import overflow_delimiter, wrap
from resume_gym.episode.editing import AnySession
from resume_gym.support.printing import CONTROLS
from resume_gym.support.user_errors import number_of

if TYPE_CHECKING:
    from PIL import ImageFont

Colour = tuple[int, int, int]

# Image dimensions are in pixels. Text is drawn _SCALE times larger, then downsampled to smooth it.
_SCALE, _FONT_SIZE, _ROW, _CHAR, _MARGIN = 2, 12, 16, 6, 12
_REPLY_ROWS = 6
REPLY_STYLES = {"+": "green", "-": "red", "@": "cyan", "e": "bold red"}
"""Rich style of a line of a reply, by the line's first character."""

_INK, _MUTED, _HEADING = (35, 35, 40), (140, 140, 145), (25, 60, 120)
_DESK, _PAPER, _EDGE = (236, 236, 233), (255, 255, 255), (205, 205, 200)
_RED, _GREEN = (185, 45, 40), (25, 120, 60)
# Pillow's built-in font has few glyphs beyond ASCII
_PLAIN = str.maketrans("–—−•→", "---·>")


def _rows(session: AnySession) -> list[str]:
    text = session.text.removesuffix("\n").translate(CONTROLS)
    width = session.rules.page_width
    return [row for line in text.split("\n") for row in wrap(line, width)] if text else []


def _status(session: AnySession) -> str:
    state, rules = session.state, session.rules
    ending = " | submitted" if state.submitted else " | out of turns" if state.done else ""
    name = session.task.task_id.translate(CONTROLS)
    return (
        f"{name} | lines {state.document.lines}/{rules.page_lines} | "
        f"turn {state.turns}/{rules.max_turns} | edits {state.edits} "
        f"({state.failed_edits} failed) | reward {state.reward:+.2f}{ending}"
    )


def last_reply(session: AnySession) -> list[str]:
    """Return the lines of the last reply, or only its status lines if the reply shows a text."""
    if not session.state.transcript:
        return []
    step = session.state.transcript[-1][1]
    rows = step.observation.translate(CONTROLS).split("\n")
    return rows if "edit" in step.ledger or step.error != "none" else rows[-2:]


def ansi(session: AnySession) -> str:
    """Return the status, the numbered page with a marker at the page limit, and the last reply."""
    rows = [f"{number:>4}  {row}" for number, row in enumerate(_rows(session), start=1)]
    limit = session.rules.page_lines
    if len(rows) > limit:
        rows.insert(limit, overflow_delimiter(limit))
    return "\n".join([_status(session), "", *rows, "", *last_reply(session)])


def human(session: AnySession) -> None:
    """Print the status, the page and the last reply in colour."""
    # imported here, since the import takes 60 ms and the other modes do not need it
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from resume_gym.support.terminal import Terminal

    limit = session.rules.page_lines
    page = Table.grid(padding=(0, 1))
    page.add_column(justify="right", style="dim", no_wrap=True)
    for number, row in enumerate(_rows(session), start=1):
        if number == limit + 1:
            page.add_row("", Text(overflow_delimiter(limit), "bold red"))
        style = "red" if number > limit else "bold" if row.startswith(("#", "**")) else ""
        page.add_row(str(number), Text(row, style))
    console = Terminal()
    console.print(Panel(page, title=Text(_status(session)), title_align="left"))
    for row in last_reply(session):
        console.print(Text(row, REPLY_STYLES.get(row[:1], "dim")))


@lru_cache(maxsize=1)
def _font() -> "ImageFont.FreeTypeFont | ImageFont.ImageFont":
    from PIL import ImageFont

    return ImageFont.load_default(_SCALE * _FONT_SIZE)


def _drawable(text: str) -> str:
    """Reduce a text to the font's glyphs: drop accents, replace dashes and bullets."""
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return "".join(char for char in parts if not unicodedata.combining(char))


def rgb_array(session: AnySession) -> np.ndarray:
    """Draw the page as an image, uint8 [H, W, 3]; H and W depend only on the page size.

    The image has space below the page for the last reply and for a quarter page of lines beyond the
    page limit (at least two). If there are more such lines, the image states how many are not
    shown.
    """
    from PIL import Image, ImageDraw

    rules, rows = session.rules, _rows(session)
    limit, spill = rules.page_lines, max(rules.page_lines // 4, 2)
    width = 4 * _MARGIN + (rules.page_width + 4) * _CHAR
    top = 3 * _MARGIN
    reply_top = top + (limit + 1 + spill) * _ROW + _MARGIN
    height = reply_top + _REPLY_ROWS * _ROW + _MARGIN
    # video codecs require even dimensions
    image = Image.new("RGB", (_SCALE * (width + width % 2), _SCALE * (height + height % 2)), _DESK)
    draw = ImageDraw.Draw(image)

    def write(x: int, y: int, text: str, colour: Colour, bold: bool = False) -> None:
        at = (_SCALE * x, _SCALE * y)
        draw.text(at, _drawable(text), colour, _font(), stroke_width=int(bold))

    sheet = (_MARGIN, top - _ROW // 4, width - _MARGIN, top + limit * _ROW + _ROW // 4)
    draw.rectangle([_SCALE * side for side in sheet], _PAPER, _EDGE, _SCALE)
    write(_MARGIN, _MARGIN, _status(session), _MUTED)
    for number, row in enumerate(rows[: limit + spill]):
        y = top + number * _ROW + (_ROW // 2 if number >= limit else 0)
        heading = row.startswith("#")
        write(2 * _MARGIN, y, str(number + 1), _MUTED)
        colour = _RED if number >= limit else _HEADING if heading else _INK
        write(2 * _MARGIN + 4 * _CHAR, y, row, colour, heading)
    if len(rows) > limit + spill:
        y = top + (limit + spill) * _ROW + _ROW // 2
        more = number_of(len(rows) - limit - spill, "more line")
        write(2 * _MARGIN, y, f"and {more}", _RED)
    colours = {"+": _GREEN, "-": _RED, "e": _RED}
    for number, row in enumerate(_reply_rows(session)):
        write(_MARGIN, reply_top + number * _ROW, row, colours.get(row[:1], _MUTED))
    return np.asarray(image.reduce(_SCALE))


def _reply_rows(session: AnySession) -> list[str]:
    """Shorten the last reply to the rows and columns reserved for it in the image."""
    width = session.rules.page_width
    rows = [row[:width] + "..." if len(row) > width else row for row in last_reply(session)]
    if len(rows) <= _REPLY_ROWS:
        return rows
    return [*rows[: _REPLY_ROWS - 3], "...", *rows[-2:]]
