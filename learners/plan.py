"""What a run would take, on paper: `--dry-run` prints it, or says what does not fit.

Nothing is loaded but the model's config and tokenizer. Turns are taken to be as long as they may
be, so that tokens, operations and memory are bounds. What CUDA, NCCL and the allocator keep for
themselves, a few GB a GPU, is left out.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple, Self

import torch
from rich.console import Console
from rich.table import Table

from learners import models
from learners.backends.step import make_cost, make_policy
from learners.batching import Batch, Sample, distribute, pack
from learners.config import Config, ConfigError
from learners.flops import Memory, Sizes, layer_bytes, peak_flops, training_bytes
from learners.head import CHUNK
from learners.orchestrator import Work
from resume_gym import Session

HERE = "here"
"""The name of the machine that this runs on."""
UTILISATION = 0.45
"""Of a GPU's peak, what training is taken to reach."""
# of a GPU, what the job lets a server take; of a CPU's memory, its cache
_SHARE, _COLOCATED_SHARE = 0.9, 0.4
_CPU_CACHE_BYTES, _CPU_CACHE_SHARE = 4 * 2**30, 1 / 16
_MEMORY_GB = {"B200": 180, "H200": 141, "H100": 80, "A100": 80, "L40S": 48}
_MACHINE = re.compile(r"(?:([1-9]\d*) x )??(?:([1-9]\d*) x )?(?:NVIDIA )?(\S+)", re.IGNORECASE)
_TASKS = 32
_KEPT = 3  # checkpoints: the newest two and the best


class Machine(NamedTuple):
    """What a run would find.

    Attributes:
        gpus: name and bytes of each.
        memory_bytes: of the CPU; 0 if that is not known.
        cores: likewise.
        number: of such machines.
    """

    gpus: tuple[tuple[str, int], ...]
    memory_bytes: int = 0
    cores: int = 0
    number: int = 1

    @classmethod
    def here(cls) -> Self:
        """The one that this runs on."""
        found = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        gpus = tuple((one.name, one.total_memory) for one in found)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return cls(gpus, memory, os.cpu_count() or 1)

    @classmethod
    def named(cls, text: str) -> Self:
        """From words: "here", "4 x NVIDIA H200", or "2 x 8 x NVIDIA H200" for two machines.

        Raises:
            ConfigError: the words are others, or the GPU is not known.
        """
        if text == HERE:
            return cls.here()
        found = _MACHINE.fullmatch(text)
        if found is None or found[3].upper() not in _MEMORY_GB:
            wanted = f"N x GPU, where GPU is {' or '.join(_MEMORY_GB)}"
            raise ConfigError(f"--dry-run: expected {wanted}; got {text!r}")
        gpu = found[3].upper()
        gpus = ((f"NVIDIA {gpu}", _MEMORY_GB[gpu] * 10**9),) * int(found[2] or 1)
        return cls(gpus, number=int(found[1] or 1))

    def __str__(self) -> str:
        several = f"{self.number} x " if self.number > 1 else ""
        if self.gpus:
            names = sorted({name for name, _ in self.gpus})
            return f"{several}{len(self.gpus)} x {' and '.join(names)}"
        return f"{several}{self.cores} CPU cores, {_size(self.memory_bytes)}"


class Process(NamedTuple):
    """One process of each machine, where it computes, and what it does."""

    name: str
    place: str
    task: str


class Serving(NamedTuple):
    """A vLLM server, for each of its devices.

    Attributes:
        device_bytes: what it may take.
        weights: bytes.
        token_bytes: of a token in the KV cache.
        tokens: that the cache holds.
    """

    device_bytes: int
    weights: int
    token_bytes: int
    tokens: int


class Step(NamedTuple):
    """One optimizer step with turns as long as they may be.

    Attributes:
        prompt: tokens of a prompt, the mean of real ones.
        longest: likewise of the longest.
        response: sampled tokens of an episode.
        row: tokens of the longest packed row.
        tokens: that are trained on, a group's prompt counted once.
        operations: floating point operations.
        seconds: of the rank with the most work; None where the peak is not known.
    """

    prompt: int
    longest: int
    response: int
    row: int
    tokens: int
    operations: float
    seconds: float | None


@dataclass(frozen=True)
class Plan:
    """What a configuration takes on a machine.

    Attributes:
        config: of the run.
        machine: that it runs on.
        processes: of each machine; the rollout process is the first machine's alone.
        parameters: of the model, adapters included.
        trained: parameters that are trained.
        context: the longest sequence that the model is made for, in tokens.
        memory: of each trainer process, in bytes, state that is offloaded left out.
        offloaded: bytes of each trainer process in the CPU's memory.
        copy: bytes of a whole copy that samples, in rank 0's device.
        serving: a server that the job starts, if it does.
        step: costs of a step.
    """

    config: Config
    machine: Machine
    processes: Sequence[Process]
    parameters: int
    trained: int
    context: int
    memory: Memory
    offloaded: int
    copy: int
    serving: Serving | None
    step: Step

    @property
    def checkpoint(self) -> int:
        """Bytes of a checkpoint: weights and optimizer state."""
        return 4 * self.parameters + _moments(self.config) * self.trained


def make_plan(config: Config, machine: Machine) -> Plan:
    """What a run takes, if the machine has it.

    Raises:
        ConfigError: the machine does not have it, or the model or judge cannot be used.
        FileNotFoundError: the model's folder lacks its config.
    """
    model = models.skeleton(config.model)
    sizes, step = Sizes.of(model.config), _step(config, machine)
    weights = list(make_policy(config, model, "float32").parameters())
    parameters = sum(one.numel() for one in weights)
    trained = sum(one.numel() for one in weights if one.requires_grad)
    memory = _training(config, sizes, parameters, trained, _world(config, machine), step.row)
    state = sum(memory[:3])
    plan = Plan(
        config,
        machine,
        tuple(_processes(config, machine)),
        parameters,
        trained,
        model.config.max_position_embeddings,
        memory._replace(weights=0, gradients=0, optimizer=0) if config.offload else memory,
        state if config.offload else 0,
        4 * parameters if config.engine == "transformers" and config.backend != "local" else 0,
        _serving(config, sizes, machine) if _engines(config) else None,
        step,
    )
    _check_devices(plan)
    _check_serving(plan)
    return plan


def _engines(config: Config) -> int:
    """GPUs of the servers that the job starts on a machine."""
    own = config.engine == "vllm" and not config.engine_urls
    return config.engine_procs * config.engine_gpus if own else 0


def _first(config: Config) -> int:
    """The first GPU that trains."""
    return 0 if config.colocated else _engines(config)


def _world(config: Config, machine: Machine) -> int:
    world = config.trainer_procs * machine.number
    if world > 1 and config.backend == "local":
        told = f"'fsdp2' or 'deepspeed' for {machine.number} machines"
        raise ConfigError(f"backend: expected {told}, got 'local'")
    if world % config.replicas:
        told = f"a divisor of {world} processes, got {config.replicas}"
        raise ConfigError(f"replicas: expected {told}")
    wanted = max(_engines(config), _first(config) + config.trainer_procs)
    if 0 < len(machine.gpus) < wanted:
        told = f"{_engines(config)} for engines, {config.trainer_procs} for trainers"
        shared = ", shared" if config.colocated else ""
        raise ConfigError(f"GPUs: expected {wanted} ({told}{shared}), got {len(machine.gpus)}")
    return world


def _processes(config: Config, machine: Machine) -> Iterator[Process]:
    def place(first: int, count: int = 1) -> str:
        own = map(str, range(first, first + count))
        return f"GPU {', '.join(own)}" if machine.gpus else "CPU"

    if config.backend != "local":
        yield Process("launcher", "CPU", "starts the trainers; ends all when one dies")
    for local in range(config.trainer_procs):
        same = range(local, config.trainer_procs * machine.number, config.trainer_procs)
        name = f"trainer, rank {' and '.join(map(str, same))}"
        drives = "trains and drives" if local == 0 else "trains"
        samples = ", plays episodes" if local == 0 and config.engine == "transformers" else ""
        yield Process(name, place(_first(config) + local), drives + samples)
    for number in range(config.engine_procs if _engines(config) else 0):
        own = place(number * config.engine_gpus, config.engine_gpus)
        sleeps = ", sleeps while the trainer trains" if config.colocated else ""
        yield Process(f"vLLM server {number}", own, f"samples{sleeps}")
    for url in config.engine_urls:
        yield Process("vLLM server", url, "samples; runs already")
    if config.engine == "vllm":
        first = ", on the first machine" if machine.number > 1 else ""
        yield Process("rollouts", "CPU", f"plays and grades episodes{first}")


def _moments(config: Config) -> int:
    """Bytes of optimizer state a parameter."""
    return 8 if config.optimizer == "adamw" else 2


def _training(
    config: Config, sizes: Sizes, parameters: int, trained: int, world: int, row: int
) -> Memory:
    """Memory of a trainer process, for what `flops.training_bytes` does not describe roughly."""
    shards = world // config.replicas
    base = training_bytes(sizes, shards, row, CHUNK)
    wide = 1 if config.precision == "bfloat16" else 2
    kept = config.activation_checkpointing
    whole = config.backend == "local"  # nothing to gather, but autocast keeps halves
    return base._replace(
        weights=-(-4 * parameters // shards),
        gradients=-(-4 * trained // shards),
        optimizer=-(-_moments(config) * trained // shards),
        gathered=(2 * parameters if wide == 1 else 0) if whole else wide * base.gathered,
        reduced=0 if config.lora_rank else 4 * sizes.embeddings if whole else base.reduced,
        checkpoints=wide * base.checkpoints if kept else 0,
        layer=wide * layer_bytes(sizes) * row * (1 if kept else sizes.layers),
    )


def _serving(config: Config, sizes: Sizes, machine: Machine) -> Serving:
    wide = 2 if config.precision == "bfloat16" else 4
    weights = wide * sizes.parameters // config.engine_gpus
    heads = max(1, sizes.key_heads // config.engine_gpus)
    token = 2 * sizes.layers * heads * sizes.head_size * wide
    if machine.gpus:
        least = min(size for _, size in machine.gpus[: _engines(config)])
        given = int((_COLOCATED_SHARE if config.colocated else _SHARE) * least)
    else:
        given = weights + min(_CPU_CACHE_BYTES, int(machine.memory_bytes * _CPU_CACHE_SHARE))
    return Serving(given, weights, token, max(0, given - weights) // token)


def _step(config: Config, machine: Machine) -> Step:
    work, world = Work.of(config), _world(config, machine)
    sessions = (Session(task, work.rules) for task in work.tasks[:_TASKS])
    prompts = [len(work.chat.prompt(one.system_prompt, one.prompt)) for one in sessions]
    prompt, response = round(fmean(prompts)), work.rules.max_turns * config.max_tokens
    ids, sampled, logprobs = [0] * response, [True] * response, [0.0] * response
    rows = pack(
        [
            Sample(group, [0] * prompt, ids, sampled, logprobs, 1.0)
            for group in range(config.groups)
            for _ in range(config.group_size)
        ],
        config.row_tokens,
        world,
    )
    cost = make_cost(config, models.skeleton(config.model))
    loads = [sum(map(cost, share)) for share in distribute(rows, world, cost)]
    peak = peak_flops(machine.gpus[-1][0]) if machine.gpus else None
    timed = peak is not None and config.precision == "bfloat16"  # the peak is that of bf16
    tokens = sum(len(row.tokens) for row in rows)
    return Step(
        prompt,
        max(prompts),
        response,
        _longest_row(config, max(prompts), response, world),
        tokens,
        sum(map(cost, rows)),
        max(loads) / (peak * UTILISATION) if peak and timed else None,
    )


def _longest_row(config: Config, prompt: int, response: int, world: int) -> int:
    """What `pack` may make of groups of any length up to this one."""
    group = prompt + config.group_size * response
    return max(
        min(config.row_tokens, max(group, -(-config.groups * group // world))), prompt + response
    )


def _check_devices(plan: Plan) -> None:
    config, machine = plan.config, plan.machine
    procs, served = config.trainer_procs, plan.serving
    on_cpu = procs * plan.offloaded
    if machine.gpus:
        first = _first(config)
        name, size = min(machine.gpus[first : first + procs], key=lambda one: one[1])
        needed, less = plan.memory.total + plan.copy, "fewer row_tokens, offload or more GPUs"
        if needed > size:
            told = f"at most the {_size(size)} of an {name}, got {_size(needed)}"
            raise ConfigError(f"a trainer's memory: expected {told}; {less} take less")
        rests = plan.memory.weights + plan.memory.optimizer + plan.copy
        if config.colocated and served and rests + served.device_bytes > size:
            room = f"at most {_size(size - served.device_bytes)} beside the engine"
            raise ConfigError(f"a trainer's weights: expected {room}, got {_size(rests)}; {less}")
    else:
        on_cpu += procs * sum(plan.memory[:3]) + plan.copy
        on_cpu += config.engine_procs * served.device_bytes if served else 0
    if 0 < machine.memory_bytes < on_cpu:
        told = f"at most {_size(machine.memory_bytes)} for weights, gradients and optimizer"
        raise ConfigError(f"the CPU's memory: expected {told}, got {_size(on_cpu)}")


def _check_serving(plan: Plan) -> None:
    served, step = plan.serving, plan.step
    if served is None or not (plan.machine.gpus or plan.machine.memory_bytes):
        return
    if served.weights >= served.device_bytes:
        told = f"at most {_size(served.device_bytes)} a device, got {_size(served.weights)}"
        raise ConfigError(f"an engine's weights: expected {told}; more engine_gpus take less each")
    # vLLM does not start unless one sequence of the model's full length fits
    needed = max(step.longest + step.response, plan.context)
    if served.tokens < needed:
        told = f"room for {needed:,} tokens, got {served.tokens:,}"
        raise ConfigError(f"an engine's KV cache: expected {told}; more engine_gpus give more")
