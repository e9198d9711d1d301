"""The warm start: its rows, the order in which they come, and the whole command."""

import asyncio
import json
import multiprocessing
import pickle
import re
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from jobs import garble

from learners import imitation
from learners.build import make_trainer, make_workloads
from learners.editors import session_of
from learners.engines import EngineError
from learners.errors import ConfigError
from learners.imitation import DEFAULTS, Dose, Phase, main, make_rows, rows_of
from learners.losses import LossInput, Totals, likelihood
from learners.run.folder import RunFolder
from learners.training import checkpoint
from learners.training.cpu import has_bfloat16
from learners.training.models import load, load_tokenizer
from learners.training.rows import PackedRow
from resume_gym import Session, load_tasks
from resume_gym.folders.jobs import status

CONFIG = replace(DEFAULTS, model="nano", row_tokens=4096)
PHASE = Phase("episodes", 1.0)


def rows(number: int, start: int = 0) -> list[PackedRow]:
    made = make_rows(Dose(tokens=1, draws=4), CONFIG, PHASE, start, 0)
    return [pickle.loads(next(made)) for _ in range(number)]


def test_rows_are_the_same_again_and_others_after_a_restart() -> None:
    first, again, others = rows(3), rows(3), rows(3, start=1)
    for packed, same, other in zip(first, again, others, strict=True):
        assert packed.tokens.tolist() == same.tokens.tolist() != other.tokens.tolist()
        assert len(packed.tokens) <= 4096
        assert float(packed.advantages.mean()) == pytest.approx(1)


def test_rows_of_the_apprentice_have_hints_and_other_tools() -> None:
    dose = Dose(tokens=1, draws=2)
    made = make_rows(dose, CONFIG, PHASE, 0, 0)
    tokenizer = load_tokenizer("nano")
    texts = [tokenizer.decode(pickle.loads(next(made)).tokens.tolist()) for _ in range(8)]
    assert sum("Hint: " in text for text in texts) > 4
    assert any('"search"' in text for text in texts)
    again = make_rows(dose, CONFIG, PHASE, 0, 0)
    assert tokenizer.decode(pickle.loads(next(again)).tokens.tolist()) == texts[0]


def test_the_editor_answers_in_the_states_that_the_model_itself_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(CONFIG, threads=1)
    trainer = make_trainer(config, tmp_path)
    (work,), tokenizer = make_workloads(config), load_tokenizer("nano")
    rules, first = work.rules, imitation._OWN_TASKS + 1
    sessions = [session_of("apprentice", first + n, 1, "mini", rules) for n in range(3)]
    playing = imitation._play_all(sessions, tokenizer, config, trainer.policy, first)
    dose = Dose(tokens=1, draws=4, rows=3)
    monkeypatch.setattr(imitation, "_OWN", config.row_tokens)
    made = imitation._own_episodes(dose, config, trainer, work)
    for session, texts in zip(sessions, asyncio.run(playing), strict=True):
        assert [text for text, _ in session.state.transcript] == texts
        assert session.done
        group = next(made)
        longest = max(group, key=lambda one: len(one.response))
        said = tokenizer.decode(longest.response[: -longest.turns[-1]])
        assert all(text in said for text in texts[:-1]), "the context is the model's"
        for one in group:  # only the editor's answer, the last turn, is trained on
            answer = len(one.response) - one.turns[-1]
            assert not any(one.advantages[:answer])
            assert all(one.advantages[answer:])
            assert "<tool_call>" in tokenizer.decode(one.response[answer:])


def test_most_samples_of_the_phase_of_pages_have_no_instructions() -> None:
    made = make_rows(Dose(tokens=1, draws=2), CONFIG, Phase("pages", 1.0), 0, 0)
    tokenizer = load_tokenizer("nano")
    texts = [tokenizer.decode(pickle.loads(next(made)).tokens.tolist()) for _ in range(8)]
    whole = sum(text.count("You edit a resume") for text in texts)
    assert 0 < whole < 2 * 8
    assert sum(text.count("<|im_start|>user") for text in texts) > 3 * whole


def test_other_editors_have_neither_hints_nor_other_tools() -> None:
    for editor in ("repairs", "careful", "fixes"):
        made = make_rows(Dose(tokens=1, editor=editor, draws=2), CONFIG, PHASE, 0, 0)
        text = load_tokenizer("nano").decode(pickle.loads(next(made)).tokens.tolist())
        assert "str_replace" in text
        assert "Hint: " not in text
        assert '"search"' not in text


def test_the_learning_rate_falls_with_the_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates: list[float] = []
    exported: list[str] = []

    def step_rows(rows: object, loss: object, rate: float) -> dict[str, float]:
        rates.append(rate / CONFIG.learning_rate)
        return {"loss": 1.0, "trained_tokens": 400_000, "trained_tokens_per_s": 1.0}

    trainer = SimpleNamespace(
        state={"steps": 30, "tokens": 0},
        step_rows=step_rows,
        save=lambda step: None,
        wait_for_checkpoint=lambda: None,
        export=lambda path, replace: exported.append(path.name),
    )
    dose = Dose(tokens=2e6, keep=1e6)
    imitation.imitate(dose, CONFIG, trainer, count(), 1.5e6, RunFolder(tmp_path))  # type: ignore[arg-type]
    assert trainer.state == {"steps": 34, "tokens": 1_600_000}
    assert rates == pytest.approx([1.0, 0.8, 0.6, 0.4])
    assert exported == ["model-1.2m"]
    assert "step 34: loss 1.000, 1.60 of 2 M tokens" in capsys.readouterr().out


@pytest.mark.parametrize("amount", ["--tokens", "--tokens=1 --keep"])
def test_an_endless_dose_is_refused(amount: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*amount.split(), "1e999"])
    assert "expected a finite number, got inf" in capsys.readouterr().err


@pytest.mark.slow
def test_workers_take_turns() -> None:
    dose = Dose(tokens=1, draws=2, workers=2)
    with rows_of(dose, CONFIG, PHASE, 0) as made:
        found = [next(made).tokens.tolist() for _ in range(4)]
    alone = [make_rows(dose, CONFIG, PHASE, 0, worker) for worker in range(2)]
    wanted = [pickle.loads(next(alone[n % 2])).tokens.tolist() for n in range(4)]
    assert found == wanted


def test_likelihood_is_a_weighted_mean() -> None:
    logprobs = torch.tensor([-1.0, -2.0, -4.0], requires_grad=True)
    weights = torch.tensor([2.0, 1.0, 0.0])
    row = LossInput(logprobs, torch.zeros(3), weights, torch.tensor([0, 0, 1]), 2, Totals(6, 2))
    loss, seen = likelihood(row)
    assert float(loss.detach()) == pytest.approx((2 * 1 + 2) / 6)
    assert torch.autograd.grad(loss, logprobs)[0].tolist() == pytest.approx([-2 / 6, -1 / 6, 0])
    assert (seen["masked"], seen["gap"]) == (0, 0)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--env", "ReleaseNotes-v9"], "env: no environment is called"),
        (["--backend", "fsdp2"], "unrecognized arguments: --backend fsdp2"),
        (["--goal", "eval.reward >= 6"], "unrecognized arguments: --goal"),
        (["--groups", "2"], "unrecognized arguments: --groups 2"),
        (["--pages", "2"], "pages: expected a number <= 1, got 2.0"),
        (["--model", "absent"], "model: expected 'nano', 'smollm2', 'smollm2-editor', a folder"),
        (["--dry-run"], "unrecognized arguments: --dry-run"),
        (["--rows", "0"], "rows: expected a number > 0, got 0"),
    ],
)
def test_bad_options_are_one_line(
    flags: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--tokens", "1", "--runs", str(tmp_path), *flags])
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("able", "has"),
    [({"avx2": True}, False), ({"avx512_bf16": True}, True), ({"sve": True, "bf16": True}, True)],
)
def test_bfloat16_is_the_default_only_where_instructions_for_it_exist(
    able: dict[str, bool], has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    assert has_bfloat16() == has


def test_one_process_at_a_time_trains_in_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunFolder(tmp_path / "imitation").lock(), pytest.raises(SystemExit, match="2"):
        main(["--tokens", "1", "--runs", str(tmp_path)])
    assert "writes to this folder; wait" in capsys.readouterr().err


def test_a_folder_of_another_run_is_refused_unchanged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path / "imitation")
    config = replace(DEFAULTS, runs=tmp_path, model=str(folder.path / "start"))
    folder.configure(config)
    command = "--runs", str(tmp_path), "--tokens", "100"

    def content() -> dict[Path, bytes]:
        files = (file for file in folder.path.rglob("*") if file.is_file() and file.name != "lock")
        return {file: file.read_bytes() for file in files}

    def refused(*flags: str) -> str:
        before = content()
        with pytest.raises(SystemExit, match="2"):
            main([*command, *flags])
        assert content() == before
        (line,) = capsys.readouterr().err.splitlines()
        return line

    held = "holds a run of aipo.py, and this is imitation.py; choose another run name"
    assert refused().endswith(held)
    (folder.path / "config.toml").unlink()
    folder.configure(config, {**asdict(Dose(tokens=100.0)), "model": "new"})
    told = refused("--seed", "7", "--editor", "fixes")
    assert (
        "has other settings: seed was 1, is now 7, editor was 'apprentice', is now 'fixes'" in told
    )
    assert "tokens was 100.0, is now 50.0" in refused("--tokens", "50")
    assert "model was 'new', is now 'nano'" in refused("--model", "nano")
    dose = folder.path / "dose.json"
    whole = dose.read_text()
    dose.write_text(json.dumps({k: v for k, v in json.loads(whole).items() if k != "own"}))
    assert "own was 'absent', is now 0.5" in refused()  # a run of an older version
    dose.write_text(whole)
    with pytest.raises(ConfigError, match=r"holds a run of imitation\.py, and this is aipo\.py"):
        folder.configure(config)
    moved = replace(config, model="elsewhere/start", threads=3)
    dose = Dose(tokens=200, workers=2, keep=5)
    assert not folder.check(moved, {**asdict(dose), "model": "new"})


def test_an_interruption_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(imitation, "_run", interrupt)
    with pytest.raises(SystemExit, match="130"):
        main(["--tokens", "1", "--runs", str(tmp_path)])
    told = f"interrupted: no step is saved yet; the same command resumes {tmp_path / 'imitation'}"
    assert capsys.readouterr().err == f"resume-gym: {told}\n"


@pytest.mark.slow
def test_the_end_of_a_worker_is_an_error() -> None:
    dose = Dose(tokens=1, draws=2, workers=2)
    broken = replace(CONFIG, env="ReleaseNotes-v9")
    with (
        pytest.raises(EngineError, match="worker 0, which makes demonst"),
        rows_of(dose, broken, PHASE, 0),
    ):
        pass
    with rows_of(dose, CONFIG, PHASE, 0) as made:
        multiprocessing.active_children()[0].kill()
        with pytest.raises(EngineError, match=r"worker \d, which makes demonstrations, has ended"):
            list(made)


@pytest.mark.slow
def test_a_new_policy_learns_the_form_of_calls_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps in two parts; their number does not depend on the machine."""
    monkeypatch.setattr(imitation, "_TELL_S", 0.0)
    monkeypatch.setattr(imitation, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(imitation, "_OWN", 2048)
    flags = ["--runs", str(tmp_path), "--rows", "1", "--row-tokens", "2048"]
    flags += ["--eval-tasks", "1", "--threads", "1"]
    flags += ["--optimizer", "adamw", "--learning-rate", "1e-3"]  # Muon is slow on some CPUs
    main([*flags, "--tokens", "2e4", "--eval-rollouts", "1"])
    first = capsys.readouterr().out
    folder = RunFolder(tmp_path / "imitation")
    assert status(folder.path) == "ended"
    result = folder.result("after")
    assert result
    # the machine was cut off: the newest checkpoint is damaged
    older, newer = checkpoint.steps(folder.checkpoints)
    garble(checkpoint.path_of(folder.checkpoints, newer) / "state.json")
    main([*flags, "--tokens", "3.5e4", "--eval-rollouts", "1"])
    second, told = capsys.readouterr()
    assert f"step-{newer:06d} was renamed to damaged-step-{newer:06d}" in told
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", first + second)]
    assert losses[-1] < losses[0] - 0.3
    assert (folder.path / f"after-{older:06d}.json").exists()
    assert folder.result("after")
    assert "differ by" in first
    steps = [int(step) for step in re.findall(r"step (\d+)", second)]
    assert older < steps[0], "the second run goes on after the older checkpoint"
    assert steps == sorted(steps)
    main([*flags, "--tokens", "3.5e4", "--eval-rollouts", "1"])
    assert "differ by" not in capsys.readouterr().out, "nothing is left to do"
    exported = str(folder.path / "model")
    assert sum(one.numel() for one in load(exported).parameters()) < 6_000_000
    tokenizer = load_tokenizer(exported)
    session = Session(load_tasks("default", "eval")[0])
    assert len(tokenizer) == 4096
    assert len(tokenizer.encode(session.prompt)) < 2000
