"""DeepSpeed ZeRO-3 backend with PyTorch's AdamW, which unlike DeepSpeed's needs no compilation."""

import logging
import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.serialization import safe_globals

from learners.training import models, ranks
from learners.training.backends.local import LocalBackend
from learners.training.backends.settings import make_optimizer, merge_adapters
from learners.training.checkpoint import only_data
from learners.training.policy import Policy

if not torch.cuda.is_available():
    os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import deepspeed.comm
from deepspeed.runtime.fp16.loss_scaler import LossScaler
from deepspeed.runtime.zero.config import ZeroStageEnum
from deepspeed.utils import logger

_TAG = "state"


class DeepSpeedBackend(LocalBackend):
    """AdamW on weights sharded by ZeRO-3; see `LocalBackend`."""

    def prepare(self) -> Policy:
        """Load and shard the model; every process loads the whole model first."""
        logger.setLevel(logging.WARNING)
        # hide warnings about deprecated names of torch.distributed, which DeepSpeed uses
        warnings.filterwarnings("ignore", "`torch.distributed", FutureWarning)
        # without this line, DeepSpeed spends minutes on compiling its shared-memory communication
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        policy = self._make_policy(models.load(self._settings.model), "float32")
        optimizer = make_optimizer(policy.parameters(), self._settings)
        options = self._options()
        self._engine, *_ = deepspeed.initialize(model=policy, optimizer=optimizer, config=options)
        self._policy, self._optimizer = self._engine, self._engine.optimizer
        return policy

    def _options(self) -> dict[str, object]:
        offload = ("offload_optimizer", "offload_param") if self._settings.offload else ()
        return {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 1,  # DeepSpeed divides the loss by this number
            "gradient_clipping": self._settings.max_grad_norm,
            "zero_optimization": {
                "stage": 3,
                "stage3_param_persistence_threshold": 0,  # shard small weights, too
                **{name: {"device": "cpu"} for name in offload},
            },
            # let DeepSpeed accept PyTorch's AdamW, which every backend uses
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "bf16": {"enabled": self._settings.precision == "bfloat16"},
            # gradients are reduced over ranks and summed over rows in fp32, as with FSDP2
            "communication_data_type": "fp32",
            "data_types": {"grad_accum_dtype": "fp32"},
            "steps_per_print": None,
        }

    def _backward(self, part: Tensor, last: bool) -> None:
        # end the accumulation of gradients at the last row of a step, since steps have different
        # numbers of rows
        self._engine.set_gradient_accumulation_boundary(last)
        # DeepSpeed averages gradients over ranks: scale the loss to get the gradients' sum instead
        self._engine.backward(part * ranks.world())

    def _optimize(self) -> float:
        self._engine.step()  # DeepSpeed skips the update if the gradient is not finite
        if self._engine.optimizer.overflow:
            return math.nan
        return float(self._engine.get_global_grad_norm())

    def iter_weights(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[str, Tensor]]:
        """Yield the weights with adapters merged, on all ranks; see `LocalBackend.iter_weights`."""
        return merge_adapters(self._settings, self._gathered())

    def _gathered(self) -> Iterator[tuple[str, Tensor]]:
        for name, weight in self._engine.module.model.named_parameters():
            with deepspeed.zero.GatheredParameters([weight]):
                full = weight.detach().clone()  # the gathered tensor is freed at the block's end
            yield name, full

    def save(self, folder: Path) -> None:
        """Write a checkpoint, which contains the shards of all ranks."""
        self._engine.save_checkpoint(str(folder), tag=_TAG, save_latest=False)

    def load(self, folder: Path) -> None:
        """Load a checkpoint that was written by the same number of processes.

        Raises:
            ValueError: a different number of processes wrote the checkpoint.
        """
        shards = len(list((folder / _TAG).glob("*_optim_states.pt")))
        if shards != ranks.world():
            raise ValueError(f"expected {shards} processes, as when saved, got {ranks.world()}")
        with only_data(), safe_globals([LossScaler, ZeroStageEnum]):
            self._engine.load_checkpoint(str(folder), tag=_TAG)
