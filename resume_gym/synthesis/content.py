"""Load the content bank (`bank/*.toml`) and fill the templates in it.

A `Deed` is a set of templates about one piece of a candidate's work; `tell` draws its numbers.
Text slots (`{users}`) take the words of an industry (`Vertical`). A number slot draws a number from
a range (`{a:380-900}`, or with a step `{b:1000-9000/500}`) or repeats a number already drawn
(`{a}`). A template has at most one metric, in square brackets. In a weak form, `<weak|repaired>`
marks what a repair changes.

Rules for the texts, which `tests/test_bank.py` checks:

- A weak line is dull, never funny: a busy, sincere person typed it. It has one fault, at most two.
  Good lines are plain, too.
- A repair adds no fact. In all forms of vague_bullets and weak_verbs, and in most of
  wrong_emphasis, the words that a repair keeps stay in their order. A form without marks is
  replaced by the good line, whose words have another order.
- The forms of weak_verbs never say that the candidate only had a part ("Helped with"), since in
  these tasks such lines are true and not faults.
- The other wordings of a good line (`also`) have the same slots and the same metric, but no range.
- A record has the figures of its deed, and `{Who}` as the subject of a clause.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from random import Random
from typing import Any

LEVELS = ("junior", "mid", "senior", "staff", "lead", "head")
BANDS = ("early", "early", "senior", "senior", "lead", "lead")
"""The band of each level; the band selects the summaries and duties of a role."""

_BANK = Path(__file__).parent / "bank"
# The groups match the parts of a slot: article, dollar sign, name, and the minimum, maximum and
# step of a range.
_SLOT = re.compile(r"(?:\b([Aa])n? )?(\$?)\{(\w+)(?::(\d+)-(\d+)(?:/(\d+))?)?\}")
_METRIC = re.compile(r" ?\[(.*?)\]")
_MARK = re.compile(r"<([^<>|]*)\|([^<>|]*)>")
# A line with one of these may have a second verb, so a gerund for the first verb is not enough.
_JOINED = re.compile(r"\b(?:and|then|but|which|who)\b|,")

FORMS = {"vague_bullets": "vague", "wrong_emphasis": "emphasis", "weak_verbs": "verbs"}
"""The weaknesses of a bullet's wording, and the keys of their weak forms in the content bank."""


@dataclass(frozen=True)
class Deed:
    """One piece of a candidate's work, as a set of templates.

    Attributes:
        split: split of the tasks in which the deed may occur, "train" or "eval".
        told: good bullet, which opens with a past-tense verb and has no subject.
        also: other wordings of `told`, for bullets that are not weak.
        gerund: the -ing form of the first word of `told`.
        forms: for each weakness of `FORMS`, pairs of a weak bullet and the bullet that repairs it.
        record: sentence about the work, for evidence documents; `{Who}` stands for the candidate.
        figure: the metric, worded as an item of the results section; empty if the deed has no
            metric.
        topic: noun phrase that names the work.
        now: good bullet in the present tense if the deed is a continuing duty; empty otherwise.
        levels: lowest and highest level (index into `LEVELS`) of a job that suits the deed.
        only: names of the verticals in which the bullet makes sense; empty if all are suitable.
        roles: keys of the roles that the deed suits; empty if all are suitable.
    """

    split: str
    told: str
    also: Sequence[str]
    gerund: str
    forms: Mapping[str, Sequence[tuple[str, str]]]
    record: str
    figure: str
    topic: str
    now: str
    levels: tuple[int, int]
    only: frozenset[str]
    roles: frozenset[str]

    @cached_property
    def verb(self) -> str:
        """Return the first word of `told`, a past-tense verb."""
        return self.told.split(" ", 1)[0]

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the long words of `told`."""
        return frozenset(re.findall(r"[a-z]{5,}", without_metric(self.told).lower()))

    @cached_property
    def one_verb(self) -> bool:
        """Return whether `told` certainly has only one verb, which a gerund can replace."""
        return not _JOINED.search(without_metric(self.told))

    @cached_property
    def has_metric(self) -> bool:
        """Return whether `told` has a metric in brackets."""
        return "[" in self.told

    def suits(self, role: str, level: int, vertical: str) -> bool:
        """Return whether the deed suits a job, given role, level and industry."""
        able = self.levels[0] <= level <= self.levels[1]
        return able and vertical in (self.only or {vertical}) and role in (self.roles or {role})


@dataclass(frozen=True)
class Story:
    """A deed and the words and numbers for its slots; the slot `{Who}` is not filled."""

    deed: Deed
    words: Mapping[str, str]

    def text(self, template: str) -> str:
        """Fill a template of the deed and remove the brackets of its metric."""
        filled = fill(template, self.words)
        return _METRIC.sub(lambda hit: hit[1] if hit[1][:1] in ",;: " else f" {hit[1]}", filled)

    @cached_property
    def told(self) -> str:
        """Return the good bullet with its metric."""
        return self.text(self.deed.told)

    @cached_property
    def plain(self) -> str:
        """Return the good bullet without its metric."""
        return self.text(without_metric(self.deed.told))


@dataclass(frozen=True, slots=True)
class Post:
    """A first or unrelated job, with one to three lines about it."""

    title: str
    employer: str
    lines: Sequence[str]


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
        padding: true and dull duties that no job description asks for.
        core: plain lines about routine work in the job, neither achievements nor weak bullets.
        core_lead: such lines for jobs at the levels "lead" and "head".
        licenses: certificates and courses.
        early: first or unrelated jobs.
    """

    skills: tuple[tuple[str, tuple[str, ...]], ...]
    summary: Mapping[str, Sequence[str]]
    duties: Mapping[str, Sequence[str]]
    must: Sequence[str]
    must_lead: Sequence[str]
    nice: Sequence[str]
    distractors: Sequence[str]
    padding: Sequence[str]
    core: Sequence[str]
    core_lead: Sequence[str]
    licenses: Sequence[str]
    early: Sequence[Post]


@dataclass(frozen=True, slots=True)
class Role:
    """A profession: job titles for trainees and each of `LEVELS`, texts by split, and deeds."""

    key: str
    title: str
    trainee: str
    titles: tuple[str, ...]
    lines: Mapping[str, Lines]
    deeds: tuple[Deed, ...]


@dataclass(frozen=True, slots=True)
class Vertical:
    """An industry: words for text slots and, for each split, a description and company names.

    If `roles` is not empty, the industry suits only these roles, and they suit no other industry.
    """

    name: str
    roles: Sequence[str]
    words: Mapping[str, str]
    about: Mapping[str, str]
    companies: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Region:
    """A city with its neighbors, and the people and schools there.

    Attributes:
        city: where the candidate lives.
        near: places around it.
        zip: postal code of the city.
        phone: template of invented telephone numbers; "#" stands for a digit.
        streets: streets of the city.
        people: full names, each a first name and a surname.
        schools: colleges and universities; the last has short courses.
    """

    city: str
    near: Sequence[str]
    zip: str
    phone: str
    streets: Sequence[str]
    people: Sequence[str]
    schools: Sequence[str]


@dataclass(frozen=True, slots=True)
class People:
    """Regions and mail hosts of one split, and degrees by role."""

    regions: Sequence[Region]
    hosts: Sequence[str]
    degrees: Mapping[str, Sequence[str]]


def fill(template: str, words: Mapping[str, str]) -> str:
    """Fill a template's slots and adapt "a" or "an" before them; keep the metric's brackets."""

    def value(slot: re.Match[str]) -> str:
        article, dollar, name = slot.groups()[:3]
        lead = f"{article}{'n' * _takes_an(words[name])} " if article else ""
        return f"{lead}{dollar}{words[name]}"

    return _SLOT.sub(value, template)


def without_metric(template: str) -> str:
    """Remove the metric of a template."""
    return _METRIC.sub("", template)


def tell(deed: Deed, words: Mapping[str, str], rng: Random) -> Story:
    """Draw the numbers of a deed and return its story."""
    # All templates share the numbers drawn for `told`. `write_evidence` fills the slot {Who} later.
    words = {**words, "Who": "{Who}"}
    for _, _, name, low, high, step in _SLOT.findall(deed.told):
        if low:
            value = rng.randrange(int(low), int(high) + 1, int(step or 1))
            words[name] = f"{value:,}" if value >= 10_000 else str(value)
    return Story(deed, words)


@lru_cache(maxsize=1)
def load_roles() -> tuple[Role, ...]:
    """Load all roles of the content bank, ordered by file name."""
    return tuple(
        Role(
            key=path.stem,
            title=table["title"],
            trainee=table.get("trainee", f"{table['title']} Intern"),
            titles=tuple(table["titles"]),
            lines={split: _lines(table[split]) for split in ("train", "eval")},
            deeds=_deeds(table),
        )
        for path in sorted((_BANK / "roles").glob("*.toml"))
        for table in [_toml(path)]
    )


@lru_cache(maxsize=1)
def load_general() -> tuple[Deed, ...]:
    """Load the deeds that suit many roles."""
    return _deeds(_toml(_BANK / "general.toml"))


@lru_cache(maxsize=1)
def load_verticals() -> tuple[Vertical, ...]:
    """Load all verticals (industries) of the content bank, `bank/verticals.toml`."""
    slots = ("product", "flow", "users", "records", "partners")
    return tuple(
        Vertical(
            name=table["name"],
            roles=table.get("roles", ()),
            words={slot: table[slot] for slot in slots},
            about=table["about"],
            companies=table["companies"],
        )
        for table in _toml(_BANK / "verticals.toml")["verticals"]
    )


@lru_cache
def suitable_verticals(role: str) -> tuple[Vertical, ...]:
    """Return the verticals that suit a role, given its key."""
    own = tuple(vertical for vertical in load_verticals() if role in vertical.roles)
    return own or tuple(vertical for vertical in load_verticals() if not vertical.roles)


@lru_cache(maxsize=2)
def load_padding(split: str) -> tuple[tuple[str, ...], tuple[tuple[str, Sequence[str]], ...]]:
    """Load superfluous bullets and sections, as (heading, lines), for overlong resumes."""
    table = _toml(_BANK / "padding.toml")[split]
    sections = ((section["heading"], section["lines"]) for section in table["sections"])
    return tuple(table["bullets"]), tuple(sections)


@lru_cache(maxsize=2)
def load_frames(split: str) -> Mapping[str, Sequence[str]]:
    """Load frames.toml for a split: named lists of phrases for all roles, such as `closing`."""
    frames: Mapping[str, Sequence[str]] = _toml(_BANK / "frames.toml")[split]
    return frames


@lru_cache(maxsize=1)
def load_forms() -> Mapping[str, Any]:
    """Load forms.toml: hedges and openings; orders, headings, dates, contacts and so on."""
    return _toml(_BANK / "forms.toml")


@lru_cache(maxsize=2)
def load_people(split: str) -> People:
    """Load the regions, mail hosts and degrees of a split."""
    table = _toml(_BANK / "people.toml")
    degrees = {role: group[split] for group in table["degrees"] for role in group["roles"]}
    return People([Region(**row) for row in table[split]], table["hosts"][split], degrees)


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _lines(table: dict[str, Any]) -> Lines:
    skills = tuple((group["name"], tuple(group["items"])) for group in table["skills"])
    early = [Post(**{**row, "lines": tuple(row["lines"])}) for row in table["early"]]
    return Lines(**{**table, "skills": skills, "early": early})


def _deeds(table: dict[str, Any]) -> tuple[Deed, ...]:
    return tuple(
        Deed(
            **{name: row.get(name, "") for name in ("split", "told", "gerund", "topic")},
            **{name: row.get(name, "") for name in ("record", "figure", "now")},
            also=tuple(row.get("also", ())),
            forms={
                weakness: tuple(
                    _form(text, row["told"])
                    for text in (*row[name], *(_combined(row, name) if name != "vague" else ()))
                )
                for weakness, name in FORMS.items()
            },
            levels=(
                LEVELS.index(row.get("from", LEVELS[0])),
                LEVELS.index(row.get("upto", LEVELS[-1])),
            ),
            only=frozenset(row.get("only", ())),
            roles=frozenset(row.get("roles", ())),
        )
        for row in table["deeds"]
    )


def _combined(row: dict[str, Any], name: str) -> Iterator[str]:
    """Yield weak forms with two faults, the second of which is an empty phrase at the end."""
    ends = [end for text in row["vague"] for end in re.findall(r"[^<>|\]](<[^<>|]*\|>)$", text)]
    marked = [text for text in row[name] if "<" in text and text[-1] not in ">]"]
    yield from (f"{text}{end}" for text in marked for end in ends)


def _form(text: str, told: str) -> tuple[str, str]:
    """Return the weak and the repaired side of a weak form."""
    weak, repaired = (" ".join(_MARK.sub(rf"\{side}", text).split()) for side in (1, 2))
    return weak, (repaired if weak != repaired else told)


def _takes_an(text: str) -> bool:
    # The article depends on the sound: "an 8", "an 11", "an 18", but "a 110" and "a user".
    return text[0] in "aeio8" or re.match(r"1[18](?!\d)", text) is not None
