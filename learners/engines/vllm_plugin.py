"""vLLM plugin: parent-death signals, a weight transfer backend without NCCL, and access by API key.

vLLM calls `register` of every installed plugin in all its processes. This plugin affects only
servers that a run has started.
"""

import multiprocessing
import os
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from learners.training.ranks import die_with_parent

OWNED = "RESUME_GYM_ENGINE"
"""Environment variable that marks the vLLM servers that a run has started."""
SHARED_MEMORY = "shared_memory"
"""Name of the weight transfer backend for CPUs, and for GPUs shared with a trainer."""
KEY = "VLLM_API_KEY"
"""Environment variable that holds the API key of the servers; vLLM reads the same variable."""

_Message = MutableMapping[str, Any]
_Call = Callable[..., Awaitable[object]]


def register() -> None:
    """Set up the current vLLM process, if it belongs to a run."""
    if OWNED not in os.environ:
        return
    parent = multiprocessing.parent_process()
    if parent is not None:  # vLLM's child processes must not survive a killed server
        die_with_parent(parent.pid)
    from vllm.distributed.weight_transfer import WeightTransferEngineFactory

    if SHARED_MEMORY not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(
            SHARED_MEMORY, "learners.engines.vllm_weights", "SharedMemoryEngine"
        )


class KeyRequired:
    """ASGI middleware that requires the API key as a bearer token on all routes except /health.

    vLLM's own check of the key covers completions, but not the routes that pause a server, load
    weights from any path, or call any method of a server's workers.
    """

    def __init__(self, app: _Call) -> None:
        self._app = app
        self._expected = f"Bearer {os.environ[KEY]}".encode()

    async def __call__(self, scope: _Message, receive: _Call, send: _Call) -> None:
        """Pass on an allowed request; answer others with status 401, or close their websocket."""
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        known = secrets.compare_digest(given, self._expected)
        if known or scope["type"] == "lifespan" or scope["path"] == "/health":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # ASGI servers then answer with status 403
        else:
            empty = [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": empty})
            await send({"type": "http.response.body"})
