"""Judges that say what a function says, for the judges that are made of others."""

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any

from conftest import RESUME

from resume_gym.episode.rewards import GRADED_FIELDS, VERDICT_FIELDS, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import AsyncJudge
from resume_gym.judges.vetoes import veto


def verdict(grade: int = 0, sure: float = 0.9, **fields: int) -> Verdict:
    """All graded fields alike, supported, but for the fields given."""
    values = {**dict.fromkeys(GRADED_FIELDS, grade), "hallucination": 1, **fields}
    reasons = {field: f"{field} is {values[field]}" for field in VERDICT_FIELDS}
    return Verdict(**values, reasons=reasons, confidence=dict.fromkeys(VERDICT_FIELDS, sure))


class Fake(AsyncJudge):
    """Draws verdicts and compares, by functions that may raise; remembers what it was asked.

    Args:
        says: of task, revision and draw.
        prefers: of task, first and second text, as `compare`; at any draw.
        log: where to put what it is asked.
        label: its name.
    """

    def __init__(
        self,
        says: Callable[[Task, str, int], Verdict] = lambda task, revised, draw: verdict(),
        prefers: Callable[[Task, str, str], int] = lambda task, first, second: 0,
        log: list[Any] | None = None,
        label: str = "fake",
    ) -> None:
        self.name = label
        self._says, self._prefers = says, prefers
        self._log = [] if log is None else log

    async def averdict(self, task: Task, revised: str, draw: int = 0) -> Verdict:
        self._log.append((revised, draw))
        await asyncio.sleep(0)
        return self._says(task, revised, draw)

    async def compare(self, task: Task, first: str, second: str, draw: int = 0) -> int:
        self._log.append((first, second))
        await asyncio.sleep(0)
        return self._prefers(task, first, second)


MODEL = "resume_gym.judges.llm_judge:ModelJudge"
"""The model judge, in a spec with the option `asks`."""


def fake(**options: Any) -> dict[str, Any]:
    """A spec."""
    return {"name": "fake_judges:Fake", **options}


@cache
def revision(number: int) -> str:
    """A revision of `conftest.RESUME` that no veto settles, another for each number."""
    opening = f"Built the {_WORDS[number % len(_WORDS)]} stage, part {number // len(_WORDS)}, of"
    return RESUME.replace("Helped build", opening)


_WORDS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def unsettled(task: Task, text: str) -> bool:
    return veto(task, text) is None
