"""The event loop in which all clients live: a thread of its own, made when first needed.

Connections belong to the loop that opened them. With one loop for all, `Env.step`, a trainer's
loop and a command line may share a client.
"""

import asyncio
import os
from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, TypeVar

T = TypeVar("T")

_loops: dict[int, asyncio.AbstractEventLoop] = {}
_lock = Lock()


def submit(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Run a coroutine in the loop; from any thread but its own.

    A fork has a loop of its own. Clients do not survive one: make them in the child.
    """
    with _lock:
        process = os.getpid()
        if process not in _loops:
            _loops.clear()  # a fork has no threads
            _loops[process] = asyncio.new_event_loop()
            run = _loops[process].run_forever
            Thread(target=run, name=f"models-{process}", daemon=True).start()
        loop = _loops[process]
    return asyncio.run_coroutine_threadsafe(_watched(work), loop)


async def _watched(work: Coroutine[Any, Any, T]) -> T:
    """The work; asyncio prints no traceback of a failure for which nobody waits any more."""
    task = asyncio.current_task()
    assert task
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return await work


def _unlocked() -> None:
    """A fork may happen while another thread holds the lock."""
    global _lock
    _lock = Lock()


os.register_at_fork(after_in_child=_unlocked)
