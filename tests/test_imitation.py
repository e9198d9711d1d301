"""The warm start: its rows, the order in which they come, and the whole command."""

import pickle
import re
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import torch
from jobs import garble

from learners import imitation
from learners.demonstrations import HASTY
from learners.imitation import DEFAULTS, Dose, Phase, main, make_rows, phases_of, rows_of, shuffled
from learners.losses import LossInput, Totals, likelihood
from learners.run.folder import RunFolder
from learners.training import checkpoint
from learners.training.cpu import has_bfloat16
from learners.training.models import load, load_tokenizer
from learners.training.rows import PackedRow
from resume_gym import Session, load_tasks
from resume_gym.folders.jobs import status

CONFIG = replace(DEFAULTS, model="nano", row_tokens=4096)
PHASE = Phase("short pages with faults", HASTY, short=True, until=1.0)


def rows(number: int, start: int = 0) -> list[PackedRow]:
    made = make_rows(Dose(minutes=1, draws=4), CONFIG, PHASE, start, 0)
    return [pickle.loads(next(made)) for _ in range(number)]


def test_rows_are_the_same_again_and_others_after_a_restart() -> None:
    first, again, others = rows(3), rows(3), rows(3, start=1)
    for packed, same, other in zip(first, again, others, strict=True):
        assert packed.tokens.tolist() == same.tokens.tolist() != other.tokens.tolist()
        assert len(packed.tokens) <= 4096
        assert float(packed.advantages.mean()) == pytest.approx(1)


def test_rows_of_the_apprentice_have_hints_and_other_tools() -> None:
    dose = Dose(minutes=1, editor="apprentice", draws=2)
    drill, short, whole = phases_of(dose, 0.1)
    assert (drill.until, short.short, whole.short, whole.until) == (0.1, True, False, 1.0)
    made = make_rows(dose, CONFIG, short, 0, 0)
    tokenizer = load_tokenizer("nano")
    texts = [tokenizer.decode(pickle.loads(next(made)).tokens.tolist()) for _ in range(8)]
    assert sum("Hint: " in text for text in texts) > 4
    assert any('"search"' in text for text in texts)
    again = make_rows(dose, CONFIG, short, 0, 0)
    assert tokenizer.decode(pickle.loads(next(again)).tokens.tolist()) == texts[0]


def test_the_other_editor_ends_with_bad_habits() -> None:
    titles = [phase.title for phase in phases_of(Dose(minutes=1), 0.1)]
    assert titles == ["drill", "short pages", "habits off", "habits on"]


def test_a_pause_is_no_training_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = {"loss": 1.0, "trained_tokens": 400_000, "trained_tokens_per_s": 1.0}
    exported: list[str] = []
    trainer = SimpleNamespace(
        state={},
        step_rows=lambda *_: trained,
        save=lambda step: None,
        wait_for_checkpoint=lambda: None,
        export=lambda path, replace: exported.append(path.name),
    )
    clock = count(0.0, 7200.0)  # each step takes hours
    monkeypatch.setattr(imitation, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    dose = Dose(minutes=60, keep=1)
    imitation.imitate(dose, CONFIG, trainer, count(), 1500.0, 1, RunFolder(tmp_path))  # type: ignore[arg-type]
    assert trainer.state == {"seconds": 1500.0, "steps": 5, "tokens": 2_000_000, "phases": 1}
    assert exported == ["model-1m", "model-2m"]
    assert "step 5" in capsys.readouterr().out


@pytest.mark.slow
def test_workers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imitation, "_BUFFER", 0)  # rows come as they are made
    dose = Dose(minutes=1, draws=2, workers=2, repeats=1)
    with rows_of(dose, CONFIG, PHASE, 0) as made:
        found = [next(made).tokens.tolist() for _ in range(4)]
    alone = [make_rows(dose, CONFIG, PHASE, 0, worker) for worker in range(2)]
    wanted = [pickle.loads(next(alone[n % 2])).tokens.tolist() for n in range(4)]
    assert found == wanted


def test_every_row_is_seen_so_many_times_and_not_at_once() -> None:
    order = list(shuffled(range(200), 3, 60, Random(0)))
    assert len(order) == 600 - 60
    seen = [order.count(number) for number in range(150)]
    assert max(seen) == 3
    assert sum(one == 3 for one in seen) > 120
    assert sum(a == b for a, b in pairwise(order)) < 30


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
        (["--backend", "fsdp2"], "optimizer: muon needs backend 'local', got 'fsdp2'"),
        (["--habits", "2"], "habits: expected a number <= 1, got 2.0"),
        (["--model", "absent"], "model: expected 'nano', 'smollm2', 'smollm2-editor', a folder"),
        (["--dry-run"], "unrecognized arguments: --dry-run"),
        (["--rows", "0"], "rows: expected a number > 0, got 0"),
    ],
)
def test_bad_options_are_one_line(
    flags: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--minutes", "1", "--runs", str(tmp_path), *flags])
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
        main(["--minutes", "1", "--runs", str(tmp_path)])
    assert "writes to this folder; wait" in capsys.readouterr().err


def test_damaged_evaluations_are_played_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path)
    earlier = '{"phase": "habits off", "minutes": 6, "reward": 1.5}\n'  # without a checksum
    (tmp_path / "evaluations.jsonl").write_text(earlier)
    folder.writer.append_row("evaluations.jsonl", {"phase": "habits on", "minutes": 6.0})
    with (tmp_path / "evaluations.jsonl").open("a") as lines:
        lines.write('{"minutes": 6}\n[]\n{"phase": "habits on", "minu')
    assert imitation._evaluated(folder) == {("habits off", 6.0), ("habits on", 6.0)}
    told = capsys.readouterr().err.splitlines()
    assert [line.rpartition(", ")[2] for line in told] == ["line 3 is damaged", "line 4 is damaged"]


@pytest.mark.slow
def test_a_new_policy_learns_the_form_of_calls_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twenty-one steps in two parts; their number does not depend on the machine."""
    monkeypatch.setattr(imitation, "_BUFFER", 4)
    clock = count(0.0, 0.5)  # read three times a step, which so takes a second
    monkeypatch.setattr(imitation, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    flags = ["--runs", str(tmp_path), "--row-tokens", "2048", "--eval-tasks", "1", "--threads", "1"]
    flags += ["--optimizer", "adamw", "--learning-rate", "1e-3"]  # Muon is slow on some CPUs
    main([*flags, "--minutes", "0.2", "--eval-rollouts", "1", "--habits", "0.3"])
    first = capsys.readouterr().out
    folder = RunFolder(tmp_path / "imitation")
    assert status(folder.path) == "ended"
    # the machine was cut off: the newest checkpoint is damaged, a line is incomplete
    older, newer = checkpoint.steps(folder.checkpoints)
    garble(checkpoint.path_of(folder.checkpoints, newer) / "state.json")
    with (folder.path / "evaluations.jsonl").open("a") as lines:
        lines.write('{"phase": "habits o')
    main([*flags, "--minutes", "0.35", "--eval-rollouts", "1", "--habits", "0.3"])
    second, told = capsys.readouterr()
    assert f"step-{newer:06d} was renamed to damaged-step-{newer:06d}" in told
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", first + second)]
    assert losses[-1] < losses[0] - 0.3
    rows = [line.record for line in folder.reader.lines("evaluations.jsonl", sealed=True)]
    assert [row["phase"] for row in rows] == ["habits off", "habits on"] * 2
    result = folder.result("after")
    assert result
    assert rows[-1]["reward"] == result.reward
    assert "differ by" in first
    steps = [int(step) for step in re.findall(r"step (\d+)", second)]
    assert older < steps[0], "the second run goes on after the older checkpoint"
    assert steps == sorted(steps)
    exported = str(folder.path / "model")
    assert sum(one.numel() for one in load(exported).parameters()) < 6_000_000
    tokenizer = load_tokenizer(exported)
    session = Session(load_tasks("default", "eval")[0])
    assert len(tokenizer) == 4096
    assert len(tokenizer.encode(session.prompt)) < 2000
