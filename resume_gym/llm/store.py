"""What models answered, and what it cost to ask, in one SQLite file.

Answers are kept by everything that may change them (`key_of`), failures never. A table of calls
has a line for each request that was sent, failed or not. Several processes may share a file.
"""

import asyncio
import hashlib
import json
import sqlite3
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was sent.

    Attributes:
        time: when its outcome was known, in seconds since 1970.
        name: provider and model.
        kind: of the prompt.
        outcome: "answer", or the failure's name: "unavailable", "refused", "malformed",
            "cutoff" or "misconfigured".
        status: of the HTTP answer, if it was no success.
        seconds: until the outcome was known.
        tokens_in, tokens_out: paid for.
        dollars: None if the model's price is not known.
    """

    time: float
    name: str
    kind: str
    outcome: str
    status: int | None
    seconds: float
    tokens_in: int
    tokens_out: int
    dollars: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The calls of a store.

    Attributes:
        outcomes: how many there were of each.
        p50_s, p95_s: of the time to an answer; None if there was none.
        tokens_in, tokens_out: of all calls.
        dollars: of all calls; None if the price of any that took tokens is not known.
    """

    outcomes: dict[str, int]
    p50_s: float | None
    p95_s: float | None
    tokens_in: int
    tokens_out: int
    dollars: float | None


def key_of(name: str, served: str | None, sampling: Mapping[str, Any], prompt: Prompt) -> str:
    """The key of an answer: a hash of all that may change it.

    Args:
        name: provider and model as asked for.
        served: the version of the model that is expected, if any is.
        sampling: temperature and the like.
        prompt: all of it.
    """
    parts = [prompt.kind, prompt.system, prompt.user, prompt.schema, prompt.draw]
    # the schema's order is part of it: properties are written in that order
    text = json.dumps([name, served, dict(sampling), *parts], ensure_ascii=False, default=dict)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Store:
    """Answers and calls on disk; one thread does the reading and writing.

    Args:
        path: of the file; made if it is not there.
        read_only: write nothing; the file has to be there.
    """

    def __init__(self, path: str | Path, read_only: bool = False) -> None:
        self.path = Path(path)
        self._read_only = read_only
        self._thread = ThreadPoolExecutor(1, "model-store")
        self._open: sqlite3.Connection | None = None

    async def find(self, key: str) -> str | None:
        """The text of an answer, if it is here.

        Raises:
            Misconfigured: the file cannot be read.
        """
        text: str | None = await self._run(self._find, key)
        return text

    async def add(self, call: Call, key: str | None = None, answer: Answer | None = None) -> None:
        """Write down a call and, with a key, the answer that it gave.

        Raises:
            Misconfigured: the file cannot be written.
        """
        await self._run(self._add, call, key, answer)

    def close(self) -> None:
        """Write what is on its way, and let go of the file."""
        self._thread.submit(self._close)
        self._thread.shutdown()

    async def _run(self, work: Any, *args: Any) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)
        except (sqlite3.Error, OSError) as problem:
            raise Misconfigured(f"store {str(self.path)!r}: {problem}") from None

    def _find(self, key: str) -> str | None:
        query = "SELECT text FROM answers WHERE key = ?"
        row: tuple[str] | None = self._file().execute(query, (key,)).fetchone()
        return row[0] if row else None

    def _add(self, call: Call, key: str | None, answer: Answer | None) -> None:
        with self._file() as file:
            file.execute(
                "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [getattr(call, name) for name in Call.__slots__],
            )
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
            self._open = None


def _prepare(file: sqlite3.Connection) -> None:
    # SQLite does not wait by itself where several processes change a new file's mode at once
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


def summarise(path: str | Path, name: str | None = None) -> Summary:
    """What was asked and paid.

    Args:
        path: of a store.
        name: only of this provider and model; None for all.

    Raises:
        Misconfigured: there is no such store.
    """
    where = "FROM calls WHERE (?1 IS NULL OR name = ?1)"
    try:
        with _reader(Path(path)) as file:
            tally = file.execute(f"SELECT outcome, count(*) {where} GROUP BY outcome", (name,))
            outcomes = dict(sorted(tally.fetchall()))
            answers = outcomes.get("answer", 0)
            times: list[float | None] = [None, None]
            for number, share in enumerate((0.5, 0.95) if answers else ()):
                query = f"SELECT seconds {where} AND outcome = 'answer' ORDER BY seconds"
                rank = min(answers - 1, int(share * answers))
                times[number] = file.execute(f"{query} LIMIT 1 OFFSET ?2", (name, rank)).fetchone()[
                    0
                ]
            columns = "total(tokens_in), total(tokens_out), total(dollars)"
            tokens_in, tokens_out, spent = file.execute(
                f"SELECT {columns} {where}", (name,)
            ).fetchone()
            unpriced = f"SELECT count(*) {where} AND dollars IS NULL AND tokens_in + tokens_out > 0"
            (unknown,) = file.execute(unpriced, (name,)).fetchone()
    except sqlite3.Error as problem:
        raise Misconfigured(f"store {str(path)!r}: {problem}") from None
    dollars = None if unknown else spent
    return Summary(outcomes, times[0], times[1], int(tokens_in), int(tokens_out), dollars)
