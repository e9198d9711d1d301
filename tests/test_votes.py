"""Several verdicts of one judge: the median, and what it takes to have one."""

import asyncio
from itertools import product
from typing import Any

import pytest
from fake_judges import MODEL, fake, revision, verdict
from hypothesis import given
from hypothesis import strategies as st
from model_answers import FakeAsks, checked, compared

from resume_gym.episode.rewards import GRADED_FIELDS, VERDICT_FIELDS, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import (
    Judge,
    JudgeMalformed,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeUnavailable,
    make_judge,
)
from resume_gym.judges.prompt import COMPARISON
from resume_gym.judges.votes import count

Cast = Verdict | Exception


def voting(*cast: Cast, **options: Any) -> Judge:
    """A vote in which draw n says the n-th of these."""

    def says(task: Task, revised: str, draw: int) -> Verdict:
        one = cast[draw]
        if isinstance(one, Exception):
            raise one
        return one

    return make_judge({"name": "votes", "judge": fake(says=says), "votes": len(cast), **options})


def test_each_field_is_the_median_of_the_draws(task: Task) -> None:
    said = voting(
        verdict(1, clarity=-1, hallucination=-1), verdict(0, clarity=-1), verdict(-1, clarity=1)
    ).judge(task, revision(0))
    assert {field: getattr(said, field) for field in VERDICT_FIELDS} == {
        **dict.fromkeys(GRADED_FIELDS, 0),
        "clarity": -1,
        "hallucination": 1,
    }


def test_confidence_is_the_share_that_agrees_and_the_reason_is_of_one_that_does(task: Task) -> None:
    said = voting(verdict(-1), verdict(1), verdict(1)).judge(task, revision(0))
    assert said.confidence == {
        **dict.fromkeys(GRADED_FIELDS, pytest.approx(2 / 3)),
        "hallucination": 1.0,
    }
    assert said.reasons["clarity"] == "clarity is 1"


def test_a_draw_of_votes_is_made_of_other_draws(task: Task) -> None:
    log: list[Any] = []
    judge = make_judge({"name": "votes", "judge": fake(log=log), "votes": 3})
    for draw in range(3):
        asyncio.run(judge.averdict(task, revision(0), draw=draw))  # type: ignore[attr-defined]
    assert [draw for _, draw in log] == list(range(9))


def test_a_judge_of_judges_adds_up_their_usage(task: Task) -> None:
    def model(dollars: float | None) -> dict[str, Any]:
        asks = FakeAsks(
            lambda p: compared(p.user) if p.kind == COMPARISON else checked(p.user), dollars
        )
        return {"name": MODEL, "asks": asks}

    votes = {"name": "votes", "judge": model(0.25), "votes": 3}
    tiers = {"name": "tiers", "local": [votes, "rubric"], "frontier": model(0.5), "audit": 1}
    judge: Any = make_judge({"name": "listwise", "judge": tiers, "ranks": "rubric"})
    judge.judge(task, revision(0))
    assert (judge.usage.calls, judge.usage.dollars) == (3 * 3 + 3, 0.75)
    assert judge.served == "fake-1"
    unknown: Any = make_judge({"name": "tiers", "local": votes, "frontier": model(None)})
    assert unknown.usage.dollars is None
    offline: Any = make_judge({"name": "listwise", "judge": "rubric"})
    assert (offline.usage, offline.served) == (None, "")


def test_a_missing_vote_does_not_matter_where_it_could_change_nothing(task: Task) -> None:
    gone = JudgeUnavailable("busy")
    said = voting(verdict(1), gone, verdict(1)).judge(task, revision(0))
    assert (said.preference, said.confidence["preference"]) == (1, pytest.approx(2 / 3))
    with pytest.raises(JudgeUnavailable, match=r"1 of 3 votes of 'fake' failed: busy"):
        voting(verdict(1), gone, verdict(1, clarity=0)).judge(task, revision(0))
    with pytest.raises(JudgeUnavailable, match="2 of 3"):
        voting(gone, verdict(0), gone).judge(task, revision(0))


@pytest.mark.parametrize(
    ("failures", "kind"),
    [
        ((JudgeRefused("no"), JudgeMalformed("what")), JudgeRefused),
        ((JudgeMalformed("what"), JudgeUnavailable("busy")), JudgeUnavailable),
        ((JudgeUnavailable("busy"), JudgeMisconfigured("no key")), JudgeMisconfigured),
        ((JudgeRefused("no"), KeyError("a bug")), KeyError),
    ],
)
def test_a_failure_says_what_to_do(
    task: Task, failures: tuple[Exception, ...], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        voting(*failures, verdict(1)).judge(task, revision(0))


def test_each_member_of_a_group_stands_alone(task: Task) -> None:
    def says(task: Task, revised: str, draw: int) -> Verdict:
        if revised == revision(1):
            raise JudgeRefused("no")
        return verdict(1)

    judge: Any = make_judge({"name": "votes", "judge": fake(says=says)})
    said = asyncio.run(judge.averdicts(task, [revision(number) for number in range(3)]))
    assert [isinstance(one, JudgeRefused) for one in said] == [False, True, False]


_VERDICTS = st.builds(
    verdict, st.sampled_from([-1, 0, 1]), hallucination=st.sampled_from([-1, 1]),
    clarity=st.sampled_from([-1, 0, 1]),
)  # fmt: skip


@given(st.lists(_VERDICTS, min_size=1, max_size=4), st.sampled_from([3, 5]))
def test_an_outcome_is_one_that_no_missing_vote_can_change(
    votes: list[Verdict], planned: int
) -> None:
    votes = votes[:planned]
    others = [verdict(-1, hallucination=-1), verdict(0), verdict(1)]
    outcomes = {
        tuple(getattr(whole, field) for field in VERDICT_FIELDS)
        for missing in product(others, repeat=planned - len(votes))
        if (whole := count([*votes, *missing], planned))
    }
    said = count(votes, planned)
    assert (said is not None) == (len(outcomes) == 1)
    if said:
        assert outcomes == {tuple(getattr(said, field) for field in VERDICT_FIELDS)}


def test_a_judge_without_draws_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a judge that samples.*'rubric' does not"):
        make_judge('{"name": "votes", "judge": "rubric"}')


@pytest.mark.parametrize("votes", [0, 2, -1, 3.0, "3", True, None])
def test_a_number_of_votes_is_odd(votes: Any) -> None:
    with pytest.raises(ValueError, match=r"votes: expected an odd number >= 1, got"):
        make_judge({"name": "votes", "judge": fake(), "votes": votes})


def test_a_draw_reaches_a_judge_of_groups(task: Task) -> None:
    def says(task: Task, revised: str, draw: int) -> Verdict:
        return verdict(sure=0.9 if revised == revision(1) else 0.1)

    log: list[Any] = []
    tiers = {"name": "tiers", "local": fake(says=says), "frontier": fake(log=log), "audit": 0}
    judge = make_judge({"name": "listwise", "judge": tiers, "ranks": "rubric"})
    assert judge.grouped
    # one member in doubt sends the other along
    asyncio.run(judge.averdicts(task, [revision(0), revision(1)], draw=5))
    asyncio.run(judge.averdict(task, revision(2), draw=6))
    assert sorted(log) == sorted([(revision(0), 5), (revision(1), 5), (revision(2), 6)])
