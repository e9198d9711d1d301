"""HTML page of the viewer, to be served, or to be exported as one file with embedded data.

The page consists of the files in `page/`; its content security policy blocks all other scripts.
Text from documents, models and judges is embedded as compressed JSON, and the scripts insert it as
plain text.
"""

import gzip
import hashlib
import json
import re
from base64 import b64encode
from collections import defaultdict
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

from resume_gym.apps.viewer.data import FolderContents, UnreadableError
from resume_gym.support.atomic_write import replacing

EXPORT_BYTES = 24 * 2**20
"""Maximum size, in bytes, of the compressed episodes in an exported file."""

# a tag of page.html by which `is_exported` recognises exported files
_GENERATOR = b'<meta name="generator" content="resume-gym view">'


def page(data: str = "") -> str:
    """Return the page as HTML.

    Args:
        data: HTML elements with the page's data; if empty, the page requests data from a server.
    """
    parts = files("resume_gym.apps.viewer").joinpath("page")
    style = parts.joinpath("page.css").read_text(encoding="utf-8")
    scripts = sorted(part.name for part in parts.iterdir() if part.name.endswith(".js"))
    texts = [parts.joinpath(name).read_text(encoding="utf-8") for name in scripts]
    script = "\n".join(['"use strict";', *texts])
    connect = "'none'" if data else "'self'"
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        f"img-src data:; connect-src {connect}; "
        "base-uri 'none'; form-action 'none'"
    )
    values = {"policy": policy, "style": style, "data": data, "script": script}
    frame = parts.joinpath("page.html").read_text(encoding="utf-8")
    # one pass over the template, so that braces in inserted parts are not replaced
    return re.sub(r"\{\{(\w+)\}\}", lambda hole: values[hole[1]], frame)


def _digest(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


def export(results: FolderContents, file: Path, limit: int = EXPORT_BYTES) -> int:
    """Write the page with its data to one file that needs no network and no server.

    The file has no raw records and no unreadable episodes. Groups of episodes (`EpisodeRow.group`)
    are added in random order until the compressed episodes would exceed `limit` bytes; the first
    group is always included. The table of the page lists all episodes.

    Returns:
        Number of episodes that the file leaves out.
    """
    chunks: list[str] = []
    chunk_of: dict[int, int] = {}
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(results.rows):
        numbers[row.group].append(number)
    groups = list(numbers.values())
    Random(0).shuffle(groups)  # random order, so that the first groups are spread over all steps
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
    packed = {"index": _pack(index)} | {f"chunk-{n}": chunk for n, chunk in enumerate(chunks)}
    data = "\n".join(
        f'<script type="text/plain" id="{name}">{text}</script>' for name, text in packed.items()
    )
    with replacing(file) as unfinished:
        unfinished.write_text(page(data), encoding="utf-8")
    return left_out


def is_exported(file: Path) -> bool:
    """Return whether a file was written by `export`."""
    with file.open("rb") as opened:
        return _GENERATOR in opened.read(400)


def _pack(value: object) -> str:
    """Encode a value as compressed JSON in Base64, which cannot contain markup."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return b64encode(gzip.compress(text, mtime=0)).decode()
