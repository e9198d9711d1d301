"""Evaluation of several agents on the same tasks by the same judge.

`make_contest` makes the settings, `restore` loads the episodes of an earlier command, `play_entry`
plays and grades an agent's remaining episodes, and `evaluation` returns results as JSON values.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.util import find_spec
from statistics import fmean
from typing import Any, NamedTuple, Self

import resume_gym
from resume_gym.agents import AGENTS
from resume_gym.env import make_edit_env
from resume_gym.episode.editing import AnySession, Rules
from resume_gym.episode.session import Session
from resume_gym.episode.tasks import EDITION
from resume_gym.evaluation.comparison import Comparison, Statistics, compare, statistics_of
from resume_gym.evaluation.loop import PendingEpisode, episode_seed, evaluate, play_all
from resume_gym.evaluation.players import Player
from resume_gym.evaluation.records import Episode
from resume_gym.evaluation.results import (
    RECORD_ERRORS,
    Results,
    check_row,
    choose,
    digest,
    row_of,
)
from resume_gym.evaluation.stored import FORMAT
from resume_gym.evaluation.summary import Summary, summarise
from resume_gym.judges import Judge
from resume_gym.llm import Usage
from resume_gym.support.user_errors import TaskError


@dataclass(frozen=True)
class Contest:
    """Settings of an evaluation, shared by all agents.

    Attributes:
        env: id of the environment.
        rules: limits of an episode, such as its number of turns.
        source: task source, as in `load_tasks`.
        split: split of the tasks.
        tasks: tasks that all agents play.
        judge_spec: the user's specification of the judge; the judge's name if the user gave none.
        judge: judge that grades the episodes.
        rollouts: episodes per task and agent.
        seed: number from which the seeds of all episodes are derived.
        session_type: session class of the environment.
        limit: maximum number of tasks chosen from the split; None for all.
        grows: whether later commands may add tasks to the folder of the results. If so, only a
            replay of the stored episodes shows that the content of the tasks is the same.
    """

    env: str
    rules: Rules
    source: str
    split: str
    tasks: Sequence[Any]
    judge_spec: str
    judge: Judge
    rollouts: int
    seed: int
    session_type: type[AnySession]
    limit: int | None = None
    grows: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the evaluation as JSON values."""
        return {
            "env": self.env,
            "rules": asdict(self.rules),
            "tasks": self.source,
            "split": self.split,
            "limit": self.limit,
            "judge": self.judge_spec,
            "rollouts": self.rollouts,
            "seed": self.seed,
            "edition": EDITION,
        }

    @cached_property
    def floors(self) -> dict[str, float]:
        """Reward of the agent `floor` on each task; empty unless `rubric` grades resumes."""
        kind, rules = self.session_type, self.rules
        # other judges may call a model, so that the floor agent's episodes would cost money
        if self.judge.name != "rubric" or not issubclass(kind, Session):
            return {}
        played = evaluate(AGENTS["floor"], self.tasks, rules, self.judge, 1, self.seed, kind)
        return {one.task_id: one.reward for one in played}

    def held_to(self, entries: Iterable["Entry"]) -> dict[str, Any]:
        """Return the settings that `Results` compares with those stored in its folder."""
        agents = {entry.name: entry.spec for entry in entries}
        tasks = () if self.grows else self.tasks
        return {**self.settings, "tasks_digest": digest(tasks), "agents": agents}


def make_contest(
    env: str,
    source: str | None,
    split: str,
    judge: str | None,
    rollouts: int,
    seed: int,
    limit: int | None = None,
) -> Contest:
    """Make the settings of an evaluation from an environment's settings and the user's choices.

    Args:
        env: id of an editing environment, or module:id.
        source: source of tasks; None for the environment's default.
        split: split of the tasks.
        judge: spec of the judge, as in `make_judge`; None for the environment's default judge.
        rollouts: episodes per task and agent.
        seed: number from which the seeds of all episodes are derived.
        limit: maximum number of tasks, chosen independently of the seed; a higher limit includes
            the tasks of a lower limit. None plays all tasks.

    Raises:
        TaskError: the environment does not exist, or its tasks or judge cannot be loaded.
    """
    made = make_edit_env(env, tasks=source, split=split, judge=judge)
    grades = made.judge
    if grades is None:
        raise TaskError(f"--judge: expected a judge, since {env} has no default judge")
    named = made.source, split, choose(made.tasks, limit), judge or grades.name
    return Contest(env, made.rules, *named, grades, rollouts, seed, made.session_type, limit)


Key = tuple[int, str]
"""Key of an agent's episode: rollout and task id."""


@dataclass
class Entry:
    """One agent and its episodes.

    Attributes:
        name: display name of the agent.
        spec: the agent's spec as JSON values.
        make: function that creates the player; called only if episodes are left to play.
        usage: function that returns the usage so far: the total as "agent" and, for an agent with
            two models, that of each model by its name in `tiers.TIERS`. Empty without a server.
        judge_usage: usage of a model judge for this agent's episodes; None for other judges.
        left: sessions of the episodes that are left to play or to grade; None for new sessions.
        episodes: graded episodes.
        failures: error messages of failed episodes.
        ended: number of episodes that ended in this process, graded or failed.
    """

    name: str
    spec: Any
    make: Callable[[], Player]
    usage: Callable[[], dict[str, Usage]] = dict
    judge_usage: Usage | None = None
    left: dict[Key, AnySession | None] = field(default_factory=dict)
    episodes: dict[Key, Episode] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)
    ended: int = 0

    @property
    def task_ids(self) -> set[str]:
        """Ids of the tasks of all ended episodes, graded or failed."""
        return {task for _, task in (*self.episodes, *self.failures)}

    def spent(self) -> dict[str, Usage]:
        """Return requests, tokens and cost in this process, by name.

        The names are "agent" and "judge" (totals), "episode" (the agent's mean per episode), and
        "local" and "frontier" (the models of an agent with two models; see `tiers`).
        """
        spent = self.usage()
        if "agent" in spent and self.ended:
            spent["episode"] = spent["agent"].mean(self.ended)
        return spent | ({"judge": self.judge_usage} if self.judge_usage else {})

    def take(self, job: PendingEpisode) -> None:
        """Store an ended episode, graded or failed."""
        key = job.rollout, job.session.task.task_id
        self.ended += 1
        if job.failure:
            self.failures[key] = job.failure
        else:
            self.episodes[key] = Episode.of(job.session)

    def played(self, contest: Contest) -> list[Episode]:
        """Return the graded episodes, sorted by rollout and then by task."""
        order = {task.task_id: number for number, task in enumerate(contest.tasks)}
        keys = sorted(self.episodes, key=lambda key: (key[0], order[key[1]]))
        return [self.episodes[key] for key in keys]

    def failed(self) -> list[dict[str, Any]]:
        """Return the episodes without a reward, and the reasons, as JSON values."""
        return [
            {"task_id": task, "rollout": rollout, "why": why}
            for (rollout, task), why in self.failures.items()
        ]


def restore(contest: Contest, entries: Sequence[Entry], results: Results) -> None:
    """Load the entries' episodes from a results folder by replaying their records.

    Graded episodes move from `Entry.left` to `Entry.episodes`. Finished episodes without a verdict
    become sessions in `Entry.left`. Two kinds of records are ignored: unfinished episodes, and
    episodes whose actions differ from those of the session in `Entry.left`.

    Raises:
        TaskError: a record is invalid, names an unknown agent or task, or differs from its replay.
    """
    by_name = {entry.name: entry for entry in entries}
    tasks = {task.task_id: task for task in contest.tasks}
    for row in results.rows():
        entry, task = by_name.get(row["agent"]), tasks.get(row["task_id"])
        if entry is None or task is None:
            raise TaskError(
                f"{results.folder}: unexpected episode of {row['agent']} on {row['task_id']}"
            )
        try:
            session = contest.session_type.replay(task, row)
            check_row(row, session, contest.rollouts)
        except RECORD_ERRORS as problem:
            message = f"rollout {row['rollout']!r:.40} of {row['agent']} cannot be replayed"
            raise TaskError(f"{results.folder}: {message}: {problem}") from None
        key = row["rollout"], row["task_id"]
        planned = entry.left.get(key)
        if key not in entry.left or (planned and planned.record()["actions"] != row["actions"]):
            continue
        if row["graded"]:
            del entry.left[key]
            entry.episodes[key] = Episode.of(session)
        elif session.done:
            entry.left[key] = session


def play_entry(
    contest: Contest,
    entry: Entry,
    max_concurrency: int | None,
    results: Results | None,
    ended: Callable[[], object],
) -> None:
    """Play and grade the episodes `entry.left`; raises the errors of `play_all`.

    Args:
        contest: settings of the evaluation.
        entry: the agent and its episodes so far; new episodes are added.
        max_concurrency: number of concurrent episodes; None for the player's default.
        results: writer that appends each episode to the output folder; None writes nothing.
        ended: callback after each episode, graded or failed.
    """
    before: Usage | None = getattr(contest.judge, "usage", None)
    tasks = {task.task_id: task for task in contest.tasks}
    left, entry.left = entry.left, {}
    jobs = (
        PendingEpisode(
            rollout,
            session or contest.session_type(tasks[task], contest.rules),
            episode_seed(contest.seed, rollout, task),
        )
        for (rollout, task), session in left.items()
    )

    def take(job: PendingEpisode) -> None:
        entry.take(job)
        if before:
            entry.judge_usage = contest.judge.usage - before  # type: ignore[attr-defined]
        if results:
            told = {"costs": job.costs, "asked": job.asked}
            results.append(row_of(entry.name, job.rollout, job.session, job.failure, **told))
        ended()

    async def run(player: Player) -> None:
        try:
            limit = max_concurrency or player.max_concurrency
            await play_all(player, jobs, contest.judge, limit, take)
        finally:
            await player.close()

    if left:
        asyncio.run(run(entry.make()))


class Figures(NamedTuple):
    """Results of an evaluation; agents without a graded episode are left out.

    Attributes:
        summaries: means and rates over episodes, by agent.
        statistics: statistics over tasks, by agent.
        comparisons: paired comparisons of the agents; empty without scipy.
        spent: requests, tokens and cost in this process, by agent; see `Entry.spent`.
    """

    summaries: dict[str, Summary]
    statistics: dict[str, Statistics]
    comparisons: Sequence[Comparison]
    spent: Mapping[str, Mapping[str, Usage]]

    @classmethod
    def of(
        cls, contest: Contest, groups: Sequence[Sequence[Entry]], best_of: Collection[int] = ()
    ) -> Self:
        """Compute the figures of the episodes so far; agents are compared within their group.

        Args:
            contest: settings of the evaluation.
            groups: agents and their episodes.
            best_of: values of k for `Summary.best_of`.
        """
        graded = [entry for group in groups for entry in group if entry.episodes]
        played = {entry.name: entry.played(contest) for entry in graded}
        sure = find_spec("scipy") is not None
        comparisons: list[Comparison] = []
        for group in groups if sure else ():
            of_tasks = len(set[str]().union(*(entry.task_ids for entry in group)))
            own = {entry.name: played[entry.name] for entry in group if entry.episodes}
            comparisons += compare(own, of_tasks)
        return cls(
            {name: summarise(episodes, best_of) for name, episodes in played.items()},
            {
                one.name: statistics_of(
                    played[one.name], sure, len(one.failures), len(one.task_ids), contest.floors
                )
                for one in graded
            },
            comparisons,
            {entry.name: entry.spent() for entry in graded},
        )


def evaluation(contest: Contest, entries: Sequence[Entry], figures: Figures) -> dict[str, Any]:
    """Return the content of `evaluation.json`; an agent without a graded episode has no summary."""
    agents = {}
    for entry in entries:
        summary, statistics = figures.summaries.get(entry.name), figures.statistics.get(entry.name)
        agents[entry.name] = {
            "spec": entry.spec,
            "summary": asdict(summary) if summary else None,
            "statistics": asdict(statistics) if statistics else None,
            "failures": entry.failed(),
            "spent": {name: asdict(usage) for name, usage in entry.spent().items()},
        }
    return {
        "format": FORMAT,
        "resume_gym": resume_gym.__version__,
        **contest.settings,
        "floor": fmean(contest.floors.values()) if contest.floors else None,
        "agents": agents,
        "comparisons": [asdict(comparison) for comparison in figures.comparisons],
    }
