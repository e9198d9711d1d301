"""Rubric items by a language model: which pass, what is stored, and what the model sees."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import make_task
from loopback import Loopback, openai_server, system_text, user_text

from resume_gym.cli import main
from resume_gym.episode.sources import load_tasks
from resume_gym.episode.tasks import Fix, Item, Task, write_jsonl
from resume_gym.synthesis.rubrics import LEAST, VERSION, Written, examine

QUOTE = "booking pipeline for 12 harbours"
GOOD = [
    "says the outcome of the booking pipeline for the harbours",
    "says how large the audits were that the candidate led",
    "tells which reports were read by whom",
]
CODE = re.compile(r"The code is (\w+)\.")


def words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[^\W\d_]{5,}", text)}


def document(name: str, text: str) -> str:
    found = re.search(rf"<{name} \w+>\n(.*?)\n</{name} \w+>", text, re.DOTALL)
    assert found, name
    return re.sub(r"^\| ?", "", found[1], flags=re.MULTILINE)


class Model:
    """Writes items in turn; as a judge, it finds an item met where all of its long words are."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = [*answers]
        self.asked: list[str] = []

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        user = user_text(body)
        code = CODE.search(user)
        assert code
        if "You write a rubric" in system_text(body):
            self.asked.append(user)
            texts = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            return {"code": code[1], "items": [{"text": x, "quote": QUOTE} for x in texts]}
        before, after = (document(name, user) for name in ("ORIGINAL", "REVISED"))
        grades = []
        for number, line in enumerate(document("ITEMS", user).split("\n"), 1):
            wanted = words(line)
            new = wanted <= words(after) and not wanted <= words(before)
            told = next((x for x in re.findall(r"[^\n]+", after) if x not in before), "")
            quote = " ".join(told.split()[:4]) if new else ""
            grades.append({"number": number, "new": new, "quote": quote, "reason": "so"})
        return {"code": code[1], "items": grades}


@pytest.fixture
def tasks(tmp_path: Path) -> tuple[Task, ...]:
    made = [make_task(0), make_task(1, split="eval")]
    hidden = Fix("Worked on reports", "Rebuilt SECRETWORD reports", ("SECRETWORD is true",))
    rows = [Task(**{**one.to_row(), "fixes": (hidden,), "evidence": ()}) for one in made]
    write_jsonl(tmp_path / "tasks.jsonl", rows)
    return tuple(load_tasks(str(tmp_path / "tasks.jsonl")))


def run(folder: Path, model: Model, *more: str) -> tuple[int, Loopback]:
    with openai_server(model) as server:
        return command(folder, server, *more), server


def command(folder: Path, server: Loopback, *more: str) -> int:
    named = ["--writer", "openai", "--model", "local", "--base-url", server.url, *more]
    files = [f"{folder}/tasks.jsonl", "--out", f"{folder}/new.jsonl"]
    return main(["data", "rubrics", *files, *named])


@pytest.fixture(autouse=True)
def _local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "nokey")


def test_items_are_written_checked_and_stored(
    tasks: tuple[Task, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    met = "says that reports and audits were helped"  # all of its words are on the page
    status, server = run(tmp_path, Model([*GOOD, met]), "--width", "1")
    assert status == 0
    (first, second) = load_tasks(str(tmp_path / "new.jsonl"))
    assert [one.text for one in first.rubric] == GOOD
    assert {one.writer for one in first.rubric} == {f"openai/local, {VERSION}"}
    assert {(one.kind, one.weight) for one in first.rubric} == {("judged", 0.5)}
    assert (first.resume, second.split) == (tasks[0].resume, "eval")
    assert len(second.rubric) == LEAST
    assert "6 items for 2 of 2 tasks, 2 refusals" in capsys.readouterr().out
    assert "SECRETWORD" not in json.dumps(server.requests), "the model sees no planted fault"


def test_a_repeated_command_pays_for_nothing_twice(
    tasks: tuple[Task, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with openai_server(Model(GOOD)) as server:
        command(tmp_path, server)
        asked, made = len(server.requests), (tmp_path / "new.jsonl").read_bytes()
        assert command(tmp_path, server) == 2
        assert "expected a new file" in capsys.readouterr().err
        (tmp_path / "new.jsonl").unlink()
        assert command(tmp_path, server) == 0
        assert (tmp_path / "new.jsonl").read_bytes() == made
        assert len(server.requests) == asked


def test_the_model_is_told_what_was_refused_and_writes_others(
    tasks: tuple[Task, ...], tmp_path: Path
) -> None:
    listed = "says engineer Python pipelines opening"  # met by the job's words
    bad = ["mentions Python", "says that 40 ports use it", listed]
    model = Model([*bad, GOOD[0]], GOOD[1:], [*bad, GOOD[0]], GOOD[1:])
    status, _ = run(tmp_path, model, "--width", "1")
    assert status == 0
    (first, _) = load_tasks(str(tmp_path / "new.jsonl"))
    assert [one.text for one in first.rubric] == GOOD
    told = model.asked[1]
    assert "\"mentions Python\" can be met by words alone: it says 'mentions'" in told
    assert "a figure that neither page nor job has: 40" in told
    assert f'"{listed}" is met by a list of the job\'s words' in told
    assert f"write others:\n- {GOOD[0]}" in told


def test_a_task_without_three_items_stays_as_it_was(
    tasks: tuple[Task, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model(GOOD[:2], GOOD[:2], GOOD)
    status, server = run(tmp_path, model, "--attempts", "2", "--width", "1")
    assert status == 0
    first, second = load_tasks(str(tmp_path / "new.jsonl"))
    assert first == tasks[0]
    assert len(second.rubric) == LEAST
    assert "hand-0: no rubric" in capsys.readouterr().err
    writing = [one for one in server.requests if "You write a rubric" in system_text(one)]
    assert len(writing) == 3


def test_nothing_is_written_without_items_so_the_command_can_be_repeated(
    tasks: tuple[Task, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, server = run(tmp_path, Model(GOOD[:2]), "--attempts", "2")
    assert status == 1
    assert not (tmp_path / "new.jsonl").exists()
    assert "0 items for 0 of 2 tasks, 0 refusals; nothing is written" in capsys.readouterr().out
    writing = [one for one in server.requests if "You write a rubric" in system_text(one)]
    assert len(writing) == 2 * len(tasks)
    assert run(tmp_path, Model(GOOD), "--attempts", "3")[0] == 0


@pytest.mark.parametrize(
    ("text", "quote", "fault"),
    [
        (GOOD[0], QUOTE, ""),
        (GOOD[0], "a pipeline for 13 harbours", "quotes words that the page does not have"),
        ("says that 13 harbours use it", QUOTE, "has a figure that neither page nor job has: 13"),
        ("says that 12 harbours use it", QUOTE, ""),
        ("says how Kubernetes helped", QUOTE, "has a name that neither page nor job has: Kub"),
        ("says how Python helped", QUOTE, ""),
        ("The page includes the word pipelines", QUOTE, "can be met by words alone"),
        ("names the harbours", QUOTE, "can be met by words alone: it says 'names'"),
        ("Says of which use it was", QUOTE, ""),
        ("two\u2028lines", QUOTE, ""),
        ("preference", QUOTE, "text: expected no name of a verdict field"),
        (" ", QUOTE, "text: expected one line of 1"),
    ],
)
def test_code_refuses(text: str, quote: str, fault: str) -> None:
    items, faults = examine(make_task(), [Written(text=text, quote=quote)], "m")
    assert len(items) + len(faults) == 1
    assert fault in "".join(faults)
    assert bool(items) == (not fault)


def test_an_item_keeps_its_writer_in_a_file(tmp_path: Path) -> None:
    task = make_task()
    row = task.to_row()
    assert "rubric" not in row
    plain, written = Item("50", 1, "figure"), Item("says why", 1, "judged", "a model")
    for items in ((plain,), (plain, written)):
        both = Task(**{**row, "rubric": items, "fixes": (), "evidence": ()})
        stored = both.to_row()["rubric"]
        assert [one.get("writer") for one in stored] == [one.writer or None for one in items]
        assert Task.from_row(json.loads(json.dumps(both.to_row()))) == both


def test_an_option_of_the_client_that_the_command_sets_is_refused(
    tasks: tuple[Task, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, server = run(tmp_path, Model(GOOD), "--client", '{"store": "x"}')
    assert (status, len(server.requests)) == (2, 0)
    assert "--client: store is set by another option" in capsys.readouterr().err
