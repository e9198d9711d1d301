"""Find the candidate's name in a resume, and its mentions in a text."""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from resume_gym.corpus.outline import TITLES, is_contact, is_section
from resume_gym.text.lines import LEXICON

WORDS: Mapping[str, list[str]] = tomllib.loads(
    Path(__file__).with_name("masking.toml").read_text(encoding="utf-8")
)


def any_of(words: Iterable[str]) -> str:
    """Return a regex that matches any of the words; it tries longer words first."""
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_HEAD = re.compile(r" {0,3}(#{1,6} +)?(.*)")
_TITLE = re.compile(
    rf"(?:['’]s?)?\s*(?<!\w)(?:{any_of(TITLES)})(?!\w)(?:\s*[:|–—-]|\s+(?:of|for|von)\b)?",
    re.IGNORECASE,
)
_OWNER = re.compile(
    rf"\bname\s?:|['’]s?\s+(?:{any_of(TITLES)})\b|\b(?:{any_of(TITLES)})\s+(?:of|for|von)\b",
    re.IGNORECASE,
)
_MAIL = re.compile(r"([\w.+-]{1,64})@[\w.-]{1,99}")
_AFTER_NAME = re.compile(r"\s[|–—-]+\s|[|()\[\]<>{}·•:;/@]")
_LABEL = re.compile(r"(?:full |first )?name\s?:\s?", re.IGNORECASE)
_PART = re.compile(r"[^\W\d_][\w'.-]*")
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_BETWEEN = re.compile(r"[*_]{0,3}(?:[ \t]{1,3}|\n)[*_]{0,3}|[._-]")  # between parts of a name
# characters that NFKD does not decompose to ASCII, and the ASCII that replaces them
_ALIKE = str.maketrans("’‘ʼ´′‐‑øØłŁđĐðÐı", 5 * "'" + "--oOlLdDdDi")
# German and Scandinavian transliterations
_SPELT = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
    | {"ø": "oe", "Ø": "Oe", "å": "aa", "Å": "Aa", "æ": "ae", "Æ": "Ae"}
)
_HEAD_LINES = 12  # number of lines below the name that may have contact details
_MOST_WORDS = 4  # a heading with more words may contain more than a name
_JOBS = frozenset({*WORDS["jobs"], *LEXICON["claims"]["title_words"]})


class Name(NamedTuple):
    """The name of a person.

    Attributes:
        text: the name as written in the resume.
        words: words of the name, forenames first, without job titles.
        telling: words of the name that identify the person, unlike initials and particles.
        line: line of the resume that contains the name.
    """

    text: str
    words: tuple[str, ...]
    telling: tuple[str, ...]
    line: str = ""

    @property
    def key(self) -> str:
        """The name in a normalized form, independent of case, accents and word order."""
        return " ".join(sorted(fold(word)[0].lower().strip(".") for word in self.telling))


def find_name(resume: str) -> Name | None:
    """Find the candidate's name in the first line, or in the line below a title like "Resume".

    Blank lines are skipped. Return None if neither line looks like the name of a person.
    """
    for line in resume.split("\n"):
        match = _HEAD.match(line[:200])
        marks, text = ((match[1] or "").strip(), match[2]) if match else ("", "")
        if not text.strip():
            continue
        titled = _TITLE.search(text)
        section = bool(marks) and is_section(_TITLE.sub("", text))
        if (section and not titled) or len(marks) > 2 or text.lstrip()[:2] in ("- ", "* ", "+ "):
            return None
        name = None if section else read_name(text, resume)
        if name and not is_contact(name.text):
            return name._replace(line=line)
        if not titled:
            return None
    return None


def read_name(text: str, resume: str) -> Name | None:
    """Return the name at the start of a heading; None if it does not look like a name."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).strip("#_ \t").strip("*")
    text = _LABEL.sub("", _TITLE.sub("", text).strip(" :|-–—"))
    text = _AFTER_NAME.split(text, maxsplit=1)[0].strip("*_ ,")
    shown, *after = (piece.strip() for piece in text.split(","))
    if after and _is_forename(after[0], shown):
        # The rest of the resume tells "Doe, Jane" from "Jane Doe, Berlin" and "Berlin, Germany".
        rest = resume.replace(text, "", 1)
        if _occurs(f"{after[0]} {shown}", rest):
            last, shown = f"{after[0]} {shown}", f"{shown}, {after[0]}"
        elif " " in shown and _occurs(shown, rest):
            last = shown
        else:
            return None
    else:
        last = shown
    if re.search(r"\d|[!?]$", last):
        return None
    words = _PART.findall(last.translate(_ALIKE))
    plain = [word.lower().strip(".") for word in words]
    cased = any(map(str.isupper, last))
    others = [word for word in words if word.lower() not in WORDS["jobs"]]
    small = [word for word in others if cased and word.islower()]
    if {*small} - {*WORDS["particles"], *WORDS["ranks"]} or {*plain} & {*WORDS["greetings"]}:
        return None
    beside = sum(_telling(word, cased) for word in others)
    if not beside or (len(words) > 1 and plain[-1] in WORDS["companies"]):
        return None
    if beside > 1 and len(others) < len(words):  # "Head" in "Anthony Head" is no job
        words, shown = others, " ".join(others)
    if sum(word not in WORDS["particles"] for word in words) > _MOST_WORDS:
        return None
    telling = [word for word in words if _telling(word, cased)]
    letters = sum(len(word.strip(".")) == 1 for word in words)
    # A single word is a full name only in scripts that write names without spaces.
    if not telling or (len(telling) + letters < 2 and last.lower() != last.upper()):
        return None
    return Name(shown, tuple(words), tuple(telling))


def is_certain(name: Name, resume: str, clues: Iterable[str]) -> bool:
    """Return whether `name` is certainly a person's name, and not a place, a job or a section.

    A name is certain if the heading is like "Resume of Jane Doe", or if a clue or a contact detail
    near the heading contains the name. Otherwise, a name is certain if contact details follow it,
    it is not also a job, section or place, and no email contains another person's name.

    Args:
        name: the name from `find_name`.
        resume: Markdown or plain text.
        clues: texts that may contain the name: mail addresses, accounts, the file name.
    """
    below = re.split(r"^#", resume.partition(name.line)[2], maxsplit=1, flags=re.MULTILINE)[0]
    head = [name.line.replace(name.text, "", 1), *below.split("\n")[:_HEAD_LINES]]
    clues = [*clues, *(word for line in head for word in line.split())]
    if _OWNER.search(name.line) or any(_agrees(name, clue) for clue in clues):
        return True
    parts = [_key(word) for word in name.words]
    # "jane.roe@x.org" contradicts the name John Doe, but "sunshine@x.org" does not.
    mails = [re.findall(r"[^\W\d_]{2,}", hit[1]) for hit in map(_MAIL.search, clues) if hit]
    others = [words for words in mails if len(words) > 1 and not {*map(_key, words)} & {*parts}]
    words = name.text.lower().split()
    place = any(" ".join(words[:size]) in _places() for size in range(2, len(words) + 1))
    known = {*parts} & _JOBS or is_section(name.text) or place
    return any(map(is_contact, head)) and not others and not known


def _agrees(name: Name, clue: str) -> bool:
    """Return whether `clue` has two parts of the name, or an email derived from it (jdoe@x.org)."""
    mail = _MAIL.search(clue)
    users = re.findall(r"[^\W\d_]+", mail[1].lower() if mail else "")
    for spelt in (name.telling, [word.translate(_SPELT) for word in name.telling]):
        parts = [part for part in map(_key, spelt) if part]
        first, last = parts[0], parts[-1]
        initials = {first[0] + last, last + first[0], first + last[0]} if len(parts) > 1 else set()
        if sum(part in _key(clue).replace("_", "") for part in {*parts}) > 1:
            return True
        if {*map(_key, users)} & ({part for part in parts if len(part) > 2} | initials):
            return True
    return False


@cache
def _places() -> frozenset[str]:
    """Return the towns, states and countries that `phonenumbers` knows, in lower case."""
    from phonenumbers.geodata import GEOCODE_DATA
    from phonenumbers.geodata.locale import LOCALE_DATA

    names = (*GEOCODE_DATA.values(), *LOCALE_DATA.values())
    return frozenset(one.partition(",")[0].lower() for by in names for one in by.values())


def _occurs(name: str, resume: str) -> bool:
    """Return whether a name occurs in a resume; an email such as hans.mueller@x.org counts."""
    text = re.sub(r"[^\w\n]|_", "", fold(resume)[0]).casefold()
    return any(_key(one.replace(" ", "")) in text for one in (name, name.translate(_SPELT)))


def _is_forename(text: str, surname: str) -> bool:
    """Return whether `text`, which follows "Doe, ", may be forenames, not a credential or job."""
    words = [word.lower().replace(".", "") for word in text.split()]
    if not 0 < len(words) <= 3 or {*words} & {*WORDS["ranks"], *WORDS["jobs"]}:
        return False
    plain = surname.isupper() and " " not in surname  # as in "DOE, JANE"
    code = text.isupper() and len(text) < 6 and not plain  # as in "Jane Doe, CISSP"
    return not code and all(map(_PART.fullmatch, text.translate(_ALIKE).split()))


def _telling(part: str, cased: bool = True) -> bool:
    """Return whether a part of a name is more than an initial, title ("Dr") or particle ("von")."""
    plain = part.strip(".'’-")
    if len(plain) < 2 or plain.lower().replace(".", "") in WORDS["ranks"]:
        return False
    return plain[0].isupper() or "'" in plain if cased else plain not in WORDS["particles"]


class Finder:
    """Finds a name ("Jane Doe", "DOE, J.", "janedoe") in text without accents (see `fold`).

    A mention has two words of the name in their usual order, or the forename (or its initial) and
    another word of the name in any order. One word alone is no mention, since it may be a product
    or a company. A name in lower case is no mention if one of its words is also an ordinary word.
    """

    def __init__(self, name: Name) -> None:
        self.name = name
        self._places: dict[str, set[int]] = {}  # positions of each part in the name
        self._joined: set[str] = set()
        letters = [word for word in name.words if word in name.telling or len(_key(word)) == 1]
        self._first = _key(letters[0])[:1]
        self._alone = len(letters) == 1
        for words in (letters, [word.translate(_SPELT) for word in letters]):
            for place, word in enumerate(words):
                # "Jean" and "Luc" of Jean-Luc are parts, too.
                for piece in filter(None, map(_key, (word, *word.split("-")))):
                    if len(piece) > 1:
                        self._places.setdefault(piece, set()).add(place)
            parts = [_key(word) for word in words if len(_key(word)) > 1]
            if len(parts) > 1:
                first, last = parts[0], parts[-1]
                self._joined |= {"".join(parts), first + last, last + first}
        self._others = {_key(word) for word in name.words} - {*self._places}
        self._initials = {_key(one)[:1] for word in name.words for one in word.split("-")}
        letters = [_key(one)[:1].upper() for word in letters for one in word.split("-")]
        ways = {"".join(letters), letters[0] + letters[-1]} if letters else set()
        marked = [r"\.?[ -]?".join(way) for way in ways if len(way) > 1 and way.isupper()]
        self._short = re.compile(rf"(?<![\w.])(?:{'|'.join(marked) or '(?!)'})(?!\.?\w)")
        self._lower = not any(map(str.isupper, name.text))
        # parts to count inside longer words (`parts_left`), where they are too ambiguous to replace
        least = 5 if name.text.isascii() else 2
        self._long = [*self._joined, *(part for part in self._places if len(part) >= least)]

    def find(self, text: str, head: range = range(0)) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each mention in a folded text, from left to right.

        Within `head`, the character range of the heading, one part of the name is a mention, too.
        """
        run: list[_Token] = []
        for token in self._tokens(text):
            if run and not self._continues(run, token, text[run[-1].stop : token.start]):
                yield from self._mentions(run, text, head)
                run = []
            if run or token.kind != "other":
                run.append(token)
        yield from self._mentions(run, text, head)

    def parts_left(self, text: str) -> dict[str, int]:
        """Count in a masked text: parts of the name, longer words with such parts, and initials."""
        alone = inside = 0
        for token in self._tokens(text):
            if token.kind == "part":
                alone += self._lower or not token.text.islower()
            else:
                inside += any(part in token.text.lower() for part in self._long)
        return {
            "parts of the name": alone,
            "parts of the name inside longer words": inside,
            "initials of the name": len(self._short.findall(text)),
        }

    def _tokens(self, text: str) -> "Iterator[_Token]":
        for match in _WORD.finditer(text):
            word = match[0].removesuffix("'s")
            pieces = [(word, 0)]
            if self._kind(word) == "other" and "-" in word:
                pieces = [(one[0], one.start()) for one in re.finditer(r"[^-]+", word)]
            for piece, at in pieces:
                start = match.start() + at
                yield _Token(piece, start, start + len(piece), self._kind(piece))

    def _kind(self, word: str) -> str:
        key = _key(word)
        if key.strip("0123456789") in self._joined:
            return "joined"
        if key in self._places:
            return "part"
        if len(word) == 1 and (word.isupper() or (self._lower and key in self._others)):
            return "initial"
        return "particle" if key in self._others else "other"

    def _continues(self, run: "list[_Token]", token: "_Token", between: str) -> bool:
        if token.kind == "other" or "joined" in (run[-1].kind, token.kind):
            return False
        if between == ", ":  # a name may be "Doe, Jane" or "Doe, J."; "Jane, Doe" is a list
            surname = len(run) == 1 and any(self._places.get(_key(run[0].text), ()))
            return surname and token.kind != "particle"
        after_initial = run[-1].kind == "initial" and between in (". ", ".", ".-")
        return bool(_BETWEEN.fullmatch(between)) or after_initial

    def _mentions(self, run: "list[_Token]", text: str, head: range) -> Iterator[tuple[int, int]]:
        """Yield the mentions in `run`, a sequence of parts, particles and initials of the name."""
        at = [n for n, token in enumerate(run) if token.kind in ("part", "joined")]
        if not at:
            return
        start, stop = at[0], at[-1] + 1
        whole = self._whole([_key(run[n].text) for n in at])
        if not whole and any(self._places[_key(run[start].text)]):  # the first part is no forename
            if self._abbreviates(run[:start], text):
                start, whole = 0, True
            elif self._abbreviates(run[stop:], text) and text[run[-1].stop :][:1] == ".":
                stop, whole = len(run), True
        named = run[start:stop]
        # A name in lower case may be an ordinary phrase.
        phrase = not self._lower and all(token.text.islower() for token in named)
        if whole and not (phrase and any(_key(one.text) in WORDS["common"] for one in named)):
            yield named[0].start, named[-1].stop + (named[-1].kind == "initial")
        elif run[at[0]].start in head:
            yield from ((run[n].start, run[n].stop) for n in at)

    def _whole(self, parts: Sequence[str]) -> bool:
        """Return whether `parts` suffice for a mention, as "Jane Doe" and "Doe Jane" do."""
        if self._alone or self._kind(parts[0]) == "joined":
            return True
        places = [self._places[part] for part in parts]
        return any(min(a) < max(b) or (0 in b and max(a) > 0) for a, b in pairwise(places))

    def _abbreviates(self, run: "list[_Token]", text: str) -> bool:
        """Return whether all initials in `run` are the name's, and the first is the forename's."""
        letters = [token for token in run if token.kind == "initial"]
        keys = [_key(token.text) for token in letters]
        if not keys or keys[0] != self._first or not {*keys} <= self._initials:
            return False
        # The initials "A" and "I" need a period, since they are also words.
        return text[letters[0].stop :][:1] == "." or keys[0] not in "ai"


class _Token(NamedTuple):
    text: str
    start: int
    stop: int
    kind: str
    """A "part" of the name, "joined" parts, an "initial", a "particle" of the name, or "other"."""


def _key(word: str) -> str:
    """Return a word without accents, case, hyphens and apostrophes."""
    return re.sub(r"[^\w]", "", fold(word)[0]).casefold()


def fold(text: str) -> tuple[str, Sequence[int]]:
    """Remove accents and unify apostrophes; also return the original index of each character."""
    if text.isascii():
        return text, range(len(text) + 1)
    pairs = [(one, n) for n, char in enumerate(text) for one in _plain(char)]
    return "".join(one for one, _ in pairs), [*(n for _, n in pairs), len(text)]


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    parts = unicodedata.normalize("NFKD", char.translate(_ALIKE))
    if len(parts) > 4:  # a single character of Arabic may expand to a phrase
        return char
    # Drop accents, vowel signs and joiners, but keep control characters, such as line feeds.
    return "".join(one for one in parts if unicodedata.category(one)[0] not in "MC" or one < " ")
