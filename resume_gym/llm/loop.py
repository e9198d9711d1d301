"""Event loop shared by all clients, in a background thread that starts on first use.

Connections belong to the loop that opened them. Since all connections are opened in this loop,
synchronous code such as `Env.step` and a trainer's own event loop can share a client.
"""

import asyncio
import os
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, TypeVar

T = TypeVar("T")

_loop: asyncio.AbstractEventLoop | None = None
_lock = Lock()


def submit(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Run a coroutine in the background loop; blocking on its result in that loop deadlocks.

    A `SystemExit` of the coroutine becomes a RuntimeError, since it must not end the process.
    A forked process gets a new loop. Clients do not survive a fork: the child needs new clients.
    """
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            Thread(target=_run, args=(_loop,), name=f"models-{os.getpid()}", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(_watched(work), _loop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    while True:  # a task that raises SystemExit also stops the loop, which others still need
        with suppress(SystemExit):
            loop.run_forever()


async def _watched(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task
    unlogged(task)
    try:
        return await work
    except SystemExit as exiting:
        raise RuntimeError(f"SystemExit: {exiting}") from exiting


def unlogged(task: asyncio.Task[T]) -> asyncio.Task[T]:
    """Return a task whose exception asyncio does not log if nobody reads the result."""
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return task


def _forget() -> None:
    """In a forked child, renew the lock and drop the parent's loop, which has no thread there."""
    global _loop, _lock
    _loop, _lock = None, Lock()


os.register_at_fork(after_in_child=_forget)
