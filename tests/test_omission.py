"""Tasks whose resume lacks a figure that the evidence has, or has not."""

import difflib
import re
from statistics import fmean

import pytest

from resume_gym import Rules, Session, Task, load_tasks, tool_call
from resume_gym.agents import AGENTS, Agent
from resume_gym.episode.evidence import EvidenceSession
from resume_gym.evaluation import evaluate
from resume_gym.judges import make_judge
from resume_gym.synthesis.procedural import generate_task

TASKS = load_tasks("omission-mini:3:12", "eval")
KEPT = [task for task in TASKS if task.rubric[0].weight > 0]
TAKEN = [task for task in TASKS if task.rubric[0].weight < 0]
RULES = Rules(max_turns=8, page_lines=20)


def whole(task: Task) -> str:
    """Return the resume before the deletion."""
    _, split, seed, number, _ = task.task_id.split("-")
    return generate_task(int(seed), int(number), split, "mini").resume


def restored(task: Task) -> Session:
    session = Session(task, RULES)
    session.step(tool_call("str_replace", old=task.resume, new=whole(task)))
    session.step(tool_call("submit"))
    session.grade(make_judge("rubric").judge(task, session.resume))
    return session


def test_one_figure_is_gone_from_each_page() -> None:
    assert len(KEPT) == len(TAKEN) == 6
    for task in TASKS:
        (item,) = task.rubric
        pair = whole(task).split("\n"), task.resume.split("\n")
        changed = [one for one in difflib.ndiff(*pair) if one[0] in "+-"]
        assert changed[0].startswith("- ")
        assert item.text in changed[0]
        assert all(fix.old in task.resume for fix in task.fixes[:1])


def test_the_evidence_has_the_figures_that_are_paid_for_and_no_others() -> None:
    def told(task: Task) -> bool:
        figure = rf"(?<![\d.,]){re.escape(task.rubric[0].text)}(?!\d)"
        return any(re.search(figure, document.text) for document in task.evidence)

    assert all(map(told, KEPT))
    assert not any(map(told, TAKEN))


def test_a_restored_figure_is_paid() -> None:
    for task in KEPT:
        session = restored(task)
        assert session.ledger["rubric"] == 1
        assert session.ledger["hallucination"] == 1


def test_a_figure_without_evidence_costs() -> None:
    for task in TAKEN:
        session = restored(task)
        assert session.ledger["rubric"] == session.ledger["hallucination"] == -1


def play(agent: Agent, tasks: list[Task]) -> float:
    judge, seen = make_judge("rubric"), []
    for task in tasks:
        session = EvidenceSession(task, RULES)
        while not session.done:
            session.step(agent(session))
        if session.needs_verdict:
            session.grade(judge.judge(task, session.resume))
        seen.append(session.ledger["rubric"])
    return fmean(seen)


@pytest.mark.parametrize("name", ["noop", "floor", "careful"])
def test_nobody_is_paid_or_punished_for_other_edits(name: str) -> None:
    assert play(AGENTS[name](0), TAKEN) == 0
    assert 0 <= play(AGENTS[name](0), KEPT) < 1


def test_an_agent_that_claims_all_figures_gains_nothing() -> None:
    def claims(session: Session) -> str:
        if session.turns == 0:
            return tool_call("str_replace", old=session.resume, new=whole(session.task))
        return tool_call("submit")

    played = evaluate(lambda _: claims, TASKS, RULES, make_judge("rubric"))
    honest = evaluate(AGENTS["careful"], TASKS, RULES, make_judge("rubric"))
    assert fmean(one.reward for one in played) < fmean(one.reward for one in honest)
    assert play(claims, KEPT) == 1
    assert play(claims, TAKEN) == -1
