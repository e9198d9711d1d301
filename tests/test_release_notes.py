"""The second domain of editing: its rules, and that it is played as resumes are."""

import sys
from pathlib import Path

import gymnasium as gym
import pytest

from resume_gym import tool_call

sys.path.append(str(Path(__file__).parents[1]))

from examples.release_notes import (
    RULES,
    WEAKNESSES,
    Editor,
    NotesSession,
    Release,
    compose,
    entries,
    make_release,
)

ID = "examples.release_notes:ReleaseNotes-v0"
CHANGES = {
    "Removed the old API of search (#1)": "Breaking",
    "Added undo (#2)": "Added",
    "Fixed a crash (#3)": "Fixed",
    "Raised lint rules (#4)": "internal",
}
PLACED = [(kind, text) for text, kind in CHANGES.items() if kind != "internal"]


def session(*placed: tuple[str, str], weakness: str = "internal") -> NotesSession:
    return NotesSession(Release("hand", weakness, CHANGES, compose(placed)), RULES)


def repaired(task: Release) -> list[str]:
    """The calls that mend a draft."""
    calls, seen = [], set()
    for section, text in entries(task.draft):
        number = text[text.rindex("(") :]
        if task.changes[text] == "internal" or text in seen:
            calls.append(tool_call("drop", entry=number))
        elif task.changes[text] != section:
            calls.append(tool_call("move", entry=number, section=task.changes[text]))
        seen.add(text)
    return calls


@pytest.mark.parametrize("number", range(6))
def test_every_draft_can_be_mended_and_earns_all_there_is(number: int) -> None:
    task = make_release("eval", number)
    env = gym.make(ID, split="eval")
    env.reset(options={"task_id": task.task_id})
    calls = [tool_call("review"), *repaired(task), tool_call("submit")]
    assert len(calls) <= RULES.max_turns
    for call in calls:
        _, reward, ended, _, info = env.step(call)
        assert info["error"] == "none", info
    assert ended
    assert info["verdict_coverage"] == 1
    assert info["verdict_placement"] + info["verdict_noise"] == 1
    # review, submit, layout, coverage, what was mended, and the edits
    assert info["episode_reward"] == 5 + 0.25 * (len(calls) - 2)
    assert reward == 4


def test_drafts_show_their_weakness_and_no_other() -> None:
    for number in range(30):
        task = make_release("train", number)
        assert task == make_release("train", number)
        wrong, noise = Editor()._faults(task, task.draft)
        assert task.weakness == WEAKNESSES[number % 3]
        assert (wrong == 2) == (task.weakness == "misplaced")
        assert (noise == 2) == (task.weakness != "misplaced")


def test_what_users_need_must_stay() -> None:
    one = session(*PLACED, ("Fixed", "Raised lint rules (#4)"))
    one.step(tool_call("drop", entry="#4"))
    one.step(tool_call("drop", entry="undo"))
    one.step(tool_call("submit"))
    assert one.needs_verdict
    one.grade(Editor().judge(one.task, one.text))
    assert one.ledger["coverage"] == -1
    assert one.ledger["noise"] == 1


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (tool_call("drop", entry="(#9)"), "not_found", "0 entries"),
        (tool_call("drop", entry="(#"), "ambiguous", "3 entries"),
        (tool_call("move", entry="(#1)", section="Other"), "bad_arguments", "one of Breaking"),
        (tool_call("move", entry="(#1)", section="Breaking"), "unchanged", "changes nothing"),
        (tool_call("move", entry="(#1)"), "bad_arguments", "`section` is missing"),
        (tool_call("str_replace", old="a", new="b"), "unknown_tool", "drop, move, review, submit"),
        (tool_call("drop", entry=1), "bad_arguments", "`entry` must be a string, got a number"),
    ],
)
def test_what_cannot_be_done_is_said_and_costs(call: str, error: str, says: str) -> None:
    one = session(*PLACED)
    step = one.step(call)
    assert (step.error, step.reward) == (error, -0.25)
    assert says in step.observation
    assert one.text == one.original


def test_an_unchanged_draft_is_graded_without_the_judge() -> None:
    one = session(*PLACED, weakness="misplaced")
    one.step(tool_call("submit"))
    assert not one.needs_verdict
    assert (one.ledger["coverage"], one.ledger["placement"], one.ledger["noise"]) == (-1, -1, 0)
