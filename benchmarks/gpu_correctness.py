"""Check training on a GPU: kernels beside float64, FSDP2, the transfer of weights, whole runs.

    python benchmarks/gpu_correctness.py           # one GPU of 24 GB or more
    python benchmarks/gpu_correctness.py --tiny    # small sizes, also on a CPU, no result file

All models except the bundled nano policy have random weights. The error of packed attention,
compared with float64, is divided by the error of plain PyTorch attention in the same precision,
since no fixed tolerance fits all sizes. See `gpu_checks.py` for what to install,
`gpu_checks.run` for limits and result files.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, MagicMock, patch

import torch
from gpu_checks import (
    DEVICE,
    LITTLE,
    Scale,
    agreed,
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
)
from record import Figure
from torch import Tensor

from learners.build import backend_settings
from learners.config import Config
from learners.engines.vllm import VLLMEngine
from learners.training import packed_attention
from learners.training.backends.local import LocalBackend
from learners.training.backends.settings import make_optimizer
from learners.training.head import ChunkedHead
from learners.training.policy import Policy
from learners.training.rows import pack, unshare

ROOT = Path(__file__).parents[1]


def gradients(policy: Policy) -> Tensor:
    """Return all gradients of a policy as one vector."""
    return torch.cat([one.grad.flatten() for one in policy.parameters() if one.grad is not None])


def relative(value: Tensor, exact: Tensor) -> float:
    """Return the norm of the difference of two tensors, relative to the norm of the second."""
    value, exact = value.detach().double(), exact.detach().double()
    return float((value - exact).norm() / exact.norm().clamp_min(1e-30))


def attention(scale: Scale) -> Iterator[Figure]:
    """Compare the errors of packed attention, with each kernel, with the error of a plain loop."""
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
        for name in kernels():
            about = f"attention {heads}/{key_heads}/{size}, {name or 'packed'}: error of"
            with recorded(about), flash(name):  # if one kernel fails, the other is still checked
                own = attended(packed_attention.packed_attention, half)
                parts = zip(own, loop, exact, strict=True)
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


if __name__ == "__main__":
    CHECKS = ceilings, attention, head_products, shared_prefixes, one_rank, transfer, jobs
    run("correctness", options(__doc__ or "").parse_args(), CHECKS)
