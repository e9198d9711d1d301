"""A session's page as text, in colour, and as a picture."""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from resume_gym.document import overflow_delimiter, wrap
from resume_gym.session import Session

if TYPE_CHECKING:
    from PIL import ImageFont
    from rich.text import Text

_FONT_SIZE, _LINE_HEIGHT, _CHAR_WIDTH, _MARGIN = 11, 15, 6, 12
_INK, _MUTED, _OVER, _PAPER = (30, 30, 30), (120, 120, 120), (190, 50, 40), (255, 255, 255)


def _rows(session: Session) -> list[str]:
    text, width = session.resume.removesuffix("\n"), session.rules.page_width
    return [row for line in text.split("\n") for row in wrap(line, width)] if text else []


def _status(session: Session) -> str:
    state, rules = session.state, session.rules
    ending = " | submitted" if state.submitted else " | out of turns" if state.done else ""
    return (
        f"{session.task.task_id} | lines {state.document.lines}/{rules.page_lines} | "
        f"turn {state.turns}/{rules.max_turns} | edits {state.edits} "
        f"({state.failed_edits} failed) | reward {state.reward:+.2f}{ending}"
    )


def _last_reply(session: Session) -> str:
    """The last tool's reply; of a review only the layout, since the page is shown anyway."""
    if not session.state.transcript:
        return ""
    reply = session.state.transcript[-1][1].observation
    lines = reply.split("\n")
    return reply if reply.startswith(("@@", "error")) else "\n".join(lines[-2:])


def ansi(session: Session) -> str:
    """The page with line numbers, the delimiter where it overflows, the last reply."""
    rows = [f"{number:>4}  {row}" for number, row in enumerate(_rows(session), start=1)]
    limit = session.rules.page_lines
    if len(rows) > limit:
        rows.insert(limit, overflow_delimiter(limit))
    return "\n".join([_status(session), "", *rows, "", _last_reply(session)])


def human(session: Session) -> None:
    """Print the page in colour."""
    from rich.console import Console, Group  # 60 ms that only this mode needs
    from rich.panel import Panel
    from rich.text import Text

    limit = session.rules.page_lines
    body = Text()
    for number, row in enumerate(_rows(session), start=1):
        over = number > limit
        if number == limit + 1:
            body.append(overflow_delimiter(limit) + "\n", "bold red")
        body.append(f"{number:>3} ", "dim")
        style = "red" if over else "bold" if row.startswith(("#", "**")) else ""
        body.append(row + "\n", style)
    panel = Panel(body, title=_status(session), title_align="left")
    Console().print(Group(panel, _diff(session, Text())))


def _diff(session: Session, text: "Text") -> "Text":
    styles = {"+": "green", "-": "red", "@": "cyan", "e": "bold red"}
    for line in _last_reply(session).split("\n"):
        text.append(line + "\n", styles.get(line[:1], "dim"))
    return text


@lru_cache(maxsize=1)
def _font() -> "ImageFont.FreeTypeFont | ImageFont.ImageFont":
    from PIL import ImageFont

    return ImageFont.load_default(_FONT_SIZE)


def rgb_array(session: Session) -> np.ndarray:
    """The page as a picture, uint8 [H, W, 3]; H and W depend on the page's size alone.

    A quarter of a page is kept for what overflows; the rest of it is counted, not drawn.
    """
    from PIL import Image, ImageDraw

    limit = session.rules.page_lines
    room = limit + max(limit // 4, 2)
    width = 2 * _MARGIN + (session.rules.page_width + 4) * _CHAR_WIDTH
    height = 2 * _MARGIN + (room + 4) * _LINE_HEIGHT
    # video codecs want even sides
    image = Image.new("RGB", (width + width % 2, height + height % 2), _PAPER)
    draw = ImageDraw.Draw(image)

    def write(row: int, text: str, colour: tuple[int, int, int]) -> None:
        draw.text((_MARGIN, _MARGIN + row * _LINE_HEIGHT), text, fill=colour, font=_font())

    write(0, _status(session), _MUTED)
    rows = _rows(session)
    for number, row in enumerate(rows[:room]):
        y = _MARGIN + (number + 2) * _LINE_HEIGHT
        draw.text((_MARGIN, y), str(number + 1), fill=_MUTED, font=_font())
        colour = _INK if number < limit else _OVER
        draw.text((_MARGIN + 4 * _CHAR_WIDTH, y), row, fill=colour, font=_font())
    edge = _MARGIN + (limit + 2) * _LINE_HEIGHT - 1
    draw.line([(_MARGIN, edge), (width - _MARGIN, edge)], fill=_OVER)
    if len(rows) > room:
        write(room + 2, f"and {len(rows) - room} more lines", _OVER)
    return np.asarray(image)
