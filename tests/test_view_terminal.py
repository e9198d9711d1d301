"""The browser of episodes in the terminal, in the real app; its data are tested in `test_view`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable
from viewer_runs import GROUP, STEPS, read, write_evaluation, write_run

from resume_gym.apps.viewer.terminal import EpisodeBrowser
from resume_gym.cli import main


def browse(
    folder: Path, steps: Callable[[EpisodeBrowser, Pilot[None]], Awaitable[None]]
) -> EpisodeBrowser:
    """The app after these steps."""

    async def run() -> EpisodeBrowser:
        app = EpisodeBrowser(read(folder))
        async with app.run_test(size=(240, 120)) as pilot:
            await pilot.pause()
            await steps(app, pilot)
        return app

    return asyncio.run(run())


def shown(app: EpisodeBrowser) -> str:
    """The screen's text, as it is sent to the terminal."""
    rows = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in row) for row in rows)


async def pressed(app: EpisodeBrowser, pilot: Pilot[None], *keys: str) -> str:
    await pilot.press(*keys)
    await pilot.pause()
    return shown(app)


def test_keys_lead_through_the_episodes_of_a_run_by_reward(tmp_path: Path) -> None:
    async def steps(app: EpisodeBrowser, pilot: Pilot[None]) -> None:
        table, total = app.query_one(DataTable), STEPS * GROUP
        rewards = [app.results.rows[number].reward or 0.0 for number in app.order]
        assert rewards == sorted(rewards, reverse=True)
        cells = [str(table.get_row_at(place)[2]) for place in range(table.row_count)]
        assert cells == [f"{reward:+.2f}" for reward in rewards]
        assert f"1/{total} " in await pressed(app, pilot, "enter")
        assert f"1/{total} " in await pressed(app, pilot, "p")  # there is none before
        assert f"3/{total} " in await pressed(app, pilot, "n", "n")
        assert f"2/{total} " in await pressed(app, pilot, "p")
        assert f"{total} episodes of" in await pressed(app, pilot, "escape")
        assert table.cursor_row == 1
        await pressed(app, pilot, "enter", "q")
        assert not app.is_running

    browse(write_run(tmp_path / "run"), steps)


def test_an_episode_has_turns_diffs_grades_and_the_document_and_no_control_code(
    tmp_path: Path,
) -> None:
    folder = write_evaluation(tmp_path / "result")
    file = folder / "episodes.jsonl"
    text = file.read_text().replace("- Helped build", r"- Helped\u001b]0;owned\u0007 [red]build")
    file.write_text(text)

    async def steps(app: EpisodeBrowser, pilot: Pilot[None]) -> None:
        told = await pressed(app, pilot, "enter")
        detail = app.results.episode(app.order[0])
        edit = next(turn for turn in detail["turns"] if turn["kind"] == "edit")
        wanted = [
            *("task-0", "good", "weak_verbs", "1. review document shown +1.00"),
            *("2. str_replace edited +0.25", "-- Helped␛]0;owned␇ [red]build", edit["status"]),
            *(f"{term['value']:+.2f} {term['term']}" for term in detail["ledger"] if term["value"]),
            *("clarity", "window.pwned", "the page ends here: 9 lines", "# Ada Moreno"),
        ]
        assert not [one for one in wanted if one not in told]
        assert not {"\x1b", "\x07", "\u202e"} & set(told)
        last = await pressed(app, pilot, "escape", "ctrl+end", "enter")
        assert "not graded" in last
        assert "no verdict: " in last

    browse(folder, steps)


def test_an_episode_that_cannot_be_read_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "result")

    async def steps(app: EpisodeBrowser, pilot: Pilot[None]) -> None:
        file = folder / "episodes.jsonl"
        file.write_bytes(b"x" + file.read_bytes()[1:])  # after the table was read
        assert "This episode cannot be read: " in await pressed(app, pilot, "enter")
        assert "1. review" in await pressed(app, pilot, "n")

    browse(folder, steps)


def test_the_command_refuses_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "a run")

    def told(folder: Path) -> str:
        assert main(["view", str(folder), "--terminal"]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert "view --terminal needs a terminal" in told(run)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert f"--terminal: choose one folder in {tmp_path}: a run" in told(tmp_path)
    monkeypatch.setitem(sys.modules, "textual", None)
    assert "view --terminal needs textual: pip install resume-gym[play]" in told(run)
