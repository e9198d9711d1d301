from dataclasses import replace

import numpy as np
import pytest
from conftest import RESUME, make_task

from resume_gym import Rules, Session, tool_call
from resume_gym.env import ResumeEditEnv
from resume_gym.episode import render

REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
BUILT = tool_call("str_replace", old="Helped build", new="Built")


def after(*actions: str, page_lines: int = 20, resume: str = RESUME) -> Session:
    session = Session(make_task(resume=resume), Rules(page_lines=page_lines, page_width=60))
    for action in actions:
        session.step(action)
    return session


def test_ansi_numbers_the_lines_of_the_page_and_shows_the_last_diff() -> None:
    rows = render.ansi(after(BUILT)).split("\n")
    assert rows[0] == "hand-0 | lines 11/20 | turn 1/10 | edits 1 (0 failed) | reward +0.25"
    assert rows[2:4] == ["   1  # Ada Moreno", "   2  ada@example.com | Lisbon"]
    assert rows[7] == "   6  - Built a booking pipeline for 12 harbours"
    assert "+- Built a booking pipeline for 12 harbours" in rows
    assert not [row for row in rows if "the page ends here" in row]


def test_ansi_counts_wrapped_lines_and_marks_the_end_of_the_page() -> None:
    rows = render.ansi(after(resume="word " * 30, page_lines=2)).split("\n")
    assert [row[:9] for row in rows[2:6]] == ["   1  wor", "   2  wor", "===== the", "   3  wor"]


def test_ansi_shows_an_error_and_the_end() -> None:
    assert "error (no_call)" in render.ansi(after("hello"))
    assert render.ansi(after(SUBMIT)).split("\n")[0].endswith("| submitted")
    assert render.ansi(after(*["x"] * 10)).split("\n")[0].endswith("| out of turns")


def test_human_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    render.human(after(tool_call("str_replace", old="Helped build", new="[red]"), page_lines=9))
    printed = capsys.readouterr().out
    for text in (" 6 - [red] a booking", "the page ends here: 9 lines", "+- [red]", "edits 1"):
        assert text in printed


def test_a_terminal_gets_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(replace(make_task(), task_id="\x1b[31mhand"), Rules(page_lines=20))
    session.step(tool_call("str_replace", old="Helped build", new="\x1b[31mBuilt\x07 \x9b2J"))
    assert "\x1b[31m" in session.resume, "the resume itself stays as the agent wrote it"
    render.human(session)
    for shown in (render.ansi(session), capsys.readouterr().out):
        assert "\u241b[31mBuilt\u2407 \ufffd2J" in shown
        assert not [one for one in ("\x1b[31m", "\x07", "\x9b") if one in shown]


@pytest.mark.parametrize(
    "resume", ["", "\n", RESUME, RESUME * 40, "語🙂\u0301\t\u2028é" * 50, "W" * 9000 + "\n- x"]
)
def test_the_picture_has_one_shape_whatever_the_resume(resume: str) -> None:
    picture = render.rgb_array(after("hello", REVIEW, resume=resume))
    assert picture.shape == render.rgb_array(after()).shape
    assert picture.dtype == np.uint8
    assert picture.shape[0] % 2 == picture.shape[1] % 2 == 0
    assert picture.std() > 0


def test_overflow_is_red() -> None:
    def reds(session: Session) -> int:
        red, green, _ = np.moveaxis(render.rgb_array(session).astype(int), -1, 0)
        return int((red > green + 80).sum())

    assert reds(after(page_lines=11)) == 0
    assert reds(after(page_lines=10)) > 20


def test_render_before_reset_or_without_a_mode_warns() -> None:
    for mode in (None, "ansi"):
        with pytest.warns(UserWarning, match="expected a render_mode and an earlier call of reset"):
            assert ResumeEditEnv(render_mode=mode).render() is None
