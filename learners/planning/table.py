"""Print the plan of a run in the terminal."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from learners.build import fresh_size
from learners.planning.plan import (
    BANDWIDTH,
    UTILISATION,
    RunPlan,
    Serving,
    engines,
    evaluations,
    first_trainer,
    gpus,
    in_bytes,
)
from learners.planning.verdicts import CHARACTERS, Verdicts
from learners.training.head import CHUNK
from resume_gym.support.printing import amount
from resume_gym.support.user_errors import number_of

RULES_ONLY = (
    "The judge rubric goes by rules. A model that writes freely can earn its rewards with text "
    "that readers would not prefer: read what the model writes, or train with a model judge."
)
"""Warning for runs with the judge rubric whose model can write words that its rules lack."""
Cells = tuple[str, str, str]
"""A row of a printed table: name, value and note."""


def show(plan: RunPlan, console: Console) -> None:
    """Print a plan as tables, at most 100 columns wide."""
    config = plan.config
    title = f"{config.name}: {config.model}, {_count(plan.parameters)} parameters"
    console.print(f"{title}, on {plan.machine}. Nothing is started.", soft_wrap=True)
    for title, rows in _sections(plan):
        grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold cyan")
        grid.add_column(title, min_width=30, max_width=34)
        grid.add_column(justify="right", min_width=10, max_width=14)
        grid.add_column(max_width=46)
        for row in rows:
            grid.add_row(*map(Text, row))
        console.print()
        console.print(grid)
    judges = {verdicts.judge for verdicts in plan.verdicts.values()}
    if "rubric" in judges and config.model != "nano":
        console.print(f"\n{RULES_ONLY}", width=min(100, console.width))


def _sections(plan: RunPlan) -> Iterator[tuple[str, Iterator[Cells]]]:
    several = plan.machine.number > 1
    if len(plan.works) > 1:
        yield "Environments", _environment_rows(plan)
    yield f"Processes{' of each machine' if several else ''}", _process_rows(plan)
    yield "Memory of a trainer, roughly", _memory_rows(plan)
    if plan.serving:
        yield "Memory of an engine", _serving_rows(plan, plan.serving)
    yield "A step, turns at full length", _step_rows(plan)
    for env, verdicts in plan.verdicts.items():
        title = f"Verdicts in {env}" if len(plan.works) > 1 else "Verdicts"
        yield title, _verdict_rows(plan, verdicts, plan.config.environments[env])
    yield "The run", _run_rows(plan)


def _environment_rows(plan: RunPlan) -> Iterator[Cells]:
    for work in plan.works:
        fresh = fresh_size(plan.config, work)
        training = "new tasks in each step" if fresh else f"{len(work.tasks):,} tasks for training"
        tasks = f"{training}, {len(work.held_out):,} held-out"
        share = plan.config.environments[work.env]
        yield work.env, f"{100 * share:.3g} %", f"of the groups; {tasks}"


def _process_rows(plan: RunPlan) -> Iterator[Cells]:
    config = plan.config

    def place(first: int, count: int) -> str:
        last = f"-{first + count - 1}" if count > 1 else ""
        return f"GPU {first}{last}" if plan.machine.gpus else "CPU"

    if engines(config):
        note = "sleep while the trainers train" if config.colocated else "sample"
        yield f"vLLM servers: {config.engine_procs}", place(0, engines(config)), note
    for url in config.engine_urls:
        yield "vLLM server", "elsewhere", f"samples; already runs at {url}"
    if plan.judge_url:
        yield "judge's server", "elsewhere", f"grades; must run at {plan.judge_url}"
    note = "rank 0 also plays the episodes" if config.engine == "transformers" else "train"
    count = config.trainer_procs
    yield f"trainers: {count}", place(first_trainer(config), count), note


def _memory_rows(plan: RunPlan) -> Iterator[Cells]:
    config, gpus = plan.config, plan.machine.gpus
    shards = config.trainer_procs * plan.machine.number // config.replicas
    part = f", 1 of {shards} shards" if shards > 1 else ""
    adapters = "of the adapters, " if config.lora_rank else ""
    row = f"a row of {plan.step.row:,} tokens"
    notes = {
        "weights": f"fp32{part}",
        "gradients": f"{adapters}fp32{part}",
        "optimizer": f"{adapters}Adam's moments{part}",
        "gathered": f"full weights in use, {_kind(plan)}",
        "reduced": "full gradients of one layer or of the head",
        "checkpoints": f"layer inputs for {row}",
        "layer": f"activations of {row}",
        "logits": f"for {CHUNK:,} tokens at a time",
    }
    for name, size in plan.memory._asdict().items():
        if size:
            yield name, in_bytes(size), notes[name]
    if plan.copy:
        yield "copy for sampling", in_bytes(plan.copy), "fp32, only on rank 0"
    if plan.teacher:
        yield "teacher", in_bytes(plan.teacher), "whole, on each trainer"
    there = gpus[first_trainer(config)][1] if gpus else plan.machine.memory_bytes
    whose = "per GPU" if gpus else "that all processes share"
    total = plan.memory.total + plan.copy + plan.teacher
    yield "in all", in_bytes(total), f"of {in_bytes(there)} {whose}"
    if plan.host:
        note = "per trainer: offloaded, or copied while saving"
        yield "CPU memory", in_bytes(plan.host), note


def _serving_rows(plan: RunPlan, served: Serving) -> Iterator[Cells]:
    yield "weights", in_bytes(served.weights), f"{_kind(plan)}, on each device"
    yield "KV cache", in_bytes(served.device - served.weights), f"of {in_bytes(served.device)}"
    fit = served.tokens // plan.step.rollout
    yield "tokens in the KV cache", f"{served.tokens:,}", f"{fit:,} episodes of full length at once"


def _step_rows(plan: RunPlan) -> Iterator[Cells]:
    config, step, times = plan.config, plan.step, plan.times
    groups = f"{number_of(config.groups, 'group')} of {config.group_size}"
    yield "episodes", f"{config.groups * config.group_size:,}", groups
    how = "" if plan.counted else f", at {CHARACTERS} characters a token"
    yield "prompt", f"{step.prompt:,}", f"tokens, mean of the real prompts{how}"
    read = f"tokens at most; the model supports {plan.context:,}"
    yield "longest episode", f"{step.rollout:,}", read
    yield "trained on", f"{step.tokens:,}", "tokens at most; a group's prompt counts once"
    yield "computation", _count(step.operations, "FLOP"), "to train, at most; without recomputation"
    if step.seconds:
        share = f"at most, training at {100 * UTILISATION:.0f} % of the GPUs' peak"
        yield "time to train", f"{step.seconds:,.0f} s", share
    if step.seconds and times:
        share = f"at most, decoding at {100 * BANDWIDTH:.0f} % of the bandwidth"
        yield "time to sample", f"{times.sampling:,.0f} s", share
        waiting = f"of which the trainers wait {100 * (1 - step.seconds / times.step):.0f} %"
        yield "time", f"{times.step:,.0f} s", waiting


def _verdict_rows(plan: RunPlan, verdicts: Verdicts, share: float) -> Iterator[Cells]:
    drafts = ", of drafts, too" if plan.config.grades_drafts else ""
    parts = f"{verdicts.training:,} in training{drafts}, {verdicts.held_out:,} in evaluations"
    yield "verdicts", f"{verdicts.total:,}", parts
    if verdicts.requests is None:
        yield "requests", "unknown", f"{verdicts.judge} decides how many"
    if not verdicts.requests:
        return
    each = f"{verdicts.requests} per verdict, to {verdicts.model}"
    yield "requests", f"{verdicts.requests * verdicts.total:,}", each
    step = round(share * plan.config.groups * plan.config.group_size)
    how = f"tokens per step, at {CHARACTERS} characters each"
    yield "the judge reads", f"{step * verdicts.read:,}", how
    if verdicts.dollars is not None:
        cost = verdicts.dollars * verdicts.total
        yield "cost", f"${amount(cost, 0)}", "by list prices, without thinking and retries"
    elif not verdicts.url:
        yield "cost", "unknown", "the model has no list price"


def _run_rows(plan: RunPlan) -> Iterator[Cells]:
    config = plan.config
    yield "steps", f"{config.steps:,}", ""
    every = f", every {number_of(config.eval_every, 'step')}" if config.eval_every else ""
    episodes = f"{len(plan.works) * config.eval_tasks * config.eval_rollouts:,}"
    yield "an evaluation", episodes, f"episodes; before and after{every}"
    if plan.times:
        hours, count = plan.times.total / 3600, evaluations(config)
        played = count * plan.times.evaluation / 3600
        share = f"{played:,.1f} h for {number_of(count, 'evaluation')}"
        yield "time", f"{hours:,.1f} h", f"at most; {share}"
        own = ", without the judge's server" if plan.judge_url else ""
        used = hours * gpus(config, config.trainer_procs) * plan.machine.number
        yield "GPU-hours", f"{used:,.0f}", f"at most{own}"
    else:
        yield (
            "time",
            "unknown",
            "needs bf16, own vLLM servers and known GPUs, such as --dry-run H100",
        )


def _kind(plan: RunPlan) -> str:
    return "bf16" if plan.config.precision == "bfloat16" else "fp32"


def _count(number: float, unit: str = "") -> str:
    for name, scale in (("P", 1e15), ("T", 1e12), ("G" if unit else "B", 1e9)):
        if number >= scale:
            return f"{number / scale:,.1f} {name}{unit}"
    return f"{number / 1e6:,.1f} M{unit}"
