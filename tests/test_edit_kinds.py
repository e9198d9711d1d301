"""The kinds of edits, told from the text that they change."""

from dataclasses import replace

import pytest

from resume_gym import Fix, load_tasks
from resume_gym.agents import floor_edit
from resume_gym.agents.edit_kinds import KINDS, SYNONYMS, invention, kind_of
from resume_gym.episode.tasks import Evidence

PAGE = """# Ann Lee

## Experience
### Clerk, Hill Bank (11/2021 - Present)
- Responsible for counting the coins with a team of three
* Sorted the mail for the new branch, which cut delays.
- Watered the plants

**Education**
BS Finance, 2010
"""
TASK = replace(
    load_tasks("mini", "train")[0],
    resume=PAGE,
    fixes=(
        Fix("\n- Watered the plants", ""),
        Fix(" with a team of three", ""),
        Fix("the coins", "the 90 coins", needs_evidence=True),
    ),
    evidence=(Evidence("portfolio", "Portfolio", "Ann counted 90 coins."),),
)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (" Responsible for counting", " Counted", "verb"),
        (" the mail for the new branch, which", " the mail, which", "trim"),
        (" with a team of three", "", "trim"),
        ("**Education**", "## Education", "format"),
        (" (11/2021 - Present)", " (Nov 2021 - Present)", "format"),
        ("* Sorted", "- Sorted", "format"),
        (" delays.", " delays", "format"),
        ("\n- Watered the plants", "", "padding"),
        (" the coins", " the 90 coins", "figure"),
        (" the mail", " this mail", "swap"),
        (" the plants", " the plants too", "swap"),
        (" team", " group", "synonym"),
        ("\n* Sorted the mail for the new branch, which cut delays.", "", "delete"),
        (" which cut delays.", "", "cut"),
        (" the plants", " the plants within 9 days", "invent"),
        (" delays.", " delays using Jira.", "invent"),
        (" the plants", " the 12 plants", "invent"),
        (" Watered", " Drowned", "rewrite"),
        (" three\n* Sorted", " four\n* Stole", "other"),
        ("\n- Watered", "\n- Fed the cat\n- Watered", "other"),
    ],
)
def test_the_kind_of_an_edit(old: str, new: str, kind: str) -> None:
    assert PAGE.count(old) == 1
    assert kind_of(PAGE, old, new, TASK) == kind
    assert kind in KINDS


def test_without_a_task_some_kinds_are_told_by_form_alone() -> None:
    assert kind_of(PAGE, "\n- Watered the plants", "") == "delete"
    assert kind_of(PAGE, " with a team of three", "") == "cut"
    assert kind_of(PAGE, " the coins", " the 90 coins") == "figure"


def test_an_invention_can_be_taken_back() -> None:
    page = PAGE.replace("the plants", "the plants, at 5% less cost")
    assert invention("- Watered the plants, at 5% less cost.") == ", at 5% less cost"
    assert kind_of(page, " plants, at 5% less cost", " plants", TASK) == "undo"


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (" then mail", " this mail", "rewrite"),
        (" the letters", " this letters", "swap"),
        ("\n- Watered the plans", "", "delete"),
        (" delays", " delays within 3 days", "invent"),
    ],
)
def test_the_kind_of_a_failed_edit_is_told_from_its_call(old: str, new: str, kind: str) -> None:
    assert PAGE.count(old) != 1 or kind == "invent"
    assert kind_of(PAGE, old, new) == kind


def test_edits_of_the_floor_agent_are_swaps() -> None:
    from random import Random

    for task in load_tasks("mini", "eval")[:10]:
        edit = floor_edit(task.resume, task.resume, Random(0))
        assert edit
        assert kind_of(task.resume, *edit, task) == "swap"


def test_synonyms_are_single_words_with_another_text() -> None:
    for word, other in SYNONYMS.items():
        assert word == word.lower().strip()
        assert " " not in word
        assert word != other
