"""Masking what identifies a candidate: names, mails, phones and links.

One `Masker` belongs to one candidate, whose documents it gives the same placeholders. It takes a
name wherever it stands as a word with a capital, with accents or without, so a candidate called
Baker loses the Bakers of the resume, too; a figure is never touched. It cannot see that employers,
dates and deeds together may tell who somebody is, nor names that nothing marks as such; what it
saw and left is counted.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

from resume_gym.corpus.names import (
    MOST_WORDS,
    WORDS,
    Name,
    any_of,
    find_name,
    fold,
    forms,
    read_name,
)
from resume_gym.mistakes import missing

FIELDS = ("names", "mail", "phone", "links")
"""What can be masked."""

_END = rf"(?:{any_of(WORDS['ends'])})"
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
_WORD = r"[A-ZÀ-ÖØ-Þ][\w'’-]+"
_NEXT = rf"[ ]+(?:[A-Z]\.|(?:{any_of(WORDS['particles'])})\b|{_WORD})"
_PERSON = rf"{_WORD}(?:{_NEXT}){{0,3}}"
_FULL = rf"{_WORD}(?:{_NEXT}){{1,3}}"
_TITLES = rf"(?:{any_of(WORDS['titles'])})\.? "
_REFEREE = re.compile(
    rf"^(?:#{{3,6}} |[-*+] )?(?:\*\*)?(?:{_TITLES})?({_FULL})(?=\s*(?:\*\*)?\s*(?:[,:|(–—-]|$))",
    re.MULTILINE,
)
_OTHERS = re.compile(rf"\b{_TITLES}{_PERSON}|(?i:\b(?:{any_of(WORDS['before'])}))\s+{_FULL}")
_STREET = re.compile(
    rf"\b\d{{1,5}}[a-z]? (?:[A-Z][\w.'-]+ ){{1,3}}(?i:{any_of(WORDS['streets'])})\b"
    r"|\b[A-ZÄÖÜ][\wäöüß]+(?:straße|strasse|weg|platz|gasse|gata|straat) \d{1,4}\b"
)
_BIRTH = re.compile(r"\b(?:date of birth|birth ?date|born|d\.?o\.?b\.?)\b.{0,20}?\d", re.IGNORECASE)
_ID = re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])")
_HANDLE = re.compile(r"(?<![\w/.])@[A-Za-z]\w{2,}")
_LABEL = re.compile(r"\b(?:phone|tel|telephone|mobile|cell|fax|whatsapp)\b\W*$", re.IGNORECASE)
_LOCAL = re.compile(r"(?<![\w-])(?:\(\d{3}\) ?)?555-\d{4}(?![\w-])")
_ACCOUNT = re.compile(
    rf"\b(?:{any_of(WORDS['networks'])})(?: (?:id|handle|profile|user(?:name)?))?\s*:\s*"
    r"(?!https?:|candidate )(?P<of>[@/]?[\w][\w./-]*\w)(?=\s*(?:$|[|,;•·)]))",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(r"(?<![\w.,$€£#/-])\d{7,15}(?![\w%]|[.,/-]\d)")
_SPACED = re.compile(r"(?<![\w.,$€£#/-])[+(]{0,2}\d{1,5}(?:[ ().-]{1,2}\d{1,8}){1,6}(?![\w%])")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SEASONS = ("spring", "summer", "autumn", "winter")


class Masker:
    """Masks the documents of one candidate.

    Attributes:
        replaced: how often a field was replaced, by document and field.
        seen: what was seen and left, by document and what it is.
    """

    def __init__(
        self,
        number: int,
        resume: str,
        fields: Collection[str],
        region: str = "US",
        contacts: Collection[tuple[str, str]] = (),
    ) -> None:
        """Learn the names of a resume.

        Args:
            number: of the candidate; its placeholders bear it.
            resume: Markdown, the name as its "# " heading.
            fields: those of `FIELDS` to replace.
            region: whose national phone numbers to expect, as "US".
            contacts: mails, phones and links known to be the candidate's: (field, value).

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
        self._contacts = [(field, value, _way(field, value)) for field, value in contacts]
        self._own = find_name(resume)
        self._names, self._ways = _names(resume, self._own, number)

    @property
    def named(self) -> bool:
        """Whether the resume says who the candidate is."""
        return self._own is not None

    @property
    def wordy(self) -> bool:
        """Whether the name has so many words that some may be none of a name."""
        return self._own is not None and len(self._own.words) > MOST_WORDS

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
            spans = self._told(field, text)
            spans += [one for one in find(text) if _apart(one, spans)]
            if field in self.fields:
                replaced[field] += len(spans)
                text = _replace(text, spans)
            elif spans:
                seen[field] += len(spans)
        left = _left(text)
        phones = list(self._phones(text))
        numbers = [span for span in _numbers(text) if _apart(span, phones)]
        if numbers:
            left["possible phone numbers"] = len(numbers)
        seen.update(left)
        return text

    def _told(self, field: str, text: str) -> list[tuple[int, int, str]]:
        """Where the known contacts of a field stand, the longest first."""
        spans: list[tuple[int, int, str]] = []
        number = self._number
        make: dict[str, Callable[[int], str]] = {
            "mail": lambda n: f"candidate{number:04}{f'.{n}' * (n > 1)}@example.com",
            "links": lambda n: f"https://example.com/{n}",
            "phone": lambda n: f"555-01{(number - 1 + n) % 100:02}",
        }
        for its, value, way in sorted(self._contacts, key=lambda one: -len(one[1])):
            for hit in way.finditer(text) if its == field else ():
                key = re.sub(r"\D", "", value) if field == "phone" else _site(value)
                if _apart(hit.span(), spans) and not _OWN.fullmatch(hit[0]):
                    spans.append((*hit.span(), self._place(field, key, make[field])))
        return spans

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
        found = list(_links(text))
        found += [span for span in self._handles(text) if _apart(span, found)]
        for start, end in found:
            key = _site(text[start:end])
            yield start, end, self._place("links", key, lambda n: f"https://example.com/{n}")

    def _handles(self, text: str) -> Iterator[tuple[int, int]]:
        """Accounts after the name of a network, and sites that bear the candidate's name."""
        section = re.search(r"^## ", text, re.MULTILINE)
        for hit in _ACCOUNT.finditer(text):
            in_head = section is not None and hit.start() < section.start()
            handle = hit["of"]
            if in_head or handle[0] in "/@" or (handle[0].islower() and handle[-1].isdigit()):
                yield hit.span("of")
        names = [fold(word)[0].lower() for word in self._own.telling] if self._own else []
        if len(names) > 1:
            for hit in _LINK.finditer(text):
                bears = all(name in fold(hit[0])[0].lower() for name in (names[0], names[-1]))
                if bears and not _in_mail(text, hit.start()):
                    yield hit.span()

    def _phones(self, text: str) -> Iterator[tuple[int, int, str]]:
        first = self._number - 1
        for start, end, digits in _phones(text, self._region):
            new = self._place("phone", digits, lambda n: f"555-01{(first + n) % 100:02}")
            yield start, end, new

    def _people(self, text: str) -> Iterator[tuple[int, int, str]]:
        if self._ways is None:
            return
        taken = [(m.start(), m.end()) for find in (_MAIL, _LINK, _OWN) for m in find.finditer(text)]
        plain, places = fold(text)
        for hit in self._ways.finditer(plain):
            start, end = (places[hit.start()], max(places[hit.end()], places[hit.end() - 1] + 1))
            # "May" before a number is a month.
            date = hit[0].lower().startswith((*_MONTHS, *_SEASONS))
            date = date and bool(re.match(r"\.?,? +\d", text[end:]))
            if not date and not any(a <= start < b for a, b in taken):
                yield start, end, self._names[hit[0].lower()]


def _way(field: str, value: str) -> re.Pattern[str]:
    """A pattern of a known contact; digits of a phone may be set apart in any way."""
    digits = re.sub(r"\D", "", value)
    if field == "phone" and len(digits) > 4:
        apart = r"[ ().\-/]{0,3}".join(digits)
        return re.compile(rf"(?<![\w+])[+(]?{apart}(?!\w)")
    # A short name of an account may be a word: it counts where it is set as one.
    before = r"(?<=[:(] |.[(@])" if len(value) < 5 else r"(?<![\w.@-])"
    return re.compile(rf"{before}{re.escape(value)}(?![\w@])", re.IGNORECASE)


def _apart(span: tuple[Any, ...], others: Collection[tuple[Any, ...]]) -> bool:
    """Whether a span touches none of the others."""
    return all(span[1] <= other[0] or other[1] <= span[0] for other in others)


def _site(link: str) -> str:
    """The same for an address with and without its scheme."""
    return re.sub(r"^(?:https?://)?(?:www\.)?|/+$", "", link.lower())


def _in_mail(text: str, start: int) -> bool:
    return any(hit.start() <= start < hit.end() for hit in _MAIL.finditer(text))


def _numbers(text: str) -> Iterator[tuple[int, int]]:
    """Runs of 7 to 15 digits that may be phone numbers; with gaps where the contact stands."""
    head = next(_sections(text))[1]
    for hit in _NUMBER.finditer(text):
        if not _OWN.search(text[max(0, hit.start() - 30) : hit.end()]):
            yield hit.span()
    for hit in _SPACED.finditer(head):
        own = _OWN.search(head[max(0, hit.start() - 30) : hit.end()])
        if 6 < len(re.sub(r"\D", "", hit[0])) < 16 and not own and not _is_range(hit[0]):
            yield hit.span()


def _replace(text: str, spans: list[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def identity(resume: str) -> set[str]:
    """What tells that two resumes are of one candidate: the name, and mails of the head."""
    name = find_name(resume)
    head = next(_sections(resume))[1]
    mails = {hit[0].lower().removeprefix("mailto:") for hit in _MAIL.finditer(head)}
    return mails | ({name.key} if name else set())


def _names(
    resume: str, own: Name | None, number: int
) -> tuple[dict[str, str], re.Pattern[str] | None]:
    """Placeholders of every form of a name in the resume, in lower case, and how to find them."""
    people = {own: f"Candidate {number:04}"} if own else {}
    for index, (section, body) in enumerate(_sections(resume)):
        if index and "reference" in section.lower():
            for hit in _REFEREE.finditer(body):
                if name := read_name(hit[1]):
                    people.setdefault(name, f"Reference {len(people) + (own is None)}")
    known: dict[str, str] = {}
    ways: dict[str, None] = {}
    for name, placeholder in people.items():
        for form, way in forms(name):
            if known.setdefault(form.lower(), placeholder) == placeholder:
                ways[way] = None
    if not ways:
        return known, None
    # the longest first; a pattern is as long as its form but for its marks
    every = "|".join(sorted(ways, key=lambda way: -len(re.sub(r"\(\?i:|[\\()\[\]]", "", way))))
    return known, re.compile(rf"(?<![^\W_]|[.@/-])(?:{every})(?![^\W_]|@|\.\w)")


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
        if lower in WORDS["terms"] or any(a <= hit.start() < b for a, b in mails):
            continue
        if hit["full"] and _OWN.match(hit[0]):
            continue
        if hit["path"] and host != lower and not lower.endswith(tuple(WORDS["profiles"])):
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
        raise missing("reading phone numbers needs", "phonenumbers", "data") from None
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
        raise missing("reading phone numbers needs", "phonenumbers", "data") from None
    if region not in SUPPORTED_REGIONS:
        raise ValueError(f"expected a region of two letters, as US or DE; got {region!r}")
    return region


def _left(text: str) -> dict[str, int]:
    """What may identify somebody and is in no field of its own."""
    hosts = {hit.span() for hit in _LINK.finditer(text) if hit["host"] or hit["path"]}
    bare = {
        (a, b)
        for a, b in hosts - set(_links(text))
        if text[a:b].split("/")[0].lower() not in WORDS["terms"]
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
