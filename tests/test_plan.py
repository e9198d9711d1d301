import json
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from rich.console import Console

from learners import aipo
from learners.build import server_settings
from learners.command_line import parse
from learners.config import PRESETS, Config, ConfigError, read_toml
from learners.engines.command import command
from learners.planning.machine import Machine
from learners.planning.plan import RunPlan, evaluations
from learners.planning.table import show
from learners.training import lora, models
from learners.training.flops import Sizes
from resume_gym.llm.gemini import KEYS

H200 = Machine.named("4 x NVIDIA H200")
SMALL = Machine((), memory_bytes=16 * 10**9, cores=2)


@pytest.fixture(autouse=True)
def nothing_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan needs no weights, no network, no key and no package for GPUs."""
    monkeypatch.setattr("learners.config.find_spec", lambda name: None)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)

    def no_network(*address: object, **options: object) -> None:
        raise AssertionError(f"{address}: a plan needs no network")

    monkeypatch.setattr("socket.getaddrinfo", no_network)


planned = cache(RunPlan)


def preset(name: str) -> Config:
    return read_toml(PRESETS / f"{name}.toml")


def machine_of(name: str) -> Machine:
    """The machine that `--dry-run` assumes for a preset; a small one, if it needs no GPUs."""
    machine = parse(["--config", name, "--dry-run"]).machine or ""
    return SMALL if machine == "here" else Machine.named(machine)


TWO = machine_of("two_nodes")


SOURCE, ALONE = preset("qwen3_14b_4xh200"), replace(preset("one_gpu"), model="Qwen/Qwen3-0.6B")
APART = replace(ALONE, colocated=False)
BESIDE = replace(
    replace(SOURCE, async_save=False, max_tokens=64, row_tokens=4096, precision="float32"),
    **{"colocated": True, "max_staleness": 0, "backend": "local", "trainer_procs": 1},
)


def printed(plan: RunPlan) -> str:
    out = StringIO()
    show(plan, Console(file=out, width=200))
    return out.getvalue()


@pytest.mark.parametrize("name", sorted(path.stem for path in PRESETS.glob("*.toml")))
def test_every_preset_fits_its_machine(name: str) -> None:
    plan = planned(preset(name), machine_of(name))
    assert list(plan.verdicts) == [plan.config.env]
    assert bool(plan.times) == bool(plan.machine.gpus) == (plan.config.precision == "bfloat16")
    assert plan.config.eval_every
    if plan.times:
        during = (evaluations(plan.config) - 2) * plan.times.evaluation
        assert 0 < during < 0.1 * plan.times.total
    assert plan.counted == ("Qwen" not in plan.config.model)
    text = printed(plan)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100


def test_four_gpus_of_80_gb_train_all_weights() -> None:
    config = replace(preset("four_gpus_24gb"), lora_rank=0)
    assert RunPlan(config, Machine.named("4 x A100")).memory.total < 60e9
    with pytest.raises(ConfigError, match="a trainer's memory"):
        RunPlan(config, machine_of("four_gpus_24gb"))


@pytest.mark.parametrize(
    ("size", "parameters"), [("0.6B", 596_049_920), ("8B", 8_190_735_360), ("14B", 14_768_307_200)]
)
def test_the_sizes_of_qwen3_are_known_without_its_files(size: str, parameters: int) -> None:
    """The published numbers of parameters."""
    config = models.read_config(f"Qwen/Qwen3-{size}")
    assert Sizes(config).parameters == parameters
    assert config.max_position_embeddings == 40_960


def test_the_source_s_verdicts_and_their_cost() -> None:
    plan = planned(SOURCE, H200)
    (verdicts,) = plan.verdicts.values()
    assert verdicts.training == 160 * 48
    assert verdicts.held_out == 40 * 16 * 3
    assert verdicts.requests == 3 * 2  # votes, each with a comparison and a check of the claims
    assert verdicts.model == "gemini-3-flash-preview"
    (once,) = RunPlan(replace(SOURCE, judge="gemini"), H200).verdicts.values()
    assert once.requests == 3
    assert 7_000 < once.read < 10_000  # docs/judges.md
    assert "$180   by list prices" in printed(plan)


def test_other_judges_have_no_price() -> None:
    own = planned(preset("qwen3_14b_vllm_judge"), H200)
    (verdicts,) = own.verdicts.values()
    assert (verdicts.requests, verdicts.dollars) == (3, None)
    assert "http://127.0.0.1:8001/v1" in printed(own)
    far = json.dumps({"name": "openai", "model": "unlisted"})
    assert "unknown   the model has no list price" in printed(
        RunPlan(replace(SOURCE, judge=far), H200)
    )
    tiers = json.dumps({"name": "tiers", "local": "rubric", "frontier": "gemini"})
    assert "unknown   tiers(rubric, gemini/" in printed(RunPlan(replace(SOURCE, judge=tiers), H200))
    offline = planned(preset("two_nodes"), TWO)
    (verdicts,) = offline.verdicts.values()
    assert (verdicts.training, verdicts.requests) == (160 * 14 * 16 * 10, 0)
    assert "the judge reads" not in printed(offline)


def test_rules_that_grade_a_model_with_more_words_than_they_know_are_named() -> None:
    assert "readers would not prefer" in printed(planned(preset("two_nodes"), TWO))
    assert "readers would not prefer" not in printed(planned(preset("nano"), SMALL))
    assert "readers would not prefer" not in printed(planned(SOURCE, H200))


def test_adapters_are_counted_as_peft_makes_them() -> None:
    model = models.skeleton("nano")
    lora.inject(model, 4, 8)
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert Sizes(model.config).adapters(4) == trained


def test_sampling_takes_as_long_as_reading_weights_and_caches() -> None:
    plan = planned(SOURCE, H200)
    times, served = plan.times, plan.serving
    # 48 episodes fit at once, with half of their replies on average
    read = served.weights + 48 * (plan.step.prompt + 5_120) * served.cache
    assert times.sampling == pytest.approx(10_240 * read / (0.7 * 4.8e12))
    assert times.step == times.sampling > plan.step.seconds
    assert times.total == 160 * times.step + 3 * times.evaluation
    turns = RunPlan(replace(SOURCE, max_staleness=0), H200).times
    assert turns.step == times.sampling + plan.step.seconds


def test_the_source_s_experiment_fits_four_h200() -> None:
    plan = planned(SOURCE, H200)
    assert plan.parameters == 14_768_307_200
    assert sum(plan.memory[:3]) / 1e9 == pytest.approx(78.8, abs=0.05)
    assert 110e9 < plan.memory.total < 125e9
    assert plan.serving.weights == 2 * plan.parameters
    assert plan.serving.cache == 2 * 40 * 8 * 128 * 2  # keys and values of a token, in bf16
    assert plan.serving.tokens == (126_900_000_000 - plan.serving.weights) // plan.serving.cache


def two(memory: int) -> Machine:
    """A machine with a small GPU for the engine and a large one for training."""
    return Machine((("small", memory), ("NVIDIA H200", 141 * 10**9)))


@pytest.mark.parametrize(
    ("config", "machine", "told"),
    [
        (
            SOURCE,
            Machine.named("4 x H100"),
            r"a trainer's memory: expected at most 80\.0 GB \(NVIDIA H100\), got 117\.1 GB",
        ),
        (
            replace(SOURCE, offload=True),
            Machine.named("4 x H100")._replace(memory_bytes=128 * 10**9),
            r"the CPU's memory .*: expected at most 128\.0 GB, got 413\.\d GB",
        ),
        (
            SOURCE,
            Machine.named("3 x H200"),
            r"GPUs: expected at least 4 \(1 for engines, 3 for trainers\), got 3; with --colocated",
        ),
        (APART, two(10**9), r"an engine's weights: expected at most 900\.0 MB of a GPU, got 1\.2"),
        (APART, two(2 * 10**9), r"KV cache: expected room for 40,960 tokens, got \d,\d{3}; more"),
        (
            replace(APART, max_tokens=10_000),  # an episode longer than what the model reads
            two(7 * 10**9),
            r"KV cache: expected room for 10\d,\d{3} tokens, got 4\d,\d{3}",
        ),
        (
            BESIDE,  # weights that stay while the engine is awake
            Machine((("X", 280 * 10**9),)),
            r"weights and optimizer: expected at most 168\.0 GB beside an engine, got 177\.2 GB",
        ),
        (
            preset("two_nodes"),
            Machine.named("8 x H200"),
            r"replicas: expected a divisor of 7 \(the number of processes\), got 2; --dry-run",
        ),
        (
            replace(preset("four_gpus_24gb"), goal="eval.rewards > 6"),
            machine_of("four_gpus_24gb"),
            "got 'eval.rewards'; did you mean 'eval.reward'",
        ),
        (
            replace(preset("four_gpus_24gb"), budget="judge_dollars <= 2"),
            machine_of("four_gpus_24gb"),
            "judge_dollars needs a judge with a list price, got rubric",
        ),
        (Config(), TWO, r"backend: expected .* for 2 machines, got 'local'"),
    ],
)
def test_what_does_not_fit_is_refused(config: Config, machine: Machine, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        RunPlan(config, machine)


def test_what_fits_in_the_cpu_s_memory() -> None:
    copied = planned(SOURCE, H200)
    assert 3 * copied.host / 1e9 == pytest.approx(12 * 14.7683, abs=0.01)
    machine = Machine.named("4 x H100")
    offloaded = RunPlan(replace(SOURCE, offload=True, async_save=False), machine)
    assert offloaded.memory.total < 80e9
    assert offloaded.host / 1e9 == pytest.approx(78.8, abs=0.05)
    RunPlan(BESIDE, Machine((("X", 300 * 10**9),)))


@pytest.mark.parametrize("launched", [False, True])
def test_a_run_names_the_gpus_that_it_lacks(
    launched: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rank without a GPU would end in an error of CUDA."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    settings = {"model": ALONE.model, "engine-urls": "http://far:1", "backend": "fsdp2"}
    if launched:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    else:
        settings["trainer-procs"] = "3"
    flags = [f"--{name}={value}" for name, value in {**settings, "engine": "vllm"}.items()]
    with pytest.raises(SystemExit, match="2"):
        aipo.main(parse(flags))
    told = "resume-gym: GPUs: expected at least 3 (0 for engines, 3 for trainers), got 2\n"
    assert capsys.readouterr().err == told


def test_memory_follows_the_settings() -> None:
    machine = Machine.named("8 x H200")
    apart = replace(ALONE, colocated=False, backend="fsdp2", trainer_procs=4)
    plan = RunPlan(apart, machine)
    halves = RunPlan(replace(apart, replicas=2), machine)
    assert halves.memory.weights == pytest.approx(2 * plan.memory.weights, rel=1e-6)
    kept = RunPlan(replace(apart, activation_checkpointing=False), machine)
    assert kept.memory.layer == 28 * plan.memory.layer
    assert kept.memory.checkpoints == 0
    wide = RunPlan(replace(apart, precision="float32"), machine)
    assert wide.memory.gathered == 2 * plan.memory.gathered
    adapted = RunPlan(replace(apart, lora_rank=8), machine)
    assert adapted.memory.optimizer == 2 * adapted.memory.gradients < plan.memory.optimizer / 50
    assert adapted.step.operations < plan.step.operations
    split = RunPlan(replace(apart, engine_gpus=2), machine)
    embedded = RunPlan(replace(apart, engine="transformers"), machine)
    assert embedded.copy == 4 * plan.parameters
    assert 2 * split.serving.weights == plan.serving.weights


def test_two_machines() -> None:
    config = preset("two_nodes")
    plan = planned(config, TWO)
    assert sum(plan.memory[:3]) == pytest.approx(16 * plan.parameters / 7, rel=1e-6)


def test_on_a_cpu_only_state_and_engines_count() -> None:
    plan = RunPlan(Config(), SMALL)
    assert plan.step.seconds is plan.times is None
    beside = RunPlan(preset("nano_vllm"), SMALL)
    assert beside.serving.device - beside.serving.weights == 10**9


def test_servers_that_run_already_take_nothing_here() -> None:
    plan = RunPlan(replace(SOURCE, engine_urls=("http://far:8000",)), Machine.named("3 x H200"))
    assert plan.serving is plan.times is None
    assert "http://far:8000" in printed(plan)


def test_an_engine_gets_what_its_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan's shares are the command line's."""
    config = Config(engine="vllm")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    plan = RunPlan(config, Machine.here()._replace(gpus=()))
    told = command(server_settings(config), 0, "127.0.0.1", 1)
    cache = int(told[told.index("--kv-cache-memory-bytes") + 1])
    assert plan.serving.device - plan.serving.weights == cache
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for one in (config, replace(config, colocated=True, max_staleness=0)):
        told = command(server_settings(one), 0, "127.0.0.1", 1)
        share = float(told[told.index("--gpu-memory-utilization") + 1])
        serving = RunPlan(one, H200).serving
        assert serving.device == int(share * 141e9)


@pytest.mark.parametrize(
    ("text", "gpus", "number", "gigabytes"),
    [
        ("4 x NVIDIA H200", 4, 1, 141),
        ("nvidia h100", 1, 1, 80),
        ("2 x 8 x NVIDIA A100", 8, 2, 80),
        ("2x8x h200", 8, 2, 141),
        ("NVIDIA H100 80GB HBM3", 1, 1, 80),
        ("NVIDIA H100 NVL", 1, 1, 94),
        ("8 x NVIDIA A100-SXM4-40GB", 8, 1, 40),
        ("NVIDIA GeForce RTX 4090", 1, 1, 24),
    ],
)
def test_machines_by_name(text: str, gpus: int, number: int, gigabytes: int) -> None:
    machine = Machine.named(text)
    assert (len(machine.gpus), machine.number) == (gpus, number)
    assert str(machine).upper().endswith(text.split()[-1].upper())
    assert {size for _, size in machine.gpus} == {gigabytes * 10**9}


@pytest.mark.parametrize("text", ["", "4 x Potato", "0 x H200", "H200 x 4", "RTX 4090 Laptop GPU"])
def test_an_unknown_machine_is_refused_with_those_that_are_known(text: str) -> None:
    told = r"--dry-run: expected GPUs such as '4 x NVIDIA H200', of type GH200 or B200 or .*; got "
    with pytest.raises(ConfigError, match=told + repr(text)):
        Machine.named(text)


def test_a_plan_is_printed() -> None:
    text = printed(planned(SOURCE, H200))
    for told in (
        "14.8 B parameters, on 4 x NVIDIA H200. Nothing is started.",
        "GPU 1-3   train",
        "117.1 GB   of 141.0 GB per GPU",
        "594,258   51 episodes of full length at once",
        f"{planned(SOURCE, H200).times.total / 3600:.1f} h   at most",
    ):
        assert told in text


def test_the_command_prints_the_plan_and_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aipo.main(parse(["--runs", str(tmp_path), "--dry-run"]))
    assert "Nothing is started." in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SystemExit, match="2"):
        aipo.main(parse(["--dry-run", "4 x abacus"]))
    assert "--dry-run: expected GPUs" in capsys.readouterr().err
