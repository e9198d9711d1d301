"""Engine that samples from vLLM servers over HTTP, with token ids as input and output.

A conversation is assigned to the server with the fewest conversations, and stays there to reuse the
server's prefix cache. If a server fails, its requests are repeated, with the same tokens, on a live
server. Servers pause during a weight update; unfinished completions continue with the new weights.

Requests have no seed: samples depend on a server's batches anyway, and vLLM's CPU build crashes on
a seeded request with chunked prefill.
"""

import asyncio
import contextlib
import math
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import requests
import torch
from safetensors.torch import save
from torch import Tensor

from learners.engines import Completion, EngineError, RefusedError, Sampling, Weights
from learners.engines.api_key import KEY, headers
from learners.engines.control import Control
from learners.engines.server import own_address

if TYPE_CHECKING:
    from learners.engines.nccl import NCCLSender

_UNTRAINED = "default"
"""Version that vLLM assigns to the weights from the model's folder."""
_CHUNK_BYTES = 2**26
# seconds before a retry, and seconds for which a failed server is avoided
_RETRY_S, _COOL_S = 0.25, 5.0
_TRIED_S, _REACHED_S = 30.0, 5.0  # timeouts in seconds of a version query, and of a connection
_HTTP_BAD_REQUEST, _HTTP_UNAUTHORIZED, _HTTP_SERVER_ERROR = 400, 401, 500


class VLLMEngine:
    """Engine that samples from vLLM servers.

    Args:
        urls: addresses of the servers, which all serve the same model.
        model: name of the model.
        precision: dtype of the servers' weights.
        timeout_s: timeout in seconds of a completion or weight update, server restarts included.
        by_nccl: send weights from GPU to GPU; if False, through the memory of this machine.
        as_read: accept the weights that servers read from the model's folder, as version 0; if
            False, a server is used only after a weight update.
    """

    max_concurrency = 4096
    repeatable = False

    def __init__(
        self,
        urls: Sequence[str],
        model: str,
        precision: str,
        timeout_s: float,
        by_nccl: bool = False,
        as_read: bool = False,
    ) -> None:
        self.urls = tuple(urls)
        self._as_read = as_read
        self._by_nccl = by_nccl
        self._model = model
        self._dtype = getattr(torch, precision)
        self._timeout_s = timeout_s
        self._assigned: dict[int, str] = {}
        self._conversations: Counter[str] = Counter()
        self._failures: dict[str, float] = {}
        self._session: aiohttp.ClientSession | None = None
        self._held: list[int] = []
        self._nccl: NCCLSender | None = None

    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        """Continue a conversation by one completion; see `Engine`."""
        request = {
            "token_ids": list(ids),
            "sampling_params": {
                "temperature": sampling.temperature,
                "max_tokens": sampling.max_tokens,
                "stop_token_ids": sorted(sampling.stops),
                "ignore_eos": True,  # only `stop_token_ids` are end tokens
                "logprobs": 0,
                "detokenize": False,
            },
        }
        problem = "no server was asked"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_s):
                while True:
                    url = self._server_of(key)
                    try:
                        return _completion(await self._ask(url, request), self._as_read)
                    except (aiohttp.ClientError, OSError, _NotReadyError) as error:
                        problem = f"{url}: {error or type(error).__name__}"
                    self._failures[url] = time.monotonic()
                    self.release(key)
                    await asyncio.sleep(_RETRY_S)
        raise EngineError(f"no completion within {self._timeout_s:.0f} s; {problem}")

    async def _ask(self, url: str, request: Mapping[str, object]) -> Mapping[str, Any]:
        # open the session only now, since it belongs to the event loop that opens it
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
                headers=headers(),
            )
        async with self._session.post(f"{url}/inference/v1/generate", json=request) as answer:
            _check_key(url, answer.status)
            if _HTTP_BAD_REQUEST <= answer.status < _HTTP_SERVER_ERROR:
                raise RefusedError(f"{url} rejected the request: {(await answer.text())[:500]}")
            if answer.status >= _HTTP_SERVER_ERROR:
                raise _NotReadyError(f"status {answer.status}: {(await answer.text())[:500]}")
            return await answer.json()  # type: ignore[no-any-return]

    def _server_of(self, key: int) -> str:
        if key not in self._assigned:
            url = min(self.urls, key=self._load)
            self._assigned[key] = url
            self._conversations[url] += 1
        return self._assigned[key]

    def _load(self, url: str) -> tuple[bool, int]:
        """Return a sort key: recently failed servers last, servers with few conversations first."""
        failed = time.monotonic() - self._failures.get(url, -math.inf) < _COOL_S
        return failed, self._conversations[url]

    def release(self, key: int) -> None:
        """Remove a conversation's assignment to a server."""
        url = self._assigned.pop(key, None)
        if url is not None:
            self._conversations[url] -= 1

    async def probe(self, ids: Sequence[int], sampling: Sampling) -> list[Completion]:
        """Return one completion from each server, and close the HTTP session of this event loop."""
        keys = range(-len(self.urls), 0)
        try:  # each key is assigned to the least busy server, so each server gets one key
            return await asyncio.gather(*(self.generate(key, ids, sampling) for key in keys))
        finally:
            for key in keys:
                self.release(key)
            await self.leave()

    def behind(self, version: int) -> list[str]:
        """Return the URLs of servers that have weights of another version or do not answer."""
        return [url for url in self.urls if _version(url) != str(version)]

    def load_weights(self, version: int, source: Weights) -> None:
        """Update all servers, and wait for those that are being restarted; see `Engine`."""
        deadline = time.monotonic() + self._timeout_s
        reason, tried = "", False
        while behind := self.behind(version):
            # try at least one update: reading the versions alone can take longer than the timeout
            if tried and time.monotonic() > deadline:
                urls = " and ".join(behind)
                raise EngineError(f"{urls} did not load the weights of step {version}{reason}")
            tried = True
            try:
                self._send(behind, version, source)
            except requests.RequestException as error:
                reason = f": {error}"
                self._abandon(behind)
                time.sleep(_RETRY_S)
            except (OSError, RuntimeError) as error:  # an error of this process, which would recur
                raise EngineError(f"step {version}: weights could not be sent: {error}") from error

    def _abandon(self, urls: Sequence[str]) -> None:
        """End any weight update that a failure has left open, by sending an invalid update.

        Servers cannot begin an update while another update is open.
        """
        with contextlib.suppress(requests.RequestException):
            Control(urls, 0, _TRIED_S).update_weights({})

    def _send(self, behind: Sequence[str], version: int, source: Weights) -> None:
        if self._by_nccl:
            self._broadcast(version, source)
            return
        up = [url for url in behind if _version(url) is not None]
        if not up:
            raise requests.ConnectionError("no server answers")
        control = Control(up, version, self._timeout_s)
        self._hold(source)
        paths = [f"/proc/{os.getpid()}/fd/{file}" for file in self._held]
        with control.paused():
            control.start_weight_update()
            control.update_weights({"paths": paths})
            control.finish_weight_update()

    def _converted(self, source: Weights) -> Generator[tuple[str, Tensor]]:
        """Yield the weights in the servers' dtype; gather the rest when the generator is closed.

        All ranks gather each tensor together. After a failed transfer, this method gathers and
        discards the remaining tensors, since the other ranks would otherwise wait for this rank.
        """
        # called only when the first tensor is needed, since `source` starts a collective
        weights = iter(source())
        try:
            for name, tensor in weights:
                yield name, tensor.to(self._dtype)
        finally:
            deque(weights, maxlen=0)

    def _broadcast(self, version: int, source: Weights) -> None:
        from learners.engines.nccl import NCCLSender

        versions = [_version(url) for url in self.urls]
        if None in versions:
            raise requests.ConnectionError("a server does not answer")
        control = Control(self.urls, version, self._timeout_s, self._leave_group)
        # a restarted server is not in the NCCL group, so all servers must form a new group
        if _UNTRAINED in versions:
            self._leave_group()
        if self._nccl is None:
            self._nccl = NCCLSender(control, self._model, self._dtype, own_address(self.urls))
        with control.paused(), contextlib.closing(self._converted(source)) as weights:
            try:
                self._nccl.send(control, weights)
            except BaseException:
                self._leave_group()  # a group with an unfinished collective cannot be used again
                raise

    def _leave_group(self) -> None:
        """Leave the NCCL group; any thread may call this. A transfer in progress fails."""
        sender, self._nccl = self._nccl, None
        if sender is not None:
            sender.close()

    def _hold(self, source: Weights) -> None:
        """Write the weights to anonymous files in memory, which servers read through /proc.

        The kernel frees the files when this process exits, even after a crash.
        """
        self._drop()
        with contextlib.closing(self._converted(source)) as weights:
            for part in _parts(weights):
                file = os.memfd_create("weights")
                self._held.append(file)
                data = memoryview(save(part))
                while data:
                    data = data[os.write(file, data) :]

    def _drop(self) -> None:
        for file in self._held:
            os.close(file)
        self._held.clear()

    def sleep(self) -> None:
        """Free the servers' GPU memory for the trainer; see `Engine`."""
        self._insist("sleep?level=1")

    def wake(self) -> None:
        """Allocate the servers' GPU memory again; see `Engine`."""
        self._insist("wake_up")

    def _insist(self, path: str) -> None:
        """Retry a POST request to all servers until it succeeds; `path` must be idempotent."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                Control(self.urls, 0, self._timeout_s).post(path)
                return
            except requests.RequestException as error:
                if time.monotonic() > deadline:
                    raise EngineError(f"{path}: {error}") from error
            time.sleep(_RETRY_S)

    async def leave(self) -> None:
        """Close the HTTP session; call this in the event loop in which `generate` has run."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def close(self) -> None:
        """Free the memory that holds the weights, and leave the NCCL group."""
        self._drop()
        self._leave_group()


class _NotReadyError(Exception):
    """A server did not complete a request, but may do so later."""


def unreachable(urls: Iterable[str]) -> list[str]:
    """Return the URLs of servers that refuse a connection; slow servers are not included."""
    refused = []
    for url in urls:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((parts.hostname or "?", port), _REACHED_S).close()
        except ConnectionRefusedError:
            refused.append(url)
        except OSError:
            continue  # a timeout or an unknown name, which may be temporary
    return refused


def _version(url: str) -> str | None:
    """Return the version of a server's weights, or None if the request fails."""
    try:
        answer = requests.get(f"{url}/weight_info", headers=headers(), timeout=_TRIED_S)
        _check_key(url, answer.status_code)
        return str(answer.json()["weight_version"]) if answer.ok else None
    except requests.RequestException:
        return None


def _check_key(url: str, status: int) -> None:
    if status == _HTTP_UNAUTHORIZED:
        raise EngineError(f"{url}: expected the server's API key in the variable {KEY}")


def _completion(answer: Mapping[str, Any], as_read: bool) -> Completion:
    (choice,) = answer["choices"]
    ids = choice["token_ids"]
    if choice["finish_reason"] not in ("stop", "length") or not ids:
        raise _NotReadyError(f"the completion ended with {choice['finish_reason']!r}")
    versions: list[int] = []
    # a completion that a weight update paused has one span of tokens for each weight version
    for span in choice["weight_versions"] or ():
        if span["version"] == _UNTRAINED and not as_read:
            raise _NotReadyError("it has not loaded the run's weights yet")
        version = 0 if span["version"] == _UNTRAINED else int(span["version"])
        versions += [version] * (span["end"] - span["start"])
    logprobs = [token["logprob"] for token in choice["logprobs"]["content"]]
    if not len(ids) == len(logprobs) == len(versions):
        counts = f"{len(ids)} tokens, {len(logprobs)} log-probabilities, {len(versions)} versions"
        raise EngineError(f"expected equal numbers, got {counts}")
    return Completion(ids, logprobs, versions)


def _parts(named: Iterable[tuple[str, Tensor]]) -> Iterator[dict[str, Tensor]]:
    """Group tensors into dictionaries of about `_CHUNK_BYTES` bytes."""
    part: dict[str, Tensor] = {}
    for name, tensor in named:
        part[name] = tensor.to("cpu").contiguous()
        if sum(tensor.nbytes for tensor in part.values()) >= _CHUNK_BYTES:
            yield part
            part = {}
    if part:
        yield part
