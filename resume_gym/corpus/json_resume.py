"""JSON Resume (schema 1.0.0, jsonresume.org/schema) to Markdown."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from resume_gym.corpus.documents import DocumentError
from resume_gym.corpus.outline import clean

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class _Section(NamedTuple):
    """How the items of a section are written; names of fields by their place."""

    heading: str
    title: tuple[str, ...]
    places: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    ongoing: bool = False
    """Whether a start without an end means that it goes on."""


_SECTIONS = {
    "work": _Section(
        "Experience", ("position", "name"), ("location", "url"), ("description", "summary"),
        ("highlights",), ongoing=True,
    ),
    "projects": _Section(
        "Projects", ("name", "entity"), ("type", "url"), ("description",),
        ("highlights",), ("roles", "keywords"),
    ),
    "volunteer": _Section(
        "Volunteering", ("position", "organization"), ("location", "url"), ("summary",),
        ("highlights",), ongoing=True,
    ),
    "skills": _Section("Skills", ("name",), ("level",), lists=("keywords",)),
    "education": _Section(
        "Education", ("studyType", "area", "institution"), ("score", "url"), lists=("courses",)
    ),
    "certificates": _Section("Certificates", ("name", "issuer"), ("url",)),
    "awards": _Section("Awards", ("title", "awarder"), (), ("summary",)),
    "publications": _Section("Publications", ("name", "publisher"), ("url",), ("summary",)),
    "languages": _Section("Languages", ("language",), ("fluency",)),
    "interests": _Section("Interests", ("name",), lists=("keywords",)),
    "references": _Section("References", ("name",), (), ("reference",)),
}  # fmt: skip
_LINES = ("skills", "languages", "interests", "certificates")  # a bullet an item
_DATES = ("startDate", "endDate", "date", "releaseDate")
_BASICS = ("name", "label", "email", "phone", "url", "summary", "location", "profiles")
_LOCATION = ("address", "postalCode", "city", "region", "countryCode")
_PROFILE = ("network", "username", "url")
_FORMER = {"company": "name", "website": "url"}  # names of the schema before 1.0.0
_ASIDE = ("$schema", "meta")  # nothing about the candidate


def json_markdown(text: str) -> tuple[str, list[str]]:
    """The Markdown of a JSON Resume, and notes on fields that have no place in it.

    Raises:
        DocumentError: it is no JSON, or a field has another type than the schema says.
    """
    try:
        resume = json.loads(clean(text))
    except (ValueError, RecursionError) as problem:
        raise DocumentError(f"expected JSON: {problem}") from None
    if not isinstance(resume, dict) or not resume.keys() & {"basics", *_SECTIONS}:
        raise DocumentError("expected a JSON Resume: an object with basics, work, education, ...")
    unknown = [key for key in resume if key not in ("basics", *_SECTIONS, *_ASIDE)]
    blocks = _basics(_typed(resume.get("basics"), dict, "basics"), unknown)
    for key, section in _SECTIONS.items():
        items = _typed(resume.get(key), list, key)
        if items:
            blocks.append(f"## {section.heading}")
            blocks += _items(key, section, items, unknown)
    notes = [f"left out, since the schema does not know it: {path}" for path in unknown]
    return "\n\n".join(blocks) + "\n", notes


def contacts(text: str) -> tuple[tuple[str, str], ...]:
    """What a JSON Resume says of reaching the candidate: ("mail" | "phone" | "links", value)."""
    basics = json.loads(clean(text)).get("basics") or {}
    fields = (("email", "mail"), ("phone", "phone"), ("url", "links"), ("website", "links"))
    found = [(field, basics.get(key)) for key, field in fields]
    for profile in filter(None, basics.get("profiles") or ()):
        found += [("links", profile.get("url")), ("links", profile.get("username"))]
    # spaces as the Markdown has them
    return tuple((field, " ".join(str(value).split())) for field, value in found if value)


def _typed(value: Any, kind: type, where: str) -> Any:
    """The value, an empty one for null."""
    if value is None:
        return kind()
    if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)  # a score, a year
    if not isinstance(value, kind):
        names: dict[type, str] = {dict: "an object", list: "a list", str: "a string"}
        got = names.get(type(value), type(value).__name__)
        raise DocumentError(f"{where}: expected {names[kind]}, got {got}")
    return " ".join(value.split()) if isinstance(value, str) else value


def _basics(basics: Mapping[str, Any], unknown: list[str]) -> list[str]:
    unknown += [f"basics.{key}" for key in basics if _FORMER.get(key, key) not in _BASICS]
    basics = {_FORMER.get(key, key): value for key, value in basics.items()}
    said = {
        key: _typed(basics.get(key), str, f"basics.{key}")
        for key in ("name", "label", "email", "phone", "url", "summary")
    }
    place = _typed(basics.get("location"), dict, "basics.location")
    unknown += [f"basics.location.{key}" for key in place if key not in _LOCATION]
    address = [_typed(place.get(key), str, f"basics.location.{key}") for key in _LOCATION]
    contact = [", ".join(filter(None, address)), said["email"], said["phone"], said["url"]]
    for number, profile in enumerate(_typed(basics.get("profiles"), list, "basics.profiles")):
        where = f"basics.profiles[{number}]"
        profile = _typed(profile, dict, where)
        unknown += [f"{where}.{key}" for key in profile if key not in _PROFILE]
        network, user, url = (_typed(profile.get(key), str, f"{where}.{key}") for key in _PROFILE)
        contact.append(url or ": ".join(filter(None, (network, user))))
        if url and user and user.lower() not in url.lower():
            contact[-1] += f" ({user})"
    head = [f"# {said['name']}" if said["name"] else "", said["label"]]
    summary = ["## Summary", said["summary"]] if said["summary"] else []
    return [block for block in (*head, " | ".join(filter(None, contact)), *summary) if block]


def _items(key: str, section: _Section, items: Sequence[Any], unknown: list[str]) -> list[str]:
    """The blocks of a section; items without further text share one list."""
    blocks: list[str] = []
    known = {*section.title, *section.places, *section.texts, *section.bullets, *section.lists}
    for number, item in enumerate(items):
        where = f"{key}[{number}]"
        item = _typed(item, dict, where)
        names = {name: _FORMER.get(name, name) if key == "work" else name for name in item}
        unknown += [f"{where}.{n}" for n, now in names.items() if now not in {*known, *_DATES}]
        item = {now: item[name] for name, now in names.items()}
        blocks += _line(section, item, where) if key in _LINES else _entry(section, item, where)
    return ["\n".join(blocks)] if key in _LINES else blocks


def _line(section: _Section, item: Mapping[str, Any], where: str) -> list[str]:
    title, places, lists = _parts(section, item, where)
    head = ", ".join(title)
    head += f" ({', '.join(places)})" if places else ""
    return [f"- {': '.join(filter(None, (head, ', '.join(lists))))}"]


def _entry(section: _Section, item: Mapping[str, Any], where: str) -> list[str]:
    title, places, lists = _parts(section, item, where)
    texts = [_typed(item.get(key), str, f"{where}.{key}") for key in section.texts]
    bullets = [
        f"- {_typed(one, str, f'{where}.{key}[{number}]')}"
        for key in section.bullets
        for number, one in enumerate(_typed(item.get(key), list, f"{where}.{key}"))
    ]
    head = f"### {', '.join(title)}" if title else ""
    blocks = [head, " | ".join(places), *texts, "\n".join(bullets), ", ".join(lists)]
    return [block for block in blocks if block]


def _parts(
    section: _Section, item: Mapping[str, Any], where: str
) -> tuple[list[str], list[str], list[str]]:
    """Title, places with dates, and the words of the lists; empty ones left out."""
    said = {
        key: _typed(item.get(key), str, f"{where}.{key}")
        for key in (*section.title, *section.places, *_DATES)
    }
    start, *ends = (_month(said[key]) for key in _DATES)
    end = next(filter(None, ends), "Present" if start and section.ongoing else "")
    dates = " - ".join(filter(None, (start, end)))
    lists = [
        _typed(one, str, f"{where}.{key}[{number}]")
        for key in section.lists
        for number, one in enumerate(_typed(item.get(key), list, f"{where}.{key}"))
    ]
    title = [said[key] for key in section.title if said[key]]
    return title, [x for x in (*(said[key] for key in section.places), dates) if x], lists


def _month(date: str) -> str:
    """2020-01-31 as Jan 2020; other forms as they are."""
    match = re.fullmatch(r"(\d{4})-(0[1-9]|1[0-2])(?:-\d\d)?", date)
    return f"{_MONTHS[int(match[2]) - 1]} {match[1]}" if match else date
