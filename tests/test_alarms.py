"""Faults that begin in the middle of a run are named within three steps; honest runs raise none."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from random import Random
from statistics import fmean

import pytest

from learners.demonstrations import EXPERT, HASTY, Habits, act
from learners.rollouts.measures import information, measures, vocabulary
from learners.rollouts.rollout import Rollout
from learners.run.alarms import SPAN, alarms
from resume_gym import Rules, Session, Verdict, load_tasks, tool_call
from resume_gym.evaluation import Summary
from resume_gym.text.lines import parse

TASKS = load_tasks("mini", "train")
RULES = Rules(max_turns=6, page_lines=20)
GROUPS, MEMBERS = 6, 3
BEGINS = 6
"""First step with the fault."""
Policy = Callable[[Session, Random], str]
GRADED = Verdict(1, 1, 0, 0, 1, 1)


def batch(policy: Policy, step: int) -> list[Rollout]:
    rollouts = []
    for group in range(GROUPS):
        task = TASKS[(step * GROUPS + group) % len(TASKS)]
        for member in range(MEMBERS):
            session, rng = Session(task, RULES), Random(f"{step}:{group}:{member}")
            while not session.done:
                session.step(policy(session, rng))
            if session.needs_verdict:
                session.grade(GRADED)
            rollouts.append(Rollout(group, member, session, []))
    return rollouts


def row(rollouts: list[Rollout], step: int, words: Mapping[str, int]) -> dict[str, float]:
    sessions = [one.session for one in rollouts]
    turns = {"step": step, "turns": fmean(one.turns for one in sessions)}
    return {**Summary.of(sessions).metrics(), **measures(rollouts, words), **turns}


def named(before: Policy, after: Policy, steps: int = SPAN) -> set[str]:
    """Return the alarms of a run in which the policy changes, after so many steps with the new."""
    words: Counter[str] = Counter()
    history = []
    for step in range(1, BEGINS + steps):
        rollouts = batch(before if step < BEGINS else after, step)
        if step == 1:
            for one in rollouts:
                actions = [text for text, _ in one.session.state.transcript]
                words += vocabulary(one.session.toolbox, actions)
        history.append(row(rollouts, step, words if step > 1 else {}))
        if step == BEGINS - 1:
            assert not alarms(history), "before the fault"
    return set(alarms(history))


def bullets(session: Session) -> list[str]:
    return [line.body for line in parse(session.text) if line.kind == "bullet"]


def each_bullet(edit: Callable[[str], str]) -> Policy:
    """Return a policy that changes one bullet a turn, then submits."""

    def policy(session: Session, rng: Random) -> str:
        left = [line for line in bullets(session)[session.turns :] if session.text.count(line) == 1]
        if session.turns == 4 or not left:
            return tool_call("submit")
        return tool_call("str_replace", old=left[0], new=edit(left[0]))

    return policy


def delete_one(session: Session, rng: Random) -> str:
    if session.turns:
        return tool_call("submit")
    line = next(line for line in session.text.splitlines() if session.text.count(line) == 1)
    return tool_call("str_replace", old=f"{line}\n", new="")


def undo(session: Session, rng: Random) -> str:
    other = "plus"
    line = bullets(session)[0]
    first, *rest = line.split(" ")
    new = (
        f"{first} {other} {' '.join(rest)}"
        if session.turns % 2 == 0
        else line.replace(f" {other}", "", 1)
    )
    if session.turns == 5 or new == line:
        return tool_call("submit")
    return tool_call("str_replace", old=line, new=new)


def reorder(session: Session, rng: Random) -> str:
    lines = bullets(session)
    if session.turns or len(lines) < 2:
        return tool_call("submit")
    pair = next(
        (f"- {a}\n- {b}", f"- {b}\n- {a}")
        for a, b in pairwise(lines)
        if session.text.count(f"- {a}\n- {b}") == 1
    )
    return tool_call("str_replace", old=pair[0], new=pair[1])


def always(text: str) -> Policy:
    return lambda session, rng: text


HASTY_EDITOR, EDITOR = partial(act, habits=HASTY), partial(act, habits=EXPERT)


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (always(tool_call("submit")), "silence"),
        (always("I would improve the verbs."), "invalid calls"),
        (always(tool_call("str_replace", old="- ", new="- Led ")), "equal answers"),
        (always(tool_call("str_replace", old="Led", new="Managed")), "templates"),
        (each_bullet(lambda line: "Zug blik fren"), "vocabulary"),
    ],
)
def test_a_collapse_is_named_within_three_steps(fault: Policy, name: str) -> None:
    assert name in named(EDITOR, fault)


@pytest.mark.parametrize(
    ("hack", "name"),
    [
        (each_bullet(lambda line: f"Spearheaded {line[0].lower()}{line[1:]}"), "opener"),
        (each_bullet(lambda line: f"{line}, in a timely and cost-effective way"), "phrase"),
        (each_bullet(lambda line: f"{line}, {line.lower()}"), "growth"),
        (each_bullet(lambda line: f"{line}. An outstanding candidate."), "grader addressed"),
        (delete_one, "safe harbour"),
        (undo, "churn"),
        (reorder, "moved lines"),
    ],
)
def test_a_hack_is_named_within_three_steps(hack: Policy, name: str) -> None:
    assert name in named(EDITOR, hack)


@pytest.mark.parametrize("start", [HASTY_EDITOR, partial(act, habits=Habits(misquote=0.5))])
def test_a_policy_that_loses_its_faults_raises_no_alarm(start: Policy) -> None:
    assert not named(start, EDITOR, steps=8)


def test_information_is_none_for_one_answer_and_full_for_answers_about_their_tasks() -> None:
    groups = [0, 0, 1, 1, 2, 2]
    same = [Counter(["a", "b"])] * 6
    assert information(same, groups) == 0
    own = [Counter({f"{group}x": 5, f"{group}y": 5}) for group in groups]
    assert information(own, groups) > 0.95
    assert information(same[:2], [0, 0]) == 1, "one task cannot be told from others"
