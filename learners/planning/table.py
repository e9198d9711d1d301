"""Terminal output of a plan."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from learners.planning.duration import BANDWIDTH, Duration, Serving
from learners.planning.plan import (
    UTILISATION,
    Cells,
    RunPlan,
    evaluations,
    first_trainer,
    gpus,
    in_bytes,
)
from learners.planning.verdicts import CHARACTERS, Verdicts


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


def _sections(plan: RunPlan) -> Iterator[tuple[str, list[Cells]]]:
    several = plan.machine.number > 1
    yield f"Processes{' of each machine' if several else ''}", list(plan.processes)
    yield "Memory of a trainer, roughly", list(_memory_rows(plan))
    if plan.serving:
        yield "Memory of an engine", list(_serving_rows(plan, plan.serving))
    yield "A step, turns at full length", list(_step_rows(plan))
    if plan.verdicts:
        yield "Verdicts", list(_verdict_rows(plan, plan.verdicts))
    yield "The run", list(_run_rows(plan))


def _memory_rows(plan: RunPlan) -> Iterator[Cells]:
    config, row = plan.config, f"a row of {plan.step.row:,} tokens"
    shards = config.trainer_procs * plan.machine.number // config.replicas
    part = f", a part of {shards}" if shards > 1 else ""
    adapters = ", of the adapters" if config.lora_rank else ""
    layers = "one layer" if config.activation_checkpointing else "all layers"
    notes = {
        "weights": ("weights", f"fp32{part}"),
        "gradients": ("gradients", f"fp32{adapters}{part}"),
        "optimizer": ("optimizer", f"Adam's moments{adapters}{part}"),
        "gathered": ("weights in use", f"whole, {_kind(plan)}"),
        "reduced": ("gradients in use", "whole, of one layer or the head"),
        "checkpoints": ("inputs of layers", f"kept for {row}"),
        "layer": ("activations", f"of {layers}, {row}"),
        "logits": ("logits", f"{plan.chunk:,} tokens at a time"),
    }
    for name, value in plan.memory._asdict().items():
        if value:
            label, note = notes[name]
            yield label, in_bytes(value), note
    if plan.copy:
        yield "copy that samples", in_bytes(plan.copy), "fp32, rank 0 alone"
    gpus = plan.machine.gpus
    there = gpus[first_trainer(config)][1] if gpus else plan.machine.memory_bytes
    whose = "a GPU" if gpus else "that all processes share"
    yield "in all", in_bytes(plan.memory.total + plan.copy), f"of {in_bytes(there)} {whose}"
    if plan.offloaded:
        yield "in the CPU's memory", in_bytes(plan.offloaded), "weights, gradients, optimizer; each"
    if plan.staged:
        note = "weights, optimizer, while saved; each"
        yield "in the CPU's memory", in_bytes(plan.staged), note


def _serving_rows(plan: RunPlan, served: Serving) -> Iterator[Cells]:
    config = plan.config
    parts = config.engine_gpus if plan.machine.gpus else 1
    part = f", a part of {parts}" if parts > 1 else ""
    yield "weights", in_bytes(served.weights), f"{_kind(plan)}{part}"
    share = f"what is left of {in_bytes(served.device)}" if plan.machine.gpus else "its share"
    yield "KV cache", in_bytes(served.device - served.weights), share
    fit = served.tokens // plan.step.rollout
    yield "tokens in it", f"{served.tokens:,}", f"{fit:,} episodes of full length at once"


def _step_rows(plan: RunPlan) -> Iterator[Cells]:
    config, step = plan.config, plan.step
    groups = f"{config.groups} groups of {config.group_size}"
    yield "episodes", f"{config.groups * config.group_size:,}", groups
    how = "" if step.counted else f", at {CHARACTERS} characters a token"
    yield "prompt", f"{step.prompt:,}", f"tokens, mean of the real prompts{how}"
    note = "without the tools' replies"
    if step.rollout > plan.context:
        note = f"and the model reads {plan.context:,}"
    yield "longest episode", f"{step.rollout:,}", f"tokens at most, {note}"
    yield "trained on", f"{step.tokens:,}", "tokens at most, a group's prompt once"
    yield "computation", _count(step.operations, "FLOP"), "to train, at most; without recomputation"
    if step.seconds:
        share = f"at most, training at {100 * UTILISATION:.0f} % of the GPUs' peak"
        yield "time to train", f"{step.seconds:,.0f} s", share
    if plan.duration:
        yield from _sampling_rows(plan, plan.duration)


def _sampling_rows(plan: RunPlan, times: Duration) -> Iterator[Cells]:
    share = f"at most, decoding at {100 * BANDWIDTH:.0f} % of the bandwidth"
    yield "time to sample", f"{times.sampling:,.0f} s", share
    waiting = 1 - (plan.step.seconds or 0.0) / times.step
    note = f"of which the trainers wait {100 * waiting:.0f} %"
    yield "time", f"{times.step:,.0f} s", "both, in turns" if plan.config.colocated else note


def _verdict_rows(plan: RunPlan, verdicts: Verdicts) -> Iterator[Cells]:
    parts = f"{verdicts.training:,} in training, {verdicts.held_out:,} in evaluations"
    yield "verdicts", f"{verdicts.total:,}", parts
    if verdicts.requests is None:
        yield "requests", "unknown", f"{verdicts.judge} decides how many"
    if not verdicts.requests:
        return
    each = f"{verdicts.requests} a verdict, to {verdicts.model}"
    yield "requests", f"{verdicts.requests * verdicts.total:,}", each
    step = plan.config.groups * plan.config.group_size
    how = f"tokens a step, at {CHARACTERS} characters a token"
    yield "the judge reads", f"{step * verdicts.read:,}", how
    if verdicts.dollars is None and verdicts.url:
        yield "cost", "none", "if the judge's server is your own"
    elif verdicts.dollars is None:
        yield "cost", "unknown", "the model has no list price"
    else:
        cost = verdicts.dollars * verdicts.total
        yield "cost", f"${cost:,.0f}", "by list prices, without thinking and retries"


def _run_rows(plan: RunPlan) -> Iterator[Cells]:
    config = plan.config
    yield "steps", f"{config.steps:,}", ""
    every = f", every {config.eval_every} steps" if config.eval_every else ""
    episodes = f"{config.eval_tasks * config.eval_rollouts:,}"
    yield "an evaluation", episodes, f"episodes; before and after{every}"
    if plan.duration:
        hours, count = plan.duration.total / 3600, evaluations(config)
        played = count * plan.duration.evaluation / 3600
        yield "time", f"{hours:,.1f} h", f"at most; {played:,.1f} h for {count} evaluations"
        own = ", without the judge's server" if plan.verdicts and plan.verdicts.url else ""
        yield (
            "GPU-hours",
            f"{hours * gpus(config, config.trainer_procs) * plan.machine.number:,.0f}",
            f"at most{own}",
        )
    elif plan.step.seconds:
        yield "time", "unknown", "estimated only if the run starts its servers"
    else:
        yield "time", "unknown", "estimated only for bf16 on known GPUs"


def _kind(plan: RunPlan) -> str:
    return "bf16" if plan.config.precision == "bfloat16" else "fp32"


def _count(number: float, unit: str = "") -> str:
    for name, scale in (("P", 1e15), ("T", 1e12), ("G" if unit else "B", 1e9)):
        if number >= scale:
            return f"{number / scale:,.1f} {name}{unit}"
    return f"{number / 1e6:,.1f} M{unit}"
