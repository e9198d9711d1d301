"""Plain text to rows: headings in capitals or underlined, bullets of any mark, wrapped lines."""

import re
from collections.abc import Iterator

from resume_gym.corpus.outline import Row, clean, is_contact, looks_like_heading, split_bullet

_UNDERLINE = re.compile(r"\s*([=\-_~*#])\1{2,}\s*")


def text_rows(text: str) -> list[Row]:
    """The rows of a plain text; lines that a paragraph was broken into are joined."""
    lines = [line.rstrip().expandtabs(4) for line in clean(text).split("\n")]
    widest = max(map(len, lines), default=0)
    rows: list[Row] = []
    indents: list[int] = []  # of the bullets above, the outer ones first
    gap = headed = False
    before = ""
    for line, underlined in _without_rules(lines):
        body = line.strip()
        if not body:
            gap = True
            continue
        indent = _indent(line)
        marker, said = split_bullet(body)
        joins = rows and not gap and (headed or rows[-1].hint == "bullet")
        if marker:
            indents = [*(one for one in indents if one < indent), indent]
            rows.append(Row(said, "bullet", len(indents) - 1, gap, marker))
        elif rows and (underlined or looks_like_heading(body)):
            rows.append(Row(body, "heading", gap=gap))
            headed, indents = True, []
        elif joins and _continues(rows[-1], before, line, widest):
            rows[-1] = rows[-1]._replace(text=f"{rows[-1].text} {body}")
        else:
            rows.append(Row(_tabs(body), "name" if not rows and underlined else "", gap=gap))
            indents = []
        gap, before = False, line
    return rows


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _tabs(text: str) -> str:
    """Wide gaps made into tabs, which a reader of rows takes for columns."""
    return re.sub(r" {3,}", "\t", text)


def _without_rules(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Lines, and whether each is underlined; rules that underline nothing become blank."""
    for number, line in enumerate(lines):
        if _UNDERLINE.fullmatch(line):
            yield "", False
            continue
        below = lines[number + 1] if number + 1 < len(lines) else ""
        short = len(line.split()) <= 6 and not split_bullet(line.strip())[0]
        yield line, bool(line.strip()) and short and bool(_UNDERLINE.fullmatch(below))


def _continues(row: Row, before: str, line: str, widest: int) -> bool:
    """Whether a line goes on with the row above it, whose last line was `before`."""
    body = line.strip()
    if row.hint == "bullet":
        marked = bool(split_bullet(before.strip())[0])
        return _indent(line) >= _indent(before) + 2 * marked or body[:1].islower()
    if row.hint or "\t" in row.text or is_contact(body):
        return False
    # A line was broken where the next word did not fit.
    full = len(before) > 50 and len(before) + len(body.split()[0]) >= widest
    return full or body[:1].islower()
