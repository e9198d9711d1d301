import re
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
from conftest import make_task

from resume_gym import Fix, load_tasks
from resume_gym.cli import data_push
from resume_gym.corpus import hub
from resume_gym.corpus.card import make_card, write_card
from resume_gym.episode.tasks import Evidence, Item, Task, write_jsonl
from resume_gym.support.command_line import Parser
from resume_gym.support.user_errors import TaskError, install

datasets.disable_progress_bars()

TASKS = (
    Task(
        "b",
        "job\u2028 of 語",
        "# A\n\n- b\n",
        "too_long",
        fixes=(Fix("\n- b", ""), Fix("A", "B", ("One.", "Two."))),
        persona={"zeta": "1", "name": "Ada", "": ""},
        evidence=(Evidence("portfolio", "Work", "I did.\n"), Evidence("project_notes", "", "")),
    ),
    Task("a", "", "🙂\t", "no_metrics", rubric=(Item("Has a degree", -1, "judged"),)),
    make_task(7, split="eval"),
)
ROW = {"task_id": "a", "job": "A job", "resume": "# A\n- b\n", "weakness": "weak_verbs"}


def saved(folder: Path, *rows: dict[str, Any], split: str | None = None) -> str:
    """A folder as somebody else may have made it."""
    made = datasets.Dataset.from_list(list(rows))
    (datasets.DatasetDict({split: made}) if split else made).save_to_disk(folder)
    return str(folder)


def test_odd_tasks_survive_exactly(tmp_path: Path) -> None:
    hub.push(TASKS, str(tmp_path), "card")
    loaded = hub.load(str(tmp_path))
    assert loaded == TASKS
    assert list(loaded[0].persona) == ["zeta", "name", ""]
    assert (tmp_path / "README.md").read_text() == "card"


def test_the_folder_is_what_users_of_datasets_expect(tmp_path: Path) -> None:
    hub.push(TASKS, str(tmp_path), "card")
    data = datasets.load_from_disk(str(tmp_path))
    assert {name: len(rows) for name, rows in data.items()} == {"train": 2, "test": 1}
    assert "split" not in data["train"].column_names
    row = data["train"][0]
    assert row["fixes"][1]["facts"] == ["One.", "Two."]
    assert row["persona"]["name"] == "Ada"
    assert data["train"].features == data["test"].features


@pytest.mark.parametrize(
    ("split", "becomes"),
    [(None, "train"), ("train", "train"), ("test", "eval"), ("validation", "eval")],
)
def test_folders_of_others(split: str | None, becomes: str, tmp_path: Path) -> None:
    (task,) = hub.load(saved(tmp_path, ROW, split=split))
    assert (task.task_id, task.split, task.fixes) == ("a", becomes, ())


def test_a_field_split_counts_more_than_the_name(tmp_path: Path) -> None:
    rows = ({**ROW, "split": "eval"}, {**ROW, "task_id": "b", "split": "train"})
    assert [task.task_id for task in hub.load(saved(tmp_path, *rows))] == ["b", "a"]


@pytest.mark.parametrize(
    ("row", "split", "says"),
    [
        ({**ROW, "task_id": "b", "weakness": "typos"}, "test", "split test, row 1: weakness: exp"),
        (ROW, "train", "split train: 'a' occurs twice"),
        ({**ROW, "task_id": "b"}, "holdout", "expected only the splits train, test.*got 'holdout'"),
    ],
)
def test_bad_rows_are_named(row: dict[str, Any], split: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=says):
        hub.load(saved(tmp_path, ROW, row, split=split))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("hf://owner", "expected hf://OWNER/NAME or hf://OWNER/NAME:CONFIG, got 'hf://owner'"),
        ("hf://a/b/c", "expected hf://OWNER/NAME"),
        ("missing", "missing: Directory missing not found"),
    ],
)
def test_bad_sources_are_refused(
    source: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskError, match=says):
        hub.load(source)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(TaskError, match="expected a folder that is empty or does not exist"):
        hub.push(TASKS, str(tmp_path), "card")
    with pytest.raises(TaskError, match="there are no tasks to write"):
        hub.push([], str(tmp_path / "new"), "card")
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(install("data"))):
        hub.load("anything")


def test_our_card_keeps_what_the_hub_needs() -> None:
    there = "---\nlicense: mit\nconfigs:\n- config_name: default\n  data_files: x\n---\nold text"
    ours = '---\nlicense: "apache-2.0"\npretty_name: "Mine"\n---\n\n# Mine\n'
    merged = hub.merge_cards(there, ours)
    assert merged.data.license == "apache-2.0"
    assert merged.data.configs == [{"config_name": "default", "data_files": "x"}]
    assert "# Mine" in str(merged)
    assert "old text" not in str(merged)


def command(*arguments: str) -> int:
    parser = Parser("resume-gym", ())
    data_push.add_command(parser.add_subparsers())
    options = parser.parse_args(["push", *arguments])
    status: int = options.run(options)
    return status


def test_the_command_takes_the_card_that_lies_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.jsonl"
    write_jsonl(file, list(TASKS))
    assert command(str(file), "--to", str(tmp_path / "one")) == 0
    assert capsys.readouterr().out == f"3 tasks in {tmp_path / 'one'}\n"
    assert "# mine" in (tmp_path / "one" / "README.md").read_text()
    (tmp_path / "mine.card.md").write_text("# My own")
    assert command(str(file), "--to", str(tmp_path / "two")) == 0
    assert (tmp_path / "two" / "README.md").read_text() == "# My own"
    assert hub.load(str(tmp_path / "two")) == TASKS


def test_a_card_of_other_tasks_is_not_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, tasks = tmp_path / "mine.jsonl", list(load_tasks("mini", "train")[:4])
    write_jsonl(file, tasks)
    card = write_card(file, tasks, {"seed": 7, "page_lines": 20})
    command(str(file), "--to", str(tmp_path / "one"))
    assert (tmp_path / "one" / "README.md").read_text() == card.read_text()
    assert capsys.readouterr().err == ""
    cut = tmp_path / "cut.jsonl"
    write_jsonl(cut, tasks[:2])
    card.rename(tmp_path / "cut.card.md")
    command(str(cut), "--to", str(tmp_path / "two"), "--page-lines", "20")
    assert "cut.card.md describes other tasks than" in capsys.readouterr().err
    published = (tmp_path / "two" / "README.md").read_text()
    assert published == make_card("cut", tasks[:2], {"page_lines": 20})
    assert "| all | 2 | 0 |" in published
