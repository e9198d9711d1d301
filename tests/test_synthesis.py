"""The content bank keeps its rules, and generated tasks keep theirs, for any seed."""

import random
import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import resume_gym
from resume_gym.document import wrapped_lines
from resume_gym.synthesis import generate_task, generate_tasks, procedural
from resume_gym.synthesis.content import (
    LEVELS,
    Bullet,
    fill,
    load_generic,
    load_padding,
    load_people,
    load_roles,
    load_verticals,
    tell,
)
from resume_gym.synthesis.procedural import PAGE_WIDTH, SIZES
from resume_gym.synthesis.weaknesses import OPENERS
from resume_gym.synthesis.writing import MONTHS
from resume_gym.tasks import EVIDENCE_KINDS, SPLITS, WEAKNESSES, Task, load_tasks, read_jsonl

DATA = Path(resume_gym.__file__).parent / "data"
BUNDLES = {"default": "full", "mini": "mini"}
COUNTS = {"train": 160, "eval": 40}
WORDS = load_verticals()[0].words
ROLES = {role.key: role for role in load_roles()}
BANKS = {**{key: role.bullets for key, role in ROLES.items()}, "generic": load_generic()}
TOOL_NAMES = re.compile(r"\b[A-Za-z]*(S3|k6|OAuth2|B2B|p9[059]|D3|R8|Log4j)\b")
PERIOD = re.compile(r"([A-Z][a-z]{2}) (\d{4}) - (?:([A-Z][a-z]{2}) (\d{4})|Present)")

tasks = st.builds(
    generate_task,
    seed=st.integers(0, 10**6),
    index=st.integers(0, 5000),
    split=st.sampled_from(SPLITS),
    size=st.sampled_from(sorted(SIZES)),
)


def size_of(task: Task) -> procedural.Size:
    return SIZES[task.task_id.split("-")[0]]


def repaired(task: Task, fixes: int | None = None) -> str:
    text = task.resume
    for fix in task.fixes[:fixes]:
        assert text.count(fix.old) == 1, (task.task_id, fix.old)
        text = text.replace(fix.old, fix.new)
    return text


def experience(text: str) -> str:
    return text.split("## Experience", 1)[1].split("## Skills", 1)[0]


def bullets(text: str) -> list[str]:
    return re.findall(r"^- (.*)$", experience(text), re.MULTILINE)


@lru_cache
def bundle(name: str, split: str) -> tuple[Task, ...]:
    return tuple(read_jsonl(DATA / f"{name}_{split}.jsonl"))


# The content bank


def test_the_bank_holds_what_it_should() -> None:
    assert len(ROLES) == 19
    assert len(load_verticals()) == 39
    for role in ROLES.values():
        assert len(role.titles) == len(set(role.titles)) == len(LEVELS)
        assert len(role.summary) == 4
        assert 3 <= len(role.skills) <= 4
        assert len(role.requirements) == 12
        assert len(role.duties) == 6
    for vertical in load_verticals():
        assert vertical.words["product"].startswith("the ")
        assert vertical.about.startswith("{company} ")
        assert {split: len(vertical.companies[split]) for split in SPLITS} == {
            "train": 5,
            "eval": 2,
        }


def test_people_and_companies_of_the_splits_are_disjoint() -> None:
    companies = [
        name for item in load_verticals() for split in SPLITS for name in item.companies[split]
    ]
    assert len(set(companies)) == len(companies) == 39 * 7
    train, held_out = load_people("train"), load_people("eval")
    assert [len(people.first) for people in (train, held_out)] == [40, 20]
    assert [len(people.last) for people in (train, held_out)] == [60, 30]
    for name in ("first", "last", "cities", "schools", "domains"):
        assert not set(getattr(train, name)) & set(getattr(held_out, name)), name
    for role in ROLES:
        assert not set(train.degrees[role]) & set(held_out.degrees[role]), role
    for own, other in zip(load_padding("train"), load_padding("eval"), strict=True):
        assert own
        assert not set(own) & set(other)


@pytest.mark.parametrize("name", BANKS)
def test_bullets_of_a_file(name: str) -> None:
    bank = BANKS[name]
    assert Counter(bullet.split for bullet in bank) == {"train": 24, "eval": 14}
    for form in ("strong", "vague", "aside"):
        assert len({getattr(bullet, form) for bullet in bank}) == len(bank), form
    assert max(Counter(bullet.verb for bullet in bank).values()) <= 4
    assert sum(bullet.words <= 14 for bullet in bank) >= len(bank) / 2
    assert all(one.verb != two.verb for one, two in pairwise(bank))
    for bullet in bank:
        assert not bullet_fault(bullet), (bullet_fault(bullet), bullet)


def bullet_fault(bullet: Bullet) -> str:
    """What rule of the bank a bullet breaks; empty if none."""
    forms = (bullet.strong, bullet.vague, bullet.aside)
    story = tell(bullet, WORDS, random.Random(0))
    rules = {
        "one metric": bullet.strong.count("[") == bullet.strong.count("]") == 1,
        "digits only in the metric": not re.search(r"\d", TOOL_NAMES.sub("", story.plain)),
        "no digits in weak forms": not re.search(r"\d", TOOL_NAMES.sub("", "".join(story[3:]))),
        "starts with a word": all(re.match(r"[A-Z][a-z-]+ ", form) for form in forms),
        "gerund": re.fullmatch(r"[a-z-]+ing", bullet.gerund) is not None,
        "at most 22 words": bullet.words <= 22,
        "length of the vague form": 4 <= len(bullet.vague.split()) <= 12,
        "length of the aside": 8 <= len(bullet.aside.split()) <= 20,
        "plain characters": all(re.fullmatch(r"[ !#-~]+", form) for form in forms),
        "no final period": not any(form.endswith(".") for form in forms),
        "all slots filled": not re.search(r"[{}\[\]]|  | ,", " ".join(story)),
        "no second article": not re.search(r"\b(the|a|an) the\b", " ".join(story)),
    }
    return ", ".join(rule for rule, kept in rules.items() if not kept)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a {flow} form", "an order picking form"),
        ("A {records} table", "A claims table"),
        ("a {80-80}-page report", "an 80-page report"),
        ("a {11-11}-day delay", "an 11-day delay"),
        ("a {110-110}-day delay", "a 110-day delay"),
        ("of ${12000-12000/500} for {users}", "of $12,000 for pickers"),
    ],
)
def test_slots(template: str, text: str) -> None:
    words = {"flow": "order picking", "records": "claims", "users": "pickers"}
    assert fill(template, words, random.Random(0)) == text


# Generated tasks


@given(tasks)
@settings(max_examples=300, deadline=None)
def test_fixes_repair_the_resume_within_the_page(task: Task) -> None:
    size = size_of(task)
    lines = wrapped_lines(task.resume, PAGE_WIDTH)
    least, most = size.too_long if task.weakness == "too_long" else size.lines
    assert least <= lines <= most
    assert (lines > size.page_lines) == (task.weakness == "too_long")
    assert len(task.fixes) >= size.fixes
    assert repaired(task) != task.resume
    for done in range(size.fixes, len(task.fixes) + 1):
        assert wrapped_lines(repaired(task, done), PAGE_WIDTH) <= size.page_lines


@given(tasks)
@settings(max_examples=300, deadline=None)
def test_about_sixty_percent_of_the_bullets_are_weak(task: Task) -> None:
    size = size_of(task)
    good = bullets(repaired(task))
    least, most = size.kept if task.weakness == "too_long" else size.bullets
    assert least <= len(good) <= most
    assert len(set(good)) == len(good)
    if task.weakness == "too_long":
        padding = len(bullets(task.resume)) - len(good)
        assert all(fix.new == "" for fix in task.fixes)
        assert 0.5 <= padding / (padding + len(good)) <= 0.65
    elif task.weakness == "formatting_inconsistent":
        assert len(task.fixes) == round(0.6 * len(good)) + 2
    else:
        assert 0.55 <= len(task.fixes) / len(good) <= 0.7


@given(tasks)
@settings(max_examples=300, deadline=None)
def test_facts_ground_what_the_fixes_claim(task: Task) -> None:
    for fix in task.fixes:
        if task.weakness in ("too_long", "formatting_inconsistent"):
            assert fix.facts == ()
            continue
        (fact,) = fix.facts
        assert fact.startswith("At ")
        assert fact.endswith(".")
        claim = fix.new[0].lower() + fix.new[1:]
        assert claim in fact
        if task.weakness == "weak_verbs":
            assert any(fix.old.startswith(opener) for opener in OPENERS)
            assert len(fix.new.split()) == 1
        else:
            assert f"{claim}." in fact
        if task.weakness == "no_metrics":
            assert re.search(r"\d", fix.new)


@given(tasks)
@settings(max_examples=300, deadline=None)
def test_formatting_fixes_change_no_word(task: Task) -> None:
    if task.weakness != "formatting_inconsistent":
        return
    for fix in task.fixes:
        if not re.search(r"\d{4}", fix.old):
            words = [re.findall(r"\w+", text.lower()) for text in (fix.old, fix.new)]
            assert words[0] == words[1]
    text = experience(repaired(task))
    assert not re.search(r"^[*+] |\*\*|  |\.$", text, re.MULTILINE)


@given(tasks)
@settings(max_examples=300, deadline=None)
def test_careers_fit_together(task: Task) -> None:
    text = repaired(task)
    role, level = ROLES[task.persona["role"]], LEVELS.index(task.persona["level"])
    headings = re.findall(r"^### (.*?), (.*?)(?: \(|$)", text, re.MULTILINE)
    titles = (f"Trainee {role.title}", *role.titles)
    levels = [titles.index(title) - 1 for title, _ in headings]
    assert levels[0] == level
    assert levels == sorted(set(levels), reverse=True)
    assert size_of(task).jobs[0] <= len(headings) <= size_of(task).jobs[1]
    companies = [company for _, company in headings]
    assert len(set(companies)) == len(companies)
    assert companies[0] == task.persona["company"]
    assert not any(company in task.job for company in companies)

    later = 2026 * 12 + 2
    periods = PERIOD.findall(text)
    assert len(periods) == len(headings)
    for begin, first_year, end, last_year in periods:
        start = int(first_year) * 12 + MONTHS.index(begin)
        stop = int(last_year) * 12 + MONTHS.index(end) if end else later
        assert (not end) == ((begin, first_year, end, last_year) == periods[0])
        assert start + 10 <= stop <= later <= stop + 2
        later = start
    graduated = int(re.findall(r", (\d{4})\n", text)[-1])
    assert graduated <= later // 12


@given(tasks)
@settings(max_examples=300, deadline=None)
def test_texts_are_clean(task: Task) -> None:
    text = repaired(task)
    for document in (text, task.job):
        assert document.isascii()
        assert not re.search(r"[{}\[\]]|  | ,|\b(the the|a a|a the|an the)\b", document)
    for version in (task.resume, text):
        found = re.findall(r"^[-*+] (\w+).*\n[-*+] (\w+)", version, re.MULTILINE)
        assert all(one != two for one, two in found)
    least, most = size_of(task).job_words
    assert least <= len(task.job.split()) <= most
    first, last = task.persona["name"].split()
    assert text.startswith(f"# {first} {last}\n")
    assert f"{first}.{last}@example.".lower() in text


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("split", SPLITS)
def test_every_block_of_indexes_is_balanced(split: str, size: str) -> None:
    made = list(generate_tasks(11, 39 * 6, split, size))
    assert [task.weakness for task in made] == [WEAKNESSES[i % 6] for i in range(len(made))]
    for name, block in (("role", 19), ("level", 6), ("vertical", 39)):
        for start in range(0, len(made) - block + 1, block):
            values = {task.persona[name] for task in made[start : start + block]}
            assert len(values) == block
    assert len({task.task_id for task in made}) == len({task.resume for task in made}) == len(made)
    assert {task.split for task in made} == {split}


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
    with pytest.raises(ValueError, match="expected a split of"):
        generate_task(*bad)


_FIGURE = re.compile(r"\d[\d,.]*\d|\d")


@settings(max_examples=30, deadline=None)
@given(task=tasks)
def test_evidence_holds_the_true_figures_and_no_others(task: Task) -> None:
    told = Counter(_FIGURE.findall("\n".join(one.text for one in task.evidence)))
    assert [one.kind for one in task.evidence] == list(EVIDENCE_KINDS[: len(task.evidence)])
    behind = Counter(f for fix in task.fixes for fact in fix.facts for f in _FIGURE.findall(fact))
    if behind:
        assert not behind - told, "each figure behind a weak bullet is in a document"
    else:  # the resume tells its deeds well, and documents confirm them
        assert not told.keys() - set(_FIGURE.findall(repaired(task)))
    assert not told.keys() - set(_FIGURE.findall(repaired(task))) - behind.keys()
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


def test_no_eval_persona_company_or_bullet_occurs_in_train() -> None:
    seen: dict[str, dict[str, set[str]]] = {split: {} for split in SPLITS}
    for split in SPLITS:
        for task in (task for name in BUNDLES for task in bundle(name, split)):
            text = repaired(task)
            employers = re.findall(r"^### .*?, (.*?)(?: \(|$)", text, re.MULTILINE)
            told = bullets(text)
            if task.weakness != "formatting_inconsistent":
                told += bullets(task.resume)
            kinds = {
                "name": [task.persona["name"]],
                "company": [*employers, re.split(r"\n|\. ", task.job)[0]],
                "bullet": [re.sub(r"\d[\d,]*", "0", bullet) for bullet in told],
            }
            for kind, values in kinds.items():
                seen[split].setdefault(kind, set()).update(values)
    for kind, held_out in seen["eval"].items():
        assert len(held_out) > 20
        assert not held_out & seen["train"][kind], kind
