"""The event loop in which all clients live: a thread of its own, made when first needed.

Connections belong to the loop that opened them. With one loop for all, `Env.step`, a trainer's
loop and a command line may share a client.
"""

import asyncio
import os
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import lru_cache
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


def submit(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Run a coroutine in the loop; from any thread but its own."""
    return asyncio.run_coroutine_threadsafe(work, _loop(os.getpid()))


@lru_cache(maxsize=1)
def _loop(process: int) -> asyncio.AbstractEventLoop:
    # a fork has no threads: the child makes a loop of its own
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name=f"models-{process}", daemon=True).start()
    return loop
