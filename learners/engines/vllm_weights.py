"""Weight transfer backend for vLLM workers: reads safetensors from another process's memory."""

from dataclasses import dataclass

from safetensors import safe_open
from vllm.distributed.weight_transfer import WeightTransferEngine
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding
from vllm.model_executor.model_loader.reload import (
    finalize_layerwise_reload,
    initialize_layerwise_reload,
)


@dataclass
class Nothing(WeightTransferInitInfo):
    """Empty initialisation data: the transfer through memory needs no initialisation."""


@dataclass
class Files(WeightTransferUpdateInfo):
    """Location of the new weights of an update.

    Attributes:
        paths: safetensors files, readable until the update is finished.
    """

    paths: list[str]


class SharedMemoryEngine(WeightTransferEngine[Nothing, Files]):
    """Backend that passes full tensors to the method with which vLLM loads checkpoint files."""

    init_info_cls = Nothing
    update_info_cls = Files

    def init_transfer_engine(self, init_info: Nothing) -> None:
        """Do nothing: reading files needs no initialisation."""

    def start_weight_update(self) -> None:
        """Reset every layer to its state before the model's weights were loaded."""
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: Files) -> None:
        """Load the tensors of all files."""
        for path in update_info.paths:
            with safe_open(path, "pt") as file:
                # copied, since the file may disappear after this call
                named = [(name, file.get_tensor(name).clone()) for name in file.keys()]  # noqa: SIM118
            self.model.load_weights(named)  # type: ignore[operator]

    def finish_weight_update(self) -> None:
        """Finish the update: convert the loaded layers to their form for inference."""
        finalize_layerwise_reload(self.model, self.model_config)
        # on CPUs, a tied head uses a packed copy of the embedding, which vLLM does not update
        for module in self.model.modules():
            if isinstance(module, VocabParallelEmbedding) and hasattr(module, "cpu_linear"):
                module.quant_method.process_weights_after_loading(module)

    def shutdown(self) -> None:
        """Do nothing: reading files needs no connection."""
