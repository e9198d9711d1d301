"""The content bank: what is in `bank/*.toml`, as data, and the drawing of its slots.

A deed is one piece of work, told well, told badly in two ways, and told by others. Its templates
hold text slots, filled from a vertical (`{users}`), number slots that draw (`{a:380-900}`,
`{b:1000-9000/500}`) or repeat (`{a}`), and at most one metric in square brackets.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

LEVELS = ("junior", "mid", "senior", "staff", "lead", "head")
BANDS = ("early", "early", "senior", "senior", "lead", "lead")
"""By level: which summaries and duties of a role suit it."""

_BANK = Path(__file__).parent / "bank"
_SLOT = re.compile(r"(?:\b([Aa])n? )?(\$?)\{(\w+)(?::(\d+)-(\d+)(?:/(\d+))?)?\}")
_METRIC = re.compile(r" ?\[(.*?)\]")
_JOINED = re.compile(r"(?:\band|\bthen|\bbut|,)\]? (?=(?:then |also |later |still )?(\w+))")
_IRREGULAR = {"beat", "chose", "gave", "got", "had", "kept", "let", "met", "saw", "went"}


@dataclass(frozen=True, slots=True)
class Deed:
    """One piece of work, as templates.

    Attributes:
        split: the split that may use it.
        told: its good form: a past-tense verb first, no subject.
        gerund: the -ing form of the first word of `told`.
        vague: the same deed under filler, without its metric.
        buried: the same deed with its point hidden; it keeps the metric.
        record: what a document about the candidate (`{Who}`) says of it.
        figure: its metric as an item of a list of results; empty without a metric.
        topic: a noun phrase that names the work.
        now: its good form in the present tense, if it is a continuing duty.
        levels: the lowest and the highest index of `LEVELS` that can claim it.
        only: names of the verticals where it makes sense; empty for all.
        one_verb: no second past-tense verb hangs on the first, so a gerund may replace it.
    """

    split: str
    told: str
    gerund: str
    vague: str
    buried: str
    record: str
    figure: str
    topic: str
    now: str
    levels: tuple[int, int]
    only: frozenset[str]
    one_verb: bool

    @property
    def verb(self) -> str:
        """The word that opens the good form."""
        return self.told.split(" ", 1)[0]

    @property
    def words(self) -> int:
        """The length of the good form."""
        return len(self.told.split())

    @property
    def has_metric(self) -> bool:
        """Whether the good form has a figure to leave out."""
        return "[" in self.told

    def suits(self, level: int, vertical: str) -> bool:
        """Whether somebody of this level in this vertical can have done it."""
        return self.levels[0] <= level <= self.levels[1] and vertical in (self.only or {vertical})


@dataclass(frozen=True, slots=True)
class Story:
    """A deed with its slots filled; `plain` is `told` without its metric, `metric` that alone."""

    told: str
    plain: str
    metric: str
    gerund: str
    vague: str
    buried: str
    record: str
    figure: str
    topic: str
    now: str


@dataclass(frozen=True, slots=True)
class Lines:
    """What resumes and job descriptions of a role are made of, in one split.

    Attributes:
        skills: groups of skills: a name and its items.
        summary: sentences about a candidate, by band of levels.
        duties: lines of a job description, by band of levels.
        must: what every applicant needs; `must_lead`: what leaders need as well.
        nice: what is nice to have.
        distractors: sentences of documents, about the work of others.
    """

    skills: tuple[tuple[str, tuple[str, ...]], ...]
    summary: Mapping[str, Sequence[str]]
    duties: Mapping[str, Sequence[str]]
    must: Sequence[str]
    must_lead: Sequence[str]
    nice: Sequence[str]
    distractors: Sequence[str]


@dataclass(frozen=True, slots=True)
class Role:
    """A profession."""

    key: str
    title: str
    titles: tuple[str, ...]
    lines: Mapping[str, Lines]
    deeds: tuple[Deed, ...]


@dataclass(frozen=True, slots=True)
class Vertical:
    """An industry: the words for its slots; what it is and its companies, by split."""

    name: str
    words: Mapping[str, str]
    about: Mapping[str, str]
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


def fill(template: str, words: Mapping[str, str]) -> str:
    """The template with its slots filled and their articles agreeing; metric brackets stay."""

    def value(slot: re.Match[str]) -> str:
        article, dollar, name = slot.groups()[:3]
        lead = f"{article}{'n' * _takes_an(words[name])} " if article else ""
        return f"{lead}{dollar}{words[name]}"

    return _SLOT.sub(value, template)


def tell(deed: Deed, words: Mapping[str, str], rng: Random) -> Story:
    """The deed as it happened in one company, told well and badly."""
    words = {**words, **_draw(deed.told, rng), "Who": "{Who}"}
    told = fill(deed.told, words)
    metric = _METRIC.search(told)
    return Story(
        told=_join(told),
        plain=_METRIC.sub("", told),
        metric=metric[1] if metric else "",
        gerund=deed.gerund,
        vague=fill(deed.vague, words),
        buried=_join(fill(deed.buried, words)),
        record=fill(deed.record, words),
        figure=fill(deed.figure, words),
        topic=fill(deed.topic, words),
        now=fill(deed.now, words),
    )


def _draw(template: str, rng: Random) -> dict[str, str]:
    """The numbers of the slots that draw, by name."""
    numbers = {}
    for _, _, name, low, high, step in _SLOT.findall(template):
        if low:
            value = rng.randrange(int(low), int(high) + 1, int(step or 1))
            numbers[name] = f"{value:,}" if value >= 10_000 else str(value)
    return numbers


@lru_cache(maxsize=1)
def load_roles() -> tuple[Role, ...]:
    """All roles, by file name."""
    return tuple(
        Role(
            key=path.stem,
            title=table["title"],
            titles=tuple(table["titles"]),
            lines={split: _lines(table[split]) for split in ("train", "eval")},
            deeds=_deeds(table),
        )
        for path in sorted((_BANK / "roles").glob("*.toml"))
        for table in [_toml(path)]
    )


@lru_cache(maxsize=1)
def load_general() -> tuple[Deed, ...]:
    """Deeds that people of any role may have done."""
    return _deeds(_toml(_BANK / "general.toml"))


@lru_cache(maxsize=1)
def load_verticals() -> tuple[Vertical, ...]:
    """All verticals."""
    slots = ("product", "flow", "users", "records", "partners")
    return tuple(
        Vertical(
            name=table["name"],
            words={slot: table[slot] for slot in slots},
            about=table["about"],
            companies=table["companies"],
        )
        for table in _toml(_BANK / "verticals.toml")["verticals"]
    )


@lru_cache(maxsize=2)
def load_padding(split: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Bullets, and sections with their heading, that are true and that this job does not need."""
    table = _toml(_BANK / "padding.toml")[split]
    sections = (
        "\n".join([f"## {section['heading']}", "", *(f"- {line}" for line in section["lines"])])
        for section in table["sections"]
    )
    return tuple(table["bullets"]), tuple(sections)


@lru_cache(maxsize=2)
def load_frames(split: str) -> Mapping[str, Sequence[str]]:
    """Phrases of job descriptions, resumes and documents that suit every role, by name."""
    frames: Mapping[str, Sequence[str]] = _toml(_BANK / "frames.toml")[split]
    return frames


@lru_cache(maxsize=2)
def load_people(split: str) -> People:
    """Who resumes of this split are of."""
    table = _toml(_BANK / "people.toml")
    degrees = {role: group[split] for group in table["degrees"] for role in group["roles"]}
    return People(**table[split], degrees=degrees)


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _lines(table: dict[str, Any]) -> Lines:
    skills = tuple((group["name"], tuple(group["items"])) for group in table["skills"])
    return Lines(**{**table, "skills": skills})


def _deeds(table: dict[str, Any]) -> tuple[Deed, ...]:
    return tuple(
        Deed(
            **{name: row[name] for name in ("split", "told", "gerund", "vague", "buried")},
            **{name: row.get(name, "") for name in ("record", "figure", "topic", "now")},
            levels=(
                LEVELS.index(row.get("from", LEVELS[0])),
                LEVELS.index(row.get("upto", LEVELS[-1])),
            ),
            only=frozenset(row.get("only", ())),
            one_verb=not any(_is_past(word) for word in _JOINED.findall(row["told"])),
        )
        for row in table["deeds"]
    )


def _is_past(word: str) -> bool:
    return word.endswith("ed") or word in _past_verbs()


@lru_cache(maxsize=1)
def _past_verbs() -> frozenset[str]:
    """Past-tense verbs: those that open a deed of some role, and some that never do."""
    tables = [_toml(path) for path in (_BANK / "roles").glob("*.toml")]
    rows = (row for table in tables for row in table["deeds"])
    return frozenset(_IRREGULAR).union(row["told"].split(" ", 1)[0].lower() for row in rows)


def _takes_an(text: str) -> bool:
    """Whether "an" stands before this word or number, as it is spoken."""
    return text[0] in "aeio8" or re.match(r"1[18](?!\d)", text) is not None


def _join(text: str) -> str:
    """The text with its metric joined to the word before it; punctuation needs no space."""
    return _METRIC.sub(lambda hit: hit[1] if hit[1][:1] in ",;:" else f" {hit[1]}", text)
