"""Persistent cache of answers and log of requests, in one SQLite file.

The cache key covers everything that affects an answer (`key_of`); failures are not cached. The
log has a row for each request sent, failed or not. Several processes may share a file.
"""

import asyncio
import hashlib
import json
import sqlite3
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from resume_gym.llm import Answer, Misconfigured, Prompt

_BUSY_S = 30.0
_TABLES = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, kind TEXT, name TEXT, served TEXT, text TEXT,
    tokens_in INTEGER, tokens_out INTEGER, seconds REAL, created REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS calls (
    time REAL, name TEXT, kind TEXT, outcome TEXT, status INTEGER, seconds REAL,
    tokens_in INTEGER, tokens_out INTEGER, dollars REAL
);
"""


class Call(NamedTuple):
    """A request that was sent, as a row of the log.

    Attributes:
        time: time of the outcome, in seconds since 1970.
        name: provider and model of the request.
        kind: `kind` of the prompt.
        outcome: "answer", or the type of the failure: "unavailable", "refused", "malformed",
            "cutoff" or "misconfigured".
        status: HTTP status if the server answered with an error; None otherwise.
        seconds: time from the request to the outcome.
        tokens_in, tokens_out: billed prompt and completion tokens of the request; None if unknown.
        dollars: cost of the request; None if the tokens or the model's price are unknown.
    """

    time: float
    name: str
    kind: str
    outcome: str
    status: int | None
    seconds: float
    tokens_in: int | None
    tokens_out: int | None
    dollars: float | None


def key_of(name: str, served: str | None, sampling: Mapping[str, object], prompt: Prompt) -> str:
    """Return the cache key of an answer: a hash of everything that affects the answer.

    Args:
        name: provider and requested model.
        served: required model version; None accepts any version.
        sampling: sampling parameters, such as the temperature, and the server's address.
        prompt: prompt of the request.
    """
    parts = [prompt.kind, prompt.system, prompt.user, prompt.schema, prompt.draw]
    # Do not sort the schema's properties: models write an answer in the properties' order
    text = json.dumps([name, served, dict(sampling), *parts], ensure_ascii=False, default=dict)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Store:
    """Answers and a log of calls in an SQLite file; a single thread of the store accesses the file.

    Args:
        path: SQLite file, created if missing.
        read_only: whether writing is disabled; if so, the file must exist.
    """

    def __init__(self, path: str | Path, read_only: bool = False) -> None:
        self.path = Path(path)
        self._read_only = read_only
        self._thread = ThreadPoolExecutor(1, "model-store")
        self._open: sqlite3.Connection | None = None

    async def find(self, key: str) -> str | None:
        """Return the text of the answer stored under a key, or None.

        Raises:
            Misconfigured: the file cannot be read.
        """
        return await self._run(self._find, key)  # type: ignore[no-any-return]

    async def add(self, call: Call, key: str | None = None, answer: Answer | None = None) -> None:
        """Log a call; if a key is given, also store the answer under this key.

        Raises:
            Misconfigured: the file cannot be written.
        """
        await self._run(self._add, call, key, answer)

    def close(self) -> None:
        """Finish pending writes and close the file."""
        self._thread.submit(self._close)
        self._thread.shutdown()

    async def _run(self, work: Any, *args: object) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)
        # ValueError, OverflowError: an answer has text or an integer that SQLite cannot store
        except (sqlite3.Error, OSError, ValueError, OverflowError) as problem:
            raise Misconfigured(f"store {str(self.path)!r}: {problem}") from None

    def _find(self, key: str) -> str | None:
        query = "SELECT text FROM answers WHERE key = ?"
        row: tuple[str] | None = self._file().execute(query, (key,)).fetchone()
        return row[0] if row else None

    def _add(self, call: Call, key: str | None, answer: Answer | None) -> None:
        with self._file() as file:
            file.execute("INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", call)
            if key and answer:
                paid = (answer.tokens_in, answer.tokens_out, answer.seconds, call.time)
                row = (key, call.kind, call.name, answer.model, answer.text, *paid)
                file.execute("REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _file(self) -> sqlite3.Connection:
        if self._open is None:
            if self._read_only:
                self._open = _reader(self.path)
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._open = sqlite3.connect(self.path, timeout=_BUSY_S)
                _prepare(self._open)
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()


def _prepare(file: sqlite3.Connection) -> None:
    # SQLite's timeout does not apply if several processes set a new file's journal mode at once
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            file.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
    file.execute("PRAGMA synchronous = NORMAL")
    file.executescript(_TABLES)


def _reader(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)


def summarise(path: str | Path) -> dict[str, Any]:
    """Summarise the answers and calls of a store.

    Returns:
        A dict with `served` (model versions of the answers), `outcomes` (number of calls by
        outcome), `tokens_in` and `tokens_out` (billed; None if those of a call are unknown), and
        `dollars` (None if the cost of a call is unknown).

    Raises:
        Misconfigured: the file does not exist or is no store.
    """
    priced = "dollars IS NOT NULL OR (tokens_in IS 0 AND tokens_out IS 0)"
    known = [f"{name} IS NOT NULL" for name in ("tokens_in", "tokens_out")]
    sums = zip(("tokens_in", "tokens_out", "dollars"), (*known, priced), strict=True)
    # min() is NULL for a store without calls, whose totals are known to be 0
    cases = (f"CASE WHEN min({test}) IS 0 THEN NULL ELSE total({name}) END" for name, test in sums)
    totals = ", ".join(cases)
    outcomes = "SELECT outcome, count(*) FROM calls GROUP BY outcome ORDER BY outcome"
    try:
        with closing(_reader(Path(path))) as file:
            served = file.execute("SELECT DISTINCT served FROM answers ORDER BY served").fetchall()
            counts = dict(file.execute(outcomes).fetchall())
            row = file.execute(f"SELECT {totals} FROM calls").fetchone()
    except sqlite3.Error as problem:
        raise Misconfigured(f"store {str(path)!r}: {problem}") from None
    *tokens, spent = row
    tokens_in, tokens_out = (None if count is None else int(count) for count in tokens)
    return {
        "served": [name for (name,) in served],
        "outcomes": counts,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "dollars": spent,
    }
