"""Labelled pairs, the figures of agreement, and what a judge's answers come to."""

import asyncio
import json
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_judges import Fake, verdict
from model_answers import FakeAsks, checked, compared

from resume_gym.cli import judge_calibrate, main
from resume_gym.episode.rewards import GRADED_FIELDS, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import (
    AsyncJudge,
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeUnavailable,
    as_async,
    make_judge,
)
from resume_gym.judges.audit import (
    FABRICATIONS,
    HALVES,
    PAIRS,
    calibrate,
    freeze,
    load_pairs,
    share,
    spread,
    weighted_kappa,
)
from resume_gym.judges.llm_judge import ModelJudge
from resume_gym.llm import Usage
from resume_gym.support.command_line import Parser
from resume_gym.support.user_errors import TaskError

ALL = load_pairs()
FEW = spread(ALL, 28)
BY_TEXT = {(pair.task.task_id, pair.revised): pair for pair in ALL}


def run(judge: AsyncJudge, pairs=FEW, **options):
    return asyncio.run(calibrate(judge, pairs, **options))


def truth(task: Task, revised: str, draw: int) -> Verdict:
    return Verdict(**BY_TEXT[task.task_id, revised].labels)


# The pairs


def test_there_are_enough_pairs_of_every_kind_in_both_halves() -> None:
    kinds = Counter(pair.kind for pair in ALL)
    assert all(kinds[kind] >= 30 for kind in FABRICATIONS)
    assert kinds["honest_rewrite"] >= 100
    for half in ("dev", "test"):
        assert {pair.kind for pair in load_pairs(half=half)} == set(kinds)


def test_a_document_is_in_one_half() -> None:
    halves = {(pair.task.task_id, pair.half) for pair in ALL}
    assert len(halves) == len({task for task, _ in halves}) == 16


@pytest.mark.parametrize("half", HALVES)
def test_the_rubric_judge_is_as_good_as_claimed(half: str) -> None:
    found = run(as_async(make_judge("rubric")), load_pairs(half=half))
    wanted = dict.fromkeys(FABRICATIONS, 0.97) | {"prose_claim": 0.9}
    for kind, least in wanted.items():
        assert found.recall[kind].value >= least, kind
    assert found.false_alarms["honest_rewrite"].value <= 0.07
    assert all(found.accuracy[field].value >= 0.85 for field in GRADED_FIELDS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row["labels"].update(clarity=2), "line 3: clarity: expected -1, 0 or"),
        (lambda row: row.update(ID=row.pop("id")), "line 3: expected the key 'task' or 'id', got "),
        (lambda row: row.update(task_id="nobody"), "line 3: nobody: missing"),
        (lambda row: row.update(edits=[["no such text", "x"]]), "line 3: edits: .*occurs 0 times"),
    ],
)
def test_a_bad_pair_is_refused(tmp_path: Path, change, message: str) -> None:
    about, task, pair = PAIRS.read_text(encoding="utf-8").split("\n")[:3]
    row = json.loads(pair)
    change(row)
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join((about, task, json.dumps(row))), encoding="utf-8")
    with pytest.raises(TaskError, match=message):
        load_pairs(path)
    path.write_text("\n".join((about, task, pair, "[1, 2]")), encoding="utf-8")
    with pytest.raises(TaskError, match="line 4: expected an object, got \\[1, 2\\]"):
        load_pairs(path)


# Figures


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0), (0, 0, 0.0, 1.0)],
)
def test_shares_have_wilson_intervals(hits: int, total: int, low: float, high: float) -> None:
    found = share([True] * hits + [False] * (total - hits))
    assert found.value == (hits / total if total else None)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


def test_kappa_weighs_a_reversal_four_times_a_step() -> None:
    # 16 pairs of a label and a verdict differ by 20 in all squares; one step is seen in four.
    assert weighted_kappa([(1, 1), (1, 0), (0, 0), (-1, -1)]) == pytest.approx(1 - 0.25 / 1.25)
    assert weighted_kappa([(1, 1), (1, -1), (0, 0), (-1, -1)]) < 0.5
    assert weighted_kappa([(1, -1), (-1, 1)]) == pytest.approx(-1)
    assert weighted_kappa([(0, 0), (0, 0)]) is None
    assert weighted_kappa([]) is None


# Asking


def test_a_judge_that_is_always_right() -> None:
    found = run(Fake(truth))
    assert (found.pairs, found.repeats, found.failures) == (28, 1, {})
    assert all(one.value == 1 for one in (*found.accuracy.values(), *found.recall.values()))
    assert found.false_alarms["all"].hits == 0
    assert found.kappa["preference"] == 1
    assert set(found.consistency.values()) == {None}


def test_failures_are_counted_separately_from_verdicts() -> None:
    def says(task: Task, revised: str, draw: int) -> Verdict:
        pair = BY_TEXT[task.task_id, revised]
        if pair.kind == "number":
            raise JudgeRefused("will not")
        if pair.kind == "tool":
            raise JudgeUnavailable("busy")
        return truth(task, revised, draw)

    found = run(Fake(says), repeats=2)
    assert found.failures == {"JudgeRefused": 4, "JudgeUnavailable": 4}
    assert found.asked == 56
    assert "number" not in found.recall
    assert found.accuracy["clarity"].total == 24
    assert found.consistency["preference"] == 1


def test_a_misconfigured_judge_stops_the_run() -> None:
    def says(task: Task, revised: str, draw: int) -> Verdict:
        raise JudgeMisconfigured("no such model")

    with pytest.raises(JudgeMisconfigured, match="no such model"):
        run(Fake(says))


def test_repeats_are_other_draws_and_show_in_kappa() -> None:
    log: list[tuple[str, int]] = []

    def says(task: Task, revised: str, draw: int) -> Verdict:
        sign = 1 if draw == 0 or len(revised) % 2 else -1
        return verdict(preference=sign * BY_TEXT[task.task_id, revised].labels["preference"])

    found = run(Fake(says, log=log), repeats=2)
    assert Counter(draw for _, draw in log) == {0: 28, 1: 28}
    assert found.consistency["preference"] < 0.5
    assert found.accuracy["preference"].value == 1  # of the first draw alone


def test_order_is_tried_by_comparing_where_the_judge_can() -> None:
    second_wins = run(Fake(truth, prefers=lambda task, first, second: 1), swap=True).flips
    assert (second_wins.hits, second_wins.total) == (28, 28)
    longer_wins = Fake(truth, prefers=lambda task, a, b: (len(b) > len(a)) - (len(b) < len(a)))
    assert run(longer_wins, swap=True).flips.hits == 0


def test_position_bias_is_measured() -> None:
    def swapped(better: str, **fields: str):
        asks = FakeAsks(
            lambda prompt: (
                checked(prompt.user)
                if "support" in prompt.kind
                else compared(prompt.user, better, **fields)
            )
        )
        return run(ModelJudge(asks), swap=True).flips

    always = swapped("A")
    assert always.value == 1
    assert always.total > 5 * len(FEW) / 2  # all but those that a veto settles
    assert swapped("same").hits == 0
    clarity = swapped("same", clarity="A")
    assert (clarity.hits, clarity.total) == (always.total / 5, always.total)


def test_a_judge_that_cannot_compare_is_not_tried_in_both_orders() -> None:
    assert run(as_async(make_judge("rubric")), swap=True).flips.hits == 0
    with pytest.raises(TaskError, match="--swap: expected a judge that can compare two texts"):
        run(Counting(), swap=True)


class Counting(AsyncJudge):
    name = "counting"
    now = most = 0

    async def averdict(self, task: Task, revised: str) -> Verdict:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(3):
            await asyncio.sleep(0)
        self.now -= 1
        return verdict()


def test_concurrent_verdicts_are_limited() -> None:
    judge = Counting()
    run(judge, concurrency=3)
    assert judge.most == 3


# Drift


def refuses_a_number(task: Task, revised: str, draw: int) -> Verdict:
    if BY_TEXT[task.task_id, revised].kind == "number":
        raise JudgeRefused("will not")
    return verdict(grade=1)


def test_verdicts_become_labels(tmp_path: Path) -> None:
    path = tmp_path / "frozen.jsonl"
    lost = asyncio.run(freeze(Fake(refuses_a_number), FEW, path))
    assert set(lost.values()) == {"JudgeRefused"}
    frozen = load_pairs(path)
    answered = [pair for pair in FEW if pair.pair_id not in lost]
    assert [(p.task, p.revised, p.kind, p.half) for p in frozen] == [
        (p.task, p.revised, p.kind, p.half) for p in answered
    ]
    assert all(set(pair.labels.values()) == {1} for pair in frozen)
    head = json.loads(path.read_text(encoding="utf-8").split("\n")[0])
    assert (head["judge"], head["served"]) == ("fake", "")


def test_pairs_with_a_lone_surrogate_are_written(tmp_path: Path) -> None:
    odd = replace(FEW[0], revised="An analyst \ud800\\ here\n")
    path = tmp_path / "frozen.jsonl"
    asyncio.run(freeze(Fake(), [odd], path))
    assert load_pairs(path)[0].revised == odd.revised


class Stored(Fake):
    """All its answers come from a store."""

    @property
    def usage(self) -> Usage:
        return Usage(0, len(self._log), 0, 0, None)


def test_the_command_fails_on_drift(tmp_path: Path, monkeypatch, capsys) -> None:
    path = str(tmp_path / "frozen.jsonl")
    command("--freeze", path, "--limit", "14")
    assert "14 pairs with verdicts of rubric" in capsys.readouterr().out
    command("--pairs", path, "--least", "1")
    with pytest.raises(TaskError, match="--freeze: expected a new file"):
        command("--freeze", path, "--limit", "1")

    changed = tmp_path / "changed.jsonl"
    asyncio.run(freeze(Fake(lambda *_: verdict(grade=1)), FEW[:14], changed))
    for says, met in ((refuses_a_number, 72), (lambda *_: verdict(grade=1, preference=0), 70)):
        monkeypatch.setattr(judge_calibrate, "make_async_judge", lambda _, says=says: Fake(says))
        with pytest.raises(JudgeError, match=f"--least: {met} of 84 labels matched"):
            command("--pairs", str(changed), "--least", "0.98")
        command("--pairs", str(changed), "--least", "0.8")
    monkeypatch.setattr(judge_calibrate, "make_async_judge", lambda _: Stored())
    with pytest.raises(JudgeError, match="fake repeated 14 stored answers"):
        command("--pairs", str(changed), "--least", "0.98")


# The command


def command(*arguments: str) -> None:
    parser = Parser("resume-gym", ())
    judge_calibrate.add_command(parser.add_subparsers())
    options = parser.parse_args(["calibrate", *arguments])
    options.run(options)


def test_the_command_prints_a_table_or_json(capsys) -> None:
    command("--limit", "28", "--repeats", "2")
    out = capsys.readouterr().out
    assert "rubric on 28 labelled pairs, 2 times each" in out
    assert re.search(r"cost +nothing", out)  # it asks no model
    command("--limit", "28", "--repeats", "2", "--json")
    written = json.loads(capsys.readouterr().out)
    assert written["recall"]["number"] == {
        "hits": 2, "total": 2, "value": 1.0, "low": pytest.approx(0.342, abs=1e-3), "high": 1.0
    }  # fmt: skip
    assert written["dollars"] == 0


def test_the_command_fails_if_there_is_no_verdict(monkeypatch, capsys) -> None:
    def says(task: Task, revised: str, draw: int) -> Verdict:
        raise JudgeRefused("will not")

    monkeypatch.setattr(judge_calibrate, "make_async_judge", lambda _: Fake(says))
    with pytest.raises(JudgeError, match="fake: no verdict on any of 4 pairs: JudgeRefused"):
        command("--limit", "4")
    assert "JudgeRefused 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("None", "expected a Verdict, got None"),
        ("{'clarity': 1}", "expected a Verdict, got {'clarity': 1}"),
        ("1 / 0", "the judge 'fake' raised ZeroDivisionError: division by zero"),
        ("exit(0)", "the judge 'fake' raised SystemExit: 0"),
    ],
)
@pytest.mark.parametrize("threaded", [True, False])
def test_a_bug_of_a_judge_is_one_line(threaded, code, message, monkeypatch, capsys) -> None:
    def says(*_: object) -> Verdict:
        return eval(code, {"exit": sys.exit})

    judge = as_async(SimpleNamespace(name="fake", judge=says)) if threaded else Fake(says)
    monkeypatch.setattr(judge_calibrate, "make_async_judge", lambda _: judge)
    for freezes in ([], ["--freeze", "never.jsonl"]):
        assert main(["judge", "calibrate", "--limit", "4", *freezes]) == 1
        told = capsys.readouterr().err
        assert message in told
        assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [(b'"\xe9"', "line 1: 'utf-8' codec"), (b"[" * 99_999, "line 1: maximum recursion depth")],
)
def test_a_file_that_cannot_be_read_is_an_error(
    content: bytes, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_bytes(content)
    with pytest.raises(TaskError, match=f"pairs.jsonl, {message}"):
        command("--limit", "1", "--pairs", str(file))
