"""Scripted servers on 127.0.0.1 with the HTTP interfaces of Gemini and OpenAI.

    with gemini_server(lambda body: {"colour": "red"}) as server:
        client = make_client("gemini", base_url=server.url)

    with openai_server() as server:
        server.script += [Say(status=503), Say('{"colour": "red"}')]

The replies of `script` come first, then `reply` of each request.
"""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Reply = Callable[[dict[str, Any]], Mapping[str, Any] | str]
"""Maps a request's JSON to an answer: an object, which is sent as JSON, or a text."""


@dataclass(frozen=True)
class Say:
    """One reply of a script.

    Attributes:
        text: the model's answer.
        finish: reason of the end: "stop", "length", or "safety", which has no text.
        thought: reported tokens of thinking, of 25; None if they are not reported.
        model: reported model version; None for the requested model.
        empty: whether there is no candidate.
        blocked: the prompt is blocked (Gemini), or the model refuses (OpenAI).
        status: HTTP status.
        headers: additional headers.
        body: a body in place of the usual JSON.
        how: "whole"; "drop" ends the connection half-way; "cut" before the first byte; "drip"
            sends a byte now and then, "silence" nothing, until the client gives up.
    """

    text: str = "{}"
    finish: str = "stop"
    thought: int | None = 5
    model: str | None = None
    empty: bool = False
    blocked: bool = False
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    how: str = "whole"


class Loopback:
    """A server in a thread.

    Attributes:
        url: the `base_url` for a client.
        requests: the JSON of each request, in order.
        paths: paths of the same requests.
        script: the next replies.
        most: largest number of concurrent requests.
    """

    def __init__(self, wire: str, reply: Reply | None, delay_s: float) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.script: deque[Say] = deque()
        self.most = 0
        self.bug: BaseException | None = None
        self._open = 0
        self._wire = {"gemini": _gemini, "openai": _openai}[wire]
        self._suffix = {"gemini": "", "openai": "/v1"}[wire]
        self._reply = reply
        self._delay_s = delay_s
        self._up = threading.Event()

    def run(self) -> None:
        """Serve until `stop`."""
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start())
        self._up.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _start(self) -> None:
        self._stop = asyncio.Event()
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}{self._suffix}"

    def wait(self) -> None:
        """Wait until the server listens."""
        assert self._up.wait(10), "the server did not start"

    def stop(self) -> None:
        """Release waiting requests and the port."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        path = request.match_info["path"]
        self.requests.append(body)
        self.paths.append("/" + path)
        self._open += 1
        self.most = max(self.most, self._open)
        try:
            await asyncio.sleep(self._delay_s)
            return await self._say(request, body, path)
        finally:
            self._open -= 1

    async def _say(
        self, request: web.Request, body: dict[str, Any], path: str
    ) -> web.StreamResponse:
        say = self.script.popleft() if self.script else self._made(body)
        if say.how == "whole":
            return self._whole(say, path, body)
        if say.how == "silence":
            await self._stop.wait()
        if say.how in ("drop", "drip"):
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b'{"')
            while say.how == "drip" and not self._stop.is_set() and request.transport:
                await response.write(b" ")
                await asyncio.sleep(0.05)
        if request.transport:
            request.transport.abort()
        return web.Response()

    def _made(self, body: dict[str, Any]) -> Say:
        if self._reply is None:
            return Say()
        try:
            said = self._reply(body)
        except BaseException as bug:
            self.bug = bug
            raise
        return Say(said if isinstance(said, str) else json.dumps(said))

    def _whole(self, say: Say, path: str, body: dict[str, Any]) -> web.Response:
        text = say.body
        if text is None:
            error = {"code": say.status, "message": "told to", "status": "TOLD_TO", "type": "told"}
            told = {"error": error} if say.status != 200 else self._wire(say, path, body)
            text = json.dumps(told)
        headers = {"Content-Type": "application/json", **say.headers}
        return web.Response(status=say.status, text=text, headers=headers)


def user_text(body: Mapping[str, Any]) -> str:
    """The user message of a request."""
    if "messages" in body:
        return str(next(one["content"] for one in body["messages"] if one["role"] == "user"))
    return "".join(part["text"] for part in body["contents"][-1]["parts"])


def system_text(body: Mapping[str, Any]) -> str:
    """The system message of a request."""
    if "messages" in body:
        return str(next(one["content"] for one in body["messages"] if one["role"] == "system"))
    return "".join(part["text"] for part in body["systemInstruction"]["parts"])


def _gemini(say: Say, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reason = {"stop": "STOP", "length": "MAX_TOKENS", "safety": "SAFETY"}[say.finish]
    candidate: dict[str, Any] = {"index": 0, "finishReason": reason}
    if say.finish != "safety":
        candidate["content"] = {"role": "model", "parts": [{"text": say.text}]}
    counts = {"promptTokenCount": 100, "candidatesTokenCount": 25 - (say.thought or 0)}
    counts |= {} if say.thought is None else {"thoughtsTokenCount": say.thought}
    told: dict[str, Any] = {
        "candidates": [candidate],
        "usageMetadata": {**counts, "totalTokenCount": 125},
        "modelVersion": say.model or path.rpartition("/")[2].partition(":")[0],
        "responseId": "one",
    }
    if say.empty or say.blocked:
        del told["candidates"]
    if say.blocked:
        told["promptFeedback"] = {"blockReason": "PROHIBITED_CONTENT"}
    return told


def _openai(say: Say, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reason = {"safety": "content_filter"}.get(say.finish, say.finish)
    message: dict[str, Any] = {"role": "assistant", "content": say.text, "refusal": None}
    if say.finish == "safety":
        message["content"] = None
    if say.blocked:
        message |= {"content": None, "refusal": "I cannot help with that."}
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    thought = {"completion_tokens_details": {"reasoning_tokens": say.thought}}
    details = {} if say.thought is None else thought
    return {
        "id": "chatcmpl-one",
        "object": "chat.completion",
        "created": 1,
        "model": say.model or body["model"],
        "choices": [] if say.empty else [choice],
        "usage": {"prompt_tokens": 100, "completion_tokens": 25, "total_tokens": 125, **details},
    }


@contextmanager
def _serving(wire: str, reply: Reply | None, delay_s: float) -> Iterator[Loopback]:
    server = Loopback(wire, reply, delay_s)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    server.wait()
    try:
        yield server
    finally:
        server.stop()
        thread.join(10)
    if server.bug:
        raise server.bug


@contextmanager
def gemini_server(reply: Reply | None = None, delay_s: float = 0.0) -> Iterator[Loopback]:
    """A server with the interface of Gemini."""
    with _serving("gemini", reply, delay_s) as server:
        yield server


@contextmanager
def openai_server(reply: Reply | None = None, delay_s: float = 0.0) -> Iterator[Loopback]:
    """A server with the interface of OpenAI and vLLM."""
    with _serving("openai", reply, delay_s) as server:
        yield server
