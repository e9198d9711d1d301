"""The heartbeat of a run, what it says of an end, and what is counted across restarts."""

import errno
import io
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jobs import start

from learners.config import Config
from learners.run.folder import RunFolder
from learners.run.heartbeat import Heartbeat
from learners.training import checkpoint
from resume_gym.evaluation import Returns

BUSY = """
import hashlib, sys
from pathlib import Path
from learners.run.folder import RunFolder
from learners.run.heartbeat import Heartbeat

run = RunFolder(Path(sys.argv[1]))
run.append({"step": 1, "reward": 0.0})
with Heartbeat(run, 9, 0.05) as heart:
    heart.now("train", 2)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # minutes in which Python hears no signal
"""


def test_the_time_of_a_run_is_that_of_its_heartbeat(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.append({"step": 1, "reward": 0.0, "seconds_rollout": 60.0, "seconds_total": 360.0})
    assert str(run.duration()) == "0:06:00"
    with Heartbeat(run, 1, 0) as heart:
        heart._began -= 20
        assert str(run.duration()) == "0:06:00"
        heart.save()
        assert str(run.duration()) == "0:06:20"


def beat(run: RunFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.path / "heartbeat.json").read_text())
    return found


def test_a_heartbeat_says_what_is_running_and_why_it_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, printed = RunFolder(tmp_path), ""
    with Heartbeat(run, 9, 0.02) as heart:
        heart.now("train", 3)
        while "step 3/9: training (0 s), then publishing the weights\n" not in printed:
            time.sleep(0.01)
            printed += capsys.readouterr().out
        while (found := beat(run))["now"] != "training":
            time.sleep(0.01)
        assert (found["state"], found["why"]) == ("running", "")
        assert (found["step"], found["steps"], found["next"]) == (3, 9, "publishing the weights")
        heart.end("goal", "the goal is reached")
    assert (beat(run)["state"], beat(run)["end"]) == ("ended", "goal")
    assert beat(run)["why"] == "the goal is reached"


def test_a_heartbeat_counts_the_episodes_of_evaluations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, printed = RunFolder(tmp_path), ""
    with Heartbeat(run, 9, 0.02) as heart:
        heart.now("before", 0)
        heart.evaluation = lambda: "evaluation: 12 of 40 episodes"
        while "step 0/9: evaluation: 12 of 40 episodes (0 s), then step 1\n" not in printed:
            time.sleep(0.01)
            printed += capsys.readouterr().out
        assert beat(run)["now"] == "evaluation: 12 of 40 episodes"
        heart.now("train", 2)  # an evaluation during training
        while beat(run)["now"] != "evaluation: 12 of 40 episodes; training":
            time.sleep(0.01)
        heart.evaluation = lambda: ""
        while beat(run)["now"] != "training":
            time.sleep(0.01)


class Screen(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_live_line_that_disappears_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", screen)
    with Heartbeat(RunFolder(tmp_path), 9, 0.02) as heart:
        heart.now("before", 0)
        heart.evaluation = lambda: "evaluation: 12 of 40 episodes"
        while "step 0/9: evaluation: 12 of 40 episodes (0 s), then step 1" not in screen.getvalue():
            time.sleep(0.01)
        heart.say("step 1/9")
    erased = screen.getvalue().rpartition("then step 1")[2]
    assert erased.endswith("\x1b[2K")


def test_no_heartbeat_is_printed_at_an_interval_of_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Heartbeat(RunFolder(tmp_path), 9, 0):
        time.sleep(0.05)
    assert capsys.readouterr().out == ""


def test_an_error_is_in_the_journal_and_in_the_heartbeat(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(OSError, match="no space"), Heartbeat(run, 9, 0):
        raise OSError("no space\nleft")
    assert (beat(run)["state"], beat(run)["why"]) == ("stopped", "no space left")
    assert "Stopped: no space left" in (tmp_path / "journal.md").read_text()


def test_a_run_that_a_full_disk_ends_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, replace = RunFolder(tmp_path), Path.replace

    def full(self: Path, target: Path) -> Path:
        if list(run.checkpoints.glob("*")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(self, target)

    def save_and_write() -> None:
        (checkpoint.begin(run.checkpoints, 4) / "weights").write_text("half")
        run.write_result("before", Returns(8, 2, 1.5, 0.5))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"), Heartbeat(run, 9, 0):
        save_and_write()
    assert beat(run)["state"] == "stopped"
    assert "No space left on device" in beat(run)["why"]
    assert list(run.checkpoints.iterdir()) == []


def test_ctrl_c_is_answered_while_python_hears_no_signal_and_the_second_ends_at_once(
    tmp_path: Path,
) -> None:
    job = start([sys.executable, "-c", BUSY, str(tmp_path)])
    assert job.stderr
    assert any("training" in line for line in job.stdout or ()), "it ended early"
    job.send_signal(signal.SIGINT)
    told = job.stderr.readline()
    kept = "no step is saved yet; steps 1 to 2 will be repeated"
    assert told == f"resume-gym: interrupted: {kept}; the same command resumes {tmp_path}\n"
    job.send_signal(signal.SIGINT)
    _, rest = job.communicate(timeout=60)
    assert (job.returncode, rest) == (130, "")
    assert (beat(RunFolder(tmp_path))["state"]) == "interrupted"
    assert f"Interrupted: {kept}." in (tmp_path / "journal.md").read_text()


def test_what_is_kept_depends_on_the_newest_checkpoint(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.kept(9) == "no step is saved yet; step 1 will be repeated"
    checkpoint.begin(run.checkpoints, 2)
    checkpoint.finish(run.checkpoints, 2)
    for step in (1, 2):
        run.append({"step": step, "reward": 0.0})
    assert run.kept(9) == "steps up to 2 are saved; step 3 will be repeated"
    assert run.kept(2) == "steps up to 2 are saved"
    assert not run.begun(2)
    run.append({"step": 3, "reward": 0.0})
    assert run.kept(9) == "steps up to 2 are saved; steps 3 to 4 will be repeated"
    assert list(run.begun(2)) == [3]
    run.trajectories.path(4).touch()
    assert list(run.begun(2)) == [3, 4]


def test_time_and_cost_go_on_after_a_restart_and_include_steps_that_are_repeated(
    tmp_path: Path,
) -> None:
    run = RunFolder(tmp_path)
    with Heartbeat(run, 9, 0) as heart:
        first = heart.totals({"reward": 1.0, "judge_tokens": 70.0, "judge_dollars": 2.0})
    assert (first["judge_tokens"], first["judge_dollars"]) == (70, 2)
    run.append({"step": 1, "reward": 0.0, **first, "seconds_total": 1000.0})
    with Heartbeat(run, 9, 0) as heart:
        run.truncate(0)  # the step is repeated
        second = heart.totals({"judge_dollars": 0.5})
        assert 1000 < second["seconds_total"] < 2000
        assert second["judge_dollars"] == 2.5
        assert "judge_tokens" not in second
    # what a process finds that was killed before its first step
    totals = run.totals()
    assert totals == beat(run)["totals"]
    assert totals["seconds_total"] > 1000
    assert totals["judge_dollars"] == 2.5
    assert "judge_tokens" not in totals, "what is unknown stays unknown"
    with Heartbeat(run, 9, 0) as heart:
        third = heart.totals({"judge_tokens": 5.0, "judge_dollars": 1.0})
        assert third["judge_dollars"] == 3.5
        assert "judge_tokens" not in third
    for damage in ("{", "[]", *(f'{{"totals": {{"seconds_total": {n}}}}}' for n in ('""', "NaN"))):
        (tmp_path / "heartbeat.json").write_text(damage)
        assert run.totals()["seconds_total"] == 0


def test_goal_and_budget_may_change_when_a_run_is_resumed(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "job")
    run.configure(Config(name="job", runs=tmp_path, steps=3, budget="tokens <= 50"))
    run.append({"step": 1, "reward": 0.0, "sampled_tokens": 60})
    end = run.ended()
    assert end
    assert end.text == "the budget is used up: 60 tokens, expected <= 50"
    run.configure(Config(name="job", runs=tmp_path, steps=3, budget="tokens <= 60"))
    assert run.ended() is None
    assert run.unusual() == f"name 'job', runs '{tmp_path}', steps 3, budget 'tokens <= 60'"
