"""vLLM plugin: servers that end with their run, and a weight transfer backend without NCCL.

vLLM calls `register` of every installed plugin in all its processes. This plugin affects only
servers that a run has started.
"""

import multiprocessing
import os

from learners.training.ranks import die_with_parent

OWNED = "RESUME_GYM_ENGINE"
"""Environment variable of the vLLM processes of a run: the id of the process that started them."""
SHARED_MEMORY = "shared_memory"
"""Name of the weight transfer backend for CPUs, and for GPUs shared with a trainer."""


def register() -> None:
    """Set up the current vLLM process, if it belongs to a run."""
    if OWNED not in os.environ:
        return
    # a server must not survive a killed run, nor vLLM's child processes a killed server
    own = str(os.getpid())
    if os.environ[OWNED] != own:
        parent = multiprocessing.parent_process()
        die_with_parent(parent.pid if parent else int(os.environ[OWNED]))
        # vLLM also starts commands, which inherit this environment, to inspect unknown models
        os.environ[OWNED] = own
    from vllm.distributed.weight_transfer import WeightTransferEngineFactory

    if SHARED_MEMORY not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(
            SHARED_MEMORY, "learners.engines.vllm_weights", "SharedMemoryEngine"
        )
