import json
from dataclasses import replace

import pytest
from conftest import BEST, RESUME, WORST, make_task
from hypothesis import given, settings
from hypothesis import strategies as st

from resume_gym import ERRORS, Rules, Session, Task, tool_call
from resume_gym.episode.document import Match
from resume_gym.episode.editing import MAX_OBSERVATION
from resume_gym.episode.spaces import UnicodeText

REVIEW, SUBMIT = tool_call("review"), tool_call("submit")


def edit(old: str, new: str, **count: int) -> str:
    return tool_call("str_replace", old=old, new=new, **count)


BUILT = edit("Helped build", "Built")


def test_the_prompt_holds_job_resume_layout_and_budget(task: Task) -> None:
    prompt = Session(task).prompt
    assert task.job in prompt
    assert task.resume.rstrip() in prompt
    assert prompt.endswith("lines: 11/55 | longest line: 49\nturns left: 10/10 | edits: 0")
    endless = Session(task, Rules(page_lines=Rules().max_chars)).prompt
    assert "\nlines: 11 | longest line: 49\n" in endless
    assert "weak_verbs" not in prompt + Session(task).system_prompt


def test_an_edit_answers_with_diff_layout_and_budget(task: Task) -> None:
    step = Session(task).step(BUILT)
    diff, layout, budget = step.observation.rsplit("\n", 2)
    assert diff.endswith("\n+- Built a booking pipeline for 12 harbours")
    assert (layout, budget) == ("lines: 11/55 | longest line: 48", "turns left: 9/10 | edits: 1")
    assert not step.done
    assert step.error == "none"


def test_review_shows_the_resume_as_it_stands(task: Task) -> None:
    session = Session(task, Rules(page_lines=6))
    session.step(BUILT)
    rows = session.step(REVIEW).observation.split("\n")
    assert rows[5] == "- Built a booking pipeline for 12 harbours"
    assert rows[6] == "===== the page ends here: 6 lines ====="
    assert rows[-2:] == ["lines: 11/6 | longest line: 48", "turns left: 8/10 | edits: 1"]


@pytest.mark.parametrize(
    ("action", "error", "says"),
    [
        (edit("Helped", "Led"), "ambiguous", "occurs 2 times, expected 1"),
        (edit("Helped", "Led", count=3), "not_found", "found 2 of 3"),
        (edit("helped", "Led"), "not_found", "not in the resume"),
        (edit("## Skills\n", "## Skills\r\n"), "unchanged", "changes nothing"),
        (edit("Helped", "Helped"), "unchanged", "equal to `old`"),
        ("hello", "no_call", "expected one <tool_call>"),
        (tool_call("rewrite"), "unknown_tool", "the tools are str_replace, review, submit"),
        (REVIEW + REVIEW, "several_calls", "one"),
        ("x" * 1000, "too_large", "the limit is 900"),
    ],
)
def test_errors_say_what_was_wrong_and_cost_a_quarter_and_a_turn(
    task: Task, action: str, error: str, says: str
) -> None:
    session = Session(task, Rules(max_chars=900))
    step = session.step(action)
    term = "failed_edit" if "str_replace" in action else "malformed"
    assert (step.ledger, session.turns, session.resume) == ({term: -0.25}, 1, task.resume)
    assert step.error == error
    assert says in step.observation
    assert step.observation.startswith(f"error ({error}): ")
    assert step.observation.endswith("\nturns left: 9/10 | edits: 0")


def test_count_replaces_all_or_nothing(task: Task) -> None:
    session = Session(task)
    assert session.step(edit("Helped", "Led", count=2)).error == "none"
    assert session.resume == RESUME.replace("Helped", "Led")
    assert session.state.edits == 1


@pytest.mark.parametrize("match", ["exact", "fuzzy"])
@pytest.mark.parametrize("count", [1, 2])
def test_overlapping_occurrences_are_ambiguous(match: Match, count: int) -> None:
    shift = "- Night shift\n"
    session = Session(make_task(resume=f"# Ada\n\n{shift * 3}"), Rules(match=match))
    step = session.step(edit(shift * 2, "- Early shift\n", count=count))
    assert (step.error, step.reward) == ("ambiguous", -0.25)
    assert session.resume.count(shift) == 3
    assert session.step(edit(shift, "- Early shift\n", count=3)).error == "none"


def test_crlf_input_is_read_as_line_feeds() -> None:
    session = Session(make_task(resume=RESUME.replace("\n", "\r\n")))
    assert session.resume == RESUME
    step = session.step(edit("## Skills\r\nPython", "## Skills\r\n- Python\r- Go"))
    assert step.error == "none"
    assert session.resume.endswith("## Skills\n- Python\n- Go, SQL\n")


def test_too_large_a_resume_is_refused() -> None:
    size = len(RESUME)
    session = Session(make_task(), Rules(max_chars=size + 10))
    step = session.step(edit("Helped", "Helped....." + "x", count=2))
    assert (step.error, step.ledger) == ("too_large", {"failed_edit": -0.25})
    assert session.step(edit("Helped", "Helped.....", count=2)).error == "none"
    assert len(session.resume) == size + 10


def test_the_last_turn_may_be_an_edit(task: Task) -> None:
    session = Session(task, Rules(max_turns=3))
    session.step(REVIEW)
    session.step("hello")
    step = session.step(BUILT)
    assert step.done
    assert session.needs_verdict
    assert step.ledger == {"edit": 0.25, "no_submit": -1.0, "layout": 1.0}
    assert step.observation.endswith("turns left: 0/3 | edits: 1")
    session.grade(BEST)
    assert not session.needs_verdict


def test_only_an_episode_that_is_over_is_graded_and_takes_no_step(task: Task) -> None:
    session = Session(task)
    session.step(BUILT)
    with pytest.raises(RuntimeError, match="the episode is not over"):
        session.grade(BEST)
    session.step(SUBMIT)
    state = session.snapshot()
    with pytest.raises(RuntimeError, match="the episode is over"):
        session.step(REVIEW)
    assert session.snapshot() is state


def test_a_later_verdict_replaces_an_earlier_one(task: Task) -> None:
    session = Session(task)
    for action in (BUILT, SUBMIT):
        session.step(action)
    session.grade(WORST)
    assert session.reward == 0.25 + 1 + 1 - 3
    session.grade(BEST)
    assert session.reward == sum(session.ledger.values()) == 0.25 + 1 + 1 + 3


def test_a_record_is_json_that_replays_and_can_be_graded_again(task: Task) -> None:
    session = Session(task, Rules(max_turns=5, match="fuzzy", page_lines=8))
    for action in (REVIEW, "hello \ud800", BUILT, SUBMIT):
        session.step(action)
    ungraded = json.loads(json.dumps(session.record()))
    session.grade(WORST)
    record = json.loads(json.dumps(session.record()))
    assert record["ledger"] == session.ledger
    again = Session.replay(task, record)
    assert again.record() == session.record()
    again.grade(BEST)
    assert again.reward == session.reward + 6
    later = Session.replay(task, ungraded)
    assert later.needs_verdict
    later.grade(WORST)
    assert later.record() == session.record()


@pytest.mark.parametrize("changed", [{"text": "x"}, {"reward": 99.0}, {"task_id": "other"}])
def test_a_record_that_does_not_fit_is_refused(task: Task, changed: dict[str, object]) -> None:
    session = Session(task)
    session.step(BUILT)
    with pytest.raises(ValueError, match=f"{task.task_id}.*{next(iter(changed))}|{task.task_id}"):
        Session.replay(task, {**session.record(), **changed})


@pytest.mark.parametrize(
    ("field", "value"),
    [*(("max_turns", turns) for turns in (2, 3.0, True)), ("page_lines", 0), ("page_width", 0),
     ("max_chars", "9"), ("match", "regex"), ("layout_reward", "smooth"),
     *(("layout_amplitude", amplitude) for amplitude in (0.3, -1))],
)  # fmt: skip
def test_rules_are_checked(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{field}: expected"):
        Rules(**{field: value})  # type: ignore[arg-type]


@settings(max_examples=30)
@given(st.lists(st.text(), min_size=3, max_size=3))
def test_no_string_raises_and_every_observation_is_a_text(texts: list[str]) -> None:
    session = Session(make_task(), Rules(max_turns=3))
    space = UnicodeText(1000)
    for text in texts:
        step = session.step(text)
        assert step.error in ERRORS
        assert space.contains(step.observation)
    assert session.done


def test_a_reply_stays_within_the_observation_space(task: Task) -> None:
    old, new = "a" * 200, "c" * 200
    long = replace(task, resume=f"{old}\n\n" * 3000)
    session = Session(long, Rules(max_turns=3, max_chars=700_000))
    reply = session.step(edit(old, new, count=3000)).observation
    assert UnicodeText(MAX_OBSERVATION).contains(reply)
    assert reply.startswith("@@ ")
    assert "characters left out]" in reply
    assert reply.endswith("turns left: 2/3 | edits: 1")


def test_a_pair_of_surrogates_is_replayed_as_its_character(task: Task) -> None:
    session = Session(task, Rules(max_turns=3))
    for text in (tool_call("str_replace", old="\ud83d\ude42", new="x"), "\ud83d\ude42", "\ud83d"):
        session.step(text)
    again = Session.replay(task, json.loads(json.dumps(session.record())))
    assert again.record() == session.record()


TYPESET = "# Ada\n\n- Helped\u00a0with “it” – often\n- Ran the cafe\u0301\n"


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ("Helped with", ": it has U+00A0 NO-BREAK SPACE, `old` has U+0020 SPACE"),
        ('"it" - often', ": it has U+201C LEFT DOUBLE QUOTATION MARK, `old` has U+0022 QUOTATION"),
        ("often\u200b", "it has no character there, `old` has U+200B ZERO WIDTH SPACE"),
        ("Helped in", "`old` is not in the resume\n"),
    ],
)
def test_the_error_names_the_character_that_differs(old: str, told: str) -> None:
    task = make_task(resume=TYPESET)
    observation = Session(task).step(edit(old, "X")).observation
    assert told in observation
    fuzzy = Session(task, Rules(match="fuzzy")).step(edit(old, "X"))
    assert fuzzy.error == ("none" if "has" in told else "not_found")
