"""Agents x tasks x rollouts -> episodes -> statistics.

`play` is one episode, `evaluate` many; `Episode` is what remains of one, as data; `summarise`
makes the figures of any set of episodes, whoever played them; `table` sets figures side by side.
"""

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, Self

from rich.markup import escape
from rich.table import Table

from resume_gym import rewards
from resume_gym.agents import Agent
from resume_gym.editing import EditSession
from resume_gym.judges import AsyncJudge, Judge
from resume_gym.rewards import Verdict
from resume_gym.session import Rules, Session
from resume_gym.tasks import Task

_AT_ONCE = 256  # episodes whose verdicts are waited for


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

    @classmethod
    def of(cls, session: EditSession[Any, Any]) -> Self:
        """What remains of a session.

        Raises:
            ValueError: the session still runs, or waits for its verdict.
        """
        task, state = session.task, session.state
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
            turns=state.turns,
            edits=state.edits,
            failed_edits=state.failed_edits,
            malformed=sum("malformed" in step.ledger for _, step in state.transcript),
            submitted=state.submitted,
            lines=state.document.lines,
            fits=state.document.lines <= session.rules.page_lines,
            judged=state.verdict is not None,
            verdict={
                name: ledger[name] / weight for name, weight in session.verdict_weights.items()
            },
        )


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


def play(agent: Agent, task: Task, rules: Rules) -> Session:
    """One episode, not graded yet."""
    session = Session(task, rules)
    while not session.done:
        session.step(agent(session))
    return session


def episodes(
    agent: Callable[[int], Agent],
    tasks: Sequence[Task],
    rules: Rules,
    judge: Judge,
    rollouts: int = 1,
    seed: int = 0,
) -> Iterator[Episode]:
    """`evaluate`, one episode at a time, so that a caller can show progress.

    A judge that waits for others is asked about several at once, whose episodes come in order.
    """
    waiting: deque[tuple[Session, Future[Verdict]]] = deque()
    at_once = _AT_ONCE if isinstance(judge, AsyncJudge) else 1
    try:
        for rollout, task in product(range(rollouts), tasks):
            # A task's episodes do not depend on which other tasks are evaluated.
            own = Random(f"{seed}:{rollout}:{task.task_id}").getrandbits(32)
            session = play(agent(own), task, rules)
            waiting.append((session, _asked(judge, session)))
            if len(waiting) == at_once:
                yield _graded(*waiting.popleft())
        while waiting:
            yield _graded(*waiting.popleft())
    finally:
        for _, verdict in waiting:
            verdict.cancel()


def _asked(judge: Judge, session: Session) -> Future[Verdict]:
    """The verdict to come, if the episode needs one."""
    if session.needs_verdict and isinstance(judge, AsyncJudge):
        return judge.submit(session.task, session.text)
    verdict: Future[Verdict] = Future()
    if session.needs_verdict:
        verdict.set_result(judge.judge(session.task, session.text))
    return verdict


def _graded(session: Session, verdict: Future[Verdict]) -> Episode:
    if session.needs_verdict:
        session.grade(verdict.result())
    return Episode.of(session)


def evaluate(
    agent: Callable[[int], Agent],
    tasks: Sequence[Task],
    rules: Rules,
    judge: Judge,
    rollouts: int = 1,
    seed: int = 0,
) -> tuple[Episode, ...]:
    """All episodes of an agent: `rollouts` on each task.

    Args:
        agent: makes the agent of an episode from a seed.
        tasks: what to play.
        rules: the limits of an episode.
        judge: grades the final resumes.
        rollouts: episodes a task.
        seed: the same seed gives the same episodes.

    Raises:
        JudgeError: no verdict could be had; a failure never becomes a number.
    """
    return tuple(episodes(agent, tasks, rules, judge, rollouts, seed))


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
    )


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def table(summaries: Mapping[str, Summary] | Mapping[str, Returns]) -> Table:
    """Figures side by side, a column for each summary: agents, or before and after."""
    grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold cyan")
    grid.add_column()
    for name in summaries:
        grid.add_column(escape(name), justify="right")
    columns = tuple(summaries.values())
    edited = [one for one in columns if isinstance(one, Summary)]
    sections = _sections(edited) if len(edited) == len(columns) else _plain_sections()
    for title, rows in sections:
        grid.add_row(title, style="bold")
        for label, figure in rows.items():
            grid.add_row(f"  {label}", *map(figure, columns))
        grid.add_row()
    return grid


_Figure = Callable[[Any], str]


def _plain_sections() -> Iterator[tuple[str, dict[str, _Figure]]]:
    """Titles and rows of the table for episodes of any kind."""
    yield "Reward", {"mean": _number("reward"), "standard deviation": _number("reward_sd")}
    yield "Episodes", {"played": _count("episodes"), "tasks": _count("tasks")}


def _sections(columns: Sequence[Summary]) -> Iterator[tuple[str, dict[str, _Figure]]]:
    """Titles and rows of the table, as functions from a summary to a cell."""
    yield (
        "Reward",
        {
            "mean": _number("reward"),
            "standard deviation": _number("reward_sd"),
            "score, 0 to 100": lambda one: f"{one.score:.1f}",
            "from tool calls": _number("tool_syntax"),
            "from layout": _number("layout"),
            "from content": _number("content"),
        },
    )
    weaknesses = sorted({name for one in columns for name in one.by_weakness})
    verdict = dict.fromkeys(name for one in columns for name in one.verdict)
    yield "Mean reward by weakness", {name: _entry("by_weakness", name) for name in weaknesses}
    yield (
        "Judge, from -1 to 1",
        {name: _entry("verdict", name) for name in verdict},
    )
    yield (
        "Behaviour",
        {
            "submitted": _share("submit_rate"),
            "fits the page": _share("layout_pass_rate"),
            "edits an episode": _number("edits"),
            "failed edits an episode": _number("failed_edits"),
            "edits that failed": _share("failed_share"),
            "malformed calls an episode": _number("malformed"),
        },
    )
    yield (
        "Episodes",
        {
            "played": _count("episodes"),
            "tasks": _count("tasks"),
            "unchanged, not judged": _count("unjudged"),
        },
    )


def _count(name: str) -> _Figure:
    return lambda one: str(getattr(one, name))


def _number(name: str) -> _Figure:
    return lambda one: f"{getattr(one, name):.2f}"


def _share(name: str) -> _Figure:
    return lambda one: f"{getattr(one, name):.0%}"


def _entry(name: str, key: str) -> _Figure:
    def figure(one: Summary) -> str:
        entries: Mapping[str, float] = getattr(one, name)
        return f"{entries[key]:.2f}" if key in entries else "-"

    return figure
