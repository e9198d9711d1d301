"""Figures of graded episodes, over tasks (`summarise`) and of each task (`task_figures`).

`FIGURES` lists all figures, with their labels and formats. Tables, comparisons, plots and training
metrics use this list.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from operator import itemgetter
from statistics import fmean
from typing import Any, NamedTuple

from resume_gym.episode import rewards
from resume_gym.episode.editing import AnySession
from resume_gym.evaluation import estimator
from resume_gym.evaluation.estimator import by_task
from resume_gym.evaluation.records import COUNTS, Episode


class Figure(NamedTuple):
    """How a figure of `Summary` is computed from an episode, and how it is shown.

    Attributes:
        label: label of the figure's row in tables.
        form: format of the figure, as in `format(figure, form)`; shares have a "%".
        of: function of an episode's quantities (see `_quantities`) or of their means.
        metric: name of the figure among the metrics of a training step; empty if it is not there.
        has_error: whether `Returns.errors` has an entry for the figure.
        details: whether only detailed tables have the row.
    """

    label: str
    form: str
    of: Callable[[Mapping[str, float]], float]
    metric: str = ""
    has_error: bool = False
    details: bool = False


def _component(name: str, one: Mapping[str, float]) -> float:
    return rewards.components(_part("ledger", one))[name]


def _failed_share(one: Mapping[str, float]) -> float:
    edits = one["edits"] + one["failed_edits"]
    return one["failed_edits"] / edits if edits else 0.0


REWARDS: Mapping[str, Figure] = {
    "reward": Figure("mean", "z.2f", itemgetter("reward"), "reward", True),
    "tool_syntax": Figure(
        "from tool calls", "z.2f", partial(_component, "tool_syntax"), "tool_syntax", True
    ),
    "layout": Figure("from layout", "z.2f", partial(_component, "layout"), "layout", True),
    "content": Figure("from content", "z.2f", partial(_component, "content"), "content", True),
    "score": Figure("score, 0 to 100", ".1f", itemgetter("score"), "score", True, details=True),
}
"""Figures of the reward, by their names in `Summary` and in `evaluation.json`."""
BEHAVIOUR: Mapping[str, Figure] = {
    "submit_rate": Figure("submitted", ".0%", itemgetter("submitted"), "submit_rate", True),
    "failed_share": Figure("edits that failed", ".0%", _failed_share, "failed_share"),
    "layout_pass_rate": Figure("fits the page", ".0%", itemgetter("fits"), "layout_pass", True),
    "edits": Figure("edits an episode", "z.2f", itemgetter("edits"), "edits", details=True),
    "failed_edits": Figure(
        "failed edits an episode", "z.2f", itemgetter("failed_edits"), "failed_edits", details=True
    ),
    "malformed": Figure(
        "malformed calls an episode", "z.2f", itemgetter("malformed"), "malformed", details=True
    ),
    "several_calls": Figure(
        "of them, several in a turn", "z.2f", itemgetter("several_calls"), details=True
    ),
    "turns": Figure("turns an episode", "z.2f", itemgetter("turns"), details=True),
    "words": Figure("words an episode", ".0f", itemgetter("words"), details=True),
    "lines": Figure("lines of the document", ".1f", itemgetter("lines"), "lines", True, True),
}
"""Figures of the agent's behaviour, by name."""
FIGURES: Mapping[str, Figure] = {**REWARDS, **BEHAVIOUR}
"""All figures of an agent, in the order of the tables; `Summary` has a field for each."""
RATIOS = ("failed_share",)
"""Figures that are ratios of means, not means over tasks; they have no error and no paired test."""


@dataclass(frozen=True, slots=True)
class Returns:
    """Reward statistics of a set of episodes, in any environment.

    In all means, each task counts once, with the mean of its episodes; see `estimator`.

    Attributes:
        episodes: number of episodes.
        tasks: number of distinct tasks.
        reward: mean reward.
        reward_sd: population standard deviation of the episodes' rewards about `reward`.
        errors: twice the standard error of each mean, computed over tasks, by the figure's name.
            Figures of a single task have no error; result files of older versions have no errors.
    """

    episodes: int
    tasks: int
    reward: float
    reward_sd: float
    errors: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    @classmethod
    def of(cls, sessions: Iterable[Any], envs: Iterable[str] = repeat("")) -> "Returns":
        """Summarise finished sessions.

        Args:
            sessions: the sessions.
            envs: name of each session's environment, if they have several: tasks of different
                environments are different tasks, even if their ids are equal.
        """
        sessions = tuple(sessions)
        ids = map(_task_id, sessions, envs)
        rewards = by_task(
            (task, {"reward": one.reward}) for task, one in zip(ids, sessions, strict=True)
        )["reward"]
        error = estimator.error(estimator.task_means(rewards).values())
        return Returns(
            episodes=len(sessions),
            tasks=len(rewards),
            reward=estimator.mean(rewards),
            reward_sd=estimator.deviation(rewards),
            errors={} if error is None else {"reward": error},
        )

    def metrics(self) -> dict[str, float]:
        """Return the reward's mean and standard deviation under the names of training metrics."""
        return {"reward": self.reward, "reward_std": self.reward_sd}


@dataclass(frozen=True, slots=True)
class Summary(Returns):
    """Means and rates over a set of editing episodes; each task counts once, as in `Returns`.

    Attributes:
        tool_syntax: mean reward from tool calls and submission.
        layout: mean reward from the page limit.
        content: mean reward from the verdict.
        score: mean score, from 0 to 100.
        submit_rate: share of submitted episodes.
        failed_share: share of all edits that failed; 0 without edits.
        layout_pass_rate: share of final documents that fit the page.
        edits: successful edits per episode.
        failed_edits: failed edits per episode.
        malformed: malformed actions per episode, failed edits excluded.
        lines: mean lines of the final document, after wrapping.
        verdict: mean of each verdict field; see `Episode.verdict`.
        by_weakness: mean reward by weakness; the keys in `errors` are `by_weakness.NAME`.
        unjudged: number of episodes that no judge graded, since they left the document unchanged.
        several_calls: number per episode of actions that had more than one tool call; like `turns`
            and `words`, None in old result files.
        turns: actions per episode.
        words: words per episode in all actions.
        tasks_by_weakness: number of tasks by weakness; empty in files of older versions.
        items: mean grade of each rubric item, over the tasks that have this item.
        best_of: expected highest reward of k episodes of a task, by k, over the tasks with at least
            k episodes; see `estimator.best_of`. The keys in `errors` are `best_of.K`.
        tasks_by_best_of: number of these tasks, by k.
    """

    tool_syntax: float
    layout: float
    content: float
    score: float
    submit_rate: float
    failed_share: float
    layout_pass_rate: float
    edits: float
    failed_edits: float
    malformed: float
    lines: float
    verdict: Mapping[str, float]
    by_weakness: Mapping[str, float]
    unjudged: int
    several_calls: float | None = None
    turns: float | None = None
    words: float | None = None
    tasks_by_weakness: Mapping[str, int] = field(default_factory=dict)
    items: Mapping[str, float] = field(default_factory=dict)
    best_of: Mapping[str, float] = field(default_factory=dict)
    tasks_by_best_of: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, sessions: Iterable[AnySession], envs: Iterable[str] = repeat("")) -> "Summary":
        """Summarise finished and graded sessions; see `Returns.of` and the errors of `Episode.of`.

        The mean of a verdict field is over the tasks whose judge has this field.
        """
        return summarise(
            replace(Episode.of(one), task_id=_task_id(one, env))
            for one, env in zip(sessions, envs, strict=False)
        )

    def metrics(self) -> dict[str, float]:
        """Return the metrics of a training step; see `Returns.metrics`."""
        figures = ((one.metric, getattr(self, name)) for name, one in FIGURES.items())
        return {
            **Returns.metrics(self),
            **{metric: value for metric, value in figures if metric},
            **{f"verdict_{name}": value for name, value in self.verdict.items()},
            "judged": 1 - self.unjudged / self.episodes,
        }


def _task_id(session: Any, env: str) -> str:
    return f"{env}/{session.task.task_id}"


def summarise(played: Iterable[Episode], best_of: Collection[int] = ()) -> Summary:
    """Compute the figures of graded episodes; each task counts once, with the mean of its episodes.

    Args:
        played: graded episodes.
        best_of: values of k for `Summary.best_of`, each at least 1.

    Raises:
        ValueError: there are no episodes.
    """
    played = tuple(played)
    if not played:
        raise ValueError("no episodes to summarise")
    values = by_task((one.task_id, _quantities(one)) for one in played)
    for name in values:
        if name.startswith("ledger."):  # some terms exist only in some tasks; they are 0 in others
            for task in values["reward"]:
                values[name].setdefault(task, [0.0])
    means = {name: estimator.mean(own) for name, own in values.items()}
    figures: dict[str, Any] = {name: figure.of(means) for name, figure in FIGURES.items()}
    known = {name for name, figure in FIGURES.items() if figure.has_error}
    best = {
        str(k): {
            task: estimator.best_of(own, k)
            for task, own in values["reward"].items()
            if len(own) >= k
        }
        for k in best_of
    }
    by_name = task_figures(played) | {f"best_of.{k}": own for k, own in best.items()}
    errors = (
        (name, estimator.error(own.values()))
        for name, own in by_name.items()
        if name in known or name.startswith(("by_weakness.", "best_of."))
    )
    weaknesses = {one.task_id: one.weakness for one in played}
    return Summary(
        episodes=len(played),
        tasks=len(weaknesses),
        reward_sd=estimator.deviation(values["reward"]),
        **figures,
        verdict=_part("verdict", means),
        by_weakness=dict(sorted(_part("by_weakness", means).items())),
        unjudged=sum(not one.judged for one in played),
        tasks_by_weakness=dict(Counter(sorted(weaknesses.values()))),
        items=_part("items", means),
        best_of={k: fmean(own.values()) for k, own in best.items() if own},
        tasks_by_best_of={k: len(own) for k, own in best.items()},
        errors={name: error for name, error in errors if error is not None},
    )


def task_figures(played: Iterable[Episode]) -> dict[str, dict[str, float]]:
    """Return the figures of each task's episodes, by name and task id.

    The names are those of `FIGURES`, `verdict_FIELD` and `by_weakness.WEAKNESS`; the last two have
    only tasks with this field or this weakness.
    """
    values = by_task((one.task_id, _quantities(one)) for one in played)
    means: dict[str, dict[str, float]] = {}
    for name, own in values.items():
        for task, value in estimator.task_means(own).items():
            means.setdefault(task, {})[name] = value
    figures: dict[str, dict[str, float]] = {}
    for task, one in means.items():
        named = {name: figure.of(one) for name, figure in FIGURES.items()}
        named |= {f"verdict_{name}": value for name, value in _part("verdict", one).items()}
        named |= {name: one[name] for name in one if name.startswith("by_weakness.")}
        for name, value in named.items():
            figures.setdefault(name, {})[task] = value
    return figures


def _quantities(episode: Episode) -> dict[str, float]:
    """Return an episode's numbers for `Figure.of`; entry B of a mapping A is named "A.B"."""
    nested = {name: getattr(episode, name) for name in ("ledger", "verdict", "items")}
    nested["by_weakness"] = {episode.weakness: episode.reward}
    return {
        **{name: getattr(episode, name) for name in ("reward", "score", *COUNTS)},
        **{f"{name}.{key}": value for name, part in nested.items() for key, value in part.items()},
    }


def _part(name: str, quantities: Mapping[str, float]) -> dict[str, float]:
    """Return the quantities named "NAME.KEY" by their keys; `name` is NAME, such as "ledger"."""
    prefix = f"{name}."
    own = (key for key in quantities if key.startswith(prefix))
    return {key.removeprefix(prefix): quantities[key] for key in own}
