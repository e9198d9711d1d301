import shutil
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from transformers import Qwen3Config

from learners import aipo
from learners.config import PRESETS, Config, ConfigError, read_toml
from learners.engines.server import command
from learners.planning.machine import Machine
from learners.planning.plan import Plan, make_plan
from learners.planning.table import show
from learners.training import models

H200 = Machine.named("4 x NVIDIA H200")
SMALL = Machine((), memory_bytes=16 * 10**9, cores=2)
QWEN3_14B: dict[str, Any] = {
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}
QWEN3_600M = QWEN3_14B | {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "tie_word_embeddings": True,
}


@pytest.fixture(autouse=True)
def everything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan may be for a machine that has what this one lacks."""
    monkeypatch.setattr("learners.config.find_spec", lambda name: True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models without weights: configs, and the nano policy's tokenizer."""
    made = tmp_path_factory.mktemp("models")
    for name, sizes in {"Qwen3-14B": QWEN3_14B, "Qwen3-0.6B": QWEN3_600M}.items():
        Qwen3Config(**sizes).save_pretrained(made / name)
        for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(models.NANO / file, made / name)
    return made


@pytest.fixture
def source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The source's experiment."""
    monkeypatch.chdir(folder)
    return read_toml(PRESETS / "qwen3_14b_4xh200.toml")


@pytest.fixture
def alone(folder: Path) -> Config:
    """A small model on one GPU, with an engine that sleeps while it trains."""
    model = str(folder / "Qwen3-0.6B")
    own: dict[str, Any] = {"engine": "vllm", "colocated": True, "max_staleness": 0}
    return Config(model=model, precision="bfloat16", activation_checkpointing=True, **own)


def printed(plan: Plan, width: int = 100) -> str:
    out = StringIO()
    show(plan, Console(file=out, width=width))
    return out.getvalue()


def test_the_source_s_experiment_fits_four_h200(source: Config) -> None:
    plan = make_plan(source, H200)
    assert plan.parameters == plan.trained == 14_768_307_200
    assert sum(plan.memory[:3]) / 1e9 == pytest.approx(78.8, abs=0.05)
    assert 110e9 < plan.memory.total < 125e9
    places = {name: place for name, place, _ in plan.processes}
    assert places == {
        "launcher": "CPU",
        "vLLM server 0": "GPU 0",
        "trainer, rank 0": "GPU 1",
        "trainer, rank 1": "GPU 2",
        "trainer, rank 2": "GPU 3",
        "rollout process": "CPU",
    }
    assert plan.serving is not None
    assert plan.serving.weights == 2 * plan.parameters
    assert plan.serving.cache == 2 * 40 * 8 * 128 * 2  # keys and values of a token, in bf16
    assert plan.serving.tokens == (126_900_000_000 - plan.serving.weights) // plan.serving.cache


def test_costs_of_a_step_grow_with_its_turns(source: Config) -> None:
    plans = [make_plan(replace(source, max_tokens=one), H200).step for one in (64, 128)]
    short, long = plans
    assert long.rollout - short.rollout == 10 * 64
    assert long.tokens - short.tokens == 48 * 10 * 64
    assert short.prompt == long.prompt
    assert 2.1 * short.operations > long.operations > 1.2 * short.operations
    assert short.seconds is not None
    assert long.seconds is not None
    # three ranks have a group each
    assert long.seconds == pytest.approx(long.operations / (3 * 0.45 * 989.5e12))


def test_it_does_not_fit_four_h100_but_does_with_its_state_in_the_cpu_s_memory(
    source: Config,
) -> None:
    machine = Machine.named("4 x H100")
    told = r"a trainer's memory: expected at most 80\.0 GB \(NVIDIA H100\), got 117\.\d GB"
    with pytest.raises(ConfigError, match=told):
        make_plan(source, machine)
    offloaded = make_plan(replace(source, offload=True), machine)
    assert offloaded.memory.total < 80e9
    assert offloaded.offloaded / 1e9 == pytest.approx(78.8, abs=0.05)
    told = r"the CPU's memory .*: expected at most 128\.0 GB, got 236\.\d GB"
    with pytest.raises(ConfigError, match=told):
        make_plan(replace(source, offload=True), machine._replace(memory_bytes=128 * 10**9))


def test_memory_follows_the_settings(alone: Config) -> None:
    machine = Machine.named("8 x H200")
    apart = replace(alone, colocated=False, backend="fsdp2", trainer_procs=4)
    plan = make_plan(apart, machine)
    halves = make_plan(replace(apart, replicas=2), machine)
    assert halves.memory.weights == pytest.approx(2 * plan.memory.weights, rel=1e-6)
    kept = make_plan(replace(apart, activation_checkpointing=False), machine)
    assert kept.memory.layer == 28 * plan.memory.layer
    assert kept.memory.checkpoints == 0
    adapted = make_plan(replace(apart, lora_rank=8), machine)
    assert adapted.memory.optimizer == 2 * adapted.memory.gradients < plan.memory.optimizer / 50
    assert adapted.step.operations < plan.step.operations
    small = make_plan(replace(apart, optimizer="adamw8bit"), machine)
    assert small.memory.optimizer == pytest.approx(plan.memory.optimizer / 4, rel=1e-6)
    split = make_plan(replace(apart, engine_gpus=2), machine)
    assert plan.serving is not None
    assert split.serving is not None
    assert 2 * split.serving.weights == plan.serving.weights


def test_too_few_gpus_are_refused(source: Config) -> None:
    told = r"GPUs: expected at least 4 \(1 for engines, 3 for trainers\), got 3"
    with pytest.raises(ConfigError, match=told):
        make_plan(source, Machine.named("3 x H200"))
    told = "GPUs: expected at least 2 .*, got 1"
    with pytest.raises(ConfigError, match=told):
        make_plan(replace(source, trainer_procs=1), Machine.named("H200"))


def test_an_engine_needs_room_for_its_weights_and_a_whole_episode(alone: Config) -> None:
    apart = replace(alone, colocated=False)
    trains = "NVIDIA H200", 141 * 10**9
    told = r"an engine's weights: expected at most 900\.0 MB of a GPU, got 1\.2 GB"
    with pytest.raises(ConfigError, match=told):
        make_plan(apart, Machine((("small", 10**9), trains)))
    told = r"KV cache: expected room for 40,960 tokens, got \d,\d{3}; more engine_gpus"
    with pytest.raises(ConfigError, match=told):
        make_plan(apart, Machine((("small", 2 * 10**9), trains)))
    # an episode may be longer than what the model is made for
    told = r"KV cache: expected room for 6\d,\d{3} tokens, got 4\d,\d{3}"
    with pytest.raises(ConfigError, match=told):
        make_plan(replace(apart, max_tokens=10_000), Machine((("small", 7 * 10**9), trains)))


def test_engine_and_trainer_share_the_memory_of_a_gpu(alone: Config) -> None:
    plan = make_plan(alone, Machine.named("H100"))
    assert [place for _, place, _ in plan.processes] == ["GPU 0", "GPU 0", "CPU"]
    assert plan.serving is not None
    assert plan.serving.device == 32 * 10**9
    large = replace(alone, activation_checkpointing=False, row_tokens=10**6, groups=64)
    with pytest.raises(ConfigError, match="a trainer's memory"):
        make_plan(large, Machine.named("H100"))


def test_a_trainer_s_weights_stay_while_the_engine_is_awake(source: Config) -> None:
    own: dict[str, Any] = {"colocated": True, "max_staleness": 0, "backend": "local"}
    own |= {"trainer_procs": 1, "async_save": False, "max_tokens": 64, "row_tokens": 4096}
    config = replace(source, precision="float32", **own)
    told = r"weights and optimizer: expected at most 168\.0 GB beside an engine, got 177\.2 GB"
    with pytest.raises(ConfigError, match=told):
        make_plan(config, Machine((("X", 280 * 10**9),)))
    make_plan(config, Machine((("X", 300 * 10**9),)))


def test_two_machines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    config = read_toml(PRESETS / "two_nodes.toml")
    plan = make_plan(config, Machine.named("2 x 8 x NVIDIA H200"))
    assert ("trainer, rank 0 and 7", "GPU 1", "trains, drives") in plan.processes
    assert sum(plan.memory[:3]) == pytest.approx(16 * plan.parameters / 7, rel=1e-6)
    assert "Processes of each machine" in printed(plan)
    with pytest.raises(ConfigError, match="replicas: expected a divisor of 7 processes, got 2"):
        make_plan(config, Machine.named("8 x H200"))
    with pytest.raises(ConfigError, match=r"backend: expected .* for 2 machines, got 'local'"):
        make_plan(Config(), Machine.named("2 x 8 x H200"))


def test_on_a_cpu_only_state_and_engines_count(source: Config) -> None:
    told = r"the CPU's memory .*: expected at most 16\.0 GB, got 26\d\.\d GB"
    with pytest.raises(ConfigError, match=told):
        make_plan(source, SMALL)
    plan = make_plan(Config(), SMALL)
    assert [one[:2] for one in plan.processes] == [("trainer, rank 0", "CPU")]
    assert plan.trained < plan.parameters  # its first layer is frozen
    assert plan.step.seconds is None
    beside = make_plan(read_toml(PRESETS / "nano_vllm.toml"), SMALL)
    names = [name for name, *_ in beside.processes]
    assert names == ["vLLM server 0", "trainer, rank 0", "rollout process"]
    assert beside.serving is not None
    assert beside.serving.device - beside.serving.weights == 10**9


def test_a_trainer_that_shares_its_weights_out_samples_with_a_copy() -> None:
    plan = make_plan(Config(backend="fsdp2", trainer_procs=2), SMALL)
    assert plan.copy == 4 * plan.parameters
    assert "copy that samples" in printed(plan)


def test_servers_that_run_already_take_nothing_here(source: Config) -> None:
    plan = make_plan(replace(source, engine_urls=("http://far:8000",)), Machine.named("3 x H200"))
    assert plan.serving is None
    assert ("trainer, rank 0", "GPU 0", "trains, drives") in plan.processes
    assert "http://far:8000" in printed(plan)


def test_an_engine_gets_what_its_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan's shares are the command line's."""
    config = Config(engine="vllm")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    plan = make_plan(config, Machine.here()._replace(gpus=()))
    told = command(config, 0, "127.0.0.1", 1)
    cache = int(told[told.index("--kv-cache-memory-bytes") + 1])
    assert plan.serving is not None
    assert plan.serving.device - plan.serving.weights == cache
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for one in (config, replace(config, colocated=True, max_staleness=0)):
        told = command(one, 0, "127.0.0.1", 1)
        share = float(told[told.index("--gpu-memory-utilization") + 1])
        serving = make_plan(one, H200).serving
        assert serving is not None
        assert serving.device == int(share * 141e9)


@pytest.mark.parametrize(
    ("text", "gpus", "number"),
    [
        ("4 x NVIDIA H200", 4, 1),
        ("1 x L40S", 1, 1),
        ("nvidia h100", 1, 1),
        ("B200", 1, 1),
        ("2 x 8 x NVIDIA A100", 8, 2),
    ],
)
def test_machines_by_name(text: str, gpus: int, number: int) -> None:
    machine = Machine.named(text)
    assert (len(machine.gpus), machine.number) == (gpus, number)
    assert str(machine).upper().endswith(text.split()[-1].upper())


@pytest.mark.parametrize(
    "text", ["", "4 x Potato", "0 x H200", "H200 NVL", "x H200", "4 x", "4xH200"]
)
def test_an_unknown_machine_is_refused_with_those_that_are_known(text: str) -> None:
    told = r"--dry-run: expected GPUs such as '4 x NVIDIA H200', with B200 or H200 or .*; got "
    with pytest.raises(ConfigError, match=told + repr(text)):
        Machine.named(text)


def test_this_machine_has_cores_and_memory() -> None:
    machine = Machine.named("here")
    assert machine.cores >= 1
    assert machine.memory_bytes > 10**8
    assert len(machine.gpus) == torch.cuda.device_count()


@pytest.mark.parametrize("width", [100, 200])
def test_the_table_fits_in_100_columns(width: int, source: Config) -> None:
    text = printed(make_plan(source, H200), width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100
    for told in (
        "14.8 B parameters, on 4 x NVIDIA H200. Nothing is started.",
        "117.1 GB   of 141.0 GB a GPU",
        "594,258   51 episodes of full length at once",
        "3 groups of 16",
        "tokens at most, a group's prompt once",
        "at most, to train at 45% of the GPUs' peak",
        "at most, in steps from sampling to training",
        "every 20 steps; up to three are kept",
    ):
        assert told in text


def test_the_command_prints_the_plan_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["aipo.py", "--runs", str(tmp_path), "--dry-run"])
    aipo.main()
    assert "Nothing is started." in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(sys, "argv", ["aipo.py", "--dry-run", "4 x abacus"])
    with pytest.raises(SystemExit, match="2"):
        aipo.main()
    assert "--dry-run: expected GPUs" in capsys.readouterr().err
