"""The viewer's page as HTML: alone, to be served, or with the data in it, as one file.

It is made of the files in `page`; a policy in it lets no other script run. All that documents,
models and judges wrote is JSON, compressed, and the scripts put it into the page as text.
"""

import gzip
import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from resume_gym.replacing import replacing
from resume_gym.viewer.data import Results, UnreadableError

EXPORT_BYTES = 24 * 2**20
"""Of the episodes in an exported file, compressed; what is over is left out, by whole groups."""

_GENERATOR = b'<meta name="generator" content="resume-gym view">'
SCRIPTS = (
    "page.js",
    "charts.js",
    "figures.js",
    "overview.js",
    "table.js",
    "filters.js",
    "diff.js",
    "turns.js",
    "document.js",
    "grades.js",
    "tokens.js",
    "episode.js",
    "compare.js",
    "start.js",
)
"""Of the page, in the order in which they run."""


def page(data: str = "") -> str:
    """The page as HTML.

    Args:
        data: elements that hold its data; without them it asks the server that it came from.
    """
    parts = files("resume_gym.viewer").joinpath("page")
    style = parts.joinpath("page.css").read_text(encoding="utf-8")
    script = "\n".join(parts.joinpath(one).read_text(encoding="utf-8") for one in SCRIPTS)
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

    Token log-probabilities are left out, what cannot be read, and whole groups of episodes, drawn
    at random, once the others take `limit` bytes; the table still has their rows.

    Returns:
        How many episodes were left out.
    """
    chunks: list[str] = []
    chunk_of: dict[int, int] = {}
    groups = list(_groups(results))
    Random(0).shuffle(groups)  # what is kept is of all steps and all agents
    room = limit
    for group in groups:
        episodes: dict[int, Any] = {}
        for number in group:
            with suppress(UnreadableError):
                episodes[number] = results.episode(number)
        if not episodes:
            continue
        chunk = _pack(episodes)
        room -= len(chunk)
        if room < 0 and chunks:
            break
        chunk_of |= dict.fromkeys(episodes, len(chunks))
        chunks.append(chunk)
    left_out = len(results.rows) - len(chunk_of)
    index = results.index() | {"chunks": [chunk_of.get(n) for n in range(len(results.rows))]}
    packed = [("index", _pack(index)), *((f"chunk-{n}", one) for n, one in enumerate(chunks))]
    data = "\n".join(
        f'<script type="text/plain" id="{name}">{text}</script>' for name, text in packed
    )
    with replacing(file) as unfinished:
        unfinished.write_text(page(data), encoding="utf-8")
    return left_out


def is_exported(file: Path) -> bool:
    """Whether a file was written by `export`."""
    with file.open("rb") as opened:
        return _GENERATOR in opened.read(400)


def _groups(results: Results) -> Iterator[list[int]]:
    def group(number: int) -> str:
        return results.rows[number].group

    for _, numbers in groupby(sorted(range(len(results.rows)), key=group), key=group):
        yield list(numbers)


def _pack(value: Any) -> str:
    """A value as compressed JSON in letters and digits, in which no markup can stand."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return b64encode(gzip.compress(text, mtime=0)).decode()
