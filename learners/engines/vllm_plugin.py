"""vLLM plugin, which adds parent-death signals and a weight transfer backend without NCCL.

vLLM calls `register` of every installed plugin in all its processes. It has no effect in servers
that were not started by a run.
"""

import multiprocessing
import os

from learners.training.ranks import die_with_parent

OWNED = "RESUME_GYM_ENGINE"
"""Environment variable that marks the servers of a run."""
SHARED_MEMORY = "shared_memory"
"""Name of the weight transfer backend for CPUs, and for GPUs shared with a trainer."""


def register() -> None:
    """Set up the current vLLM process, if it belongs to a run."""
    if OWNED not in os.environ:
        return
    parent = multiprocessing.parent_process()
    if parent is not None:  # engine and workers would survive a killed server
        die_with_parent(parent.pid)
    from vllm.distributed.weight_transfer import WeightTransferEngineFactory

    if SHARED_MEMORY not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(
            SHARED_MEMORY, "learners.engines.vllm_weights", "SharedMemoryEngine"
        )
