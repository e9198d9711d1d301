"""Connections, shared out among several clients of an SDK.

What the SDKs' connection pool does for one request grows with the connections that it has open:
with 256 in one pool it takes more CPU time than all else. No pool here has more than 16.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import httpx2

C = TypeVar("C")
_A_POOL = 16


class Pools(Generic[C]):
    """Several clients of an SDK; each request goes to the one with the fewest on their way.

    Args:
        make: the client that uses these connections.
        concurrency: how many requests may be on their way at once.

    Attributes:
        clients: all of them.
    """

    def __init__(self, make: Callable[[httpx2.AsyncClient], C], concurrency: int) -> None:
        secure = httpx2.create_ssl_context()
        # One more than it needs: a request may begin before the one that it follows has let go
        limits = httpx2.Limits(max_connections=_A_POOL + 1, max_keepalive_connections=_A_POOL + 1)
        self.clients = [
            make(httpx2.AsyncClient(verify=secure, limits=limits, timeout=None))
            for _ in range(-(-concurrency // _A_POOL))
        ]
        self._busy = [0] * len(self.clients)

    @contextmanager
    def one(self) -> Iterator[C]:
        """A client for one request."""
        number = min(range(len(self._busy)), key=self._busy.__getitem__)
        self._busy[number] += 1
        try:
            yield self.clients[number]
        finally:
            self._busy[number] -= 1
