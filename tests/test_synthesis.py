"""Generated tasks keep their rules, for any seed."""

import random
import re
from collections import Counter
from functools import lru_cache
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
from resume_gym.synthesis.candidates import NOW
from resume_gym.synthesis.content import FORMS, load_padding, load_people, load_roles
from resume_gym.synthesis.procedural import HELPED, PAGE_WIDTH, SIZES
from resume_gym.synthesis.weaknesses import HEDGES
from resume_gym.text.lines import MONTH_NAMES, parse, plain, read
from resume_gym.text.style import head

DATA = Path(resume_gym.__file__).parent / "data"
BUNDLES = {"default": "full", "mini": "mini"}
COUNTS = {"train": 160, "eval": 40}
ROLES = {role.key: role for role in load_roles()}
VISIBLE = 0.6

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


# Generated tasks


@given(tasks)
@settings(max_examples=120, deadline=None)
def test_a_generated_task_keeps_the_rules(task: Task) -> None:
    fixes_repair_the_resume_within_the_page(task)
    what_a_fix_says_can_be_seen(task)
    one_fault_dominates(task)
    the_summary_agrees_with_the_jobs(task)
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


def kind_of(task: Task, fix: Fix) -> str:
    """Return the kind of fault that a fix repairs."""
    if not fix.new:
        return "too_long"
    if not fix.facts:
        return "formatting_inconsistent"
    return "no_metrics" if figures(fix.new) - figures(fix.old) else "wording"


def what_a_fix_says_can_be_seen(task: Task) -> None:
    """The words of a repaired line stand in the weak one, its figures in the resume or evidence."""
    known = "\n".join(document.text for document in task.evidence)
    for fix in task.fixes:
        if kind_of(task, fix) == "wording":
            weak, good = read(plain(fix.old)).stems, read(plain(fix.new)).stems
            assert len(weak & good) >= VISIBLE * len(good)
        if kind_of(task, fix) in ("wording", "no_metrics"):
            added = figures(fix.new) - figures(fix.old)
            assert added <= figures(known if fix.needs_evidence else task.resume)
            assert task.persona["name"].split()[0] in fix.facts[0]
        assert not fix.needs_evidence or task.weakness == "no_metrics"


def one_fault_dominates(task: Task) -> None:
    kinds = Counter(kind_of(task, fix) for fix in task.fixes)
    own = "wording" if task.weakness in FORMS else task.weakness
    lines = len({read(plain(fix.facts[0])).body if fix.facts else fix.old for fix in task.fixes})
    assert kinds[own] >= 0.6 * lines
    assert kinds[own] < lines or size_of(task).brief or task.weakness in FORMS
    missing = {fix.new for fix in task.fixes if fix.needs_evidence}
    if task.weakness == "no_metrics":
        assert missing
        assert kinds["no_metrics"] > len(missing), "some figures stand elsewhere on the page"
    told = [line.body for line in parse(task.resume) if line.kind == "bullet"]
    assert len(told) > lines or task.weakness == "formatting_inconsistent", "some lines are good"


def formatting_fixes_change_no_word(task: Task) -> None:
    months = [name[:3].lower() for name in MONTH_NAMES]
    untidy = [fix for fix in task.fixes if kind_of(task, fix) == "formatting_inconsistent"]
    assert bool(untidy) == (task.weakness == "formatting_inconsistent")
    for fix in untidy:
        words = [
            [w for w in re.findall("[a-z]+", text.lower()) if w != "to" and w[:3] not in months]
            for text in (fix.old, fix.new)
        ]
        assert words[0] == words[1]
    told = [line.raw for line in parse(repaired(task)) if line.kind == "bullet"]
    assert not re.search(r"^[*\u2022] |\*\*|  ", "\n".join(told), re.MULTILINE)
    bullets = [fix.new.removesuffix("etc.") for fix in untidy if fix.new.startswith("- ")]
    ends = {bullet.endswith(".") for bullet in bullets}
    assert len(ends) <= 1


def the_summary_agrees_with_the_jobs(task: Task) -> None:
    """The years of a summary are those since the candidate has worked in the role."""
    lines = parse(task.resume)
    summary = " ".join(line.body for line in lines if line.kind == "text")
    started = [
        int(number.value)
        for line in lines
        if line.kind in ("entry", "text") and re.search(r"(?:-|to) (?:\w+ |\d+/)?[PC2]", line.body)
        for number in line.content.numbers[:1]
    ]
    for years in re.findall(r"(\d+) years", summary):
        assert any(NOW // 12 - start - int(years) in (0, 1) for start in started), summary


def texts_are_clean(task: Task) -> None:
    text = repaired(task)
    documents = [text, task.job, *(document.text for document in task.evidence)]
    for document in documents:
        assert document.isascii()
        assert not re.search(r"[{}\[\]]|  | [,;]|\b((the|a|an|each|every|new) the|a a)\b", document)
    assert not re.search(r"\bI (?:keeps|has|is|does|makes|gives|lets|takes)\b", documents[-1])
    least, most = size_of(task).job_words
    assert least <= len(task.job.split()) <= most
    first, last = task.persona["name"].split()
    assert text.startswith(f"# {first} {last}\n")
    assert text.count(".example") == 1
    assert task.persona["company"] in text
    assert task.persona["company"] not in task.job


@given(st.integers(0, 10**6), st.integers(0, 60), st.sampled_from(sorted(SIZES)))
@settings(max_examples=30, deadline=None)
def test_a_fifth_of_the_tasks_holds_true_hedges(seed: int, number: int, size: str) -> None:
    task = generate_task(seed, number, "eval", size)
    hedges = tuple(HEDGES)
    told = [line.body for line in parse(task.resume) if line.kind == "bullet"]
    mended = "\n".join(fix.old for fix in task.fixes if fix.facts or not fix.new)
    # a line of an untidy page may end with a period that the fix leaves alone
    hedged = [one for one in told if one.startswith(hedges) and one.rstrip(".") not in mended]
    assert len(hedged) in ((1, 2) if number // len(WEAKNESSES) % HELPED == HELPED - 1 else (0,))
    kept = {plain(line).rstrip(".") for line in repaired(task).split("\n")}
    assert all(f"- {plain(line).rstrip('.')}" in kept for line in hedged)
    assert all(head(read(line)).kind == "hedge" for line in hedged)


def test_most_repairs_keep_the_order_of_the_words() -> None:
    """Small models cannot learn the others."""
    kept: dict[str, list[bool]] = {form: [] for form in FORMS}
    for number in range(300):
        task = generate_task(8, number, "train", "mini")
        for fix in task.fixes:
            if task.weakness in FORMS and kind_of(task, fix) == "wording":
                old, new = (re.findall(r"[\w%$]+", text.lower()) for text in (fix.old, fix.new))
                rest = iter(old)
                kept[task.weakness].append(all(w in rest for w in new[1:] if w in old))
    for weakness, orders in kept.items():
        assert sum(orders) >= 0.6 * len(orders), weakness


def test_lines_repeat_rarely() -> None:
    told = [line.body for n in range(300)
            for line in parse(generate_task(0, n, "train", "mini").resume)
            if line.kind == "bullet"]  # fmt: skip
    assert len(set(told)) >= 0.85 * len(told)


def test_most_good_lines_have_no_figure() -> None:
    told = [line.content for n in range(1, 90, 6) for line in parse(repaired(generate_task(2, n)))
            if line.kind == "bullet"]  # fmt: skip
    assert 0.2 < sum(bool(content.figures) for content in told) / len(told) < 0.6


def test_padding_is_of_the_role_or_of_any_role() -> None:
    for number in range(1, 120, 6):
        task = generate_task(4, number, "eval", "mini")
        family = [role for role in ROLES.values() for line in role.lines["eval"].padding
                  if f"- {line}\n" in task.resume]  # fmt: skip
        degrees = load_people("eval").degrees
        assert all(degrees[role.key] == degrees[task.persona["role"]] for role in family)
        gone = [fix.old.strip("\n- ") for fix in task.fixes if not fix.new]
        stock = load_padding("eval")[0]
        assert sum(line in stock for line in gone) < len(gone)


def test_a_task_depends_on_its_arguments_alone() -> None:
    state = random.getstate()
    one = generate_task(3, 17, "eval", "mini")
    list(generate_tasks(3, 5))
    assert generate_task(3, 17, "eval", "mini") == one
    assert random.getstate() == state
    assert one.task_id == "mini-eval-3-000017"
    others = [(4, 17, "eval", "mini"), (3, 23, "eval", "mini"), (3, 17, "train", "mini")]
    assert all(generate_task(*other).resume != one.resume for other in others)


def test_a_task_is_made_again_from_its_id() -> None:
    for made in (generate_task(3, 17, "eval", "mini"), generate_task(1, 8, "train", "full", 3)):
        assert procedural.task_of(made.task_id) == made
        assert procedural.weakness_of(made.task_id) == made.weakness
    for other in ("mini-eval-3-17-level-9", "release-7", "mini-eval-3-000017-omission"):
        with pytest.raises(KeyError, match=other):
            procedural.task_of(other)
        assert procedural.weakness_of(other) == ""


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
