"""Plan of a run for `--dry-run`: processes, memory and time, checked against the machine.

`RunPlan` reads the model's config, and also its tokenizer if the model is downloaded. It never
reads weights. The plan assumes turns of maximum length, so its tokens, FLOPs, activations and times
are upper bounds. The overhead of CUDA, NCCL and the allocator, a few GB per GPU, is not included.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from operator import itemgetter, mul
from statistics import fmean
from typing import NamedTuple

from learners.build import make_workloads
from learners.config import Config, is_served
from learners.engines.command import COLOCATED_SHARE, GPU_SHARE, kv_cache_bytes
from learners.errors import ConfigError
from learners.planning.machine import Machine
from learners.planning.verdicts import CHARACTERS, Verdicts
from learners.rollouts.workload import Workload
from learners.training import models
from learners.training.flops import Sizes, find_gpu, train_flops, training_bytes
from learners.training.rows import PackedRow, Sample, distribute, pack
from resume_gym.llm.client import without_keys

UTILISATION, BANDWIDTH = 0.3, 0.7
"""Shares used of a GPU's peak FLOP/s (measured, on an H200) and of its bandwidth (assumed)."""
_TOKEN_S = 0.005  # minimum seconds to decode one token, for scheduling and kernel launches
_TASKS = 32  # number of tasks whose prompts are tokenized


class StepCost(NamedTuple):
    """Costs of one optimizer step with turns of maximum length.

    Attributes:
        prompt: mean prompt length of real tasks, in tokens.
        response: number of tokens that the policy samples in an episode.
        rollout: number of tokens in the longest prompt and all turns, without tool replies.
        row: length of the longest packed row, in tokens.
        tokens: number of training tokens; a prefix that rollouts share counts once.
        operations: FLOPs of all ranks together.
        seconds: training time of the rank with the most work; None for fp32, CPUs and unknown GPUs.
    """

    prompt: int
    response: int
    rollout: int
    row: int
    tokens: int
    operations: float
    seconds: float | None


class Serving(NamedTuple):
    """Memory that a vLLM server of the run needs on each of its devices.

    Attributes:
        device: bytes of a device's memory that the server may use.
        weights: bytes of the model's weights on a device.
        cache: bytes that a token takes in the KV cache of a device.
    """

    device: int
    weights: int
    cache: int

    @property
    def tokens(self) -> int:
        """Capacity of the KV cache in tokens."""
        return max(0, self.device - self.weights) // self.cache


class Times(NamedTuple):
    """Times in seconds of the parts of a run on GPUs; the time to wait for a judge is excluded.

    Attributes:
        sampling: time to sample the episodes of a step.
        step: time of a step; sampling and training overlap if `max_staleness` is not 0.
        evaluation: time of an evaluation.
        total: time of all steps and evaluations.
    """

    sampling: float
    step: float
    evaluation: float
    total: float


class RunPlan:
    """Processes, memory and time that a training run needs on a machine.

    Args:
        config: settings of the run.
        machine: hardware of the run.

    Attributes:
        context: maximum sequence length of the model, in tokens.
        counted: whether prompt tokens are counted with the model's tokenizer, and not estimated.
        memory: device memory of each trainer, in bytes.
        works: tasks, rules and judge of each environment.
        host: CPU memory of each trainer, in bytes: offloaded tensors, and the copies that
            `async_save` writes to disk.

    Raises:
        ConfigError: the run does not fit on the machine, or the model or judge is not supported.
        FileNotFoundError: the model does not exist.
        TaskError: the tasks cannot be loaded.
    """

    def __init__(self, config: Config, machine: Machine) -> None:
        self.config, self.machine = config, machine
        self._world = self._check_processes()
        model = models.read_config(config.model)
        loaded = config.teacher and not is_served(config.teacher)
        self._teacher = Sizes(models.read_config(config.teacher)) if loaded else None
        self.context = model.max_position_embeddings
        self._sizes = Sizes(model)
        self.counted = models.is_here(config.model)
        # nano replaces a model that is not downloaded: its chat template renders text as Qwen3's
        with without_keys():
            self.works = make_workloads(config if self.counted else replace(config, model="nano"))
        self.memory = training_bytes(
            self._sizes,
            self._world // config.replicas,
            self.step.row,
            sharded=config.backend != "local",
            checkpointed=config.activation_checkpointing,
            half=config.precision == "bfloat16",
            lora_rank=config.lora_rank,
        )
        self.host = self.memory.weights + self.memory.optimizer if config.async_save else 0
        if config.offload:
            self.host += sum(self.memory[:3])
            self.memory = self.memory._replace(weights=0, gradients=0, optimizer=0)
        self._check_memory()

    def _check_processes(self) -> int:
        """Check GPUs, backend and replicas; return the number of trainers on all machines."""
        config, machine = self.config, self.machine
        check_gpus(config, len(machine.gpus), config.trainer_procs)
        world = config.trainer_procs * machine.number
        if machine.number > 1 and config.backend == "local":
            expected = f"'fsdp2' or 'deepspeed' for {machine.number} machines"
            raise ConfigError(f"backend: expected {expected}, got 'local'")
        if world % config.replicas:
            expected = f"a divisor of {world} (the number of processes)"
            several = "; --dry-run '2 x 8 x NVIDIA H200' plans for two machines with 8 GPUs each"
            less = several if machine.number == 1 else ""
            raise ConfigError(f"replicas: expected {expected}, got {config.replicas}{less}")
        return world

    @property
    def parameters(self) -> int:
        """Number of the model's parameters, LoRA adapters included."""
        return self._sizes.parameters + self._sizes.adapters(self.config.lora_rank)

    @property
    def copy(self) -> int:
        """Bytes of rank 0's unsharded fp32 copy of the weights for sampling; 0 without a copy."""
        copied = self.config.engine == "transformers" and self.config.backend != "local"
        return 4 * self._sizes.parameters if copied else 0

    @property
    def teacher(self) -> int:
        """Bytes of the teacher on each trainer; 0 if there is none, or if a server runs it."""
        wide = 2 if self.config.precision == "bfloat16" else 4
        return wide * self._teacher.parameters if self._teacher else 0

    @cached_property
    def step(self) -> StepCost:
        """Estimated costs of an optimizer step."""
        config, sizes = self.config, self._sizes
        each = [self._prompts(work) for work in self.works]
        prompts, shares = [size for own in each for size in own], config.environments.values()
        prompt = round(sum(map(mul, map(fmean, each), shares)))
        response = max(work.rules.max_turns for work in self.works) * config.max_tokens
        # assume that a group's episodes share the first turn, since nearly all begin with `review`
        first, rest = config.max_tokens, response - config.max_tokens
        columns = [True] * response, *([0.0] * response,) * 2
        samples = [
            Sample(group, [0] * prompt, [0] * first + [1 + member] * rest, *columns)
            for group in range(config.groups)
            for member in range(config.group_size)
        ]
        rows = pack(samples, config.row_tokens, self._world)

        def cost(row: PackedRow) -> int:
            # a teacher has only the forward pass, a third of a training step
            taught = train_flops(self._teacher, row) // 3 if self._teacher else 0
            return train_flops(sizes, row, frozen=config.lora_rank > 0) + taught

        busiest = max(sum(map(cost, share)) for share in distribute(rows, self._world, cost))
        # `GPUS` lists only bf16 peaks, so the time of a step in fp32 is unknown
        timed = self.machine.gpus and config.precision == "bfloat16"
        gpu = find_gpu(self.machine.gpus[first_trainer(config)][0]) if timed else None
        # real episodes are shorter than `rollout`, and then `pack` can fill a row up to its limit
        rollout, group = max(prompts) + response, max(prompts) + config.group_size * response
        limit = max(group, -(-config.groups * group // self._world))
        return StepCost(
            prompt=prompt,
            response=response,
            rollout=rollout,
            row=max(rollout, min(config.row_tokens, limit)),
            tokens=sum(len(row.tokens) for row in rows),
            operations=sum(map(cost, rows)),
            seconds=busiest / (UTILISATION * gpu.flops) if gpu else None,
        )

    def _prompts(self, work: Workload) -> list[int]:
        """Return the lengths of prompts of an environment, in tokens."""
        sessions = (work.session(task) for task in work.tasks[:_TASKS])
        ids = [work.chat.prompt(session.system_prompt, session.prompt) for session in sessions]
        read = ids if self.counted else map(work.chat.read, ids)
        return [round(len(one) / (1 if self.counted else CHARACTERS)) for one in read]

    @cached_property
    def serving(self) -> Serving | None:
        """Memory of a vLLM server; None if the run starts no servers."""
        config, machine, sizes = self.config, self.machine, self._sizes
        if not engines(config):
            return None
        wide, parts = (2 if config.precision == "bfloat16" else 4), 1
        if machine.gpus:
            parts = config.engine_gpus
            least = min(size for _, size in machine.gpus[: engines(config)])
            device = int((COLOCATED_SHARE if config.colocated else GPU_SHARE) * least)
        weights = wide * sizes.parameters // parts
        if not machine.gpus:
            device = weights + kv_cache_bytes(machine.memory_bytes)
        heads = -(-sizes.key_heads // parts)
        return Serving(device, weights, 2 * sizes.layers * heads * sizes.head_size * wide)

    @property
    def verdicts(self) -> Mapping[str, Verdicts]:
        """Estimated number and cost of verdicts, for each environment that has a judge."""
        config, found = self.config, dict[str, Verdicts]()
        for work, share in zip(self.works, config.environments.values(), strict=True):
            # with credit by edit, the judge also grades the drafts: at most one each turn
            each = work.rules.max_turns if config.grades_drafts else 1
            training = round(share * config.steps * config.groups) * config.group_size * each
            held_out = evaluations(config) * len(work.held_out) * config.eval_rollouts
            if verdicts := Verdicts.of(work, training, held_out):
                found[work.env] = verdicts
        return found

    @property
    def judge_url(self) -> str:
        """Address of the judge's own server; empty if there is none."""
        return next((one.url for one in self.verdicts.values() if one.url), "")

    @property
    def _held_out(self) -> int:
        return sum(len(work.held_out) for work in self.works) * self.config.eval_rollouts

    @cached_property
    def times(self) -> Times | None:
        """Estimated times; None unless the run is in bf16 and starts servers on known GPUs."""
        config, machine, served, step = self.config, self.machine, self.serving, self.step
        gpu = find_gpu(machine.gpus[0][0]) if machine.gpus else None
        if served is None or gpu is None or step.seconds is None:
            return None
        prompt, response = step.prompt, step.response

        def sampling(episodes: int) -> float:
            share = -(-episodes // (config.engine_procs * machine.number))
            rounds = -(-share // max(1, served.tokens // (prompt + response)))
            # each decoding step reads all weights once, and the KV cache of each episode
            read = served.weights + share / rounds * (prompt + response / 2) * served.cache
            return rounds * response * max(_TOKEN_S, read / (BANDWIDTH * gpu.bandwidth))

        sample, evaluation = sampling(config.groups * config.group_size), sampling(self._held_out)
        both = max(sample, step.seconds) if config.max_staleness else sample + step.seconds
        total = config.steps * both + evaluations(config) * evaluation
        return Times(sample, both, evaluation, total)

    def _check_memory(self) -> None:
        config, machine, served = self.config, self.machine, self.serving
        host = config.trainer_procs * self.host
        if machine.gpus:
            first = first_trainer(config)
            name, size = min(machine.gpus[first:][: config.trainer_procs], key=itemgetter(1))
            less = "more trainers, offload, activation_checkpointing or fewer row_tokens reduce it"
            needed = self.memory.total + self.copy + self.teacher
            _fits("a trainer's memory", needed, size, f" ({name})", f"; {less}")
            # while the engine samples, a trainer keeps only its weights and optimizer state
            if config.colocated and served:
                rest = self.memory.weights + self.memory.optimizer
                beside = size - served.device
                _fits("a trainer's weights and optimizer", rest, beside, " beside an engine")
        else:
            host += config.trainer_procs * (sum(self.memory[:3]) + self.teacher) + self.copy
            host += config.engine_procs * served.device if served else 0
        if machine.memory_bytes:
            _fits("the CPU's memory for weights, gradients, optimizer", host, machine.memory_bytes)
        if served:
            less = "; more engine_gpus reduce the share of each GPU"
            _fits("an engine's weights", served.weights, served.device, " of a GPU", less)
            # vLLM starts only if its KV cache has room for one sequence of `context` tokens
            needed = max(self.step.rollout, self.context)
            if served.tokens < needed:
                limits = f"room for {needed:,} tokens, got {served.tokens:,}"
                more = "more engine_gpus enlarge the cache"
                raise ConfigError(f"an engine's KV cache: expected {limits}; {more}")


def engines(config: Config) -> int:
    """Return the number of GPUs that the run's vLLM servers use on each machine."""
    return config.engine_procs * config.engine_gpus if config.starts_servers else 0


def first_trainer(config: Config) -> int:
    """Return the index of a machine's first training GPU; the GPUs before it run vLLM servers."""
    return 0 if config.colocated else engines(config)


def gpus(config: Config, trainers: int) -> int:
    """Return the number of GPUs that engines and trainers use on each machine."""
    return max(engines(config), first_trainer(config) + trainers)


def check_gpus(config: Config, available: int, trainers: int) -> None:
    """Check that a machine's `available` GPUs suffice for its engines and `trainers` trainers.

    Raises:
        ConfigError: the machine has GPUs, but too few; without any GPU, training is on the CPU.
    """
    servers, needed = engines(config), gpus(config, trainers)
    if 0 < available < needed:
        shared = ", on the same GPUs" if config.colocated else ""
        expected = f"{needed} ({servers} for engines, {trainers} for trainers{shared})"
        less = "; with --colocated, both share GPUs" if servers and not config.colocated else ""
        raise ConfigError(f"GPUs: expected at least {expected}, got {available}{less}")


def evaluations(config: Config) -> int:
    """Return the number of evaluations: before, during and after training.

    An evaluation that is due after the last step counts as the evaluation after training.
    """
    return 2 + ((config.steps - 1) // config.eval_every if config.eval_every else 0)


def _fits(what: str, needed: int, size: int, where: str = "", less: str = "") -> None:
    if needed > size:
        limits = f"at most {in_bytes(size)}{where}, got {in_bytes(needed)}{less}"
        raise ConfigError(f"{what}: expected {limits}")


def in_bytes(size: float) -> str:
    """Format a number of bytes in MB or GB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
