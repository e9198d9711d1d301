"""From rows of text to the Markdown of the environment.

Plain text, PDF and Word come here as rows. What a format says of a row (a style, a size of type)
is its hint; the rest is read off its words: capitals and known names make a heading, a date and
its place make the head of a job. Nothing is dropped, and only white space and marks change.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from resume_gym.judges.lines import LEXICON

Hint = Literal["", "name", "heading", "entry", "bullet"]


class Row(NamedTuple):
    """A row of a document.

    Attributes:
        text: with a tab between columns.
        hint: what the format says it is; "" if it does not say.
        level: depth of a bullet, from 0.
        gap: whether there is space above it.
        marker: of a bullet.
    """

    text: str
    hint: Hint = ""
    level: int = 0
    gap: bool = False
    marker: str = "-"


_SECTIONS = frozenset(LEXICON["words"]["sections"])
_SPARE = frozenset(LEXICON["words"]["padding_sections"])
_LONE = frozenset(  # the name of a section even where nothing sets it off
    {
        *("summary", "profile", "objective", "experience", "education", "skills", "projects"),
        *("certifications", "certificates", "awards", "publications", "languages"),
        *("volunteering", "interests", "references", "employment"),
    }
)
TITLES = ("resume", "résumé", "resumé", "curriculum vitae", "cv", "lebenslauf")
"""What a resume may be headed with in place of a name, in lower case."""
_PROSE = ("summary", "profile", "about", "objective", "overview", "references", "interests")
_LISTS = ("skill", "technolog", "language", "tools", "competenc", "expertise")
_SMALL = ("and", "or", "of", "the", "in", "at", "for", "to", "with", "a", "an", "on")

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_LIGATURES = {
    "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl",
    "\ufb05": "st", "\ufb06": "st",
}  # fmt: skip
_SPACES = dict.fromkeys([*"\u00a0\u202f\u205f\u3000", *map(chr, range(0x2000, 0x200B))], " ")
_PLAIN = str.maketrans({**_LIGATURES, **_SPACES, "\x0b": " ", "\x0c": "\n"})
_BULLET = re.compile(
    # private-use characters are what bullets of symbol fonts become
    r"([-*+](?=\s)|-(?=[A-Z])|[•●▪◦‣⁃∙·■□❖➢➤✓✔►▶○–—\ue000-\uf8ff]|o(?=\s)|\d{1,2}[.)](?=\s))"
    r"\s*(?=\S)"
)
_COLUMNS = re.compile(r"\s*\t\s*|\s+[|•·]\s+|\s{3,}")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?|spring|summer|fall|autumn"
_DATE = rf"(?:(?:{_MONTH}|winter)\s*,?\s*|\d{{1,2}}[/.])?(?:19|20)\d\d(?:-\d\d(?!\d))?"
_SPAN = (
    rf"(?:since\s+)?{_DATE}(?:\s*(?:-+|–|—|to|until)\s*"
    rf"(?:{_DATE}|present|current|now|today|ongoing|\d\d))?"
)
_WHEN = re.compile(rf"[(\[]?(?:expected\s+)?{_SPAN}[)\]]?", re.IGNORECASE)
_LAST_WHEN = re.compile(rf"(.*?\S)(?:\s*,\s*|\s+[-–—]\s+|\s*(?=\())\(?({_SPAN})\)?", re.IGNORECASE)
_DATED = re.compile(rf"\b(?:{_SPAN})\b", re.IGNORECASE)
_CONTACT = re.compile(
    r"@|https?://|www\.|\+?\(?\d{2,4}\)?[ .-]\d{3}|\b\w+\.(?:com|org|net|io|dev)\b"
)
_MOST_WORDS = 14  # of a head of a job


def clean(text: str) -> str:
    """The text with ligatures spelt out and without invisible characters."""
    return _INVISIBLE.sub("", text.translate(_PLAIN))


def split_bullet(text: str) -> tuple[str, str]:
    """Marker and text of a bullet; the marker of other rows is empty.

    Markers that Markdown knows are kept, so that a mixture stays one; others become a hyphen.
    """
    match = _BULLET.match(text)
    if not match:
        return "", text
    mark = match[1]
    kept = mark in ("-", "*", "+") or mark[0].isdigit()
    return (mark.replace(")", ".") if kept else "-"), text[match.end() :]


def looks_like_heading(text: str) -> bool:
    """Whether a row of plain text names a section: in capitals, or a name known for sections."""
    words = text.rstrip(": ").replace("&", "and").split()
    if not 0 < len(words) <= 5 or is_contact(text) or any(map(str.isdigit, text)):
        return False
    name = " ".join(words).lower()
    if text.isupper():
        return _known(name) or (len(words) <= 3 and not re.search("[.,|\t]", text))
    alone = len(words) > 1 and words[0][0].isupper() and all(w in _SECTIONS for w in name.split())
    return (name in _LONE or name in _SPARE or alone) and text[0].isupper()


def is_contact(text: str) -> bool:
    """Whether a row has a mail, an address of a site or a phone number."""
    return bool(_CONTACT.search(text))


def is_section(text: str) -> bool:
    """Whether a heading is a usual one of a section."""
    name = text.strip("#*_: ").replace("&", "and").lower()
    return bool(name) and _known(name)


def _known(name: str) -> bool:
    """Whether a lower-case text is a usual name of a section."""
    words = name.split()
    return sum(word in _SECTIONS for word in words) * 2 >= len(words) or name in _SPARE


def is_dated(text: str) -> bool:
    """Whether a row is but dates, perhaps with a place."""
    parts = _columns(text)
    return any(_WHEN.fullmatch(part) for part in parts) and _short(parts)


def write_markdown(rows: Iterable[Row]) -> str:
    """The Markdown of a document: "# Name", contact line, "## Section", "### Job", "- bullet"."""
    rows = [row for row in rows if row.text.strip()]
    while rows and rows[0].text.strip().rstrip(":").lower() in TITLES:
        del rows[0]
    if rows and rows[0].hint == "heading" and not _known(rows[0].text.strip().lower()):
        rows[0] = rows[0]._replace(hint="name")  # a name in the style, or the capitals, of headings
    writer = _Writer()
    first = next((n for n, row in enumerate(rows) if n and row.hint == "heading"), len(rows))
    body = _head(rows[:first], writer) if rows and rows[0].hint != "heading" else 0
    section = ""
    pending: list[Row] = []
    for row in rows[body:]:
        if row.hint in ("heading", "bullet"):
            _block(pending, section, row.hint == "bullet", writer)
            pending = []
        if row.hint == "heading":
            section = row.text.strip().rstrip(":").lower()
            writer.add("heading", f"## {_title_case(row.text.strip().rstrip(': '))}")
        elif row.hint == "bullet":
            text = " ".join(row.text.split())
            writer.add("bullet", f"{'  ' * row.level}{row.marker} {text}")
        else:
            pending.append(row)
    _block(pending, section, False, writer)
    return writer.text()


@dataclass
class _Writer:
    """Lines with a blank one between blocks; bullets stand together."""

    lines: list[str] = field(default_factory=list)
    kind: str = ""

    def add(self, kind: str, line: str) -> None:
        if self.lines and not (kind == self.kind == "bullet"):
            self.lines.append("")
        self.lines.append(line)
        self.kind = kind

    def text(self) -> str:
        return "\n".join(self.lines) + "\n" if self.lines else ""


def _head(rows: Sequence[Row], writer: _Writer) -> int:
    """Write name and contact line; the number of rows that they take."""
    if not rows:
        return 0
    named = next((n for n, row in enumerate(rows) if row.hint == "name"), 0)
    name, *others = _columns(rows[named].text)
    if rows[named].hint != "name" and not _could_be_name(name):
        return 0
    writer.add("name", f"# {name}")
    contact = [part for row in rows[:named] for part in _columns(row.text)] + others
    end = named + 1
    for row in rows[end:]:
        parts = _columns(row.text)
        fits = is_contact(row.text) or _short(parts)
        if row.hint in ("bullet", "entry") or not fits:
            break
        contact += parts
        end += 1
    if contact:
        writer.add("text", " | ".join(contact))
    return end


def _could_be_name(text: str) -> bool:
    words = text.split()
    return 0 < len(words) <= 6 and not any(map(str.isdigit, text)) and not re.search("[@:|]", text)


def _short(parts: Sequence[str]) -> bool:
    return all(len(part.split()) <= 6 and not part.endswith(".") for part in parts)


def _columns(text: str) -> list[str]:
    parts = [" ".join(part.split()) for part in _COLUMNS.split(text.strip())]
    return [part for part in parts if part]


def _title_case(text: str) -> str:
    """Capitals made into a title; other texts as they are."""
    if not text.isupper() or (len(text) <= 4 and " " not in text):
        return text
    words = text.split()
    return " ".join(
        word.lower() if n and word.lower() in _SMALL else word.capitalize()
        for n, word in enumerate(words)
    )


def _block(rows: Sequence[Row], section: str, before_bullets: bool, writer: _Writer) -> None:
    """Write the rows between two bullets or headings: heads of jobs, lists and paragraphs."""
    if any(word in section for word in _LISTS) and len(rows) > 1:
        for row in rows:
            label, *words = _columns(row.text)
            joint = " " if label.endswith(":") else (": " if len(words) == 1 else ", ")
            writer.add("bullet", f"- {joint.join((label, *words))}")
        return
    prose = any(word in section for word in _PROSE)
    groups = [list(rows)] if prose else list(_groups(rows))
    for number, group in enumerate(groups):
        last = number == len(groups) - 1
        size = 0 if prose else _head_size(group, last and before_bullets)
        if size:
            _entry(group[:size], writer)
        for row in group[size:]:
            writer.add("text", " | ".join(_columns(row.text)))


def _groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows that stand together: a gap, a hint or a new date after a paragraph divides them."""
    group: list[Row] = []
    for row in rows:
        after_prose = bool(group) and not _is_head(group[-1]) and _is_head(row)
        new_date = after_prose and bool(_DATED.search(row.text))
        # A date below a gap belongs to the bare name of an employer above it.
        dangling = row.gap and len(group) == 1 and is_dated(row.text)
        if group and not dangling and (row.gap or row.hint == "entry" or new_date):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _is_head(row: Row) -> bool:
    text = row.text.strip()
    words = len(text.split())
    # "Globex Inc." is no sentence
    return words <= _MOST_WORDS and (words <= 4 or not text.endswith((".", ";")))


def _head_size(group: Sequence[Row], before_bullets: bool) -> int:
    """How many rows of a group are the head of a job; 0 if none."""
    size = next((n for n, row in enumerate(group[:3]) if not _is_head(row)), min(3, len(group)))
    dates = sum(bool(_DATED.search(row.text)) for row in group[:size])
    if group[0].hint == "entry":
        return max(size, 1)
    if not size or (dates > 1 and not before_bullets):
        return 0
    more = len(group) > 1 or before_bullets
    return size if more and (dates or before_bullets) else 0


def _entry(rows: Sequence[Row], writer: _Writer) -> None:
    """Write the head of a job: what and where as a title, then place and dates."""
    heads: list[str] = []
    rest: list[str] = []
    for number, row in enumerate(rows):
        for part in _columns(row.text):
            match = None if _WHEN.fullmatch(part) else _LAST_WHEN.fullmatch(part)
            for piece in (match[1], match[2]) if match else (part,):
                # The title takes the first row, and the employer that stands alone under it.
                lone = len(heads) == 1 and ", " not in heads[0]
                taken = number == 0 or (number == 1 and lone)
                dated = _WHEN.fullmatch(piece)
                if taken and not dated and len(heads) < 2:
                    heads.append(piece)
                else:
                    rest.append(piece.strip("()[]") if dated else piece)
    if not heads:
        heads, rest = rest[:1], rest[1:]
    writer.add("entry", f"### {', '.join(heads)}")
    if rest:
        writer.add("text", " | ".join(rest))
