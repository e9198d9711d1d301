"""`resume-gym view`: a page on a run or an evaluation, served on this machine or as one file.

The page is made of the files in `page`; a policy in it lets no other
script run. All that documents, models and judges wrote reaches it as JSON and is put into it as
text. Served, it asks for one episode at a time; exported, it holds them compressed.
"""

import argparse
import gzip
import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from resume_gym.arguments import add_parser, check_new_file
from resume_gym.tasks import TaskError
from resume_gym.viewer.data import Results

PORT = 8655
EXPORT_BYTES = 24 * 2**20
"""Of the episodes in an exported file, compressed; what is over is left out, by whole groups."""

_SCRIPTS = ("page.js", "charts.js", "table.js", "episode.js")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def page(data: str = "") -> str:
    """The page as HTML.

    Args:
        data: elements that hold its data; without them it asks the server that it came from.
    """
    parts = files("resume_gym.viewer").joinpath("page")
    style = parts.joinpath("page.css").read_text(encoding="utf-8")
    script = "\n".join(parts.joinpath(one).read_text(encoding="utf-8") for one in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        f"img-src data:; connect-src {chr(39) + ('none' if data else 'self') + chr(39)}; "
        "base-uri 'none'; form-action 'none'"
    )
    values = {"policy": policy, "style": style, "data": data, "script": script}
    frame = parts.joinpath("page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda hole: values[hole[1]], frame)


def _digest(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


def export(results: Results, file: Path, limit: int = EXPORT_BYTES) -> int:
    """Write one file that needs no network and no server.

    Token log-probabilities are left out, and whole groups of episodes, drawn at random, once the
    others take `limit` bytes; the table still has their rows.

    Returns:
        How many episodes were left out.
    """
    chunks: list[str] = []
    chunk_of: dict[int, int] = {}
    groups = list(_groups(results))
    Random(0).shuffle(groups)  # what is kept is of all steps and all agents
    room = limit
    for group in groups:
        chunk = _pack({number: results.episode(number) for number in group})
        room -= len(chunk)
        if room < 0 and chunks:
            break
        chunk_of |= dict.fromkeys(group, len(chunks))
        chunks.append(chunk)
    left_out = len(results.rows) - len(chunk_of)
    index = results.index() | {"chunks": [chunk_of.get(n) for n in range(len(results.rows))]}
    packed = [("index", _pack(index)), *((f"chunk-{n}", one) for n, one in enumerate(chunks))]
    data = "\n".join(
        f'<script type="text/plain" id="{name}">{text}</script>' for name, text in packed
    )
    unfinished = file.with_name(f".unfinished-{file.name}")
    unfinished.write_text(page(data), encoding="utf-8")
    unfinished.replace(file)
    return left_out


def _groups(results: Results) -> Iterator[list[int]]:
    def group(number: int) -> str:
        return results.rows[number].group

    for _, numbers in groupby(sorted(range(len(results.rows)), key=group), key=group):
        yield list(numbers)


def _pack(value: Any) -> str:
    """A value as compressed JSON in letters and digits, in which no markup can stand."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return b64encode(gzip.compress(text, mtime=0)).decode()


class Handler(BaseHTTPRequestHandler):
    """Answers a browser on this machine, and nobody else."""

    results: Results
    protocol_version = "HTTP/1.1"
    server_version = "resume-gym"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer the page, the index, an episode or its tokens."""
        host = re.sub(r":\d+$", "", self.headers.get("Host", ""))
        if host not in _LOOPBACK:
            # a name that somebody else has pointed at this machine would read all that it shows
            return self._answer(403, "text/plain", b"expected a request to this machine's own name")
        try:
            kind, body = self._body(self.path.partition("?")[0])
        except LookupError:
            return self._answer(404, "text/plain", b"there is no such page")
        except (OSError, ValueError, TypeError, AttributeError) as problem:
            return self._answer(500, "text/plain", f"it cannot be read: {problem}".encode())
        return self._answer(200, kind, body)

    def _body(self, path: str) -> tuple[str, bytes]:
        if path == "/":
            return "text/html", _served().encode()
        if path == "/index.json":
            self.results.refresh()
            value: Any = self.results.index()
        elif wanted := re.fullmatch(r"/(episode|tokens)/(\d{1,9})\.json", path):
            of_kind = self.results.episode if wanted[1] == "episode" else self.results.tokens
            value = of_kind(int(wanted[2]))
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

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: the terminal shows where the page is."""


_served = lru_cache(maxsize=1)(page)


def serve(results: Results, port: int = PORT) -> ThreadingHTTPServer:
    """A server on the loopback address; `serve_forever` answers.

    Args:
        results: what it shows.
        port: 0 for any that is free.

    Raises:
        OSError: the port is taken.
    """
    handler = type("Handler", (Handler,), {"results": results})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    return server


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `view`."""
    command = add_parser(
        commands,
        "view",
        "look at a run or an evaluation in a browser",
        "Look at a run or an evaluation in a browser: curves, a table of the episodes, and each "
        "of them turn by turn. Ctrl-C stops the server, with status 0.",
        ["view runs/nano", "view result --export result.html"],
    )
    add = command.add_argument
    add("folder", type=Path, metavar="RUN_OR_RESULT", help="a run's folder, or an evaluation's")
    add(
        "--port",
        type=_port,
        default=PORT,
        metavar="N",
        help="where to serve it, on this machine only; 0: any that is free (default: %(default)s)",
    )
    add(
        "--export",
        type=Path,
        metavar="FILE.html",
        help="write one file that needs no server, instead of serving; without tokens",
    )
    command.set_defaults(run=_run)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def _run(options: argparse.Namespace) -> None:
    target: Path | None = options.export
    check_new_file("--export", target)
    results = _open(options.folder)
    if target:
        left_out = export(results, target)
        size = target.stat().st_size / 2**20
        told = f"; {left_out} of them only as rows of the table" if left_out else ""
        print(f"{target}: {len(results.rows)} episodes{told}, {size:.1f} MB, without tokens")
        return
    try:
        server = serve(results, options.port)
    except OSError as problem:
        hint = "choose another with --port, or 0 for any"
        raise TaskError(
            f"--port: {options.port} cannot be had ({problem.strerror}); {hint}"
        ) from None
    with server, suppress(KeyboardInterrupt):
        print(f"{len(results.rows)} episodes of {results.path}", flush=True)
        print(f"http://127.0.0.1:{server.server_port}/  (Ctrl-C to stop)", flush=True)
        server.serve_forever()


def _open(folder: Path) -> Results:
    """Read a folder, with a progress bar on the terminal."""
    from rich.console import Console
    from rich.progress import Progress

    results = Results(folder)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("reading episodes", total=len(results.files()))
        results.refresh(lambda file: progress.advance(task))
    return results
