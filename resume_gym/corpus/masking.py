"""Mask data that identifies a candidate: names, emails, phone numbers and links.

A `Masker` replaces only what it recognises for certain: email addresses, links, account names, the
candidate's name, and some phone numbers, namely those that are valid in the selected country, start
with "+" or follow a label ("Phone:"). The name is replaced where it is written in full, with or
without spaces, or with an initial. A single part of the name is not replaced: "Morgan" may be
Morgan Stanley. A value has the same placeholder in all documents of a candidate. Other personal
data is not replaced but counted in `Masker.left`: uncertain matches, and kinds that are not in
`FIELDS` (streets, dates of birth, ID-like numbers, ...). Employers, dates and achievements that
identify a person only in combination are not detected. All passes take linear time, since
repetitions in the patterns are bounded or cannot overlap.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import count

from resume_gym.corpus.names import WORDS, Finder, any_of, find_name, fold, is_certain
from resume_gym.support.user_errors import missing

FIELDS = ("names", "mail", "phone", "links")
"""Kinds of data that can be masked."""

_END = rf"(?:{any_of(WORDS['ends'])})"
# Bounded repetitions prevent slow backtracking; host names and emails have length limits anyway.
_HOST = rf"(?:[a-z0-9][a-z0-9-]{{0,62}}\.){{1,8}}{_END}"
_TAIL = r"[^\s<>()\[\]|\"'`,;*]*[^\s<>()\[\]|\"'`,;*.:!?]"
_ADDRESS = r"[\w.!#$%&'+=?^{}~-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,63}\b"
_OPEN, _CLOSE = r"\s?[\[({<]\s?", r"\s?[\])}>]\s?"
_DOT = rf"(?:{_OPEN}(?:dot|punkt|\.){_CLOSE}|\sdot\s|\.(?=\w))"
_LOCAL_PART = rf"[\w.+-]{{1,64}}(?:{_OPEN}(?:dot|punkt|\.){_CLOSE}[\w.+-]{{1,64}}){{0,3}}"
_MAIL = re.compile(
    rf"(?<![\w.+-])(?:{_ADDRESS}"
    # obfuscated emails: "name [at] mail [dot] com", "name at mail dot com", "name @ mail.com"
    rf"|{_LOCAL_PART}{_OPEN}(?:at|ät|@){_CLOSE}[\w-]{{1,63}}(?:{_DOT}[\w-]{{1,63}}){{0,6}}"
    r"|[\w.+-]{1,64} at [\w-]{1,63}(?: dot [\w-]{1,63}){1,6}"
    r"|[\w.+-]{1,64}\s?@\s?(?:[\w-]{1,63}\s?\.\s?){1,6}[^\W\d_]{2,63}\b)",
    re.IGNORECASE,
)
_LINK = re.compile(
    rf"(?P<mail>{_ADDRESS})"  # an email may contain what looks like a link
    rf"|(?P<full>(?:https?://|ftp://|www\.){_TAIL})"
    rf"|(?<![\w@./-])(?P<path>{_HOST}/{_TAIL})"
    rf"|(?<![\w@./-])(?P<host>{_HOST})(?![\w@/-]|\.\w)",
    re.IGNORECASE,
)
# placeholders of `Masker`, which must not be masked again
_PLACEHOLDER = re.compile(
    r"https://example\.com/\d+|candidate\d+(?:\.\d+)?@example\.com|555-01\d\d"
    r"|Candidate \d{4}(?:-\d+)?"
)
_WORD = r"[A-ZÀ-ÖØ-Þ][\w'’-]+"
_NEXT = rf"[ ]+(?:[A-Z]\.|(?:{any_of(WORDS['particles'])})\b|{_WORD})"
_PERSON = rf"{_WORD}(?:{_NEXT}){{0,3}}"
_FULL = rf"{_WORD}(?:{_NEXT}){{1,3}}"
_TITLES = rf"(?:{any_of(WORDS['titles'])})\.? "
_REFEREE = re.compile(
    rf"^(?:#{{3,6}} |[-*+] )?(?:\*\*)?(?:{_TITLES})?{_FULL}(?=\s?(?:\*\*)?\s?(?:[,:|(–—-]|$))",
    re.MULTILINE,
)
_OTHERS = re.compile(
    rf"\b{_TITLES}(?!Candidate \d){_PERSON}|(?i:\b(?:{any_of(WORDS['before'])}))\s{_FULL}"
)
_FIRST = any_of([*map(str.capitalize, WORDS["streets_before"]), "ul."])
_STREET = re.compile(
    r"\b\d{1,5}(?i:[a-z]| bis| ter)?,? "  # addresses that begin with the house number
    rf"(?:(?:[A-Z\d][\w.'-]{{0,30}} ){{1,3}}(?:{any_of(map(str.title, WORDS['streets']))})\b"
    rf"|(?i:{any_of(WORDS['streets_before'])}) [^\W\d_])"
    rf"|\b(?:{_FIRST})\s(?:[^\W\d_][\w.'-]{{0,30}} ){{1,4}}\d"
    rf"|\b[A-ZÀ-ÖØ-Þ][\w-]{{2,40}}[ -]?(?i:{any_of(WORDS['street_ends'])}) \d{{1,4}}[a-zA-Z]?\b"
    r"|\b(?:P\.? ?O\.? ?Box|Postfach|Apartado) \d"
)
_POSTCODE = re.compile(
    r"\b[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}\b|\b[A-Z]\d[A-Z][ -]?\d[A-Z]\d\b"  # postcodes with letters
    r"|\b\d{4} [A-Z]{2}(?= [A-Z]|,|\s*$)|\b[A-Z]{1,2}-\d{4,6}\b"
    r"|\b(?:[A-Z]{2},? \d{5}|(?:NSW|VIC|QLD|TAS|ACT|WA|SA) \d{4})\b|\b\d{5}-\d{3}\b"
    r"|\b(?i:zip(?: code)?|post(?:al )?code|plz|cep|pin code)\W{1,3}\d{4}"
    # postcodes before the name of a town
    r"|(?:^|[,|;•·:] {0,2})(?:\d{5,6}|\d{2,3}[ -]\d{2,4}) [^\W\d_a-z][^\W\d_]",
    re.MULTILINE,
)
# Postcodes of four digits count only above the first section, since they may be years elsewhere.
_SHORT_POSTCODE = re.compile(r"(?:^|[,|;•·:] {0,2})\d{4} [^\W\d_a-z][^\W\d_]", re.MULTILINE)
_BIRTH = re.compile(
    rf"\b(?:{any_of(WORDS['births'])})(?!\w)[^\n]{{0,25}}?(?:\d{{1,2}}[./-]\d|(?:19|20)\d\d\b)"
    r"|(?<!\w)\*\s?\d{1,2}\.[^\n]{1,12}19\d\d\b",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"(?<![\w-])(?<![-–] )(?:\d{1,2}[./-]\s?\d{1,2}[./-]\s?(?:19|20)\d\d|(?:19|20)\d\d-\d\d-\d\d"
    r"|(?:\d{1,2}(?:st|nd|rd|th|\.)? [^\W\d_]{3,10}\.?|[^\W\d_]{3,10}\.? \d{1,2}),? (?:19|20)\d\d)"
    r"(?!\w|\s?[-–])"
)
_ID = re.compile(
    rf"(?i:\b(?:{any_of(WORDS['ids'])})\b)[^\w\n]{{0,3}}"
    r"(?i:(?:card|no|nr|num|number|code|id)\b[^\w\n]{0,3}){0,2}"
    r"(?!(?:19|20)\d\d\b)(?=[A-Z ./-]{0,9}\d)[A-Z\d](?:[ ./-]?[A-Z\d]){4,33}\b"
    # US and UK social security numbers, IBANs, and other codes of capital letters and digits
    r"|(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])|\b[A-Z]{2}(?: ?\d\d){3} ?[A-D]\b"
    r"|\b[A-Z]{2}\d{2}(?: [A-Z\d]{4}){3,7}(?: [A-Z\d]{1,3})?\b"
    r"|(?<![\w./@-])(?=\d*[A-Z])(?=(?:[A-Z]*\d){6})[A-Z\d]{8,34}(?![\w/-])"
)
# an amount of money, or an IP address
_AMOUNT = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|\d{1,3}(?:[. ]\d{3})*[. ]000")
_GROUPED = re.compile(r"\d{1,3}(?:[. ]\d{3})+")
_HANDLE = re.compile(r"(?<![\w/.@])@[A-Za-z][\w.-]{1,63}\w")
_LABEL = re.compile(rf"\b(?:{any_of(WORDS['phones'])})\b\W{{0,4}}$", re.IGNORECASE)
# fictional US phone numbers, which are common in sample resumes
_LOCAL = re.compile(r"(?<![\w-])(?:\(\d{3}\) ?)?555-\d{4}(?![\w-])")
_ACCOUNT = re.compile(
    rf"(?P<first>(?:^|[|,;•·]) {{0,3}}(?:[-*+] )?)?\b(?:{any_of(WORDS['networks'])})"
    r"(?: (?:id|handle|profile|user(?:name)?))?(?:(?P<label>\s?[:=–—(]\s?)|[ /])"
    r"(?!https?:|candidate )(?P<of>[@/]?[\w][\w./-]{0,99}\w)(?=\s{0,9}(?:$|[|,;•·)]))",
    re.IGNORECASE | re.MULTILINE,
)
_DIGITS = re.compile(
    r"(?:(?<![\w.,$€£#/-])|(?<=[\u3040-\u9fff]))"  # Japanese and Chinese need no space
    r"[+(]{0,2}\d(?:[ ().\-/‐‑‒–—−·•]{0,3}\d){6,20}(?![\w%])"
)
_RANGE = re.compile(  # dates, and ranges of dates or of years
    r"(?:(?:\d{1,2}[./-]){1,2}(?:19|20)?\d\d(?:\s?[-–]\s?|$))+"
    r"|\(?(?:19|20)\d\d\)?(?:\W+(?:\d\d?\W+)?(?:19|20)?\d\d)+"
)
_SPLIT = re.compile(r" [/–-] |  |(?=\+)")

_Span = tuple[int, int, str]  # start, end, key; equal keys get the same placeholder


class Masker:
    """Masks the documents of one candidate.

    Attributes:
        fields: kinds of data to replace.
        replaced: number of replacements, by document and field.
        left: number of personal or uncertain matches not replaced, by document and category.
        named: whether the candidate's name was recognised for certain in the resume.
    """

    def __init__(
        self,
        number: int,
        resume: str,
        fields: Collection[str],
        region: str = "US",
        contacts: Collection[tuple[str, str]] = (),
        exact: bool = False,
    ) -> None:
        """Find the candidate's name in the resume.

        Args:
            number: number of the candidate, which the placeholders contain ("Candidate 0001").
            resume: Markdown, with the name as its "# " heading or first line.
            fields: subset of `FIELDS` to replace.
            region: two-letter code of the country whose national phone numbers are recognised.
            contacts: known contact data as (field, value) pairs. Emails, phone numbers and links
                are replaced; a value of the field "names" only helps to confirm the name.
            exact: whether each spelling gets its own placeholder, which makes `unmask` exact.

        Raises:
            ValueError: a field or the region is unknown.
            ModuleNotFoundError: `phonenumbers` is not installed.
        """
        if unknown := set(fields) - set(FIELDS):
            raise ValueError(f"expected {', '.join(FIELDS)} or all; got {min(unknown)!r}")
        self.fields = frozenset(fields)
        self.replaced: dict[str, Counter[str]] = {}
        self.left: dict[str, Counter[str]] = {}
        self._number = number
        self._resume = resume
        resume = _plain(resume)
        self._exact = exact
        try:
            from phonenumbers import SUPPORTED_REGIONS
        except ImportError:
            raise missing("reading phone numbers needs", "phonenumbers", "data") from None
        if region not in SUPPORTED_REGIONS:
            raise ValueError(f"expected a two-letter country code such as US or DE; got {region!r}")
        self._region = region
        self._contacts = [(*one, _way(*one)) for one in contacts if one[0] != "names"]
        name = find_name(resume)
        self.named = bool(name and is_certain(name, resume, [value for _, value in contacts]))
        self._finder = Finder(name) if name and self.named else None
        # field -> normalised value (see `_placeholder`) -> placeholder
        self._known: dict[str, dict[str, str]] = {field: {} for field in FIELDS}

    @property
    def not_found(self) -> list[str]:
        """The kinds of data that should be replaced but were found in no document."""
        found = sum(self.replaced.values(), Counter())
        return [field for field in FIELDS if field in self.fields and not found[field]]

    @property
    def doubtful(self) -> bool:
        """Whether the user must check the text: no name was found, or doubtful matches remain."""
        nameless = "names" in self.fields and not self.named
        left = self._all_left()
        phones = "phone" in self.fields and left["possible phone numbers"]
        return bool(nameless or phones or left["parts of the name"] or left["initials of the name"])

    def _all_left(self) -> Counter[str]:
        return sum(self.left.values(), Counter())

    @property
    def notes(self) -> list[str]:
        """Notes for the user on what to check in the documents masked so far."""
        notes = []
        left = self._all_left()
        if "names" in self.fields and not self.named:
            notes.append("no name was recognised: check the text for names")
        if others := [field for field in self.not_found if field != "names"]:
            notes.append(f"looked for but not found: {', '.join(others)}")
        if left:
            counts = ", ".join(f"{what}: {count}" for what, count in sorted(left.items()))
            notes.append(f"may be personal, but was not masked: {counts}")
        if "phone" in self.fields and left["possible phone numbers"]:
            country = f"not valid in {self._region}; --phone-region selects another country"
            notes.append(f"numbers that may be phone numbers were not masked: {country}")
        return notes

    def mask(self, text: str, document: str) -> str:
        """Replace personal data by placeholders; store the counts under the key `document`."""
        replaced = self.replaced.setdefault(document, Counter())
        left = self.left.setdefault(document, Counter())
        # Emails are replaced first, since they may contain what looks like a link or phone number.
        for field in ("mail", "links", "phone", "names"):
            spans = _disjoint(text, [*self._find_known(field, text), *self._find(field, text)])
            if field in self.fields:
                replaced[field] += len(spans)
                parts: list[str] = []
                end = 0
                for start, stop, key in spans:
                    parts += (text[end:start], self._placeholder(field, key, text[start:stop]))
                    end = stop
                text = "".join((*parts, text[end:]))
            elif spans:
                left[field] += len(spans)
        rest = _without(_PLACEHOLDER, _plain(text))
        if "phone" not in self.fields:  # otherwise, phone numbers are placeholders already
            chars = [*rest]
            for start, end, _ in _phones(_plain(text), self._region):
                chars[start:end] = "\0" * (end - start)
            rest = "".join(chars)
        left.update(_left(rest))
        if self._finder and "names" in self.fields:
            left.update(self._finder.parts_left(fold(rest)[0]))
        self.left[document] = +left
        return text

    def unmask(self, text: str) -> str:
        """Replace the placeholders in a text, which may have been edited, by the original data."""
        places = {new: old for known in self._known.values() for old, new in known.items()}
        if not places:
            return text
        every = any_of(places)
        # (?a) lets Japanese or Chinese letters adjoin a placeholder: these scripts have no spaces.
        return re.sub(rf"(?a)(?<!\w)(?:{every})(?!\w)", lambda hit: places[hit[0]], text)

    def _placeholder(self, field: str, key: str, found: str) -> str:
        known = self._known[field]
        key = found if self._exact else "" if field == "names" else key
        if key not in known:
            # Reversible placeholders must be unique and must not occur in the resume.
            taken = "\0".join((self._resume, *known.values())) if self._exact else ""
            new = (self._numbered(field, n) for n in count(len(known) + 1))
            known[key] = next(one for one in new if one not in taken)
        return known[key]

    def _numbered(self, field: str, n: int) -> str:
        if field == "names":
            return f"Candidate {self._number:04}" + f"-{n}" * (n > 1)
        if field == "mail":
            return f"candidate{self._number:04}{f'.{n}' * (n > 1)}@example.com"
        if field == "links":
            return f"https://example.com/{n}"
        # The phone numbers 555-0100 to 555-0199 are reserved for fiction.
        wide = "" if n < 100 else f"{n // 100}-"
        return f"{wide}555-01{(self._number - 1 + n) % 100:02}"

    def _find_known(self, field: str, text: str) -> Iterator[_Span]:
        """Find known contacts (argument `contacts` of `__init__`) in a text, the longest first."""
        for kind, value, pattern in sorted(self._contacts, key=lambda contact: -len(contact[1])):
            key = re.sub(r"\D", "", value) if kind == "phone" else _site(value)
            for hit in pattern.finditer(_plain(text)) if kind == field else ():
                if not _PLACEHOLDER.fullmatch(hit[0]):
                    yield *hit.span(), key

    def _find(self, field: str, text: str) -> Iterator[_Span]:
        text = _plain(text)
        rest = _without(_PLACEHOLDER, text)
        if field == "mail":
            yield from ((*hit.span(), hit[0].lower()) for hit in _MAIL.finditer(rest))
        elif field == "links":
            spans = (*_sites(rest)[0], *self._accounts(rest))
            yield from ((start, end, _site(text[start:end])) for start, end in spans)
        elif field == "phone":
            yield from _phones(_without(_ID, text), self._region)
        else:
            yield from self._people(rest)

    def _accounts(self, text: str) -> Iterator[tuple[int, int]]:
        """Find accounts ("GitHub: jdoe"), handles ("@jdoe") and links with the candidate's name."""
        head = _head_size(text)
        for hit in _ACCOUNT.finditer(text):
            handle = hit["of"]
            # Below the contact lines, a word after "GitHub:" is an account only if it is unusual.
            unusual = handle[0] in "/@" or (handle[0].islower() and handle[-1].isdigit())
            # Without a colon, a capitalised word may be part of a product name: "GitHub Actions".
            labelled = hit["label"] or (hit["first"] is not None and not handle.istitle())
            if labelled and (unusual or hit.start() < head):
                yield hit.span("of")
        telling = self._finder.name.telling if self._finder else ()
        names = [fold(word)[0].lower() for word in telling]
        for hit in _HANDLE.finditer(text):
            # Below the contact lines, a handle may be code: "@Override".
            if hit.start() < head or any(name in hit[0].lower() for name in names):
                yield hit.span()
        for hit in _LINK.finditer(text) if len(names) > 1 else ():
            link = fold(hit[0])[0].lower()
            if not hit["mail"] and names[0] in link and names[-1] in link:
                yield hit.span()

    def _people(self, text: str) -> Iterator[_Span]:
        if not self._finder:
            return
        # Skip names inside links: a placeholder with a space would break the link.
        plain, places = fold(_without(_LINK, text))
        line = fold(self._finder.name.line)[0]
        head = max(0, plain.find(line))
        for first, last in self._finder.find(plain, range(head, head + len(line))):
            start, end = places[first], max(places[last], places[last - 1] + 1)
            yield start, end, plain[first:last].lower()


def _disjoint(text: str, spans: Sequence[_Span]) -> list[_Span]:
    """Drop each span that overlaps an earlier span of the list; sort the rest by position."""
    taken = bytearray(len(text))
    kept = []
    for start, stop, key in spans:
        if taken.find(1, start, stop) < 0:
            taken[start:stop] = b"\1" * (stop - start)
            kept.append((start, stop, key))
    return sorted(kept)


def _without(pattern: re.Pattern[str], text: str) -> str:
    """Replace each match by equally many null characters, to hide it but keep all positions."""
    return pattern.sub(lambda hit: "\0" * len(hit[0]), text)


def _plain(text: str) -> str:
    """Normalize characters, such as full-width letters, whose NFKC form is a single character."""
    plain = {ord(char): unicodedata.normalize("NFKC", char) for char in {*text}}
    return text.translate({code: one for code, one in plain.items() if len(one) == 1})


def _way(field: str, value: str) -> re.Pattern[str]:
    """Return a regex for a known contact; it matches phone numbers with any separators."""
    digits = re.sub(r"\D", "", value)
    if field == "phone" and len(digits) > 4:
        apart = r"[ ().\-/]{0,3}".join(digits)
        return re.compile(rf"(?<![\w+])[+(]?{apart}(?!\w)")
    # A short account name may be an ordinary word, so it must follow a delimiter.
    before = r"(?<=[:(] |.[(@])" if len(value) < 5 else r"(?<![\w.@-])"
    return re.compile(rf"{before}{re.escape(value)}(?![\w@])", re.IGNORECASE)


def _site(link: str) -> str:
    """Normalize a link, dropping the scheme and "www."."""
    return re.sub(r"^(?:https?://)?(?:www\.)?|/+$", "", link.lower())


def _numbers(text: str) -> Iterator[str]:
    """Yield the category of each number that may identify a person; skip dates and amounts.

    Above the first section, or in a text without sections, 7 to 15 digits are a possible phone
    number. In the sections, only 7 to 10 digits without separators are a possible phone number.
    Any other number of 9 or more digits is ID-like.
    """
    head = _head_size(text) or len(text)
    for hit in _DIGITS.finditer(text):
        size = len(re.sub(r"\D", "", hit[0]))
        plain = hit[0].isdecimal() and not re.match(r"[.,/-]\d", text[hit.end() : hit.end() + 2])
        if size < 7 or _RANGE.fullmatch(hit[0]) or _AMOUNT.fullmatch(hit[0]):
            continue
        if size < 16 and (hit.start() < head or (plain and size < 11)):
            yield "possible phone numbers"
        elif size > 8:
            yield "ID-like numbers"


def identity(resume: str) -> set[str]:
    """Return the candidate's normalized name and the emails above the first section."""
    name = find_name(resume)
    mails = {hit[0].lower() for hit in _MAIL.finditer(resume[: _head_size(resume) or None])}
    return mails | ({name.key} if name else set())


def _head_size(resume: str) -> int:
    """Return the number of characters before the first "## " heading; 0 without such a heading."""
    section = re.search(r"^## ", resume, re.MULTILINE)
    return section.start() if section else 0


def _sites(text: str) -> tuple[list[tuple[int, int]], int]:
    """Return the spans of matches that are certainly links, and the number of uncertain matches.

    A host name without a path counts as a link only above the first section.
    """
    head, links, others = _head_size(text), [], 0
    for hit in _LINK.finditer(text):
        host = re.sub(r"^\w+://", "", hit[0]).split("/")[0]
        if host.lower() in WORDS["terms"]:
            continue
        # A host in capitals is a product or company, not a link: "ASP.NET/C#", "Booking.com/Agoda".
        path = host.islower() or host.lower().endswith(tuple(WORDS["profiles"]))
        bare = host.islower() and hit.start() < head
        if hit["full"] or (hit["path"] and path) or (hit["host"] and bare):
            links.append(hit.span())
        elif not hit["mail"]:
            others += 1
    return links, others


def _phones(text: str, region: str) -> Iterator[_Span]:
    """Find the numbers that `_phone` recognises as phone numbers."""
    head = _head_size(text)
    for hit in _DIGITS.finditer(text):
        # One match may contain several phone numbers beside each other.
        cuts = [0, *(cut for one in _SPLIT.finditer(hit[0]) for cut in one.span()), len(hit[0])]
        pieces = list(zip(cuts[::2], cuts[1::2], strict=True))
        for first, last in ((0, len(hit[0])), *pieces) if len(pieces) > 1 else pieces:
            number = hit[0][first:last]
            start, stop = hit.start() + first, hit.start() + last
            if number.startswith("(") and ")" not in number:
                start, number = start + 1, number[1:]
            before = text[max(0, start - 30) : start].rpartition("\n")[2]
            if key := _phone(number, before, text[stop : stop + 3], start < head, region):
                yield start, stop, key
    yield from ((*hit.span(), re.sub(r"\D", "", hit[0])) for hit in _LOCAL.finditer(text))


def _phone(number: str, before: str, after: str, at_head: bool, region: str) -> str:
    """Return the normalized number if it is certainly a phone number, else an empty string."""
    import phonenumbers

    digits = re.sub(r"\D", "", number)
    figure = re.search(r"[$€£#]\s?$", before) or re.match(r"\s?%|[KMkm]\b", after)
    if figure or not 6 < len(digits) < 16 or _RANGE.fullmatch(number):
        return ""
    labelled = bool(_LABEL.search(before))
    if _GROUPED.fullmatch(number) and not (labelled or at_head):  # perhaps an amount of money
        return ""
    try:
        parsed = phonenumbers.parse(re.sub("[·•]", "-", number), region)
    except phonenumbers.NumberParseException:
        return digits if labelled else ""
    apart = at_head or re.search(r"\d[ ().\-‐‑‒–—−·•]+\d", number)
    foreign = "+" in number and phonenumbers.is_possible_number(parsed)
    if labelled or foreign or (apart and phonenumbers.is_valid_number(parsed)):
        return phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164)
    return ""


def _left(text: str) -> Counter[str]:
    """Count uncertain matches, and personal data that is never masked, by category."""
    counts = Counter({"possible web addresses": _sites(text)[1]})
    head = _head_size(text)
    for what, pattern, size in (
        ("dates of birth", _BIRTH, None),
        ("dates of birth", _DATE, head),
        ("ID-like numbers", _ID, None),
        ("street addresses", _STREET, None),
        ("postcodes", _POSTCODE, None),
        ("postcodes", _SHORT_POSTCODE, head),
        ("possible other people", _OTHERS, None),
        ("handles", _HANDLE, None),
    ):
        part, rest = text[:size], text[len(text[:size]) :]
        counts[what] += len(pattern.findall(part))
        text = _without(pattern, part) + rest
    counts.update(_numbers(text))
    sections = re.split(r"^## +", text, flags=re.MULTILINE)[1:]
    referees = (one for one in sections if "reference" in one.partition("\n")[0].lower())
    counts["possible other people"] += sum(len(_REFEREE.findall(one)) for one in referees)
    return counts
