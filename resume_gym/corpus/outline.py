"""Convert rows of text to the Markdown format of the environment.

The readers of plain text, PDF and Word files produce rows. A row's hint is its role according to
style, font or wording: for example, the name of a section is a "heading". All text is kept, in its
order. Rows without a hint become a job header only if they stand above bullets and their date can
be separated from their title; otherwise they become paragraphs. White space, bullet markers and
the case of headings may change.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from string import capwords
from typing import Literal, NamedTuple

from resume_gym.corpus.recognition import (
    TITLES,
    begins_with_symbol,
    bullet_symbols,
    columns,
    has_date,
    is_contact,
    is_date,
    is_dated,
    is_section,
    is_short,
    split_bullet,
    split_dates,
    unspaced,
)

CHECK = "its structure was inferred: check the Markdown"
"""Last note on a document whose structure was inferred."""

Hint = Literal["", "name", "heading", "entry", "bullet"]


class OutlineRow(NamedTuple):
    """A row of a document.

    Attributes:
        text: content, with tabs between columns.
        hint: role of the row, inferred from its style, font or wording; "" if unknown.
        level: depth of a bullet in nested lists; 0 in the outermost list.
        gap: whether there is vertical space above the row.
        marker: Markdown marker of a bullet.
    """

    text: str
    hint: Hint = ""
    level: int = 0
    gap: bool = False
    marker: str = "-"


_Block = tuple[str, str]  # kind and Markdown of a paragraph, heading or bullet

# words in names of sections whose rows become bullets
_LISTS = ("skill", "technolog", "language", "tools", "competenc", "expertise")

_RULE = re.compile(r"[-=_~*#•·–—\s]*")  # a drawn line, or a bullet without text
_MOST_WORDS = 14  # maximum number of words in a row of a job header
_MOST_ROWS = 5  # maximum number of rows of a job header
_STRUCTURAL = re.compile(r"#{1,6}\s|>")  # Markdown that paragraphs must not begin with


def write_markdown(rows: Iterable[OutlineRow]) -> str:
    """Convert rows to Markdown: "# Name", contact line, "## Section", "### Job", "- bullet"."""
    rows = _with_symbols(row for row in rows if not _RULE.fullmatch(row.text))
    if rows and rows[0].hint == "heading" and not is_section(unspaced(rows[0].text)):
        rows[0] = rows[0]._replace(hint="name")  # the row is a name that is styled like a heading
    first = next((n for n, row in enumerate(rows) if row.hint == "heading"), len(rows))
    blocks, used = _opening(rows[:first])
    section = ""
    pending: list[OutlineRow] = []
    for row, below in pairwise([*rows[used:], OutlineRow("", "heading")]):
        if row.hint not in ("heading", "bullet"):
            pending.append(row)
            continue
        blocks += _body(pending, section, row.hint == "bullet")
        pending = []
        text = " ".join(unspaced(row.text).split())
        if row.hint == "bullet":
            blocks.append(("bullet", f"{'  ' * row.level}{row.marker} {text}"))
            continue
        text = text.rstrip(": ")
        if text.isupper() and not is_section(text) and not below.hint and has_date(below.text):
            blocks.append(("text", text))  # perhaps an employer, and no section
            continue
        section = text.lower()
        # Keep one word of up to four capitals as it is, since it may be an acronym.
        capitals = text.isupper() and (len(text) > 4 or " " in text)
        blocks.append(("heading", f"## {capwords(text) if capitals else text}"))
    blocks += _body(pending, section, False)
    lines: list[str] = []
    for (above, _), (kind, text) in pairwise([("", ""), *blocks]):
        escaped = kind == "text" and _STRUCTURAL.match(text)
        apart = [""] if lines and not above == kind == "bullet" else []
        lines += [*apart, f"\\{text}" if escaped else text]
    return "\n".join(lines) + "\n" if lines else ""


def _with_symbols(rows: Iterable[OutlineRow]) -> list[OutlineRow]:
    """Turn rows that begin with the same symbol, such as an arrow, into bullets."""
    rows = list(rows)
    symbols = bullet_symbols(row.text for row in rows if row.hint != "bullet")
    return [
        row._replace(text=split_bullet(row.text, symbols)[1], hint="bullet")
        if row.hint != "bullet" and row.text[:1] in symbols
        else row
        for row in rows
    ]


def _opening(rows: Sequence[OutlineRow]) -> tuple[list[_Block], int]:
    """Return the blocks up to the contact line, and the number of leading rows they replace."""
    named = next((n for n, row in enumerate(rows) if row.hint == "name"), None)
    if named is None:
        titles = (row.text.strip().rstrip(":").lower() in TITLES for row in rows)
        named = next((n for n, title in enumerate(titles) if not title), 0)
    name, *contact = columns(unspaced(rows[named].text, name=True)) if rows else [""]
    likely = 0 < len(name.split()) <= 6 and not any(x in "@:|" or x.isdigit() for x in name)
    if not rows or (rows[named].hint != "name" and not likely):
        return [], 0
    used = named + 1
    for row in rows[used:]:
        parts = columns(row.text)
        fits = is_contact(row.text) or (is_short(parts) and not has_date(row.text))
        if row.hint in ("bullet", "entry") or not fits:
            break
        contact += parts
        used += 1
    above = [_paragraph(row) for row in rows[:named]]
    return [
        *above,
        ("name", f"# {name.lstrip('# ')}"),
        *([("text", " | ".join(contact))] * bool(contact)),
    ], used


def _body(rows: Sequence[OutlineRow], section: str, before_bullets: bool) -> Iterator[_Block]:
    """Convert the rows between two bullets or headings to job headers, bullets or paragraphs."""
    if any(word in section for word in _LISTS) and len(rows) > 1:
        yield from (("bullet", f"- {_labelled(row, listed=True)}") for row in rows)
        return
    groups = list(_groups(rows))
    for number, group in enumerate(groups, start=1):
        size, titles, details = _job_header(group, before_bullets and number == len(groups))
        if size:
            yield "entry", f"### {', '.join(titles)}"
        if details:
            yield "text", details
        yield from map(_paragraph, group[size:])


def _paragraph(row: OutlineRow) -> _Block:
    return "text", _labelled(row)


def _labelled(row: OutlineRow, *, listed: bool = False) -> str:
    """Return a row on one line: "label: value" or "column | column | column"."""
    parts = [" ".join(part.split()) for part in re.split(r"\t|   ", row.text) if part.strip()]
    if len(parts) == 2 and (listed or parts[0].endswith(":")):
        return f"{parts[0].rstrip(':')}: {parts[1]}"
    return " | ".join(parts)


def _groups(rows: Sequence[OutlineRow]) -> Iterator[list[OutlineRow]]:
    """Split rows at gaps, before rows with the hint "entry", and before possible bullets."""
    group: list[OutlineRow] = []
    for row in rows:
        # Dates below a gap belong to the group above if that group is one row, e.g. an employer.
        dangling = row.gap and len(group) == 1 and is_dated(row.text)
        dated = has_date(row.text) and any(has_date(above.text) for above in group)
        entry = row.hint == "entry" and group and (dated or group[-1].hint != "entry")
        if group and not dangling and (row.gap or entry or begins_with_symbol(row.text)):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _job_header(group: Sequence[OutlineRow], above_bullets: bool) -> tuple[int, list[str], str]:
    """Return the number of rows of a job header, its titles, and its other parts as one text.

    The number is 0 if there is no header. If the first row has no hint "entry", a header must stand
    above bullets, and exactly one of its rows must have a date, which is not part of the titles.
    """
    rows = [*takewhile(_is_head, group[:_MOST_ROWS])] or group[:1]
    parts = [part for row in rows for part in split_dates(row.text)]
    titled = next((row for row in rows if not is_date(row.text.strip())), rows[0])
    titles = [part for part in split_dates(titled.text) if not is_date(part)][:2]
    sure = above_bullets and sum(has_date(row.text) for row in rows) == 1
    if not titles or not (group[0].hint == "entry" or (sure and not has_date(" ".join(titles)))):
        return 0, [], ""
    for title in titles:
        parts.remove(title)
    return len(rows), titles, " | ".join(parts)


def _is_head(row: OutlineRow) -> bool:
    words = len(row.text.split())
    # A longer row that ends with a period is prose; a short row may be a name: "Globex Inc."
    return words <= _MOST_WORDS and (words <= 4 or not row.text.strip().endswith((".", ";")))
