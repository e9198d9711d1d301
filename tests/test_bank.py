"""The texts of the content bank keep the rules that `synthesis.content` states."""

import re
import tomllib
from collections import Counter
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from resume_gym.episode.tasks import SPLITS
from resume_gym.synthesis import content
from resume_gym.synthesis.content import (
    FORMS,
    Deed,
    fill,
    load_frames,
    load_general,
    load_padding,
    load_people,
    load_roles,
    load_verticals,
    suitable_verticals,
    tell,
    without_metric,
)
from resume_gym.text.lines import read

FOLDER = Path(content.__file__).parent / "bank"
WORDS = load_verticals()[0].words
ROLES = {role.key: role for role in load_roles()}
BANKS = {**{key: role.deeds for key, role in ROLES.items()}, "general": load_general()}
LEAST = {"train": 31, "eval": 26}  # deeds of a role
SHOWN = 0.6  # share of a good line's words that its weak form has

RANGE = re.compile(r"\{(\w+):[\d/-]+\}")
SLOTS = {"Who", "years", *WORDS}
ARTICLE = re.compile(r"\b[Aa]n? \[?\$?\{[a-z]\b")
OBJECT = re.compile(r"\b(?:from|to|by|with|of|for) \{Who\}")
PART = re.compile(
    r"(?:I |Was )?(?:help|assist|participat|contribut|support|involved|took part)", re.IGNORECASE
)
PARODY = re.compile(
    r"as it were|so to sa?y|so to speak|among other things|in the course of which|by and by"
    r"|over coffee|and the like|and suchlike|and so forth|pastr|\bchoir|lent a hand|gave a hand"
    r"|had the job of|held responsibility|entrusted|took on the task|dwelt|was occupied|by heart",
    re.IGNORECASE,
)


def texts(value: object) -> list[str]:
    """All strings in nested lists and tables."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in texts(part)]


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.toml")), ids=lambda path: path.stem)
def test_nobody_would_laugh(path: Path) -> None:
    found = texts(tomllib.loads(path.read_text(encoding="utf-8")))
    assert not [text for text in found if PARODY.search(text) or ARTICLE.search(text)]


def test_nothing_of_one_split_is_in_the_other() -> None:
    for role in ROLES.values():
        train, held_out = (role.lines[split] for split in SPLITS)
        for name in ("must", "must_lead", "nice", "distractors", "padding", "core", "core_lead"):
            assert not set(getattr(train, name)) & set(getattr(held_out, name)), (role.key, name)
        for name in ("duties", "summary"):
            own, other = (chain(*getattr(x, name).values()) for x in (train, held_out))
            assert not set(own) & set(other), (role.key, name)
        assert not {name for name, _ in train.skills} & {name for name, _ in held_out.skills}
    told: dict[str, set[str]] = {split: {*load_padding(split)[0]} for split in SPLITS}
    for role in ROLES.values():
        for split in SPLITS:
            told[split] |= {*role.lines[split].padding}
    for deed in chain(*BANKS.values()):
        told[deed.split] |= {deed.told, without_metric(deed.told)}
    assert not told["train"] & told["eval"], "not even in another role"
    for held in (_padding, _places, _surnames):
        own, other = (held(split) for split in SPLITS)
        assert own
        assert other
        assert not own & other
    frames, others = (load_frames(split) for split in SPLITS)
    assert all(not set(frames[name]) & set(others[name]) for name in frames)
    names = [n for v in load_verticals() for split in SPLITS for n in v.companies[split]]
    assert len(set(names)) == len(names)
    assert all(v.about["train"] != v.about["eval"] for v in load_verticals())


def _padding(split: str) -> set[str]:
    bullets, sections = load_padding(split)
    return {*bullets, *(line for _, lines in sections for line in lines)}


def _places(split: str) -> set[str]:
    regions = load_people(split).regions
    return {place for r in regions for place in (r.city, *r.near, *r.streets, *r.schools)}


def _surnames(split: str) -> set[str]:
    return {name.split(" ", 1)[1] for r in load_people(split).regions for name in r.people}


@pytest.mark.parametrize("key", ROLES)
def test_a_role_has_enough_texts_and_industries(key: str) -> None:
    role = ROLES[key]
    assert len(role.titles) == 6
    assert len(suitable_verticals(key)) >= 3
    deeds = Counter(deed.split for deed in role.deeds)
    for split in SPLITS:
        lines = role.lines[split]
        assert deeds[split] >= LEAST[split]
        enough = {"must": 9, "nice": 5, "distractors": 6, "padding": 12, "core": 24, "early": 4}
        for name, least in enough.items():
            assert len(set(getattr(lines, name))) >= least, name
        for name, least in (("summary", 4), ("duties", 5)):
            assert all(len(set(told)) >= least for told in getattr(lines, name).values()), name
        # a candidate with less than two years of experience gets a summary, too
        assert all(any("{years}" not in one for one in told) for told in lines.summary.values())


def test_own_industries_are_for_their_roles_only() -> None:
    own = {role for vertical in load_verticals() for role in vertical.roles}
    assert own == {"nurse", "teacher", "electrician", "store_manager"}
    for key in ROLES:
        assert all((key in vertical.roles) == (key in own) for vertical in suitable_verticals(key))


@pytest.mark.parametrize("name", BANKS)
def test_deeds_of_a_file(name: str) -> None:
    deeds = BANKS[name]
    weak = [text for deed in deeds for pairs in deed.forms.values() for text, _ in pairs]
    assert not [text for text, count in Counter(weak).items() if count > 1]
    assert len({deed.told for deed in deeds}) == len(deeds)
    for deed in deeds:
        assert not deed_faults(deed), deed.told


def deed_faults(deed: Deed) -> list[str]:
    """The broken rules of a deed."""
    story = tell(deed, WORDS, Random(0))
    drawn = set(RANGE.findall(deed.told))
    lines = [deed.told, deed.record, *(text for pairs in deed.forms.values() for text, _ in pairs)]
    used = [set(re.findall(r"\{(\w+)", line)) - SLOTS for line in lines]
    rules = {
        "one metric at most": deed.told.count("[") == deed.told.count("]") <= 1,
        "5 to 24 words": 5 <= len(deed.told.split()) <= 24,
        "the metric is told alone, too": bool(deed.figure) == deed.has_metric,
        "gerund": re.fullmatch(r"[a-z-]+ing", deed.gerund) is not None,
        "no period": not any(re.search(r"(?<!etc)\.$", text) for text in (lines[0], *lines[2:])),
        "the record is about the candidate": "{Who}" in deed.record
        and not OBJECT.search(deed.record),
        "the record has all figures": used[1] == drawn,
        "no other figures": all(figures <= drawn for figures in used),
        "never a part only": not any(PART.match(weak) for weak, _ in deed.forms["weak_verbs"]),
        "other wordings have the same slots": all(
            set(re.findall(r"\$?\{\w+\}", RANGE.sub(r"{\1}", text)))
            == set(re.findall(r"\$?\{\w+\}", RANGE.sub(r"{\1}", deed.told)))
            and not RANGE.search(text)
            and text.count("[") == text.count("]") == deed.told.count("[")
            for text in deed.also
        ),
        "slots are filled": not re.search(r"[{}\[\]<>|]|  | [,;]", story.told + story.plain),
    }
    faults = [rule for rule, kept in rules.items() if not kept]
    return faults + [fault for form in FORMS for fault in form_faults(deed, form)]


def form_faults(deed: Deed, form: str) -> list[str]:
    """The broken rules of the weak forms of a deed."""
    whole = RANGE.sub(r"{\1}", deed.told)
    faults = [] if deed.forms[form] else [f"no {form}"]
    for weak, good in deed.forms[form]:
        story = tell(deed, WORDS, Random(0))
        shown, told = (read(story.text(text)).stems for text in (weak, good))
        rules = {
            "the repair is the good line": RANGE.sub(r"{\1}", good)
            in {whole, *([without_metric(whole)] if form == "vague_bullets" else [])},
            "the weak line is another": weak != whole,
            "the weak line shows the work": len(shown & told) >= SHOWN * len(told),
            "at most 200 characters": len(weak) <= 200,
            "clean": not re.search(r"[{}\[\]<>|]|  | [,;]", story.text(weak) + story.text(good)),
        }
        faults += [f"{rule}: {weak}" for rule, kept in rules.items() if not kept]
    return faults


@pytest.mark.parametrize("number", ["80", "11"])
def test_a_number_that_sounds_like_a_vowel_has_an_before_it(number: str) -> None:
    assert fill("an {a:80-80}-page report, a {a}-day delay", {"a": number}) == (
        f"an {number}-page report, an {number}-day delay"
    )
