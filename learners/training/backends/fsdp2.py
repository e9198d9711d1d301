"""PyTorch FSDP2 backend: each rank holds a shard of every weight, gradient and optimizer state.

Master weights and the reduction of gradients are in fp32; layers compute in the configured
precision. Every rank creates the model on the meta device, and reads only its shards from disk.
"""

import io
import pickle
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path, PosixPath
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributed.checkpoint import metadata
from torch.distributed.checkpoint.filesystem import FileSystemReader, _StorageInfo
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel

from learners.errors import ConfigError
from learners.losses import Loss
from learners.training import models, ranks
from learners.training.backends.local import LocalBackend
from learners.training.backends.settings import StateDict, make_optimizer, merge_adapters
from learners.training.checkpoint import only_data
from learners.training.policy import Policy
from learners.training.rows import PackedRow

_RECORDS = (
    metadata.BytesStorageMetadata,
    metadata.ChunkStorageMetadata,
    metadata.Metadata,
    metadata.MetadataIndex,
    metadata.StorageMeta,
    metadata.TensorProperties,
    metadata.TensorStorageMetadata,
    _StorageInfo,
)
_METADATA: dict[tuple[str, str], object] = {
    (kind.__module__, kind.__qualname__): kind
    for kind in (*_RECORDS, metadata._MEM_FORMAT_ENCODING, PosixPath, torch.Size)
}
# Replace `_get_layout` by a lookup that no pickle can modify. One entry is enough, since all
# weights have the layout `torch.strided`.
_METADATA["torch.serialization", "_get_layout"] = {"torch.strided": torch.strided}.__getitem__


class FSDP2Backend(LocalBackend):
    """AdamW on weights sharded by FSDP2; see `LocalBackend`."""

    _optimizer: torch.optim.Optimizer

    def prepare(self) -> Policy:
        """Load and shard the model.

        Raises:
            ConfigError: the number of processes is not a multiple of `replicas`.
        """
        settings = self._settings
        model = models.skeleton(settings.model)
        self._policy = self._make_policy(model, "float32")
        mixed = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16 if settings.precision == "bfloat16" else None,
            reduce_dtype=torch.float32,
        )
        pinned = CPUOffloadPolicy(pin_memory=torch.cuda.is_available())
        shard = partial(
            fully_shard,
            mesh=_mesh(settings.replicas),
            mp_policy=mixed,
            offload_policy=pinned if settings.offload else OffloadPolicy(),
        )
        # each layer is one FSDP unit: its weights are gathered while the previous layer computes
        for layer in model.get_decoder().layers:
            shard(layer)
        shard(self._policy)  # the remaining weights: embedding, final norm and head
        self._policy.to_empty(device="cpu" if settings.offload else ranks.device())
        with torch.no_grad():
            _read(model, models.folder(settings.model))
        _rebuild_buffers(model)
        optimizer = make_optimizer(self._policy.parameters(), settings)
        assert isinstance(optimizer, torch.optim.Optimizer)  # only the local backend has Muon
        self._optimizer = optimizer
        return self._policy

    def train_step(self, batches: Sequence[PackedRow], loss: Loss) -> Mapping[str, float]:
        """Take one optimizer step; see `LocalBackend.train_step`."""
        try:
            return super().train_step(batches, loss)
        finally:
            # FSDP reshards the root module only after a backward pass, which a skipped batch lacks
            self._policy.reshard()  # type: ignore[operator]

    def _backward(self, part: Tensor, last: bool) -> None:
        # FSDP averages gradients over ranks: scale the loss to get the gradients' sum instead
        (part * ranks.world()).backward()

    def score(self, batch: PackedRow) -> Tensor:
        """Return log-probabilities of a row's loss tokens; see `LocalBackend.score`."""
        logprobs = super().score(batch)
        self._policy.reshard()  # type: ignore[operator]
        return logprobs

    def iter_weights(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[str, Tensor]]:
        """Yield the weights with adapters merged, on all ranks; see `LocalBackend.iter_weights`."""
        gathered = torch.float32 if self._settings.lora_rank else dtype  # adapters merge in fp32
        # Offloaded shards move to the GPU first, since NCCL cannot send from CPU memory. With a
        # generator, only one gathered tensor exists at a time.
        named = (
            (name, weight.detach().to(ranks.device(), gathered).full_tensor())  # type: ignore[attr-defined]
            for name, weight in self._policy.model.named_parameters()
        )
        return merge_adapters(self._settings, named)

    def _state(self) -> StateDict:
        # the state is empty if no step was taken yet, or all steps were skipped
        if not self._optimizer.state:
            get_state_dict(self._policy, self._optimizer)
            # `get_state_dict` creates the state by a step on zero gradients: reset the step count
            for state in self._optimizer.state.values():
                state["step"].zero_()
        weights, optimizer = get_state_dict(self._policy, self._optimizer)
        return {"policy": weights, "optimizer": optimizer}

    def save(self, folder: Path) -> "Future[object] | None":
        """Write the shards of all ranks; with `async_save`, a thread writes copies of them."""
        if not self._settings.async_save:
            save(self._state(), checkpoint_id=folder)
            return None
        # in a separate Gloo group, collectives of this save cannot mix with those of the next step
        group = ranks.background()
        return async_save(self._state(), checkpoint_id=folder, process_group=group)  # type: ignore[return-value]

    def load(self, folder: Path) -> None:
        """Load a checkpoint that was written by any number of ranks."""
        state = self._state()
        with only_data():
            load(state, storage_reader=MetadataReader(folder))
        set_state_dict(
            self._policy,
            self._optimizer,
            model_state_dict=state["policy"],
            optim_state_dict=state["optimizer"],
        )


class MetadataReader(FileSystemReader):
    """Reader of distributed checkpoints that unpickles nothing but metadata from `.metadata`."""

    def read_metadata(self, *args: object, **kwargs: object) -> metadata.Metadata:
        """Return the metadata; called by PyTorch.

        Raises:
            UnpicklingError: the file contains objects other than metadata; they could execute code.
        """
        content = (Path(self.path) / ".metadata").read_bytes()
        found: metadata.Metadata = _MetadataUnpickler(io.BytesIO(content)).load()
        found.storage_meta = metadata.StorageMeta(load_id=self.load_id)
        return found


# subclass the Python class, since opcodes of the C class cannot be replaced
class _MetadataUnpickler(pickle._Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module, name) in _METADATA:
            return _METADATA[module, name]
        if module == "torch" and isinstance(dtype := getattr(torch, name, None), torch.dtype):
            return dtype
        raise pickle.UnpicklingError(f"GLOBAL {module}.{name}")

    def _build(self) -> None:
        # BUILD sets attributes: allow it on metadata records only, never on a class or function
        target = self.stack[-2]  # type: ignore[attr-defined]
        if type(target) not in _RECORDS:
            raise pickle.UnpicklingError(f"BUILD of {target!r}")
        self.load_build()  # type: ignore[attr-defined]

    dispatch: ClassVar = {**pickle._Unpickler.dispatch, pickle.BUILD[0]: _build}  # type: ignore[dict-item]


def _mesh(replicas: int) -> DeviceMesh:
    """Return a device mesh [ranks], or [replicas, shards] for hybrid sharding."""
    kind, world = ranks.device().type, ranks.world()
    if replicas == 1:
        return init_device_mesh(kind, (world,))
    if world % replicas:
        raise ConfigError(f"replicas: expected a divisor of {world} (processes), got {replicas}")
    names = ("replicas", "parts")
    return init_device_mesh(kind, (replicas, world // replicas), mesh_dim_names=names)


def _read(model: PreTrainedModel, folder: Path) -> None:
    """Fill this rank's shards of the weights from a model's files, and initialise the adapters."""
    stored: dict[str, Tensor] = {}
    # `named_parameters` lists a tied weight once, as the files do
    for name, weight in model.named_parameters():
        if ".lora_" in name:
            from learners.training import lora

            assert isinstance(weight, DTensor)
            full = lora.initial(name, weight.shape)
            shard = distribute_tensor(full, weight.device_mesh, weight.placements)
            weight.to_local().copy_(shard.to_local())
        else:  # the name of a layer with an adapter has an infix, which the files lack
            stored[name.replace(".base_layer.", ".")] = weight
    load(stored, storage_reader=HuggingFaceStorageReader(str(folder)))


def _rebuild_buffers(model: PreTrainedModel) -> None:
    """Recompute buffers, such as rotary frequencies, from the config."""
    for path, module in list(model.named_modules()):
        if any(True for _ in module.buffers(recurse=False)):
            rebuilt = type(module)(config=model.config)
            model.set_submodule(path, rebuilt.to(ranks.device()))
