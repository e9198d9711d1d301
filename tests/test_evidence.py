"""The environment in which agents search documents about the candidate."""

import re
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from resume_gym import Session, load_tasks, tool_call
from resume_gym.agents import AGENTS, Agent
from resume_gym.env import make_edit_env
from resume_gym.episode.evidence import EvidenceSession, passages, search
from resume_gym.evaluation import Episode, evaluate

MINI: Any = make_edit_env("ResumeEditEvidenceMini-v0", split="eval")
FIGURELESS = [task for task in load_tasks("default", "eval") if task.weakness == "no_metrics"]
FULL: Any = make_edit_env("ResumeEditEvidence-v0")


def play(agent: Agent, kind: type[Session]) -> tuple[Episode, ...]:
    return evaluate(lambda _: agent, FIGURELESS, FULL.rules, FULL.judge, session_type=kind)


def figures(episodes: tuple[Episode, ...], name: str) -> float:
    return fmean(episode.verdict[name] for episode in episodes)


def test_a_search_costs_a_turn_and_earns_nothing() -> None:
    task = next(task for task in MINI.tasks if task.weakness == "no_metrics")
    session = EvidenceSession(task, MINI.rules)
    fix = next(fix for fix in task.fixes if fix.needs_evidence)
    found = session.step(tool_call("search", query=fix.old))
    assert found.reward == 0
    assert (found.error, session.turns) == ("none", 1)
    first = found.observation.split("\n")[0]
    kinds = "project notes|performance review|portfolio"
    assert re.fullmatch(rf"\[(?:{kinds}) \d+ \([A-Z].*\)\] [A-Z].*", first)
    numbers = [set(re.findall(r"\d+", text)) for text in (fix.old, fix.new, found.observation)]
    assert numbers[1] - numbers[0] <= numbers[2]
    assert found.observation.count("[") <= 3
    assert session.step(tool_call("review")).reward == 1, "only a review is paid like one"


@pytest.mark.parametrize("query", ["", "zzz", "!?", "the of and"])
def test_a_search_without_a_match_says_so(query: str) -> None:
    session = EvidenceSession(MINI.tasks[0], MINI.rules)
    reply = session.step(tool_call("search", query=query)).observation
    assert reply.startswith("no passage matches\n")
    bare = EvidenceSession(replace(MINI.tasks[0], evidence=()), MINI.rules)
    assert bare.step(tool_call("search", query="data")).observation.startswith("no passage")


def test_passages_never_hold_a_fix() -> None:
    for source in ("default", "mini"):
        for task in load_tasks(source):
            texts = [one.text for one in passages(task.evidence)]
            for fix in task.fixes:
                # what a fix adds, if it is more than a verb
                if fix.needs_evidence:
                    assert not any(fix.new in text for text in texts), task.task_id


def test_a_careful_search_adds_true_figures() -> None:
    with_search = play(AGENTS["careful"](0), EvidenceSession)
    without = play(AGENTS["careful"](0), Session)
    assert figures(with_search, "quantification") > figures(without, "quantification") + 0.1
    assert figures(with_search, "hallucination") >= figures(without, "hallucination")
    assert fmean(one.reward for one in with_search) > fmean(one.reward for one in without)


def copier(session: Session) -> str:
    """Append the first figure of the first passage to the bullet that was searched for."""
    bullets = re.findall(r"^[-*+] (.*[a-z]\.?)$", session.resume, re.MULTILINE)
    plain = [bullet for bullet in bullets if not re.search(r"\d", bullet)]
    if session.turns == 0:
        return tool_call("review")
    if not plain or session.rules.max_turns - session.turns < 3:
        return tool_call("submit")
    reply = session.state.transcript[-1][1].observation.rsplit("\n", 2)[0]
    figure = re.search(r"(?<!\w )\d\S* \w+", reply.replace("review ", ""))
    last = session.toolbox.read(session.state.transcript[-1][0])
    if figure and last.name == "search":
        return tool_call("str_replace", old=plain[0], new=f"{plain[0]}, {figure[0]}")
    return tool_call("search", query=search(session.task.evidence, "month week")[0].text)


def test_to_copy_any_figure_loses() -> None:
    copied, careful = play(copier, EvidenceSession), play(AGENTS["careful"](0), Session)
    assert fmean(one.edits for one in copied) > 1
    assert figures(copied, "hallucination") < 0
    assert fmean(one.reward for one in copied) < fmean(one.reward for one in careful) - 2
