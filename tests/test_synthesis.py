"""The content bank keeps its rules, and generated tasks keep theirs, for any seed."""

import random
import re
from collections import Counter
from functools import lru_cache
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import resume_gym
from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.sources import load_tasks
from resume_gym.episode.tasks import (
    EVIDENCE_KINDS,
    SPLITS,
    WEAKNESSES,
    Fix,
    Task,
    read_jsonl,
    repair,
    repaired,
)
from resume_gym.synthesis import generate_task, generate_tasks, procedural
from resume_gym.synthesis.content import (
    Deed,
    Story,
    fill,
    load_frames,
    load_general,
    load_padding,
    load_people,
    load_roles,
    load_verticals,
    tell,
)
from resume_gym.synthesis.procedural import HELPED, PAGE_WIDTH, SIZES
from resume_gym.synthesis.weaknesses import HEDGES, in_first_person
from resume_gym.text.lines import parse, plain, read
from resume_gym.text.style import head, is_weak

DATA = Path(resume_gym.__file__).parent / "data"
BUNDLES = {"default": "full", "mini": "mini"}
COUNTS = {"train": 160, "eval": 40}
WORDS = load_verticals()[0].words
ROLES = {role.key: role for role in load_roles()}
BANKS = {**{key: role.deeds for key, role in ROLES.items()}, "general": load_general()}
VISIBLE = 0.7

tasks = st.builds(
    generate_task,
    seed=st.integers(0, 10**6),
    index=st.integers(0, 5000),
    split=st.sampled_from(SPLITS),
    size=st.sampled_from(sorted(SIZES)),
)


def size_of(task: Task) -> procedural.Size:
    return SIZES[task.task_id.split("-")[0]]


def seen(task: Task) -> list[Fix]:
    """The fixes that an agent can make without the evidence."""
    return [fix for fix in task.fixes if not fix.needs_evidence]


def figures(text: str) -> set[str]:
    return set(re.findall(r"\d[\d,.]*\d|\d", text))


@lru_cache
def bundle(name: str, split: str) -> tuple[Task, ...]:
    return tuple(read_jsonl(DATA / f"{name}_{split}.jsonl"))


# The content bank


def test_nothing_of_one_split_is_in_the_other() -> None:
    for role in ROLES.values():
        train, held_out = (role.lines[split] for split in SPLITS)
        for name in ("must", "must_lead", "nice", "distractors"):
            assert not set(getattr(train, name)) & set(getattr(held_out, name)), (role.key, name)
        for name in ("duties", "summary"):
            own, other = (chain(*getattr(x, name).values()) for x in (train, held_out))
            assert not set(own) & set(other), (role.key, name)
        assert not {name for name, _ in train.skills} & {name for name, _ in held_out.skills}
    for bank in BANKS.values():
        told = {split: {deed.told for deed in bank if deed.split == split} for split in SPLITS}
        assert not told["train"] & told["eval"]
    for load in (load_padding, load_people):
        for own, other in zip(*(_lists(load(split)) for split in SPLITS), strict=True):
            assert own
            assert not set(own) & set(other)
    train, held_out = (load_frames(split) for split in SPLITS)
    assert all(not set(train[name]) & set(held_out[name]) for name in train)
    names = [n for v in load_verticals() for split in SPLITS for n in v.companies[split]]
    assert len(set(names)) == len(names)
    assert all(v.about["train"] != v.about["eval"] for v in load_verticals())


def _lists(found: object) -> list[list[str]]:
    if isinstance(found, tuple):
        return [
            list(found[0]),
            [line for section in found[1] for line in section.split("\n- ")[1:]],
        ]
    return [list(getattr(found, name)) for name in ("first", "last", "cities", "schools")]


@pytest.mark.parametrize("name", BANKS)
def test_deeds_of_a_file(name: str) -> None:
    bank = BANKS[name]
    assert len({deed.told for deed in bank}) == len(bank)
    for deed in bank:
        assert not deed_fault(deed), (deed_fault(deed), deed)


def deed_fault(deed: Deed) -> str:
    """What rule of the bank a deed breaks; empty if none."""
    story = tell(deed, WORDS, random.Random(0))
    good, clear = read(story.told).stems, read(story.plain).stems
    forms = (deed.told, deed.vague, deed.buried)
    rules = {
        "one metric at most": deed.told.count("[") == deed.told.count("]") <= 1,
        "its figure is told alone": bool(deed.figure) == deed.has_metric,
        "no other figure": not re.search(r"(?<![\w-])\d", story.plain),
        "no figure in the vague form": not re.search(r"(?<![\w-])\d", story.vague),
        "opens with a word": all(re.match(r"[A-Z][a-z-]+,? ", form) for form in forms),
        "gerund": re.fullmatch(r"[a-z-]+ing", deed.gerund) is not None,
        "no final period": not any(form.endswith(".") for form in forms),
        "who, once": deed.record.count("{Who}") == 1,
        "the record has the figures": figures(story.metric) <= figures(story.record),
        "told opens with its verb": not is_weak(read(story.told)),
        "buried has no other figure": read(story.buried).values == read(story.told).values,
        "vague shows the deed": len(clear & read(story.vague).stems) >= VISIBLE * len(clear),
        "buried shows the deed": len(good & read(story.buried).stems) >= VISIBLE * len(good),
        "slots are filled": not re.search(r"[{}\[\]]|  | [,;]", "".join(forms_of(story))),
        "no second article": not re.search(r"\b(the|a|an) the\b", " ".join(forms_of(story))),
    }
    return ", ".join(rule for rule, kept in rules.items() if not kept)


def forms_of(story: Story) -> tuple[str, ...]:
    record = story.record.replace("{Who}", "Ada")
    return (story.told, story.plain, story.vague, story.buried, story.figure, story.now, record)


@pytest.mark.parametrize("number", ["80", "11"])
def test_a_number_that_sounds_like_a_vowel_has_an_before_it(number: str) -> None:
    assert fill("an {a:80-80}-page report, a {a}-day delay", {"a": number}) == (
        f"an {number}-page report, an {number}-day delay"
    )


# Generated tasks


@given(tasks)
@settings(max_examples=120, deadline=None)
def test_a_generated_task_keeps_the_rules(task: Task) -> None:
    fixes_repair_the_resume_within_the_page(task)
    what_a_fix_says_can_be_seen(task)
    formatting_fixes_change_no_word(task)
    texts_are_clean(task)
    evidence_does_not_name_the_weakness(task)


def fixes_repair_the_resume_within_the_page(task: Task) -> None:
    size = size_of(task)
    lines = wrapped_lines(task.resume, PAGE_WIDTH)
    assert (lines > size.page_lines) == (task.weakness == "too_long")
    assert size.fixes[0] <= len(seen(task)) <= size.fixes[1]
    assert {count for count, _ in repair(task)} == {1}
    assert repaired(task) != task.resume
    for done in range(size.fixes[0], len(task.fixes) + 1):
        assert wrapped_lines(repaired(task, done), PAGE_WIDTH) <= size.page_lines


def what_a_fix_says_can_be_seen(task: Task) -> None:
    """The words of a repaired line stand in the weak one, its figures in the resume or evidence."""
    known = "\n".join(document.text for document in task.evidence)
    for fix in task.fixes:
        if not fix.new or task.weakness == "formatting_inconsistent":
            continue
        weak, good = read(plain(fix.old)).stems, read(plain(fix.new)).stems
        added = figures(fix.new) - figures(fix.old)
        assert added <= figures(known if fix.needs_evidence else task.resume)
        if task.weakness in ("vague_bullets", "wrong_emphasis"):
            assert len(weak & good) >= VISIBLE * len(good)
        assert fix.facts
    if task.weakness != "no_metrics":
        assert seen(task) == list(task.fixes)


def formatting_fixes_change_no_word(task: Task) -> None:
    if task.weakness != "formatting_inconsistent":
        return
    for fix in task.fixes:
        if not re.search(r"\d{4}", fix.old):
            words = [re.findall(r"\w+", text.lower()) for text in (fix.old, fix.new)]
            assert words[0] == words[1]
    told = [line.raw for line in parse(repaired(task)) if line.kind == "bullet"]
    assert not re.search(r"^[*+] |\*\*|  |\.$", "\n".join(told), re.MULTILINE)


def texts_are_clean(task: Task) -> None:
    text = repaired(task)
    documents = [text, task.job, *(document.text for document in task.evidence)]
    for document in documents:
        assert document.isascii()
        assert not re.search(r"[{}\[\]]|  | [,;]|\b(the the|a a|a the|an the)\b", document)
    assert not re.search(r"\bI (?:keeps|has|is|does|makes|gives|lets|takes)\b", documents[-1])
    least, most = size_of(task).job_words
    assert least <= len(task.job.split()) <= most
    first, last = task.persona["name"].split()
    assert text.startswith(f"# {first} {last}\n")
    assert f"{first}.{last}@example.".lower() in text
    assert task.persona["company"] in text
    assert task.persona["company"] not in task.job


@given(st.integers(0, 10**6), st.integers(0, 60), st.sampled_from(sorted(SIZES)))
@settings(max_examples=30, deadline=None)
def test_a_fifth_of_the_tasks_holds_true_hedges(seed: int, number: int, size: str) -> None:
    task = generate_task(seed, number, "eval", size)
    hedges = tuple(form for one in HEDGES for form in (one, in_first_person(one)))
    told = [line.body for line in parse(task.resume) if line.kind == "bullet"]
    padding = {fix.old.strip() for fix in task.fixes if not fix.new}
    hedged = [line for line in told if line.startswith(hedges) and f"- {line}" not in padding]
    assert len(hedged) in ((1, 2) if number // len(WEAKNESSES) % HELPED == HELPED - 1 else (0,))
    kept = {plain(line).rstrip(".") for line in repaired(task).split("\n")}
    assert all(f"- {plain(line).rstrip('.')}" in kept for line in hedged)
    assert all(head(read(line)).kind == "hedge" for line in hedged)


def test_a_task_depends_on_its_arguments_alone() -> None:
    state = random.getstate()
    one = generate_task(3, 17, "eval", "mini")
    list(generate_tasks(3, 5))
    assert generate_task(3, 17, "eval", "mini") == one
    assert random.getstate() == state
    assert one.task_id == "mini-eval-3-000017"
    others = [(4, 17, "eval", "mini"), (3, 23, "eval", "mini"), (3, 17, "train", "mini")]
    assert all(generate_task(*other).resume != one.resume for other in others)


@pytest.mark.parametrize("bad", [(0, -1), (0, 0, "test"), (0, 0, "train", "huge")])
def test_wrong_arguments_are_named(bad: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="expected a split from"):
        generate_task(*bad)


def evidence_does_not_name_the_weakness(task: Task) -> None:
    assert [one.kind for one in task.evidence] == list(EVIDENCE_KINDS[: len(task.evidence)])
    names = (task.weakness, task.weakness.replace("_", " "))
    assert not any(name in one.text for one in task.evidence for name in names)


# The bundled data


@pytest.mark.parametrize("name", BUNDLES)
@pytest.mark.parametrize("split", SPLITS)
def test_bundled_tasks_are_the_generated_ones(name: str, split: str) -> None:
    made = tuple(generate_tasks(0, COUNTS[split], split, BUNDLES[name]))
    assert bundle(name, split) == made == load_tasks(name, split)
    balance = Counter(task.weakness for task in made)
    assert max(balance.values()) - min(balance[weakness] for weakness in WEAKNESSES) <= 1
