"""The main job as a user runs it: one process and its run folder, kills, and resumed runs."""

import itertools
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jobs
import pytest
import torch
from huggingface_hub import ModelCard
from jobs import computed, episodes, garble, rows, start, variables
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import AutoModelForCausalLM

from learners import aipo
from learners.command_line import parse
from learners.planning.machine import Machine
from learners.rollouts.batch import Batch
from learners.rollouts.orchestrator import Orchestrator
from learners.rollouts.trajectories import Trajectories
from learners.run.folder import RunFolder
from learners.training.policy import Policy
from resume_gym import EDITION
from resume_gym.judges import JudgeUnavailable

GROUP_SIZE = 6
KILLS = ((1, GROUP_SIZE), (2, 3))
"""(step, number of its episodes that have ended) at each kill.

The kill after the last episode of step 1 is in the evaluation of the trained weights.
"""
# imported on demand, at the cost of seconds in each process that is killed
PRELOADED = ["learners.aipo", "matplotlib.backends.backend_agg", "torch.utils.tensorboard"]
SETTINGS = {
    "steps": 2,
    "env": jobs.SHORT,
    "groups": 1,
    "group-size": GROUP_SIZE,
    # with these, some episodes end before the others
    "seed": 5,
    "temperature": 1.3,
    "save-every": 1,
    "eval-every": 1,
    "threads": 1,
    "log-to": "tensorboard",
}
command = partial(jobs.command, **SETTINGS)
AWAY = '{"name": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"}'


def run(runs: Path, /, **changes: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(runs, **changes),
        env=variables(),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def main(runs: Path, /, **changes: object) -> None:
    """Run the command in this process."""
    aipo.main(parse(command(runs, **changes)[2:]))


def weights(runs: Path) -> dict[str, torch.Tensor]:
    return load_file(runs / "job" / "checkpoints" / "step-000002" / "policy.safetensors")


def saved(runs: Path) -> dict[str, bytes]:
    """The files of the last checkpoint: weights, the optimizer's state and the algorithm's."""
    folder = runs / "job" / "checkpoints" / "step-000002"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(files) == 4
    return files


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    runs = tmp_path_factory.mktemp("whole")
    done = run(runs)
    assert done.returncode == 0, done.stderr
    assert "before" in done.stdout
    assert "after" in done.stdout
    return runs


def test_a_run_leaves_its_folder(whole: Path) -> None:
    folder = whole / "job"
    names = {path.name for path in folder.iterdir()}
    files = "config.toml metrics.jsonl evaluations.jsonl journal.md lock started dashboard.png"
    results = "heartbeat.json before.json after.json floor.json facts.json"
    folders = "trajectories checkpoints model tensorboard"
    assert names == {*files.split(), *results.split(), *folders.split()}
    assert [step["step"] for step in computed(whole)] == [1, 2]
    assert len(episodes(whole, 2)) == GROUP_SIZE


def held_out(runs: Path) -> dict[int, dict[str, Any]]:
    """The evaluations by step; none is twice in the file."""
    found = rows(runs, "evaluations")
    by_step = {row["step"]: row for row in found}
    assert len(by_step) == len(found)
    return by_step


def test_the_held_out_curve_begins_and_ends_with_the_results(whole: Path) -> None:
    curve = held_out(whole)
    assert list(curve) == [0, 1, 2]
    assert [len(episodes(whole, step, "eval")) for step in curve] == [1, 1, 1]
    for when, step in (("before", 0), ("after", 2)):
        result = json.loads((whole / "job" / f"{when}.json").read_text())
        assert result.items() <= curve[step].items()


@pytest.mark.slow
def test_training_is_the_same_without_evaluations_and_goes_on_after_its_end(
    whole: Path, tmp_path: Path
) -> None:
    main(tmp_path, **{"eval-every": 0})
    assert computed(tmp_path) == computed(whole)
    assert saved(tmp_path) == saved(whole)
    assert list(held_out(tmp_path)) == [0, 2]
    main(tmp_path, steps=3, **{"eval-every": 0})
    assert list(held_out(tmp_path)) == [0, 2, 3]
    assert (tmp_path / "job" / "after-000002.json").is_file()


def shown(runs: Path) -> dict[int, float]:
    """The reward of each step in TensorBoard, where no step is twice."""
    events = EventAccumulator(str(runs / "job" / "tensorboard"), {"scalars": 0}).Reload()
    assert [scalar.step for scalar in events.Scalars("held_out/reward")] == [0, 1, 2]
    scalars = events.Scalars("train/reward")
    assert len({scalar.step for scalar in scalars}) == len(scalars)
    return {scalar.step: scalar.value for scalar in scalars}


def test_the_exported_model_has_a_card(whole: Path) -> None:
    folder = whole / "job" / "model"
    card = ModelCard.load(folder / "README.md")
    after = json.loads((whole / "job" / "after.json").read_text())
    results = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert results["reward"] == round(after["reward"], 4)
    assert (folder / "dashboard.png").is_file()
    assert "after training" in card.text
    modes = {file.stat().st_mode for file in folder.iterdir()}
    assert len(modes) == 1, "others can read all of it"


def test_a_run_trains_and_samples_with_the_trained_weights(whole: Path) -> None:
    """The comparisons below are only worth something if the weights change."""
    steps = computed(whole)
    assert any(step["gradient_norm"] > 0 for step in steps)
    assert not all(step["skipped"] for step in steps)
    assert all(step["gap"] < 1e-5 for step in steps)


def test_the_trained_policy_loads_in_transformers(whole: Path) -> None:
    exported = AutoModelForCausalLM.from_pretrained(whole / "job" / "model")
    for name, tensor in weights(whole).items():
        weight = exported.get_parameter(name.removeprefix("model."))
        torch.testing.assert_close(weight, tensor.to(weight.dtype), atol=0, rtol=0)


def run_until_killed(
    runs: Path, step: int, ended: int, changes: Mapping[str, object] = MappingProxyType({})
) -> None:
    """Run the command; `kill -9` after some of a step's episodes have ended."""
    append, evaluate, logprobs = Trajectories.append, Orchestrator.evaluate, Policy.logprobs
    left = itertools.count(5, -1)
    evaluates = False

    def deadly_append(self: Trajectories, now: int, rollout: Any) -> None:
        if now == step and len(episodes(runs, step)) == ended:
            os.kill(os.getpid(), signal.SIGKILL)
        append(self, now, rollout)

    def noted_evaluate(self: Orchestrator, *args: Any, **kwargs: Any) -> Any:
        nonlocal evaluates
        evaluates = len(episodes(runs, step)) == ended
        return evaluate(self, *args, **kwargs)

    def deadly_logprobs(self: Policy, *args: Any, **kwargs: Any) -> Any:
        if evaluates and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return logprobs(self, *args, **kwargs)

    Trajectories.append = deadly_append  # type: ignore[method-assign]
    Orchestrator.evaluate = noted_evaluate  # type: ignore[method-assign]
    Policy.logprobs = deadly_logprobs  # type: ignore[method-assign]
    main(runs, **changes)


@pytest.mark.slow
def test_a_run_killed_many_times_has_the_result_of_an_uninterrupted_run(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    for step, ended in KILLS:
        process = context.Process(target=run_until_killed, args=(tmp_path, step, ended))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert len(episodes(tmp_path, step)) == ended
    main(tmp_path)
    assert "resumed after step" in capsys.readouterr().out
    main(tmp_path)  # a finished run shows its result again
    out = capsys.readouterr().out
    assert "before" in out
    assert "after" in out
    assert computed(tmp_path) == computed(whole)
    assert shown(tmp_path) == shown(whole)
    assert saved(tmp_path) == saved(whole)
    for name in ("evaluations.jsonl", "before.json", "after.json"):
        assert (tmp_path / "job" / name).read_text() == (whole / "job" / name).read_text()
    for step in (1, 2):
        assert episodes(tmp_path, step) == episodes(whole, step)
    for step in (0, 1, 2):
        assert episodes(tmp_path, step, "eval") == episodes(whole, step, "eval")


@pytest.mark.slow
def test_an_interrupted_run_says_what_is_kept_and_its_budget_holds_after_it_resumes(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used = [step["sampled_tokens"] for step in computed(whole)]
    changes = {"steps": 4, "budget": f"tokens < {sum(used)}"}
    job = start(command(tmp_path, **changes))
    assert any("Step 1: mean reward" in line for line in job.stdout or ()), "it ended early"
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=900)
    kept = "interrupted: steps up to 1 are saved; step 2 will be repeated"
    assert job.returncode == 130
    assert err == f"resume-gym: {kept}; the same command resumes {tmp_path / 'job'}\n"

    told = f"the budget is used up: {sum(used):,.0f} tokens, expected < {sum(used):,.0f}"
    for _ in range(2):  # a run that has ended does not go on
        with pytest.raises(SystemExit, match="3"):
            main(tmp_path, **changes)
        assert f"ended: {told}" in capsys.readouterr().out
    assert computed(tmp_path) == computed(whole)
    assert saved(tmp_path) == saved(whole)
    journal = (tmp_path / "job" / "journal.md").read_text()
    assert kept.capitalize() in journal
    assert journal.count("Ended: 2 steps took") == 1
    card = ModelCard.load(tmp_path / "job" / "model" / "README.md").text
    assert f"{told}." in card.replace("\\<", "<")
    beat = json.loads((tmp_path / "job" / "heartbeat.json").read_text())
    assert (beat["state"], beat["end"], beat["why"]) == ("ended", "budget", told)


@pytest.mark.slow
def test_a_goal_is_reached_although_the_run_was_killed_and_is_not_reached_twice(
    whole: Path, tmp_path: Path
) -> None:
    """It holds in the evaluations before and after step 1, and the kill is in the second."""
    changes = {"goal": "eval.reward >= -9"}
    context = multiprocessing.get_context("forkserver")
    kill = (tmp_path, 1, GROUP_SIZE, changes)
    process = context.Process(target=run_until_killed, args=kill)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    for _ in range(2):
        main(tmp_path, **changes)
    assert computed(tmp_path) == computed(whole)[:1]
    assert list(held_out(tmp_path)) == [0, 1]
    journal = (tmp_path / "job" / "journal.md").read_text()
    assert journal.count("the goal is reached: eval.reward >= -9 after steps 0 and 1.") == 1
    main(tmp_path)  # without the goal, it goes on
    assert saved(tmp_path) == saved(whole)
    assert (tmp_path / "job" / "after-000001.json").is_file()


@pytest.mark.slow
def test_a_run_stops_without_verdicts_and_resumes(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, changes = Orchestrator.batch, {"save-every": 4, "eval-every": 0}

    async def busy(self: Orchestrator, step: int) -> Batch:
        if step == 2:
            raise JudgeUnavailable("busy")
        return await play(self, step)

    with monkeypatch.context() as during:
        during.setattr(Orchestrator, "batch", busy)
        with pytest.raises(SystemExit, match="1"):
            main(tmp_path, **changes)
    assert len(computed(tmp_path)) == 1
    assert [path.name for path in (tmp_path / "job" / "checkpoints").iterdir()] == ["step-000001"]
    main(tmp_path, **changes)
    assert computed(tmp_path) == computed(whole)
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(tmp_path)[name]), name


@pytest.mark.slow
def test_a_damaged_run_falls_back_and_has_the_same_result(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "job"
    shutil.copytree(whole / "job", folder)
    garble(folder / "checkpoints" / "step-000002" / "policy.safetensors", at=100_000)
    garble(folder / "trajectories" / "step-000002.jsonl")
    garble(folder / "metrics.jsonl", at=len((folder / "metrics.jsonl").read_bytes()) - 70)
    main(tmp_path)
    out, err = capsys.readouterr()
    assert "resumed after step 1 of 2" in out
    assert "warning: The damaged checkpoint step-000002 was renamed" in err
    assert "policy.safetensors changed after the checkpoint was saved" in err
    assert computed(tmp_path) == computed(whole)
    assert saved(tmp_path) == saved(whole)
    assert episodes(tmp_path, 2) == episodes(whole, 2)
    journal = (folder / "journal.md").read_text()
    facts = json.loads((folder / "facts.json").read_text())
    versions = facts["versions"]
    assert facts["edition"] == EDITION
    for sentence in (
        "The damaged checkpoint step-000002 was renamed to damaged-step-000002:",
        "Damaged lines removed from step-000002.jsonl: 1.",
        "Damaged lines removed from metrics.jsonl: 1.",
        "Command: ",
        f" resume-gym {versions['resume-gym']} on {Machine.here()}.",
        "Ended: 2 steps took 0:",
    ):
        assert sentence in journal

    for lost, told in (("unlink", "is missing; restore it"), ("garble", "is damaged: ")):
        (folder / "before.json").unlink() if lost == "unlink" else garble(folder / "after.json")
        with pytest.raises(SystemExit, match="2"):
            main(tmp_path)
        (line,) = capsys.readouterr().err.splitlines()
        assert told in line
        shutil.copy(whole / "job" / "before.json", folder)


def test_a_second_process_is_told_who_writes_the_run(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunFolder(whole / "job").lock(), pytest.raises(SystemExit, match="2"):
        main(whole)
    assert f"job: process {os.getpid()} on " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 9}, "seed was 5, is now 9"),
        ({"tasks": "nowhere.jsonl", "name": "other"}, "nowhere.jsonl"),
        ({"judge": "gemini", "name": "third"}, "expected a key in GOOGLE_API_KEY"),
        (
            {"engine": "vllm", "engine-urls": "http://127.0.0.1:1", "name": "fourth"},
            "engine_urls: no server runs at http://127.0.0.1:1",
        ),
        (
            {
                "teacher": "http://127.0.0.1:1",
                "feedback-form": "sampled",
                "temperature": 1.0,
                "name": "ninth",
            },
            "teacher: no server runs at http://127.0.0.1:1",
        ),
        ({"goal": "eval.rewards > 6", "name": "sixth"}, "; did you mean 'eval.reward'?"),
        ({"budget": "judge_dollars < 1", "name": "seventh"}, "list price, got rubric"),
        ({"budget": "judge_tokens < 1", "name": "eighth"}, "asks a model, got rubric"),
        (
            {"judge": AWAY, "credit": "episode", "name": "fifth"},
            "judge: no server runs at http://127.0.0.1:1/v1",
        ),
    ],
)
def test_an_invalid_setting_is_an_error_without_a_traceback(
    whole: Path,
    changes: dict[str, object],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit, match="2"):
        main(whole, **changes)
    assert message in capsys.readouterr().err
    assert not (whole / str(changes.get("name", "other"))).exists()
