"""Find the candidate's name in a resume, and its mentions in a text."""

import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from resume_gym.corpus.outline import TITLES, is_contact, is_section

WORDS: Mapping[str, list[str]] = tomllib.loads(
    Path(__file__).with_name("masking.toml").read_text(encoding="utf-8")
)


def any_of(words: Collection[str]) -> str:
    """Return a regex that matches any of the words, longest first."""
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_HEAD = re.compile(r" {0,3}(#{1,6} +)?(.*)")
_TITLE = re.compile(
    rf"(?:['’]s?)?\s*(?<!\w)(?:{any_of(TITLES)})(?!\w)(?:\s*[:|–—-]|\s+(?:of|for|von)\b)?",
    re.IGNORECASE,
)
_AFTER_NAME = re.compile(r"\s[|–—-]+\s|[|()\[\]<>{}·•:;/@\t]")
_LABEL = re.compile(r"(?:full |first )?name\s?:\s?", re.IGNORECASE)
_PART = re.compile(r"[^\W\d_][\w'.-]*")
_OTHER_NAME = re.compile(r" [A-Z][a-z]")
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
# variants that Unicode decomposition does not unify
_ALIKE = str.maketrans("’‘ʼ´′‐‑øØłŁđĐðÐı", 5 * "'" + "--oOlLdDdDi")
# German and Scandinavian transliterations
_SPELT = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
    | {"ø": "oe", "Ø": "Oe", "å": "aa", "Å": "Aa", "æ": "ae", "Æ": "Ae"}
)
MOST_WORDS = 4  # a longer heading may contain more than a name


class Name(NamedTuple):
    """The name of a person.

    Attributes:
        text: the name as written.
        words: words of the name, forenames first, without job titles.
        telling: words that identify the person on their own.
    """

    text: str
    words: tuple[str, ...]
    telling: tuple[str, ...]

    @property
    def key(self) -> str:
        """Normalized name, independent of case, accents and word order."""
        return " ".join(sorted(fold(word)[0].lower().strip(".") for word in self.telling))


def find_name(resume: str) -> Name | None:
    """Find the candidate's name: the heading "# Name", or the first line below any "# Resume".

    Returns None if neither looks like the name of a person.
    """
    header: Name | None = None
    first = True
    for line in resume.split("\n"):
        match = _HEAD.match(line[:200])
        marks, text = ((match[1] or "").strip(), match[2]) if match else ("", "")
        if not text.strip():
            continue
        titled = _TITLE.search(text)
        section = bool(marks) and is_section(_TITLE.sub("", text))
        if (section and not titled) or len(marks) > 2 or text.lstrip()[:2] in ("- ", "* ", "+ "):
            break
        name = None if section else read_name(text)
        if name and marks == "#" and (first or len(name.telling) > 1):
            return _without_jobs(name, resume)
        if first and name and _sure(name):
            header = name
        first = first and bool(titled)
    return header


def _sure(name: Name) -> bool:
    """Return whether a text looks like a name even without a heading."""
    small = {*name.words} - {*name.telling, *WORDS["particles"]}
    initials = all(len(word.strip(".")) == 1 for word in small)
    least = len(name.telling) > 1 and len(name.words) <= MOST_WORDS and initials
    return least and not re.search(r"^[-+*] |\d|[.!?]$", name.text) and not is_contact(name.text)


def read_name(text: str) -> Name | None:
    """Parse the name at the start of a heading; None if no word identifies a person."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).strip("#_ \t").strip("*")
    text = _LABEL.sub("", _TITLE.sub("", text).strip(" :|-–—"))
    whole = text
    text = _AFTER_NAME.split(text, maxsplit=1)[0]
    label = len(text.split()) < 2 and whole[len(text) :].startswith(":")  # "title: Resume"
    text = text.strip("*_ ,")
    last, *after = (piece.strip() for piece in text.split(","))
    shown = last
    if after and _is_forename(after[0], last):
        shown = f"{last}, {after[0]}"
        last = f"{after[0]} {last}"
    words = _PART.findall(last.translate(_ALIKE))
    cased = any(map(str.isupper, last))
    if len(words) > 1 and words[-1].lower().strip(".") in WORDS["companies"]:
        return None
    others = [word for word in words if word.lower() not in WORDS["jobs"]]
    telling = [word for word in others if _telling(word, cased)]
    if not telling or (label and "," not in text):
        return None
    if len(telling) > 1 and len(others) < len(words):  # but not in "Anthony Head"
        words, shown = others, " ".join(others)
    return Name(shown, tuple(words), tuple(word for word in words if _telling(word, cased)))


def _is_forename(text: str, surname: str) -> bool:
    """Return whether the text after a comma is a forename, not a credential, job or place."""
    words = [word.lower().replace(".", "") for word in text.split()]
    if not 0 < len(words) <= 3 or {*words} & {*WORDS["ranks"], *WORDS["jobs"]}:
        return False
    plain = surname.isupper() and " " not in surname  # "DOE, JANE"
    code = text.isupper() and len(text) < 6 and not plain  # "Jane Doe, CISSP"
    return not code and all(map(_PART.fullmatch, text.translate(_ALIKE).split()))


def _without_jobs(name: Name, resume: str) -> Name:
    """Drop later identifying words of a long name that also occur in job headings."""
    if len(name.words) <= MOST_WORDS:
        return name
    heads = {
        word for line in re.findall(r"^### (.*)", resume, re.M) for word in _PART.findall(line)
    }
    telling = [word for n, word in enumerate(name.telling) if n < 2 or word not in heads]
    return name._replace(telling=tuple(telling))


def _telling(part: str, cased: bool = True) -> bool:
    """Return whether a part identifies on its own; `cased` if the name has any capitals."""
    plain = part.strip(".'’-")
    if len(plain) < 2 or plain.lower().replace(".", "") in WORDS["ranks"]:
        return False
    return plain[0].isupper() or "'" in plain if cased else plain not in WORDS["particles"]


class Finder:
    """Finds a name in folded text: whole, in parts, abbreviated or joined, in any case.

    A part counts with a capital; without one only beside another part, unless the name itself has
    none. Words that are in the dictionary, too, always need a capital. A forename before another
    name is that of somebody else or of a company.
    """

    def __init__(self, name: Name) -> None:
        spelt = [
            [*map(_key, name.telling)],
            [_key(word.translate(_SPELT)) for word in name.telling],
        ]
        self._parts = {part for parts in spelt for part in parts}
        # "Jean" and "Luc" of Jean-Luc.
        pieces = [_key(one) for word in name.telling if "-" in word for one in word.split("-")]
        self._parts |= {piece for piece in pieces if len(piece) > 1}
        self._last = {parts[-1] for parts in spelt} - {parts[0] for parts in spelt}
        self._joined: set[str] = set()
        if len(name.telling) > 1:
            for parts in spelt:
                first, last = parts[0], parts[-1]
                self._joined |= {"".join(parts), first + last, last + first}
        self._others = {_key(word) for word in name.words} - self._parts
        self._initials = {one[:1] for one in (*map(_key, name.words), *pieces)}
        self._lower = not any(map(str.isupper, name.text))
        # Parts of words cannot be told from other words, only counted.
        least = 5 if name.text.isascii() else 2
        self._long = [part for part in self._parts if len(part) >= least]

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each mention in a folded text, from left to right."""
        run: list[_Token] = []
        for token in self._tokens(text):
            if run and not self._continues(run, token, text[run[-1].stop : token.start]):
                yield from self._mention(run, text)
                run = []
            if run or token.kind != "other":
                run.append(token)
        yield from self._mention(run, text)

    def inside_words(self, text: str) -> int:
        """Count the mentions inside other words of a folded text without mentions."""
        lower = text.lower()
        return sum(map(lower.count, self._long))

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
        if key in self._joined:
            return "joined"
        if key in self._parts:
            return "part"
        if len(word) == 1 and word.isupper() and key in self._initials:
            return "initial"
        return "particle" if key in self._others else "other"

    def _continues(self, run: "list[_Token]", token: "_Token", between: str) -> bool:
        if token.kind == "other" or "joined" in (run[-1].kind, token.kind):
            return False
        if between == ", ":  # "Doe, Jane", "Doe, J."
            return len(run) == 1 and _key(run[0].text) in self._last and token.kind != "particle"
        after_initial = run[-1].kind == "initial" and between in (". ", ".", ".-")
        return between in (" ", ".", "_", "-") or after_initial

    def _mention(self, run: "list[_Token]", text: str) -> Iterator[tuple[int, int]]:
        """Yield a mention in a run of words of the name, without particles at its ends."""
        inside = [n for n, token in enumerate(run) if token.kind != "particle"]
        run = run[inside[0] : inside[-1] + 1] if inside else []
        if run and run[-1].kind == "initial":  # only "Doe J." and "Doe, J."
            dotted = text[run[-1].stop : run[-1].stop + 1] == "."
            run = [*run[:-1], run[-1]._replace(stop=run[-1].stop + 1)] if dotted else run[:-1]
        parts = [token for token in run if token.kind in ("part", "joined")]
        if not parts:
            return
        common = _key(parts[0].text) in WORDS["common"]
        if len({_key(token.text) for token in parts}) > 1 or parts[0].kind == "joined":
            if self._lower or not (common and all(token.text.islower() for token in parts)):
                yield run[0].start, run[-1].stop
            return
        # "Morgan Stanley" is not Morgan Lee.
        forename = _key(parts[0].text) not in self._last and len(self._parts) > 1
        if forename and _OTHER_NAME.match(text, run[-1].stop):
            return
        if not parts[0].text.islower() or (self._lower and not common):
            yield run[0].start, run[-1].stop


class _Token(NamedTuple):
    text: str
    start: int
    stop: int
    kind: str
    """part or joined (of the name), initial, particle (or another word of it), other."""


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
    # Marks are accents and vowel signs, format characters joiners.
    return "".join(one for one in parts if unicodedata.category(one)[0] not in "MC" or one < " ")
