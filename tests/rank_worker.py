"""What the processes of test_ranks.py do; `python rank_worker.py TASKS BACKEND FOLDER OUT`.

Rank 0 writes what the tasks found to OUT, by their names.
"""

import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tiny import ARCHITECTURES, tiny_group, tiny_policy
from torch import Tensor

from learners.config import Config
from learners.losses import LossInput, LossOutput, aipo
from learners.training import ranks
from learners.training.backends import Backend, make_backend
from learners.training.batching import Sample, pack, unshare
from learners.training.checkpoint import CheckpointError, latest
from learners.training.policy import Policy
from learners.training.trainer import Trainer

STEPS = 3
VARIANTS: dict[str, dict[str, Any]] = {
    "shared": {},
    "apart": {},
    "again": {"activation_checkpointing": True},
    "adapters": {"lora_rank": 4},
    "offloaded": {"offload": True},
    "halves": {"precision": "bfloat16"},
}


def config(folder: Path, backend: str, architecture: str = "qwen3", **changes: Any) -> Config:
    settings = {"learning_rate": 1e-3, "weight_decay": 0.01, "temperature": 1.0, **changes}
    return Config(model=str(folder / architecture), backend=backend, **settings)  # type: ignore[arg-type]


def rows(architecture: str = "qwen3", apart: bool = False) -> list[Any]:
    """Rows of a fixed batch: one is longer than the limit, so there are an odd three or so."""
    samples = tiny_group(tiny_policy(architecture)[0])
    return pack(unshare(samples) if apart else samples, 9)


def prepared(settings: Config) -> tuple[Backend, Policy]:
    backend = make_backend(settings)
    return backend, backend.prepare(settings)


def whole(backend: Backend) -> dict[str, Tensor]:
    return {name: one.clone() for name, one in backend.iter_weights()}


def first_moments(backend: Any) -> dict[str, Tensor]:
    """After the first step a tenth of the clipped gradient."""
    policy = getattr(backend, "_policy", None) or backend._engine.module
    found = {}
    for name, weight in policy.named_parameters():
        if hasattr(backend, "_engine"):
            from deepspeed.utils import safe_get_full_optimizer_state

            found[name] = safe_get_full_optimizer_state(weight, "exp_avg")
        else:
            one = backend._optimizer.state[weight]["exp_avg"]
            found[name] = one.full_tensor() if hasattr(one, "full_tensor") else one.clone()
    return found


def parity(backend: str, folder: Path) -> dict[str, Any]:
    """Three steps in every variant: metrics, gradient of the first, weights after the last."""
    found: dict[str, Any] = {}
    variants = VARIANTS if backend != "local" else {k: VARIANTS[k] for k in ("shared", "adapters")}
    if backend == "fsdp2" and ranks.world() == 2:
        variants = {**variants, "replicas": {"replicas": 2}}
    for architecture in ARCHITECTURES:
        for name, changes in variants.items():
            if name in ("offloaded", "halves", "replicas") and architecture != "qwen3":
                continue
            made, _ = prepared(config(folder, backend, architecture, **changes))
            metrics, moments = [], {}
            for _ in range(STEPS):
                batches = rows(architecture, apart=name == "apart")
                metrics.append(dict(made.train_step(batches, aipo)))
                if not moments and not changes:
                    moments = first_moments(made)
            found[f"{architecture} {name}"] = metrics, moments, whole(made)
    return found


def resume(backend: str, folder: Path) -> dict[str, Any]:
    """Save at step 2, go on; load, go on; then whatever another number of ranks has saved."""
    found: dict[str, Any] = {}
    made, _ = prepared(config(folder, backend))
    for _ in range(2):
        made.train_step(rows(), aipo)
    saved = folder / f"{backend}-{ranks.world()}"
    if ranks.rank() == 0:
        saved.mkdir()
    ranks.barrier()
    made.save(saved)
    made.train_step(rows(), aipo)
    found["went on"] = whole(made)
    for other in sorted(folder.glob(f"{backend}-*")):
        again, _ = prepared(config(folder, backend))
        again.load(other)
        again.train_step(rows(), aipo)
        found[other.name] = whole(again)
    return found


def exploding(row: LossInput) -> LossOutput:
    return torch.inf * row.logprobs.sum(), {}


def trouble(backend: str, folder: Path) -> dict[str, Any]:
    """What goes wrong in a step, what is told, and whether the step after is as if nothing had."""
    found: dict[str, Any] = {}
    made, _ = prepared(config(folder, backend))
    before = whole(made)
    silent = pack([Sample(0, [4], [2], [False], [0.0], 1.0)], 100)
    for name, batches, loss in (("nan", rows(), exploding), ("empty", silent, aipo)):
        try:
            made.train_step(batches, loss)
        except (FloatingPointError, ValueError) as error:
            found[name] = f"{type(error).__name__}: {error}"
    samples = tiny_group(tiny_policy("qwen3")[0])
    flat = [replace(one, advantage=0.0) for one in samples]
    found["flat"] = dict(made.train_step(pack(flat, 9), aipo))
    found["unchanged"] = all(torch.equal(one, before[name]) for name, one in whole(made).items())
    found["after"] = dict(made.train_step(rows(), aipo))
    found["weights"] = whole(made)
    return found


def full_disk(backend: str, folder: Path) -> dict[str, Any]:
    """A save that fails in the middle of writing, after one that did not."""
    checkpoints = folder / f"checkpoints-{backend}"
    trainer = Trainer(config(folder, backend, async_save=backend == "fsdp2"), checkpoints)
    trainer.step(tiny_group(tiny_policy("qwen3")[0]))
    trainer.save(1)
    trainer.wait_for_checkpoint()
    ranks.barrier()
    found: dict[str, Any] = {"first": latest(checkpoints)}
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # no file may grow beyond a kilobyte: what a full disk looks like
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
    try:
        trainer.save(2)
        trainer.wait_for_checkpoint()
    except CheckpointError as error:
        found["told"] = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    return {**found, "last": latest(checkpoints)}


if __name__ == "__main__":
    tasks, backend, folder, out = sys.argv[1:]
    torch.set_num_threads(1)
    ranks.start()
    found = {task: globals()[task](backend, Path(folder)) for task in tasks.split(",")}
    if ranks.rank() == 0:
        torch.save(found, out)
    ranks.end()
