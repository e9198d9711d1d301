"""What every process of a job's vLLM servers loads.

They die with their parents, and know a way for weights to come without a GPU.

vLLM calls `register` in all its processes, as it does for every plugin that is installed; in
those of other people's servers it does nothing.
"""

import multiprocessing
import os

from learners.ranks import die_with_parent

OWNED = "RESUME_GYM_ENGINE"
"""Set in the environment of a job's servers."""
SHARED_MEMORY = "shared_memory"
"""The name of the way that weights take on a CPU."""


def register() -> None:
    """Prepare this process."""
    if OWNED not in os.environ:
        return
    parent = multiprocessing.parent_process()
    if parent is not None:  # a killed server would leave its engine and its workers behind
        die_with_parent(parent.pid)
    from vllm.distributed.weight_transfer import WeightTransferEngineFactory

    if SHARED_MEMORY not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(
            SHARED_MEMORY, "learners.engines.vllm_weights", "SharedMemoryEngine"
        )
