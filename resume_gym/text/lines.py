"""Parser that splits a resume into lines with their words, figures, dates and names.

`parse` uses only the text of the resume. `judges.rubric.claims` checks whether a text is true, and
`judges.rubric.signals` whether its changes are better. The word lists are in `lexicon.toml`.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import snowballstemmer

from resume_gym.text.languages import starts_with_day
from resume_gym.text.marks import stream_safe

LEXICON: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8")
)

GLUE = frozenset(LEXICON["words"]["glue"])
"""Function words, which carry no content."""

ENTRY_WORDS = 14
"""Maximum number of words in a line with a job title, a school or contact details."""

PRESENT = 9999.0  # year that stands for "present" in a date range

_STEMMER = snowballstemmer.stemmer("english")
_STEMMER_LOCK = Lock()  # the stemmer has mutable state, and judges may run in threads
_STOP = frozenset(LEXICON["words"]["stop"])
_COMMON = frozenset(
    LEXICON["words"]["common"]
    + LEXICON["words"]["stop"]
    + LEXICON["words"]["sections"]
    + [word for tier in ("weak", "neutral", "strong", "skip") for word in LEXICON["verbs"][tier]]
)
_SECTIONS = frozenset(LEXICON["words"]["sections"])
_SUFFIXES = tuple(LEXICON["words"]["suffixes"])
_IRREGULAR: dict[str, str] = LEXICON["irregular"]
_NUMBERS: dict[str, float] = LEXICON["numbers"] | LEXICON["multiples"]
_SPELT_UNITS: dict[str, str] = dict.fromkeys(LEXICON["multiples"], "x")
_UNITS = {way: unit for unit, ways in LEXICON["units"].items() for way in ways}
_RATES: dict[str, str] = LEXICON["rates"]
_SPANS = frozenset(_RATES.values())
_DEGREES = frozenset(LEXICON["degrees"])
_INITIALS = re.compile(r"(?:[A-Z]\.){2,}[A-Z]")  # "A.A.S"; but "U.S" is not "us"
_FIGURE, _RATE = "#", "~"
"""First characters of the tokens of figures and rates; no word begins with either character."""
_HALF = f"{_FIGURE}0.5x"
_EACH = ("a", "an", "per", "each", "every")
_SCALES: dict[str, float] = LEXICON["scales"]
# For each unit: the index of its quantity (such as time), and the factor that converts the unit to
# the smallest unit of this quantity.
_BASE: dict[str, tuple[Any, float]] = {
    unit: (place, factor)
    for place, quantity in enumerate(LEXICON["quantities"])
    for unit, factor in quantity.items()
}
MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_MONTHS = tuple(name[:3].lower() for name in MONTH_NAMES)


def ways(words: Iterable[str]) -> str:
    """Return a regular expression that matches any of these words, the longest first."""
    ordered = sorted(words, key=lambda word: (-len(word), word))
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in ordered)


_MONTH = f"(?:{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in MONTH_NAMES)}|sept)"
_YEAR = r"(?:19|20)\d\d"
# The order of the alternatives matters: the pattern of figures would also match the digits of URLs
# and dates, and so comes after both. The limits on the length of the parts of an e-mail address or
# domain keep the search in a long run of letters and digits short.
_TOKEN = re.compile(
    rf"""
    (?P<url>(?:https?://|www\.)\S+|[\w.+-]{{1,64}}@[\w-]+\.[\w.]+
      |\b[\w-]{{1,63}}\.(?:com|org|net|io|dev)\b\S*)
    |\b(?:\d\d?(?:st|nd|rd|th)?\.?\s+)?(?P<mon>{_MONTH})\.?,?\s*(?:\d\d?(?:st|nd|rd|th)?,?\s+)?
      (?P<mon_year>{_YEAR}\b|'\d\d\b)
    |\b(?:(?:0?[1-9]|[12]\d|3[01])[./]\s?)?(?P<num>0?[1-9]|1[0-2])[/.]
      (?:(?:1[3-9]|2\d|3[01])/)?(?P<num_year>{_YEAR})\b
    |\b(?P<iso_year>{_YEAR})[-/.](?P<iso>0[1-9]|1[0-2])(?:-[0-3]\d)?(?!\d)
    |(?<![\w.])(?P<cur>(?:[$€£¥₹]|(?-i:CHF|EUR|USD|GBP|INR|Rs)\b\.?)\s?)?
      (?:(?P<val>[1-9]\d{{0,2}}(?:[,.'\ ]\d{{3}})+(?!\d)(?:[.,]\d{{1,2}}(?!\d))?
        |\d+,\d\d?(?=\s?(?:%|€|EUR|CHF|mio\b|kg\b|m\b|h\b))|\d+(?:\.\d+)?)
        |(?P<spelt>(?:{ways(_NUMBERS)})(?:-(?:{ways(("one", *_NUMBERS))}))?)(?![\w.]\w))
      (?:\s?(?P<scale>(?:hundred|thousand|million|billion|lakh|crore|mio|tsd)\b\.?|bn\b
        |(?-i:(?(cur)[kKmMbB]|[kKMB]))(?!\w)))?
      \+?(?:[\s-]?(?P<unit>[%€£]|(?:{ways(way for way in _UNITS if way != "%")})\b))?
      (?!\w)
    |(?P<word>(?:\.(?=[A-Z]))?\w[\w]*(?:[+#]+(?!\w)|[&./'-](?=\w)\w+)*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
# the parts have a maximum length, since every "[" in a text starts a search
_LINK = re.compile(r"\[([^\]]{0,999})\]\(([^)]{0,999})\)")
_MARKUP = re.compile(r"\*+|`+|(?<!\w)_+|_+(?!\w)|^>+\s*")
_MARKED = re.compile(r"[*`_\[>\x00-\x08\x0e-\x1b\x7f]")
_PLAIN = str.maketrans(
    {"\u2013": "-", "\u2014": "-", "\u2212": "-", "\u2018": "'", "\u2019": "'", "\u00a0": " "}
)
_BULLET = re.compile(r"^(\s*)([-*+\u2022\u2023\u25e6\u2013\u2014]|\d{1,2}[.)])\s+(?=\S)")
_HEADING = re.compile(r"^\s*(#{1,6})\s*(.*)$")
_BOLD = re.compile(r"^\s*(?:\*\*|__)([^*_]+)(?:\*\*|__):?\s*$")
_CAPITALS = re.compile(r"[A-Z]+(?:[ &/]+[A-Z]+){0,3}:?")
_LABELLED = re.compile(r"^[A-Z][\w &/-]{2,30}: [^.:]+(?:, [^.,:]+){2,}$")
_JOINT = re.compile(r"[-/&.']")
_HYPHEN = re.compile(r"(?<=\w)[-/](?=\w)")
_RANGE = re.compile(r"\s*(?:-|to|and|or|/|->|through|until|versus|vs\.?)\s*\Z", re.IGNORECASE)
_CURRENCIES: dict[str, str] = LEXICON["currencies"]
# matches a narrow space within a number such as "1 200"
_THIN = re.compile("(?<=\\d)[\u2009\u00a0\u202f](?=\\d{3}(?!\\d))")
_DATE_UNIT = re.compile(r"now|m\d+")
_NOW = re.compile(r"\b(?:present|current|now|today|ongoing)\b", re.IGNORECASE)


class Number(NamedTuple):
    """Value and unit of a figure or date: (50, "%") for 50 percent, (2020, "m1") for Jan 2020."""

    value: float
    unit: str
    quote: str

    def backs(self, claim: "Number") -> bool:
        """Return whether this figure, which is known to be true, supports the figure `claim`."""
        one, other = (_BASE.get(n.unit, (n.unit, 1.0)) for n in (self, claim))
        # equal values in different units, such as 90 minutes and 1.5 hours
        same = self.unit != claim.unit and one[0] == other[0]
        known, said = self.value, claim.value
        if same:
            known, said = known * one[1], said * other[1]
        if abs(known - said) > 1e-9 * max(1.0, abs(known)):
            return False
        if same:
            return True
        # a claim may omit the unit of a known figure ("4" for "4 weeks"), but not a percent sign
        return self.unit == claim.unit or (claim.unit == "" and self.unit != "%")


class ProperName(NamedTuple):
    """A word that looks like the name of a tool, an employer or a school.

    `head` is true for the first word of a sentence, which is capitalized even if it is no name.
    """

    text: str
    head: bool


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """Parsed content of one line; compared and hashed by identity, to be a cheap cache key."""

    body: str
    words: tuple[str, ...]  # words of the line in lower case, in order
    # words, figures ("#4week" for 4 weeks) and rates ("~week" for weekly), in order
    tokens: tuple[str, ...]
    keys: tuple[str, ...]  # the tokens, with words replaced by their stems
    telling: tuple[str, ...]  # the keys of all tokens except function words
    stems: frozenset[str]  # stems of content words and their parts
    numbers: tuple[Number, ...]
    values: frozenset[float]  # values of `numbers`
    names: tuple[ProperName, ...]
    dates: frozenset[str]  # formats of the dates: "Jan 2020", "01/2020", ...

    @property
    def figures(self) -> tuple[Number, ...]:
        """The numbers of the line that are written in digits, except dates."""
        return tuple(
            number
            for number in self.numbers
            if any(map(str.isdigit, number.quote))
            and not _is_year(number)
            and not _DATE_UNIT.fullmatch(number.unit)
        )


@dataclass(frozen=True, slots=True)
class Line:
    """A non-blank line of a resume.

    Attributes:
        number: index of the line in the text, counting blank lines.
        kind: heading, entry (a job, a school, a contact line), skills, bullet or text.
        section: lower-case name of the line's section.
        style: list marker ("-") or kind of heading ("##", "bold", "caps").
        spaced: whether a blank line precedes the line.
    """

    number: int
    raw: str
    kind: str
    section: str
    style: str
    content: Content
    spaced: bool = False

    @property
    def body(self) -> str:
        """The text of the line without markup."""
        return self.content.body


def any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Compile a pattern that matches any of these lower-case words or phrases, longest first."""
    return re.compile(rf"(?<![\w-])(?:{ways(words)})(?![\w-])")


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return the stem of a lower-case word."""
    with _STEMMER_LOCK:
        result: str = _STEMMER.stemWord(_IRREGULAR.get(word, word))
    return result


@lru_cache(maxsize=8192)
def plain(text: str) -> str:
    """Remove markup and invisible characters from a text; convert dashes and quotes to ASCII."""
    if text.isascii() and not _MARKED.search(text):
        return " ".join(text.split())
    text = unicodedata.normalize("NFKC", stream_safe(_THIN.sub(",", text)))
    text = _INVISIBLE.sub("", text).translate(_PLAIN)
    text = _LINK.sub(r"\1 \2", text)
    return " ".join(_MARKUP.sub("", text).split())


@lru_cache(maxsize=8192)
def read(body: str) -> Content:
    """Parse a line of plain text."""
    words: list[str] = []
    tokens: list[str] = []
    numbers: list[Number] = []
    names: list[ProperName] = []
    dates: set[str] = set()
    end = None  # offset of the end of the previous number; a range continues there
    for token in _TOKEN.finditer(body):
        kind = token.lastgroup
        if kind == "word":
            text = _undotted(token[0])
            words.append(text.lower())
            tokens += _pieces(words[-1])
            _read_word(text, body, token.start(), names)
        elif kind == "url":
            names.append(ProperName(token[0].rstrip(".,;)"), False))
            tokens.append(names[-1].text.lower())
        elif token["val"] or token["spelt"]:
            before = numbers[-1:]
            numbers.append(_read_number(body, token, end, numbers))
            if numbers[-2:-1] != before:  # in "42 to 2 percent", 42 is a percentage, too
                place = len(tokens) - 1 - tokens[::-1].index(figure_token(before[0]))
                tokens[place] = figure_token(numbers[-2])
            tokens.append(figure_token(numbers[-1]))
            end = token.end()
            words.extend(token[group].lower() for group in ("spelt", "unit") if token[group])
        else:
            numbers.append(_read_date(token, dates))
            tokens.append(figure_token(numbers[-1]))
            end = None
    if numbers and (now := _NOW.search(body)) and any(1950 <= n.value < 2050 for n in numbers):
        numbers.append(Number(PRESENT, "now", now[0]))
    tokens = _joined(tokens)
    keys = [token if is_figure(token) or is_rate(token) else stem(token) for token in tokens]
    return Content(
        body=body,
        words=tuple(words),
        tokens=tuple(tokens),
        keys=tuple(keys),
        telling=tuple([k for token, k in zip(tokens, keys, strict=True) if token not in GLUE]),
        stems=frozenset([stem(w) for part in words for w in parts(part) if w not in _STOP]),
        numbers=tuple(numbers),
        values=frozenset([number.value for number in numbers]),
        names=tuple(names),
        dates=frozenset(dates),
    )


def figure_token(number: Number) -> str:
    """Format a number as an element of `Content.tokens`: "#4week" for 4 weeks."""
    return f"{_FIGURE}{number.value:g}{number.unit}"


def is_figure(token: str) -> bool:
    """Return whether an element of `Content.tokens` or `Content.keys` is a figure ("#4week")."""
    return token[0] == _FIGURE


def is_rate(token: str) -> bool:
    """Return whether an element of `Content.tokens` or `Content.keys` is a rate ("~week")."""
    return token[0] == _RATE


def _pieces(word: str) -> list[str]:
    """Split a compound word; "don't" becomes "not", and "&" becomes "and"."""
    if word.isalpha():
        return [word]
    # "R&D" stays one word
    word = word.replace("&", "-and-") if len(word) > 3 else word
    pieces = [piece for piece in _HYPHEN.split(word.removesuffix("'s")) if piece]
    return ["not" if piece.endswith("n't") else piece.strip("'") or "'" for piece in pieces]


def _joined(tokens: Sequence[str]) -> list[str]:
    """Replace "weekly" and "a week" by "~week"; drop the preposition of "in half" and "by half"."""
    found: list[str] = []
    for token in tokens:
        last = found[-1] if found else ""
        if token in _RATES:
            found.append(f"{_RATE}{_RATES[token]}")
        elif last in _EACH and _UNITS.get(token) in _SPANS:
            found[-1] = f"{_RATE}{_UNITS[token]}"
        elif token == _HALF and last in ("in", "by"):
            found[-1] = token
        else:
            found.append(token)
    return found


def parts(word: str) -> list[str]:
    """Return a compound word and its parts: "ci/cd", "ci", "cd"; a final "'s" is removed."""
    if word.isalpha():
        return [word]
    word = word.removesuffix("'s").strip("'")
    pieces = [piece for piece in _JOINT.split(word) if len(piece) > 1]
    return [word] if len(pieces) < 2 else [word, *pieces]


def _undotted(word: str) -> str:
    """Return a degree or acronym without its dots ("Ph.D" -> "PhD"), and other words unchanged."""
    bare = word.replace(".", "")
    return bare if bare.lower() in _DEGREES or _INITIALS.fullmatch(word) else word


def _read_word(text: str, body: str, start: int, names: list[ProperName]) -> None:
    if text.islower() and text.isalpha():
        return
    head = _is_head(body, start)
    for piece in _HYPHEN.split(text):
        if is_name_like(piece, head):
            names.append(ProperName(piece.removesuffix("'s"), head))


def _is_head(body: str, start: int) -> bool:
    before = body[:start].rstrip(" \"'")
    return not before or before[-1] in ".!?;:|>" or before.endswith((" -", " /"))


def is_name_like(text: str, head: bool) -> bool:
    """Return whether a word looks like a name, judging by its letters alone."""
    lower = text.lower()
    if len(text) < 2 or lower in _COMMON or lower in _NUMBERS:
        return text in ("C", "R") and not head
    has_digit = any(letter.isdigit() for letter in text) and any(c.isalpha() for c in text)
    inner = any(letter.isupper() for letter in text[1:]) or "+" in text or "#" in text
    if has_digit or inner:
        return True
    if not text[0].isupper() and text[0] != ".":
        return False
    # at the start of a sentence, a capitalized word with a common suffix need not be a name
    return not (head and lower.endswith(_SUFFIXES))


def _read_number(body: str, token: re.Match[str], end: int | None, numbers: list[Number]) -> Number:
    """Parse a number; if it ends a range ("$40-90K"), correct the start in `numbers` ($40,000)."""
    scale = _SCALES.get((token["scale"] or "").lower().rstrip("."), 1.0)
    currency = (token["cur"] or "").strip(" .")
    unit = _CURRENCIES.get(currency, "") or _UNITS.get((token["unit"] or "").lower(), "")
    if word := (token["spelt"] or "").lower():
        value = sum(_NUMBERS.get(piece, 1.0) for piece in word.split("-"))
        unit = unit or _SPELT_UNITS.get(word, "")
    else:
        value = float(_decimal(token["val"]))
    between = None if end is None else _RANGE.fullmatch(body[end : token.start()])
    if between:
        close = between[0].strip() == "-"
        first = numbers[-1]
        if _is_year(first):
            if close and len(token["val"] or "") == 2:
                value += 100 * (first.value // 100)  # in 2019-21, 21 means 2021
        elif first.quote.lstrip("$€£¥₹CHFEURSDGBPIN. ").isdigit():
            # In "$40-90K" and "from 40 to 65%", both figures share currency and unit; a hyphen also
            # extends the scale to the first figure.
            unit = unit or first.unit * (first.unit in _CURRENCIES.values())
            wider = first.value * (scale if close else 1)
            numbers[-1] = Number(wider, first.unit or unit, first.quote)
    return Number(value * scale, unit, token[0].strip())


def _decimal(text: str) -> str:
    """Return a figure without thousands separators and with a decimal point."""
    if text.startswith("0"):
        return text.replace(",", ".")
    return re.sub(r"[,.' ](?=\d{3}(?!\d))", "", text).replace(",", ".")


def _read_date(token: re.Match[str], dates: set[str]) -> Number:
    if name := token["mon"]:
        if name.lower() != "may":  # the full name equals the short one
            short = len(name) < 4 or name.lower() == "sept"
            dates.add("Jan 2020" if short else "January 2020")
        month, year = _MONTHS.index(name[:3].lower()) + 1, token["mon_year"].replace("'", "20")
    elif number := token["num"]:
        dates.add(f"01{token[0][-5]}2020")
        month, year = int(number), token["num_year"]
    else:
        dates.add("2020-01")
        month, year = int(token["iso"]), token["iso_year"]
    return Number(float(year), f"m{month}", token[0])


def _is_year(number: Number) -> bool:
    # the number 2000 is excluded: it is more often a round figure than a year
    return (
        number.unit == ""
        and 1950 <= number.value < 2050
        and number.value != 2000
        and "," not in number.quote
    )


@lru_cache(maxsize=256)
def parse(text: str) -> tuple[Line, ...]:
    """Parse a resume into its non-blank lines."""
    lines: list[Line] = []
    section = ""
    spaced = False
    for number, raw in enumerate(text.split("\n")):
        if not raw.strip():
            spaced = True
            continue
        kind, style, body = _kind(raw, section, not lines)
        content = read(body)
        if kind == "heading":
            section = " ".join(content.words)
        elif kind == "text" and _is_entry(content):
            kind = "entry"
        lines.append(Line(number, raw, kind, section, style, content, spaced))
        spaced = False
    return tuple(lines)


def _is_entry(content: Content) -> bool:
    """Return whether a line is short and has a date or a link, like a job title or contacts."""
    dated = any(_is_year(number) or number.unit[:1] == "m" for number in content.numbers)
    linked = any("@" in name.text or "/" in name.text for name in content.names)
    return (dated or linked) and len(content.words) <= ENTRY_WORDS


def _kind(raw: str, section: str, first: bool) -> tuple[str, str, str]:
    """Return kind, style and plain body of a line."""
    skills = "skill" in section or "technolog" in section
    if match := _HEADING.match(raw):
        body = plain(match[2].rstrip("#"))
        heading = len(match[1]) == 2 or (_is_title(body) and not first)
        return ("heading" if heading else "entry"), match[1], body
    match = _BULLET.match(raw)
    # "14. Oktober 2019" is not a list item
    if match and not (match[2][0].isdigit() and starts_with_day(raw)):
        style = "1." if match[2][0].isdigit() else match[2]
        return ("skills" if skills else "bullet"), style, plain(raw[match.end() :])
    body = plain(raw)
    bold = _BOLD.match(raw)
    if first:
        return "entry", "", body
    if bold and _is_title(body):
        return "heading", "bold", body.rstrip(":")
    if _CAPITALS.fullmatch(body):
        return "heading", "caps", body.rstrip(":")
    if bold:
        return "entry", "", body
    return ("skills" if skills or _LABELLED.match(body) else "text"), "", body


def _is_title(body: str) -> bool:
    """Return whether a line could be the heading of a section."""
    words = body.rstrip(":").lower().replace("&", "and").split()
    return 0 < len(words) <= 4 and sum(word in _SECTIONS for word in words) * 2 >= len(words)
