"""`resume-gym play`, by commands from a pipe and in a real terminal."""

import builtins
import os
import pty
import select
import sys
from collections.abc import Callable, Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from conftest import BEST, RESUME, make_task

from resume_gym import Rules, Session, Task, Verdict, load_tasks, tool_call
from resume_gym.agents import AGENTS
from resume_gym.cli import main
from resume_gym.episode.tasks import write_jsonl
from resume_gym.judges import JudgeUnavailable
from resume_gym.judges.rubric import RubricJudge

MINI = "mini-train-0-000005"
MINI_RULES = Rules(max_turns=6, page_lines=20)
NOTES = "examples.release_notes:ReleaseNotes-v0"
sys.path.append(str(Path(__file__).parents[1]))

Play = Callable[..., str]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Play:
    """Play with these lines as stdin; return stdout."""

    def run(lines: Sequence[str], *options: str, status: int = 0) -> str:
        text = "".join(line + "\n" for line in lines).encode()
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text)))
        monkeypatch.setenv("COLUMNS", "200")
        assert main(["play", *options]) == status
        return capsys.readouterr().out

    return run


@pytest.fixture
def mine(tmp_path: Path) -> Callable[[str], str]:
    """Write a file with a task on a resume."""

    def write(resume: str = RESUME) -> str:
        write_jsonl(tmp_path / "hand.jsonl", [make_task(resume=resume)])
        return str(tmp_path / "hand.jsonl")

    return write


def mini(*actions: str) -> Session:
    """The mini task after these actions, graded by the rubric."""
    task = next(one for one in load_tasks("mini", "train") if one.task_id == MINI)
    return graded(Session(task, MINI_RULES), *actions)


def graded(session: Session, *actions: str) -> Session:
    for action in actions:
        session.step(action)
    session.grade(RubricJudge().judge(session.task, session.text))
    return session


def floor() -> float:
    """The reward of the agent `floor` on the mini task."""
    task = next(one for one in load_tasks("mini", "train") if one.task_id == MINI)
    session, agent = Session(task, MINI_RULES), AGENTS["floor"](0)
    while not session.done:
        session.step(agent(session))
    return graded(session).reward


def test_an_episode_ends_with_its_ledger_and_the_floor(play: Play) -> None:
    lines = ["review", "edit", "Performed audits of", "Audited", "submit"]
    told = play(lines, "--env", "ResumeEditMini-v0", "--task-id", MINI)
    edit = tool_call("str_replace", old="Performed audits of", new="Audited")
    expected = mini(tool_call("review"), edit, tool_call("submit"))
    assert expected.verdict
    for name, value in expected.ledger.items():
        shown = bool(value) or name in expected.weights
        assert (f"{value:+6.2f}  {name}" in told) == shown, name
    for name, reason in expected.verdict.reasons.items():
        assert f"  {name}: {reason}\n" in told
    *_, last, least = told.splitlines()
    assert last == f"{expected.reward:+6.2f}  reward, score {expected.score:.0f} of 100"
    assert least.startswith(f"{floor():+6.2f}  floor")
    assert "+- Audited travel expense reports" in told
    assert expected.task.job in told


def test_answers_of_several_lines_and_whole_calls(play: Play, mine: Callable[[], str]) -> None:
    bullet = "- Worked on reports; Helped with audits"
    call = tool_call("str_replace", old="elp", new="ELP", count=2).split("\n")
    told = play([*call, "e", bullet.replace("elp", "ELP") + "\\", "", "", "s"], "--tasks", mine())
    assert "edits 2 (0 failed)" in told
    assert "-- Worked on reports; HELPed with audits\nlines: 10/55" in told
    assert "- HELPed build a booking pipeline" in told


@pytest.mark.parametrize("lines", [[""], ["s"], ["rewrite"], ["edit", ""]])
def test_what_is_no_call_costs_no_turn(
    lines: list[str], play: Play, mine: Callable[[], str]
) -> None:
    told = play([*lines, "review"], "--tasks", mine())
    assert told.count("The start of a command is enough") == 2
    assert "turn 1/10" in told


def test_a_failed_call_costs_a_turn(play: Play, mine: Callable[[], str]) -> None:
    told = play(["edit", "nowhere", "x", "<tool_call>{</tool_call>"], "--tasks", mine())
    assert "error (not_found)" in told
    assert "error (bad_json)" in told
    assert "turn 2/10" in told
    assert " -0.25  failed_edit\n -0.25  malformed\n -0.50  reward, not submitted\n" in told


def test_an_unchanged_resume_is_not_judged(play: Play, mine: Callable[[], str]) -> None:
    told = play(["submit"], "--tasks", mine())
    assert " -1.00  hallucination: not judged, since nothing was changed\n" in told
    assert "floor" not in told


def test_ctrl_c_shows_the_ledger(
    play: Play, mine: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["review"])

    def type_(prompt: str = "") -> str:
        for answer in answers:
            return answer
        raise KeyboardInterrupt

    monkeypatch.setattr(builtins, "input", type_)
    assert play([], "--tasks", mine(), status=130).endswith(" +1.00  reward, not submitted\n")


class Moody:
    """A judge that cannot be reached at first."""

    name = "moody"
    asked = 0

    def judge(self, task: Task, revised: str) -> Verdict:
        Moody.asked += 1
        if Moody.asked == 1:
            raise JudgeUnavailable("no connection")
        return BEST


@pytest.mark.parametrize(
    ("answers", "wanted"), [([""], "+5.25  reward, score"), ([], "+2.25  reward, not graded")]
)
def test_a_judge_that_failed_can_be_asked_again(
    answers: list[str],
    wanted: str,
    play: Play,
    mine: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Moody, "asked", 0)
    lines = ["edit", "Helped build", "Built", "sub", *answers]
    assert wanted in play(lines, "--tasks", mine(), "--judge", f"{__name__}:Moody")


@pytest.mark.parametrize(
    ("env", "lines", "wanted"),
    [
        ("ResumeEditEvidence-v0", ["search", "zebra"], "\nno passage matches\n"),
        ("ResumeEditFeedback-v0", ["feedback"], "\nfeedback: "),
        (NOTES, ["move", "(#518)", "Nowhere"], "`section` must be one of Breaking, Added, Fixed"),
        (NOTES, ["drop", "(#518)", "submit"], " -1.00  coverage\n"),
    ],
)
def test_the_commands_are_the_tools_of_the_environment(
    env: str, lines: list[str], wanted: str, play: Play
) -> None:
    told = play(lines, "--env", env, "--seed", "1")
    assert wanted in told
    tool = lines[0]
    assert f"\n{tool} " in told


def test_no_control_code_reaches_the_terminal(play: Play, mine: Callable[[str], str]) -> None:
    planted = "[bold red]Hel[/]ped\x1b]0;owned\x07 \u202e"
    told = play(["review"], "--tasks", mine(RESUME.replace("Helped build", planted)))
    assert "[bold red]Hel[/]ped␛]0;owned␇ �" in told
    assert not {"\x1b", "\x07", "\u202e"} & set(told)


def test_a_split_and_a_seed_draw_the_task(play: Play) -> None:
    env = ("--env", "ResumeEditMini-v0")
    assert play([], *env, "--seed", "4") == play([], *env, "--seed", "4")
    assert "mini-eval-" in play([], *env, "--split", "eval")
    assert "mini-eval-0-000000" in play([], *env, "--task-id", "mini-eval-0-000000")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--env", "CartPole-v1"], "CartPole-v1 is not an editing environment"),
        (["--judge", "rubrik"], "did you mean 'rubric'"),
        (["--task-id", "x"], "task_id: 'x' is not among the"),
        (["--seed", "-1"], "greater or equal to zero"),
    ],
)
def test_the_command_refuses_before_the_game(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", *options]) == 2
    assert told in capsys.readouterr().err


def test_a_game_in_a_real_terminal() -> None:
    child, master = pty.fork()
    if child == 0:
        words = ["play", "--env", "ResumeEditMini-v0", "--task-id", MINI]
        os.execv(sys.executable, [sys.executable, "-m", "resume_gym", *words])
    keys = iter([b"rex\x7fv\n", b"\x04"])  # the rubout key corrects a letter; Ctrl-D quits
    written = b""
    while select.select([master], [], [], 120)[0]:
        try:
            part = os.read(master, 65536)
        except OSError:  # the program has ended
            break
        written += part
        if not part:
            break
        if written.endswith(b"> "):
            os.write(master, next(keys))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, written
    assert b"+1.00  reward, not submitted" in written
