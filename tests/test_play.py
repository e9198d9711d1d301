"""The game in the terminal, played by keys and clicks in the real app."""

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from pathlib import Path
from threading import Event

import pytest
from conftest import BEST, RESUME, make_task
from textual.pilot import Pilot
from textual.widgets import Button

from resume_gym import Rules, Session, Task, TaskError, Verdict, load_tasks, tool_call
from resume_gym.apps.play.app import PlayApp
from resume_gym.apps.play.episode import PlayedEpisode, start
from resume_gym.apps.play.form import ToolForm
from resume_gym.apps.play.page import Page
from resume_gym.apps.play.screens import Ending
from resume_gym.cli.play import _files, add_command
from resume_gym.episode.tasks import write_jsonl
from resume_gym.judges import JudgeUnavailable
from resume_gym.judges.rubric import RubricJudge
from resume_gym.support.command_line import Parser

Steps = Callable[[PlayApp, Pilot[None]], Awaitable[None]]
MINI = "mini-train-0-000005"
NOTES = "examples.release_notes:ReleaseNotes-v0"
sys.path.append(str(Path(__file__).parents[1]))


def played(episode: PlayedEpisode, steps: Steps, size: tuple[int, int] = (120, 40)) -> PlayApp:
    """The app after these steps."""

    async def run() -> PlayApp:
        app = PlayApp(episode)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(app, pilot)
        return app

    return asyncio.run(run())


def hand(tmp_path: Path, resume: str = RESUME, judge: str | None = None) -> PlayedEpisode:
    """An episode on a task of one's own."""
    write_jsonl(tmp_path / "hand.jsonl", [make_task(resume=resume)])
    return start("ResumeEdit-v0", tasks=str(tmp_path / "hand.jsonl"), judge=judge)


def bare(task: Task, *actions: str, rules: Rules | None = None) -> Session:
    """The same episode without a screen, graded by the rubric."""
    session = Session(task, rules)
    for action in actions:
        session.step(action)
    if session.needs_verdict:
        session.grade(RubricJudge().judge(task, session.text))
    return session


async def settled(app: PlayApp, pilot: Pilot[None]) -> None:
    """Wait for the judge."""
    await pilot.pause()
    await app.workers.wait_for_complete()
    await pilot.pause()


def shown(app: PlayApp) -> str:
    """The screen's text, as it is sent to the terminal."""
    rows = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in row) for row in rows)


def fill(app: PlayApp, old: str) -> None:
    """Put a text into the first field, as a click on its line does, and focus the next one."""
    app.query_one(ToolForm).fill(old)


async def submitted(app: PlayApp, pilot: Pilot[None]) -> None:
    """Play an edit and submit it."""
    fill(app, "Helped build")
    await pilot.press(*"Built", "ctrl+s", "ctrl+d")
    await settled(app, pilot)


async def click(app: PlayApp, pilot: Pilot[None], text: str) -> None:
    """Click the line of the page that has a text."""
    page = app.query_one(Page)
    page.highlighted = next(n for n, one in enumerate(page.options) if text in str(one.prompt))
    await pilot.pause()
    rows = shown(app).split("\n")
    row = next(n for n, one in enumerate(rows) if text in one)
    await pilot.click(offset=(page.content_region.x + 8, row))
    await pilot.pause()


def test_an_episode_by_keys_and_clicks_is_the_bare_episode() -> None:
    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+r")
        fill(app, "Was responsible for redesigning")
        await pilot.press(*"Redesigned")
        await pilot.click("#call")
        fill(app, "Had the job of updating")
        await pilot.press(*"Updated", "ctrl+s", "ctrl+d")
        await settled(app, pilot)

    app = played(start("ResumeEditMini-v0", task_id=MINI), steps)
    task = next(one for one in load_tasks("mini", "train") if one.task_id == MINI)
    expected = bare(
        task,
        tool_call("review"),
        tool_call("str_replace", old="Was responsible for redesigning", new="Redesigned"),
        tool_call("str_replace", old="Had the job of updating", new="Updated"),
        tool_call("submit"),
        rules=Rules(max_turns=6, page_lines=20),
    )
    assert app.episode.session.record() == expected.record()
    assert app.episode.outcome() == "reward +6.00, score 92 of 100"


def test_the_end_shows_ledger_and_reasons(tmp_path: Path) -> None:
    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        await submitted(app, pilot)
        told, session = re.sub(r"[\s│]+", " ", shown(app)), app.episode.session
        assert "weakness: weak_verbs" in told
        terms = {name: f"{name} {value:+.2f}" for name, value in session.ledger.items() if value}
        # reasons are folded in their column, so the first words must do
        for name in ("action_verbs", "preference"):
            terms[f"why {name}"] = " ".join(session.state.verdict.reasons[name].split()[:4])
        assert not [term for term in terms.values() if term not in told]

    played(hand(tmp_path, judge="rubric"), steps)


def test_an_undone_turn_does_not_count(tmp_path: Path) -> None:
    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        fill(app, "Helped build")
        await pilot.press(*"Ruined", "ctrl+s")
        assert "Ruined a booking" in shown(app)
        await pilot.click("#undo")
        await pilot.pause()
        assert "Helped build a booking" in shown(app)
        assert "undone; it does not count" in shown(app)
        await pilot.press("ctrl+d", "u", "ctrl+r", "ctrl+d")
        await settled(app, pilot)

    app = played(hand(tmp_path), steps)
    assert app.episode.undone == 2
    calls = tool_call("review"), tool_call("submit")
    assert app.episode.session.record() == bare(make_task(), *calls).record()


def test_a_call_that_would_fail_is_refused_and_keeps_what_was_typed(tmp_path: Path) -> None:
    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert "not called, so no turn is used: `old` is empty" in shown(app)
        await pilot.press("tab", *"Helped  build", "ctrl+s")
        await pilot.pause()
        assert "not called, so no turn is used: `old` is not in the resume" in shown(app)
        assert app.query_one(ToolForm).arguments == {"old": "Helped  build", "new": ""}

    assert played(hand(tmp_path), steps).episode.session.turns == 0


def test_tab_goes_to_the_form_and_letters_do_nothing_on_the_page(tmp_path: Path) -> None:
    focused = []

    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", *"jkx")
        assert app.query_one(ToolForm).arguments["old"] == ""
        for _ in range(10):
            focused.append(app.focused and app.focused.id)
            await pilot.press("tab")

    played(hand(tmp_path), steps)
    assert focused[0] == "page"
    assert focused[-2:] == ["given", "turn"]


@pytest.mark.slow
def test_the_form_says_how_often_text_occurs_and_what_a_call_would_do(tmp_path: Path) -> None:
    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        await pilot.click("TextField")
        for typed, wanted in (
            ("elpedx", ["occurs nowhere", "this fails: `old` is not in the resume"]),
            ("", []),
            ("elped", ["occurs 2 times", "this fails: `old` occurs 2 times, expected 1"]),
        ):
            await pilot.press("ctrl+a", "shift+end", "backspace", *typed)
            await pilot.pause()
            assert not [one for one in wanted if one not in shown(app)]
        await pilot.press("tab", *"andled", "tab", "backspace", "2")
        await pilot.pause()
        assert "this works: lines would be 11/55" in shown(app)
        assert app.episode.session.turns == 0
        await pilot.press("enter")

    session = played(hand(tmp_path), steps).episode.session
    call = tool_call("str_replace", old="elped", new="andled", count=2)
    assert session.record() == bare(make_task(), call).record()


def test_lines_are_taken_with_the_mouse_and_the_keys(tmp_path: Path) -> None:
    bullet = "- Worked on reports; Helped with audits\n"

    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        await click(app, pilot, "on-call")
        old = app.query_one(ToolForm).arguments["old"]
        assert old == "Was responsible for on-call, 语言 and café menus"
        app.query_one(Page).focus()
        await pilot.press("up", "enter")
        assert app.query_one(ToolForm).arguments["old"] == bullet[2:-1]
        app.query_one(Page).focus()
        await pilot.press("delete", "ctrl+s")
        app.query_one(Page).focus()
        await pilot.press("end", "delete", "ctrl+s")

    session = played(hand(tmp_path), steps).episode.session
    assert bullet not in session.text
    assert session.text.split("\n")[-2:] == [RESUME.split("\n")[-3], ""]


@pytest.mark.slow
def test_all_can_be_reached_in_a_window_of_any_size() -> None:
    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        job = " ".join(app.episode.session.task.job.split()[:4])
        fill(app, "Was responsible for redesigning")
        await pilot.press("x")
        for size in ((120, 40), (80, 24), (60, 20)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            screen = app.screen.region
            assert app.query_one(Page).size.height >= 8
            for button in app.query(Button):
                assert button.region in screen
                assert button.region.width >= len(str(button.label))
            assert app.query_one(ToolForm).region in screen
            assert (job in shown(app)) == (size[0] >= 100)
        await pilot.press("ctrl+o")
        await pilot.pause()
        assert job in shown(app)
        await pilot.press("ctrl+s", "ctrl+d")
        await settled(app, pilot)
        assert "reward +" in shown(app)
        assert [one for one in app.screen.query(Button) if one.display and one.region in screen]

    app = played(start("ResumeEditMini-v0", task_id=MINI), steps)
    assert app.episode.session.state.submitted


class Moody:
    """A judge that cannot be reached at first."""

    name = "moody"
    asked = 0

    def judge(self, task: Task, revised: str) -> Verdict:
        Moody.asked += 1
        if Moody.asked == 1:
            raise JudgeUnavailable("no [bold]connection\x1b[31m")
        return BEST


def test_a_judge_that_failed_can_be_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Moody, "asked", 0)

    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        await submitted(app, pilot)
        assert "no [bold]connection␛[31m" in shown(app)
        assert app.episode.outcome() == "reward without the verdict +2.25; not graded"
        assert app.episode.session.record()["graded"] is False
        await pilot.press("escape", "ctrl+g")
        await pilot.pause()
        assert Moody.asked == 1
        await pilot.click("#again")
        await settled(app, pilot)
        assert "gave no verdict" not in shown(app)

    app = played(hand(tmp_path, judge=f"{__name__}:Moody"), steps)
    assert app.episode.session.state.verdict == BEST
    assert app.episode.failure == ""


class Slow:
    """A judge that answers when it is let."""

    name = "slow"
    free = Event()

    def judge(self, task: Task, revised: str) -> Verdict:
        assert Slow.free.wait(60)
        return BEST


def test_a_turn_can_be_undone_while_the_judge_thinks(tmp_path: Path) -> None:
    Slow.free.clear()

    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        fill(app, "Helped build")
        await pilot.press(*"Built", "ctrl+s", "ctrl+d")
        await pilot.pause()
        assert "being asked" in shown(app)
        await pilot.press("u")
        await pilot.pause()
        assert not isinstance(app.screen, Ending)
        Slow.free.set()
        await settled(app, pilot)

    session = played(hand(tmp_path, judge=f"{__name__}:Slow"), steps).episode.session
    assert not session.done
    assert session.state.verdict is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"old": "ports;\r\n", "new": "ports;\n"}, "not in the resume"),
        ({"old": "Cargo\r\n", "new": "Cargo\n"}, "the edit changes nothing"),
        ({"old": "Cargo", "new": "x" * 1000}, "the action has 1"),
    ],
)
def test_a_preview_makes_the_checks_of_a_turn(arguments: dict[str, str], message: str) -> None:
    session = Session(make_task(resume="# Ada\nCargo\n"), Rules(max_chars=500))
    episode = PlayedEpisode(start("ResumeEditMini-v0", task_id=MINI).env, session)
    works, told = episode.preview("str_replace", arguments)
    assert not works
    assert message in told
    assert (session.turns, session.text) == (0, "# Ada\nCargo\n")
    assert episode.call("str_replace", arguments).observation.startswith("error (")


def test_an_empty_replacement_is_announced_as_a_deletion() -> None:
    episode = start("ResumeEditMini-v0", task_id=MINI)
    works, told = episode.preview("str_replace", {"old": "Had the job of ", "new": ""})
    assert works
    assert told.startswith("deletes the text; lines would be ")


def test_the_end_offers_another_task(tmp_path: Path) -> None:
    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        await submitted(app, pilot)
        assert "another task (n)" in shown(app)
        await pilot.press("n")

    app = played(hand(tmp_path), steps)
    assert app.return_value == "next"
    episode = start("ResumeEditMini-v0", task_id=MINI)
    assert not episode.following().session.done
    (tmp_path / "mine-2.json").touch()
    names = islice(_files(tmp_path / "mine.json"), 2)
    assert [path.name for path in names] == ["mine.json", "mine-3.json"]


@pytest.mark.slow
def test_another_domain_is_played_with_its_own_tools() -> None:
    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        session = app.episode.session
        entry = next(line[2:] for line in session.text.split("\n") if line.startswith("- "))
        await click(app, pilot, entry)
        assert "this works" in shown(app)
        await pilot.press("ctrl+s")
        await pilot.pause()
        await pilot.click(app.query("ContentTab").last())
        await pilot.pause()
        entry = next(line[2:] for line in session.text.split("\n") if line.startswith("- "))
        await click(app, pilot, entry)
        await pilot.press(*"Nowhere", "ctrl+s")
        await pilot.pause()
        assert "`section` must be one of Breaking, Added, Fixed" in shown(app)
        await pilot.press("ctrl+d")
        await settled(app, pilot)

    episode = start(NOTES, task_id="train-0")
    first = next(line[2:] for line in episode.session.text.split("\n") if line.startswith("- "))
    app = played(episode, steps)
    expected = type(episode.session)(episode.session.task, episode.session.rules)
    for action in (tool_call("drop", entry=first), tool_call("submit")):
        expected.step(action)
    assert episode.env.judge is not None
    expected.grade(episode.env.judge.judge(expected.task, expected.text))
    assert app.episode.session.record() == expected.record()


PLANTED = "[bold red]Hel[/]ped\x1b]0;owned\x07 [@click=app.quit]b[/]"
HOSTILE = RESUME.replace("Helped build", PLANTED)


def terminal(arguments: list[str], keys: Iterator[tuple[str, bytes]]) -> bytes:
    """What a program writes to a real terminal; keys are sent when their text has appeared."""
    code = (
        "import sys; from resume_gym.cli.play import add_command\n"
        "from resume_gym.support.command_line import Parser\n"
        "parser = Parser('resume-gym', ()); add_command(parser.add_subparsers())\n"
        "options = parser.parse_args(sys.argv[1:]); options.run(options)"
    )
    child, master = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(sys.executable, [sys.executable, "-c", code, *arguments])
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    written, since = b"", 0
    wanted, sent = next(keys)
    while select.select([master], [], [], 120)[0]:
        try:
            part = os.read(master, 65536)
        except OSError:  # the program has left
            break
        if not part:
            break
        written += part
        if wanted.encode() in written[since:]:
            since = len(written)
            os.write(master, sent)
            wanted, sent = next(keys, ("\0never", b""))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, written
    return written


def test_a_game_in_a_real_terminal(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "hand.jsonl", [make_task(resume=HOSTILE)])
    save = tmp_path / "mine.json"
    keys = [("Ada Moreno", b"\x12"), ("review: +1.00", b"\x04"), ("no judge was asked", b"q")]
    arguments = ["play", "--tasks", str(tmp_path / "hand.jsonl"), "--save", str(save)]
    written = terminal(arguments, iter(keys))
    assert b"\x1b]0;owned" not in written
    assert "ped␛]0;owned␇".encode() in written
    record = json.loads(save.read_text(encoding="utf-8"))
    assert record["undone"] == 0
    session = Session.replay(make_task(resume=HOSTILE), record)
    assert session.state.submitted
    assert session.record().items() <= record.items()
    assert b"hand-0: reward +1.75" in written


def test_a_seed_and_a_split_draw_the_task() -> None:
    first, again = (start("ResumeEditMini-v0", seed=4).session.task for _ in range(2))
    assert first == again
    assert start("ResumeEditMini-v0", split="eval", seed=0).session.task.split == "eval"
    held_out = "mini-eval-0-000000"
    assert start("ResumeEditMini-v0", task_id=held_out).session.task.task_id == held_out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--save", "no/such/folder/file"], "there is no folder"),
        (["--save", "."], "is a folder"),
        (["--save", __file__], "exists; name another file"),
        (["--env", "CartPole-v1"], "CartPole-v1 is not an editing environment"),
        (["--judge", "rubrik"], "did you mean 'rubric'"),
        (["--task-id", "x"], "task_id: 'x' is not among the"),
        ([], "needs a terminal"),
    ],
)
def test_the_command_refuses_before_the_game(options: list[str], told: str) -> None:
    parser = Parser("resume-gym", ())
    add_command(parser.add_subparsers())
    given = parser.parse_args(["play", *options])
    with pytest.raises(TaskError, match=told):
        given.run(given)


def test_the_edge_of_the_page_is_drawn_and_help_tells_the_rules(tmp_path: Path) -> None:
    async def steps(app: PlayApp, pilot: Pilot[None]) -> None:
        assert "the page ends here: 55 lines" in shown(app)
        assert "lines 60/55" in shown(app)
        await pilot.press("f1")
        await pilot.pause()
        assert "Undo removes the last turn" in shown(app)
        await pilot.press("escape", "ctrl+t")
        assert app.current_theme.dark is False

    long = RESUME + "\n".join(f"- Line {number}" for number in range(49)) + "\n"
    played(hand(tmp_path, long), steps, size=(120, 80))


def test_what_is_given_stands_beside_the_document(tmp_path: Path) -> None:
    heading, text = hand(tmp_path).sources
    assert (heading, text) == ("Job", make_task().job)
    heading, text = start(NOTES, task_id="train-0").sources
    assert heading == "Changes"
    assert "## Fixed" not in text
