"""Records of graded episodes (`Episode`) and their means and rates (`summarise`)."""

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
        task_id: id of the task.
        weakness: planted weakness of the task.
        reward: sum of `ledger`.
        score: reward on a scale from 0 to 100.
        ledger: all reward terms; see `rewards.TERMS`.
        turns: number of actions.
        edits: number of successful edits.
        failed_edits: number of failed edits.
        malformed: number of malformed actions that were not failed edits.
        submitted: whether the agent submitted the document.
        lines: lines of the final document, after wrapping.
        fits: whether the final document fits the page.
        judged: whether a judge graded it; the reward tables grade an unchanged document.
        verdict: content terms without their weights, each in [-1, 1].
        several_calls: number of actions with more than one tool call; each is malformed.
        words: number of words in all actions, tool calls and thoughts included.
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
        """Make the record of a finished session.

        Raises:
            ValueError: the session is unfinished, or needs a verdict.
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
    """Return the fields of `Episode` that need no verdict; the episode may be unfinished."""
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
    """Rewards of a set of episodes of any environment.

    Attributes:
        episodes: number of episodes.
        tasks: number of distinct tasks.
        reward: mean reward.
        reward_sd: standard deviation (n) of the reward over the episodes.
    """

    episodes: int
    tasks: int
    reward: float
    reward_sd: float


@dataclass(frozen=True, slots=True)
class Summary(Returns):
    """Means and rates over a set of editing episodes.

    Attributes:
        score: mean score, 0 to 100.
        tool_syntax: mean reward from tool calls and submission.
        layout: mean reward from the page limit.
        content: mean reward from the verdict.
        submit_rate: share of submitted episodes.
        edits: successful edits per episode.
        failed_edits: failed edits per episode.
        failed_share: share of all edits that failed; 0 without edits.
        malformed: malformed actions per episode, failed edits excluded.
        verdict: mean of each verdict field, -1 to 1.
        lines: mean lines of the final document, after wrapping.
        layout_pass_rate: share of final documents that fit the page.
        by_weakness: mean reward by weakness.
        unjudged: number of episodes that changed nothing, which no judge graded.
        turns: actions per episode; None, like the next two, in older files without this count.
        several_calls: actions per episode with more than one tool call.
        words: words per episode in all actions.
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
    """Compute the summary of episodes.

    Raises:
        ValueError: there are no episodes.
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
