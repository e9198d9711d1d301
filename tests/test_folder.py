import json
import math
from pathlib import Path

import pytest

from learners.config import Config, ConfigError, read_toml
from learners.run.folder import RunFolder
from resume_gym import EDITION
from resume_gym.evaluation import Returns
from resume_gym.support.json_lines import seal


def series(steps: int) -> list[dict[str, float]]:
    return [{"step": step, "reward": step / 7, "entropy": 1 / step} for step in range(1, steps + 1)]


def test_a_run_folder_keeps_its_configuration(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "runs" / "one")
    run.configure(Config(name="one", steps=10, learning_rate=3e-4))
    run.configure(Config(name="one", steps=20, threads=2, learning_rate=3e-4))
    assert read_toml(run.path / "config.toml").steps == 20
    with pytest.raises(ConfigError) as error:
        run.configure(Config(name="one", steps=15, seed=4, learning_rate=1e-3))
    for part in ("steps was 20, is now 15", "seed was 1, is now 4", "was 0.0003, is now 0.001"):
        assert part in str(error.value)
    assert read_toml(run.path / "config.toml").seed == 1
    decaying = RunFolder(tmp_path / "runs" / "two")
    decaying.configure(Config(name="one", steps=10, learning_rate_schedule="linear"))
    with pytest.raises(ConfigError, match="steps was 10, is now 20"):
        decaying.configure(Config(name="one", steps=20, learning_rate_schedule="linear"))
    (run.path / "config.toml").write_text("")
    with pytest.raises(ConfigError, match=r"config\.toml is empty: expected the settings"):
        run.configure(Config(name="one", seed=4))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"judge": {"spec": "rubric"}}, rf"edition 1 of .* edition {EDITION}; choose"),
        ({"judge": {"spec": "rubric"}, "edition": EDITION + 1}, f"edition {EDITION + 1} of"),
        ({"edition": EDITION}, r"facts\.json is damaged: KeyError: 'judge'"),
        ([], r"facts\.json is damaged: ValueError"),
    ],
)
def test_a_run_of_another_edition_is_not_resumed(
    tmp_path: Path, facts: object, message: str
) -> None:
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    with pytest.raises(ConfigError, match=message):
        RunFolder(tmp_path).configure(Config(name="one"))
    assert not (tmp_path / "config.toml").exists()
    for same in ({"judge": {"spec": "rubric"}, "edition": EDITION}, {"judge": None}):
        (tmp_path / "facts.json").write_text(json.dumps(same))
        RunFolder(tmp_path).configure(Config(name="one"))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_metrics_that_are_not_finite_are_refused(value: float, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(ValueError, match=rf"step 3\.loss: expected a finite number, got {value}"):
        run.append({"step": 3, "reward": 1.0, "loss": value})
    assert run.metrics() == []


def test_truncating_removes_the_steps_after_the_checkpoint(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for row in series(7):
        run.append(row)
        run.writer.append_row(
            "evaluations.jsonl", {"step": row["step"], "reward": row["reward"]}, synced=True
        )
    run.truncate(5)
    assert run.metrics() == series(5)
    assert [one["step"] for one in run.evaluations()] == [1, 2, 3, 4, 5]
    run.append(series(6)[-1])
    assert run.metrics() == series(6)
    run.truncate(0)
    assert run.metrics() == []


def test_damaged_lines_are_left_out_and_told(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for row in series(5):
        run.append(row)
        run.writer.append_row(
            "evaluations.jsonl", {"step": row["step"], "reward": row["reward"]}, synced=True
        )
    changed = seal(series(3)[-1]).replace("0.3", "0.4").encode()
    for name, damage in (("metrics.jsonl", changed), ("evaluations.jsonl", b"\xff{[1]")):
        lines = (tmp_path / name).read_bytes().split(b"\n")
        (tmp_path / name).write_bytes(b"\n".join([*lines[:2], damage, *lines[3:]]))
    whole = [row for row in series(5) if row["step"] != 3]
    assert run.metrics() == whole
    assert run.truncate(4) == [
        "Damaged lines removed from metrics.jsonl: 1.",
        "Damaged lines removed from evaluations.jsonl: 1.",
        "metrics.jsonl lacks 1 of 4 steps; the first missing step is 3.",
    ]
    assert run.metrics() == whole[:3]
    assert [one["step"] for one in run.evaluations()] == [1, 2, 4]
    assert run.truncate(4) == ["metrics.jsonl lacks 1 of 4 steps; the first missing step is 3."]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"step": 1, "reward": "high"}], "reward: expected a finite number, got 'high'"),
        ([{"step": 1, "reward": None}], "reward: expected a finite number, got None"),
        ([{"step": 1, "reward": 10**400}], "reward: expected a finite number, got 1000"),
        ([{"step": 1, "reward": {"a": 1}}], "reward: expected a finite number, got {'a'"),
        ([{"step": 1}], "reward: expected a finite number, got None"),
        ([{"step": 1, "reward": 1, "turns": [6]}], r"turns: expected a finite number, got \[6\]"),
        ([{"step": 1, "reward": 1, "verdict": [1]}], r"verdict: expected an object, got \[1\]"),
        (
            [{"step": 1, "reward": 1, "errors": {"reward": True}}],
            "errors.reward: expected a finite",
        ),
        ([{"step": 1, "reward": 1, "versions": {}}], "versions: expected an array, got {}"),
        ([{"step": 1, "reward": -1e200}], r"reward: expected at most 1e\+100, got -1e\+200"),
        ([{"step": 1, "reward": 1, "tasks": 0}], "tasks: expected a number > 0, got 0"),
        ([{"step": 1, "reward": 1, "seconds_train": 1e15}], "seconds_train: expected at most"),
        ([{"step": 1e300}], r"step: expected a whole number from 0 to 999999999, got 1e\+300"),
        ([{"step": -1}], "step: expected a whole number from 0 to 999999999, got -1"),
        ([{"step": 1.5}], "step: expected a whole number from 0 to 999999999, got 1.5"),
        ([{"reward": 1}], "step: expected a whole number from 0 to 999999999, got None"),
        (
            [{"step": step, "reward": 1} for step in (2, 1, 2.0)],
            "step: expected one row for step 2, got",
        ),
    ],
)
def test_wrong_values_in_whole_lines_are_refused(
    rows: list[dict[str, object]], told: str, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    for read, name in ((run.metrics, "metrics"), (run.evaluations, "evaluations")):
        content = "".join(seal(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(content)
        place = f"{name}.jsonl is damaged: line {len(rows)}, "
        with pytest.raises(ConfigError, match=f"{place}{told}.*; restore it"):
            read()
        with pytest.raises(ConfigError, match="is damaged"):
            run.truncate(1)
        assert (tmp_path / f"{name}.jsonl").read_text() == content
        (tmp_path / f"{name}.jsonl").unlink()


def test_a_note_is_one_line_of_the_journal(tmp_path: Path) -> None:
    for sentence in ("Step 1: a\n- 2026-01-01 00:00:00 forged.", "a\x1b[2Jb \ud83d", "a\r\u2028b"):
        RunFolder(tmp_path).note(sentence)
    text = (tmp_path / "journal.md").read_text()
    assert sum(line.startswith("- ") for line in text.splitlines()) == len(text.splitlines()) - 2
    assert not {"\x1b", "\r", "\u2028"} & set(text)


def test_the_result_of_a_continued_run_is_set_aside(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.set_aside(4)
    assert run.result("after") is None
    run.write_result("after", Returns(8, 2, 1.5, 0.5))
    assert run.result("after") == Returns(8, 2, 1.5, 0.5)
    run.set_aside(4)
    assert run.result("after") is None
    assert (tmp_path / "after-000004.json").is_file()
    (tmp_path / "before.json").write_text('{"score": 3}')
    with pytest.raises(ConfigError, match="was written by another version"):
        run.result("before")
    result = {"episodes": 8, "tasks": 2, "reward": 1.5, "reward_sd": 0.5}
    for wrong in ({"reward": "1.5"}, {"reward": math.nan}, {"tasks": {}}, {"errors": [1]}):
        (tmp_path / "after.json").write_text(json.dumps({**result, **wrong}))
        with pytest.raises(ConfigError, match=rf"is damaged: {next(iter(wrong))}\S*: expected"):
            run.result("after")
    for content in (b"{", b"\xff\xfe\xff", b"[" * 100_000):
        for when, remedy in (("before", "restore it"), ("after", "delete it")):
            (tmp_path / f"{when}.json").write_bytes(content)
            with pytest.raises(ConfigError, match=rf"{when}\.json is damaged: .*; {remedy}"):
                run.result(when)
