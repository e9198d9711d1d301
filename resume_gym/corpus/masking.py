"""Mask data that identifies a candidate: names, emails, phone numbers and links.

A `Masker` uses the same placeholders in all documents of one candidate. It masks every capitalized
part of the name, with or without accents, so for a candidate named Baker it masks every "Baker".
Figures other than phone numbers stay. Not detected: employers, dates and achievements that together
identify a person, and names without any marker. `Masker.seen` counts the matches left in place.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
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
from resume_gym.user_errors import missing

FIELDS = ("names", "mail", "phone", "links")
"""Kinds of data to mask."""

_END = rf"(?:{any_of(WORDS['ends'])})"
# The length limits of the standards bound the repetitions, against slow backtracking.
_HOST = rf"(?:[a-z0-9][a-z0-9-]{{0,62}}\.){{1,8}}{_END}"
_TAIL = r"[^\s<>()\[\]|\"'`,;*]*[^\s<>()\[\]|\"'`,;*.:!?]"
_ADDRESS = r"[\w.!#$%&'+=?^{}~-]{1,64}@(?:[\w-]{1,63}\.){1,8}[a-z]{2,}\b"
_MAIL = re.compile(_ADDRESS, re.IGNORECASE)
_LINK = re.compile(
    rf"(?P<mail>{_ADDRESS})"  # what looks like a link in an email is none
    rf"|(?P<full>(?:https?://|ftp://|www\.){_TAIL})"
    rf"|(?<![\w@./-])(?P<path>{_HOST}/{_TAIL})"
    rf"|(?<![\w@./-])(?P<host>{_HOST})(?![\w@/-]|\.\w)",
    re.IGNORECASE,
)
# placeholders, which must not be masked again
_PLACEHOLDER = re.compile(
    r"https://example\.com/\d+|candidate\d+(?:\.\d+)?@example\.com|555-01\d\d"
)
_WORD = r"[A-ZÀ-ÖØ-Þ][\w'’-]+"
_NEXT = rf"[ ]+(?:[A-Z]\.|(?:{any_of(WORDS['particles'])})\b|{_WORD})"
_PERSON = rf"{_WORD}(?:{_NEXT}){{0,3}}"
_FULL = rf"{_WORD}(?:{_NEXT}){{1,3}}"
_TITLES = rf"(?:{any_of(WORDS['titles'])})\.? "
_REFEREE = re.compile(
    rf"^(?:#{{3,6}} |[-*+] )?(?:\*\*)?(?:{_TITLES})?({_FULL})(?=\s*(?:\*\*)?\s*(?:[,:|(–—-]|$))",
    re.MULTILINE,
)
_OTHERS = re.compile(
    rf"\b{_TITLES}(?!(?:Reference|Candidate) \d){_PERSON}"
    rf"|(?i:\b(?:{any_of(WORDS['before'])}))\s+{_FULL}"
)
_STREET = re.compile(
    rf"\b\d{{1,5}}[a-z]? (?:[A-Z][\w.'-]+ ){{1,3}}(?i:{any_of(WORDS['streets'])})\b"
    r"|\b[A-ZÄÖÜ][\wäöüß]+(?:straße|strasse|weg|platz|gasse|gata|straat) \d{1,4}\b"
)
_BIRTH = re.compile(r"\b(?:date of birth|birth ?date|born|d\.?o\.?b\.?)\b.{0,20}?\d", re.IGNORECASE)
_ID = re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])")
_HANDLE = re.compile(r"(?<![\w/.])@[A-Za-z]\w{2,}")
_LABEL = re.compile(r"\b(?:phone|tel|telephone|mobile|cell|fax|whatsapp)\b\W*$", re.IGNORECASE)
# fictional US numbers, common in sample resumes
_LOCAL = re.compile(r"(?<![\w-])(?:\(\d{3}\) ?)?555-\d{4}(?![\w-])")
_ACCOUNT = re.compile(
    rf"\b(?:{any_of(WORDS['networks'])})(?: (?:id|handle|profile|user(?:name)?))?\s*:\s*"
    r"(?!https?:|candidate )(?P<of>[@/]?[\w][\w./-]*\w)(?=\s*(?:$|[|,;•·)]))",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(r"(?<![\w.,$€£#/-])\d{7,15}(?![\w%]|[.,/-]\d)")
_SPACED = re.compile(r"(?<![\w.,$€£#/-])[+(]{0,2}\d{1,5}(?:[ ().-]{1,2}\d{1,8}){1,6}(?![\w%])")


_Span = tuple[int, int, str]  # start, end and key; equal keys have the same placeholder


class Masker:
    """Masks the documents of one candidate.

    Attributes:
        fields: kinds of data to replace.
        replaced: number of replacements, by document and field.
        seen: number of matches left in place, by document and category.
    """

    def __init__(
        self,
        number: int,
        resume: str,
        fields: Collection[str],
        region: str = "US",
        contacts: Collection[tuple[str, str]] = (),
    ) -> None:
        """Extract the names from a resume.

        Args:
            number: number of the candidate, used in placeholders.
            resume: Markdown with the name as its "# " heading.
            fields: subset of `FIELDS` to replace.
            region: two-letter region whose national phone numbers to expect.
            contacts: (field, value) of the candidate's known emails, phones and links.

        Raises:
            ValueError: a field or the region is unknown.
            ModuleNotFoundError: `phonenumbers` is not installed.
        """
        if unknown := set(fields) - set(FIELDS):
            raise ValueError(f"expected {', '.join(FIELDS)} or all; got {min(unknown)!r}")
        self.fields = frozenset(fields)
        self.replaced: dict[str, Counter[str]] = {}
        self.seen: dict[str, Counter[str]] = {}
        self._number = number
        self._region = _region(region)
        self._contacts = [(field, value, _way(field, value)) for field, value in contacts]
        self._own = find_name(resume)
        names, self._forms = _names(resume, self._own, number)
        # placeholders by field and key
        self._known = {"mail": dict[str, str](), "links": {}, "phone": {}, "names": names}

    @property
    def named(self) -> bool:
        """Whether the resume contains the candidate's name."""
        return self._own is not None

    @property
    def wordy(self) -> bool:
        """Whether the name is so long that some of its words may not belong to it."""
        return self._own is not None and len(self._own.words) > MOST_WORDS

    def mask(self, text: str, document: str) -> str:
        """Replace personal data by placeholders; `document` is its key in `replaced` and `seen`."""
        replaced = self.replaced.setdefault(document, Counter())
        seen = self.seen.setdefault(document, Counter())
        # Emails first, since they may contain what looks like a link or a phone number.
        for field in ("mail", "links", "phone", "names"):
            spans = list(self._find_known(field, text))
            spans += [span for span in self._find(field, text) if _apart(span, spans)]
            if field in self.fields:
                replaced[field] += len(spans)
                new = [(start, end, self._placeholder(field, key)) for start, end, key in spans]
                for start, end, placeholder in sorted(new, reverse=True):
                    text = text[:start] + placeholder + text[end:]
            elif spans:
                seen[field] += len(spans)
        phones = list(_phones(text, self._region))
        rest = _without_placeholders(text)
        numbers = sum(_apart(span, phones) for span in _numbers(rest))
        seen.update({"possible phone numbers": numbers} if numbers else {})
        seen.update(_left(rest))
        return text

    def _placeholder(self, field: str, key: str) -> str:
        known = self._known[field]
        count = len(known) + 1
        if key not in known and field == "mail":
            suffix = f".{count}" if count > 1 else ""
            known[key] = f"candidate{self._number:04}{suffix}@example.com"
        elif key not in known and field == "links":
            known[key] = f"https://example.com/{count}"
        elif key not in known and field == "phone":
            # 555-0100 to 555-0199 are reserved for fiction.
            known[key] = f"555-01{(self._number - 1 + count) % 100:02}"
        return known[key]

    def _find_known(self, field: str, text: str) -> Iterator[_Span]:
        """Find the known contacts of a field, longest first."""
        spans: list[tuple[int, int]] = []
        for kind, value, pattern in sorted(self._contacts, key=lambda contact: -len(contact[1])):
            key = re.sub(r"\D", "", value) if kind == "phone" else _site(value)
            for hit in pattern.finditer(text) if kind == field else ():
                if _apart(hit.span(), spans) and not _PLACEHOLDER.fullmatch(hit[0]):
                    spans.append(hit.span())
                    yield *hit.span(), key

    def _find(self, field: str, text: str) -> Iterator[_Span]:
        rest = _without_placeholders(text)
        if field == "mail":
            yield from ((*hit.span(), hit[0].lower()) for hit in _MAIL.finditer(rest))
        elif field == "links":
            links = list(_links(rest))
            links += [span for span in self._accounts(rest) if _apart(span, links)]
            yield from ((start, end, _site(text[start:end])) for start, end in links)
        elif field == "phone":
            yield from _phones(text, self._region)
        else:
            yield from self._people(rest)

    def _accounts(self, text: str) -> Iterator[tuple[int, int]]:
        """Find accounts after the name of a network, and links with the candidate's name."""
        head = _head_size(text)
        for hit in _ACCOUNT.finditer(text):
            handle = hit["of"]
            # Below the contact lines, a plain word after "GitHub:" may be prose.
            unusual = handle[0] in "/@" or (handle[0].islower() and handle[-1].isdigit())
            if unusual or hit.start() < head:
                yield hit.span("of")
        names = [fold(word)[0].lower() for word in self._own.telling] if self._own else []
        for hit in _LINK.finditer(text) if len(names) > 1 else ():
            link = fold(hit[0])[0].lower()
            if not hit["mail"] and names[0] in link and names[-1] in link:
                yield hit.span()

    def _people(self, text: str) -> Iterator[_Span]:
        taken = [hit.span() for hit in _LINK.finditer(text)]
        plain, places = fold(text)
        for hit in self._forms.finditer(plain) if self._forms else ():
            start, end = (places[hit.start()], max(places[hit.end()], places[hit.end() - 1] + 1))
            # "May 5" is a date, even if the candidate is called May.
            date = hit[0].lower() in WORDS["dates"] and re.match(r"\.?,? +\d", text[end:])
            if not date and not any(a <= start < b for a, b in taken):
                yield start, end, hit[0].lower()


def _without_placeholders(text: str) -> str:
    """Replace placeholders by as many null characters, which no pattern matches."""
    return _PLACEHOLDER.sub(lambda hit: "\0" * len(hit[0]), text)


def _way(field: str, value: str) -> re.Pattern[str]:
    """Compile a pattern for a known contact; phone digits may be grouped in any way."""
    digits = re.sub(r"\D", "", value)
    if field == "phone" and len(digits) > 4:
        apart = r"[ ().\-/]{0,3}".join(digits)
        return re.compile(rf"(?<![\w+])[+(]?{apart}(?!\w)")
    # A short account name may be an ordinary word, so it must follow a delimiter.
    before = r"(?<=[:(] |.[(@])" if len(value) < 5 else r"(?<![\w.@-])"
    return re.compile(rf"{before}{re.escape(value)}(?![\w@])", re.IGNORECASE)


def _apart(span: tuple[Any, ...], others: Collection[tuple[Any, ...]]) -> bool:
    """Return whether a span overlaps none of the others."""
    return all(span[1] <= other[0] or other[1] <= span[0] for other in others)


def _site(link: str) -> str:
    """Normalize a link, dropping the scheme and "www."."""
    return re.sub(r"^(?:https?://)?(?:www\.)?|/+$", "", link.lower())


def _numbers(text: str) -> Iterator[tuple[int, int]]:
    """Find 7 to 15 digits that may be a phone number; grouped ones only above the sections."""
    yield from (hit.span() for hit in _NUMBER.finditer(text))
    for hit in _SPACED.finditer(next(_sections(text))[1]):
        if 6 < len(re.sub(r"\D", "", hit[0])) < 16 and not _is_range(hit[0]):
            yield hit.span()


def identity(resume: str) -> set[str]:
    """Return keys that identify the candidate: the name, and emails above the first section."""
    name = find_name(resume)
    head = next(_sections(resume))[1]
    mails = {hit[0].lower() for hit in _MAIL.finditer(head)}
    return mails | ({name.key} if name else set())


def _names(
    resume: str, own: Name | None, number: int
) -> tuple[dict[str, str], re.Pattern[str] | None]:
    """Return placeholders by lower-case form of a name, and a pattern that finds the forms."""
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
    # Longest form first, so that a full name wins over its parts; regex syntax does not count.
    every = "|".join(sorted(ways, key=lambda way: -len(re.sub(r"\(\?i:|[\\()\[\]]", "", way))))
    return known, re.compile(rf"(?<![^\W_]|[.@/-])(?:{every})(?![^\W_]|@|\.\w)")


def _sections(resume: str) -> Iterator[tuple[str, str]]:
    """Yield (heading, body) of each section; the text above the first has no heading."""
    pieces = re.split(r"^## +(.*?)\s*$", resume, flags=re.MULTILINE)
    yield "", pieces[0]
    yield from zip(pieces[1::2], pieces[2::2], strict=True)


def _head_size(resume: str) -> int:
    """Return the number of characters above the first section; 0 without sections."""
    section = re.search(r"^## ", resume, re.MULTILINE)
    return section.start() if section else 0


def _links(text: str) -> Iterator[tuple[int, int]]:
    """Find links; a bare host counts only above the first section."""
    head = _head_size(text)
    for hit in _LINK.finditer(text):
        host = _host(hit[0])
        lower = host.islower()
        # Capitals are for names, not hosts: "ASP.NET/C#", "Booking.com/Agoda".
        path = hit["path"] and (lower or host.lower().endswith(tuple(WORDS["profiles"])))
        bare = hit["host"] and lower and hit.start() < head
        if host.lower() not in WORDS["terms"] and (hit["full"] or path or bare):
            yield hit.span()


def _host(link: str) -> str:
    return re.sub(r"^\w+://", "", link).split("/")[0]


def _phones(text: str, region: str) -> Iterator[tuple[int, int, str]]:
    """Find valid phone numbers, and possible ones after a label or "+", with their digits."""
    try:
        import phonenumbers
        from phonenumbers import Leniency, PhoneNumberFormat, PhoneNumberMatcher
    except ImportError:
        raise missing("reading phone numbers needs", "phonenumbers", "data") from None
    head = _head_size(text)
    spans: dict[int, tuple[int, str]] = {}
    for leniency in (Leniency.VALID, Leniency.POSSIBLE):
        for hit in PhoneNumberMatcher(text, region, leniency=leniency):
            before = text[: hit.start].rpartition("\n")[2]
            sure = bool(_LABEL.search(before)) or hit.raw_string.startswith("+")
            figure = re.search(r"[$€£#]\s*$", before) or re.match(r"\s?%|[KMkm]\b", text[hit.end :])
            apart = re.search(r"\d[ ().-]+\d", hit.raw_string)
            likely = leniency is Leniency.VALID and (apart or hit.start < head)
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
    """Return whether digits are a range of years or of small numbers."""
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
    """Count matches that may identify a person but belong to no field."""
    sites = {
        hit.span()
        for hit in _LINK.finditer(text)
        if (hit["host"] or hit["path"]) and _host(hit[0]).lower() not in WORDS["terms"]
    }
    patterns = {
        "possible other people": _OTHERS,
        "street addresses": _STREET,
        "dates of birth": _BIRTH,
        "numbers of identity cards": _ID,
        "handles": _HANDLE,
    }
    counts = {what: len(pattern.findall(text)) for what, pattern in patterns.items()}
    counts["possible addresses of sites"] = len(sites - set(_links(text)))
    return {what: count for what, count in counts.items() if count}
