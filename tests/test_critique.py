"""Feedback for an agent: it points at lines, and gives away neither the reward nor the answer."""

import re
from collections.abc import Iterator

import pytest
from feedback_faults import faults
from rubric_cases import TASK, VAGUE, WORKED, swap

from resume_gym.episode.sources import load_tasks
from resume_gym.episode.tasks import WEAKNESSES, Task, repair, repaired
from resume_gym.judges.critique import feedback, remarks

TASKS = (TASK, *load_tasks("default", "eval"))
FEW = (TASK, *TASKS[1::4])


def drafts(task: Task) -> Iterator[str]:
    """The original, each stage of its repair, and drafts with an invented figure."""
    yield task.resume
    yield from (text for _, text in repair(task))
    text = repaired(task)
    for number, line in enumerate(text.split("\n")):
        if line.startswith("- ") and number % 5 == 0:
            yield text.replace(line, line + ", up 37% as head of a team of 9")


def test_the_rules_point_at_lines() -> None:
    said = feedback(TASK, TASK.resume)
    assert '"Responsible for weekly Tableau dashboards' in said
    assert "opens without saying what was done" in said
    assert f'"{VAGUE}" says little that is definite.' in said
    claimed = feedback(TASK, swap(WORKED, WORKED + " for 77 stores"))
    assert claimed.startswith(
        'Nothing that is known of the candidate supports "77" in "Wrote SQL checks that caught late'
    )


def test_repaired_faults_are_not_reported_again() -> None:
    assert any(VAGUE in remark for remark in remarks(TASK, TASK.resume))
    assert not any("stock reporting" in remark for remark in remarks(TASK, repaired(TASK)))
    fewer = [
        len(remarks(task, list(drafts(task))[len(task.fixes)])) - len(remarks(task, task.resume))
        for task in TASKS
    ]
    assert max(fewer) <= 0
    assert sum(one < 0 for one in fewer) > 0.8 * len(fewer)


@pytest.mark.parametrize("weakness", WEAKNESSES)
def test_each_weakness_is_noticed_and_not_named(weakness: str) -> None:
    tasks = [task for task in TASKS if task.weakness == weakness]
    found = 0
    for task in tasks:
        lines = [line for fix in task.fixes for line in fix.old.split("\n")]
        planted = [text for line in lines if (text := line.strip("-*+# "))]
        quotes = [q.removesuffix("...") for r in remarks(task, task.resume) for q in _quotes(r)]
        found += any(q in text or text in q for q in quotes for text in planted)
    # a point may be buried in more ways than the careful agent's patterns know
    assert found >= (0.6 if weakness == "wrong_emphasis" else 0.8) * len(tasks) > 0


def _quotes(text: str) -> list[str]:
    return re.findall('"([^"]*)"', text)


def test_feedback_gives_nothing_away() -> None:
    for task in FEW:
        for draft in drafts(task):
            said = feedback(task, draft)
            assert faults(said, draft) == []
            assert len(said) < 600
            known = set(re.findall(r"\d+", draft))
            assert set(re.findall(r"\d+", said)) <= known
            assert not any(
                fix.new and fix.new in said and fix.new not in draft for fix in task.fixes
            )
