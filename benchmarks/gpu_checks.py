"""What the checks on a GPU share: sizes, random models and rollouts, timing, records of errors.

Instead of installing this project, set `PYTHONPATH=.` and install torch>=2.11, transformers>=5.17,
aiohttp, gymnasium, matplotlib, psutil, pydantic, rapidfuzz, requests, rich, snowballstemmer,
symspellpy and tomli-w.
"""

import gc
import math
import sys
import tempfile
import time
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from statistics import median
from typing import Any, NamedTuple, NoReturn

import torch
import torch.distributed as dist
from record import Figure, parser, write
from torch import Tensor
from torch.nn import attention
from transformers import Qwen3Config, Qwen3ForCausalLM

from learners.aipo import aipo_loss
from learners.build import make_backend
from learners.config import Config
from learners.engines.server import free_port
from learners.losses import LossInput, LossOutput, Totals
from learners.training import models, ranks
from learners.training.backends.local import LocalBackend
from learners.training.policy import Policy
from learners.training.rows import PackedRow, Sample

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


def synchronised() -> float:
    """Wait until all work on the device is done; return the time."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def kernels() -> list[str]:
    """Return the flash kernels to compare: "" for PyTorch's, and "FA3" if it can be used."""
    hopper = DEVICE.type == "cuda" and torch.cuda.get_device_capability()[0] == 9
    return ["", "FA3"] if hopper and find_spec("flash_attn_interface") else [""]


@contextmanager
def flash(name: str) -> Iterator[None]:
    """Let flash attention use the kernels that PyTorch can activate by this name; "" for its own.

    The trainer's attention calls the same operators, so it needs no change.

    Raises:
        ImportError, RuntimeError: the package of the kernels is missing, or lacks some.
    """
    if name:
        attention.activate_flash_attention_impl(name)
    try:
        yield
    finally:
        if name:
            attention.restore_flash_attention_impl()


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


def options(document: str) -> ArgumentParser:
    """Return a parser for the options of all GPU scripts."""
    found = parser(document)
    found.add_argument("--tiny", action="store_true", help="small sizes, no result file")
    found.add_argument("--minutes", type=float, default=8, help="time for all checks (default 8)")
    return found


def run(name: str, args: Namespace, checks: Sequence[Check]) -> NoReturn:
    """Run, print and record checks; exit with status 1 if one fails.

    The script ends within `--minutes`; checks for which no time is left are recorded as not run.
    The result file, benchmarks/results/gpu_NAME-MACHINE.json, is rewritten after each check, so an
    interrupted script keeps its results. A failing check is recorded with its error.
    """
    ranks.start()  # configures CUDA's allocator, so nothing may use a GPU before this call
    if DEVICE.type == "cuda":
        args.machine = torch.cuda.get_device_name().lower().replace(" ", "-")
    elif not args.tiny:
        print("expected a CUDA device; without one, only --tiny runs", file=sys.stderr)
        sys.exit(2)
    # end half a minute early, so that the last measurement can finish
    until = time.monotonic() + 60 * args.minutes - 30
    scale = (LITTLE if args.tiny else FULL)._replace(until=until)
    torch.manual_seed(0)
    figures: list[Figure] = []
    for check in checks:
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
            write(f"gpu_{name}", args, figures, repetitions, ("torch", "transformers"))
    status = 0 if not ERRORS and all(figure.met for figure in figures) else 1
    ranks.end(status)  # ends the process group of `backends`, if there is one
    sys.exit(status)
