"""Hints: they quote the page and nothing else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_gym import Session, load_tasks
from resume_gym.episode import hints
from resume_gym.episode.hints import nearest
from resume_gym.judges.critique import Defect, defects

TASKS = load_tasks("mini", "train")[:60]
tasks = st.sampled_from(TASKS)
forms = st.integers(0, 1000)


def quotes(hint: str) -> list[str]:
    return [one.removesuffix("...") for one in re.findall(r'"([^"]*)"', hint)]


def check(hint: str, page: str, fixes: list[str]) -> None:
    assert hint.startswith("Hint: ")
    assert "\n" not in hint
    assert all(quote in page for quote in quotes(hint))
    for new in fixes:
        assert new in page or new not in hint, "a hint never has the text of a fix"


@given(tasks, st.data(), forms)
def test_hints_about_lines_quote_only_the_page(task, data, form) -> None:  # type: ignore[no-untyped-def]
    lines = [line for line in task.resume.split("\n") if len(line.split()) > 2]
    line = data.draw(st.sampled_from(lines))
    fixes = [fix.new for fix in task.fixes if fix.new]
    words = line.split(" ")
    claim = " ".join(words[data.draw(st.integers(0, len(words) - 1)) :])
    check(hints.good_line(line, form), task.resume, fixes)
    check(hints.faults_left(form), task.resume, fixes)
    if '"' not in line:
        check(hints.unsupported(line, claim, form), task.resume, fixes)
    for kind in hints.WEAK_KINDS:
        check(hints.weak_line(Defect(kind, line), form), task.resume, fixes)


@given(tasks, forms)
def test_hints_about_defects_are_the_judges_remarks(task, form) -> None:  # type: ignore[no-untyped-def]
    for defect in defects(task, task.resume):
        if defect.kind in hints.WEAK_KINDS:
            fixes = [fix.new for fix in task.fixes if fix.new]
            check(hints.weak_line(defect, form), task.resume, fixes)


@given(tasks, st.data(), forms)
def test_hints_about_failed_calls_show_the_nearest_text(task, data, form) -> None:  # type: ignore[no-untyped-def]
    words = task.resume.split()
    start = data.draw(st.integers(0, len(words) - 1))
    old = " ".join(words[start : start + data.draw(st.integers(1, 8))]) + data.draw(st.text())
    fixes = [fix.new for fix in task.fixes if fix.new]
    hint = hints.failed_call("not_found", task.resume, old, form)
    assert "not_found" in hint
    check(hint, task.resume, fixes)


def test_the_forms_of_a_hint_differ() -> None:
    page = TASKS[0].resume
    line = next(line for line in page.split("\n") if line.startswith("- "))
    assert len({hints.good_line(line, form) for form in range(20)}) >= 4
    assert len({hints.failed_call("not_found", page, line, form) for form in range(20)}) >= 12


@pytest.mark.parametrize(
    ("old", "found"),
    [
        (" Counted the coins fast", "Counted the coins slowly"),
        (" Counted teh coins", "Counted the coins"),
        ("nothing alike", ""),
        ("", ""),
        ("coins", "coins"),
        ("...", ""),
    ],
)
def test_the_nearest_text_has_as_many_words(old: str, found: str) -> None:
    assert nearest("# Ann\n\n- Counted the coins slowly\n- Slept", old) == found


def test_no_environment_shows_hints_by_itself() -> None:
    session = Session(TASKS[0])
    assert "Hint:" not in session.prompt
    assert "Hint:" not in session.step("nonsense").observation


@pytest.mark.parametrize("call", ['{"old": "Led x", "new": ""}', '{"old":"Led x","new":""}'])
def test_the_quotation_of_a_call_is_found_in_any_spacing(call: str) -> None:
    assert hints.quotation(call) == "Led x"
