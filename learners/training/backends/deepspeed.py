"""DeepSpeed ZeRO-3 backend; DeepSpeed's optimizers, which are compiled at startup, are not used."""

import contextlib
import io
import logging
import math
import os
import tempfile
import warnings
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.serialization import safe_globals

from learners.training import models, ranks
from learners.training.backends.local import LocalBackend
from learners.training.backends.step import (
    OptimizerSettings,
    PolicySettings,
    make_cost,
    make_optimizer,
    make_policy,
    merge_adapters,
)
from learners.training.checkpoint import only_data
from learners.training.policy import Policy

if not torch.cuda.is_available():
    os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import deepspeed.comm
from deepspeed.checkpoint.ds_to_universal import main as convert_to_universal
from deepspeed.runtime.fp16.loss_scaler import LossScaler
from deepspeed.runtime.zero.config import ZeroStageEnum
from deepspeed.utils import logger

_TAG = "state"


class DeepSpeedBackend(LocalBackend):
    """AdamW on weights sharded by ZeRO-3; see `LocalBackend`."""

    def __init__(self, policy: PolicySettings, optimizer: OptimizerSettings, offload: bool) -> None:
        super().__init__(policy, optimizer)
        self._offload = offload

    def prepare(self) -> Policy:
        """Load and shard the model; every process loads all of it first."""
        logger.setLevel(logging.WARNING)
        # DeepSpeed uses deprecated names of torch.distributed
        warnings.filterwarnings("ignore", "`torch.distributed", FutureWarning)
        # otherwise DeepSpeed compiles a collective for shared memory, which takes minutes
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        wanted, limit = self._settings, self._optimizer_settings.max_grad_norm
        model = models.load(wanted.model)
        self._cost = make_cost(model, bool(wanted.lora_rank))
        policy = make_policy(wanted, model, "float32")
        optimizer = make_optimizer(policy.parameters(), self._optimizer_settings)
        settings = _settings(wanted.precision, limit, self._offload)
        self._engine, *_ = deepspeed.initialize(model=policy, optimizer=optimizer, config=settings)
        self._policy, self._optimizer = self._engine, self._engine.optimizer
        return policy

    def _backward(self, part: Tensor, last: bool) -> None:
        # set by hand, since the number of rows differs from step to step
        self._engine.set_gradient_accumulation_boundary(last)
        # DeepSpeed averages gradients over ranks, but the loss is summed over them
        self._engine.backward(part * ranks.world())

    def _optimize(self) -> float:
        self._engine.step()  # skips the update if the gradient is not finite
        if self._engine.optimizer.overflow:
            return math.nan
        return float(self._engine.get_global_grad_norm())

    def iter_weights(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, full tensor) with adapters merged; see `LocalBackend.iter_weights`."""
        return merge_adapters(self._settings, self._gathered())

    def _gathered(self) -> Iterator[tuple[str, Tensor]]:
        for name, weight in self._engine.module.model.named_parameters():
            with deepspeed.zero.GatheredParameters([weight]):
                full = weight.detach().clone()  # the gathered tensor is freed at the block's end
            yield name, full

    def save(self, folder: Path) -> None:
        """Write the shards of all ranks."""
        self._engine.save_checkpoint(str(folder), tag=_TAG, save_latest=False)

    def load(self, folder: Path) -> None:
        """Load a checkpoint; rank 0 converts it first if the number of ranks has changed."""
        with only_data(), safe_globals([LossScaler, ZeroStageEnum]):
            self._load(folder)

    def _load(self, folder: Path) -> None:
        shards = len(list((folder / _TAG).glob("*_optim_states.pt")))
        if shards == ranks.world():
            self._engine.load_checkpoint(str(folder), tag=_TAG)
            return
        with contextlib.ExitStack() as stack:
            target = ""
            if ranks.rank() == 0:
                self._check_names(folder / _TAG)
                target = stack.enter_context(tempfile.TemporaryDirectory(dir=folder.parent.parent))
                with contextlib.redirect_stdout(io.StringIO()):
                    convert_to_universal(_conversion(folder / _TAG, Path(target) / _TAG))
            target = ranks.broadcast(target)
            self._engine._config.load_universal_checkpoint = True
            self._engine.load_checkpoint(target, tag=_TAG)
            self._engine._config.load_universal_checkpoint = False
            ranks.barrier()  # rank 0 removes the folder next

    def _check_names(self, folder: Path) -> None:
        """Check that only weights of this policy are named: the conversion uses names as paths.

        Raises:
            ValueError: others are named, or the files are not those of ZeRO-3.
        """
        ours = {name for name, _ in self._engine.module.named_parameters()}
        for file in folder.glob("*.pt"):
            state = torch.load(file, mmap=True, weights_only=True)
            names = set().union(*state.get("param_shapes", ()))
            stage = state["optimizer_state_dict"]["zero_stage"] if "_optim_" in file.name else 3
            if stage != 3 or not names <= ours:
                raise ValueError(f"{file.name}: expected weights of {self._settings.model}")


def _settings(precision: str, max_grad_norm: float, offload: bool) -> dict[str, object]:
    zero: dict[str, object] = {
        "stage": 3,
        "stage3_param_persistence_threshold": 0,  # otherwise small weights stay unsharded
    }
    if offload:
        zero |= {
            "offload_optimizer": {"device": "cpu"},
            "offload_param": {"device": "cpu"},
        }
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,  # otherwise the loss would be divided by it
        "gradient_clipping": max_grad_norm,
        "zero_optimization": zero,
        # PyTorch's AdamW, the same on every backend, instead of DeepSpeed's
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": precision == "bfloat16"},
        # gradients are reduced and summed over rows in fp32, as with FSDP2
        "communication_data_type": "fp32",
        "data_types": {"grad_accum_dtype": "fp32"},
        "steps_per_print": None,
    }


def _conversion(source: Path, target: Path) -> Namespace:
    return Namespace(
        input_folder=str(source),
        output_folder=str(target),
        num_extract_workers=1,
        num_merge_workers=1,
        keep_temp_folder=False,
        strict=True,
        inject_missing_state=False,
    )
