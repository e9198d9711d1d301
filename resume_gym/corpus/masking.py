"""Masking what identifies a candidate: names, mails, phones and links.

One `Masker` belongs to one candidate, whose documents it gives the same placeholders. It takes a
name wherever it stands as a word with a capital, so a candidate called Baker loses the bakers of
the resume, too; a figure is never touched. It cannot see that employers, dates and deeds together
may tell who somebody is, nor names that nothing marks as such; what it saw and left is counted.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from resume_gym.corpus.documents import missing

FIELDS = ("names", "mail", "phone", "links")
"""What can be masked."""

_WORDS: Mapping[str, list[str]] = tomllib.loads(
    Path(__file__).with_name("masking.toml").read_text(encoding="utf-8")
)


def _any(words: Collection[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_END = rf"(?:{_any(_WORDS['ends'])})"
# Bounded as the standards bound them, so that no text takes long.
_HOST = rf"(?:[a-z0-9][a-z0-9-]{{0,62}}\.){{1,8}}{_END}"
_TAIL = r"[^\s<>()\[\]|\"'`,;*]*[^\s<>()\[\]|\"'`,;*.:!?]"
_MAIL = re.compile(
    r"(?:mailto:)?[\w.!#$%&'+/=?^{}~-]{1,64}@(?:[\w-]{1,63}\.){1,8}[a-z]{2,}\b", re.IGNORECASE
)
_LINK = re.compile(
    rf"(?P<full>(?:https?://|ftp://|www\.){_TAIL})"
    rf"|(?<![\w@./-])(?P<path>{_HOST}/{_TAIL})"
    rf"|(?<![\w@./-])(?P<host>{_HOST})(?![\w@/-]|\.\w)",
    re.IGNORECASE,
)
_OWN = re.compile(r"https://example\.com/\d+|candidate\d+@example\.com|555-01\d\d")
_SECTION = re.compile(r"^##? +(.*?)\s*$", re.MULTILINE)
_NAME = re.compile(r"^# +(.+?)\s*$", re.MULTILINE)
_WORD = r"[A-Z][\w'’-]+"
_NEXT = rf"[ ]+(?:[A-Z]\.|(?:van|von|de|der|da|del|la|bin|al)\b|{_WORD})"
_PERSON = rf"{_WORD}(?:{_NEXT}){{0,3}}"
_FULL = rf"{_WORD}(?:{_NEXT}){{1,3}}"
_TITLES = rf"(?:{_any(_WORDS['titles'])})\.? "
_REFEREE = re.compile(
    rf"^(?:#{{3,6}} |[-*+] )?(?:\*\*)?(?:{_TITLES})?({_FULL})(?=\s*(?:\*\*)?\s*(?:[,:|(–—-]|$))",
    re.MULTILINE,
)
_OTHERS = re.compile(rf"\b{_TITLES}{_PERSON}|(?i:\b(?:{_any(_WORDS['before'])}))\s+{_FULL}")
_STREET = re.compile(
    rf"\b\d{{1,5}}[a-z]? (?:[A-Z][\w.'-]+ ){{1,3}}(?i:{_any(_WORDS['streets'])})\b"
    r"|\b[A-ZÄÖÜ][\wäöüß]+(?:straße|strasse|weg|platz|gasse|gata|straat) \d{1,4}\b"
)
_BIRTH = re.compile(r"\b(?:date of birth|birth ?date|born|d\.?o\.?b\.?)\b.{0,20}?\d", re.IGNORECASE)
_ID = re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])")
_HANDLE = re.compile(r"(?<![\w/.])@[A-Za-z]\w{2,}")
_LABEL = re.compile(r"\b(?:phone|tel|telephone|mobile|cell|fax|whatsapp)\b\W*$", re.IGNORECASE)
_LOCAL = re.compile(r"(?<![\w-])(?:\(\d{3}\) ?)?555-\d{4}(?![\w-])")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


class Masker:
    """Masks the documents of one candidate.

    Attributes:
        replaced: how often a field was replaced, by document and field.
        seen: what was seen and left, by document and what it is.
    """

    def __init__(
        self, number: int, resume: str, fields: Collection[str], region: str = "US"
    ) -> None:
        """Learn the names of a resume.

        Args:
            number: of the candidate; its placeholders bear it.
            resume: Markdown, the name as its "# " heading.
            fields: those of `FIELDS` to replace.
            region: whose national phone numbers to expect, as "US".

        Raises:
            ValueError: there is no such field or region.
        """
        if unknown := set(fields) - set(FIELDS):
            raise ValueError(f"expected {', '.join(FIELDS)} or all; got {min(unknown)!r}")
        self.fields = frozenset(fields)
        self.replaced: dict[str, Counter[str]] = {}
        self.seen: dict[str, Counter[str]] = {}
        self._number = number
        self._region = _region(region)
        self._known: dict[str, dict[str, str]] = {field: {} for field in FIELDS}
        self._names = _names(resume, number)

    @property
    def named(self) -> bool:
        """Whether the resume says who the candidate is."""
        return any(name.startswith("Candidate") for name in self._names.values())

    def mask(self, text: str, document: str) -> str:
        """The text with placeholders; counts what it did under the document's name."""
        replaced = self.replaced.setdefault(document, Counter())
        seen = self.seen.setdefault(document, Counter())
        # Mails before links and phones, of which they may hold what looks like one.
        steps: tuple[tuple[str, Callable[[str], Iterator[tuple[int, int, str]]]], ...] = (
            ("mail", self._mails),
            ("links", self._links),
            ("phone", self._phones),
            ("names", self._people),
        )
        for field, find in steps:
            spans = list(find(text))
            if field in self.fields:
                replaced[field] += len(spans)
                text = _replace(text, spans)
            elif spans:
                seen[field] += len(spans)
        seen.update(_left(text))
        return text

    def _place(self, field: str, key: str, make: Callable[[int], str]) -> str:
        known = self._known[field]
        return known.setdefault(key, make(len(known) + 1))

    def _mails(self, text: str) -> Iterator[tuple[int, int, str]]:
        number = f"{self._number:04}"
        for hit in _MAIL.finditer(text):
            key = hit[0].lower().removeprefix("mailto:")
            scheme = "mailto:" if len(key) < len(hit[0]) else ""
            new = self._place(
                "mail", key, lambda n: f"candidate{number}{f'.{n}' * (n > 1)}@example.com"
            )
            yield *hit.span(), scheme + new

    def _links(self, text: str) -> Iterator[tuple[int, int, str]]:
        for start, end in _links(text):
            key = re.sub(r"^(?:https?://)?(?:www\.)?|/+$", "", text[start:end].lower())
            yield start, end, self._place("links", key, lambda n: f"https://example.com/{n}")

    def _phones(self, text: str) -> Iterator[tuple[int, int, str]]:
        first = self._number - 1
        for start, end, digits in _phones(text, self._region):
            new = self._place("phone", digits, lambda n: f"555-01{(first + n) % 100:02}")
            yield start, end, new

    def _people(self, text: str) -> Iterator[tuple[int, int, str]]:
        if not self._names:
            return
        taken = [(m.start(), m.end()) for find in (_MAIL, _LINK, _OWN) for m in find.finditer(text)]
        ways = _any([*self._names])
        # "May" before a number is a month.
        for hit in re.finditer(rf"(?<![^\W_]|[.@/-])(?:{ways})(?![^\W_]|@|\.\w)", text):
            month = hit[0].lower()[:3] in _MONTHS and re.match(r"\.?,? +\d", text[hit.end() :])
            if not month and not any(a <= hit.start() < b for a, b in taken):
                yield *hit.span(), self._names[hit[0]]


def _replace(text: str, spans: list[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _names(resume: str, number: int) -> dict[str, str]:
    """Every form of a name in the resume, with its placeholder."""
    people: dict[str, str] = {}
    if title := _NAME.search(resume):
        people[title[1]] = f"Candidate {number:04}"
    for index, (section, body) in enumerate(_sections(resume)):
        if index and "reference" in section.lower():
            for hit in _REFEREE.finditer(body):
                people.setdefault(hit[1], f"Reference {len(people)}")
    forms: dict[str, str] = {}
    for name, placeholder in people.items():
        name = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", name).strip("*_ ")
        name = name.split(",")[0].strip()
        parts = [part for part in re.findall(r"[\w'’.-]+", name) if _telling(part)]
        whole = {name}
        if len(parts) > 1:
            whole |= {f"{parts[0]} {parts[-1]}", f"{parts[-1]}, {parts[0]}"}
        for one in (*sorted(whole), *parts):
            for form in (one, one.upper(), one.title() if one.isupper() else one):
                forms.setdefault(form, placeholder)
    return forms


def _telling(part: str) -> bool:
    """Whether a part of a name identifies by itself."""
    plain = part.strip(".'’-")
    return len(plain) > 1 and plain[0].isupper() and plain.lower() not in _WORDS["ranks"]


def _sections(resume: str) -> Iterator[tuple[str, str]]:
    """Sections by their heading; what stands above the first has none."""
    pieces = re.split(r"^## +(.*?)\s*$", resume, flags=re.MULTILINE)
    yield "", pieces[0]
    yield from zip(pieces[1::2], pieces[2::2], strict=True)


def _links(text: str) -> Iterator[tuple[int, int]]:
    """Addresses; a bare host counts where the candidate's contact stands."""
    section = re.search(r"^## ", text, re.MULTILINE)
    contact = section.start() if section else 0
    mails = [hit.span() for hit in _MAIL.finditer(text)]
    for hit in _LINK.finditer(text):
        host = re.sub(r"^\w+://", "", hit[0]).split("/")[0]
        lower = host.lower()
        if lower in _WORDS["terms"] or any(a <= hit.start() < b for a, b in mails):
            continue
        if hit["full"] and _OWN.match(hit[0]):
            continue
        if hit["path"] and host != lower and not lower.endswith(tuple(_WORDS["profiles"])):
            continue  # "ASP.NET/C#", "Booking.com/Agoda"
        if hit["host"] and (hit.start() >= contact or host != lower):
            continue
        yield hit.span()


def _phones(text: str, region: str) -> Iterator[tuple[int, int, str]]:
    """Phone numbers with their digits: valid ones, and likely ones after a label."""
    try:
        import phonenumbers
        from phonenumbers import Leniency, PhoneNumberFormat, PhoneNumberMatcher
    except ImportError:
        raise missing("phonenumbers", "phone numbers") from None
    section = re.search(r"^## ", text, re.MULTILINE)
    contact = section.start() if section else 0
    spans: dict[int, tuple[int, str]] = {}
    for leniency in (Leniency.VALID, Leniency.POSSIBLE):
        for hit in PhoneNumberMatcher(text, region, leniency=leniency):
            before = text[: hit.start].rpartition("\n")[2]
            sure = bool(_LABEL.search(before)) or hit.raw_string.startswith("+")
            figure = re.search(r"[$€£#]\s*$", before) or re.match(r"\s?%|[KMkm]\b", text[hit.end :])
            apart = re.search(r"\d[ ().-]+\d", hit.raw_string)
            likely = leniency is Leniency.VALID and (apart or hit.start < contact)
            if not (sure or likely) or figure or _is_range(hit.raw_string):
                continue
            key = phonenumbers.format_number(hit.number, PhoneNumberFormat.E164)
            spans.setdefault(hit.start, (hit.end, key))
    for local in _LOCAL.finditer(text):
        if not any(a <= local.start() < b for a, (b, _) in spans.items()):
            spans[local.start()] = (local.end(), re.sub(r"\D", "", local[0]))
    end = 0
    for start, (stop, key) in sorted(spans.items()):
        if start >= end:
            yield start, stop, key
            end = stop


def _is_range(text: str) -> bool:
    """Whether digits are years or figures from one to another."""
    years = re.fullmatch(r"\(?(?:19|20)\d\d\)?(?:\W+(?:\d\d?\W+)?(?:19|20)?\d\d)+", text)
    return bool(years) or bool(re.fullmatch(r"(\d+)\s*[-–—]\s*(\d+)", text) and len(text) < 7)


def _region(region: str) -> str:
    try:
        from phonenumbers import SUPPORTED_REGIONS
    except ImportError:
        raise missing("phonenumbers", "phone numbers") from None
    if region not in SUPPORTED_REGIONS:
        raise ValueError(f"expected a region of two letters, as US or DE; got {region!r}")
    return region


def _left(text: str) -> dict[str, int]:
    """What may identify somebody and is in no field of its own."""
    hosts = {hit.span() for hit in _LINK.finditer(text) if hit["host"] or hit["path"]}
    bare = {
        (a, b)
        for a, b in hosts - set(_links(text))
        if text[a:b].split("/")[0].lower() not in _WORDS["terms"]
        and not _OWN.search(text[a - 30 : b])
    }
    mails = [hit.span() for hit in _MAIL.finditer(text)]
    bare = {(a, b) for a, b in bare if not any(x <= a < y for x, y in mails)}
    found: dict[str, Any] = {
        "possible other people": _OTHERS,
        "street addresses": _STREET,
        "dates of birth": _BIRTH,
        "numbers of identity cards": _ID,
        "handles": _HANDLE,
    }
    counts = {what: len(pattern.findall(text)) for what, pattern in found.items()}
    # "Dr. Reference 1" is masked
    counts["possible other people"] -= len(
        re.findall(rf"{_TITLES}(?:Reference|Candidate) \d", text)
    )
    counts["possible addresses of sites"] = len(bare)
    return {what: count for what, count in counts.items() if count}
