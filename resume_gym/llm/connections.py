"""Connection pools, each with a separate client of an SDK.

The HTTP library's work per request grows with the number of open connections in the pool: at 256
connections it takes more CPU time than everything else. Pools here serve 16 requests each.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import httpx2

C = TypeVar("C")
_A_POOL = 16


class Pools(Generic[C]):
    """Several clients of an SDK; each request uses the one with the fewest requests in flight.

    Args:
        make: creates a client of the SDK on top of an HTTP client.
        concurrency: maximum number of requests in flight.

    Attributes:
        clients: all clients.
    """

    def __init__(self, make: Callable[[httpx2.AsyncClient], C], concurrency: int) -> None:
        secure = httpx2.create_ssl_context()
        # One spare: a request may start before the previous one has released its connection
        limits = httpx2.Limits(max_connections=_A_POOL + 1, max_keepalive_connections=_A_POOL + 1)
        self.clients = [
            make(httpx2.AsyncClient(verify=secure, limits=limits, timeout=None))
            for _ in range(-(-concurrency // _A_POOL))
        ]
        self._busy = [0] * len(self.clients)

    @contextmanager
    def one(self) -> Iterator[C]:
        """Return a context manager that yields the client for one request."""
        number = min(range(len(self._busy)), key=self._busy.__getitem__)
        self._busy[number] += 1
        try:
            yield self.clients[number]
        finally:
            self._busy[number] -= 1
