"""What a run would take, on paper: `--dry-run` prints it, or says what does not fit.

Nothing is loaded but the model's config and tokenizer. Turns are taken to be as long as they may
be, so tokens, operations and activations are upper bounds; what CUDA, NCCL and the allocator keep
for themselves, a few GB a GPU, is left out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from learners import models
from learners.backends.step import make_cost, make_policy
from learners.batching import Batch, Sample, distribute, pack
from learners.config import Config, ConfigError
from learners.engines.server import COLOCATED_SHARE, GPU_SHARE, kv_cache_bytes
from learners.flops import Memory, Sizes, layer_bytes, peak_flops, training_bytes
from learners.head import CHUNK
from learners.machine import Machine
from learners.work import Work

UTILISATION = 0.45
"""Of a GPU's peak, what training is taken to reach."""
_TASKS = 32

Row = tuple[str, str, str]


class Serving(NamedTuple):
    """What a vLLM server that the job starts has, on each of its devices.

    Attributes:
        device: bytes that it may take.
        weights: bytes.
        cache: bytes of a token in the KV cache.
    """

    device: int
    weights: int
    cache: int

    @property
    def tokens(self) -> int:
        """That the KV cache holds."""
        return max(0, self.device - self.weights) // self.cache


class Step(NamedTuple):
    """One optimizer step with turns as long as they may be.

    Attributes:
        prompt: tokens of a prompt, the mean of real ones.
        rollout: tokens of the longest episode.
        row: tokens of the longest packed row.
        tokens: that are trained on, a group's prompt counted once.
        operations: floating point operations.
        seconds: of the rank with the most work; None where the peak is not known.
    """

    prompt: int
    rollout: int
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
        processes: of a machine: name, where it computes, and what it does.
        parameters: of the model, adapters included.
        trained: parameters that are trained.
        context: the longest sequence that the model is made for, in tokens.
        memory: of a trainer's device, in bytes.
        offloaded: bytes of each trainer in the CPU's memory instead.
        copy: bytes of a whole copy that samples, on rank 0's device.
        serving: a server, if the job starts any.
        step: costs of a step.
    """

    config: Config
    machine: Machine
    processes: tuple[Row, ...]
    parameters: int
    trained: int
    context: int
    memory: Memory
    offloaded: int
    copy: int
    serving: Serving | None
    step: Step


def make_plan(config: Config, machine: Machine) -> Plan:
    """What a run takes, if the machine has it.

    Raises:
        ConfigError: the machine does not have it, or the model or judge cannot be used.
        FileNotFoundError: there is no such model.
        TaskError: there are no such tasks.
    """
    world = _world(config, machine)
    model = models.skeleton(config.model)
    sizes, step = Sizes.of(model.config), _step(config, machine, world, make_cost(config, model))
    weights = list(make_policy(config, model, config.precision).parameters())
    parameters = sum(one.numel() for one in weights)
    trained = sum(one.numel() for one in weights if one.requires_grad)
    memory = _training(config, sizes, (parameters, trained), world, step.row)
    embedded = config.engine == "transformers" and config.backend != "local"
    plan = Plan(
        config=config,
        machine=machine,
        processes=tuple(_processes(config, machine)),
        parameters=parameters,
        trained=trained,
        context=model.config.max_position_embeddings,
        memory=memory._replace(weights=0, gradients=0, optimizer=0) if config.offload else memory,
        offloaded=sum(memory[:3]) if config.offload else 0,
        copy=4 * sizes.parameters if embedded else 0,
        serving=_serving(config, sizes, machine) if _engines(config) else None,
        step=step,
    )
    if machine.gpus:
        _check_gpus(plan)
    else:
        _check_cpu(plan)
    _check_serving(plan)
    return plan


def _engines(config: Config) -> int:
    """GPUs of the servers that the job starts on a machine."""
    own = config.engine == "vllm" and not config.engine_urls
    return config.engine_procs * config.engine_gpus if own else 0


def first_trainer(config: Config) -> int:
    """The first GPU that trains."""
    return 0 if config.colocated else _engines(config)


def _world(config: Config, machine: Machine) -> int:
    engines, trainers = _engines(config), config.trainer_procs
    wanted = max(engines, first_trainer(config) + trainers)
    if 0 < len(machine.gpus) < wanted:
        shared = ", which share" if config.colocated else ""
        told = f"{wanted} ({engines} for engines, {trainers} for trainers{shared})"
        raise ConfigError(f"GPUs: expected at least {told}, got {len(machine.gpus)}")
    world = trainers * machine.number
    if machine.number > 1 and config.backend == "local":
        told = f"'fsdp2' or 'deepspeed' for {machine.number} machines, got 'local'"
        raise ConfigError(f"backend: expected {told}")
    if world % config.replicas:
        told = f"a divisor of {world} processes, got {config.replicas}"
        raise ConfigError(f"replicas: expected {told}")
    return world


def _step(config: Config, machine: Machine, world: int, cost: Callable[[Batch], float]) -> Step:
    work = Work.of(config)
    sessions = (work.session(task) for task in work.tasks[:_TASKS])
    prompts = [len(work.chat.prompt(one.system_prompt, one.prompt)) for one in sessions]
    prompt, response = round(fmean(prompts)), work.rules.max_turns * config.max_tokens
    columns = [0] * prompt, [0] * response, [True] * response, [0.0] * response
    samples = [
        Sample(group, *columns, 1.0)
        for group in range(config.groups)
        for _ in range(config.group_size)
    ]
    rows = pack(samples, config.row_tokens, world)
    busiest = max(sum(map(cost, share)) for share in distribute(rows, world, cost))
    # the peak is that of bf16
    timed = machine.gpus and config.precision == "bfloat16"
    peak = peak_flops(machine.gpus[first_trainer(config)][0]) if timed else None
    # episodes are shorter than their limits: a row may hold any number of them
    rollout, group = max(prompts) + response, max(prompts) + config.group_size * response
    limit = max(group, -(-config.groups * group // world))
    return Step(
        prompt,
        rollout,
        max(rollout, min(config.row_tokens, limit)),
        sum(len(row.tokens) for row in rows),
        sum(map(cost, rows)),
        busiest / (UTILISATION * peak) if peak else None,
    )


def moments(config: Config) -> int:
    """Bytes of optimizer state a parameter."""
    return 8 if config.optimizer == "adamw" else 2


def _training(
    config: Config, sizes: Sizes, counts: tuple[int, int], world: int, row: int
) -> Memory:
    """Memory of a trainer; rough where `flops.training_bytes` describes something else."""
    parameters, trained = counts
    shards, kept = world // config.replicas, config.activation_checkpointing
    wide = 1 if config.precision == "bfloat16" else 2
    base = training_bytes(sizes, shards, row, CHUNK)
    gathered, reduced = wide * base.gathered, base.reduced
    if config.backend == "local":  # whole weights, of which autocast keeps a copy in bf16
        gathered, reduced = (2 * parameters if wide == 1 else 0), 4 * sizes.embeddings
    return base._replace(
        weights=-(-4 * parameters // shards),
        gradients=-(-4 * trained // shards),
        optimizer=-(-moments(config) * trained // shards),
        gathered=gathered,
        reduced=0 if config.lora_rank else reduced,
        checkpoints=wide * base.checkpoints if kept else 0,
        layer=wide * layer_bytes(sizes) * row * (1 if kept else sizes.layers),
    )


def _serving(config: Config, sizes: Sizes, machine: Machine) -> Serving:
    wide, parts = (2 if config.precision == "bfloat16" else 4), 1
    if machine.gpus:
        parts = config.engine_gpus
        least = min(size for _, size in machine.gpus[: _engines(config)])
        device = int((COLOCATED_SHARE if config.colocated else GPU_SHARE) * least)
    weights = wide * sizes.parameters // parts
    if not machine.gpus:
        device = weights + kv_cache_bytes(machine.memory_bytes)
    heads = -(-sizes.key_heads // parts)
    return Serving(device, weights, 2 * sizes.layers * heads * sizes.head_size * wide)


def _processes(config: Config, machine: Machine) -> Iterator[Row]:
    def place(first: int, count: int = 1) -> str:
        return f"GPU {', '.join(map(str, range(first, first + count)))}" if machine.gpus else "CPU"

    trainers, beside = config.trainer_procs, config.engine == "vllm"
    if config.backend != "local":
        yield "launcher", "CPU", "starts the trainers, ends all when one dies"
    for number in range(config.engine_procs if _engines(config) else 0):
        where = place(number * config.engine_gpus, config.engine_gpus)
        shares = "; sleeps while the trainer trains" if config.colocated else ""
        yield f"vLLM server {number}", where, f"samples{shares}"
    for url in config.engine_urls:
        yield "vLLM server", "elsewhere", f"samples; runs already at {url}"
    for local in range(trainers):
        ranks = " and ".join(map(str, range(local, trainers * machine.number, trainers)))
        drives = ", drives" if beside else ", plays episodes before that, drives"
        where = place(first_trainer(config) + local)
        yield f"trainer, rank {ranks}", where, f"trains{'' if local else drives}"
    if beside:
        where = ", on the first machine only" if machine.number > 1 else " and has them graded"
        yield "rollout process", "CPU", f"plays episodes{where}"


def _check_gpus(plan: Plan) -> None:
    config, machine, served = plan.config, plan.machine, plan.serving
    first = first_trainer(config)
    name, size = min(machine.gpus[first : first + config.trainer_procs], key=lambda one: one[1])
    less = "more trainers, offload, activation_checkpointing or fewer row_tokens take less"
    needed = plan.memory.total + plan.copy
    if needed > size:
        told = f"at most {in_bytes(size)} ({name}), got {in_bytes(needed)}"
        raise ConfigError(f"a trainer's memory: expected {told}; {less}")
    rest = plan.memory.weights + plan.memory.optimizer
    if config.colocated and served and rest + served.device > size:
        told = f"at most {in_bytes(size - served.device)} beside an engine, got {in_bytes(rest)}"
        raise ConfigError(f"a trainer's weights and optimizer: expected {told}")
    _check_memory(plan, config.trainer_procs * plan.offloaded)


def _check_cpu(plan: Plan) -> None:
    config, served = plan.config, plan.serving
    trainers = config.trainer_procs * (sum(plan.memory[:3]) + plan.offloaded) + plan.copy
    _check_memory(plan, trainers + (config.engine_procs * served.device if served else 0))


def _check_memory(plan: Plan, needed: int) -> None:
    if 0 < plan.machine.memory_bytes < needed:
        told = f"at most {in_bytes(plan.machine.memory_bytes)}, got {in_bytes(needed)}"
        raise ConfigError(f"the CPU's memory for weights, gradients, optimizer: expected {told}")


def _check_serving(plan: Plan) -> None:
    served, step = plan.serving, plan.step
    if served is None:
        return
    if served.weights > served.device:
        told = f"at most {in_bytes(served.device)} of a GPU, got {in_bytes(served.weights)}"
        raise ConfigError(f"an engine's weights: expected {told}; more engine_gpus take less each")
    # vLLM does not start without room for one sequence of the model's full length
    needed = max(step.rollout, plan.context)
    if served.tokens < needed:
        told = f"room for {needed:,} tokens, got {served.tokens:,}"
        raise ConfigError(f"an engine's KV cache: expected {told}; more engine_gpus give more")


def in_bytes(size: float) -> str:
    """A size for people, in MB or GB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
