"""Client of vLLM servers' endpoints for weight updates."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from typing import Any

import requests

from learners.engines.api_key import headers

Json = Mapping[str, Any]


class Control:
    """Client of the servers' endpoints for weight updates; calls all servers concurrently.

    The class has the interface that vLLM's weight senders expect of their client.

    Args:
        urls: addresses of the servers.
        version: version of the weights after the update.
        timeout_s: timeout of a call in seconds.
        on_failure: called as soon as a call fails, while other calls may still be waiting.

    Attributes:
        failure: future whose exception is the error of the first call that fails.
    """

    def __init__(
        self,
        urls: Sequence[str],
        version: int,
        timeout_s: float,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self.urls = urls
        self.failure: Future[object] = Future()
        self._on_failure = on_failure
        self.offsets: Sequence[int] = ()
        self._version = version
        self._timeout_s = timeout_s

    def post(self, path: str, *bodies: Json) -> None:
        """Send a POST request to all servers, with no body, one shared body, or one body each."""
        each = bodies if len(bodies) > 1 else (bodies or ({},)) * len(self.urls)
        with ThreadPoolExecutor(len(self.urls)) as threads:
            list(threads.map(self._post, [f"{url}/{path}" for url in self.urls], each))

    def _post(self, url: str, body: Json) -> None:
        try:
            answer = requests.post(
                url, json=body or None, headers=headers(), timeout=self._timeout_s
            )
            if not answer.ok:
                raise requests.HTTPError(f"{url}: {answer.status_code} {answer.text[:500]}")
        except requests.RequestException as error:
            # fail now: the sender and the other servers would wait in NCCL for the failed server
            with contextlib.suppress(InvalidStateError):  # another call failed first
                self.failure.set_exception(error)
            self._on_failure()
            raise

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause sampling while the weights change; unfinished completions continue afterwards."""
        self.post("pause?mode=keep")
        yield  # not in `try`: after a failure, servers with half of the new weights must not resume
        self.post("resume")

    def init_weight_transfer_engine(self, init_info: dict[str, object]) -> None:
        """Let the servers join the sender's NCCL group, each with a separate range of ranks.

        Before that, the servers leave their previous NCCL group, to free the group's memory.
        """
        self.post("shutdown_weight_transfer_engine")
        infos = ({"init_info": {**init_info, "rank_offset": offset}} for offset in self.offsets)
        self.post("init_weight_transfer_engine", *infos)

    def start_weight_update(self) -> None:
        """Begin an update of the weights."""
        self.post("start_weight_update")

    def update_weights(self, update_info: dict[str, object] | list[dict[str, object]]) -> None:
        """Let the servers read or receive the weights."""
        self.post("update_weights", {"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """End the update, and tell the servers the version number of the new weights."""
        self.post("finish_weight_update", {"weight_version": str(self._version)})
