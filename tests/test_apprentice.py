"""The apprentice: each edit is clean, kinds have their shares, hints are followed."""

import re
from collections import Counter
from functools import cache
from random import Random

import pytest

from learners.demonstrations import renamed, shorter
from learners.editors import apprentice, edits_of_pages, hinted, samples
from learners.editors.edits import choose, first_line, repairs_of
from learners.editors.episodes import _worded, session_for
from learners.training.models import load_tokenizer
from resume_gym import Rules, Session, Task, ToolCall, load_tasks, parse, tool_call
from resume_gym.agents.edit_kinds import HARMFUL, USEFUL, USELESS, figures, kind_of
from resume_gym.episode.evidence import EvidenceSession
from resume_gym.episode.feedback import FeedbackSession

RULES = Rules(max_turns=6, page_lines=20)
TASKS = load_tasks("mini", "train")
TOKENIZER = load_tokenizer("nano")


def played(kind: type[Session], task: Task, seed: int, rules: Rules = RULES) -> Session:
    session, rng = kind(task, rules), Random(seed)
    while not session.done:
        session.step(apprentice(session, rng))
    return session


@cache
def episodes() -> tuple[Session, ...]:
    """An episode on every training task, half of them on renamed pages."""
    return tuple(
        played(Session, renamed(task, Random(n)) if n % 2 else task, n)
        for n, task in enumerate(TASKS)
    )


def edits(session: Session) -> list[tuple[str, str, str, str]]:
    """The page before each edit, old text, new text and observation."""
    replay, found = type(session)(session.task, session.rules), []
    for text, _ in session.state.transcript:
        call, before = session.toolbox.read(text), replay.resume
        reply = replay.step(text).observation
        if isinstance(call, ToolCall) and call.name == "str_replace":
            found.append((before, call.arguments["old"], call.arguments["new"], reply))
    return found


def test_each_edit_is_clean_and_of_a_known_kind() -> None:
    for session in episodes():
        assert {step.error for _, step in session.state.transcript} == {"none"}
        for before, old, new, _ in edits(session):
            assert before.count(old) == 1
            kind = kind_of(before, old, new, session.task)
            assert kind in (*USEFUL, *USELESS, *HARMFUL)
            assert kind != "figure", "without a search, no repair adds a figure"
            if not new:
                assert len(old.strip("\n")) <= (75 if kind in ("delete", "padding") else 160)
            elif f" {old.strip()}" in before and kind != "format":
                assert old.startswith((" ", "\n"))


def test_kinds_have_their_shares() -> None:
    kinds = Counter(
        kind_of(before, old, new, session.task)
        for session in episodes()
        for before, old, new, _ in edits(session)
    )
    total = kinds.total()
    assert 0.4 < sum(kinds[kind] for kind in USEFUL) / total < 0.6
    for kind in {*USEFUL, *USELESS, *HARMFUL} - {"figure"}:
        assert 0.03 < kinds[kind] / total < 0.3, kind


def test_edits_go_from_top_to_bottom_and_touch_each_line_once() -> None:
    for session in episodes():
        below = 0
        for before, old, _, reply in edits(session):
            first = before.count("\n", 0, before.index(old)) + len(old) - len(old.lstrip("\n"))
            assert first >= below
            here = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", reply)
            assert here
            below = int(here[1]) + max(0, int(here[2] or 1) - 1)


def test_reviews_and_submits_come_at_random_times() -> None:
    submitted = [session.state.submitted for session in episodes()]
    assert 0.6 < sum(submitted) / len(submitted) < 0.95
    lengths = Counter(session.turns for session in episodes())
    assert lengths.keys() >= {2, 3, 4, 5, 6}
    reviewed = [session.state.reviewed for session in episodes()]
    assert 0.6 < sum(reviewed) / len(reviewed) < 0.95


def test_lines_are_drawn_at_random() -> None:
    session = Session(TASKS[1], RULES)
    drawn = Counter(edit.line for seed in range(100) if (edit := choose(session, Random(seed))))
    assert len(drawn) >= 3
    assert drawn.most_common(1)[0][1] < 80


def test_deletions_are_of_good_and_of_spare_lines() -> None:
    kinds = Counter(
        kind_of(before, old, new, session.task)
        for session in episodes()
        for before, old, new, _ in edits(session)
        if not new and old.startswith("\n")
    )
    assert min(kinds["delete"], kinds["padding"]) > 0.25 * kinds.total()


def test_figures_are_copied_from_search_results() -> None:
    lacking = [task for task in TASKS if any(fix.needs_evidence for fix in task.fixes)]
    copied = 0
    for number, task in enumerate(lacking):
        session, rng, shown = EvidenceSession(_worded(task), RULES), Random(number), ""
        while not session.done:
            text, before = apprentice(session, rng), session.resume
            call = session.toolbox.read(text)
            assert isinstance(call, ToolCall)
            if call.name == "str_replace":
                old, new = call.arguments["old"], call.arguments["new"]
                if kind_of(before, old, new, session.task) == "figure":
                    assert figures(new) - figures(old) <= figures(shown)
                    copied += 1
            step = session.step(text)
            assert step.error == "none"
            shown = step.observation
    assert copied > len(lacking) / 4


def test_feedback_is_asked_for_and_used() -> None:
    used = asked = 0
    for number, task in enumerate(TASKS[:40]):
        session = played(FeedbackSession, task, number)
        names = [session.toolbox.read(text) for text, _ in session.state.transcript]
        asked += sum(isinstance(one, ToolCall) and one.name == "feedback" for one in names)
        for (text, step), (after, _) in zip(
            session.state.transcript, session.state.transcript[1:], strict=False
        ):
            if "feedback" in text and (call := session.toolbox.read(after)):
                quoted = re.findall(r'"([^"]+)"', step.observation)
                old = call.arguments.get("old", "") if isinstance(call, ToolCall) else ""
                used += any(old.strip(" \n-")[:20] in quote for quote in quoted) and bool(old)
    assert used > asked / 5 > 2


def test_sessions_have_the_tools_of_all_environments() -> None:
    kinds = Counter(type(session_for(task, RULES, Random(n))) for n, task in enumerate(TASKS))
    assert kinds[Session] > kinds[EvidenceSession] > 0.06 * kinds.total()
    assert kinds[FeedbackSession] > 0.02 * kinds.total()


def hints_of(session: Session, count: int, intended: str = "") -> list[tuple[str, str]]:
    found = (hinted(session, Random(f"{session.task.task_id}:{n}"), intended) for n in range(count))
    return [one for one in found if one]


def test_hints_come_in_all_kinds_and_are_followed() -> None:
    foreign = total = 0
    for task in TASKS[:40]:
        session = Session(task, RULES)
        repairs = [one for many in repairs_of(task.resume, task).values() for one in many]
        for hint, call in hints_of(session, 12):
            assert hint.startswith("Hint: ")
            assert task.resume not in hint
            told = parse(call)
            assert isinstance(told, ToolCall)
            total += 1
            quoted = [one.removesuffix("...") for one in re.findall(r'"([^"]*)"', hint)]
            if any(quote not in task.resume for quote in quoted):
                foreign += 1
                continue
            if told.name == "str_replace":
                old, new = told.arguments["old"], told.arguments["new"]
                assert task.resume.count(old) == 1
                if not re.search("good|as it is|Nothing is wrong|no edit", hint):
                    assert any((one.old, one.new) == (old, new) for one in repairs)
    assert 0.03 < foreign / total < 0.2


def test_a_hint_that_a_line_is_good_keeps_the_apprentice_off_it() -> None:
    seen = 0
    for task in TASKS[:30]:
        for hint, call in hints_of(Session(task, RULES), 12):
            found = re.search(r'"([^"]*)"', hint)
            told = parse(call)
            if found and re.search("good|as it is|Nothing is wrong|no edit", hint):
                line = found[1].removesuffix("...")
                if line in task.resume and isinstance(told, ToolCall):
                    old, new = told.arguments.get("old", ""), told.arguments.get("new", "")
                    assert not old or line in task.resume.replace(old, new)
                    seen += 1
    assert seen > 30


def test_a_failed_call_is_made_again_without_its_fault() -> None:
    session = Session(TASKS[0], RULES)
    edit = choose(session, Random(0))
    assert edit
    session.step(tool_call("str_replace", old=f"{edit.old}x", new=edit.new))
    found = hints_of(session, 40, edit.call)
    failed = [(hint, call) for hint, call in found if "not_found" in hint]
    assert len(failed) > 20
    assert {call for _, call in failed} == {edit.call}


def test_an_invention_is_taken_back_after_a_hint() -> None:
    lines = ((task, line) for task in TASKS for line in task.resume.split("\n"))
    task, line = next(one for one in lines if re.match(r"- .*[a-z]$", one[1]))
    session = Session(task, RULES)
    session.step(tool_call("str_replace", old=line, new=f"{line}, saving 40 hours a week"))
    pairs = [hinted(session, Random(n)) for n in range(40)]
    undone = [one for one in pairs if one and "40 hours" in one.hint]
    assert undone
    for one in undone:
        old, new = _texts(one.call)
        assert session.resume.replace(old, new) == task.resume


def _texts(call: str) -> tuple[str, str]:
    found = parse(call)
    assert isinstance(found, ToolCall)
    return found.arguments["old"], found.arguments["new"]


def test_first_line_is_below_the_last_edit() -> None:
    task = next(one for one in TASKS if one.weakness == "too_long")
    session = Session(task, RULES)
    assert first_line(session) == 0
    fix = next(fix for fix in task.fixes if fix.old.startswith("\n- ") and fix.old.count("\n") == 1)
    line = task.resume[: task.resume.index(fix.old)].count("\n") + 1
    session.step(tool_call("str_replace", old=fix.old, new=""))
    assert first_line(session) == line
    session.step(tool_call("review"))
    assert first_line(session) == line


@pytest.mark.parametrize("number", range(3))
def test_a_quarter_of_the_samples_have_a_hint_as_the_last_words_before_the_call(
    number: int,
) -> None:
    hinted_turns = turns = 0.0
    for task in TASKS[number * 12 : number * 12 + 12]:
        short = shorter(task, Random(0))
        session = session_for(short, RULES, Random(f"{number}:{short.task_id}"))
        for group in samples("apprentice", TOKENIZER, session, 4, 0.0, f"{number}"):
            for one in group:
                text = TOKENIZER.decode((one.prompt + one.response)[: -one.turns[-1]])
                weight = one.advantages[-1]
                turns += weight
                if "\nHint: " in text:
                    assert text.count("\nHint: ") == 1, "hints do not stay in the context"
                    after = text.rpartition("\nHint: ")[2]
                    assert "turns left" not in after
                    hinted_turns += weight
    assert 0.17 < hinted_turns / turns < 0.33


def test_edits_of_a_page_quote_it_once_as_earlier_edits_left_it() -> None:
    numbers, kinds, earlier = range(20), set(), set()
    for samples_of_page in edits_of_pages("apprentice", numbers, 3, "mini", "nano"):
        assert len({tuple(sample.prompt) for sample in samples_of_page}) == 1
        for sample in samples_of_page:
            page, turns = TOKENIZER.decode(sample.prompt), TOKENIZER.decode(sample.response)
            *before, last = turns.split("<|im_start|>assistant\n")
            earlier.add(len(before))
            for turn in before:
                match parse(turn.partition("<|im_end|>")[0]):
                    case ToolCall("str_replace", {"old": old, "new": new}) if page.count(old) == 1:
                        page = page.replace(old, new)
            call = parse(last.removesuffix("<|im_end|>"))
            assert isinstance(call, ToolCall)
            assert page.count(call.arguments["old"]) == 1
            assert sum(weight > 0 for weight in sample.advantages) == sample.turns[-1]
            kinds.add(bool(call.arguments["new"]))
    assert kinds == {True, False}
    assert {0, 1, 2, 3} <= earlier <= set(range(6))


def test_a_useless_or_invented_edit_quotes_the_word_before_it() -> None:
    for task in TASKS:
        session, rng = Session(task, RULES), Random(0)
        for _ in range(20):
            edit = choose(session, rng, repairs=0)
            if edit and edit.kind == "swap":
                assert len(edit.old.split()) > 1
