"""How a vLLM worker on a CPU takes new weights: from safetensors in another process's memory."""

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
    """There is nothing to agree on beforehand."""


@dataclass
class Files(WeightTransferUpdateInfo):
    """Where the weights lie.

    Attributes:
        paths: of safetensors files, readable until the update is finished.
    """

    paths: list[str]


class SharedMemoryEngine(WeightTransferEngine[Nothing, Files]):
    """Reads whole tensors by name and gives them to the model as if they came from its files."""

    init_info_cls = Nothing
    update_info_cls = Files

    def init_transfer_engine(self, init_info: Nothing) -> None:
        """Nothing to do."""

    def start_weight_update(self) -> None:
        """Put every layer into the state that it has before its weights are loaded."""
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: Files) -> None:
        """Load the tensors of all files."""
        for path in update_info.paths:
            with safe_open(path, "pt") as file:
                # a copy: the file may go once this returns
                named = [(name, file.get_tensor(name).clone()) for name in file.keys()]  # noqa: SIM118
            self.model.load_weights(named)  # type: ignore[operator]

    def finish_weight_update(self) -> None:
        """Bring the layers back into the state in which they compute.

        On a CPU a head that shares the embedding's weight computes with a packed copy of it,
        which vLLM does not make again.
        """
        finalize_layerwise_reload(self.model, self.model_config)
        for module in self.model.modules():
            if isinstance(module, VocabParallelEmbedding) and hasattr(module, "cpu_linear"):
                module.quant_method.process_weights_after_loading(module)

    def shutdown(self) -> None:
        """Nothing to do."""
