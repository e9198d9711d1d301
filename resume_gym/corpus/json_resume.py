"""Convert JSON Resume (schema 1.0.0, jsonresume.org/schema) to Markdown."""

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.markup import has_html, laid_out, read_html, told
from resume_gym.corpus.outline import clean, split_bullet
from resume_gym.support.json_lines import strict_json
from resume_gym.text.lines import MONTH_NAMES

# For each section: its heading, the number of fields that form an item's title, and all fields in
# output order, title fields first. The fields company and website are from earlier schemas.
_SECTIONS = {
    "work": (
        "Experience", 3, "position name company location url website description summary highlights"
    ),
    "projects": (
        "Projects", 2, "name entity type url description highlights roles keywords"
    ),
    "volunteer": ("Volunteering", 2, "position organization location url summary highlights"),
    "skills": ("Skills", 1, "name level keywords"),
    "education": ("Education", 3, "studyType area institution score url courses"),
    "certificates": ("Certificates", 2, "name issuer url"),
    "awards": ("Awards", 2, "title awarder summary"),
    "publications": ("Publications", 2, "name publisher url summary"),
    "languages": ("Languages", 1, "language fluency"),
    "interests": ("Interests", 1, "name keywords"),
    "references": ("References", 1, "name reference"),
}  # fmt: skip
_LINES = ("skills", "languages", "interests", "certificates")  # sections with one bullet per item
_ONGOING = ("work", "volunteer")  # in these sections, an item with a start but no end is current
_PARAGRAPHS = ("description", "summary", "reference")
_LISTS = ("highlights", "roles", "keywords", "courses")
_DATES = ("startDate", "endDate", "date", "releaseDate")
_ASIDE = ("$schema", "meta")  # keys without data about the candidate
_OTHERS = {  # other resume formats, by a key that JSON Resume lacks
    "sections": "Reactive Resume", "employment": "FRESH", "SkillsPassport": "Europass",
    "cv": "RenderCV", "workExperiences": "OpenResume", "positions": "LinkedIn",
}  # fmt: skip
_EXPECTED = "expected a JSON Resume: an object with basics, work, education, ..."
_ROWS = "\n"


def _fields(names: Iterable[str]) -> dict[str, Any]:
    kinds: dict[str, Any] = {name: [""] for name in _LISTS} | dict.fromkeys(_PARAGRAPHS, _ROWS)
    return {name: kinds.get(name, "") for name in names}


_SCHEMA: dict[str, Any] = {  # "" is a string of one line; _ROWS is a string of several lines
    "basics": {
        **_fields(("name", "label", "email", "phone", "url", "website", "summary")),
        "location": _fields(("address", "postalCode", "city", "region", "countryCode")),
        "profiles": [_fields(("network", "username", "url"))],
    }
} | {key: [_fields((*names.split(), *_DATES))] for key, (_, _, names) in _SECTIONS.items()}


def json_markdown(text: str) -> tuple[str, list[str], tuple[tuple[str, str], ...]]:
    """Convert a JSON Resume to Markdown.

    Returns:
        The Markdown; notes on omitted content; and the contact data as (kind, value) pairs, where
        the kind is "names", "mail", "phone" or "links".

    Raises:
        DocumentError: the text is not a JSON Resume, or a field's type does not match the schema.
    """
    try:
        resume = strict_json(text, number=str)  # a score of 3.50 stays "3.50"
    except (ValueError, RecursionError) as problem:
        raise DocumentError(f"expected JSON: {problem}") from None
    if not isinstance(resume, dict):
        raise DocumentError(f"{_EXPECTED}; got {type(resume).__name__}")
    unknown, left = list[str](), Counter[str]()
    sections = {key: value for key, value in resume.items() if key not in _ASIDE}
    strange = {key: value for key, value in sections.items() if key not in _SCHEMA}
    known = {key: value for key, value in sections.items() if key in _SCHEMA}
    if not known or _words(strange) > _words(known):
        name = next((_OTHERS[key] for key in strange if key in _OTHERS), "another format")
        keys = ", ".join([*strange][:5]) or "none"
        raise DocumentError(f"{_EXPECTED}; got {name} (keys: {keys})")
    resume = _checked(sections, _SCHEMA, "", unknown, left)
    blocks = [*_basics(resume["basics"])]
    for key, (heading, _, _) in _SECTIONS.items():
        items = [block for item in resume[key] for block in _item(key, item)]
        blocks += [f"## {heading}"] if items else []
        blocks += ["\n".join(items)] if key in _LINES else items
    notes = [f"left out, since it is not in the schema: {path}" for path in unknown]
    notes += told(left)
    return "\n\n".join(filter(None, blocks)) + "\n", notes, _contacts(resume["basics"])


def _words(value: object) -> int:
    """Count the words of all strings in a JSON value."""
    if isinstance(value, dict | list):
        return sum(map(_words, value.values() if isinstance(value, dict) else value))
    return len(value.split()) if isinstance(value, str) else 0


def _rows(text: str, left: Counter[str]) -> list[tuple[str, str]]:
    """Return a text as a list of ("- ", list item) and ("", paragraph) pairs."""
    lines = [split_bullet(line.strip()) for line in text.strip().split("\n")]
    if has_html(text):
        # In a text with list markers, each line is a row, even with HTML; otherwise, tags end rows.
        plain = any(marker for marker, _ in lines)
        inside = ((mark, " ".join(one for _, one in read_html(line, left))) for mark, line in lines)
        lines = list(inside) if plain else read_html(text, left)
    if len(lines) == 1 and lines[0][0][:1].isdigit():  # not a list item but a name: "1. FC Köln"
        lines = [("", text)]
    bodies = (("- " if marker else "", " ".join(line.split())) for marker, line in lines)
    rows: list[tuple[str, str]] = []
    for marker, group in groupby(filter(itemgetter(1), bodies), itemgetter(0)):
        texts = [text for _, text in group]
        rows += [(marker, text) for text in (texts if marker else [" ".join(texts)])]
    return rows


def _checked(value: object, schema: Any, where: str, unknown: list[str], left: Counter[str]) -> Any:
    """Check a JSON value; return it with texts as Markdown and empty values for missing fields.

    Args:
        value: JSON value to check.
        schema: schema of the value, a part of `_SCHEMA`.
        where: path of the value in the resume, for messages.
        unknown: list to which the paths of unknown fields are added.
        left: counter to which the numbers of omitted HTML elements, such as pictures, are added.
    """
    if value is None:
        value = type(schema)()
    if not isinstance(value, type(schema)):
        names: dict[type, str] = {dict: "an object", list: "a list", str: "a string"}
        got = names.get(type(value), type(value).__name__)
        raise DocumentError(f"{where}: expected {names[type(schema)]}, got {got}")
    if isinstance(value, str):
        value = clean(value)  # JSON escapes may add invisible characters
        if not schema and not has_html(value):
            return " ".join(value.split())
        rows = _rows(value, left)
        return "\n".join(laid_out(rows)) if schema else " ".join(text for _, text in rows)
    if isinstance(value, list):
        schema = _ROWS if schema == [""] else schema[0]
        unknown += [f"{where}[{n}]" for n, item in enumerate(value) if item is None]
        items = [(f"{where}[{n}]", item) for n, item in enumerate(value) if item is not None]
        values = [_checked(item, schema, place, unknown, left) for place, item in items]
        if schema == _ROWS:  # a list item may be blank, or contain a list
            return [row.removeprefix("- ") for text in values for row in text.split("\n") if row]
        return values
    dot = f"{where}." if where else ""
    unknown += [f"{dot}{key}" for key in value if key not in schema]
    return {
        key: _checked(value.get(key), below, f"{dot}{key}", unknown, left)
        for key, below in schema.items()
    }


def _contacts(basics: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    fields = ("names", "name"), ("mail", "email"), ("phone", "phone"), ("links", "url")
    contacts = [(field, basics[key]) for field, key in (*fields, ("links", "website"))]
    contacts += [("links", one[key]) for one in basics["profiles"] for key in ("url", "username")]
    return tuple((field, value) for field, value in contacts if value)


def _basics(basics: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {basics['name']}" if basics["name"] else ""
    yield basics["label"]
    contact = [", ".join(filter(None, basics["location"].values()))]
    contact += [basics[key] for key in ("email", "phone", "url", "website")]
    for network, user, url in map(dict.values, basics["profiles"]):
        at = re.search(rf"(?<!\w){re.escape(user)}(?!\w)", url, re.IGNORECASE)
        named = url if at else f"{url} ({user})"
        contact.append(named if url else ": ".join(filter(None, (network, user))))
    yield " | ".join(filter(None, contact))
    if basics["summary"]:
        yield from ("## Summary", basics["summary"])


def _item(section: str, item: Mapping[str, Any]) -> list[str]:
    """Return the Markdown blocks of a section's item; for sections in `_LINES`, a single bullet."""
    _, size, fields = _SECTIONS[section]
    names = fields.split()
    title = ", ".join(item[name] for name in names[:size] if item[name])
    start, end, *dates = (_month(item[name]) for name in _DATES)
    end = end or ("Present" if start and section in _ONGOING else "")
    end = f"until {end}" if end and not start else end
    span = " - ".join(filter(None, (start, end)))
    other = [item[name] for name in names[size:] if name not in (*_PARAGRAPHS, *_LISTS)]
    places = [*filter(None, dict.fromkeys((*other, span, *dates)))]
    entries = ", ".join(entry for name in _LISTS[1:] for entry in item.get(name, ()))
    if section in _LINES:
        head = f"{title} ({', '.join(places)})" if places else title
        return [f"- {': '.join(filter(None, (head, entries)))}"]
    texts = [item.get(name, "") for name in _PARAGRAPHS]
    bullets = "\n".join(f"- {bullet}" for bullet in item.get("highlights", ()))
    head = f"### {title}" if title else ""
    return [*filter(None, (head, " | ".join(places), *texts, bullets, entries))]


def _month(date: str) -> str:
    """Format 2020-01-31 or 2020-01 as Jan 2020; return other forms unchanged."""
    match = re.fullmatch(r"(\d{4}-\d\d)(-\d\d)?(?:T.*)?", date)
    try:
        day = datetime.date.fromisoformat(f"{match[1]}{match[2] or '-01'}") if match else None
    except ValueError:  # the text is not a calendar date
        day = None
    return f"{MONTH_NAMES[day.month - 1][:3]} {day.year}" if day else date
