"""A scripted server with vLLM's HTTP interface that records its requests."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Self

from aiohttp import web
from safetensors import safe_open
from torch import Tensor

Speak = Callable[[Sequence[int]], Sequence[int]]


class FakeVLLM:
    """Serves from a thread.

    Args:
        speak: maps a conversation's tokens to the tokens that continue it.
        delay_s: delay in seconds before each answer.

    Attributes:
        calls: paths of the POST requests, in order, without completions.
        conversations: number of completions by the hash of a prompt's first tokens.
        version: version of the weights.
        weights: weights of the last update.
        status: HTTP status of completions.
        broken: a path that answers with status 500.
        answers: texts that are answered instead, by path.
        key: bearer token that all requests need; empty for none.
        tokenize: function of `/tokenize`; prompt log-probabilities are minus a token's id.
    """

    def __init__(self, speak: Speak, delay_s: float = 0.0) -> None:
        self.calls: list[str] = []
        self.conversations: Counter[int] = Counter()
        self.version = "default"
        self.weights: dict[str, Tensor] = {}
        self.status = 200
        self.broken = ""
        self.answers: dict[str, str] = {}
        self.key = ""
        self.tokenize: Callable[[str], Sequence[int]] = lambda text: []
        self._speak = speak
        self._delay_s = delay_s
        self._port = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._up.wait(10)
        return self

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._up.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        @web.middleware
        async def guarded(request: web.Request, handler: Any) -> web.StreamResponse:
            if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
                return web.Response(status=401)
            if request.path in self.answers:
                return web.Response(text=self.answers[request.path])
            answer: web.StreamResponse = await handler(request)
            return answer

        app = web.Application(middlewares=[guarded])
        app.router.add_get("/weight_info", self._weight_info)
        app.router.add_get("/get_world_size", self._world_size)
        app.router.add_post("/inference/v1/generate", self._generate)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/{path}", self._control)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self._port}"

    async def _weight_info(self, request: web.Request) -> web.Response:
        return web.json_response({"weight_version": self.version})

    async def _world_size(self, request: web.Request) -> web.Response:
        return web.json_response({"world_size": 1})

    async def _control(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        self.calls.append(path)
        if path == self.broken:
            return web.Response(status=500, text="it broke")
        body = await request.json() if request.can_read_body else {}
        if path == "update_weights":
            for name in body["update_info"].get("paths", ()):
                with safe_open(name, "pt") as file:
                    self.weights |= {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118
        if path == "finish_weight_update":
            self.version = body["weight_version"]
        return web.json_response({})

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "served"}]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["model"] == "served"
        return web.json_response({"tokens": list(self.tokenize(body["prompt"]))})

    async def _completions(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self.status != 200:
            status, self.status = self.status, 200
            return web.Response(status=status, text="not now")
        known = [{str(token): {"logprob": -float(token)}} for token in body["prompt"][1:]]
        return web.json_response({"choices": [{"prompt_logprobs": [None, *known]}]})

    async def _generate(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        version = self.version
        await asyncio.sleep(self._delay_s)
        if self.status != 200:
            return web.Response(status=self.status, text="prompt too long")
        self.conversations[hash(tuple(body["token_ids"][:3]))] += 1
        limit = body["sampling_params"]["max_tokens"]
        ids = list(self._speak(body["token_ids"]))[:limit]
        choice = {
            "token_ids": ids,
            "finish_reason": "stop",
            "logprobs": {"content": [{"logprob": -0.5}] * len(ids)},
            "weight_versions": [{"version": version, "start": 0, "end": len(ids)}],
        }
        return web.json_response({"choices": [choice]})
