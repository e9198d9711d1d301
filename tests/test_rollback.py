"""A live run that collapses: it is rolled back and recovers, also if it is killed; or it stops."""

import json
import subprocess
import sys
from pathlib import Path

import jobs
import pytest
import ruined
from jobs import computed, rows
from ruined import RUINED

from learners import aipo
from learners.command_line import parse
from learners.errors import STOPPED
from learners.training.trainer import Trainer
from resume_gym.figures.dashboard import begun

SETTINGS: dict[str, object] = {
    **{"env": jobs.SHORT, "steps": 9, "groups": 1, "group-size": 4, "threads": 1},
    **{"save-every": 1, "eval-every": 0, "on-collapse": "rollback"},
}


class Killed(BaseException):
    """Ends the process at once; the loop catches no such exception."""


def main(runs: Path, **changes: object) -> None:
    aipo.main(parse(jobs.command(runs, **{**SETTINGS, **changes})[2:]))


@pytest.fixture(autouse=True)
def _ruined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "step", ruined.step)


@pytest.mark.slow
def test_a_run_that_collapses_is_rolled_back_and_recovers_also_after_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    main(whole)
    metrics = computed(whole)
    (back,) = (row for row in metrics if "rolled_back_to" in row)
    at = int(back["step"])
    assert RUINED < at <= RUINED + 3
    assert back["rolled_back_to"] < RUINED
    assert any("rolled back" in name for name in begun(metrics)[at])
    rates = [row["learning_rate"] for row in metrics]
    assert rates == [rates[0]] * at + [rates[0] / 2] * (9 - at)
    rewards = [row["reward"] for row in metrics]
    assert rewards[at - 1] < min(rewards[at:]), "it has recovered"
    journal = (whole / "job" / "journal.md").read_text()
    target = f"{back['rolled_back_to']:.0f}"
    told = f"Step {at}: rolled back to the checkpoint of step {target}, at half the learning rate."
    assert told in journal

    save = Trainer.save
    for step, before in ((at, True), (at, False)):  # the rolled-back weights are saved, or not

        def deadly(self: Trainer, now: int, step: int = step, before: bool = before) -> None:
            if now == step and before:
                raise Killed
            save(self, now)
            if now == step:
                raise Killed

        with monkeypatch.context() as during:
            during.setattr(Trainer, "save", deadly)
            with pytest.raises(Killed):
                main(killed)
    main(killed)
    assert computed(killed) == metrics
    name = "job/checkpoints/step-000009/policy.safetensors"
    assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert json.loads((killed / name).with_name("state.json").read_text())["rollbacks"] == 1


@pytest.mark.slow
def test_a_run_that_an_alarm_stops_says_why_until_the_settings_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main(tmp_path, **{"on-collapse": "stop"})
        assert ended.value.code == STOPPED == 3
        *_, last = capsys.readouterr().err.splitlines()
        stopped = len(rows(tmp_path))
        assert RUINED < stopped <= RUINED + 3
        assert f"an alarm stopped the run at step {stopped}: " in last
        assert last.endswith("(on_collapse = stop)")
        assert (tmp_path / "job" / "checkpoints" / f"step-{stopped:06d}").is_dir()
    assert f"Stopped: step {stopped}: " in (tmp_path / "job" / "journal.md").read_text()
    main(tmp_path, **{"on-collapse": "warn"})
    assert len(rows(tmp_path)) == 9


@pytest.mark.slow
@pytest.mark.vllm
def test_two_ranks_roll_back_and_their_server_samples_with_the_earlier_weights(
    tmp_path: Path,
) -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    # vLLM samples at random: enough episodes for no false alarm before the collapse
    settings = {
        **SETTINGS,
        "backend": "fsdp2",
        "engine": "vllm",
        "groups": 4,
        "max-tokens": 128,
        "steps": 13,
    }
    flags = jobs.command(tmp_path, **settings)[2:]
    job = subprocess.run(
        [sys.executable, *launcher, ruined.__file__, *flags],
        env={**jobs.variables(), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert job.returncode == 0, job.stderr
    metrics = rows(tmp_path)
    (back,) = (row for row in metrics if "rolled_back_to" in row)
    at = int(back["step"])
    # the server still samples the step after RUINED with older weights
    assert RUINED < at <= RUINED + 4
    assert all(row["probe"] < 1e-4 for row in metrics), "sampler and trainer have the same weights"
    assert metrics[-1]["learning_rate"] == metrics[0]["learning_rate"] / 2
    *entropies, last = (row["entropy"] for row in metrics)
    assert last < 0.3 < max(entropies), "it has recovered"
