"""Recognise bullets, headings, dates and contact details in rows of text by their wording."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from string import capwords

from resume_gym.text.languages import SPAN, starts_with_day
from resume_gym.text.lines import LEXICON

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
    r"([-*+](?=\s)|-(?=[A-Z])|[•●▪◦‣⁃∙·■□❖➢➤✓✔►▶○–—\ue000-\uf8ff]|o(?=\s)|\d{1,2}[.)](?=\s))\ufe0f?"
    r"\s*(?=\S)"
)
_SYMBOL = re.compile(r"([^\x00-\x7f\w])\ufe0f?\s+(?=\w)")  # may be a bullet: "→ Led the team"
_ICONS = "📍📌🏢🏠📅🗓☎✆✉📞📱📧🔗🌐🎓💼"  # mark places, dates and contact details
RAISED = re.compile(r"[-+−]?\d")
"""Matches the start of a superscript, such as an exponent, that the Markdown marks with "^"."""
_COLUMNS = re.compile(r"\t| [|•·] |   ")
_SPACED = re.compile(r"[^\W\d_](?:(?: |\t|\s{2,4})(?:[^\W\d_]|&(?=\s))){3,40}")
_WHEN = re.compile(
    rf"[(\[]?((?:expected\s)?{SPAN}(?:\s\([^()]{{1,40}}\))?)[)\]]?",  # "2019 - 2021 (2 years)"
    re.IGNORECASE,
)
# The limit of 300 characters before the date bounds the time to match a long row.
_LAST_WHEN = re.compile(
    rf"(.{{0,300}}?[^\s,:])(\s?[,:]\s?|\s(?:-{{1,3}}|[–—|])\s|\s?(?=[(\[])|\s)({_WHEN.pattern})",
    re.IGNORECASE,
)
_DATED = re.compile(rf"(?<!\w){SPAN}(?!\w)", re.IGNORECASE)
_CONTACT = re.compile(
    r"@|https?://|www\.|\+?\(?\d{2,4}\)?[ .-]\d{3}|\b\w+\.(?:com|org|net|io|dev)\b"
)


def clean(text: str) -> str:
    """Normalize Unicode (NFC), ligatures, spaces and line ends; drop invisible characters."""
    return _BLANK.sub(" ", unicodedata.normalize("NFC", text).translate(_PLAIN))


def split_bullet(text: str, marks: Collection[str] = ()) -> tuple[str, str]:
    """Split a row into its bullet marker and text; the marker is empty if the row is no bullet.

    The markers "-", "*", "+" and "1." are kept, "1)" becomes "1.", and others become a hyphen.

    Args:
        text: the row.
        marks: further symbols that are bullets in this document; see `bullet_symbols`.
    """
    match = _BULLET.match(text) or (_SYMBOL.match(text) if text[:1] in marks else None)
    if not match or starts_with_day(text):
        return "", text
    mark = match[1]
    kept = mark in ("-", "*", "+") or mark[0].isdigit()
    return (mark.replace(")", ".") if kept else "-"), text[match.end() :]


def bullet_symbols(texts: Iterable[str]) -> set[str]:
    """Return the symbols, such as arrows and emoji, that begin two or more rows of a document."""
    found = (_SYMBOL.match(text) for text in texts if not is_contact(text) and not is_dated(text))
    counts = Counter(match[1] for match in found if match)
    return {mark for mark, count in counts.items() if count > 1 and mark not in _ICONS}


def begins_with_symbol(text: str) -> bool:
    """Return whether a row begins with a symbol that may be a bullet, such as an arrow."""
    return bool(_SYMBOL.match(text))


def link(text: str, address: str) -> str:
    """Format a link as [text](address), unless the text contains the address.

    Punctuation at the end of the text, such as an unpaired bracket, stays outside the link.
    """
    end = len(text.rstrip())
    while end and (text[end - 1] in ".,;:" or (text[end - 1] == ")" and "(" not in text[:end])):
        end -= 1
    text, rest = text[:end], text[end:]
    return _linked(text, address) + rest if text else rest


def _linked(text: str, address: str) -> str:
    address = address.removeprefix("mailto:")
    bare = re.sub(r"^https?://(www\.)?", "", address).rstrip("/")
    if not text.strip() or address.startswith("#") or bare.lower() in text.lower():
        return text
    return f"[{text.strip()}]({address})"


def looks_like_heading(text: str) -> bool:
    """Return whether a text looks like a heading: it is in capitals, or names a section."""
    text = unspaced(text)
    words = text.rstrip(": ").replace("&", "and").split()
    if _SPACED.fullmatch(text):
        return True
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


def unspaced(text: str, *, name: bool = False) -> str:
    """Remove the blanks between the letters of a spaced-out heading: "S K I L L S".

    Args:
        text: any row.
        name: whether the row is the candidate's name; other rows change only to a section name.
    """
    if not _SPACED.fullmatch(text.strip(": ")):
        return text
    words = " ".join(part.replace(" ", "") for part in re.split(r"\t|\s{2,}", text.strip(": ")))
    if name:
        return capwords(words)
    return words if is_section(words) else text


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
    parts = columns(text)
    return any(is_date(part) for part in parts) and is_short(parts)


def has_date(text: str) -> bool:
    """Return whether a row contains a date."""
    return bool(_DATED.search(text))


def is_date(text: str) -> bool:
    """Return whether a whole text is a date or a range of dates."""
    return bool(_WHEN.fullmatch(text))


def is_short(parts: Sequence[str]) -> bool:
    """Return whether all columns of a row have at most six words, and none ends a sentence."""
    return all(len(part.split()) <= 6 and not part.endswith(".") for part in parts)


def columns(text: str) -> list[str]:
    """Return the columns of a row."""
    parts = (" ".join(part.split()) for part in _COLUMNS.split(text))
    return [part for part in parts if part not in ("", "|", "•", "·")]


def split_dates(text: str) -> list[str]:
    """Return the columns of a row, with a date at the end of a column as a part of its own."""
    parts: list[str] = []
    for column in columns(text):
        match = None if _WHEN.fullmatch(column) else _LAST_WHEN.fullmatch(column)
        # A lone year after a blank may belong to a name: "Expo 2020".
        sure = match and not has_date(match[1]) and not (match[2] == " " and match[3].isdigit())
        parts += [match[1], match[4]] if match and sure else [column]
    return parts
