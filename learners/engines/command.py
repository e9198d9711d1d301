"""Command line and environment of the vLLM servers that a run starts."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil
import torch

from learners.engines.api_key import KEY, KeyRequired, make_key
from learners.engines.vllm_plugin import OWNED, SHARED_MEMORY
from learners.training import models, ranks

GPU_SHARE, COLOCATED_SHARE = 0.9, 0.4
"""Shares of a GPU's memory that a server may use: without, and with, a trainer on the same GPU."""
# code for `python -c`: with `python -m`, child processes of vLLM take seconds to import `main`
_SERVER = "from vllm.entrypoints.launchers.api_server.entry import main; main()"
# torchrun's variables, which would make a server join the trainers
_LAUNCHER = ("RANK", "LOCAL_", "GROUP_", "ROLE_", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_")


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a vLLM server.

    Attributes:
        model: name or folder of the model.
        precision: dtype of the weights, "float32" or "bfloat16".
        seed: random seed.
        gpus: number of GPUs per server.
        colocated: whether the server shares its GPUs with a trainer.
        threads: number of CPU threads on a machine without GPUs; 0 for as many as a trainer uses.
    """

    model: str
    precision: str
    seed: int
    gpus: int
    colocated: bool
    threads: int


def command(settings: ServerSettings, number: int, host: str, port: int) -> list[str]:
    """Return the command line of a server; `number` is its index on this machine."""
    cuda = torch.cuda.is_available()
    options: dict[str, object] = {
        "model": models.folder(settings.model),
        "host": host,
        "port": port,
        "dtype": settings.precision,
        "seed": settings.seed + 1000 * ranks.rank() + number,  # a different seed for each server
        "weight-transfer-config": json.dumps({"backend": transfer(settings.colocated)}),
        # return log-probabilities at the sampling temperature; ignore the model's sampling defaults
        "logprobs-mode": "processed_logprobs",
        "max-logprobs": 1,
        "generation-config": "vllm",
        "middleware": f"{KeyRequired.__module__}.{KeyRequired.__name__}",
    }
    switches = ["enable-scale-out", "disable-uvicorn-access-log"]
    if cuda:
        options["tensor-parallel-size"] = settings.gpus
        options["gpu-memory-utilization"] = COLOCATED_SHARE if settings.colocated else GPU_SHARE
        switches += ["enable-sleep-mode"] if settings.colocated else []
    else:
        # no compilation, which would take longer than a whole run of a small model
        memory = psutil.virtual_memory().total
        options |= {"block-size": 32, "kv-cache-memory-bytes": kv_cache_bytes(memory)}
        options["distributed-executor-backend"] = "uni"
        switches += ["enforce-eager"]
    flags = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    return [sys.executable, "-P", "-c", _SERVER, *flags, *(f"--{name}" for name in switches)]


def transfer(colocated: bool) -> str:
    """Return the weight transfer backend: "nccl" between different GPUs, else `SHARED_MEMORY`."""
    return "nccl" if torch.cuda.is_available() and not colocated else SHARED_MEMORY


def environment(settings: ServerSettings, number: int) -> Mapping[str, str]:
    """Return this process's environment without variables for trainers, and with those for vLLM."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_LAUNCHER) and (name, value) != ranks.ALLOCATOR
    }
    variables |= {
        OWNED: str(os.getpid()),
        "PYTHONSAFEPATH": "1",  # no process of vLLM imports files of the current folder
        KEY: make_key(),  # not in the command line, which all users of the machine can read
        "VLLM_SERVER_DEV_MODE": "1",  # enables the endpoints for weight updates
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    if torch.cuda.is_available():
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(_gpus(settings, number))
    else:
        threads = str(settings.threads or ranks.cores())
        variables |= {
            "OMP_NUM_THREADS": threads,
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            # with multiprocessing, vLLM ignores the executor "uni" and adds a worker process, with
            # which a server takes 1.5 times as long to start and samples no faster
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "TORCH_COMPILE_DISABLE": "1",  # the first request would wait for compilation
            # servers share cores with the trainer, so idle threads must sleep, not spin
            "OMP_WAIT_POLICY": "PASSIVE",
            "GOMP_SPINCOUNT": "0",
        }
    return variables


def _gpus(settings: ServerSettings, number: int) -> Sequence[str]:
    """Return the GPUs of a server; engines use the first GPUs of a machine, trainers the rest."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else list(map(str, range(torch.cuda.device_count())))
    first = number * settings.gpus
    return gpus[first : first + settings.gpus]


def kv_cache_bytes(memory_bytes: int) -> int:
    """Return the size of a server's KV cache on a machine without GPUs."""
    return min(4 * 2**30, memory_bytes // 16)
