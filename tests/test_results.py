import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from loopback import Say
from native_model import model

from resume_gym import Session, load_tasks, tool_call
from resume_gym.cli import main
from resume_gym.episode.rewards import Verdict
from resume_gym.evaluation.records import Episode
from resume_gym.evaluation.results import Results, choose, digest
from resume_gym.evaluation.summary import summarise
from resume_gym.judges import JudgeMisconfigured, JudgeUnavailable
from resume_gym.support.json_lines import seal, unseal
from resume_gym.support.user_errors import TaskError

TASKS = "procedural:5:6"
LOADED = load_tasks(TASKS, "eval")
BY_ID = {task.task_id: task for task in LOADED}
REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
SETTINGS = {"env": "E", "seed": 0, "rollouts": 1, "agents": {"a": "noop"}}


class Moody:
    """A judge that has no verdict on some tasks, until a file is there."""

    name = "moody"

    def __init__(self, cured: str, on: str = "000002", for_ever: bool = False) -> None:
        self.cured, self.on = Path(cured), on
        self.error = JudgeMisconfigured if for_ever else JudgeUnavailable

    def judge(self, task: Any, revised: str) -> Verdict:
        if task.task_id.endswith(self.on) and not self.cured.exists():
            raise self.error("not today")
        return Verdict(1, 1, 0, 0, 0, 1)


def evaluate(folder: Path, *more: str) -> int:
    return main(["eval", "--tasks", TASKS, "--out", str(folder), *more])


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "evaluation.json").read_text())
    return found


def without_date(folder: Path) -> dict[str, Any]:
    return {name: value for name, value in read(folder).items() if name != "created"}


def test_every_episode_is_kept_and_can_be_played_again(tmp_path, capsys):
    agents = ("--agent", "random", "--agent", "best=oracle", "--rollouts", "2")
    assert evaluate(tmp_path, *agents) == 0
    assert f"{tmp_path}: evaluation.json" in capsys.readouterr().out
    found, lines = read(tmp_path), rows(tmp_path)
    assert found["format"] == 3
    assert (found["env"], found["tasks"], found["judge"]) == ("ResumeEdit-v0", TASKS, "rubric")
    assert found["rules"]["max_turns"] == 10
    assert {name: one["spec"] for name, one in found["agents"].items()} == {
        "random": "random",
        "best": "oracle",
    }
    assert len(lines) == 24
    sessions = {
        (row["agent"], row["rollout"], row["task_id"]): Session.replay(BY_ID[row["task_id"]], row)
        for row in lines
    }
    for name, one in found["agents"].items():
        episodes = [Episode.of(some) for key, some in sessions.items() if key[0] == name]
        assert one["summary"]["reward"] == summarise(episodes).reward
    (pair,) = found["comparisons"]
    assert (pair["first"], pair["second"], pair["tasks"]) == ("random", "best", 6)
    assert pair["figures"]["reward"]["mean"] > 0
    assert set(pair["figures"]) > {"tool_syntax", "layout", "content", "verdict_hallucination"}


def test_best_of_k_can_be_asked_of_stored_episodes(tmp_path, capsys):
    agents = ("--agent", "random", "--agent", "oracle", "--rollouts", "4")
    assert evaluate(tmp_path, *agents) == 0
    lines = rows(tmp_path)
    capsys.readouterr()
    assert evaluate(tmp_path, *agents, "--markdown", "--best-of", "1", "4") == 0
    assert rows(tmp_path) == lines
    figures = read(tmp_path)["agents"]["random"]["summary"]
    assert figures["best_of"]["1"] == pytest.approx(figures["reward"])
    own = [row for row in lines if row["agent"] == "random"]
    best = [max(row["reward"] for row in own if row["task_id"] == task) for task in BY_ID]
    assert figures["best_of"]["4"] == pytest.approx(sum(best) / 6)
    assert figures["errors"]["best_of.4"] > 0
    assert figures["reward"] == pytest.approx(
        figures["tool_syntax"] + figures["layout"] + figures["content"]
    )
    assert f"| best of 4 | {figures['best_of']['4']:.2f} | " in capsys.readouterr().out


def test_an_evaluation_resumes_from_any_byte(tmp_path):
    whole, part = tmp_path / "whole", tmp_path / "part"
    more = ("--agent", "rändom=random", "--rollouts", "2")
    assert evaluate(whole, *more) == evaluate(part, *more) == 0
    text = (whole / "episodes.jsonl").read_bytes()
    draw = Random(0)
    for cut in (0, 1, len(text) - 1, *(draw.randrange(len(text)) for _ in range(4))):
        (part / "episodes.jsonl").write_bytes(text[:cut])
        assert evaluate(part, *more) == 0
        assert (part / "episodes.jsonl").read_bytes() == text, "the seeds are the episodes' own"
        assert without_date(part) == without_date(whole)
    before = (part / "episodes.jsonl").stat()
    assert evaluate(part, *more) == 0
    assert (part / "episodes.jsonl").stat() == before


def test_half_a_character_of_a_server_is_in_no_file_s_way(tmp_path):
    with model(lambda turn: REVIEW) as server:
        told = {"error": {"message": "maximum context length \ud83d"}}
        server.script += [Say(status=400, body=json.dumps(told))] * 12
        agent = f"m=scripted@{server.url}"
        assert evaluate(tmp_path, "--agent", agent, "--rollouts", "2") == 1
    assert all("length" in row["failure"] for row in rows(tmp_path))
    assert len(read(tmp_path)["agents"]["m"]["failures"]) == 12


def test_only_agents_and_rollouts_may_be_added(tmp_path, capsys):
    assert evaluate(tmp_path, "--agent", "noop") == 0
    assert evaluate(tmp_path, "--agent", "noop", "--agent", "careful") == 0
    assert [row["agent"] for row in rows(tmp_path)] == ["noop"] * 6 + ["careful"] * 6
    more, whole = tmp_path / "more", tmp_path / "whole"
    assert evaluate(more, "--agent", "random") == 0
    kept = rows(more)
    assert evaluate(more, "--agent", "random", "--agent", "noop", "--rollouts", "2") == 0
    assert rows(more)[:6] == kept
    assert evaluate(whole, "--agent", "random", "--agent", "noop", "--rollouts", "2") == 0
    assert without_date(more) == without_date(whole)
    capsys.readouterr()
    assert evaluate(more, "--agent", "random", "--agent", "noop", "--rollouts", "1") == 2
    assert "rollouts was 2, is now 1, but may only grow" in capsys.readouterr().err
    before = (tmp_path / "episodes.jsonl").read_bytes()
    capsys.readouterr()
    for more, message in (
        (("--agent", "noop"), "it has the agent 'careful', which this command lacks"),
        (("--agent", "noop=oracle", "--agent", "careful"), "'noop' was 'noop', is now 'oracle'"),
        (("--seed", "3"), "seed was 0, is now 3"),
        (("--tasks", "procedural:6:6"), "tasks was 'procedural:5:6', is now 'procedural:6:6'"),
    ):
        agents = () if more[0] == "--agent" else ("--agent", "noop", "--agent", "careful")
        assert evaluate(tmp_path, *agents, *more) == 2
        err = capsys.readouterr().err
        assert f"{tmp_path} holds another evaluation: " in err
        assert message in err
    assert (tmp_path / "episodes.jsonl").read_bytes() == before


def test_an_evaluation_goes_on_with_a_higher_limit(tmp_path, capsys):
    more, whole = tmp_path / "more", tmp_path / "whole"
    assert evaluate(more, "--agent", "random", "--limit", "2") == 0
    kept = rows(more)
    assert evaluate(more, "--agent", "random", "--limit", "4") == 0
    assert evaluate(more, "--agent", "random") == 0  # all
    assert rows(more)[:2] == kept
    assert len(rows(more)) == 6
    assert evaluate(whole, "--agent", "random") == 0
    assert without_date(more) == without_date(whole)
    capsys.readouterr()
    assert evaluate(more, "--agent", "random", "--limit", "4") == 2
    assert "limit was None, is now 4" in capsys.readouterr().err
    lower = {**SETTINGS, "limit": 2, "tasks_digest": digest(choose(LOADED, 2))}
    with Results(tmp_path / "other", lower):
        pass
    changed = [replace(task, job="Other") for task in LOADED]
    told = r"evaluation: the content of the tasks .* has changed; choose"
    with pytest.raises(TaskError, match=told):
        Results(tmp_path / "other", {**lower, "limit": 4}, changed).__enter__()


def test_tasks_that_changed_under_their_name_are_noticed():
    changed = [replace(LOADED[0], job="Another one."), *LOADED[1:]]
    assert digest(LOADED) != digest(changed)
    assert digest(LOADED) == digest(load_tasks(TASKS, "eval"))


def test_an_episode_without_a_verdict_is_named_and_graded_later(tmp_path, capsys):
    folder, cured = tmp_path / "out", tmp_path / "cured"
    spec = json.dumps({"name": "test_results:Moody", "cured": str(cured)})
    more = ("--agent", "careful", "--agent", "noop", "--rollouts", "2", "--judge", spec)
    more = (*more, "--best-of", "2")
    assert evaluate(folder, *more) == 1
    out, err = capsys.readouterr()
    assert "careful: no reward for 2 of 12 episodes" in err
    assert "000002, rollout 0: JudgeUnavailable: not today" in err
    assert re.search(r"without a reward +2 +0", out)
    assert re.search(r"tasks +5 of 6 +6\n", out)
    assert re.search(r"tasks, best of 2 +5 of 6 +6\n", out)
    found = read(folder)
    assert found["agents"]["careful"]["summary"]["episodes"] == 10
    assert found["agents"]["careful"]["statistics"]["failed"] == 2
    assert [one["rollout"] for one in found["agents"]["careful"]["failures"]] == [0, 1]
    (pair,) = found["comparisons"]
    assert (pair["tasks"], pair["of_tasks"]) == (5, 6), "only tasks with a number on both sides"
    first, second = [row for row in rows(folder) if not row["graded"]]
    for row in (first, second):
        assert row["failure"] == "JudgeUnavailable: not today"
        assert row["turns"] > 1
        assert (row["score"], row["verdict"]) == (None, None)

    cured.touch()
    count = len(rows(folder))
    assert evaluate(folder, *more) == 0
    late = rows(folder)[count:]
    assert [row["task_id"] for row in late] == [first["task_id"]] * 2
    assert [row["actions"] for row in late] == [first["actions"], second["actions"]]
    assert read(folder)["agents"]["careful"]["failures"] == []


def test_a_judge_that_can_grade_nothing_ends_the_evaluation_and_loses_nothing(tmp_path, capsys):
    folder, cured = tmp_path / "out", tmp_path / "cured"
    spec = json.dumps({"name": "test_results:Moody", "cured": str(cured), "for_ever": True})
    more = ("--agent", "careful", "--judge", spec, "--at-once", "1")
    assert evaluate(folder, *more) == 1
    assert f"not today; the same command resumes {folder}" in capsys.readouterr().err
    played = rows(folder)
    assert [row["graded"] for row in played] == [True, True, False]
    cured.touch()
    assert evaluate(folder, *more) == 0
    assert rows(folder)[3]["actions"] == played[2]["actions"], "not played, only graded"
    assert len(rows(folder)) == 7


def test_nothing_is_printed_if_nothing_has_a_number(tmp_path, capsys):
    spec = json.dumps({"name": "test_results:Moody", "cured": str(tmp_path / "no"), "on": ""})
    assert main(["eval", "--agent", "careful", "--tasks", TASKS, "--judge", spec]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "careful: no reward for 6 of 6 episodes" in err


def test_a_wrong_key_ends_the_evaluation_and_loses_nothing(tmp_path, capsys):
    with model(lambda turn: (REVIEW, SUBMIT)[turn]) as server:
        agent = f"m=scripted@{server.url}"
        more = ("--agent", agent, "--rollouts", "1", "--at-once", "1")
        server.script += [Say(REVIEW), Say(SUBMIT), Say(REVIEW), Say(status=401)]
        assert evaluate(tmp_path, *more) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert "401" in err
        assert f"the same command resumes {tmp_path}" in err
        assert len(rows(tmp_path)) == 1
        assert evaluate(tmp_path, *more) == 0
        assert len(rows(tmp_path)) == 6
        spec = {"model": "scripted", "base_url": server.url}
    assert read(tmp_path)["agents"]["m"]["spec"] == spec


def test_an_interrupt_prints_how_to_resume(tmp_path):
    with model(lambda turn: REVIEW, delay_s=0.1) as server:
        words = ["--agent", f"m=scripted@{server.url}", "--rollouts", "1", "--at-once", "1"]
        command = ["eval", "--tasks", TASKS, "--out", str(tmp_path), *words]
        # a background job of a shell ignores interrupts
        heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        code = f"import sys; from resume_gym.cli import main; sys.exit(main({command!r}))"
        child = subprocess.Popen(
            [sys.executable, "-c", heard + code], stderr=subprocess.PIPE, text=True
        )
        while len(server.requests) < 12:
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate()
    assert child.returncode == 130
    assert err == f"resume-gym: interrupted; the same command resumes {tmp_path}\n"
    assert len(rows(tmp_path)) == 1, "the one that had ended"


def test_a_folder_is_written_by_one_at_a_time(tmp_path):
    with (
        Results(tmp_path, SETTINGS),
        pytest.raises(TaskError, match="another process writes to this folder"),
        Results(tmp_path, SETTINGS),
    ):
        pass
    with Results(tmp_path, SETTINGS):
        pass


def test_a_broken_line_is_named(tmp_path):
    with Results(tmp_path, SETTINGS) as results:
        (tmp_path / "episodes.jsonl").write_text('{"agent": "a"}\n')
        with pytest.raises(TaskError, match=r"episodes.jsonl, line 1: expected an episode"):
            list(results.rows())


@pytest.mark.parametrize("name", ["episodes.jsonl", "evaluation.json"])
def test_other_files_are_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("mine\n")
    with (
        pytest.raises(TaskError, match=f"holds {name}, but no settings.json"),
        Results(tmp_path, SETTINGS),
    ):
        pass
    assert [one.name for one in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine\n"


def test_a_run_folder_is_rejected_for_an_evaluation(tmp_path, capsys):
    (tmp_path / "metrics.jsonl").touch()  # as a run has it before its first step
    assert evaluate(tmp_path) == 2
    assert capsys.readouterr().err.endswith("holds a training run; choose another folder\n")
    assert [one.name for one in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize("text", ["{", "[]", '{"env": "E"}', '{"agents": []}'])
def test_settings_of_something_else_are_named(tmp_path, text):
    (tmp_path / "settings.json").write_text(text)
    with (
        pytest.raises(TaskError, match=r"settings.json: expected settings of an evaluation"),
        Results(tmp_path, SETTINGS),
    ):
        pass
    assert (tmp_path / "settings.json").read_text() == text


def test_a_record_that_comes_out_differently_is_refused(tmp_path, capsys):
    assert evaluate(tmp_path, "--agent", "oracle") == 0
    first, *others = rows(tmp_path)
    del first["sha256"]
    earlier = "".join(json.dumps(row) + "\n" for row in (first, *others))
    (tmp_path / "episodes.jsonl").write_text(earlier)  # of a version without checksums
    assert evaluate(tmp_path, "--agent", "oracle") == 0
    changes = {"reward": -3.0}, {"reward": "high"}, {"graded": None, "reward": 0}
    file, rest = tmp_path / "episodes.jsonl", "".join(json.dumps(row) + "\n" for row in others)
    for change in changes:
        line = seal({**first, **change})
        file.write_text(f"{line}\n{rest}")
        assert evaluate(tmp_path, "--agent", "oracle") == 2
        assert "the replay ends with a different reward" in capsys.readouterr().err
    file.write_text(f"{line.replace('reward', 'rewards', 1)}\n{rest}")
    assert evaluate(tmp_path, "--agent", "oracle") == 2
    assert "the checksum does not match the content" in capsys.readouterr().err


def test_figures_that_the_replay_does_not_have_are_refused(tmp_path, capsys):
    assert evaluate(tmp_path, "--agent", "noop") == 0
    first, *others = map(json.dumps, rows(tmp_path))
    for change in (
        *({"turns": 10**300}, {"words": "4"}, {"lines": -1}, {"fits": 1}, {"score": 50.0}),
        *({"weakness": 3}, {"ledger": {}}, {"rollout": 10**300}, {"rollout": 1}, {"failure": 5}),
        {"graded": 1},
    ):
        changed = seal({**unseal(first.encode()), **change})
        (tmp_path / "episodes.jsonl").write_text("\n".join([changed, *others, ""]))
        assert evaluate(tmp_path, "--agent", "noop") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{next(iter(change))}: " in line
