"""What remains of episodes as data, and the figures of any set of them, whoever played."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from resume_gym import rewards
from resume_gym.editing import EditSession


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished and graded episode.

    Attributes:
        task_id: the task.
        weakness: its planted weakness.
        reward: the sum of `ledger`.
        score: the reward on a scale from 0 to 100.
        ledger: all terms; see `rewards.TERMS`.
        turns: actions taken.
        edits: successful edits.
        failed_edits: edits that failed.
        malformed: actions that were no call of a tool.
        submitted: whether the agent handed in the resume.
        lines: of the final resume, after wrapping.
        fits: whether it fits the page.
        judged: whether a judge was asked; an unchanged document is graded by the tables.
        verdict: the content terms without their weights, each in [-1, 1].
        several_calls: actions that held more than one call; each is malformed.
        words: that the agent wrote in all its actions, calls and thoughts included.
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

    @classmethod
    def of(cls, session: EditSession[Any, Any]) -> Self:
        """What remains of a session.

        Raises:
            ValueError: the session still runs, or waits for its verdict.
        """
        task = session.task
        if not session.done or session.needs_verdict:
            waits = "waits for its verdict" if session.done else "still runs"
            raise ValueError(f"{task.task_id}: expected a graded episode, this one {waits}")
        ledger = session.ledger
        return cls(
            task_id=task.task_id,
            weakness=task.weakness,
            reward=session.reward,
            score=session.score,
            ledger=ledger,
            judged=session.state.verdict is not None,
            verdict={
                name: ledger[name] / weight for name, weight in session.verdict_weights.items()
            },
            **counts(session),
        )


def counts(session: EditSession[Any, Any]) -> dict[str, Any]:
    """What an episode came to, graded or not: the fields of `Episode` that are no judge's."""
    state, lines = session.state, session.state.document.lines
    return {
        "turns": state.turns,
        "edits": state.edits,
        "failed_edits": state.failed_edits,
        "malformed": sum("malformed" in step.ledger for _, step in state.transcript),
        "several_calls": sum(step.error == "several_calls" for _, step in state.transcript),
        "submitted": state.submitted,
        "lines": lines,
        "fits": lines <= session.rules.page_lines,
        "words": sum(len(text.split()) for text, _ in state.transcript),
    }


@dataclass(frozen=True, slots=True)
class Returns:
    """What a set of episodes of any environment earned.

    Attributes:
        episodes: how many.
        tasks: how many different tasks.
        reward: mean.
        reward_sd: standard deviation over the episodes.
    """

    episodes: int
    tasks: int
    reward: float
    reward_sd: float


@dataclass(frozen=True, slots=True)
class Summary(Returns):
    """The figures of a set of editing episodes; means and rates over all of them.

    Attributes:
        score: mean, 0 to 100.
        tool_syntax: the part of the reward that tool calls and submitting gave.
        layout: the part of the page limit.
        content: the part of the judge.
        submit_rate: share of episodes that submitted.
        edits: successful edits an episode.
        failed_edits: failed edits an episode.
        failed_share: share of all edits that failed; 0 without edits.
        malformed: actions an episode that were no call.
        verdict: mean of each of the judge's fields, -1 to 1.
        lines: of the final document, after wrapping.
        layout_pass_rate: share of final documents that fit the page.
        by_weakness: mean reward for each weakness that occurs.
        unjudged: episodes that changed nothing, so that no judge was asked.
        turns: actions an episode; None, as the next two, in files from before it was counted.
        several_calls: actions an episode that held more than one call.
        words: that the agent wrote in an episode.
    """

    score: float
    tool_syntax: float
    layout: float
    content: float
    submit_rate: float
    edits: float
    failed_edits: float
    failed_share: float
    malformed: float
    verdict: Mapping[str, float]
    lines: float
    layout_pass_rate: float
    by_weakness: Mapping[str, float]
    unjudged: int
    turns: float | None = None
    several_calls: float | None = None
    words: float | None = None


def summarise(played: Iterable[Episode]) -> Summary:
    """The figures of some episodes.

    Raises:
        ValueError: there are none.
    """
    played = tuple(played)
    if not played:
        raise ValueError("no episodes to summarise")
    ledger = {term: _mean(one.ledger[term] for one in played) for term in played[0].ledger}
    edits, failed = _mean(one.edits for one in played), _mean(one.failed_edits for one in played)
    return Summary(
        episodes=len(played),
        tasks=len({one.task_id for one in played}),
        reward=_mean(one.reward for one in played),
        reward_sd=statistics.pstdev(one.reward for one in played),
        score=_mean(one.score for one in played),
        **rewards.components(ledger),
        submit_rate=_mean(one.submitted for one in played),
        edits=edits,
        failed_edits=failed,
        failed_share=failed / (edits + failed) if edits + failed else 0.0,
        malformed=_mean(one.malformed for one in played),
        verdict={name: _mean(one.verdict[name] for one in played) for name in played[0].verdict},
        lines=_mean(one.lines for one in played),
        layout_pass_rate=_mean(one.fits for one in played),
        by_weakness={
            weakness: _mean(one.reward for one in played if one.weakness == weakness)
            for weakness in sorted({one.weakness for one in played})
        },
        unjudged=sum(not one.judged for one in played),
        turns=_mean(one.turns for one in played),
        several_calls=_mean(one.several_calls for one in played),
        words=_mean(one.words for one in played),
    )


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)
