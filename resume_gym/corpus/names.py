"""Find the candidate's name in a resume, and generate the forms in which it may occur."""

import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
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
_PART = re.compile(r"[^\W\d_][\w'.-]*")
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
    """Find the candidate's name: the heading "# Name", or a name below "# Resume".

    Returns None if nothing above the first section looks like a name.
    """
    headings: list[Name] = []
    lines: list[Name] = []
    for line in resume.split("\n"):
        match = _HEAD.match(line[:200])
        marks, text = ((match[1] or "").strip(), match[2]) if match else ("", "")
        titled = _TITLE.search(text)
        section = bool(marks) and is_section(_TITLE.sub("", text))
        if section and not titled:
            break
        name = None if section else read_name(text)
        if name and marks == "#":
            return _without_jobs(name, resume)
        if name and _sure(name):
            (headings if marks else lines).append(name)
    return next(iter(headings + lines), None)


def _sure(name: Name) -> bool:
    """Return whether a text looks like a name even without a heading."""
    small = {*name.words} - {*name.telling, *WORDS["particles"]}
    initials = all(len(word.strip(".")) == 1 for word in small)
    least = len(name.telling) > 1 and len(name.words) <= MOST_WORDS and initials
    return least and not re.search(r"^[-+*] |\d|[.!?]$", name.text) and not is_contact(name.text)


def read_name(text: str) -> Name | None:
    """Parse the name at the start of a heading; None if no word identifies a person."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).strip("#_ \t").strip("*")
    text = _AFTER_NAME.split(_TITLE.sub("", text).strip(" :|-–—"))[0].strip("*_ ,")
    last, *after = (piece.strip() for piece in text.split(","))
    shown = last
    if after and _is_forename(after[0], last):
        shown = f"{last}, {after[0]}"
        last = f"{after[0]} {last}"
    words = _PART.findall(last.translate(_ALIKE))
    cased = any(map(str.isupper, last))
    others = [word for word in words if word.lower() not in WORDS["jobs"]]
    telling = [word for word in others if _telling(word, cased)]
    if not telling:
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


def forms(name: Name) -> Iterator[tuple[str, str]]:
    """Yield the forms of a name, each with a regex that finds it in folded text."""
    for spell in (str, lambda word: word.translate(_SPELT)):
        text = fold(spell(name.text))[0]
        parts = [fold(spell(word))[0].strip(".-") for word in name.telling]
        whole = {text, " ".join(fold(spell(word))[0] for word in name.words)}
        if len(parts) > 1:
            first, last = parts[0], parts[-1]
            whole |= {f"{a} {b}" for a, b in pairwise(parts)}
            for a, b in ((first, last), (last, first)):
                whole |= {f"{a}{mark}{b}" for mark in (" ", ", ", "-", ".", "_")}
                joint = a.capitalize() + b.capitalize()
                yield joint, re.escape(joint)
            for short in ("{}. {}", "{}.{}", "{} {}"):
                form = short.format(first[0].upper(), last)
                yield form, _capital(form)
            for short in (f"{last}, {first[0].upper()}.", f"{last} {first[0].upper()}."):
                yield short, _capital(short)
            for form in whole:
                # Lower-case matches of a common word ("will smith") may not be a name.
                any_case = "," not in form and first.lower() not in WORDS["common"]
                yield form, f"(?i:{re.escape(form)})" if any_case else _capital(form)
        else:
            yield from ((form, _capital(form)) for form in whole)
        yield from ((part, _capital(part)) for part in parts)


def _capital(form: str) -> str:
    """Return a regex for a form that starts with a capital, or as written."""
    first = re.escape(form[0].upper())
    if form[0].islower() and form not in WORDS["common"]:
        first = f"[{re.escape(form[0])}{first}]"
    return f"{first}(?i:{re.escape(form[1:])})"


def fold(text: str) -> tuple[str, Sequence[int]]:
    """Remove accents and unify apostrophes; also return the original index of each character."""
    if text.isascii():
        return text, range(len(text) + 1)
    pairs = [(one, n) for n, char in enumerate(text) for one in _plain(char)]
    return "".join(one for one, _ in pairs), [*(n for _, n in pairs), len(text)]


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    parts = unicodedata.normalize("NFKD", char.translate(_ALIKE))
    return "".join(one for one in parts if not unicodedata.combining(one))
