"""Frozen verdicts, and what is said when they change."""

import asyncio
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from fake_judges import Fake, fake, register, verdict

from resume_gym.cli import judge_sentinel
from resume_gym.command_line import Parser
from resume_gym.judges import AsyncJudge, JudgeRefused, JudgeUnavailable, as_async, make_judge
from resume_gym.judges.audit import sentinel
from resume_gym.judges.audit.pairs import load_pairs, spread
from resume_gym.judges.audit.sentinel import DriftError, drift, freeze, load_frozen
from resume_gym.llm import Usage
from resume_gym.rewards import Verdict
from resume_gym.tasks import Task, TaskError

PAIRS = spread(load_pairs(), 14)
STEADY = Fake(lambda task, revised, draw: verdict(grade=1))


def refuses_the_first(task: Task, revised: str, draw: int) -> Verdict:
    if revised == PAIRS[0].revised:
        raise JudgeRefused("will not")
    return verdict(grade=1)


def dislikes_the_first(task: Task, revised: str, draw: int) -> Verdict:
    return verdict(grade=1, preference=-1 if revised == PAIRS[0].revised else 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    asyncio.run(freeze(STEADY, PAIRS, tmp_path / "frozen.json"))
    return tmp_path / "frozen.json"


def test_a_freeze_stores_requests_and_answers(path: Path) -> None:
    frozen = load_frozen(path)
    assert (frozen.judge, frozen.served) == ("fake", "")
    assert [(p.task, p.revised) for p in frozen.pairs] == [(p.task, p.revised) for p in PAIRS]
    assert frozen.pairs[0].labels == dict.fromkeys(frozen.pairs[0].labels, 1)


def test_a_judge_that_says_the_same_has_not_drifted(path: Path) -> None:
    found = asyncio.run(drift(STEADY, load_frozen(path)))
    assert (found.fields, found.changed, found.failures, found.share) == (84, (), {}, 0.0)


def test_changes_are_listed(path: Path) -> None:
    found = asyncio.run(drift(Fake(dislikes_the_first), load_frozen(path)))
    assert found.changed == ((PAIRS[0].pair_id, "preference", 1, -1),)
    assert found.share == 1 / 84


def test_a_pair_without_a_verdict_is_not_drift(path: Path) -> None:
    found = asyncio.run(drift(Fake(refuses_the_first), load_frozen(path)))
    assert found.failures == {PAIRS[0].pair_id: "JudgeRefused"}
    assert (found.fields, found.changed) == (78, ())


def test_a_pair_without_a_verdict_is_not_frozen(tmp_path: Path) -> None:
    lost = asyncio.run(freeze(Fake(refuses_the_first), PAIRS, tmp_path / "some.json"))
    assert lost == {PAIRS[0].pair_id: "JudgeRefused"}
    assert len(load_frozen(tmp_path / "some.json").pairs) == 13


def test_no_verdict_at_all_is_an_error(path: Path) -> None:
    def says(task: Task, revised: str, draw: int) -> Verdict:
        raise JudgeRefused("will not")

    with pytest.raises(JudgeUnavailable, match="no verdict on any of 14 pairs: JudgeRefused"):
        asyncio.run(drift(Fake(says), load_frozen(path)))
    before = path.read_text()
    with pytest.raises(JudgeUnavailable):
        asyncio.run(freeze(Fake(says), PAIRS, path))
    assert path.read_text() == before


def test_a_judge_that_draws_is_not_answered_by_what_was_kept(path: Path) -> None:
    log: list[tuple[str, int]] = []
    asyncio.run(drift(Fake(log=log), load_frozen(path)))
    assert {draw for _, draw in log}.isdisjoint(range(100))


@pytest.mark.parametrize(
    "around",
    [
        {"name": "votes"},
        {"name": "critique"},
        {"name": "pairwise", "compares": "rubric"},
        {"name": "tiers", "local": "rubric", "confidence": 1.0},
    ],
)
def test_a_judge_of_judges_is_asked_anew_each_day(
    path: Path, monkeypatch: pytest.MonkeyPatch, around: dict[str, Any]
) -> None:
    register(monkeypatch)
    log: list[tuple[str, int]] = []
    inner = "frontier" if around["name"] == "tiers" else "judge"
    judge = as_async(make_judge({**around, inner: fake(log=log)}))
    days = []
    for day in (1, 2):
        monkeypatch.setattr(sentinel, "_today", lambda day=day: date(2026, 1, day))
        asyncio.run(drift(judge, load_frozen(path)))
        days.append({draw for _, draw in log})
        log.clear()
    assert days[0]
    assert days[1]
    assert days[0].isdisjoint(days[1])


@pytest.mark.parametrize("text", ["[]", "{}", "no JSON", '{"tasks": {}, "pairs": [{}]}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(TaskError, match="expected a file of --freeze"):
        load_frozen(path)


# The command


def command(*arguments: str) -> None:
    parser = Parser("resume-gym", ())
    judge_sentinel.add_command(parser.add_subparsers())
    options = parser.parse_args(["sentinel", *arguments])
    options.run(options)


def test_the_command_freezes_and_fails_on_drift(tmp_path: Path, capsys) -> None:
    path = tmp_path / "frozen.json"
    command("--frozen", str(path), "--freeze", "--limit", "14")
    assert "14 pairs with verdicts of rubric" in capsys.readouterr().out
    command("--frozen", str(path))
    assert "0 of 84 fields changed" in capsys.readouterr().out

    rows = json.loads(path.read_text())
    name = rows["pairs"][0]["id"]
    rows["pairs"][0]["verdict"]["hallucination"] *= -1
    rows["judge"] = "rubric of old"
    path.write_text(json.dumps(rows))
    with pytest.raises(DriftError, match=r"1 of 84 fields changed since .*\(1.2%, allowed 1.0%\)"):
        command("--frozen", str(path), "--allow", "0.01")
    out = capsys.readouterr().out
    assert "judge: frozen with rubric of old, now rubric" in out
    assert f"{name}: hallucination was" in out
    command("--frozen", str(path), "--allow", "0.02")

    capsys.readouterr()
    with pytest.raises(DriftError):
        command("--frozen", str(path), "--allow", "0.01", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["frozen"]["judge"], told["judge"]) == ("rubric of old", "rubric")
    changed = told["changed"][0]
    assert (changed["pair"], changed["field"], changed["was"]) == (name, "hallucination", -1)
    assert told["share"] == 1 / 84


def test_freezing_replaces_only_what_was_frozen(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("{}")
    with pytest.raises(TaskError, match="expected a file of --freeze"):
        command("--frozen", str(path), "--freeze", "--limit", "1")
    assert path.read_text() == "{}"
    with pytest.raises(TaskError, match="--frozen: there is no folder"):
        command("--frozen", str(tmp_path / "no" / "x.json"), "--freeze", "--limit", "1")


def test_the_command_fails_if_too_many_pairs_have_no_verdict(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(judge_sentinel, "make_async_judge", lambda spec: Fake(refuses_the_first))
    told = r"1 of 14 pairs have no verdict \(7.1%, allowed 5.0%\); 0 of 78 fields changed"
    with pytest.raises(DriftError, match=told):
        command("--frozen", str(path))
    assert "no verdict, not compared (JudgeRefused)" in capsys.readouterr().out
    command("--frozen", str(path), "--allow-failures", "0.08")
    assert "0 of 78 fields changed" in capsys.readouterr().out


class Kept(AsyncJudge):
    """All its answers come from a store; it has no draws."""

    name = "kept"
    stored = 0

    @property
    def usage(self) -> Usage:
        return Usage(0, self.stored, 0, 0, None)

    async def averdict(self, task: Task, revised: str) -> Verdict:
        self.stored += 1
        return verdict(grade=1)


class Drawing(Kept):
    async def averdict(self, task: Task, revised: str, draw: int = 0) -> Verdict:
        return await super().averdict(task, revised)


def test_answers_of_a_store_are_no_sign_of_steadiness(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(judge_sentinel, "make_async_judge", lambda spec: Kept())
    with pytest.raises(DriftError, match="kept repeated 14 stored answers"):
        command("--frozen", str(path))
    assert "fields changed" not in capsys.readouterr().out
    monkeypatch.setattr(judge_sentinel, "make_async_judge", lambda spec: Drawing())
    command("--frozen", str(path))
    assert "14 answers came from the store of an earlier run today" in capsys.readouterr().out


def test_an_invalid_limit_is_rejected(capsys) -> None:
    with pytest.raises(SystemExit):
        command("--frozen", "x.json", "--allow", "20")
    assert "expected a share from 0 to below 1" in capsys.readouterr().err
