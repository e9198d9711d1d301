"""Journal entries about episodes that failed, or that wait long for the engine or a judge."""

import asyncio
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import indent

from resume_gym.judges import JudgeError
from resume_gym.llm import ModelError

ALARM_S = 60.0
"""Time in seconds after which the journal reports that an episode is waiting."""
Note = Callable[[str], object]
"""Function that adds a sentence to the run's journal."""
_LAG_S = 0.02


class Faults:
    """Log of errors in episodes; the traceback of an error in users' code is logged only once."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._shown: set[str] = set()

    def report(self, event: str, error: Exception) -> None:
        """Log an event, such as a dropped episode, and the error that caused the event."""
        cause, details = error.__cause__, ""
        if cause is not None and not isinstance(cause, JudgeError | ModelError):
            place = f"{type(cause)} {traceback.extract_tb(cause.__traceback__)[-1:]}"
            if place not in self._shown:
                self._shown.add(place)
                lines = "".join(traceback.format_exception(cause)).rstrip()
                details = "\n\n" + indent(lines, "      ") + "\n"
        kind = "no verdict: " if isinstance(error, JudgeError) else ""
        self._note(f"{event}: {kind}{error}{details}")


class Watchdog:
    """Monitor that reports episodes that wait too long, and measures delays of the event loop.

    Attributes:
        lag_s: maximum delay of the event loop in seconds since the caller set this value to 0.
    """

    def __init__(self, note: Note) -> None:
        self._note = note
        self._waits: dict[int, tuple[str, float]] = {}
        self.lag_s = 0.0

    @contextmanager
    def waiting(self, key: int, what: str) -> Iterator[None]:
        """Register, until the block ends, that the conversation `key` waits for `what`."""
        self._waits[key] = what, time.monotonic()
        try:
            yield
        finally:
            del self._waits[key]

    async def watch(self) -> None:
        """Watch the event loop and the waiting episodes until this coroutine is cancelled."""
        reported: set[int] = set()  # each wait is reported once
        while True:
            before = time.monotonic()
            await asyncio.sleep(_LAG_S)
            now = time.monotonic()
            self.lag_s = max(self.lag_s, now - before - _LAG_S)
            reported &= self._waits.keys()
            late = [key for key, (_, since) in self._waits.items() if now - since > ALARM_S]
            if new := [key for key in late if key not in reported]:
                what, since = self._waits[new[0]]
                more = f" (other waiting episodes: {len(late) - 1})" if len(late) > 1 else ""
                self._note(f"An episode has waited {now - since:.0f} s for {what}{more}.")
                reported |= set(late)
