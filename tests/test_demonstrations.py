"""Scripted editors, the samples of their turns, and the pages they work on."""

import re
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from learners.demonstrations import Act, demonstrations, drills, renamed, shortened, shorter
from learners.editors import apprentice, careful, fixes, repairs
from learners.rollouts.tokens import ChatTokens
from learners.training.models import load_tokenizer
from learners.training.rows import Sample, pack
from resume_gym import TOOLS, Rules, Session, ToolCall, load_tasks, parse
from resume_gym.judges import make_judge

RULES = Rules(max_turns=6, page_lines=20)
TASKS = load_tasks("mini", "train")[:80]
TOKENIZER = load_tokenizer("nano")
CHAT = ChatTokens(TOKENIZER, TOOLS)


@cache
def episodes(act: Act) -> tuple[Session, ...]:
    """An episode on every task, on a renamed page."""
    played = []
    for number, task in enumerate(TASKS):
        rng = Random(number)
        session = Session(renamed(task, rng), RULES)
        while not session.done:
            session.step(act(session, rng))
        played.append(session)
    return tuple(played)


@pytest.mark.parametrize(("editor", "least"), [(fixes, 5.0), (careful, 5.0), (repairs, 4.0)])
def test_editors_without_bad_edits_earn_more_than_the_floor(editor: Act, least: float) -> None:
    judge = make_judge("rubric")
    rewards = []
    for session in episodes(editor):
        assert {step.error for _, step in session.state.transcript} == {"none"}
        if session.needs_verdict:
            session.grade(judge.judge(session.task, session.resume))
        rewards.append(session.reward)
    assert sum(rewards) / len(rewards) > least


def test_fixes_leave_words_out_and_changes_verbs_but_rearranges_nothing() -> None:
    passive = "Fetched logos for the payment screen, into which Apple Pay was integrated"
    several = "Made changes, moving reports to Tableau and such and retiring those that none opened"
    cases = (
        (passive, "Integrated Apple Pay into the payment screen", 0),
        (passive, "Integrated Apple Pay", 1),
        (several, "Moved reports to Tableau and retired those that none opened", 1),
    )
    for old, new, edits in cases:
        fix = replace(TASKS[0].fixes[0], old=old, new=new, needs_evidence=False)
        task = replace(TASKS[0], resume=f"# Ann\n\n## Experience\n\n- {old}\n", fixes=(fix,))
        session, rng = Session(task, RULES), Random(0)
        while not session.done:
            session.step(fixes(session, rng))
        assert session.state.edits == edits


@pytest.mark.parametrize("editor", [apprentice, repairs, careful, fixes])
def test_an_empty_page_ends_the_episode(editor: Act) -> None:
    session, rng = Session(replace(TASKS[0], resume="\n", fixes=()), RULES), Random(0)
    while not session.done:
        assert session.step(editor(session, rng)).error == "none"


def test_short_quotes_do_what_the_fixes_do() -> None:
    less = 0
    for task in TASKS:
        for fix in task.fixes:
            if task.resume.count(fix.old) == 1:
                old, new = shortened(task.resume, fix.old, fix.new)
                assert task.resume.count(old) == 1
                assert task.resume.replace(old, new) == task.resume.replace(fix.old, fix.new)
                less += len(old) < len(fix.old)
                assert old[0] == " " or f" {old}" not in task.resume or not new
    assert less > 50


def test_a_renamed_page_keeps_its_form_and_its_fixes() -> None:
    changed = kept = 0
    for task in TASKS:
        strange = renamed(task, Random(task.task_id))
        assert strange == renamed(task, Random(task.task_id))
        assert re.sub(r"[A-Za-z]+", "", strange.resume) == re.sub(r"[A-Za-z]+", "", task.resume)
        pairs = list(zip(strange.resume.split(" "), task.resume.split(" "), strict=True))
        changed += sum(one != other for one, other in pairs)
        kept += sum(one == other for one, other in pairs)
        for fix, before in zip(strange.fixes, task.fixes, strict=True):
            if task.resume.count(before.old) == 1:
                assert strange.resume.count(fix.old) == 1
            assert re.findall(r"\d+", fix.new) == re.findall(r"\d+", before.new)
    assert 0.1 < changed / (changed + kept) < 0.5, "every other page keeps all its words"


def test_a_short_page_keeps_what_its_fixes_need() -> None:
    before = after = 0
    for task in TASKS:
        few = shorter(task, Random(task.task_id))
        lines = task.resume.split("\n")
        assert [line for line in lines if line in few.resume.split("\n")] == few.resume.split("\n")
        for fix in task.fixes:
            if task.resume.count(fix.old) == 1:
                assert few.resume.count(fix.old) == 1
        if task.weakness == "too_long":
            assert few == task, "what has to go depends on the whole page"
        else:
            before, after = before + len(task.resume), after + len(few.resume)
    assert after < 0.8 * before


def states(group: list[Sample]) -> dict[tuple[int, ...], list[Sample]]:
    """The samples of an episode by the tokens before their turn."""
    found: dict[tuple[int, ...], list[Sample]] = {}
    for one in group:
        before = len(one.response) - one.turns[-1]
        found.setdefault((*one.prompt, *one.response[:before]), []).append(one)
    return found


def test_turns_are_drawn_in_each_state_of_an_episode() -> None:
    sessions = [Session(task, RULES) for task in TASKS[:20]]
    groups = list(demonstrations(CHAT, sessions, apprentice, 8, 1))
    assert len(groups) == 20
    for session, group in zip(sessions, groups, strict=True):
        assert session.done
        assert len(states(group)) == session.turns
        for state, samples in states(group).items():
            text = TOKENIZER.decode(list(state))
            assert text.rstrip().endswith("<|im_start|>assistant")
            assert f"/{RULES.max_turns} | edits: " in text
            turns = [one.response[-one.turns[-1] :] for one in samples]
            assert len(set(map(tuple, turns))) == len(turns)
            assert sum(one.advantages[-1] for one in samples) == 8
            for one, turn in zip(samples, turns, strict=True):
                assert len(set(one.advantages[-len(turn) :])) == 1
                assert one.turns == [len(turn)]
                said = TOKENIZER.decode(turn).removesuffix("<|im_end|>")
                assert isinstance(parse(said), ToolCall)
    # what all have in common is in a row once
    (row,) = pack([one for group in groups[:4] for one in group], 1 << 20)
    assert TOKENIZER.decode(row.tokens.tolist()).count("You edit a resume") == 1


def test_each_reply_has_its_weight_once() -> None:
    def groups(replies: float) -> list[list[Sample]]:
        sessions = (Session(task, RULES) for task in TASKS[:15])
        return list(demonstrations(CHAT, sessions, apprentice, 8, 1, replies))

    for without, group in zip(groups(0), groups(0.3), strict=True):
        assert [one.response for one in group] == [one.response for one in without]
        replies = []
        for one in group:
            at = [place for place, weight in enumerate(one.advantages) if weight == 0.3 * 8]
            replies += [TOKENIZER.decode([one.response[place] for place in at])] * bool(at)
        assert len(replies) == len(states(without)) - 1
        assert all("turns left: " in reply for reply in replies)
        assert all(reply.count("<tool_response>") == 1 for reply in replies)
        assert all(reply.startswith("\n<|im_start|>user") for reply in replies)


def test_drills_repeat_short_excerpts() -> None:
    pages = [task.resume for task in TASKS]
    made = list(drills(CHAT, pages, 1))
    assert list(drills(CHAT, pages[:3], 1)) == made[:3]
    lengths = []
    drawn = [(one, page) for many, page in zip(made, pages, strict=True) for one in many]
    for one, page in drawn:
        half = len(one.response) // 2
        first, end, second = one.response[:half], one.response[half], one.response[half + 1 :]
        assert first == second
        assert (one.prompt, end) == ([CHAT.end], CHAT.end)
        assert f"{first}"[1:-1] in f"{CHAT.write(page)}"
        assert set(one.advantages[: half + 1]) == {0.1}
        assert set(one.advantages[half + 1 :]) == {1.0}
        lengths.append(half)
    assert (min(lengths), max(lengths)) == (16, 64)


def test_the_turns_before_a_demonstration_have_slips() -> None:
    sessions = [Session(task, RULES) for task in TASKS]
    list(demonstrations(CHAT, sessions, apprentice, 1, 0))
    errors = [step.error != "none" for one in sessions for _, step in one.state.transcript]
    assert 0.05 < sum(errors) / len(errors) < 0.25
