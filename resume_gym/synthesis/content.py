"""The content bank: what is in `bank/*.toml`, as data, and the drawing of its slots.

A template holds text slots, filled from a vertical (`{users}`), number slots (`{380-900}`,
`{1000-9000/500}`) and at most one metric in square brackets, which a weak bullet leaves out.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

LEVELS = ("junior", "mid", "senior", "staff", "lead", "head")

_BANK = Path(__file__).parent / "bank"
_SLOT = re.compile(r"(?:\b([Aa])n? )?(\$?)\{([^}]+)\}")
_NUMBER = re.compile(r"(\d+)-(\d+)(?:/(\d+))?")
_METRIC = re.compile(r" ?\[(.*?)\]")
_JOINED = re.compile(r"(?:\band|\bthen|\bbut|,)\]? (?=(?:then |also |later |still )?(\w+))")
_IRREGULAR = {"beat", "chose", "gave", "got", "had", "kept", "let", "met", "saw", "went"}


@dataclass(frozen=True, slots=True)
class Bullet:
    """One piece of work, told well and badly.

    Attributes:
        split: the split that may use it.
        strong: the template of its good form.
        gerund: the -ing form of the first word of `strong`.
        vague: the same work without tool, figure or result.
        aside: the same work with a side aspect in front.
        level: the least level, an index of `LEVELS`, of somebody who can claim it.
        one_verb: no second past-tense verb hangs on the first, so a gerund may replace it.
    """

    split: str
    strong: str
    gerund: str
    vague: str
    aside: str
    level: int
    one_verb: bool

    @property
    def verb(self) -> str:
        """The word that opens the good form."""
        return self.strong.split(" ", 1)[0]

    @property
    def words(self) -> int:
        """The length of the good form."""
        return len(self.strong.replace("[,", "").split())

    @property
    def has_metric(self) -> bool:
        """Whether the good form has a figure to leave out."""
        return "[" in self.strong


@dataclass(frozen=True, slots=True)
class Role:
    """A profession: what its resumes and job descriptions are made of."""

    key: str
    title: str
    titles: tuple[str, ...]
    summary: tuple[str, ...]
    skills: tuple[tuple[str, str], ...]
    requirements: tuple[str, ...]
    duties: tuple[str, ...]
    bullets: tuple[Bullet, ...]


@dataclass(frozen=True, slots=True)
class Vertical:
    """An industry: the words for its slots, and its companies by split."""

    name: str
    about: str
    words: Mapping[str, str]
    companies: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class People:
    """Names, places and schools of one split; `degrees` by role."""

    first: Sequence[str]
    last: Sequence[str]
    cities: Sequence[str]
    schools: Sequence[str]
    domains: Sequence[str]
    degrees: Mapping[str, Sequence[str]]


class Story(NamedTuple):
    """A bullet with its slots filled: good form, the same without its metric, weak forms."""

    strong: str
    plain: str
    gerund: str
    vague: str
    aside: str


def fill(template: str, words: Mapping[str, str], rng: Random) -> str:
    """The template with its slots filled and their articles agreeing; metric brackets stay."""

    def value(slot: re.Match[str]) -> str:
        article, dollar, name = slot.groups()
        number = _NUMBER.fullmatch(name)
        text = _number(number, rng) if number else words[name]
        lead = f"{article}{'n' * _takes_an(text)} " if article else ""
        return f"{lead}{dollar}{text}"

    return _SLOT.sub(value, template)


def tell(bullet: Bullet, words: Mapping[str, str], rng: Random) -> Story:
    """The bullet as one person of one company would write it, well and badly."""
    strong = fill(bullet.strong, words, rng)
    return Story(
        strong=_METRIC.sub(lambda metric: _glue(metric[1]), strong),
        plain=_METRIC.sub("", strong),
        gerund=bullet.gerund,
        vague=fill(bullet.vague, words, rng),
        aside=fill(bullet.aside, words, rng),
    )


@lru_cache(maxsize=1)
def load_roles() -> tuple[Role, ...]:
    """All roles, by file name."""
    return tuple(
        Role(
            key=key,
            title=table["title"],
            titles=tuple(table["titles"]),
            summary=tuple(table["summary"]),
            skills=tuple((name, items) for name, items in table["skills"]),
            requirements=tuple(table["requirements"]),
            duties=tuple(duty.rstrip(".") for duty in table["duties"]),
            bullets=_bullets(table),
        )
        for key, table in _role_tables().items()
    )


@lru_cache(maxsize=1)
def load_generic() -> tuple[Bullet, ...]:
    """Bullets for any role."""
    return _bullets(_toml(_BANK / "generic.toml"))


@lru_cache(maxsize=1)
def senior_verbs() -> frozenset[str]:
    """Verbs that open some bullet that beginners cannot claim."""
    bullets = chain(load_generic(), *(role.bullets for role in load_roles()))
    return frozenset(bullet.verb for bullet in bullets if bullet.level > 0)


@lru_cache(maxsize=1)
def load_verticals() -> tuple[Vertical, ...]:
    """All verticals."""
    slots = ("product", "flow", "users", "records", "partners")
    return tuple(
        Vertical(
            name=table["name"],
            about=table["about"],
            words={slot: table[slot] for slot in slots},
            companies=table["companies"],
        )
        for table in _toml(_BANK / "verticals.toml")["verticals"]
    )


@lru_cache(maxsize=2)
def load_padding(split: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Bullets, and sections with their heading, that say nothing a recruiter needs."""
    table = _toml(_BANK / "padding.toml")
    sections = (
        "\n".join([f"## {section['heading']}", "", *(f"- {line}" for line in section["lines"])])
        for section in table[split]["sections"]
    )
    return tuple(table[split]["bullets"]), tuple(sections)


@lru_cache(maxsize=2)
def load_people(split: str) -> People:
    """Who resumes of this split are of."""
    table = _toml(_BANK / "people.toml")
    degrees = {role: group[split] for group in table["degrees"] for role in group["roles"]}
    return People(**table[split], degrees=degrees)


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _role_tables() -> dict[str, dict[str, Any]]:
    return {path.stem: _toml(path) for path in sorted((_BANK / "roles").glob("*.toml"))}


def _bullets(table: dict[str, Any]) -> tuple[Bullet, ...]:
    verbs = _verbs()
    return tuple(
        Bullet(
            split=row["split"],
            strong=row["strong"],
            gerund=row["gerund"],
            vague=row["vague"],
            aside=row["aside"],
            level=LEVELS.index(row.get("from", LEVELS[0])),
            one_verb=not any(_past(word, verbs) for word in _JOINED.findall(row["strong"])),
        )
        for row in table["bullets"]
    )


@lru_cache(maxsize=1)
def _verbs() -> frozenset[str]:
    """Past-tense verbs: those that open a bullet of some role, and some that never do."""
    rows = (row for table in _role_tables().values() for row in table["bullets"])
    return frozenset(_IRREGULAR).union(row["strong"].split(" ", 1)[0].lower() for row in rows)


def _past(word: str, verbs: frozenset[str]) -> bool:
    return word in verbs or word.endswith("ed")


def _takes_an(text: str) -> bool:
    """Whether "an" stands before this word or number, as it is spoken."""
    return text[0] in "aeio8" or re.match(r"1[18](?!\d)", text) is not None


def _number(slot: re.Match[str], rng: Random) -> str:
    low, high, step = int(slot[1]), int(slot[2]), int(slot[3] or 1)
    value = rng.randrange(low, high + 1, step)
    return f"{value:,}" if value >= 10_000 else str(value)


def _glue(metric: str) -> str:
    """A metric joined to the word before it; one that opens with a comma needs no space."""
    return metric if metric.startswith(",") else f" {metric}"
