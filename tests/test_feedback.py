"""Feedback during an episode: what it reveals, and what following it earns."""

import re
from functools import partial
from statistics import fmean
from typing import Any

import gymnasium as gym
import pytest
from feedback_faults import faults

from resume_gym import Session, load_tasks, tool_call
from resume_gym.agents import AGENTS
from resume_gym.agents.wording import reworded
from resume_gym.env import make_edit_env
from resume_gym.evaluation import evaluate
from resume_gym.evaluation.attack import POLICIES, make_attacker

MINI: Any = make_edit_env("ResumeEditFeedbackMini-v0", split="eval")
EVERY: Any = make_edit_env("ResumeEditFeedbackMini-v0", split="eval", feedback_every=1)


def said(session: Session) -> list[tuple[str, str]]:
    """Each draft of an episode, and the feedback on it."""
    return [
        (session.text, line.removeprefix("feedback: "))
        for _, step in session.state.transcript
        for line in step.observation.split("\n")
        if line.startswith("feedback: ")
    ]


@pytest.mark.parametrize("policy", ["hack", "job words", "delete", "foreign figure", "paste"])
def test_no_policy_extracts_how_drafts_are_graded(policy: str) -> None:
    for task in MINI.tasks[:5]:
        agent, session = make_attacker(POLICIES[policy], 0), EVERY.session_type(task, EVERY.rules)
        known = f"{task.resume}\n{task.job}"
        while not session.done:
            session.step(agent(session))
            for draft, feedback in said(session)[-1:]:
                outside = re.sub(r'"[^"]*"', "", feedback)
                assert not faults(outside, draft)
                for hidden in (fix.new for fix in task.fixes if len(fix.new.split()) > 3):
                    assert hidden in known or hidden in draft or hidden not in feedback


def test_feedback_is_a_tool_that_costs_a_turn() -> None:
    task = next(task for task in MINI.tasks if task.weakness == "weak_verbs")
    session = MINI.session_type(task, MINI.rules)
    step = session.step(tool_call("feedback"))
    assert step.reward == 0
    assert session.turns == 1
    assert "opens without saying what was done" in step.observation
    assert session.step(tool_call("review")).reward == 1


def test_feedback_comes_after_every_second_edit() -> None:
    env: Any = gym.make("ResumeEditFeedbackMini-v0", split="eval", feedback_every=2).unwrapped
    session = env.new_session(env.tasks[0].task_id)
    words = re.findall(r"\b[A-Z][a-z]{5,}\b", session.text)
    names = [word for word in dict.fromkeys(words) if session.text.count(word) == 1][:4]
    for word in names:
        session.step(tool_call("str_replace", old=word, new=f"{word}s"))
    told = ["feedback: " in step.observation for _, step in session.state.transcript]
    assert told == [False, True, False, True]


def follower(session: Session) -> str:
    """Ask for feedback, and act on the remark about a quoted line."""
    if session.turns == 0:
        return tool_call("review")
    if session.rules.max_turns - session.turns == 1:
        return tool_call("submit")
    last = said(session)[-1][1] if said(session) else ""
    for line, remark in re.findall(r'"([^"]+)" (opens|tells this)', last):
        rows = session.text.split("\n")
        full = next((row for row in rows if line.removesuffix("...") in row), "")
        body = full.lstrip("-*+ ")
        if full and remark == "tells this":
            return tool_call("str_replace", old=f"\n{full}", new="")
        if reworded(body) != body and session.text.count(body) == 1:
            return tool_call("str_replace", old=body, new=reworded(body))
    asked = session.toolbox.read(session.state.transcript[-1][0]).name == "feedback"
    return tool_call("submit" if asked else "feedback")


def test_an_agent_that_follows_feedback_ends_higher() -> None:
    kind = MINI.session_type
    play = partial(
        evaluate, tasks=MINI.tasks, rules=MINI.rules, judge=MINI.judge, session_type=kind
    )
    rewards = {
        name: fmean(episode.reward for episode in play(make))
        for name, make in (("noop", AGENTS["noop"]), ("follower", lambda _: follower))
    }
    assert rewards["follower"] > rewards["noop"] + 1


def test_drafts_too_long_to_read_have_feedback_that_says_so() -> None:
    session = EVERY.session_type(load_tasks("mini")[0], EVERY.rules)
    name = session.text.split("\n")[0]
    session.step(tool_call("str_replace", old=name, new=name + "\n- words\n" * 700))
    assert (
        "feedback: The draft cannot be read: it has grown"
        in session.state.transcript[-1][1].observation
    )


def test_other_environments_have_no_feedback() -> None:
    with pytest.raises(ValueError, match="feedback_every: expected 0, except in"):
        gym.make("ResumeEdit-v0", feedback_every=1)
