"""Plan of a run for `--dry-run`: processes, memory and time, checked against the machine.

`make_plan` reads the model's config and tokenizer, but no weights, and of a model that has not been
downloaded nothing but its config. It assumes turns of maximum length, so tokens, FLOPs, activations
and times are upper bounds. The overhead of CUDA, NCCL and the allocator, a few GB per GPU, is not
included.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from torch import nn
from transformers import PreTrainedModel

from learners.build import make_workload
from learners.config import Config
from learners.engines.server import COLOCATED_SHARE, GPU_SHARE, kv_cache_bytes
from learners.errors import ConfigError
from learners.planning.duration import Batches, Duration, Serving, duration
from learners.planning.machine import Machine
from learners.planning.verdicts import CHARACTERS, Verdicts
from learners.rollouts.workload import Workload
from learners.training import models
from learners.training.backends.step import make_cost
from learners.training.batching import PackedRow, Sample, distribute, pack
from learners.training.flops import Memory, Sizes, layer_bytes, peak_flops, training_bytes
from learners.training.head import chunk_size
from resume_gym.llm.client import without_keys

UTILISATION = 0.45
"""Assumed share of a GPU's peak that training reaches."""
_TASKS = 32  # tasks whose prompts are tokenized

Cells = tuple[str, str, str]
"""A row of a table: name, value and note."""


class StepCosts(NamedTuple):
    """Costs of one optimizer step with turns of maximum length.

    Attributes:
        prompt: mean prompt length of real tasks, in tokens.
        counted: whether the model's tokenizer counted them, instead of their characters.
        rollout: length of the longest episode, in tokens.
        row: length of the longest packed row, in tokens.
        tokens: number of training tokens, each group's prompt counted once.
        operations: FLOPs of all ranks.
        seconds: time of the rank with the most work; None if the peak is unknown.
    """

    prompt: int
    counted: bool
    rollout: int
    row: int
    tokens: int
    operations: float
    seconds: float | None


@dataclass(frozen=True)
class RunPlan:
    """Resources of a configuration on a machine.

    Attributes:
        config: settings of the run.
        machine: hardware of the run.
        processes: name, device and purpose of each process of a machine.
        parameters: number of parameters, adapters included.
        trained: number of trained parameters.
        context: maximum sequence length of the model, in tokens.
        chunk: number of loss tokens whose logits exist at a time.
        memory: memory on the device of each trainer, in bytes.
        offloaded: bytes that each trainer keeps in CPU memory instead.
        staged: bytes that each trainer copies to CPU memory while it writes a checkpoint.
        copy: bytes of the full copy of the weights that samples, on rank 0's device.
        serving: memory of a server, if the run starts any.
        step: costs of a step.
        verdicts: verdicts of the judge; None without one.
        duration: time of the run; None without servers on known GPUs.
    """

    config: Config
    machine: Machine
    processes: tuple[Cells, ...]
    parameters: int
    trained: int
    context: int
    chunk: int
    memory: Memory
    offloaded: int
    staged: int
    copy: int
    serving: Serving | None
    step: StepCosts
    verdicts: Verdicts | None
    duration: Duration | None


def make_plan(config: Config, machine: Machine) -> RunPlan:
    """Plan a run, and check that it fits the machine.

    Raises:
        ConfigError: the run does not fit, or the model or judge is not supported.
        FileNotFoundError: the model does not exist.
        TaskError: the tasks cannot be loaded.
    """
    world = _world(config, machine)
    model = models.outline(config.model)
    counted = models.is_here(config.model)
    # the nano policy's chat template writes what Qwen3's does
    with without_keys():
        work = make_workload(config if counted else replace(config, model="nano"))
    sizes = Sizes.of(model.config)
    step = _step(config, machine, world, make_cost(model, bool(config.lora_rank)), work, counted)
    serving = _serving(config, sizes, machine) if _engines(config) else None
    parameters, trained = count_parameters(config, model)
    chunk = chunk_size(
        sizes.vocabulary, machine.gpus[first_trainer(config)][1] if machine.gpus else 0
    )
    memory = _training(config, sizes, (parameters, trained), world, step.row, chunk)
    steps = Batches(config.steps, config.groups * config.group_size)
    held_out = Batches(evaluations(config), len(work.held_out) * config.eval_rollouts)
    verdicts = Verdicts.of(
        work, *(batches.number * batches.episodes for batches in (steps, held_out))
    )
    # sharded weights cannot sample, so rank 0 has a full fp32 copy
    embedded = config.engine == "transformers" and config.backend != "local"
    plan = RunPlan(
        config=config,
        machine=machine,
        processes=tuple(_processes(config, machine, verdicts.url if verdicts else "")),
        parameters=parameters,
        trained=trained,
        context=model.config.max_position_embeddings,
        chunk=chunk,
        memory=memory._replace(weights=0, gradients=0, optimizer=0) if config.offload else memory,
        offloaded=sum(memory[:3]) if config.offload else 0,
        staged=memory.weights + memory.optimizer if config.async_save else 0,
        copy=4 * sizes.parameters if embedded else 0,
        serving=serving,
        step=step,
        verdicts=verdicts,
        duration=duration(
            machine=machine,
            served=serving,
            servers=config.engine_procs * machine.number,
            lengths=(step.prompt, work.rules.max_turns * config.max_tokens),
            training=step.seconds,
            together=config.max_staleness > 0,
            steps=steps,
            evaluations=held_out,
        ),
    )
    if machine.gpus:
        _check_gpus(plan)
    else:
        _check_cpu(plan)
    _check_serving(plan)
    return plan


def _engines(config: Config) -> int:
    """Return the number of GPUs of the servers that the run starts on each machine."""
    return config.engine_procs * config.engine_gpus if config.starts_servers else 0


def count_parameters(config: Config, model: PreTrainedModel) -> tuple[int, int]:
    """Return the number of parameters with adapters, and of those that are trained.

    Adapters are counted, not made: peft need not be installed for a dry run.
    """
    whole = sum(weight.numel() for weight in model.parameters())
    if not config.lora_rank:
        return whole, sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    layers = model.get_decoder().layers[getattr(model.config, "frozen_layers", 0) :]
    linear = [one for layer in layers for one in layer.modules() if isinstance(one, nn.Linear)]
    adapters = config.lora_rank * sum(one.in_features + one.out_features for one in linear)
    return whole + adapters, adapters


def first_trainer(config: Config) -> int:
    """Return the index of the first GPU that trains."""
    return 0 if config.colocated else _engines(config)


def gpus(config: Config, trainers: int) -> int:
    """Return the number of GPUs that engines and trainers take on each machine."""
    return max(_engines(config), first_trainer(config) + trainers)


def check_gpus(config: Config, available: int, trainers: int) -> None:
    """Check the number of a machine's GPUs, with which so many processes train.

    Raises:
        ConfigError: there are too few; a machine without any uses its CPU.
    """
    engines, needed = _engines(config), gpus(config, trainers)
    if 0 < available < needed:
        shared = ", which share" if config.colocated else ""
        expected = f"{needed} ({engines} for engines, {trainers} for trainers{shared})"
        less = "; with --colocated they share" if engines and not config.colocated else ""
        raise ConfigError(f"GPUs: expected at least {expected}, got {available}{less}")


def _world(config: Config, machine: Machine) -> int:
    trainers = config.trainer_procs
    check_gpus(config, len(machine.gpus), trainers)
    world = trainers * machine.number
    if machine.number > 1 and config.backend == "local":
        expected = f"'fsdp2' or 'deepspeed' for {machine.number} machines"
        raise ConfigError(f"backend: expected {expected}, got 'local'")
    if world % config.replicas:
        expected = f"a divisor of {world} processes"
        several = "; --dry-run '2 x 8 x NVIDIA H200' plans two machines of 8 GPUs"
        less = several if machine.number == 1 else ""
        raise ConfigError(f"replicas: expected {expected}, got {config.replicas}{less}")
    return world


def _step(
    config: Config,
    machine: Machine,
    world: int,
    cost: Callable[[PackedRow], float],
    work: Workload,
    counted: bool,
) -> StepCosts:
    sessions = (work.session(task) for task in work.tasks[:_TASKS])
    ids = [work.chat.prompt(session.system_prompt, session.prompt) for session in sessions]
    prompts = [len(one) if counted else round(len(work.chat.read(one)) / CHARACTERS) for one in ids]
    prompt, response = round(fmean(prompts)), work.rules.max_turns * config.max_tokens
    # the members of a group nearly always begin with the same turn, `review`, and share it
    first, rest = config.max_tokens, response - config.max_tokens
    columns = [True] * response, *([0.0] * response,) * 2
    samples = [
        Sample(group, [0] * prompt, [0] * first + [1 + member] * rest, *columns)
        for group in range(config.groups)
        for member in range(config.group_size)
    ]
    rows = pack(samples, config.row_tokens, world)
    busiest = max(sum(map(cost, share)) for share in distribute(rows, world, cost))
    # `peak_flops` knows the bf16 peak only
    timed = machine.gpus and config.precision == "bfloat16"
    peak = peak_flops(machine.gpus[first_trainer(config)][0]) if timed else None
    # real episodes are shorter and may fill rows up to the limit of `pack`
    rollout, group = max(prompts) + response, max(prompts) + config.group_size * response
    limit = max(group, -(-config.groups * group // world))
    return StepCosts(
        prompt=prompt,
        counted=counted,
        rollout=rollout,
        row=max(rollout, min(config.row_tokens, limit)),
        tokens=sum(len(row.tokens) for row in rows),
        operations=sum(map(cost, rows)),
        seconds=busiest / (UTILISATION * peak) if peak else None,
    )


def evaluations(config: Config) -> int:
    """Return the number of evaluations: before, during and after training.

    An evaluation that is due after the last step counts as the one after training.
    """
    return 2 + ((config.steps - 1) // config.eval_every if config.eval_every else 0)


def moments(config: Config) -> int:
    """Return the bytes of optimizer state per trained parameter."""
    return 2 if config.optimizer == "adamw8bit" else 8


def _training(
    config: Config, sizes: Sizes, counts: tuple[int, int], world: int, row: int, chunk: int
) -> Memory:
    """Estimate a trainer's memory; rough for setups that `flops.training_bytes` does not cover."""
    parameters, trained = counts
    shards, checkpointed = world // config.replicas, config.activation_checkpointing
    # `training_bytes` assumes bf16, which fp32 doubles
    wide = 1 if config.precision == "bfloat16" else 2
    base = training_bytes(sizes, shards, row, chunk)
    gathered, reduced = wide * base.gathered, base.reduced
    if config.backend == "local":  # unsharded weights, of which autocast caches a bf16 copy
        gathered, reduced = (2 * parameters if wide == 1 else 0), 4 * sizes.embeddings
    return base._replace(
        weights=-(-4 * parameters // shards),
        gradients=-(-4 * trained // shards),
        optimizer=-(-moments(config) * trained // shards),
        gathered=gathered,
        reduced=0 if config.lora_rank else reduced,
        checkpoints=wide * base.checkpoints if checkpointed else 0,
        layer=wide * layer_bytes(sizes) * row * (1 if checkpointed else sizes.layers),
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


def _processes(config: Config, machine: Machine, judge: str) -> Iterator[Cells]:
    def place(first: int, count: int = 1) -> str:
        return f"GPU {', '.join(map(str, range(first, first + count)))}" if machine.gpus else "CPU"

    trainers, background = config.trainer_procs, config.engine == "vllm"
    if config.backend != "local":
        yield "launcher", "CPU", "starts the trainers, ends all when one fails"
    for number in range(config.engine_procs if _engines(config) else 0):
        where = place(number * config.engine_gpus, config.engine_gpus)
        shares = "; sleeps while the trainer trains" if config.colocated else ""
        yield f"vLLM server {number}", where, f"samples{shares}"
    for url in config.engine_urls:
        yield "vLLM server", "elsewhere", f"samples; runs already at {url}"
    if judge:
        yield "judge's server", "elsewhere", f"grades; must run at {judge}"
    leads = "trains, leads the others" if trainers * machine.number > 1 else "trains"
    for local in range(trainers):
        ranks = " and ".join(map(str, range(local, trainers * machine.number, trainers)))
        where = place(first_trainer(config) + local)
        first = leads if background else "plays the episodes, then trains"
        yield f"trainer, rank {ranks}", where, "trains" if local else first
    if background:
        where = ", on the first machine only" if machine.number > 1 else " and has them graded"
        yield "rollout process", "CPU", f"plays episodes{where}"


def _check_gpus(plan: RunPlan) -> None:
    config, machine, served = plan.config, plan.machine, plan.serving
    first = first_trainer(config)
    name, size = min(machine.gpus[first : first + config.trainer_procs], key=lambda gpu: gpu[1])
    less = "more trainers, offload, activation_checkpointing or fewer row_tokens take less"
    needed = plan.memory.total + plan.copy
    if needed > size:
        limits = f"at most {in_bytes(size)} ({name}), got {in_bytes(needed)}"
        raise ConfigError(f"a trainer's memory: expected {limits}; {less}")
    # while the engine samples, a trainer has neither gradients nor activations
    rest = plan.memory.weights + plan.memory.optimizer
    if config.colocated and served and rest + served.device > size:
        limits = f"at most {in_bytes(size - served.device)} beside an engine, got {in_bytes(rest)}"
        raise ConfigError(f"a trainer's weights and optimizer: expected {limits}")
    _check_memory(plan, config.trainer_procs * (plan.offloaded + plan.staged))


def _check_cpu(plan: RunPlan) -> None:
    config, served = plan.config, plan.serving
    each = sum(plan.memory[:3]) + plan.offloaded + plan.staged
    trainers = config.trainer_procs * each + plan.copy
    _check_memory(plan, trainers + (config.engine_procs * served.device if served else 0))


def _check_memory(plan: RunPlan, needed: int) -> None:
    if 0 < plan.machine.memory_bytes < needed:
        limits = f"at most {in_bytes(plan.machine.memory_bytes)}, got {in_bytes(needed)}"
        raise ConfigError(f"the CPU's memory for weights, gradients, optimizer: expected {limits}")


def _check_serving(plan: RunPlan) -> None:
    served, step = plan.serving, plan.step
    if served is None:
        return
    if served.weights > served.device:
        limits = f"at most {in_bytes(served.device)} of a GPU, got {in_bytes(served.weights)}"
        raise ConfigError(
            f"an engine's weights: expected {limits}; more engine_gpus take less each"
        )
    # vLLM does not start unless one sequence of the model's full length fits
    needed = max(step.rollout, plan.context)
    if served.tokens < needed:
        limits = f"room for {needed:,} tokens, got {served.tokens:,}"
        raise ConfigError(f"an engine's KV cache: expected {limits}; more engine_gpus give more")


def in_bytes(size: float) -> str:
    """Format a size in MB or GB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
