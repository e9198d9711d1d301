"""API key of vLLM servers: only a run can use the servers that it has started."""

import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

KEY = "VLLM_API_KEY"
"""Environment variable that holds the API key of the servers; vLLM reads the same variable."""

_Message = MutableMapping[str, Any]
_Call = Callable[..., Awaitable[object]]


def make_key() -> str:
    """Return the servers' API key from the environment; create the key if there is none."""
    os.environ[KEY] = os.environ.get(KEY) or secrets.token_urlsafe()
    return os.environ[KEY]


def headers() -> Mapping[str, str]:
    """Return the HTTP headers with the API key for requests to servers; empty without a key."""
    key = os.environ.get(KEY)
    return {"Authorization": f"Bearer {key}"} if key else {}


class KeyRequired:
    """ASGI middleware that requires the API key as a bearer token on all routes except /health.

    vLLM's own check of the key covers completions, but not the routes that pause a server, load
    weights from any path, or call any method of a server's workers.
    """

    def __init__(self, app: _Call) -> None:
        self._app = app
        self._expected = f"Bearer {os.environ[KEY]}".encode()

    async def __call__(self, scope: _Message, receive: _Call, send: _Call) -> None:
        """Pass on an allowed request; answer others with status 401, or close their websocket."""
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        known = secrets.compare_digest(given, self._expected)
        if known or scope["type"] == "lifespan" or scope["path"] == "/health":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # ASGI servers then answer with status 403
        else:
            empty = [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": empty})
            await send({"type": "http.response.body"})
