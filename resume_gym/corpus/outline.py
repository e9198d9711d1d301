"""Convert rows of text to the Markdown format of the environment.

The readers of plain text, PDF and Word files produce rows. A row's hint is its role according to
style, font or wording: for example, a row in capitals is a "heading". A row without a hint becomes
a job header if it has a date or stands above bullets. All text is kept except titles such as
"Resume". White space, bullet markers and the case of headings may change.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from string import capwords
from typing import Literal, NamedTuple

from resume_gym.text.languages import SPAN, starts_with_day
from resume_gym.text.lines import LEXICON

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

_SECTIONS = frozenset(LEXICON["words"]["sections"])
_SPARE = frozenset(LEXICON["words"]["padding_sections"])
_LONE = frozenset(  # section names that need not be in capitals to count as headings
    {
        *("summary", "profile", "objective", "experience", "education", "skills", "projects"),
        *("certifications", "certificates", "awards", "publications", "languages"),
        *("volunteering", "interests", "references", "employment"),
    }
)
TITLES = ("resume", "résumé", "resumé", "curriculum vitae", "cv", "lebenslauf")
"""Titles, in lower case, with which a resume may begin instead of the name."""
# words in names of sections whose rows become paragraphs (_PROSE) or bullets (_LISTS)
_PROSE = ("summary", "profile", "about", "objective", "overview", "references", "interests")
_LISTS = ("skill", "technolog", "language", "tools", "competenc", "expertise")

PAGE_NUMBER = re.compile(r"(?:page\s+)?\d+(?:\s*(?:of|/)\s*\d+)?", re.IGNORECASE)
# Zero-width joiners are not removed: Persian, Indic scripts and emoji need them.
_INVISIBLE = [0xAD, 0x61C, 0x180E, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F),
              *range(0x2060, 0x2070), 0xFEFF]  # fmt: skip
_LIGATURES = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
LINE_ENDS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""Characters that end a line."""
_PLAIN = _LIGATURES | dict.fromkeys(_INVISIBLE, "") | dict.fromkeys(map(ord, LINE_ENDS), "\n")
_BLANK = re.compile(r"[^\S\t\n]")
_BULLET = re.compile(
    # Bullets of symbol fonts are decoded as private-use characters.
    r"([-*+](?=\s)|-(?=[A-Z])|[•●▪◦‣⁃∙·■□❖➢➤✓✔►▶○–—\ue000-\uf8ff]|o(?=\s)|\d{1,2}[.)](?=\s))"
    r"\s*(?=\S)"
)
RAISED = re.compile(r"[-+−]?\d")
"""Matches the start of a superscript, such as an exponent, that the Markdown marks with "^"."""
_COLUMNS = re.compile(r"\t| [|•·] |   ")
_WHEN = re.compile(rf"[(\[]?(?:expected\s)?{SPAN}[)\]]?", re.IGNORECASE)
# The limit of 300 characters before the date bounds the time to match a long row.
_LAST_WHEN = re.compile(rf"(.{{0,300}}?\S)(?:\s?,\s?|\s[-–—]\s|\s?(?=\())\(?({SPAN})\)?", re.I)
_DATED = re.compile(rf"(?<!\w){SPAN}(?!\w)", re.IGNORECASE)
_CONTACT = re.compile(
    r"@|https?://|www\.|\+?\(?\d{2,4}\)?[ .-]\d{3}|\b\w+\.(?:com|org|net|io|dev)\b"
)
_MOST_WORDS = 14  # maximum number of words in a row of a job header


def clean(text: str) -> str:
    """Normalize Unicode (NFC), ligatures, spaces and line ends; drop invisible characters."""
    return _BLANK.sub(" ", unicodedata.normalize("NFC", text).translate(_PLAIN))


def split_bullet(text: str) -> tuple[str, str]:
    """Split a row into its bullet marker and text; the marker is empty if the row is no bullet.

    The markers "-", "*", "+" and "1." are kept, "1)" becomes "1.", and others become a hyphen.
    """
    match = _BULLET.match(text)
    if not match or starts_with_day(text):
        return "", text
    mark = match[1]
    kept = mark in ("-", "*", "+") or mark[0].isdigit()
    return (mark.replace(")", ".") if kept else "-"), text[match.end() :]


def link(text: str, address: str) -> str:
    """Format a link as [text](address), unless the text contains the address."""
    address = address.removeprefix("mailto:")
    bare = re.sub(r"^https?://(www\.)?", "", address).rstrip("/")
    if not text.strip() or address.startswith("#") or bare.lower() in text.lower():
        return text
    return f"[{text.strip()}]({address})" + " " * text.endswith(" ")


def looks_like_heading(text: str) -> bool:
    """Return whether a text looks like a heading: it is in capitals, or names a section."""
    words = text.rstrip(": ").replace("&", "and").split()
    if not 0 < len(words) <= 5 or is_contact(text) or any(map(str.isdigit, text)):
        return False
    name = " ".join(words).lower()
    if text.isupper():
        # A text of up to four capitals may be an acronym instead of a heading.
        return is_section(name) or (
            len(words) <= 3 and len(text) > 4 and not re.search("[.,|\t]", text)
        )
    alone = len(words) > 1 and words[0][0].isupper() and all(w in _SECTIONS for w in name.split())
    return (name in _LONE or name in _SPARE or alone) and text[0].isupper()


def is_contact(text: str) -> bool:
    """Return whether a row contains an email, a URL or a phone number."""
    return bool(_CONTACT.search(text))


def is_section(text: str) -> bool:
    """Return whether a heading is a common section name."""
    name = text.strip("#*_: ").replace("&", "and").lower()
    words = name.split()
    known = sum(word in _SECTIONS for word in words)
    return bool(words) and (known * 2 >= len(words) or name in _SPARE)


def is_dated(text: str) -> bool:
    """Return whether a row has only short columns, one of them a date or a range of dates."""
    parts = _columns(text)
    return any(_WHEN.fullmatch(part) for part in parts) and _short(parts)


def write_markdown(rows: Iterable[OutlineRow]) -> str:
    """Convert rows to Markdown: "# Name", contact line, "## Section", "### Job", "- bullet"."""
    rows = [row for row in rows if row.text.strip()]
    while rows and rows[0].text.strip().rstrip(":").lower() in TITLES:
        del rows[0]
    if rows and rows[0].hint == "heading" and not is_section(rows[0].text):
        rows[0] = rows[0]._replace(hint="name")  # the row is a name that is styled like a heading
    first = next((n for n, row in enumerate(rows) if row.hint == "heading"), len(rows))
    blocks, used = _head(rows[:first])
    section = ""
    pending: list[OutlineRow] = []
    for row in rows[used:]:
        if row.hint not in ("heading", "bullet"):
            pending.append(row)
            continue
        blocks += _body(pending, section, row.hint == "bullet")
        pending = []
        text = " ".join(row.text.split())
        if row.hint == "heading":
            text = text.rstrip(": ")
            section = text.lower()
            # Keep one word of up to four capitals as it is, since it may be an acronym.
            capitals = text.isupper() and (len(text) > 4 or " " in text)
            blocks.append(("heading", f"## {capwords(text) if capitals else text}"))
        else:
            blocks.append(("bullet", f"{'  ' * row.level}{row.marker} {text}"))
    blocks += _body(pending, section, False)
    lines = [text for _, text in blocks[:1]]
    for (above, _), (kind, text) in pairwise(blocks):
        lines += [text] if above == kind == "bullet" else ["", text]
    return "\n".join(lines) + "\n" if lines else ""


def _head(rows: Sequence[OutlineRow]) -> tuple[list[_Block], int]:
    """Return the blocks of name and contact line, and how many of the first rows they replace."""
    if not rows:
        return [], 0
    named = next((n for n, row in enumerate(rows) if row.hint == "name"), 0)
    name, *others = _columns(rows[named].text)
    likely = 0 < len(name.split()) <= 6 and not any(x in "@:|" or x.isdigit() for x in name)
    if rows[named].hint != "name" and not likely:
        return [], 0
    contact = [part for row in rows[:named] for part in _columns(row.text)] + others
    used = named + 1
    for row in rows[used:]:
        parts = _columns(row.text)
        fits = is_contact(row.text) or _short(parts)
        if row.hint in ("bullet", "entry") or not fits:
            break
        contact += parts
        used += 1
    blocks = [("name", f"# {name}")]
    return blocks + ([("text", " | ".join(contact))] if contact else []), used


def _short(parts: Sequence[str]) -> bool:
    return all(len(part.split()) <= 6 and not part.endswith(".") for part in parts)


def _columns(text: str) -> list[str]:
    parts = (" ".join(part.split()) for part in _COLUMNS.split(text))
    return [part for part in parts if part not in ("", "|", "•", "·")]


def _body(rows: Sequence[OutlineRow], section: str, before_bullets: bool) -> Iterator[_Block]:
    """Convert the rows between two bullets or headings to job headers, bullets or paragraphs."""
    if any(word in section for word in _LISTS) and len(rows) > 1:
        for label, *words in filter(None, (_columns(row.text) for row in rows)):
            joint = " " if label.endswith(":") else (": " if len(words) == 1 else ", ")
            yield "bullet", f"- {joint.join((label, *words))}"
        return
    prose = any(word in section for word in _PROSE)
    groups = [list(rows)] if prose else list(_groups(rows))
    for number, group in enumerate(groups, start=1):
        size = 0 if prose else _head_size(group, before_bullets and number == len(groups))
        if size:
            yield from _entry(group[:size])
        for row in group[size:]:
            yield "text", " | ".join(_columns(row.text))


def _groups(rows: Sequence[OutlineRow]) -> Iterator[list[OutlineRow]]:
    """Split rows at gaps, before rows with the hint "entry", and before dated rows below prose."""
    group: list[OutlineRow] = []
    for row in rows:
        after_prose = bool(group) and not _is_head(group[-1]) and _is_head(row)
        new_date = after_prose and bool(_DATED.search(row.text))
        # Dates below a gap belong to the group above if that group is one row, e.g. an employer.
        dangling = row.gap and len(group) == 1 and is_dated(row.text)
        if group and not dangling and (row.gap or row.hint == "entry" or new_date):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _is_head(row: OutlineRow) -> bool:
    text = row.text.strip()
    words = len(text.split())
    # A longer row that ends with a period is prose; a short row may be a name: "Globex Inc."
    return words <= _MOST_WORDS and (words <= 4 or not text.endswith((".", ";")))


def _head_size(group: Sequence[OutlineRow], before_bullets: bool) -> int:
    """Return how many rows at the start of a group form a job header; 0 if none do."""
    size = next((n for n, row in enumerate(group[:3]) if not _is_head(row)), min(3, len(group)))
    dates = sum(bool(_DATED.search(row.text)) for row in group[:size])
    if group[0].hint == "entry":
        return max(size, 1)
    if not size or (dates > 1 and not before_bullets):
        return 0
    return size if before_bullets or (dates and len(group) > 1) else 0


def _entry(rows: Sequence[OutlineRow]) -> Iterator[_Block]:
    """Yield a job header: title and employer as the heading, then place and dates."""
    heads: list[str] = []
    rest: list[str] = []
    for number, row in enumerate(rows):
        for part in _columns(row.text):
            match = None if _WHEN.fullmatch(part) else _LAST_WHEN.fullmatch(part)
            for piece in (match[1], match[2]) if match else (part,):
                # The second row is the employer if the first row is a job title without a comma.
                lone = len(heads) == 1 and ", " not in heads[0]
                taken = number == 0 or (number == 1 and lone)
                dated = _WHEN.fullmatch(piece)
                if taken and not dated and len(heads) < 2:
                    heads.append(piece)
                else:
                    rest.append(piece.strip("()[]") if dated else piece)
    if not heads:
        heads, rest = rest[:1], rest[1:]
    yield "entry", f"### {', '.join(heads)}"
    if rest:
        yield "text", " | ".join(rest)
