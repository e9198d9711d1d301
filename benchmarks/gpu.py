"""Check and time training on a GPU, and time some layers of a 14B model.

    python benchmarks/gpu.py correctness    # one GPU of 24 GB or more
    python benchmarks/gpu.py speed          # one GPU of 80 GB
    python benchmarks/gpu.py layers         # one GPU of 140 GB
    python benchmarks/gpu.py correctness --tiny    # small sizes, also on a CPU, no result file

Each command ends within `--minutes`, 8 by default; checks for which no time is left are recorded as
not run. The result file, benchmarks/results/gpu_NAME-MACHINE.json, is rewritten after each check,
so an interrupted command keeps its results. A failing check is recorded with its error. Instead of
installing this project, set `PYTHONPATH=.` and install torch>=2.11, transformers>=5.17, aiohttp,
gymnasium, matplotlib, psutil, pydantic, rapidfuzz, requests, rich, snowballstemmer and tomli-w.

All models except the bundled nano policy have random weights. The error of packed attention,
compared with float64, is divided by the error of plain PyTorch attention in the same precision,
since no fixed tolerance fits all sizes.
"""

import gc
import json
import math
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import DEFAULT, MagicMock, patch

import flex
import torch
import torch.distributed as dist
from record import Figure, parser, write
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from learners.aipo import aipo_loss
from learners.build import backend_settings, make_backend
from learners.config import Config
from learners.engines.server import free_port
from learners.engines.vllm import VLLMEngine
from learners.losses import LossInput, LossOutput, Totals, likelihood
from learners.training import head, models, packed_attention, ranks
from learners.training.backends.local import LocalBackend
from learners.training.backends.settings import make_optimizer
from learners.training.flops import Sizes, find_gpu, train_flops, training_bytes
from learners.training.head import ChunkedHead
from learners.training.policy import Policy
from learners.training.rows import PackedRow, Sample, pack, unshare

ROOT = Path(__file__).parents[1]
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TINY = Qwen3Config(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    vocab_size=300,
    tie_word_embeddings=True,
)
ERRORS: dict[str, str] = {}
"""Error messages of failed checks, by check or part of a check."""


class Scale(NamedTuple):
    """Models and input sizes of all checks, which stop at `until`, a time of `time.monotonic()`.

    A group has `rollouts` rollouts, each of `prompt` prompt tokens and `response` response tokens.
    """

    models: Sequence[tuple[str, Qwen3Config]]
    deep: Qwen3Config
    prompt: int
    response: int
    rollouts: int
    heads: Sequence[tuple[int, int, int]]
    square: int
    repeats: int
    until: float = math.inf

    @property
    def few(self) -> "Scale":
        """Copy of this scale with five rollouts, and prompts and responses an eighth as long."""
        return self._replace(prompt=self.prompt // 8, response=self.response // 8, rollouts=5)


FULL = Scale(
    [(size, models.read_config(f"Qwen/Qwen3-{size}")) for size in ("0.6B", "4B")],
    models.read_config("Qwen/Qwen3-14B"),
    *(3000, 1500, 16),
    [(40, 8, 128), (16, 8, 128), (4, 4, 64)],
    8192,
    3,
)
LITTLE = Scale([("tiny", TINY)], TINY, 24, 64, 3, [(4, 2, 16), (2, 2, 8)], 256, 1)


def make_model(config: Qwen3Config, layers: int = 0) -> Qwen3ForCausalLM:
    """Return a random fp32 model on `DEVICE` with `layers` layers (0 means all layers)."""
    torch.manual_seed(0)
    if layers:
        fewer = {"num_hidden_layers": layers, "layer_types": None}
        config = Qwen3Config(**config.to_dict() | fewer)
    with DEVICE:
        return Qwen3ForCausalLM(config)


def group(scale: Scale, vocabulary: int, branching: bool = False) -> list[Sample]:
    """Return a group of rollouts of random tokens.

    With `branching`, some responses share their first tokens, so that some nodes of the prefix tree
    have a single token. Without `branching`, the rollouts share only the prompt.
    """
    generator = torch.Generator().manual_seed(1)

    def ids(count: int) -> list[int]:
        return torch.randint(0, vocabulary, (count,), generator=generator).tolist()

    prompt, n = ids(scale.prompt), scale.response
    # for each rollout: (number of tokens shared with the previous response, length of the response)
    shapes = [(0, n), (n // 2, n), (n - 1, n), (0, n), (n - 1, n - 1)] if branching else [(0, n)]
    samples: list[Sample] = []
    for number, advantage in enumerate(torch.linspace(-1, 1, scale.rollouts).tolist()):
        kept, length = shapes[number % len(shapes)]
        one = [*(samples[-1].response[:kept] if kept else []), *ids(length - kept)]
        columns = [True] * length, [0.0] * length, [advantage] * length
        samples.append(Sample(0, prompt, one, *columns))
    return samples


def backward(policy: Policy, rows: Sequence[PackedRow]) -> Tensor:
    """Compute the gradients of the rows' loss; return the log-probabilities of all loss tokens."""
    total = Totals(sum(len(row.targets) for row in rows), sum(row.rollouts for row in rows))
    found = []
    for row in rows:
        on_device = row.to(DEVICE)
        logprobs, _ = policy(on_device)
        known = on_device.advantages, on_device.sequences, on_device.rollouts
        agreed(LossInput(logprobs, logprobs, *known, total))[0].backward()
        found.append(logprobs.detach())
    return torch.cat(found)


def agreed(row: LossInput) -> LossOutput:
    """Return AIPO's loss, with the trainer's log-probabilities instead of the sampler's."""
    return aipo_loss(row._replace(sampler_logprobs=row.logprobs.detach()))


def gradients(policy: Policy) -> Tensor:
    """Return all gradients of a policy as one vector."""
    return torch.cat([one.grad.flatten() for one in policy.parameters() if one.grad is not None])


def relative(value: Tensor, exact: Tensor) -> float:
    """Return the norm of the difference of two tensors, relative to the norm of the second."""
    value, exact = value.detach().double(), exact.detach().double()
    return float((value - exact).norm() / exact.norm().clamp_min(1e-30))


def synchronised() -> float:
    """Wait until all work on the device is done; return the time."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the median time of `work` in seconds, after one call to warm up."""
    work()
    times = []
    for _ in range(repeats):
        began = synchronised()
        work()
        times.append(synchronised() - began)
    return median(times)


def ceilings(scale: Scale) -> Iterator[Figure]:
    """Measure the device's peak speeds: FLOP/s of a matrix product, and bandwidth of a copy."""
    left, right = (
        torch.randn(scale.square, scale.square, device=DEVICE, dtype=torch.bfloat16)
        for _ in range(2)
    )
    took = seconds(lambda: left @ right, 5)
    yield Figure("TFLOP/s of a square bf16 product", 2 * scale.square**3 / took / 1e12)
    took = seconds(lambda: right.copy_(left), 5)
    yield Figure("GB/s of a copy, read and written", 4 * scale.square**2 / took / 1e9)


def attention(scale: Scale) -> Iterator[Figure]:
    """Compare the errors of packed attention and FlexAttention with the error of a plain loop."""
    # with only two different token ids, rollouts also share prefixes by chance
    (row,) = pack(group(scale.few, 2, branching=True), sys.maxsize)
    tokens = len(row.tokens)
    half = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32
    for heads, key_heads, size in scale.heads:
        shapes = [(1, count, tokens, size) for count in (heads, key_heads, key_heads, heads)]
        *states, grad = (torch.randn(shape, device=DEVICE).to(half) for shape in shapes)

        def attended(
            way: Callable[..., Tensor], kind: torch.dtype, states: Any = states, grad: Any = grad
        ) -> list[Tensor]:
            own = [one.detach().to(kind).requires_grad_() for one in states]
            out = way(*own, None, row.nodes)
            out.backward(grad.to(kind))
            return [out, *(one.grad for one in own)]

        exact = attended(packed_attention._in_a_loop, torch.float64)
        loop = attended(packed_attention._in_a_loop, half)
        ways = {"packed": packed_attention.packed_attention, "flex": flex.attend}
        if DEVICE.type == "cpu":
            del ways["flex"]  # FlexAttention has no backward pass on CPUs
        for name, way in ways.items():
            about = f"attention {heads}/{key_heads}/{size}, {name}: error of"
            with recorded(about):  # if one implementation fails, the other is still checked
                parts = zip(attended(way, half), loop, exact, strict=True)
                names = ("outputs", "queries", "keys", "values")
                for part, (one, other, true) in zip(names, parts, strict=True):
                    ratio = relative(one, true) / max(relative(other, true), 1e-9)
                    yield Figure(f"{about} {part} / that of the loop", ratio, at_most=2.0)


def head_products(scale: Scale) -> Iterator[Figure]:
    """Compare `ChunkedHead` with a float64 computation, for token counts around the chunk size."""
    sizes = scale.models[0][1]
    linear = torch.nn.Linear(sizes.hidden_size, sizes.vocab_size, bias=False, device=DEVICE)
    layer = ChunkedHead(linear)
    rounded = layer.weight.detach().bfloat16() if DEVICE.type == "cuda" else layer.weight.detach()
    for count in (0, 1, 1023, 1025):
        hidden = torch.randn(count, sizes.hidden_size, device=DEVICE).to(rounded.dtype)
        targets = torch.randint(0, sizes.vocab_size, (count,), device=DEVICE)
        own = hidden.clone().requires_grad_()
        layer.weight.grad = None
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda"):
            logprobs, _ = layer(own, targets, 0.7)
        logprobs.sum().backward()
        weight = rounded.double().requires_grad_()
        wide = hidden.double().requires_grad_()
        exact = torch.log_softmax(wide @ weight.T / 0.7, dim=1).gather(1, targets[:, None])[:, 0]
        exact.sum().backward()
        for name, value, other, limit in (
            ("log-probabilities", logprobs, exact, 1e-4),
            ("the gradient of hidden states", own.grad, wide.grad, 1e-2),
            ("the gradient of weights", layer.weight.grad, weight.grad, 1e-2),
        ):
            error = relative(value, other) if count else float(value.detach().abs().sum())
            yield Figure(f"head, {count} tokens: error of {name}", error, at_most=limit)


def shared_prefixes(scale: Scale) -> Iterator[Figure]:
    """Compare log-probabilities and gradients with and without shared prefixes (fp32, bf16)."""
    config = scale.models[0][1]
    samples = group(scale.few, config.vocab_size, branching=True)
    for precision, limit in (("float32", 1e-4), ("bfloat16", 5e-2)):
        found = []
        for rows in (pack(samples, sys.maxsize), pack(unshare(samples), sys.maxsize)):
            policy = Policy(make_model(config), 1.0, precision).train()
            # sort tokens by rollout, since packing with shared prefixes changes their order
            order = torch.cat([row.advantages for row in rows]).argsort(stable=True).to(DEVICE)
            found.append((backward(policy, rows)[order], gradients(policy)))
            del policy
        for part, ours, theirs in zip(("log-probabilities", "gradient"), *found, strict=True):
            error = relative(ours, theirs)
            yield Figure(f"shared prefixes, {precision}: error of the {part}", error, at_most=limit)


def backends(config: Qwen3Config, layers: int = 0) -> Iterator[tuple[str, LocalBackend]]:
    """Yield the local and FSDP2 backends in bf16 one by one, each with the same random model."""
    if not dist.is_initialized():
        kinds = "cpu:gloo,cuda:nccl" if DEVICE.type == "cuda" else "gloo"
        address = f"tcp://127.0.0.1:{free_port()}"
        dist.init_process_group(kinds, init_method=address, rank=0, world_size=1)
    with tempfile.TemporaryDirectory() as folder:
        make_model(config, layers).bfloat16().save_pretrained(folder)
        # the learning rate is large, so that a step changes weights even in bf16
        shared: Any = {"model": folder, "precision": "bfloat16", "learning_rate": 0.01}
        for name, own in (
            ("local", {}),
            ("fsdp2", {"backend": "fsdp2"}),
            ("fsdp2, offloaded", {"backend": "fsdp2", "offload": True}),
        ):
            settings = Config(**shared, **own)
            backend = make_backend(settings)
            backend.prepare()
            yield name, backend
            del backend
            gc.collect()


def published(backend: LocalBackend) -> dict[str, Tensor]:
    """Return all weights by name, in bf16, as a backend sends them to inference engines."""
    named = backend.iter_weights(torch.bfloat16)
    return {name: weight.to(torch.bfloat16) for name, weight in named}


def one_rank(scale: Scale) -> Iterator[Figure]:
    """Compare FSDP2 on one rank with the local backend, in a step and published weights."""
    config = scale.models[0][1]
    rows = pack(group(scale.few, config.vocab_size, branching=True), sys.maxsize)
    local: Any = None
    for name, backend in backends(config):
        before = published(backend)
        metrics = backend.train_step(rows, agreed)
        moved = {key: after - before.pop(key) for key, after in published(backend).items()}
        del backend  # free its memory before the next backend is made
        if local is None:
            local, wanted = metrics, moved
            continue
        right = list(moved) == list(wanted) and all(
            weight.device.type == DEVICE.type for weight in moved.values()
        )
        yield Figure(f"{name}: published names and device as wanted", float(right), at_least=1)
        far = abs(metrics["loss"] - local["loss"])
        yield Figure(f"{name}: loss, distance to the local backend's", far, at_most=0.05)
        norm = metrics["gradient_norm"] / local["gradient_norm"]
        yield Figure(f"{name}: gradient norm / the local backend's", norm, 0.95, 1.05)
        # The limit is loose, since Adam's first step is large even for a gradient that is only a
        # rounding error.
        apart = math.hypot(*(float((moved[key] - wanted[key]).float().norm()) for key in wanted))
        error = apart / math.hypot(*(float(one.float().norm()) for one in wanted.values()))
        yield Figure(f"{name}: published change, error to the local backend's", error, at_most=0.5)


class Copies:
    """Fake NCCL group, which copies sent tensors on the caller's stream as NCCL does.

    `send_weights` replaces vLLM's function of the same name: it reads the weights on a separate
    CUDA stream, which does not wait for other streams.
    """

    def __init__(self) -> None:
        self.sent: list[Tensor] = []

    def broadcast(self, tensor: Tensor, src: int) -> None:
        """Copy a tensor; vLLM's sender calls this."""
        self.sent.append(tensor.view(torch.bfloat16).flatten().clone())

    def join(self, info: object, client: object, source: Any) -> "Copies":
        """Replace vLLM's `trainer_init`."""
        self.source = source
        return self

    def send_weights(self) -> None:
        """Replace vLLM's `send_weights`."""
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _, weight in self.source:
                self.broadcast(weight, 0)
        stream.synchronize()

    def shutdown(self) -> None:
        """Replace vLLM's `shutdown`."""

    destroy = shutdown


def transfer(scale: Scale) -> Iterator[Figure]:
    """Check that `NCCLSender` waits for a pending optimizer step before it sends the weights."""
    config = scale.models[0][1]
    weights = dict(Policy(make_model(config), 1.0, "float32").model.named_parameters())
    optimizer = make_optimizer(weights.values(), backend_settings(Config(learning_rate=0.1)))

    def rounded() -> Tensor:
        return torch.cat([weight.detach().bfloat16().flatten() for weight in weights.values()])

    for name in ("a stand-in", *(["vLLM's sender"] if find_spec("vllm") else [])):
        for weight in weights.values():
            weight.grad = torch.randn_like(weight)
        before, group = rounded(), Copies()
        with tempfile.TemporaryDirectory() as folder, sending(group, name == "a stand-in"):
            from learners.engines.nccl import NCCLSender

            config.save_pretrained(folder)
            control = MagicMock(urls=[], failure=Future())
            sender = NCCLSender(control, folder, torch.bfloat16, "127.0.0.1")
            engine = VLLMEngine([], folder, "bfloat16", 30.0, by_nccl=True)
            if DEVICE.type == "cuda":
                # this number of GPU cycles delays the optimizer step by about a second
                torch.cuda._sleep(2 * 10**9)
            optimizer.step()
            if DEVICE.type == "cuda":
                pending = not torch.cuda.current_stream().query()
                yield Figure(f"{name}: the step is pending", float(pending), at_least=1)
            sender.send(control, engine._converted(weights.items))
            sender.close()
        after, sent = rounded(), torch.cat(group.sent)
        changed = int((before != after).sum()) / len(after)
        yield Figure(f"{name}: share of weights that the step changed", changed, at_least=0.9)
        right = int((sent == after).sum()) / len(after)
        yield Figure(f"{name}: share of weights sent as the step left them", right, at_least=1)


@contextmanager
def sending(group: Copies, stand_in: bool) -> Iterator[None]:
    """Make vLLM's weight sender, or its stand-in, send to `group`; without a GPU, mock CUDA."""
    package = "vllm.distributed.weight_transfer"
    names = package, f"{package}.nccl_engine"
    module = MagicMock(WeightSource=object)
    module.WeightTransferTrainerFactory.trainer_init = group.join
    modules = dict.fromkeys(names, module)
    opened = f"{names[1]}.open_trainer_endpoint"
    absent: Any = dict.fromkeys(("current_stream", "set_device", "stream", "Stream"), DEFAULT)
    with (
        patch.dict(sys.modules, modules) if stand_in else patch(opened, return_value=group),
        nullcontext() if DEVICE.type == "cuda" else patch.multiple(torch.cuda, **absent),
        patch("torch.accelerator.current_device_index", return_value=0),
        patch.dict("os.environ"),  # importing vLLM changes environment variables
    ):
        yield


def jobs(scale: Scale) -> Iterator[Figure]:
    """Check short training runs: in fp32, with FSDP2, in bf16, and resumed after a kill."""
    # the runs use one thread, since threads that wait for each other are slow on a busy machine
    few = {"steps": 2, "groups": 1, "group-size": 4, "eval-tasks": 1, "eval-rollouts": 1}
    few |= {"threads": 1, "max-tokens": 48}
    many = {"steps": 4, "groups": 2, "group-size": 8, "eval-tasks": 4, "eval-rollouts": 2}
    tiny = scale.models is LITTLE.models
    settings = few if tiny else many
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            name: train(Path(folder) / name, settings, scale.until, *flags)
            for name, flags in (
                ("float32", []),
                ("fsdp2", ["--backend", "fsdp2"]),
                ("bfloat16", ["--precision", "bfloat16"]),
            )[: 2 if tiny else 3]
        }
        for name, steps in runs.items():
            limit = 1e-3 if name != "bfloat16" else 0.05
            gap = max(step["gap"] for step in steps)
            yield Figure(f"{name} run: sampler-trainer gap", gap, at_most=limit)
        norms = [runs[name][0]["gradient_norm"] for name in ("float32", "fsdp2")]
        yield Figure("gradient norm, fsdp2 / local", norms[1] / norms[0], 0.999, 1.001)
        killed = train(Path(folder) / "killed", settings, scale.until, kill_after=1)
        numbers = [one["step"] for one in killed] == list(range(1, settings["steps"] + 1))
        yield Figure("a run that was killed has each step once", float(numbers), at_least=1)
        same = killed[-1]["reward"] == runs["float32"][-1]["reward"]
        # equal results are guaranteed only on a CPU, since a GPU sums in varying order
        wanted = 1 if DEVICE.type == "cpu" else None
        yield Figure("its last reward is that of the run that was not", float(same), wanted)


def train(
    folder: Path, settings: dict[str, int], until: float, *flags: str, kill_after: int = 0
) -> list[dict[str, Any]]:
    """Train the nano policy; return the metrics of each step.

    If `kill_after` is not 0, kill the run after that step, then resume it.
    """
    paths = {"name": folder.name, "runs": folder.parent, "save-every": 1}
    command = [sys.executable, str(ROOT / "learners" / "aipo.py"), *flags]
    command += [f"--{name}={value}" for name, value in (paths | settings).items()]
    metrics = folder / "metrics.jsonl"
    if kill_after:
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while (job.poll() is None and time.monotonic() < until) and (
            not metrics.exists() or len(metrics.read_text().splitlines()) < kill_after
        ):
            time.sleep(0.05)
        job.kill()
        job.wait()
    left = until - time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=left)
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def steps(scale: Scale) -> Iterator[Figure]:
    """Measure time, MFU and memory of the forward and backward passes of a group."""
    # compiled models come last, since compilation replaces a function that all models share
    flex = [("flex", False)] if DEVICE.type == "cuda" else []
    for attending, compiled in (("", False), *flex, ("", True)):
        for name, config in scale.models:
            samples = group(scale, config.vocab_size)
            rows = {"shared": pack(samples, sys.maxsize)}
            if not attending and not compiled:
                rows["separate"] = pack(unshare(samples), 4 * (scale.prompt + scale.response))
            for prompts, packed in rows.items():
                way = f"{name}, {prompts}, {attending}".removesuffix(", ") + ", compiled" * compiled
                # if one configuration runs out of memory, the other configurations still run
                with recorded(way), attention_in(attending):
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


def attention_in(way: str) -> AbstractContextManager[object]:
    """Return a context that uses FlexAttention for "flex", and the default attention for ""."""
    if not way:
        return nullcontext()
    return patch.object(packed_attention, "_implementation", lambda value: flex.attend)


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


def kernels(scale: Scale) -> Iterator[Figure]:
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
    kernels = [one for one in events if one.device_type == torch.profiler.DeviceType.CUDA]
    if kernels:
        total = sum(event.self_device_time_total for event in kernels)
        yield Figure(f"{name}, ms in all kernels", total / 1000)
        events = kernels
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


@contextmanager
def recorded(name: str) -> Iterator[None]:
    """Record an exception of the `with` block instead of raising it; then free memory."""
    try:
        yield
    except Exception as error:
        late = isinstance(error, TimeoutError)
        ERRORS[name] = str(error) if late else traceback.format_exc()
        print(f"{name}: FAILED\n{ERRORS[name]}", flush=True)
    gc.collect()
    if DEVICE.type == "cuda":
        torch.cuda.empty_cache()


Check = Callable[[Scale], Iterator[Figure]]
CHECKS: dict[str, Sequence[Check]] = {
    "correctness": (
        *(ceilings, attention, head_products, shared_prefixes),
        *(one_rank, transfer, jobs),
    ),
    "speed": (ceilings, nano, chunks, optimizer, kernels, steps),
    "layers": (ceilings, layers, weights),
}


def main() -> int:
    """Run, print and record the checks of one subcommand; return 1 if any fails."""
    options = parser(__doc__ or "")
    options.add_argument("checks", choices=CHECKS)
    options.add_argument("--tiny", action="store_true", help="small sizes, no result file")
    options.add_argument("--minutes", type=float, default=8, help="time for all checks (default 8)")
    args = options.parse_args()
    ranks.start()  # configures CUDA's allocator, so nothing may use a GPU before this call
    if DEVICE.type == "cuda":
        args.machine = torch.cuda.get_device_name().lower().replace(" ", "-")
    elif not args.tiny:
        options.error("expected a CUDA device; without one, only --tiny runs")
    # end half a minute early, so that the last measurement can finish
    until = time.monotonic() + 60 * args.minutes - 30
    scale = (LITTLE if args.tiny else FULL)._replace(until=until)
    torch.manual_seed(0)
    figures: list[Figure] = []
    for check in CHECKS[args.checks]:
        with recorded(check.__name__):
            if time.monotonic() > until:
                raise TimeoutError(f"not run: {args.minutes:g} minutes are over")
            for figure in check(scale):
                figures.append(figure)
                print(figure, flush=True)
                if time.monotonic() > until:
                    raise TimeoutError(f"{args.minutes:g} minutes are over after {figure.name!r}")
        if not args.tiny:
            repetitions = {"cuda": torch.version.cuda, "errors": ERRORS}
            write(f"gpu_{args.checks}", args, figures, repetitions, ("torch", "transformers"))
    return 0 if not ERRORS and all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    status = main()
    ranks.end(status)  # ends the process group of `backends`, if there is one
    sys.exit(status)
