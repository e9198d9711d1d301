import asyncio
import dataclasses
import json
import re
from functools import partial
from io import StringIO
from itertools import combinations
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from resume_gym import WEAKNESSES, Rules, Session, Task, Verdict, load_tasks, tool_call
from resume_gym.agents import make_agent
from resume_gym.evaluation import Episode, Summary, evaluate, play, summarise, table
from resume_gym.evaluation.comparison import compare, statistics_of
from resume_gym.evaluation.estimator import best_of, deviation, mean
from resume_gym.evaluation.table import sections
from resume_gym.judges import AsyncJudge, JudgeError, make_judge

TASKS = load_tasks("procedural:5:12", "eval")
GOOD = Verdict(1, 1, 0, 1, 1, 1)


class Fixed:
    """A judge with one verdict, or a failure; it counts how often it is asked."""

    name = "fixed"

    def __init__(self, verdict: Verdict | JudgeError = GOOD) -> None:
        self.verdict = verdict
        self.asked = 0

    def judge(self, task: Task, revised: str) -> Verdict:
        self.asked += 1
        if isinstance(self.verdict, JudgeError):
            raise self.verdict
        return self.verdict


def run(name, tasks=TASKS, rules=None, judge=None, rollouts=1, seed=0):
    return evaluate(
        partial(make_agent, name), tasks, rules or Rules(), judge or Fixed(), rollouts, seed
    )


def act(*texts: str):
    """An agent that plays these texts."""
    return lambda session: texts[session.state.turns]


def test_noop_is_graded_by_the_tables_alone():
    judge = Fixed()
    for episode in run("noop", judge=judge):
        layout = -1.0 if episode.weakness == "too_long" else 1.0
        assert episode.reward == 1.0 + layout - 1.0 - 0.25
        assert not episode.judged
        assert episode.fits is (layout > 0)
    assert judge.asked == 0
    assert summarise(run("noop")).unjudged == len(TASKS)


def test_an_episode_contains_the_results_of_its_session():
    task = TASKS[0]
    line = task.resume.split("\n")[0]
    edit = tool_call("str_replace", old=line, new=line + " II")
    agent = act("hm", edit, tool_call("str_replace", old="nowhere", new=""), tool_call("submit"))
    session = play(agent, Session(task))
    session.grade(GOOD)
    episode = Episode.of(session)
    assert episode.reward == session.reward == sum(episode.ledger.values())
    assert episode.score == session.score
    assert (episode.turns, episode.edits, episode.failed_edits, episode.malformed) == (4, 1, 1, 1)
    assert (episode.submitted, episode.fits, episode.judged) == (True, True, True)
    assert episode.lines == session.state.document.lines
    assert episode.words == sum(len(text.split()) for text, _ in session.state.transcript)
    assert episode.ledger.keys() == set(Session.terms)
    assert json.loads(json.dumps(dataclasses.asdict(episode)))["task_id"] == task.task_id


def test_several_calls_in_a_turn_are_counted_apart():
    both = tool_call("review") + tool_call("submit")
    session = play(act("hm", both, both, tool_call("submit")), Session(TASKS[0]))
    episode = Episode.of(session)
    assert (episode.malformed, episode.several_calls) == (3, 2)
    summary = summarise([episode])
    assert (summary.several_calls, summary.turns) == (2, 4)


def test_errors_are_over_tasks_not_episodes():
    (one,) = run("noop", TASKS[:1])
    rewards = {"a": (1.0, 3.0), "b": (4.0, 4.0), "c": (6.0, 6.0)}
    played = [
        dataclasses.replace(one, task_id=task, weakness="ab" if task < "c" else "c", reward=reward)
        for task, own in rewards.items()
        for reward in own
    ]
    summary = summarise(played)
    assert summary.errors["reward"] == pytest.approx(2 * 2 / 3**0.5)
    assert summary.errors["by_weakness.ab"] == pytest.approx(2 * 2**0.5 / 2**0.5)
    assert "by_weakness.c" not in summary.errors, "it has one task"
    assert summary.tasks_by_weakness == {"ab": 2, "c": 1}
    assert Summary(**json.loads(json.dumps(dataclasses.asdict(summary)))) == summary
    (cells,) = sections({"x": summary}, errors=True)[0].rows["mean"]
    assert cells == "4.00 ± 2.31"


def test_each_task_counts_once_however_many_episodes_have_a_reward():
    (one,) = run("noop", TASKS[:1])
    lost = dataclasses.replace(one, ledger={**one.ledger, "layout": -1.0}, reward=-1.0, fits=False)
    kept = dataclasses.replace(one, ledger={**one.ledger, "layout": 1.0}, reward=1.0, fits=True)
    kept = dataclasses.replace(kept, task_id="other", weakness="weak_verbs", items={"13 TB": 1})
    whole, part = [lost] * 3 + [kept] * 3, [lost] * 3 + [kept]
    for played in (whole, part):
        summary = summarise(played)
        assert (summary.reward, summary.layout, summary.layout_pass_rate) == (0.0, 0.0, 0.5)
        assert summary.by_weakness == {lost.weakness: -1.0, "weak_verbs": 1.0}
        assert (summary.reward_sd, summary.errors["reward"]) == (1.0, 2.0)
        assert summary.items == {"13 TB": 1.0}, "of the only task that has it"
    assert summary.episodes == 4
    (same,) = compare({"whole": whole, "part": part})
    assert {figure.mean for figure in same.figures.values()} == {0.0}


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40), st.integers(1, 4))
def test_equal_numbers_of_episodes_give_the_plain_mean_to_the_last_bit(values, rollouts):
    tasks = {str(n): values[n::rollouts] for n in range(rollouts)}
    equal = {name: own[: len(values) // rollouts] for name, own in tasks.items()}
    every = [value for own in equal.values() for value in own]
    if every:
        assert mean(equal) == fmean(every)
        assert deviation(equal) == pytest.approx(pstdev(every), rel=1e-12, abs=1e-9)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8), st.data())
def test_best_of_k_is_the_mean_of_the_best_over_all_subsets(values, data):
    k = data.draw(st.integers(1, len(values)))
    every = [max(some) for some in combinations(values, k)]
    assert best_of(values, k) == pytest.approx(fmean(every), abs=1e-9)


def test_best_of_k_of_many_episodes():
    values = [float(n) for n in range(64)]
    for k in (1, 4, 32, 64):
        assert best_of(values, k) == pytest.approx(k * 65 / (k + 1) - 1, rel=1e-14)
    for k in (0, 65):
        with pytest.raises(ValueError, match=f"k: expected 1 to 64, .*; got {k}"):
            best_of(values, k)


def test_a_task_with_fewer_than_k_episodes_is_left_out_of_best_of_k():
    (one,) = run("noop", TASKS[:1])
    rewards = {"a": (1.0, 3.0), "b": (4.0, 6.0), "c": (-6.0,)}
    played = [
        dataclasses.replace(one, task_id=task, reward=reward)
        for task, own in rewards.items()
        for reward in own
    ]
    summary = summarise(played, best_of=(1, 2, 3))
    assert summary.best_of == {"1": summary.reward, "2": 4.5}
    assert summary.tasks_by_best_of == {"1": 3, "2": 2, "3": 0}
    assert summary.errors["best_of.1"] == pytest.approx(summary.errors["reward"])
    assert summary.errors["best_of.2"] == pytest.approx(3.0)
    assert Summary(**json.loads(json.dumps(dataclasses.asdict(summary)))) == summary
    found = sections({"x": summary}, {"x": statistics_of(played)}, errors=True)
    rows = {label: cells for _, some in found for label, cells in some.items()}
    assert [rows[f"best of {k}"] for k in (2, 3)] == [["4.50 ± 3.00"], ["-"]]
    assert "tasks, best of 1" not in rows
    assert [rows[f"tasks, best of {k}"] for k in (2, 3)] == [["2 of 3"], ["0 of 3"]]


def test_only_graded_episodes_count():
    session = Session(TASKS[0])
    with pytest.raises(ValueError, match=r"5-000000: .*this one still runs"):
        Episode.of(session)
    line = TASKS[0].resume.split("\n")[0]
    session.step(tool_call("str_replace", old=line, new="# Nobody"))
    session.step(tool_call("submit"))
    with pytest.raises(ValueError, match="waits for its verdict"):
        Episode.of(session)


def test_a_judge_failure_is_never_a_number():
    with pytest.raises(JudgeError, match="no answer"):
        run("careful", judge=Fixed(JudgeError("no answer")))


def test_the_seed_gives_the_episodes():
    assert run("random", rollouts=2) == run("random", rollouts=2)
    assert run("random") != run("random", seed=1)
    first, second = run("random", rollouts=2)[:12], run("random", rollouts=2)[12:]
    assert first != second
    assert [one.task_id for one in first] == [task.task_id for task in TASKS]


def test_summary_of_hand_made_episodes():
    terms = dict.fromkeys(Session.terms, 0.0)
    base = Episode(
        "a", "too_long", 2.0, 60.0, {**terms, "submit": 1.0, "hallucination": 1.0},
        turns=4, edits=3, failed_edits=1, malformed=0, submitted=True, lines=50, fits=True,
        judged=True, verdict={"hallucination": 1.0, "clarity": 0.0},
    )  # fmt: skip
    other = dataclasses.replace(
        base, task_id="b", weakness="weak_verbs", reward=-2.0, score=20.0,
        ledger={**terms, "no_submit": -1.0, "layout": -1.0, "hallucination": -1.0, "clarity": 0.25},
        edits=0, failed_edits=2, malformed=1, submitted=False, fits=False, judged=False,
        verdict={"hallucination": -1.0, "clarity": 1.0},
    )  # fmt: skip
    summary = summarise([base, other, base, other])
    assert (summary.episodes, summary.tasks, summary.unjudged) == (4, 2, 2)
    assert (summary.reward, summary.reward_sd, summary.score) == (0.0, 2.0, 40.0)
    assert (summary.tool_syntax, summary.layout, summary.content) == (0.0, -0.5, 0.125)
    assert (summary.submit_rate, summary.layout_pass_rate) == (0.5, 0.5)
    assert (summary.edits, summary.failed_edits, summary.malformed) == (1.5, 1.5, 0.5)
    assert summary.failed_share == 0.5
    assert summary.verdict["hallucination"] == 0.0
    assert summary.verdict["clarity"] == 0.5
    assert summary.by_weakness == {"too_long": 2.0, "weak_verbs": -2.0}


def test_table_sets_summaries_side_by_side():
    console = Console(width=80, file=StringIO())
    verbs = [task for task in TASKS if task.weakness == "weak_verbs"]
    console.print(
        table({"[before]": summarise(run("noop")), "after": summarise(run("oracle", verbs))})
    )
    lines = console.file.getvalue().split("\n")
    assert lines[0].split() == ["[before]", "after"]
    rows = {name: figures for name, *figures in (re.split(" {2,}", one.strip()) for one in lines)}
    assert rows["mean"] == ["0.42", "7.75"]
    assert rows["too_long"] == ["-1.25", "-"]
    assert rows["submitted"] == ["100%", "100%"]
    assert rows["played"] == ["12", "2"]
    assert rows.keys() >= {*WEAKNESSES, "hallucination", "edits that failed"}


def test_details_and_the_floor_are_shown_on_demand():
    played = run("noop")
    one = {"noop": summarise(played)}
    floor = {episode.task_id: 4.5 for episode in played}
    statistics = {"noop": statistics_of(played, floor={**floor, "not played": 0.0})}
    short, whole = (
        {label: cells for _, rows in sections(one, **more) for label, cells in rows.items()}
        for more in ({}, {"details": True, "statistics": statistics})
    )
    assert [*short][-4:] == ["submitted", "edits that failed", "fits the page", "played"]
    assert short.items() < whole.items()
    assert whole["floor (swapped words)"] == ["4.50"]
    assert whole["words an episode"] == ["6"]


def test_episodes_are_played_also_where_an_event_loop_runs():
    async def beside():
        return run("noop")

    assert asyncio.run(beside()) == run("noop")


MINI = Rules(max_turns=6, page_lines=20)


@pytest.mark.parametrize(
    ("source", "rules", "name", "least"),
    [
        ("default", Rules(), "oracle", 7.0),
        ("mini", MINI, "careful", 5.5),
    ],
)
def test_good_editing_pays_on_the_bundled_tasks(source, rules, name, least):
    summary = summarise(run(name, load_tasks(source, "eval"), rules, make_judge("rubric")))
    assert summary.reward >= least
    if name == "oracle":  # careful leaves some pages alone, which counts as -1
        assert summary.verdict["hallucination"] >= 0.95
    # careful leaves a page too long if nothing on it is padding
    assert summary.layout_pass_rate >= (1.0 if name == "oracle" else 0.9)
    assert summary.submit_rate == 1.0
    assert summary.failed_edits == 0.0
    assert summary.by_weakness.keys() == set(WEAKNESSES)


def test_chance_and_idleness_do_not_pay_on_the_bundled_tasks():
    tasks, judge = load_tasks("mini", "eval"), make_judge("rubric")
    assert summarise(run("random", tasks, MINI, judge)).reward < 1.0
    for episode in run("noop", tasks, MINI, judge):
        assert episode.reward == (-1.25 if episode.weakness == "too_long" else 0.75)


class Together(AsyncJudge):
    """A judge that answers nobody until all have asked."""

    name = "together"

    def __init__(self, asks: int, says: Verdict | JudgeError = GOOD) -> None:
        self.barrier = asyncio.Barrier(asks)
        self.says = says

    async def averdict(self, task: Task, revised: str) -> Verdict:
        await self.barrier.wait()
        if isinstance(self.says, JudgeError):
            raise self.says
        return self.says


def test_an_async_judge_is_asked_concurrently():
    episodes = run("careful", judge=Together(2 * len(TASKS)), rollouts=2)
    assert episodes == run("careful", rollouts=2), "the same, and in order"
    with pytest.raises(JudgeError, match="gone"):
        run("careful", judge=Together(len(TASKS), JudgeError("gone")))
