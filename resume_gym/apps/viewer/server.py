"""HTTP server of the viewer's page and its data, for browsers on this machine."""

import json
import re
import sys
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote

from resume_gym.apps.viewer.data import FolderContents, sendable, unreadable
from resume_gym.apps.viewer.html import page
from resume_gym.apps.viewer.listing import Listing
from resume_gym.apps.viewer.played import played_tasks
from resume_gym.apps.viewer.search import search

PORT = 8655

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_OTHERS = ("cross-site", "same-site")


class Handler(BaseHTTPRequestHandler):
    """HTTP request handler; accepts only requests that name the local machine as their host."""

    shown: FolderContents | Listing
    protocol_version = "HTTP/1.1"
    server_version = "resume-gym"
    sys_version = ""

    def do_GET(self) -> None:
        """Serve the page or, as JSON, the data that the page requests."""
        host = re.sub(r":\d+$", "", self.headers.get("Host", ""))
        if host not in _LOOPBACK:
            # against DNS rebinding: a web site could resolve its name to this machine to read data
            return self._answer(403, "text/plain", b"expected localhost as host name")
        path, _, query = self.path.partition("?")
        if path.endswith(".json") and self.headers.get("Sec-Fetch-Site") in _OTHERS:
            # refuse requests from other web sites, which could infer data sizes from response times
            return self._answer(403, "text/plain", b"expected a request from the viewer's page")
        try:
            kind, body = self._body(path, query)
        except LookupError:
            return self._answer(404, "text/plain", b"no such page")
        except (OSError, ValueError, RecursionError) as problem:
            return self._answer(500, "text/plain", f"the data cannot be read: {problem}".encode())
        return self._answer(200, kind, body)

    def _body(self, path: str, query: str) -> tuple[str, bytes]:
        shown, named = self.shown, {}
        if isinstance(shown, Listing):
            name, slash, inside = path[1:].partition("/")
            if slash:  # the page of a run has the path /NAME/
                name = unquote(name, errors="surrogateescape")
                shown, path, named = shown.open(name), f"/{inside}", {"name": name}
        value: Any
        if path == "/":
            return "text/html", _cached_page().encode()
        if path == "/version.json":
            value = shown.version()
        elif path == "/index.json":
            version = shown.version()  # read before the data, so that no later write is missed
            common = {"version": version, "listed": shown is not self.shown} | named
            if isinstance(shown, FolderContents):
                shown.refresh()
                seen = shown.seen  # read before the rows, so that no later row is missed
                value = {**shown.index(query.removeprefix("seen=")), "seen": seen, **common}
            else:
                value = {**shown.index(), **common}
        elif isinstance(shown, Listing):
            raise LookupError(path)
        elif path == "/figures.json":
            facts = {"name": shown.path.name, "kind": shown.kind, "played": played_tasks(shown)}
            with unreadable():
                value = sendable({**facts, **shown.figures()} | named)
        elif path == "/search.json":
            asked = {name: values[0] for name, values in parse_qs(query).items()}
            start = re.fullmatch(r"\d{1,9}", asked.get("start", "0"))
            value = search(shown, asked.get("text", ""), int(start[0]) if start else 0)
        elif match := re.fullmatch(r"/(episode|record)/(\d{1,9})\.json", path):
            value = getattr(shown, match[1])(int(match[2]))
        else:
            raise LookupError(path)
        return "application/json", json.dumps(value, allow_nan=False).encode()

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing, so that the page's address stays visible in the terminal."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: object) -> None:
        # do not report connections that the browser has closed
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


_cached_page = lru_cache(maxsize=1)(page)


def serve(shown: FolderContents | Listing, port: int = PORT) -> ThreadingHTTPServer:
    """Create a server on the loopback address; its method `serve_forever` runs it.

    Args:
        shown: folder, or list of runs and evaluations, to serve.
        port: TCP port; 0 for any free port.

    Raises:
        OSError: the port is in use.
    """
    # http.server instantiates the class of the handler, so `shown` is a class attribute
    handler = type("Handler", (Handler,), {"shown": shown})
    return _Server(("127.0.0.1", port), handler)
