import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from resume_gym import Session
from resume_gym.evaluation.comparison import compare, holm, intervals, signed_rank, statistics_of
from resume_gym.evaluation.contest import Entry
from resume_gym.evaluation.progress import Bar, progress
from resume_gym.evaluation.records import Episode
from resume_gym.evaluation.summary import summarise
from resume_gym.evaluation.table import comparison_table, markdown, sections

BLANK = Episode(
    "a", "too_long", 0.0, 50.0, dict.fromkeys(Session.terms, 0.0),
    turns=4, edits=1, failed_edits=0, malformed=0, submitted=True, lines=50, fits=True,
    judged=True, verdict={"clarity": 0.0}, words=10,
)  # fmt: skip


def played(**rewards: list[float]) -> list[Episode]:
    """Episodes with these rewards, by task."""
    return [
        replace(BLANK, task_id=task, reward=one, ledger={**BLANK.ledger, "edit": one})
        for task, some in rewards.items()
        for one in some
    ]


def test_variance_is_split_within_and_between_tasks():
    found = statistics_of(played(a=[1, 3], b=[5, 5], c=[0, 0]))
    assert found.within_sd == pytest.approx(2**0.5 / 3), "mean over tasks"
    assert found.between_sd == pytest.approx((38 / 9) ** 0.5)
    once = statistics_of(played(a=[1], b=[2]))
    assert once.within_sd is None


def test_rounding_is_not_a_difference():
    tenths, more = played(a=[0.1] * 3, b=[1]), played(a=[0.1, 0.2, 0.0], b=[1])
    assert sum(one.reward for one in more[:3]) / 3 != 0.1
    (one,) = compare({"x": tenths, "y": more})
    assert (one.wins, one.ties, one.losses) == (0, 2, 0)


def test_agents_are_compared_on_the_tasks_that_they_share():
    first = played(a=[0, 2], b=[1], c=[1], d=[4], e=[1], f=[0], only=[100])
    second = played(a=[2], b=[3], c=[5], d=[4, 6], e=[3], f=[1.5], other=[-100])
    (one,) = compare({"first": first, "second": second})
    reward = one.figures["reward"]
    assert (one.first, one.second, one.tasks) == ("first", "second", 6)
    assert (one.wins, one.ties, one.losses) == (6, 0, 0)
    assert reward.mean == pytest.approx((1 + 2 + 4 + 1 + 2 + 1.5) / 6)
    assert reward.p == pytest.approx(2 / 2**6), "all six signs the same, exactly"
    assert reward.p_holm == reward.p, "the only pair"
    assert reward.interval is not None
    assert 1 <= reward.interval[0] < reward.mean < reward.interval[1] <= 4
    assert one.figures["tool_syntax"] == reward, "all of it came from edits"
    assert one.figures["words"].mean == 0.0
    assert one.figures["words"].interval == (0.0, 0.0)
    assert one.figures["words"].p == 1.0
    assert one.figures["verdict_clarity"].p == 1.0


def test_p_values_are_corrected_for_all_pairs():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    many = {f"n{n}": played(**{t: [n * (1 + ord(t) % 3)] for t in "abcdefgh"}) for n in range(3)}
    found = compare(many)
    assert [(one.first, one.second) for one in found] == [("n0", "n1"), ("n0", "n2"), ("n1", "n2")]
    for one in found:
        reward = one.figures["reward"]
        assert reward.p_holm == pytest.approx(3 * reward.p)


def test_the_bootstrap_is_skewed_where_the_values_are():
    values = [0.0] * 9 + [10.0]
    (found,) = intervals([values])
    assert found is not None
    low, high = found
    assert high - 1 > 1 - low, "a plain interval of mean and error would be symmetric"
    assert intervals([values]) == [found], "the same draws each time"
    assert intervals([[1.0]]) == [None]
    assert intervals([[2.0, 2.0], [1.0, 2.0]])[0] == (2.0, 2.0)


def test_the_signed_rank_test_looks_at_both_sides():
    up = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    assert signed_rank(up) == signed_rank([-one for one in up]) == pytest.approx(2 / 2**8)
    assert signed_rank([0.0, 0.0]) == 1.0
    assert signed_rank([1.0] * 3 + [0.0] * 37) == 2 / 2**3, "exact, however many ties there are"


@pytest.mark.parametrize(
    ("terminal", "kind", "moves"),
    [(True, "xterm", True), (True, "dumb", False), (False, "xterm", False)],
)
def test_a_person_sees_the_means_so_far(monkeypatch, terminal, kind, moves):
    monkeypatch.setattr("resume_gym.evaluation.progress._LINE_S", 0)
    monkeypatch.setenv("TERM", kind)
    console = Console(width=100, file=StringIO(), force_terminal=terminal)
    entry = Entry("[a]", "careful", lambda: None, left=dict.fromkeys((n, "a") for n in range(4)))
    with progress(console) as bars:
        bar = Bar(bars, entry)
        entry.failures[0, "b"] = "no answer"
        bar.update()
        for n, one in enumerate(played(a=[1, 4])):
            entry.episodes[n, "a"] = one
            bar.update()
    shown = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    means = "reward 2.50, submitted 100%, 1 without a reward"
    if moves:
        assert re.search(rf"\[a\] .* 3/4 .*{means}", shown)
    else:
        lines = shown.splitlines()
        assert lines[0] == "[a]: 1 of 4 episodes, 1 without a reward"
        assert lines[2] == f"[a]: 3 of 4 episodes, {means}"


def test_tables_show_confidence():
    agents = {"a|b": played(a=[1, 2], b=[1], c=[1]), "[y]": played(a=[2], b=[3], c=[4])}
    summaries = {name: summarise(some) for name, some in agents.items()}
    statistics = {name: statistics_of(some) for name, some in agents.items()}
    statistics["[y]"] = replace(statistics["[y]"], failed=2)
    rows = {
        label: cells
        for _, some in sections(summaries, statistics, details=True)
        for label, cells in some.items()
    }
    assert rows["sd within a task"] == ["0.71", "-"]
    assert rows["without a reward"] == ["0", "2"]
    assert rows["words an episode"] == ["10", "10"]
    pairs = compare(agents)
    text = markdown(summaries, statistics, pairs)
    lines = text.split("\n")
    assert lines[0] == "|  | a\\|b | [y] |"
    assert lines[1] == "| --- | ---: | ---: |"
    assert "| mean | 1.17 | 3.00 |" in lines
    assert any(line.startswith("| [y] - a\\|b | +1.83 |") for line in lines)
    assert {line.count("|") - line.count("\\|") for line in lines if line.startswith("|")} == {4, 7}
    assert "Wilcoxon" in text
    fewer = markdown(summaries, statistics, [replace(pairs[0], tasks=2)])
    assert "| [y] - a\\|b, on 2 of 3 tasks | +1.83 |" in fewer
    console = Console(width=100, file=StringIO())
    console.print(comparison_table(pairs))
    shown = console.file.getvalue()
    assert "[y] - a|b" in shown
    assert "3/0/0" in shown
    narrow = Console(width=60, file=StringIO())
    narrow.print(comparison_table([replace(pairs[0], second="a-name-of-so-many-letters")]))
    assert "3/0/0" in narrow.file.getvalue()
    assert "\u2026" not in narrow.file.getvalue()


def test_a_value_that_rounds_to_zero_has_no_sign():
    played_a = played(a=[0, 0], b=[0, 0], c=[0, 0], d=[0, 0])
    agents = {"a": played_a, "b": [replace(one, reward=-0.001) for one in played_a]}
    summaries = {name: summarise(some) for name, some in agents.items()}
    statistics = {name: statistics_of(some) for name, some in agents.items()}
    text = markdown(summaries, statistics, compare(agents))
    assert "| mean | 0.00 | 0.00 |" in text
    assert "| b - a | +0.00 | 0.00 to 0.00 |" in text
    assert "-0.00" not in text
