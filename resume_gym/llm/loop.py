"""Event loop shared by all clients, in a background thread that starts on first use.

Connections belong to the loop that opened them. With a common loop, `Env.step`, the event loop of
a trainer and a command line can share a client.
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
    """Run a coroutine in the background loop; callable from any thread but the loop's.

    A forked process gets a new loop. Clients do not survive a fork: create them in the child.
    """
    with _lock:
        process = os.getpid()
        if process not in _loops:
            _loops.clear()  # after a fork the thread of the parent's loop is gone
            _loops[process] = asyncio.new_event_loop()
            run = _loops[process].run_forever
            Thread(target=run, name=f"models-{process}", daemon=True).start()
        loop = _loops[process]
    return asyncio.run_coroutine_threadsafe(_watched(work), loop)


async def _watched(work: Coroutine[Any, Any, T]) -> T:
    """Await the coroutine; asyncio logs no exception of an abandoned one."""
    task = asyncio.current_task()
    assert task
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return await work


def _unlocked() -> None:
    """Replace the lock in a forked child: another thread may have held it during the fork."""
    global _lock
    _lock = Lock()


os.register_at_fork(after_in_child=_unlocked)
