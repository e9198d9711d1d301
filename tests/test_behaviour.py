import re
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from learners.nano.hasty_editor import HASTY, act, estrange
from resume_gym import Rules, Session, ToolCall, load_tasks, parse
from resume_gym.agents.wording import weak_head

RULES = Rules(max_turns=6, page_lines=20)
TASKS = load_tasks("mini", "train")
NEVER = {"submit": 0.0, "stop": 0.0, "misquote": 0.0, "fumble": 0.0}
HONEST = replace(HASTY, **NEVER, invent=0.0)


@cache
def episodes(habits: str = "hasty", each: int = 3) -> tuple[Session, ...]:
    """`each` episodes on every task."""
    played = []
    for number in range(each):
        for task in TASKS:
            session, rng = Session(task, RULES), Random(f"{number}:{task.task_id}")
            while not session.done:
                session.step(act(session, rng, HONEST if habits == "honest" else HASTY))
            played.append(session)
    return tuple(played)


def share(hits: int, of: int) -> float:
    assert of > 200, "too few for a rate"
    return hits / of


def test_an_honest_edits_quote_occurs_once() -> None:
    edits = 0
    for session in episodes("honest", 1):
        again = Session(session.task, RULES)
        for text, step in session.state.transcript:
            call = parse(text)
            assert isinstance(call, ToolCall)
            if call.name == "str_replace":
                edits += 1
                assert again.resume.count(call.arguments["old"]) == 1
                assert call.arguments["new"] != call.arguments["old"]
            assert step.error == "none"
            again.step(text)
    assert edits > 500


def test_honest_edits_do_all_that_the_habits_name() -> None:
    """Deletions, edits at the head of a bullet, and edits that keep its words."""
    calls = [parse(text) for one in episodes("honest", 1) for text, _ in one.state.transcript]
    edits = [one for one in calls if isinstance(one, ToolCall) and one.name == "str_replace"]
    assert any(not one.arguments["new"] for one in edits)
    assert any(one.arguments["old"][:2] == one.arguments["new"][:2] == "- " for one in edits)
    assert any(
        one.arguments["old"][0] in "*+" and one.arguments["new"][0] == "-"
        for one in edits
        if one.arguments["new"]
    )


def test_rates_are_those_of_the_habits() -> None:
    played = episodes()
    texts = [[text for text, _ in one.state.transcript] for one in played]
    reviews = sum('"review"' in one[0] for one in texts)
    assert share(reviews, len(played)) == pytest.approx(HASTY.review, abs=0.07)
    assert not any('"review"' in text for one in texts for text in one[1:])

    early = [text for one in texts for text in one[1:5]]
    assert 0.02 < share(sum('"submit"' in one for one in early), len(early)) < HASTY.stop / 2
    last = [one[5] for one in texts if len(one) == 6]
    assert share(sum('"submit"' in one for one in last), len(last)) == pytest.approx(
        HASTY.submit, abs=0.07
    )

    edits = sum(one.state.edits + one.state.failed_edits for one in played)
    failed = sum(one.state.failed_edits for one in played)
    assert HASTY.misquote < share(failed, edits) < HASTY.fumble


def test_only_the_form_of_a_call_is_never_wrong() -> None:
    errors = {step.error for one in episodes() for _, step in one.state.transcript}
    assert errors == {"none", "not_found", "ambiguous"}


def test_figures_are_invented() -> None:
    """An edit that adds a figure to a bullet which had none."""
    calls = [parse(text) for one in episodes() for text, _ in one.state.transcript]
    edits = [one for one in calls if isinstance(one, ToolCall) and one.name == "str_replace"]
    added = [
        one
        for one in edits
        if set("0123456789") & set(one.arguments["new"]) - set(one.arguments["old"])
    ]
    assert 0.02 < share(len(added), len(edits)) < 0.5


def test_all_draws_come_from_the_generator() -> None:
    def texts(seed: int) -> list[str]:
        session, rng = Session(TASKS[3], RULES), Random(seed)
        while not session.done:
            session.step(act(session, rng))
        return [text for text, _ in session.state.transcript]

    assert texts(1) == texts(1)
    assert len({tuple(texts(seed)) for seed in range(20)}) > 10


def test_an_empty_page_does_not_end_the_episode() -> None:
    """A resume that was deleted line by line still gets turns."""
    cutter = replace(HASTY, review=0.0, **NEVER, kinds={"cut": 1})
    session = Session(TASKS[0], Rules(max_turns=60, page_lines=1))
    rng = Random(0)
    while not session.done:
        session.step(act(session, rng, cutter))
    assert session.state.turns == 60


def test_strange_bullets_keep_their_weak_heads_and_figures() -> None:
    heads = changed = 0
    for task in TASKS:
        strange = estrange(task.resume, Random(task.task_id))
        assert strange == estrange(task.resume, Random(task.task_id))
        for line, other in zip(task.resume.split("\n"), strange.split("\n"), strict=True):
            if line[:2] not in ("- ", "* ", "+ "):
                assert other == line
                continue
            assert re.findall(r"\d+", other) == re.findall(r"\d+", line)
            hedge = weak_head(line[2:])[0].rpartition(" ")[0]  # the verb is another
            assert other[2:].startswith(hedge)
            heads += bool(hedge)
            changed += other != line
    assert heads > 100
    assert changed > 500


def test_strange_pages_get_honest_edits_too() -> None:
    task = TASKS[1]
    strange = replace(task, resume=estrange(task.resume, Random(0)), fixes=())
    session, rng = Session(strange, RULES), Random(0)
    while not session.done:
        session.step(act(session, rng, HONEST))
    assert session.state.edits == 5
