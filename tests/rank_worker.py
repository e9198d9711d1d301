"""What the processes of test_ranks.py do."""

import os
import pickle
import resource
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from tiny import make_sample, tiny_group, tiny_policy
from torch import Tensor

from learners.aipo import aipo_loss, feedback_loss
from learners.build import make_backend, make_trainer
from learners.config import Config
from learners.losses import LossInput, LossOutput
from learners.training import ranks
from learners.training.backends.local import LocalBackend
from learners.training.checkpoint import CheckpointError, latest
from learners.training.policy import Policy
from learners.training.rows import Hinted, pack, unshare

STEPS = 2
LOCAL: dict[str, dict[str, Any]] = {
    "qwen3 shared": {},
    "llama shared": {},
    "qwen3 adapters": {"lora_rank": 4},
    "qwen3 hints": {},
    "qwen3 taught": {"feedback_weight": 0.5},
}
SHARDED: dict[str, dict[str, Any]] = {
    **LOCAL,
    "qwen3 apart": {},
    "llama again": {"activation_checkpointing": True},
    "qwen3 offloaded": {"offload": True},
    "qwen3 halves": {"precision": "bfloat16"},
}


def config(folder: Path, backend: str, architecture: str = "qwen3", **changes: Any) -> Config:
    settings = {"learning_rate": 1e-3, "weight_decay": 0.01, "temperature": 1.0, **changes}
    return Config(model=str(folder / architecture), backend=backend, **settings)  # type: ignore[arg-type]


@cache
def rows(architecture: str = "qwen3", apart: bool = False, hints: bool = False) -> list[Any]:
    """Rows of a fixed batch: a group is split, so there are three, not the same for two ranks.

    With hints, one of the rows has marked tokens.
    """
    samples = tiny_group(tiny_policy(architecture)[0])
    if hints:
        first, *rest = samples
        samples = [replace(first, hinted=(Hinted(0, [*first.prompt, 17, 3]),)), *rest]
    return pack(unshare(samples) if apart else samples, 9)


def prepared(settings: Config) -> tuple[LocalBackend, Policy]:
    backend = make_backend(settings)
    return backend, backend.prepare()


def whole(backend: LocalBackend) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in backend.iter_weights()}


def first_moments(backend: Any) -> dict[str, Tensor]:
    """After the first step, a tenth of the clipped gradient."""
    policy = getattr(backend._policy, "module", backend._policy)  # of DeepSpeed's engine
    moments = {}
    for name, weight in policy.named_parameters():
        if hasattr(backend, "_engine"):
            from deepspeed.utils import safe_get_full_optimizer_state

            moments[name] = safe_get_full_optimizer_state(weight, "exp_avg")
        else:
            moment = backend._optimizer.state[weight]["exp_avg"]
            sharded = hasattr(moment, "full_tensor")
            moments[name] = moment.full_tensor() if sharded else moment.clone()
    return moments


def parity(backend: str, folder: Path) -> dict[str, Any]:
    """Steps in every variant: metrics, moments after the first, weights after the last."""
    results: dict[str, Any] = {}
    variants = SHARDED if backend != "local" else LOCAL
    if backend == "fsdp2":
        variants = {**variants, "qwen3 replicas": {"replicas": 2}}
    for name, changes in variants.items():
        architecture = name.split()[0]
        if name.endswith("taught"):  # with an untied head
            changes = {**changes, "teacher": str(folder / "llama")}
        made, _ = prepared(config(folder, backend, architecture, **changes))
        hints = name.endswith("hints")
        batches = rows(architecture, name.endswith("apart"), hints)
        taught = hints or name.endswith("taught")
        loss = partial(feedback_loss, weight=0.5, form="full") if taught else aipo_loss
        metrics = [dict(made.train_step(batches, loss))]
        moments = {} if changes else first_moments(made)
        metrics += [dict(made.train_step(batches, loss)) for _ in range(STEPS - 1)]
        weights = whole(made)
        results[name] = metrics, moments, weights
        if not changes:
            for weight, half in made.iter_weights(torch.bfloat16):
                assert torch.equal(half.bfloat16(), weights[weight].bfloat16()), weight
    return results


def resume(backend: str, folder: Path) -> dict[str, Any]:
    """Weights after step 3: without a break, and from each checkpoint of step 2 in the folder.

    Or the error where DeepSpeed does not load one.
    """
    results: dict[str, Any] = {}
    made, _ = prepared(config(folder, backend))
    for _ in range(2):
        made.train_step(rows(), aipo_loss)
    saved = folder / f"{backend}-{ranks.world()}"
    if ranks.rank() == 0:
        saved.mkdir()
    ranks.barrier()
    made.save(saved)
    made.train_step(rows(), aipo_loss)
    results["uninterrupted"] = whole(made)
    for checkpoint in sorted(folder.glob(f"{backend}-*")):
        resumed, _ = prepared(config(folder, backend))
        try:
            resumed.load(checkpoint)
        except ValueError as error:
            results[checkpoint.name] = str(error)
            continue
        resumed.train_step(rows(), aipo_loss)
        results[checkpoint.name] = whole(resumed)
    return results


def exploding(row: LossInput) -> LossOutput:
    return torch.inf * row.logprobs.sum(), {}


def bad_batches(backend: str, folder: Path) -> dict[str, Any]:
    """Errors of bad batches, and metrics of the steps after them."""
    results: dict[str, Any] = {}
    made, _ = prepared(config(folder, backend))
    before = whole(made)
    empty = pack([make_sample(0, [4], [2], sampled=[False])], 100)
    for name, batches, loss in (("nan", rows(), exploding), ("empty", empty, aipo_loss)):
        try:
            made.train_step(batches, loss)
        except (FloatingPointError, ValueError) as error:
            results[name] = f"{type(error).__name__}: {error}"
    samples = tiny_group(tiny_policy("qwen3")[0])
    flat = [replace(one, advantages=[0.0] * len(one.response)) for one in samples]
    results["flat"] = dict(made.train_step(pack(flat, 9), aipo_loss))
    results["unchanged"] = all(
        torch.equal(weight, before[name]) for name, weight in whole(made).items()
    )
    results["after"] = dict(made.train_step(rows(), aipo_loss))
    return results


def full_disk(backend: str, folder: Path) -> dict[str, Any]:
    """A save that fails while it writes, after one that succeeds."""
    checkpoints = folder / f"checkpoints-{backend}"
    trainer = make_trainer(config(folder, backend, async_save=backend == "fsdp2"), checkpoints)
    trainer.step(1, tiny_group(tiny_policy("qwen3")[0]), aipo_loss)
    trainer.save(1)
    trainer.wait_for_checkpoint()
    ranks.barrier()
    results: dict[str, Any] = {"first": latest(checkpoints)}
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # no file may grow beyond a kilobyte, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
    try:
        trainer.save(2)
        trainer.wait_for_checkpoint()
    except CheckpointError as error:
        results["error"] = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    return {**results, "last": latest(checkpoints)}


@dataclass
class Payload:
    """Calls a function when it is unpickled."""

    call: Callable[..., object]
    arguments: tuple[object, ...]

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call, self.arguments


def payloads(marker: Path) -> dict[str, Payload]:
    """Payloads that create a file, by the name of what they call."""
    second = marker.with_name("second-stage.pt")
    torch.save(Payload(os.system, (f"touch {marker}",)), second)
    return {
        "posix.system": Payload(os.system, (f"touch {marker}",)),
        "builtins.eval": Payload(eval, (f"open({str(marker)!r}, 'w')",)),
        "builtins.getattr": Payload(getattr, (Payload(__import__, ("os",)), "system")),
        "torch.serialization.load": Payload(torch.load, (str(second), None, None)),
    }


def poison(backend: str, folder: Path, payload: Payload) -> Iterator[None]:
    """Put the payload into one kind of file of a checkpoint after the other."""
    if backend == "deepspeed":
        for kind in ("*_optim_states.pt", "*_model_states.pt"):
            for file in folder.rglob(kind):
                torch.save({**torch.load(file, weights_only=False), "more": payload}, file)
            yield
        return
    file = folder / ".metadata"
    found = pickle.loads(file.read_bytes())
    # a value that is not a tensor, in a file of its own
    place = next(place for place in found.storage_data if place.fqn.endswith(".lr"))
    torch.save(payload, folder / "__9_0.distcp")
    found.storage_data[place] = replace(
        found.storage_data[place],
        relative_path="__9_0.distcp",
        offset=0,
        length=(folder / "__9_0.distcp").stat().st_size,
    )
    file.write_bytes(pickle.dumps(found))
    yield
    file.write_bytes(pickle.dumps(replace(found, planner_data=payload)))
    yield


def attacked(backend: str, folder: Path) -> list[tuple[str, str, bool]]:
    """Errors of checkpoints with a payload, and whether it was executed."""
    marker = folder / f"executed-{backend}"
    checkpoints = folder / f"attacked-{backend}"
    trainer = make_trainer(config(folder, backend), checkpoints)
    errors = []
    for name, payload in payloads(marker).items():
        shutil.copytree(folder / f"{backend}-1", checkpoints / "step-000001")
        for _ in poison(backend, checkpoints / "step-000001", payload):
            try:
                trainer.resume()
                message = ""
            except CheckpointError as error:
                message = str(error)
            errors.append((name, message, marker.exists()))
        shutil.rmtree(checkpoints / "step-000001")
    return errors


def work(
    variables: Mapping[str, str],
    tasks: Sequence[str],
    backends: Sequence[str],
    folder: Path,
    out: Path,
) -> None:
    """Be a rank; rank 0 writes {backend: {task: result}} to `out`."""
    os.environ.update(variables)
    torch.set_num_threads(1)
    ranks.start()
    results = {
        backend: {task: globals()[task](backend, folder) for task in tasks} for backend in backends
    }
    if ranks.rank() == 0:
        torch.save(results, out)
    ranks.end()
