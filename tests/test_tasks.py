import json
from pathlib import Path
from typing import Any

import pytest
from conftest import RESUME, make_task

from resume_gym import Fix, Task, TaskError, load_tasks
from resume_gym.episode.tasks import read_jsonl, write_jsonl

ROW = {"task_id": "a", "job": "A job", "resume": "# A\n- b\n", "weakness": "weak_verbs"}


def jsonl(path: Path, *rows: Any) -> Path:
    path = path / "tasks.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_tasks_survive_a_file(tmp_path: Path) -> None:
    fixes = (Fix("Helped", "Led", ("Ada led it.", "語")), Fix("- b", ""))
    tasks = [
        Task("a", "job", RESUME, "too_long", "eval", fixes, {"name": "Ada"}),
        Task("b", "job\u2028 with \x85 odd separators", "🙂\t", "no_metrics"),
    ]
    write_jsonl(tmp_path / "tasks.jsonl", tasks)
    assert read_jsonl(tmp_path / "tasks.jsonl") == tasks
    assert tasks[0].facts == ("Ada led it.", "語")


def test_missing_optional_fields_and_blank_lines(tmp_path: Path) -> None:
    path = jsonl(tmp_path, ROW, "", {**ROW, "task_id": "b", "fixes": [{"old": "b", "new": "c"}]})
    tasks = load_tasks(str(path))
    assert [task.task_id for task in tasks] == ["a", "b"]
    assert tasks[0].split == "train"
    assert tasks[1].fixes == (Fix("b", "c"),)


def test_line_ends_become_line_feeds() -> None:
    assert make_task(resume="a\r\nb\rc\n").resume == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({**ROW, "resume": "a\nb\x00c"}, "resume, line 2: a NUL character"),
        ({**ROW, "job": "a\n\nb\ud800c"}, "job, line 3: a lone surrogate"),
        ({**ROW, "task_id": "\x00"}, "task_id, line 1: a NUL character"),
        ({**ROW, "job": None}, "job: expected a string, got NoneType"),
        ({**ROW, "resume": ["a"]}, "resume: expected a string, got list"),
        ({**ROW, "weakness": "typos"}, "weakness: expected one of vague_bullets, .*got 'typos'"),
        ({**ROW, "weakness": []}, "weakness: expected one of"),
        ({**ROW, "split": "test"}, "split: expected one of train, eval; got 'test'"),
        ({**ROW, "level": 3}, "level: unknown field"),
        (
            {**ROW, "evidence": [{"kind": "portfolio", "title": "", "text": "x" * 50_001}] * 2},
            "evidence: the documents have 100,002 characters, the limit is 100,000",
        ),
        ({key: ROW[key] for key in ("task_id", "job", "weakness")}, "resume: missing"),
        ({**ROW, "persona": "Ada"}, "persona: expected an object"),
        ({**ROW, "fixes": {}}, "fixes: expected a list"),
        ({**ROW, "fixes": [{"old": "b"}]}, r"fixes\[0\]: expected an object with old, new"),
        ({**ROW, "fixes": [{"old": "b", "new": 3}]}, r"fixes\[0\].new: expected a string"),
        ({**ROW, "fixes": [{"old": "b", "new": "", "facts": "x"}]}, r"fixes\[0\].facts: expected"),
        ({**ROW, "fixes": [{"old": "\x00", "new": ""}]}, r"fixes\[0\].old, line 1: a NUL"),
        ([1], "expected a JSON object, got list"),
        ("{'task_id': 1}", "Expecting property name"),
        ("[" * 100_000, "recursion"),
        (ROW, "task_id: 'a' occurs twice"),
    ],
)
def test_a_bad_row_is_named_by_file_line_and_field(tmp_path: Path, row: Any, says: str) -> None:
    path = jsonl(tmp_path, ROW, "", row)
    with pytest.raises(TaskError, match=f"tasks.jsonl, line 3: .*{says}"):
        load_tasks(str(path))


def test_splits(tasks_file: str) -> None:
    ids = {
        split: [task.task_id for task in load_tasks(tasks_file, split)]
        for split in (None, "train", "eval")
    }
    assert ids["train"] == ["hand-0", "hand-1", "hand-2"]
    assert ids["eval"] == ["hand-3"]
    assert ids[None] == ids["train"] + ids["eval"]


@pytest.mark.parametrize(
    ("source", "split", "says"),
    [
        ("no/such/file.jsonl", None, "there is no file 'no/such"),
        ("procedural:3", None, "expected .*procedural:SEED:COUNT"),
        ("default", "test", "split: expected one of train, eval; got 'test'"),
    ],
)
def test_a_bad_source_is_refused(source: str, split: str | None, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        load_tasks(source, split)


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no tasks in split 'eval'; split='train' .* selects 1"):
        load_tasks(str(jsonl(tmp_path, ROW)), "eval")


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(json.dumps(ROW).encode() + b'\n{"task_id": "\xff"}')
    with pytest.raises(TaskError, match=r"tasks.jsonl, line 2: .*utf-8"):
        load_tasks(str(path))
