"""Scores of groups in training: a centred reward term, which evaluations and environments lack."""

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from conftest import BEST
from scripted import EDIT, SUBMIT, FixedJudge, Scripted
from test_orchestrator import batch, make, says

from learners.aipo import credit
from learners.config import Config
from learners.rollouts.batch import Batch
from learners.rollouts.trajectories import Trajectories
from resume_gym import Task, Verdict, tool_call
from resume_gym.episode.tasks import repaired
from resume_gym.judges import (
    AsyncJudge,
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeUnavailable,
    Score,
    group_weight,
    make_judge,
)

Scores = Callable[[Sequence[str]], Sequence[Any]]
OTHER = tool_call("str_replace", old="Helped build", new="Wrote the whole of")


def by_length(group: Sequence[str]) -> list[float]:
    return [float(len(text)) for text in group]


class Scoring(FixedJudge):
    """Equal verdicts for all, and scores of a group by a function; remembers the groups."""

    def __init__(self, scores: Scores = by_length, weight: float = 0.5) -> None:
        super().__init__()
        self.scores, self.group_weight = scores, weight
        self.groups: list[list[str]] = []

    async def judge_group(self, task: Task, group: Sequence[str]) -> Sequence[Score]:
        self.groups.append([*group])
        return self.scores(group)


class Waiting(AsyncJudge):
    name = "waiting"
    group_weight = 0.5

    async def averdict(self, task: Task, revised: str) -> Verdict:
        return BEST

    async def judge_group(self, task: Task, group: Sequence[str]) -> Sequence[Score]:
        return by_length(group)


def mixed() -> Scripted:
    """A group of four: two edits of different length, the second again, and no edit at all."""
    scripts = [(EDIT, SUBMIT), (OTHER, SUBMIT), (OTHER, SUBMIT), (SUBMIT,)]
    return Scripted(lambda key: scripts[key % 4])


def terms(one: Batch) -> list[float | None]:
    return [rollout.comparison for rollout in one.rollouts]


@pytest.mark.parametrize("waits", [False, True])
def test_the_term_is_the_weighted_score_less_the_mean_of_the_group(waits: bool) -> None:
    one = batch(make(mixed(), Waiting() if waits else Scoring()))
    for group in range(3):
        members = one.rollouts[4 * group : 4 * group + 4]
        lengths = [len(rollout.session.text) for rollout in members]
        wanted = [0.5 * (length - sum(lengths) / 4) for length in lengths]
        assert [rollout.comparison for rollout in members] == pytest.approx(wanted)
        assert sum(terms(one)[4 * group : 4 * group + 4]) == pytest.approx(0)
    assert len({*terms(one)}) == 3, "equal texts have equal terms, and no edit counts as well"


def test_the_term_is_in_the_credit_and_the_metrics_and_not_in_the_reward() -> None:
    plain, one = batch(make(mixed())), batch(make(mixed(), Scoring()))
    added = [term or 0.0 for term in terms(one)]
    assert (one.rewards - plain.rewards).tolist() == pytest.approx(added)
    assert one.summary == plain.summary
    size = math.sqrt(sum(term**2 for term in added) / 12)
    assert one.measures["comparison_size"] == pytest.approx(size)
    assert one.measures.keys() - plain.measures.keys() == {
        "comparison_size",
        "equal_groups",
        "equal_groups_left",
    }
    config = Config(credit="episode")
    # the two edits have equal verdicts, so the comparison alone sets them apart
    advantages = credit(config, one)
    assert advantages[1] == advantages[2] > advantages[0]
    before = credit(config, plain)
    assert before[0] == before[1] == before[2]


def test_groups_of_equal_rewards_are_counted_with_and_without_the_term() -> None:
    unequal = Scripted(lambda key: (EDIT if key % 4 else OTHER, SUBMIT))
    measures = batch(make(unequal, Scoring())).measures
    assert (measures["equal_groups"], measures["equal_groups_left"]) == (1.0, 0.0)
    measures = batch(make(says(EDIT, SUBMIT), Scoring())).measures
    assert (measures["equal_groups"], measures["equal_groups_left"]) == (1.0, 1.0)
    assert measures["comparison_size"] == 0.0


def test_credit_by_edit_pays_the_term_to_all_turns() -> None:
    plain = batch(make(mixed(), credit="edit"))
    one = batch(make(mixed(), Scoring(), credit="edit"))
    for own, before, term in zip(one.earned, plain.earned, terms(one), strict=True):
        assert own == pytest.approx([*before[:-1], before[-1] + (term or 0.0)])


def test_without_weight_nobody_is_asked() -> None:
    judge = Scoring(weight=0)
    one = batch(make(mixed(), judge))
    assert (judge.groups, {*terms(one)}) == ([], {None})
    assert "comparison_size" not in one.metrics


@pytest.mark.parametrize(
    ("answer", "kept", "told"),
    [
        (lambda group: [1.0, 2.0, JudgeRefused("too long"), 4.0], 3, "too long"),
        (
            lambda group: [1.0, math.nan, 2.0, 4.0],
            3,
            "expected a finite score, at most 1e6 in size, got nan",
        ),
        (lambda group: [10**400, 1.0, 2.0, 4.0], 3, "at most 1e6 in size, got 1000"),
        (lambda group: ["5", 1.0, 2.0, 4.0], 3, "at most 1e6 in size, got '5'"),
        (lambda group: [1.0, 2.0], 0, "expected 4 answers, got 2"),
        (lambda group: {}["score"], 0, "raised KeyError: 'score'"),
    ],
)
def test_a_failed_comparison_is_not_a_number(answer: Scores, kept: int, told: str) -> None:
    notes: list[str] = []
    made = make(mixed(), Scoring(answer), note=notes.append, groups=1)
    if not kept:
        with pytest.raises(JudgeError, match=told):
            batch(made)
    else:
        one = batch(made)
        assert (len(one.rollouts), one.dropped_episodes) == (kept, 1)
        centre = sum(term for term in terms(one) if term is not None)
        assert centre == pytest.approx(0, abs=1e-9), "of those that are kept"
    assert notes
    assert all(told in note for note in notes)


def test_a_busy_judge_is_asked_again_and_a_wrong_key_ends_the_run() -> None:
    answers = [JudgeUnavailable("busy"), 1.0]
    judge = Scoring(lambda group: [answers.pop(0), 1.0, 1.0, 1.0])
    assert len(batch(make(mixed(), judge, groups=1)).rollouts) == 4
    assert len(judge.groups) == 2
    judge = Scoring(lambda group: [1.0, JudgeMisconfigured("no key"), 1.0, 1.0])
    with pytest.raises(JudgeMisconfigured, match="no key"):
        batch(make(mixed(), judge))


def test_stored_scores_are_read_and_a_group_that_lacks_one_is_compared_anew(
    tmp_path: Path,
) -> None:
    whole = batch(make(mixed(), Scoring(), tmp_path))
    path = Trajectories(tmp_path).path(1)
    record = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
    assert record["comparison"] in terms(whole)
    assert record["reward"] == sum(record["ledger"].values()), "comparable with other groups"
    judge = Scoring()
    again = batch(make(says(), judge, tmp_path))
    assert ([r.record() for r in again.rollouts], judge.groups) == (
        [r.record() for r in whole.rollouts],
        [],
    )
    # the process was killed before the last member's line with its score
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    again = batch(make(says(), judge, tmp_path))
    assert [r.record() for r in again.rollouts] == [r.record() for r in whole.rollouts]
    assert len(judge.groups) == 1


def test_groups_that_the_term_tells_apart_are_not_replaced() -> None:
    unequal = Scripted(lambda key: (EDIT if key % 4 else OTHER, SUBMIT))
    assert not batch(make(unequal, Scoring(), replace_equal=True)).replaced
    assert batch(make(unequal, replace_equal=True)).replaced


def test_evaluations_and_environments_do_not_compare() -> None:
    judge = Scoring(lambda group: 1 / 0)
    result = asyncio.run(make(says(EDIT, SUBMIT), judge).evaluate(0))
    assert (result.dropped_episodes, judge.groups) == (0, [])
    spec = {"name": "pairwise", "judge": "rubric", "weight": 1.0}
    played = []
    for one in (spec, {**spec, "weight": 0}):
        env: Any = gym.make("ResumeEditMini-v0", judge=one).unwrapped
        env.reset(seed=1)
        task = env.session.task
        fix = next(fix for fix in task.fixes if repaired(task).count(fix.new) == 1)
        env.step(tool_call("str_replace", old=fix.old, new=fix.new))
        played.append(env.step(SUBMIT)[1])
    assert played[0] == played[1]


def test_a_judge_that_would_ignore_a_weight_is_refused() -> None:
    scored = {"name": "pairwise", "judge": "rubric", "weight": 0.25}
    with pytest.raises(ValueError, match=r"'tiers': expected weight 0 in 'pairwise\(rubric\)'"):
        make_judge({"name": "tiers", "local": "rubric", "frontier": scored})
    assert group_weight(make_judge(scored)) == 0.25
    assert group_weight(make_judge("rubric")) == 0
    for wrong in (-1, math.inf, "1", True):
        with pytest.raises(ValueError, match="pairwise: weight: expected a number >= 0"):
            make_judge({**scored, "weight": wrong})
    for wrong in (math.nan, None, -1, "0.5", [], 1e308):
        own = {"name": "test_comparisons:Scoring", "scores": [], "weight": wrong}
        with pytest.raises(
            ValueError, match="'test_comparisons:Scoring': group_weight: expected a nu"
        ):
            make_judge(own)


def test_a_score_may_be_of_a_type_that_json_lacks() -> None:
    import numpy as np

    one = batch(make(mixed(), Scoring(lambda group: np.float32([1, 2, 2, 3]))))
    assert terms(one)[:4] == [-0.5, 0.0, 0.0, 0.5]
    assert all(type(term) is float for term in terms(one))
