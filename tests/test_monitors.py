import io
import math
from pathlib import Path

import pytest
from rich.console import Console

from learners.config import Config, ConfigError, read_toml
from learners.monitors import Progress, RunFolder, describe
from resume_gym.evaluation import Returns


def series(steps: int) -> list[dict[str, float]]:
    """Metrics of a run that learns: every figure moves."""
    names = ("content", "entropy", "failed_share", "gap", "layout", "reward", "submit_rate")
    return [
        {
            "step": step,
            "reward_std": 1.0,
            "tokens_per_s": 1234.5,
            **{name: 0.5 + math.sin(i + step / 9) / 3 for i, name in enumerate(names)},
        }
        for step in range(1, steps + 1)
    ]


def history(**columns: list[float]) -> list[dict[str, float]]:
    rows = zip(*columns.values(), strict=True)
    base = {"reward": 0.0, "entropy": 1.0}
    return [
        {**base, "step": step, **dict(zip(columns, row, strict=True))}
        for step, row in enumerate(rows, 1)
    ]


def told(rows: list[dict[str, float]]) -> list[str]:
    """All that is told while a run goes on."""
    return [one for n in range(1, len(rows) + 1) for one in describe(rows[:n])]


def test_a_run_folder_keeps_its_configuration(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "runs" / "one")
    run.configure(Config(name="one", steps=10, learning_rate=3e-4))
    run.configure(Config(name="one", steps=20, threads=2, learning_rate=3e-4))
    assert read_toml(run.path / "config.toml").steps == 20
    with pytest.raises(ConfigError) as refused:
        run.configure(Config(name="one", steps=15, seed=4, learning_rate=1e-3))
    for part in ("steps was 20, is 15", "seed was 1, is 4", "learning_rate was 0.0003, is 0.001"):
        assert part in str(refused.value)
    assert read_toml(run.path / "config.toml").seed == 1


def test_a_moved_run_folder_is_still_the_same_run(tmp_path: Path) -> None:
    RunFolder(tmp_path / "a").configure(Config(name="a", runs=tmp_path))
    (tmp_path / "a").rename(tmp_path / "b")
    RunFolder(tmp_path / "b").configure(Config(name="b", runs=tmp_path))


def test_metrics_are_lines_and_are_there_at_once(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.metrics() == []
    for row in series(3):
        run.append(row)
        assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == row["step"]
    assert run.metrics() == series(3)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_metrics_that_are_not_finite_are_refused(value: float, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(ValueError, match=rf"step 3: expected finite metrics, loss is {value}"):
        run.append({"step": 3, "reward": 1.0, "loss": value})
    assert run.metrics() == []


def test_truncating_forgets_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for row in series(7):
        run.append(row)
        run.append_evaluation({"step": row["step"], "reward": row["reward"]})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 8, "rew')
    run.truncate(5)
    assert run.metrics() == series(5)
    assert [one["step"] for one in run.evaluations()] == [1, 2, 3, 4, 5]
    run.append(series(6)[-1])
    assert run.metrics() == series(6)
    run.truncate(0)
    assert run.metrics() == []


def test_the_figures_of_an_end_that_was_none_are_set_aside(tmp_path: Path) -> None:
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


def test_the_journal_grows(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "nano")
    run.note("The run begins.")
    RunFolder(tmp_path / "nano").note("It goes on.")
    title, blank, first, second = (run.path / "journal.md").read_text().splitlines()
    assert (title, blank) == ("# Journal of nano", "")
    assert first.endswith(" The run begins.")
    assert second.endswith(" It goes on.")


def test_milestones_are_told_once() -> None:
    rows = history(
        submit_rate=[0.3, 0.6, 0.95, 0.4, 0.97],
        failed_share=[0.4, 0.3, 0.09, 0.2, 0.05],
        layout_pass=[0.95, 0.8, 0.95, 0.8, 0.95],
    )
    assert told(rows) == [
        "Step 2: the submit rate passed 50 %.",
        "Step 3: the submit rate passed 90 %.",
        "Step 3: fewer than 10 % of the edits fail.",
    ]


def test_a_best_reward_is_told_by_the_half_point() -> None:
    rows = history(reward=[2.1, 2.3, 2.6, 2.7, 2.4, 2.6, 3.9])
    assert told(rows) == [
        "Step 3: mean reward 2.6, best so far.",
        "Step 7: mean reward 3.9, best so far.",
    ]


def test_a_collapse_of_the_reward_is_told_when_it_begins() -> None:
    rows = history(reward=[5.1] * 6 + [3.0] * 8)
    assert told(rows) == [
        "Step 9: warning, mean reward 3.8, down from 5.1: a collapse.",
    ]


def test_a_collapse_of_the_entropy_and_a_gap_are_told() -> None:
    rows = history(entropy=[0.5] * 3 + [0.01] * 8, gap=[0.001] * 10 + [0.2])
    assert told(rows) == [
        "Step 8: warning, entropy 0.010, 0.500 at first: the policy explores no more.",
        "Step 11: warning, sampler and trainer differ by 0.041 in log-probability.",
    ]
    assert told(history(gap=[0.001, 0.2], staleness=[0.75, 0.75])) == [
        "Step 2: warning, sampler and trainer, 0.8 steps apart, differ by 0.101 in log-probability."
    ]


def test_progress_in_a_log_is_a_line_a_step() -> None:
    out = io.StringIO()
    with Progress(4, done=1, console=Console(file=out, width=40)) as progress:
        for row in series(4)[1:]:
            progress.update(row)
        progress.say("Step 4: [a sentence] that is longer than the forty columns of the log.")
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("step 2/4  reward ")
    assert "tokens/s 1,234" in lines[0]
    assert " left 0:00:0" in lines[2]
    assert "[a sentence]" in lines[3]
    assert "\x1b" not in out.getvalue()


def test_progress_on_a_terminal_shows_the_last_steps_and_a_bar() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, height=40)
    with Progress(12, console=console) as progress:
        for row in series(12):
            progress.update({"step": row["step"], "reward": row["reward"]})
    last = out.getvalue().rsplit("\x1b[2K", 1)[-1]
    assert "reward" in last
    assert "tokens/s" not in last, "nothing has been said of tokens"
    assert "12/12" in last
    steps = [line.split()[0] for line in last.splitlines()[1:] if line.startswith("  ")]
    assert steps == [str(step) for step in range(5, 13)]
