"""Time training on a GPU, and some layers of a 14B model.

    python benchmarks/gpu_speed.py             # one GPU of 80 GB
    python benchmarks/gpu_speed.py --layers    # one GPU of 140 GB: layers of Qwen3-14B
    python benchmarks/gpu_speed.py --tiny      # small sizes, also on a CPU, no result file

All models except the bundled nano policy have random weights. See `gpu_checks.py` for what to
install, `gpu_checks.run` for limits and result files.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NoReturn
from unittest.mock import patch

import torch
from gpu_checks import (
    DEVICE,
    Scale,
    backends,
    backward,
    ceilings,
    flash,
    group,
    kernels,
    make_model,
    options,
    recorded,
    run,
    seconds,
    synchronised,
)
from record import Figure
from transformers import Qwen3ForCausalLM

from learners.build import backend_settings, make_backend
from learners.config import Config
from learners.losses import likelihood
from learners.training import head
from learners.training.backends.local import LocalBackend
from learners.training.backends.settings import make_optimizer
from learners.training.flops import Sizes, find_gpu, train_flops, training_bytes
from learners.training.head import ChunkedHead
from learners.training.policy import Policy
from learners.training.rows import PackedRow, pack, unshare


def steps(scale: Scale) -> Iterator[Figure]:
    """Measure time, MFU and memory of the forward and backward passes of a group."""
    found = kernels()
    yield Figure("FlashAttention 3 found", len(found) - 1)
    # compiled models come last, since compilation replaces a function that all models share
    for compiled, attending in product((False, True), found):
        for name, config in scale.models:
            samples = group(scale, config.vocab_size)
            rows = {"shared": pack(samples, sys.maxsize)}
            if not attending and not compiled:
                rows["separate"] = pack(unshare(samples), 4 * (scale.prompt + scale.response))
            for prompts, packed in rows.items():
                way = f"{name}, {prompts}, {attending}".removesuffix(", ") + ", compiled" * compiled
                # if one configuration runs out of memory, the other configurations still run
                with recorded(way), flash(attending):
                    yield from step(way, make_model(config), packed, scale.repeats, compiled)


def step(
    name: str,
    model: Qwen3ForCausalLM,
    rows: Sequence[PackedRow],
    repeats: int,
    compiled: bool = False,
) -> Iterator[Figure]:
    """Measure time, MFU and memory of forward and backward passes, without the optimizer."""
    sizes = Sizes(model.config)
    policy = Policy(model, 1.0, "bfloat16", checkpointing=True, compiled=compiled).train()
    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    took = seconds(lambda: backward(policy, rows), repeats)
    operations = sum(train_flops(sizes, row) for row in rows)
    yield Figure(f"{name}: ms a step", 1000 * took)
    yield Figure(f"{name}: TFLOP/s", operations / took / 1e12)
    if DEVICE.type == "cuda":
        if gpu := find_gpu(torch.cuda.get_device_name()):
            yield Figure(f"{name}: MFU, percent", 100 * operations / took / gpu.flops)
        used = torch.cuda.max_memory_allocated()
        planned = training_bytes(sizes, 1, max(len(row.tokens) for row in rows))
        yield Figure(f"{name}: peak GB", used / 1e9)
        without = planned.total - planned.optimizer
        yield Figure(f"{name}: peak / plan without the optimizer", used / without)


def chunks(scale: Scale) -> Iterator[Figure]:
    """Time the forward and backward passes of `ChunkedHead` for several chunk sizes."""
    config = scale.models[-1][1]
    layer = ChunkedHead(
        torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False, device=DEVICE)
    )
    count = scale.response * scale.rollouts
    hidden = torch.randn(count, config.hidden_size, device=DEVICE, requires_grad=True)
    targets = torch.randint(0, config.vocab_size, (count,), device=DEVICE)

    def work() -> None:
        with torch.autocast(DEVICE.type, torch.bfloat16):
            layer(hidden, targets, 0.7)[0].sum().backward()

    for size in (1024, 2048, 4096, 8192):
        with patch.object(head, "CHUNK", size):
            yield Figure(f"head, chunks of {size}: ms", 1000 * seconds(work, scale.repeats))


def optimizer(scale: Scale) -> Iterator[Figure]:
    """Time a step of AdamW, as this project configures it and with PyTorch's defaults."""
    weights = list(make_model(scale.models[0][1]).parameters())
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    for name, made in (
        ("as configured", make_optimizer(weights, backend_settings(Config()))),
        ("PyTorch's default", torch.optim.AdamW(weights)),
    ):
        yield Figure(f"AdamW, {name}: ms", 1000 * seconds(made.step, scale.repeats))


def operations(scale: Scale) -> Iterator[Figure]:
    """Time the 20 slowest operations of a forward and backward pass with a shared prompt."""
    name, config = scale.models[-1]
    rows = pack(group(scale, config.vocab_size), sys.maxsize)
    policy = Policy(make_model(config), 1.0, "bfloat16", checkpointing=True).train()
    yield from slowest(name, lambda: backward(policy, rows))


def nano(scale: Scale) -> Iterator[Figure]:
    """Time an imitation training step with Muon, on packed rows of many small prefix trees.

    Without a GPU, the step is in fp32 and with AdamW: many CPUs have no instructions for bf16.
    """
    on_gpu: Any = {"precision": "bfloat16", "optimizer": "muon"} if DEVICE.type == "cuda" else {}
    settings = Config(model="nano", learning_rate=1e-3, **on_gpu)
    backend = make_backend(settings)
    backend.prepare()
    samples = [
        replace(one, group=number)
        for number in range(5 * scale.rollouts)
        for one in group(scale.few, 256, branching=True)
    ]
    rows = pack(samples, sys.maxsize)
    took = seconds(lambda: backend.train_step(rows, likelihood), scale.repeats)
    tokens = sum(len(row.tokens) for row in rows)
    yield Figure(f"nano, {tokens} tokens a step: thousand tokens/s", tokens / took / 1000)
    yield from slowest("nano", lambda: backend.train_step(rows, likelihood))


def slowest(name: str, work: Callable[[], object]) -> Iterator[Figure]:
    """Profile `work`; yield its wall time, GPU kernel time, and time in its 20 slowest parts."""
    work()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if DEVICE.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profile:
        began = synchronised()
        work()
        yield Figure(f"{name}, ms with the profiler", 1000 * (synchronised() - began))
    timed = "self_device_time_total" if DEVICE.type == "cuda" else "self_cpu_time_total"
    events = sorted(profile.key_averages(), key=lambda event: -getattr(event, timed))
    # on a GPU, the profiler lists each operator and its kernels; count only the kernels
    on_gpu = [one for one in events if one.device_type == torch.profiler.DeviceType.CUDA]
    if on_gpu:
        total = sum(event.self_device_time_total for event in on_gpu)
        yield Figure(f"{name}, ms in all kernels", total / 1000)
        events = on_gpu
    for event in events[:20]:
        yield Figure(f"{name}, ms in {event.key[:60]}", getattr(event, timed) / 1000)


def layers(scale: Scale) -> Iterator[Figure]:
    """Time steps with a tenth and a fifth of `scale.deep`'s layers; extrapolate to all layers."""
    whole = scale.deep.num_hidden_layers
    rows = pack(group(scale, scale.deep.vocab_size), sys.maxsize)
    took = {}
    for count in (max(1, whole // 10), max(2, whole // 5)):
        model = make_model(scale.deep, count)
        (first, *others) = step(f"{count} layers", model, rows, scale.repeats)
        took[count] = first.value / 1000
        yield from (first, *others)
    (few, less), (more, longer) = took.items()
    all_layers = less + (whole - few) * (longer - less) / (more - few)
    yield Figure(f"{whole} layers, extrapolated: seconds a step on one GPU", all_layers)
    gpu = find_gpu(torch.cuda.get_device_name()) if DEVICE.type == "cuda" else None
    if gpu:
        operations = sum(train_flops(Sizes(scale.deep), row) for row in rows)
        yield Figure(f"{whole} layers: MFU, percent", 100 * operations / all_layers / gpu.flops)


def weights(scale: Scale) -> Iterator[Figure]:
    """Measure how fast each backend yields its weights in bf16 to update inference engines."""
    for name, backend in backends(scale.deep, max(2, scale.deep.num_hidden_layers // 5)):
        size = 0

        def read(backend: LocalBackend = backend) -> None:
            nonlocal size
            named = backend.iter_weights(torch.bfloat16)
            size = sum(weight.to(torch.bfloat16).nbytes for _, weight in named)

        took = seconds(read, scale.repeats)
        yield Figure(f"{name}: GB/s of weights in bf16", size / took / 1e9)


def main() -> NoReturn:
    """Run the checks of one of the two commands."""
    reader = options(__doc__ or "")
    reader.add_argument("--layers", action="store_true", help="time layers of Qwen3-14B instead")
    args = reader.parse_args()
    if args.layers:
        run("layers", args, (ceilings, layers, weights))
    run("speed", args, (ceilings, nano, steps, operations, chunks, optimizer))


if __name__ == "__main__":
    main()
