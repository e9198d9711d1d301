"""vLLM servers as an engine: token ids in and out, over HTTP.

Conversations go to the server with the fewest, and stay there, since it holds their prefix.
What a server has not answered when it dies is asked again, with the same tokens, of whichever
server is there. Weights go to all servers while these pause; what they are sampling goes on with
the new ones.

Requests carry no seed: what a server draws depends on what it happens to batch in any case, and
its build for CPUs dies of a seeded request whose prompt it computes in parts.
"""

import asyncio
import contextlib
import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import requests
import torch
from safetensors.torch import save
from torch import Tensor

from learners.engines import Completion, EngineError, RefusedError, Sampling, Weights

_UNTRAINED = "default"
"""What vLLM calls the weights that it read from the model's folder."""
_CHUNK_BYTES = 2**26
_RETRY_S, _COOL_S = 0.25, 5.0
_TRIED_S = 30.0
_HTTP_BAD_REQUEST, _HTTP_SERVER_ERROR = 400, 500


class VLLMEngine:
    """Samples from vLLM servers.

    Args:
        urls: of the servers; all serve the same model.
        model: its name.
        precision: in which they hold its weights.
        timeout_s: of one completion or one update, restarts of servers included.
        by_nccl: weights go from GPU to GPU; else through the memory of this machine.
        as_read: whether the weights that servers read from the model's folder will do, as version
            0; else none of them is asked before it was given others.
    """

    at_once = 4096
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
        self._home: dict[int, str] = {}
        self._busy: Counter[str] = Counter()
        self._failed: dict[str, float] = {}
        self._session: aiohttp.ClientSession | None = None
        self._held: list[int] = []
        self._nccl: Any = None

    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        """Continue a conversation by one completion; see `Engine`."""
        wanted = {
            "token_ids": list(ids),
            "sampling_params": {
                "temperature": sampling.temperature,
                "max_tokens": sampling.max_tokens,
                "stop_token_ids": [sampling.stop],
                "ignore_eos": True,  # what else the model's files call an end
                "logprobs": 0,
                "detokenize": False,
            },
        }
        told = "no server was asked"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_s):
                while True:
                    url = self._home_of(key)
                    try:
                        return _completion(await self._ask(url, wanted), self._as_read)
                    except (aiohttp.ClientError, OSError, _NotReadyError) as error:
                        told = f"{url}: {error or type(error).__name__}"
                    self._failed[url] = time.monotonic()
                    self.release(key)
                    await asyncio.sleep(_RETRY_S)
        raise EngineError(f"no completion within {self._timeout_s:.0f} s; {told}")

    async def _ask(self, url: str, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._session is None:
            limit = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                connector=limit, timeout=aiohttp.ClientTimeout(total=None)
            )
        async with self._session.post(f"{url}/inference/v1/generate", json=wanted) as answer:
            if _HTTP_BAD_REQUEST <= answer.status < _HTTP_SERVER_ERROR:
                raise RefusedError(f"{url} refuses: {(await answer.text())[:500]}")
            if answer.status >= _HTTP_SERVER_ERROR:
                raise _NotReadyError(f"status {answer.status}: {(await answer.text())[:500]}")
            return await answer.json()  # type: ignore[no-any-return]

    def _home_of(self, key: int) -> str:
        if key not in self._home:
            url = min(self.urls, key=self._reluctance)
            self._home[key] = url
            self._busy[url] += 1
        return self._home[key]

    def _reluctance(self, url: str) -> tuple[bool, int]:
        """Last of all one that failed a moment ago; else the fewer conversations the better."""
        failed = time.monotonic() - self._failed.get(url, -math.inf) < _COOL_S
        return failed, self._busy[url]

    def release(self, key: int) -> None:
        """Forget where a conversation is."""
        url = self._home.pop(key, None)
        if url is not None:
            self._busy[url] -= 1

    async def probe(self, ids: Sequence[int], sampling: Sampling) -> list[Completion]:
        """One completion from each server, in a loop of its own."""
        keys = range(-len(self.urls), 0)
        try:  # each conversation goes to the server that has none yet
            return await asyncio.gather(*(self.generate(key, ids, sampling) for key in keys))
        finally:
            for key in keys:
                self.release(key)
            await self.leave()

    def behind(self, version: int) -> list[str]:
        """The servers that do not sample with these weights, or do not answer."""
        return [url for url in self.urls if _version(url) != str(version)]

    def load_weights(self, version: int, source: Weights) -> None:
        """Bring all servers up to date, also those that are being restarted; see `Engine`."""
        deadline = time.monotonic() + self._timeout_s
        told = ""
        while behind := self.behind(version):
            if time.monotonic() > deadline:
                who = " and ".join(behind)
                raise EngineError(f"{who} did not take weights {version}{told}")
            try:
                self._send(behind, version, source)
            except requests.RequestException as error:
                told = f": {error}"
                time.sleep(_RETRY_S)

    def _send(self, behind: Sequence[str], version: int, source: Weights) -> None:
        if self._by_nccl:
            self._broadcast(version, source)
            return
        up = [url for url in behind if _version(url) is not None]
        if not up:
            raise requests.ConnectionError("no server answers")
        control = _Control(up, version, self._timeout_s)
        self._hold(source)
        paths = [f"/proc/{os.getpid()}/fd/{one}" for one in self._held]
        with control.paused():
            control.start_weight_update()
            control.update_weights({"paths": paths})
            control.finish_weight_update()

    def _converted(self, source: Weights) -> Iterator[tuple[str, Tensor]]:
        # asked for with the first tensor, not before: all trainer ranks take part from then on
        for name, one in source():
            yield name, one.to(self._dtype)

    def _broadcast(self, version: int, source: Weights) -> None:
        from learners.engines.nccl import NCCLSender

        versions = [_version(url) for url in self.urls]
        if None in versions:
            raise requests.ConnectionError("a server does not answer")
        control = _Control(self.urls, version, self._timeout_s)
        if self._nccl is None or _UNTRAINED in versions:  # a server is new: a group of its own
            if self._nccl is not None:
                self._nccl.close()
            self._nccl = NCCLSender(control, self._model, self._dtype)
        with control.paused():
            self._nccl.send(control, self._converted(source))

    def _hold(self, source: Weights) -> None:
        """Put the weights where the servers can read them, a part at a time.

        In files without a name, which are gone with this process, however it ends.
        """
        self._drop()
        for part in _parts(self._converted(source)):
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
        """Give the GPU's memory to somebody else."""
        _Control(self.urls, 0, self._timeout_s).post("sleep?level=1")

    def wake(self) -> None:
        """Take it back."""
        _Control(self.urls, 0, self._timeout_s).post("wake_up")

    async def leave(self) -> None:
        """Close what `generate` has opened, in the loop that it ran in."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def close(self) -> None:
        """Let go of the weights' memory."""
        self._drop()


class _NotReadyError(Exception):
    """A server that may answer later."""


class _Control:
    """The endpoints through which several servers take weights, all called at once.

    vLLM's own senders know it as a client.
    """

    def __init__(self, urls: Sequence[str], version: int, timeout_s: float) -> None:
        self.urls = urls
        self.offsets: Sequence[int] = ()
        self._version = version
        self._timeout_s = timeout_s

    def post(self, path: str, *bodies: Mapping[str, Any]) -> None:
        """Post to all servers: nothing, the same, or to each its own."""
        each = bodies if len(bodies) > 1 else (bodies or ({},)) * len(self.urls)
        with ThreadPoolExecutor(len(self.urls)) as threads:
            list(threads.map(self._post, [f"{url}/{path}" for url in self.urls], each))

    def _post(self, url: str, body: Mapping[str, Any]) -> None:
        answer = requests.post(url, json=body or None, timeout=self._timeout_s)
        if not answer.ok:
            raise requests.HTTPError(f"{url}: {answer.status_code} {answer.text[:500]}")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """While the weights change, nothing is sampled; what was begun goes on afterwards."""
        self.post("pause?mode=keep")
        yield  # after a failure the servers stay as they are: half updated, they must not sample
        self.post("resume")

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Let the servers join the sender, each server's workers with ranks of their own."""
        infos = ({"init_info": {**init_info, "rank_offset": one}} for one in self.offsets)
        self.post("init_weight_transfer_engine", *infos)

    def start_weight_update(self) -> None:
        """Before the first weights."""
        self.post("start_weight_update")

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Tell what comes."""
        self.post("update_weights", {"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """After the last weights."""
        self.post("finish_weight_update", {"weight_version": str(self._version)})


def _version(url: str) -> str | None:
    """What a server calls its weights; None if it does not answer."""
    try:
        answer = requests.get(f"{url}/weight_info", timeout=_TRIED_S)
        return str(answer.json()["weight_version"]) if answer.ok else None
    except requests.RequestException:
        return None


def _completion(answer: Mapping[str, Any], as_read: bool) -> Completion:
    (choice,) = answer["choices"]
    ids = choice["token_ids"]
    spans = choice["weight_versions"] or []
    if as_read:
        spans = [
            {**span, "version": 0} if span["version"] == _UNTRAINED else span for span in spans
        ]
    if choice["finish_reason"] not in ("stop", "length") or not ids:
        raise _NotReadyError(f"it ended with {choice['finish_reason']!r}")
    if any(span["version"] == _UNTRAINED for span in spans):
        raise _NotReadyError("it has not been given its weights yet")
    versions = [int(one["version"]) for one in spans for _ in range(one["start"], one["end"])]
    logprobs = [one["logprob"] for one in choice["logprobs"]["content"]]
    if not len(ids) == len(logprobs) == len(versions):
        counts = f"{len(ids)} tokens, {len(logprobs)} log-probabilities, {len(versions)} versions"
        raise EngineError(f"expected one of each, got {counts}")
    return Completion(ids, logprobs, versions)


def _parts(named: Iterable[tuple[str, Tensor]]) -> Iterator[dict[str, Tensor]]:
    """Tensors in dictionaries of about `_CHUNK_BYTES`."""
    part: dict[str, Tensor] = {}
    for name, one in named:
        part[name] = one.to("cpu").contiguous()
        if sum(value.nbytes for value in part.values()) >= _CHUNK_BYTES:
            yield part
            part = {}
    if part:
        yield part
