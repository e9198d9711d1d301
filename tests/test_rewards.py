import json
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from conftest import BEST, WORST, make_task
from hypothesis import given, settings
from hypothesis import strategies as st

from resume_gym import Rules, Session, Verdict, tool_call
from resume_gym.episode import rewards

REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
FAILING = tool_call("str_replace", old="not there", new="x")


def play(*actions: str, rules: Rules | None = None, weakness: str = "weak_verbs") -> Session:
    task = make_task()
    session = Session(type(task)(task.task_id, task.job, task.resume, weakness), rules)
    for action in actions:
        session.step(action)
    return session


def edit(new: str, old: str = "- Helped build") -> str:
    return tool_call("str_replace", old=old, new=new)


def nonzero(session: Session) -> dict[str, float]:
    return {name: value for name, value in session.ledger.items() if value}


def test_rewards_of_the_turns() -> None:
    actions = (REVIEW, REVIEW, edit("- Built"), FAILING, "hello", SUBMIT)
    assert [step.reward for _, step in play(*actions).state.transcript] == [
        1.0,
        0.0,
        0.25,
        -0.25,
        -0.25,
        1.0 + 1.0,  # the page fits
    ]


@pytest.mark.parametrize(("page_lines", "layout"), [(11, 1.0), (10, -1.0)])
def test_layout_is_the_number_of_lines(page_lines: int, layout: float) -> None:
    session = play(SUBMIT, rules=Rules(page_lines=page_lines))
    assert session.ledger["layout"] == layout


@pytest.mark.parametrize(
    ("weakness", "metric"),
    [
        ("vague_bullets", "clarity"),
        ("too_long", "clarity"),
        ("formatting_inconsistent", "clarity"),
        ("no_metrics", "quantification"),
        ("wrong_emphasis", "jd_alignment"),
        ("weak_verbs", "action_verbs"),
    ],
)
@pytest.mark.parametrize("undone", [False, True])
def test_an_episode_that_changes_nothing_is_not_judged(
    weakness: str, metric: str, undone: bool
) -> None:
    edits = (edit("- Built"), edit("- Helped build", old="- Built")) if undone else (FAILING,)
    session = play(*edits, SUBMIT, weakness=weakness)
    assert not session.needs_verdict
    with pytest.raises(RuntimeError, match="the document is unchanged"):
        session.grade(BEST)
    content = {name: session.ledger[name] for name in rewards.VERDICT_FIELDS}
    expected = dict.fromkeys(rewards.VERDICT_FIELDS, 0.0)
    assert content == {**expected, "hallucination": -1.0, metric: -0.25}
    assert session.reward == (0.5 if undone else -0.25) + 1.0 + 1.0 - 1.25


@pytest.mark.parametrize(
    ("name", "value"),
    [*product(rewards.VERDICT_FIELDS, (2, -2, 0.5, None)), ("hallucination", 0)],
)
def test_a_verdict_holds_no_other_value(name: str, value: int) -> None:
    fields = dict.fromkeys(rewards.VERDICT_FIELDS, 1)
    with pytest.raises(ValueError, match=name):
        Verdict(**{**fields, name: value})
    with pytest.raises(ValueError, match=r"hallucination: expected -1 or \+1, got 0"):
        Verdict(0, 0, 0, 0, 0, 0)


def test_numbers_of_other_types_become_json() -> None:
    verdict = Verdict(*np.array([1, 0, -1, 0, 1, 1]), confidence={"clarity": np.float32(0.5)})
    assert verdict == Verdict(1, 0, -1, 0, 1, 1, confidence={"clarity": 0.5})
    session = play(edit("- Built"), SUBMIT)
    session.grade(verdict)
    assert json.loads(json.dumps(session.record())) == session.record()


@pytest.mark.parametrize(
    "verdict",
    [None, {"clarity": 1}, 3, Verdict(1, 0, 0, 0, 0, 0, reasons={"clarity": np.int64(1)}),
     Verdict(1, 0, 0, 0, 0, 0, reasons={"clarity": 5}), Verdict(1, 0, 0, 0, 0, 0, reasons=["5"]),
     Verdict(1, 0, 0, 0, 0, 0, confidence={"clarity": float("nan")})],
)  # fmt: skip
def test_malformed_verdicts_are_refused(verdict: Any) -> None:
    session = play(edit("- Built"), SUBMIT)
    with pytest.raises(ValueError, match="verdict: expected"):
        session.grade(verdict)
    assert session.needs_verdict


def test_the_least_and_the_greatest_reward_are_attained() -> None:
    edits = [edit(f"- Built {n + 1}", old=f"- Built {n}") for n in range(7)]
    for actions, verdict, reward, score in (
        ([edit("- Built\n" * 60), *[FAILING] * 9], WORST, -7.0, 0.0),
        ([REVIEW, edit("- Built 0"), *edits, SUBMIT], BEST, 8.0, 100.0),
    ):
        session = play(*actions)
        session.grade(verdict)
        assert (session.reward, session.score) == (reward, score)


actions = st.sampled_from(
    [
        REVIEW,
        SUBMIT,
        FAILING,
        "",
        REVIEW + SUBMIT,
        edit("- Led"),
        edit("- Helped build", old="- Led"),
        edit("long\n" * 30, old="\n## Skills"),
        edit("Led", old="Helped"),
        tool_call("str_replace", old="Helped", new="Led", count=2),
    ]
)
grades = st.sampled_from([-1, 0, 1])
verdicts = st.builds(Verdict, st.sampled_from([-1, 1]), *[grades] * 5)


def test_bounds_follow_the_rewards_of_a_domain() -> None:
    class Generous(Session):
        __slots__ = ()
        tool_rewards: ClassVar = {**rewards.TOOL_REWARDS, "submit": 5.0}
        verdict_limit = 2

    task = play().task
    (least, greatest), (low, high) = Session(task).bounds, Generous(task).bounds
    fields = sum(Session.verdict_weights.values())
    assert (low, high) == (least - fields, greatest + fields + 4)


@settings(max_examples=60)
@given(st.integers(3, 12), st.integers(1, 20), st.lists(actions, min_size=12), verdicts)
def test_any_episode_is_within_bounds_and_its_terms_add_up_exactly(
    max_turns: int, page_lines: int, script: list[str], verdict: Verdict
) -> None:
    session = play(rules=Rules(max_turns=max_turns, page_lines=page_lines))
    while not session.done:
        step = session.step(script.pop())
        assert step.reward == sum(step.ledger.values())
        assert isinstance(step.reward, float)
        assert sum(session.ledger.values()) == session.reward
    if session.needs_verdict:
        before = session.reward
        terms = session.grade(verdict)
        assert session.reward == before + sum(terms.values())
    least, greatest = rewards.reward_bounds(max_turns)
    assert least <= session.reward <= greatest
    assert 0 <= session.score <= 100
    assert sum(session.ledger.values()) == session.reward
    assert sum(rewards.components(session.ledger).values()) == session.reward
    assert list(session.ledger) == list(session.terms)
