import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from learners.command_line import parse
from learners.config import PRESETS, Config, ConfigError, differences, read_toml, to_toml
from resume_gym.judges import make_judge
from resume_gym.support.user_errors import install


def load(argv: list[str]) -> Config:
    return parse(argv).config


def refusal(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the error message for a command line."""
    with pytest.raises(SystemExit) as stop:
        load(argv)
    said = capsys.readouterr()
    assert stop.value.code == 2
    assert said.out == ""
    return " ".join(said.err.split())


def test_flags_come_before_the_file_and_the_file_before_defaults(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("steps = 7\nseed = 5\nlearning_rate = 1\n")
    config = load(["--seed", "9", "--config", str(file), "--group-size=4"])
    assert (config.steps, config.seed, config.group_size) == (7, 9, 4)
    assert config.groups == Config().groups
    assert config.learning_rate == 1.0
    assert isinstance(config.learning_rate, float)


def test_both_spellings_of_a_flag_and_a_value_that_looks_like_a_flag() -> None:
    config = load(["--learning_rate", "1e-5", "--max-tokens", "8", "--name=-x", "--runs=a b"])
    assert (config.learning_rate, config.max_tokens, config.name) == (1e-5, 8, "-x")
    assert config.runs == Path("a b")


def test_every_preset_loads_by_its_name_and_the_nano_one_is_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    names = sorted(path.stem for path in PRESETS.glob("*.toml"))
    assert len(names) == 10
    configs = {name: load(["--config", name]) for name in names}
    assert configs["nano"] == Config()
    assert all(make_judge(one.judge) for one in configs.values() if one.judge)
    assert len({one.name for one in configs.values()}) == len(names), "they share a run's folder"


def test_the_preset_of_the_source_has_its_settings() -> None:
    config = load(["--config", "qwen3_14b_4xh200"])
    assert '"gemini"' in config.judge
    other = load(["--config", "qwen3_14b_vllm_judge"])
    assert set(differences(config, other)) == {"name", "judge"}
    assert config.groups * config.group_size == 48
    assert (config.group_size, config.steps, config.temperature) == (16, 160, 0.7)
    assert (config.learning_rate, config.precision) == (5e-6, "bfloat16")
    assert (config.engine_procs * config.engine_gpus, config.trainer_procs) == (1, 3)
    assert (config.eval_tasks, config.eval_rollouts) == (40, 16)


@pytest.mark.parametrize(
    ("argv", "machine"),
    [
        ("--seed 9", None),
        ("--seed 9 --dry-run", "here"),
        ("--dry-run --seed 9", "here"),
        ("--seed 9 --dry_run", "here"),
        ("--dry-run=4xH200 --seed 9", "4xH200"),
        ("--dry-run H200 --seed 9", "H200"),
    ],
)
def test_a_dry_run_is_no_setting(argv: str, machine: str | None) -> None:
    words = argv.split()
    assert parse(words)[:3] == (words, Config(seed=9), machine)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ("--stpes 3", "unrecognized arguments: --stpes 3; did you mean '--steps'?"),
        ("--confg nano", "unrecognized arguments: --confg nano; did you mean '--config'?"),
        ("nano", "unrecognized arguments: nano; did you mean '--config nano'?"),
        ("runs/a/config.toml", "did you mean '--config runs/a/config.toml'?"),
        ("--steps many", "--steps: expected int, got 'many'"),
        ("--steps 0", "steps: expected a number > 0, got 0"),
        ("--group-size 1", "group_size: expected a number >= 2, got 1"),
        ("--learning-rate nan", "learning_rate: expected a finite number, got nan"),
        (
            "--loss ppo",
            "--loss: expected one of 'aipo', 'ipo', 'dppo_kl', 'grpo', 'dr_grpo', 'raft'; "
            "got 'ppo'",
        ),
        ("--name ../up", "name: expected the name of a folder, got '../up'"),
        (
            "--env ResumeEditMini",
            "env: no environment is called 'ResumeEditMini'; did you mean 'ResumeEditMini-v0'?",
        ),
        ("--config nanno", "two_nodes), got 'nanno'; did you mean 'nano'?"),
    ],
)
def test_an_invalid_setting_is_named(
    argv: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refusal(argv.split(), capsys)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lerning_rate = 1.0", "unknown name 'lerning_rate'; did you mean 'learning_rate'?"),
        ("[train]\nsteps = 3", "unknown name 'train'"),
        ("steps = true", "steps: expected a valid integer, got True"),
        ("runs = 3", "runs: expected a path, got 3"),
        ("precision = []", "precision: expected 'float32' or 'bfloat16', got []"),
        ("steps = = 3", "Invalid value (at line 1, column 9)"),
    ],
)
def test_an_error_in_a_file_names_the_file(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    assert refusal(["--config", str(file)], capsys) == f"resume-gym: {file}: {told}"


def test_a_configuration_reads_back_as_it_was_written(tmp_path: Path) -> None:
    config = Config(
        name='an "odd" é name',
        runs=Path('back\\slash "quoted"\n\tlines'),
        tasks="naïve/\x7f☂.jsonl",
        learning_rate=1e-20,
        weight_decay=1e16,
        backend="fsdp2",
        offload=True,
        log_to=("tensorboard", "trackio"),
    )
    file = tmp_path / "config.toml"
    file.write_text(to_toml(config), encoding="utf-8")
    assert read_toml(file) == config
    assert list(tomllib.loads(to_toml(config))) == [one.name for one in dataclasses.fields(Config)]


def test_help_says_what_each_flag_is_and_its_default_under_a_preset(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="0"):
        load(["--config", "smollm2", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("usage: resume-gym train [")
    for one in dataclasses.fields(Config):
        assert re.search(rf"--{one.name.replace('_', '-')}[ ,]", said)
        assert f"\n        {one.name}: " in (Config.__doc__ or ""), "no line for --help to print"
    assert "number of tokens that the policy samples in a turn (default: 128)" in said
    assert "--config FILE.toml" in said
    assert "--dry-run" in said


VLLM = {"engine": "vllm"}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"seed": -1}, "seed: expected a number >= 0, got -1"),
        ({"seed": 2**63}, r"seed: expected a number < 9\.22337e\+18, got 9223372036854775808"),
        ({"temperature": 1e-300}, "^temperature: expected a number >= 0.001, got 1e-300"),
        ({"eval_temperature": 0.0}, "^eval_temperature: expected a number >= 0.001, got 0"),
        ({"name": "a\nb"}, r"^name: expected the name of a folder, got 'a\\nb'$"),
        ({"name": "\x1b[2J"}, "name: expected the name of a folder, got"),
        ({"loss": "grpo"}, r"^credit: grpo .*expected episode, got edit$"),
        ({"credit": "turn"}, r"^credit: .*'edit', 'episode' or 'none'"),
        ({"trainer_procs": 2}, "trainer_procs: 2 needs backend 'fsdp2' or 'deepspeed', got"),
        ({"replicas": 2, "backend": "deepspeed"}, "replicas: 2 needs backend 'fsdp2', got"),
        ({"offload": True}, "offload: True needs backend 'fsdp2' or 'deepspeed', got 'local'"),
        ({"backend": "fsdp2", "optimizer": "muon"}, "muon needs backend 'local', got 'fsdp2'"),
        ({"lora_rank": 4, "optimizer": "muon"}, "optimizer: expected adamw, since lora_rank"),
        ({"feedback_kinds": ()}, "feedback_kinds: "),
        ({"feedback_kinds": ("good",)}, "feedback_kinds: expected 'failed_call', 'good_line'"),
        ({"offload": 1}, "offload: expected true or false, got 1"),
        ({"engine_procs": 2}, "engine_procs: 2 needs engine 'vllm', got 'transformers'"),
        ({**VLLM, "engine_urls": ("a:1",)}, "engine_urls: expected http://HOST:PORT, got 'a:1'"),
        ({**VLLM, "engine_urls": ("http://me:KEY@a:1",)}, "engine_urls: expected no key in the"),
        ({**VLLM, "engine_urls": "http://a:1"}, "engine_urls: expected a list, got"),
        ({**VLLM, "engine_urls": (1,)}, "engine_urls: expected a valid string, got 1"),
        ({**VLLM, "colocated": True}, "colocated: expected max_staleness 0, .* got 1"),
        ({"log_to": "wandb"}, "log_to: expected a list, got 'wandb'"),
        ({"log_to": ("wanb",)}, "log_to: expected 'tensorboard', 'wandb' or 'trackio', got"),
        ({"log_to": ("wandb", "wandb")}, "log_to: expected each name once, got wandb, wandb"),
    ],
)
def test_wrong_values_and_combinations_are_named(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Config(**values)


def test_a_deeply_nested_file_is_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text(f"env = {'[' * 5000}")
    with pytest.raises(ConfigError, match=r"deep\.toml: expected less deeply nested TOML"):
        read_toml(tmp_path / "deep.toml")


def test_switches_and_lists_of_a_command_line() -> None:
    urls = ("http://a:1", "http://b:2")
    config = Config(backend="fsdp2", offload=True, engine="vllm", engine_urls=urls)
    assert load(["--backend=fsdp2", "--offload", "--engine=vllm", "--engine-urls", *urls]) == config
    logged = Config(log_to=("tensorboard", "trackio"))
    assert load(["--log-to", "tensorboard", "trackio"]) == logged


@pytest.mark.parametrize(
    ("values", "extra"),
    [
        ({"backend": "deepspeed"}, "deepspeed"),
        ({"engine": "vllm"}, "vllm"),
        ({"lora_rank": 4}, "lora"),
        ({"log_to": ("wandb",)}, "wandb"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    values: dict[str, Any], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("learners.config.find_spec", lambda name: True)
    Config(**values).check_packages()
    monkeypatch.setattr("learners.config.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=re.escape(f"needs `{install(extra)}`")):
        Config(**values).check_packages()
    Config().check_packages()
