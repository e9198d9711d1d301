"""Load the content bank (`bank/*.toml`) and fill the templates in it.

A `Deed` is a set of templates about one piece of a candidate's work; `tell` fills the templates.
Text slots (`{users}`) take the words of an industry (`Vertical`). A number slot draws a number from
a range (`{a:380-900}`, or with a step `{b:1000-9000/500}`) or repeats a number already drawn
(`{a}`). A template has at most one metric, in square brackets.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from random import Random
from typing import Any

from resume_gym.text.verbs import GOALS, PAST_TENSES

LEVELS = ("junior", "mid", "senior", "staff", "lead", "head")
BANDS = ("early", "early", "senior", "senior", "lead", "lead")
"""The band of each level; the band selects the summaries and duties of a role."""

_BANK = Path(__file__).parent / "bank"
# The groups match the parts of a slot: article, dollar sign, name, and the minimum, maximum and
# step of a range.
_SLOT = re.compile(r"(?:\b([Aa])n? )?(\$?)\{(\w+)(?::(\d+)-(\d+)(?:/(\d+))?)?\}")
_METRIC = re.compile(r" ?\[(.*?)\]")
# Group 1 matches the word after a conjunction or comma, which may be a second verb.
_JOINED = re.compile(r"(?:\band|\bthen|\bbut|,)\]? (?=(?:then |also |later |still )?(\w+))")


@dataclass(frozen=True)
class Deed:
    """One piece of a candidate's work, as a set of templates.

    Attributes:
        split: split of the tasks in which the deed may occur, "train" or "eval".
        told: good bullet, which opens with a past-tense verb and has no subject.
        gerund: the -ing form of the first word of `told`.
        vague: bad bullet, which is padded with fillers and lacks the metric.
        buried: bad bullet, which hides the main point but keeps the metric.
        record: sentence about the work, for evidence documents; `{Who}` stands for the candidate.
        figure: the metric, worded as an item of the results section; empty if the deed has no
            metric.
        topic: noun phrase that names the work.
        now: good bullet in the present tense if the deed is a continuing duty; empty otherwise.
        levels: lowest and highest level (index into `LEVELS`) of a job that suits the deed.
        only: names of the verticals in which the deed makes sense; empty if all are suitable.
        one_verb: whether `told` has only one past-tense verb, which a gerund can replace.
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

    @cached_property
    def verb(self) -> str:
        """Return the first word of `told`, a past-tense verb."""
        return self.told.split(" ", 1)[0]

    @cached_property
    def is_duty(self) -> bool:
        """Return whether "Responsible for" and `gerund` can replace the opening verb of `told`."""
        return self.one_verb and self.gerund not in GOALS

    @cached_property
    def has_metric(self) -> bool:
        """Return whether `told` has a metric in brackets."""
        return "[" in self.told

    def suits(self, level: int, vertical: str) -> bool:
        """Return whether the deed suits a job of `level` in the industry `vertical`."""
        return self.levels[0] <= level <= self.levels[1] and vertical in (self.only or {vertical})


@dataclass(frozen=True, slots=True)
class Story:
    """The templates of a `Deed`, filled except for `{Who}`; `plain` is `told` without `metric`."""

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
    """Texts for the resumes, job descriptions and documents of a role, in one split.

    Attributes:
        skills: groups of skills as (name, items).
        summary: resume summaries by band (`BANDS`) of the candidate's level.
        duties: duties by band (`BANDS`) of the level of the job applied for.
        must: requirements for every applicant.
        must_lead: additional requirements if the job applied for is in the band "lead".
        nice: optional requirements.
        distractors: sentences about the work of other people, for evidence documents.
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
    """A profession with a job title for each of `LEVELS`, texts by split (`lines`), and deeds."""

    key: str
    title: str
    titles: tuple[str, ...]
    lines: Mapping[str, Lines]
    deeds: tuple[Deed, ...]


@dataclass(frozen=True, slots=True)
class Vertical:
    """An industry: words for text slots and, for each split, a description and company names."""

    name: str
    words: Mapping[str, str]
    about: Mapping[str, str]
    companies: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class People:
    """Names, places, e-mail domains and schools of one split, and degrees by role."""

    first: Sequence[str]
    last: Sequence[str]
    cities: Sequence[str]
    schools: Sequence[str]
    domains: Sequence[str]
    degrees: Mapping[str, Sequence[str]]


def fill(template: str, words: Mapping[str, str]) -> str:
    """Fill a template's slots and adapt "a" or "an" before them; keep the metric's brackets."""

    def value(slot: re.Match[str]) -> str:
        article, dollar, name = slot.groups()[:3]
        lead = f"{article}{'n' * _takes_an(words[name])} " if article else ""
        return f"{lead}{dollar}{words[name]}"

    return _SLOT.sub(value, template)


def tell(deed: Deed, words: Mapping[str, str], rng: Random) -> Story:
    """Draw the numbers of a deed and fill its templates."""
    # All templates share the numbers drawn for `told`. `write_evidence` fills the slot {Who} later.
    words = {**words, "Who": "{Who}"}
    for _, _, name, low, high, step in _SLOT.findall(deed.told):
        if low:
            value = rng.randrange(int(low), int(high) + 1, int(step or 1))
            words[name] = f"{value:,}" if value >= 10_000 else str(value)
    told = fill(deed.told, words)
    metric = _METRIC.search(told)
    return Story(
        told=_join(told),
        plain=_METRIC.sub("", told),
        metric=metric[1] if metric else "",
        gerund=deed.gerund,
        buried=_join(fill(deed.buried, words)),
        **{
            name: fill(getattr(deed, name), words)
            for name in ("vague", "record", "figure", "topic", "now")
        },
    )


@lru_cache(maxsize=1)
def load_roles() -> tuple[Role, ...]:
    """Load all roles of the content bank, ordered by file name."""
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
    """Load the deeds that suit every role."""
    return _deeds(_toml(_BANK / "general.toml"))


@lru_cache(maxsize=1)
def load_verticals() -> tuple[Vertical, ...]:
    """Load all verticals of the content bank."""
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
    """Load superfluous bullets and Markdown sections for overlong resumes."""
    table = _toml(_BANK / "padding.toml")[split]
    sections = (
        "\n".join([f"## {section['heading']}", "", *(f"- {line}" for line in section["lines"])])
        for section in table["sections"]
    )
    return tuple(table["bullets"]), tuple(sections)


@lru_cache(maxsize=2)
def load_frames(split: str) -> Mapping[str, Sequence[str]]:
    """Load frames.toml for a split: named lists of phrases for all roles, such as `closing`."""
    frames: Mapping[str, Sequence[str]] = _toml(_BANK / "frames.toml")[split]
    return frames


@lru_cache(maxsize=1)
def load_forms() -> Mapping[str, Any]:
    """Load forms.toml: openings of bullets; section orders, headings and job headers of resumes."""
    return _toml(_BANK / "forms.toml")


@lru_cache(maxsize=2)
def load_people(split: str) -> People:
    """Load the names, places and schools of a split."""
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
            one_verb=not any(map(_is_past, _JOINED.findall(row["told"]))),
        )
        for row in table["deeds"]
    )


def _is_past(word: str) -> bool:
    return word.endswith("ed") or word in _past_verbs()


@lru_cache(maxsize=1)
def _past_verbs() -> frozenset[str]:
    """Return `PAST_TENSES` and the past-tense verbs that open the deeds of all roles."""
    tables = [_toml(path) for path in (_BANK / "roles").glob("*.toml")]
    rows = (row for table in tables for row in table["deeds"])
    return PAST_TENSES.union(row["told"].split(" ", 1)[0].lower() for row in rows)


def _takes_an(text: str) -> bool:
    # The article depends on the sound: "an 8", "an 11", "an 18", but "a 110" and "a user".
    return text[0] in "aeio8" or re.match(r"1[18](?!\d)", text) is not None


def _join(text: str) -> str:
    """Remove a metric's brackets, and the space before a metric that begins with punctuation."""
    return _METRIC.sub(lambda hit: hit[1] if hit[1][:1] in ",;:" else f" {hit[1]}", text)
