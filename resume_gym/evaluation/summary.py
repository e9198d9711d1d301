"""Records of graded episodes (`Episode`) and their means and rates (`summarise`)."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from resume_gym.episode import rewards
from resume_gym.episode.editing import AnySession
from resume_gym.support.json_lines import is_finite


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished and graded episode.

    Attributes:
        task_id: id of the task.
        weakness: planted weakness of the task.
        reward: episode reward, the sum of `ledger`.
        score: episode reward on a scale from 0 to 100.
        ledger: all terms of the reward; see `rewards.TERMS`.
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


def counts(session: AnySession) -> dict[str, Any]:
    """Return the fields of `Episode` that need no verdict; the session may be unfinished."""
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
    """Reward statistics of a set of episodes, in any environment.

    Attributes:
        episodes: number of episodes.
        tasks: number of distinct tasks.
        reward: mean reward of the episodes.
        reward_sd: population standard deviation of the reward over the episodes (divisor n).
        errors: twice the standard error of each mean, computed over tasks, by the figure's name.
            Figures of a single task have no error; result files of older versions have no errors.
    """

    episodes: int
    tasks: int
    reward: float
    reward_sd: float
    errors: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    @classmethod
    def of(cls, sessions: Iterable[Any]) -> "Returns":
        """Summarise finished sessions."""
        sessions = tuple(sessions)
        rewards = [session.reward for session in sessions]
        tasks = len({session.task.task_id for session in sessions})
        errors = _errors((one.task.task_id, {"reward": one.reward}) for one in sessions)
        sd = statistics.pstdev(rewards)
        return Returns(len(rewards), tasks, _mean(rewards), sd, errors=errors)

    def metrics(self) -> dict[str, float]:
        """Return the reward's mean and standard deviation under the names of training metrics."""
        return {"reward": self.reward, "reward_std": self.reward_sd}


@dataclass(frozen=True, slots=True)
class Summary(Returns):
    """Means and rates over a set of editing episodes.

    Attributes:
        score: mean score of the episodes, from 0 to 100.
        tool_syntax: mean reward from tool calls and submission.
        layout: mean reward from the page limit.
        content: mean reward from the verdict.
        submit_rate: share of submitted episodes.
        edits: successful edits per episode.
        failed_edits: failed edits per episode.
        failed_share: share of all edits that failed; 0 without edits.
        malformed: malformed actions per episode, failed edits excluded.
        verdict: mean of each verdict field; see `Episode.verdict`.
        lines: mean lines of the final document, after wrapping.
        layout_pass_rate: share of final documents that fit the page.
        by_weakness: mean reward by weakness; the keys in `errors` are `by_weakness.NAME`.
        tasks_by_weakness: number of tasks by weakness; empty in files of older versions.
        unjudged: number of episodes that no judge graded, since they left the document unchanged.
        turns: actions per episode; like `several_calls` and `words`, None in old result files.
        several_calls: number per episode of actions that had more than one tool call.
        words: words per episode in all actions.
        items: mean grade of each rubric item, over the episodes whose task has this item.
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
    tasks_by_weakness: Mapping[str, int] = field(default_factory=dict)
    items: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, sessions: Iterable[AnySession]) -> "Summary":
        """Summarise finished and graded sessions; raises the errors of `Episode.of`."""
        return summarise(map(Episode.of, sessions))

    def metrics(self) -> dict[str, float]:
        """Return the metrics of a training step; see `Returns.metrics`."""
        parts = ("score", "tool_syntax", "layout", "content")
        behaviour = ("submit_rate", "edits", "failed_edits", "failed_share", "malformed")
        return {
            **Returns.metrics(self),
            **{name: getattr(self, name) for name in parts},
            **{f"verdict_{name}": value for name, value in self.verdict.items()},
            **{name: getattr(self, name) for name in behaviour},
            "layout_pass": self.layout_pass_rate,
            "lines": self.lines,
            "judged": 1 - self.unjudged / self.episodes,
        }


def summarise(played: Iterable[Episode]) -> Summary:
    """Compute the means and rates of graded episodes.

    Raises:
        ValueError: there are no episodes.
    """
    played = tuple(played)
    if not played:
        raise ValueError("no episodes to summarise")
    terms = dict.fromkeys(term for episode in played for term in episode.ledger)
    planted = sorted({(episode.weakness, episode.task_id) for episode in played})
    ledger = {term: _mean(episode.ledger.get(term, 0.0) for episode in played) for term in terms}

    def mean(name: str) -> float:
        return _mean(getattr(episode, name) for episode in played)

    edits, failed = mean("edits"), mean("failed_edits")
    return Summary(
        episodes=len(played),
        tasks=len({episode.task_id for episode in played}),
        reward=mean("reward"),
        reward_sd=statistics.pstdev(episode.reward for episode in played),
        score=mean("score"),
        **rewards.components(ledger),
        submit_rate=mean("submitted"),
        edits=edits,
        failed_edits=failed,
        failed_share=failed / (edits + failed) if edits + failed else 0.0,
        malformed=mean("malformed"),
        verdict=_means(episode.verdict for episode in played),
        lines=mean("lines"),
        layout_pass_rate=mean("fits"),
        by_weakness=dict(sorted(_means({one.weakness: one.reward} for one in played).items())),
        unjudged=sum(not episode.judged for episode in played),
        turns=mean("turns"),
        several_calls=mean("several_calls"),
        words=mean("words"),
        tasks_by_weakness=dict(Counter(weakness for weakness, _ in planted)),
        items=_means(episode.items for episode in played),
        errors=_errors((episode.task_id, _figures(episode)) for episode in played),
    )


def stored(evaluation: Mapping[str, object], part: str) -> dict[str, Mapping[str, Any]]:
    """Return one part, such as "summary", of every agent that has it in an `evaluation.json`.

    Raises:
        ValueError: the agents, an agent or the part is not a JSON object.
    """
    agents = _object(evaluation.get("agents") or {}, "agents")
    found = {}
    for name, agent in agents.items():
        # in `settings.json`, an agent may be a mere string (its spec), which has no parts
        if not isinstance(agent, str) and (value := _object(agent, f"agents.{name}").get(part)):
            found[name] = _object(value, f"agents.{name}.{part}")
    return found


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: expected an object, got {value!r:.40}")
    return value


def outdated(
    evaluation: Mapping[str, object], rewards: Mapping[str, Sequence[float]]
) -> Iterator[str]:
    """Yield a sentence on each agent whose stored figures disagree with its episodes.

    Args:
        evaluation: content of an `evaluation.json`; may be empty.
        rewards: rewards of the graded episodes that can be read, by agent.

    Raises:
        ValueError: `evaluation` has an unknown format.
    """
    for name, summary in stored(evaluation, "summary").items():
        own, reward = rewards.get(name, ()), summary.get("reward")
        # divide before summing, since the sum of large rewards could overflow
        mean = math.fsum(value / len(own) for value in own)
        same = is_finite(reward) and math.isclose(reward, mean, rel_tol=0, abs_tol=1e-5)
        if not same or summary.get("episodes") != len(own):
            episodes = summary.get("episodes")
            stated = f"a mean reward of {reward!r:.40} in {episodes!r:.40} episodes"
            yield f"{name} has {stated}, but {mean:.6g} in the {len(own)} that can be read"


def _figures(episode: Episode) -> dict[str, float]:
    """Return those figures of an episode whose means have an error in `Returns.errors`."""
    return {
        "reward": episode.reward,
        "score": episode.score,
        **rewards.components(episode.ledger),
        "submit_rate": episode.submitted,
        "lines": episode.lines,
        "layout_pass_rate": episode.fits,
        f"by_weakness.{episode.weakness}": episode.reward,
    }


def _errors(figures: Iterable[tuple[str, Mapping[str, float]]]) -> dict[str, float]:
    """Return twice the standard error of each figure's mean, from pairs of task id and figures.

    Rollouts of one task are not independent samples, so the sample size is the number of tasks.
    """
    means = {name: list(map(_mean, own.values())) for name, own in by_task(figures).items()}
    return {
        name: 2 * statistics.stdev(own) / math.sqrt(len(own))
        for name, own in means.items()
        if len(own) > 1
    }


def by_task(
    figures: Iterable[tuple[str, Mapping[str, float]]],
) -> dict[str, dict[str, list[float]]]:
    """Return the values of each figure by its name and task id, from (task id, figures) pairs."""
    values: dict[str, dict[str, list[float]]] = {}
    for task, own in figures:
        for name, value in own.items():
            values.setdefault(name, {}).setdefault(task, []).append(value)
    return values


def _means(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each figure, over the rows that have this figure."""
    values = by_task(("all", row) for row in rows)
    return {name: _mean(own["all"]) for name, own in values.items()}


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)
