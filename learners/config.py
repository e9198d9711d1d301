"""The configuration of a run: defaults, then `--config FILE.toml`, then flags.

A flat dataclass with checks; tyro reads the flags. A mistake of the user's exits with status 2.
"""

import argparse
import math
import os
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

import gymnasium
import tyro

import resume_gym  # noqa: F401  registers the environments
from resume_gym.mistakes import did_you_mean

PRESETS = Path(__file__).parent / "presets"


class ConfigError(ValueError):
    """A configuration that cannot be: says what was expected and what came."""


@dataclass(frozen=True)
class Config:
    """What to train, on what, and how.

    Attributes:
        name: of the run; its folder is RUNS/NAME, and the same name resumes it.
        runs: the folder of all runs.
        model: "nano", "smollm2", or a folder in Hugging Face's format.
        env: id of the environment, or module:id of one that the module registers.
        tasks: source of the tasks; empty for the environment's own.
        task_sampling: informative draws tasks whose groups' rewards differ more often than others.
        judge: who grades the final documents: a name, or JSON with a name and options; empty for
            the environment's own.
        seed: of everything that is drawn.
        steps: optimizer steps.
        groups: tasks a step.
        group_size: rollouts of each task.
        temperature: of sampling, in training and evaluation.
        max_tokens: limit of a turn, in tokens.
        learning_rate: of AdamW, constant.
        clip_norm: the gradient's norm is clipped to this.
        weight_decay: of AdamW.
        engine: who samples: transformers in this process, while nothing trains, or vllm servers.
        engine_urls: of vllm servers that run already; else the job starts its own.
        engine_procs: vllm servers that the job starts on each machine.
        engine_gpus: GPUs of each of them; the first GPUs of a machine, trainers have the rest.
        colocated: engine and trainer share their GPUs in turns; the engine sleeps meanwhile.
        max_staleness: how many optimizer steps may lie between the weights that sampled a token
            and those that train on it; 0 samples and trains in turns.
        patience_s: how long a completion, a verdict or an update of the engine may take, what
            is tried again included; judges that ask models have a deadline of their own.
        loss: the policy loss; grpo takes standardised advantages, the others centred ones.
        precision: of the forward pass; weights are float32 in any case.
        row_tokens: limit of a packed row, in tokens; less takes less memory.
        activation_checkpointing: compute each layer again in the backward pass; less memory.
        lora_rank: of low-rank adapters, which are trained alone; 0 trains all weights.
        lora_alpha: the adapters' output is scaled by lora_alpha / lora_rank.
        optimizer: adamw8bit keeps AdamW's state in 8 bits.
        backend: local trains in this process, the others share the weights out.
        trainer_procs: processes that train on this machine, for fsdp2 and deepspeed.
        replicas: copies of the weights among them, for fsdp2; each copy is shared out.
        offload: keep weights and optimizer state in the CPU's memory, for fsdp2 and deepspeed.
        save_every: steps between checkpoints.
        async_save: write checkpoints while the next step runs, for fsdp2.
        eval_every: steps between evaluations on held-out tasks, a multiple of save_every; 0 for
            none but those before and after training.
        eval_tasks: held-out tasks of an evaluation.
        eval_rollouts: rollouts of each held-out task.
        threads: of the CPU; 0 for all cores.
        log_to: who shows the training beside the run's own files: tensorboard, wandb, trackio.

    Raises:
        ConfigError: a value is of another kind or out of range.
    """

    name: str = "nano"
    runs: Path = Path("runs")
    model: str = "nano"
    env: str = "ResumeEditMini-v0"
    tasks: str = ""
    task_sampling: Literal["uniform", "informative"] = "uniform"
    judge: str = ""
    seed: int = 1
    steps: int = 20
    groups: int = 8
    group_size: int = 8
    temperature: float = 0.7
    max_tokens: int = 96
    learning_rate: float = 8e-5
    clip_norm: float = 1.0
    weight_decay: float = 0.0
    engine: Literal["transformers", "vllm"] = "transformers"
    engine_urls: tuple[str, ...] = ()
    engine_procs: int = 1
    engine_gpus: int = 1
    colocated: bool = False
    max_staleness: int = 1
    patience_s: float = 600.0
    loss: Literal["aipo", "ipo", "dppo_kl", "grpo", "dr_grpo"] = "aipo"
    precision: Literal["float32", "bfloat16"] = "float32"
    row_tokens: int = 16384
    activation_checkpointing: bool = False
    lora_rank: int = 0
    lora_alpha: int = 32
    optimizer: Literal["adamw", "adamw8bit"] = "adamw"
    backend: Literal["local", "fsdp2", "deepspeed"] = "local"
    trainer_procs: int = 1
    replicas: int = 1
    offload: bool = False
    save_every: int = 5
    async_save: bool = False
    eval_every: int = 0
    eval_tasks: int = 40
    eval_rollouts: int = 4
    threads: int = 0
    log_to: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(Config).items():
            object.__setattr__(self, name, _typed(name, kind, getattr(self, name)))
        if self.name in ("", ".", "..") or set(self.name) & set("/\\"):
            raise ConfigError(f"name: expected the name of a folder, got {self.name!r}")
        _registered(self.env)
        least = dict.fromkeys(_COUNTS, 1) | {"group_size": 2} | dict.fromkeys(_FROM_ZERO, 0)
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ConfigError(f"{name}: expected at least {bound}, got {getattr(self, name)}")
        for name in ("temperature", "learning_rate", "clip_norm", "patience_s"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name}: expected more than 0, got {getattr(self, name)}")
        if self.weight_decay < 0:
            raise ConfigError(f"weight_decay: expected at least 0, got {self.weight_decay}")
        if self.eval_every % self.save_every:
            wanted = f"a multiple of save_every, {self.save_every}"
            raise ConfigError(f"eval_every: expected {wanted}, got {self.eval_every}")
        if len(set(self.log_to)) < len(self.log_to):
            raise ConfigError(f"log_to: expected each name once, got {', '.join(self.log_to)}")
        self._check_engine()
        self._check_trainer()

    def _check_engine(self) -> None:
        for name in ("engine_urls", "engine_procs", "engine_gpus", "colocated"):
            value = getattr(self, name)
            if self.engine != "vllm" and value != getattr(Config, name):
                raise ConfigError(f"{name}: {value} needs engine 'vllm', got {self.engine!r}")
        for url in self.engine_urls:
            if not url.startswith(("http://", "https://")):
                raise ConfigError(f"engine_urls: expected http://HOST:PORT, got {url!r}")
        for name in ("max_staleness", "eval_every"):
            if self.colocated and getattr(self, name):
                wanted = f"{name} 0, since engine and trainer take turns"
                raise ConfigError(f"colocated: expected {wanted}; got {getattr(self, name)}")

    def _check_trainer(self) -> None:
        for name, backends in _ONLY_FOR.items():
            value = getattr(self, name)
            if self.backend not in backends and value != getattr(Config, name):
                told = f"backend {_names(backends)}, got {self.backend!r}"
                raise ConfigError(f"{name}: {value} needs {told}")
        if self.async_save and self.optimizer == "adamw8bit":
            raise ConfigError("async_save: the state of adamw8bit cannot be copied; expected adamw")
        extras = (
            ("vllm", "vllm", self.engine == "vllm" and not self.engine_urls),
            ("deepspeed", "deepspeed", self.backend == "deepspeed"),
            ("adamw8bit", "torchao", self.optimizer == "adamw8bit"),
            ("lora", "peft", self.lora_rank > 0),
        )
        for extra, package, wanted in extras:
            if wanted and find_spec(package) is None:
                on_cpu = ", or `make vllm` without a GPU" if extra == "vllm" else ""
                raise ConfigError(f"{extra}: needs `pip install -e .[{extra}]`{on_cpu}")


_ONLY_FOR = {
    "trainer_procs": ("fsdp2", "deepspeed"),
    "replicas": ("fsdp2",),
    "offload": ("fsdp2", "deepspeed"),
    "async_save": ("fsdp2",),
}
_FROM_ZERO = ("seed", "threads", "lora_rank", "max_staleness", "eval_every")
_COUNTS = (
    "steps",
    "groups",
    "max_tokens",
    "row_tokens",
    "save_every",
    "eval_tasks",
    "eval_rollouts",
    "lora_alpha",
    "trainer_procs",
    "replicas",
    "engine_procs",
    "engine_gpus",
)


def _typed(name: str, kind: object, value: object) -> object:
    """The value, if it is of the field's kind; integers pass for floats, text for paths."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ConfigError(f"{name}: expected {_names(get_args(kind))}, got {value!r}")
        return value
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if kind is str and isinstance(value, str):
        return value
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(_typed(name, get_args(kind)[0], one) for one in value)
    if kind in (int, bool) and type(value) is kind:
        return value
    if kind is float and type(value) in (int, float) and math.isfinite(value):  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    if get_origin(kind) is tuple:
        raise ConfigError(f"{name}: expected a list of texts, got {value!r}")
    wanted = {
        str: "text",
        Path: "a path",
        bool: "true or false",
        int: "an integer",
        float: "a finite number",
    }
    raise ConfigError(f"{name}: expected {wanted[kind]}, got {value!r}")  # type: ignore[index]


def _registered(env: str) -> None:
    """See that an environment is there."""
    module, _, name = env.rpartition(":")
    if module:
        try:
            import_module(module)
        except (ImportError, TypeError) as error:
            raise ConfigError(f"env: cannot import {module!r}: {error}") from None
    if name not in gymnasium.registry:
        near = did_you_mean(name, gymnasium.registry)
        raise ConfigError(f"env: no environment is called {name!r}{near}")


def load(argv: Sequence[str]) -> Config:
    """The configuration of a command line; a mistake in it ends the program with status 2."""
    known, rest = _own_flags().parse_known_args(argv)
    sys.path.append(os.getcwd())  # for environments and judges of one's own
    try:
        base = Config() if known.config is None else read_toml(_find(known.config))
    except ConfigError as error:
        stop(error)
    presets = _names(path.stem for path in sorted(PRESETS.glob("*.toml")))
    about = (
        f"Train a policy. `--config FILE.toml`, or a preset's name ({presets}), sets the defaults. "
        "`--dry-run` prints what the run would take of this machine, and "
        "`--dry-run '4 x NVIDIA H200'` of another; neither starts it."
    )
    return tyro.cli(Config, default=base, args=rest, description=about)


def dry_run(argv: Sequence[str]) -> str | None:
    """The machine for which `--dry-run` asks, "here" for this one; None if it does not."""
    return _own_flags().parse_known_args(argv)[0].dry_run  # type: ignore[no-any-return]


def _own_flags() -> argparse.ArgumentParser:
    """What a command line has beside the fields of `Config`."""
    usage = "%(prog)s [--config FILE.toml] [--dry-run [MACHINE]] [OPTIONS]"
    parser = argparse.ArgumentParser(usage=usage, add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    parser.add_argument("--dry-run", "--dry_run", nargs="?", const="here")
    return parser


def stop(error: Exception) -> NoReturn:
    """End the program over a mistake of the user's: one line, status 2."""
    print(f"error: {error}", file=sys.stderr)
    raise SystemExit(2)


def read_toml(path: Path) -> Config:
    """The configuration in a file; what it leaves out has its default.

    Raises:
        ConfigError: the file cannot be read, or holds an unknown name or a wrong value.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    known = [one.name for one in fields(Config)]
    for name in values:
        if name not in known:
            raise ConfigError(f"{path}: unknown name {name!r}{did_you_mean(name, known)}")
    try:
        return Config(**values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def to_toml(config: Config) -> str:
    """The configuration as a TOML file that `read_toml` reads back."""
    lines = []
    for one in fields(config):
        value = getattr(config, one.name)
        lines.append(f"{one.name} = {_value(value)}\n")
    return "".join(lines)


def differences(before: Config, after: Config) -> Mapping[str, tuple[Any, Any]]:
    """The fields in which two configurations differ, with both values."""
    pairs = {
        one.name: (getattr(before, one.name), getattr(after, one.name)) for one in fields(Config)
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return _quoted(str(value)) if isinstance(value, str | Path) else repr(value).lower()


def _quoted(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _find(source: str) -> Path:
    """The file that `--config` names."""
    presets = {path.stem: path for path in PRESETS.glob("*.toml")}
    if source in presets:
        return presets[source]
    if not Path(source).is_file():
        wanted = f"a TOML file or a preset ({', '.join(sorted(presets))})"
        raise ConfigError(
            f"--config: expected {wanted}, got {source!r}{did_you_mean(source, presets)}"
        )
    return Path(source)


def _names(known: Iterable[str]) -> str:
    return " or ".join(map(repr, known))
