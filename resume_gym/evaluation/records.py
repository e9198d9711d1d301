"""Records of graded episodes, from which all figures are computed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from resume_gym.episode.editing import AnySession


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished and graded episode.

    Attributes:
        task_id: id of the task.
        weakness: planted weakness of the task.
        reward: episode reward, the sum of `ledger`.
        score: episode reward on a scale from 0 to 100.
        ledger: all terms of the reward; see `EditSession.terms`.
        turns: number of the agent's actions.
        edits: number of successful edits.
        failed_edits: number of failed edits.
        malformed: number of malformed actions that were not failed edits.
        submitted: whether the agent submitted the document.
        lines: lines of the final document, after wrapping.
        fits: whether the final document fits the page.
        judged: whether a judge graded the document; an unchanged document gets fixed rewards.
        verdict: each content term divided by its weight: a grade in [-1, 1] or a signed line count.
        several_calls: number of malformed actions that had more than one tool call.
        words: number of words in all actions, tool calls and thoughts included.
        items: grade (-1, 0 or 1) of each rubric item of the task, by the item's text.
    """

    task_id: str
    weakness: str
    reward: float
    score: float
    ledger: Mapping[str, float]
    turns: int
    edits: int
    failed_edits: int
    malformed: int
    submitted: bool
    lines: int
    fits: bool
    judged: bool
    verdict: Mapping[str, float]
    several_calls: int = 0
    words: int = 0
    items: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, session: AnySession) -> Self:
        """Make the record of the episode in a finished session.

        Raises:
            ValueError: the session is unfinished, or needs a verdict.
        """
        task = session.task
        if not session.done or session.needs_verdict:
            waits = "waits for its verdict" if session.done else "still runs"
            raise ValueError(f"{task.task_id}: expected a graded episode; this one {waits}")
        ledger = session.ledger
        return cls(
            task_id=task.task_id,
            weakness=task.weakness,
            reward=session.reward,
            score=session.score,
            ledger=ledger,
            judged=session.state.verdict is not None,
            verdict={name: ledger[name] / weight for name, weight in session.weights.items()},
            items=getattr(session, "items", {}),
            **counts(session),
        )


COUNTS: Mapping[str, Callable[[AnySession], int]] = {
    "turns": lambda session: session.state.turns,
    "edits": lambda session: session.state.edits,
    "failed_edits": lambda session: session.state.failed_edits,
    "malformed": lambda session: sum(
        "malformed" in step.ledger for _, step in session.state.transcript
    ),
    "several_calls": lambda session: sum(
        step.error == "several_calls" for _, step in session.state.transcript
    ),
    "submitted": lambda session: session.state.submitted,
    "lines": lambda session: session.state.document.lines,
    "fits": lambda session: session.state.document.lines <= session.rules.page_lines,
    "words": lambda session: sum(len(text.split()) for text, _ in session.state.transcript),
}
"""Fields of `Episode` that need no verdict; the session may be unfinished."""


def counts(session: AnySession) -> dict[str, Any]:
    """Return the values of `COUNTS`."""
    return {name: count(session) for name, count in COUNTS.items()}
