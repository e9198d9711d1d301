"""Stored episodes that are graded again: what differs, and what has no verdict."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import pytest
from viewer_runs import MIXED, read, write_run

from resume_gym import tool_call
from resume_gym.apps.plot.reading import read_evaluations
from resume_gym.apps.viewer.listing import Listing
from resume_gym.cli import main
from resume_gym.episode.rewards import Verdict
from resume_gym.episode.tasks import Task
from resume_gym.folders.writer import FolderWriter
from resume_gym.judges import JudgeMisconfigured, JudgeRefused, make_judge
from resume_gym.support.json_lines import seal
from resume_gym.synthesis.procedural import generate_task

Capsys = pytest.CaptureFixture[str]


class Stern:
    """The rubric judge, to whom nothing is clear, and who refuses one task."""

    name = "stern"
    refused = ""
    asked: ClassVar[list[str]] = []

    def judge(self, task: Task, revised: str) -> Verdict:
        self.asked.append(task.task_id)
        if task.task_id == self.refused:
            raise JudgeRefused("not this one")
        return replace(make_judge("rubric").judge(task, revised), clarity=-1)


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluations") / "result"
    agents = "--agent", "careful", "--agent", "noop"
    limits = "--env", "ResumeEditMini-v0", "--limit", "4"
    assert main(["eval", *limits, *agents, "--out", str(folder)]) == 0
    return folder


def rejudge(folder: Path, *options: str) -> int:
    return main(["rejudge", str(folder), *options])


def test_the_same_judge_moves_nothing(evaluation: Path, tmp_path: Path, capsys: Capsys) -> None:
    assert rejudge(evaluation, "--judge", "rubric", "--out", str(tmp_path), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["moves"] == {"careful, again": [], "noop, again": []}
    for comparison in told["comparisons"]:
        assert (comparison["tasks"], comparison["ties"]) == (4, 4)
        assert {figure["mean"] for figure in comparison["figures"].values()} == {0}
    before = json.loads((evaluation / "evaluation.json").read_text())["agents"]["careful"]
    for name in ("careful, stored", "careful, again"):
        assert told["agents"][name]["summary"] == before["summary"]


def test_another_judge_is_compared_where_it_gives_a_verdict(
    evaluation: Path, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = [json.loads(line) for line in (evaluation / "episodes.jsonl").open()]
    refused = next(row for row in stored if row["agent"] == "careful")["task_id"]
    monkeypatch.setattr(Stern, "refused", refused)
    out = tmp_path / "again"
    assert rejudge(evaluation, "--judge", "test_rejudge:Stern", "--out", str(out)) == 1
    printed, errors = capsys.readouterr()
    assert "careful, again: no reward for 1 of 4 episodes; the first is" in errors
    assert "JudgeRefused: not this one" in errors
    assert printed.count("clarity +1 to -1)") == 3
    written = json.loads((out / "evaluation.json").read_text())
    (careful, noop) = written["comparisons"]
    assert (careful["tasks"], careful["losses"]) == (3, 3)
    assert careful["figures"]["verdict_clarity"]["mean"] == -2
    assert (noop["tasks"], noop["ties"]) == (4, 4), "nothing was edited: no judge is asked"
    rows = [json.loads(line) for line in (out / "episodes.jsonl").open()]
    (failed,) = (row for row in rows if not row["graded"])
    assert (failed["task_id"], failed["verdict"], failed["score"]) == (refused, None, None)
    shown = read(out)
    assert [row.outcome for row in shown.rows].count("not graded") == 1
    assert len(shown.index()["comparisons"]) == 2
    assert read_evaluations([shown]).note.startswith("Left out, not graded: 1 episode.")


def test_a_repeated_command_asks_only_for_verdicts_that_are_missing(
    evaluation: Path, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "result", tmp_path / "again"
    shutil.copytree(evaluation, folder)
    stored = [json.loads(line) for line in (folder / "episodes.jsonl").open()]
    tasks = [row["task_id"] for row in stored if row["agent"] == "careful"]
    monkeypatch.setattr(Stern, "refused", tasks[0])
    command = "--judge", "test_rejudge:Stern", "--out", str(out)
    assert rejudge(folder, *command) == 1
    asked: list[str] = []
    monkeypatch.setattr(Stern, "asked", asked)
    assert rejudge(folder, *command) == 1
    assert asked == tasks[:1]
    monkeypatch.setattr(Stern, "refused", "")
    assert rejudge(folder, *command) == 0
    assert asked == tasks[:1] * 2
    written = json.loads((out / "evaluation.json").read_text())
    assert [pair["losses"] for pair in written["comparisons"]] == [4, 0]
    for name in ("careful, stored", "careful, again"):
        assert (written["agents"][name]["summary"]["tasks"], read(out).damage()) == (4, [])

    class Stopped(Stern):
        def judge(self, task: Task, revised: str) -> Verdict:
            raise JudgeMisconfigured("no key")

    monkeypatch.setattr("test_rejudge.Stern", Stopped)
    (out / "episodes.jsonl").write_text("")
    assert rejudge(folder, *command) == 1
    assert f"no key; the same command resumes {out}" in capsys.readouterr().err


def test_a_folder_that_has_gained_tasks_is_graded_again(tmp_path: Path, capsys: Capsys) -> None:
    folder = tmp_path / "result"
    for limit in ("2", "4"):
        played = "--agent", "careful", "--limit", limit, "--out", str(folder)
        assert main(["eval", "--env", "ResumeEditMini-v0", *played]) == 0
        judge = "rubric" if limit == "2" else '{"name": "rubric"}'  # the same judge
        capsys.readouterr()
        assert rejudge(folder, "--judge", judge, "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert told["agents"]["careful, again"]["summary"]["tasks"] == int(limit)


def test_the_default_judge_is_that_of_the_environment(tmp_path: Path) -> None:
    again = folder, _ = tmp_path / "result", tmp_path / "result-rejudged"
    env = "examples.release_notes:ReleaseNotes-v0"
    played = "--agent", "noop", "--limit", "2", "--out", str(folder)
    assert main(["eval", "--env", env, *played]) == 0
    assert rejudge(folder) == 0
    graded = [json.loads((one / "evaluation.json").read_text())["judge"] for one in again]
    assert graded == ["editor", "editor"]


def test_a_run_is_graded_again_and_listed_beside_it(tmp_path: Path, capsys: Capsys) -> None:
    run = write_run(tmp_path / "run")
    episodes = run / "trajectories"
    _, *others = (episodes / "step-000003.jsonl").open()
    (episodes / "eval-000003.jsonl").write_text("".join(others))
    assert rejudge(run, "--judge", "test_rejudge:Stern", "--json") == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    names = [
        f"{name}, {which}" for name in ("training", "held-out") for which in ("stored", "again")
    ]
    assert list(told["agents"]) == names
    played = {name: agent["summary"]["episodes"] for name, agent in told["agents"].items()}
    stored = [row for row in read(run).rows if row.outcome != "not graded"]
    held_out = sum("held-out" in row.flags for row in stored)
    assert played == dict(zip(names, [len(stored) - held_out] * 2 + [held_out] * 2, strict=True))
    listed = {row["name"]: row for row in Listing(tmp_path).index()["runs"]}
    assert {name: row["kind"] for name, row in listed.items()} == {
        "run": "run",
        "run-rejudged": "evaluation",
    }
    rewards = {name: one["summary"]["reward"] for name, one in told["agents"].items()}
    assert listed["run-rejudged"]["reward"] == rewards["held-out, stored"]
    assert rewards["held-out, stored"] < rewards["training, stored"]


@pytest.mark.parametrize("env", ["ResumeEditNetMini-v0", ",".join(f"{name}:1" for name in MIXED)])
def test_a_run_on_generated_tasks_is_graded_again_and_shown(
    env: str, tmp_path: Path, capsys: Capsys
) -> None:
    run = tmp_path / "run"
    (run / "trajectories").mkdir(parents=True)
    (run / "config.toml").write_text(f'env = "{env}"\n')
    made: Any = gymnasium.make(MIXED[0]).unwrapped
    session = made.session_type(generate_task(1, 160, "train", "mini"), made.rules)
    first = session.task.fixes[0]
    session.step(tool_call("str_replace", old=first.old, new=first.new))
    session.step(tool_call("submit"))
    session.grade(made.judge.judge(session.task, session.text))
    named = {"env": MIXED[0]} if "," in env else {}
    record = {"group": 0, "member": 0, **named, **session.record()}
    FolderWriter(run).append_row("trajectories/step-000001.jsonl", record)
    assert rejudge(run, "--judge", "rubric", "--json") == 0
    assert "training, again" in capsys.readouterr().out
    assert session.task.job in [part["value"] for part in read(run).episode(0)["task"]]


def test_the_list_has_no_reward_of_training_tasks(tmp_path: Path) -> None:
    settings = "--env", "ResumeEditMini-v0", "--limit", "2", "--agent", "noop"
    result = tmp_path / "result"
    assert main(["eval", *settings, "--split", "train", "--out", str(result)]) == 0
    assert rejudge(result, "--judge", "rubric") == 0
    run = write_run(tmp_path / "run")
    assert rejudge(run, "--judge", "rubric") == 0
    listed = {row["name"]: row for row in Listing(tmp_path).index()["runs"]}
    for name in ("result", "result-rejudged", "run-rejudged"):
        assert listed[name]["reward"] is None


def test_stored_episodes_that_are_damaged_are_an_error_in_one_line(
    evaluation: Path, tmp_path: Path, capsys: Capsys
) -> None:
    folder = tmp_path / "result"
    shutil.copytree(evaluation, folder)
    first, *rest = (folder / "episodes.jsonl").read_text().splitlines()
    changes = (
        *({"reward": "high"}, {"task_id": "none"}, {"actions": [3]}, {"verdict": {"a": 1}}),
        *({"rollout": 10**300}, {"rollout": -1}),
    )
    for change in changes:
        changed = seal({**json.loads(first), **change})
        (folder / "episodes.jsonl").write_text("\n".join([changed, *rest, ""]))
        assert rejudge(folder, "--judge", "rubric") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "an episode of careful cannot be replayed" in line or "1 line of the" in line
    settings = json.loads((folder / "evaluation.json").read_text())
    (folder / "evaluation.json").write_text(json.dumps({**settings, "edition": 1}))
    assert rejudge(folder) == 2
    assert "has edition 1 of the tasks and verdicts, and this" in capsys.readouterr().err
    (folder / "episodes.jsonl").write_text("")
    assert rejudge(folder) == 2
    assert "no episode has been graded" in capsys.readouterr().err
    assert not (tmp_path / "result-rejudged").exists()
