"""Full-text search over the episodes of a folder: without an index, bounded in results and time."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from itertools import islice
from typing import Any

from resume_gym.apps.viewer.data import FolderContents, UnreadableError, unreadable
from resume_gym.apps.viewer.episode import TurnView, turns
from resume_gym.apps.viewer.rows import EpisodeRow, env_of
from resume_gym.apps.viewer.tasks import Tasks
from resume_gym.support.json_lines import strings

MATCHES = 100
"""Maximum number of episodes that a call of `search` returns."""
SECONDS = 2.0
"""Time in seconds after which a call of `search` stops at the next episode."""
LONGEST = 200
"""Maximum number of characters of the text to find; the rest is ignored."""

_AROUND = 90  # characters shown before and after the text that was found
_PLACES = 8  # maximum number of places that are named for an episode


def search(
    results: FolderContents, text: str, start: int = 0, seconds: float = SECONDS
) -> dict[str, Any]:
    """Find the episodes that contain a text; case and the kind of white space are ignored.

    The search covers the actions, the replies, the final text, the judge's reasons and the task, in
    this order. A call reads at least one episode.

    Args:
        results: folder to search, as of its last `refresh`.
        text: text to find.
        start: number of the row to begin with.
        seconds: time in seconds after which the search stops.

    Returns:
        A dict with the list `matches` and the number `next` of the row at which a further call
        should start, None at the end. A match is a dict: the `number` of the episode's row, the
        `places` where the text occurs ("action 2"; turns are counted from 1), the first occurrence
        as it is written (`found`), and the text `before` and `after` it.
    """
    words = text[:LONGEST].split()
    if not words:
        return {"matches": [], "next": None}
    query = _Query(words, results.tasks)
    matches: list[dict[str, Any]] = []
    end = time.monotonic() + seconds
    for number in range(start, len(results.rows)):
        if number > start and (len(matches) == MATCHES or time.monotonic() > end):
            return {"matches": matches, "next": number}
        try:
            if not query.may_match(results.rows[number], results.line(number)):
                continue
            record = results.record(number)
            with unreadable():
                found = query.match(number, record)
        except (OSError, LookupError, UnreadableError):  # damaged, or rewritten while it is read
            continue
        matches += [found] if found else []
    return {"matches": matches, "next": None}


class _Query:
    """Query that finds successive words, with any white space between them, in episodes."""

    def __init__(self, words: Sequence[str], tasks: Mapping[str, Tasks]) -> None:
        self._pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
        self._about = {
            (env, name): [*strings(asdict(task))]
            for env, known in tasks.items()
            for name, task in known.by_id.items()
            if is_dataclass(task) and not isinstance(task, type)
        }
        found = {name: map(self._pattern.search, texts) for name, texts in self._about.items()}
        self._tasks = {name for name, hits in found.items() if any(hits)}
        text = " ".join(words).lower()
        runs = re.findall(r"[a-z0-9]+", text) if text.isascii() else []
        self._longest = max(runs, key=len, default="").encode()

    def may_match(self, row: EpisodeRow, line: bytes) -> bool:
        """Return False if the episode cannot match; a quick test that does not parse the line."""
        # JSON may escape all characters but letters and digits
        return (row.env, row.task) in self._tasks or self._longest in line.lower()

    def match(self, number: int, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return where the words first occur in an episode; None if they do not."""
        about = self._about.get((env_of(record), str(record["task_id"])), ())
        texts = ((place, text, self._pattern.search(text)) for place, text in _texts(record, about))
        found = [(place, text, hit) for place, text, hit in texts if hit]
        if not found:
            return None
        _, text, hit = found[0]
        before, after = text[: hit.start()][-_AROUND:], text[hit.end() :][:_AROUND]
        places = dict.fromkeys(place for place, *_ in found)
        where = {"number": number, "places": [*islice(places, _PLACES)]}
        return {**where, "before": before, "found": hit[0], "after": after}


def _texts(record: Mapping[str, Any], about: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the texts of an episode, each with the name of its place."""
    played = turns(record)
    for place, turn in enumerate(played, start=1):
        yield f"action {place}", _spoken(turn)
    for place, turn in enumerate(played, start=1):
        yield f"reply {place}", f"{turn.reply}\n{turn.status}"
    yield "final text", str(record.get("text") or "")
    for text in strings(record.get("verdict")):
        yield "judge's reasons", text
    for text in (str(record["task_id"]), *about, str(record.get("original") or "")):
        yield "task", text


def _spoken(turn: TurnView) -> str:
    """Return an action as a reader sees it: the arguments of a call without the escapes of JSON."""
    if not turn.tool:
        return turn.action
    values = [one if isinstance(one, str) else json.dumps(one) for one in turn.arguments.values()]
    return "\n".join([turn.said, turn.tool, *values])
