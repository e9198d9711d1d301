"""Several agents on the same tasks under the same judge: who has played what, and what is left."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple, Self

import resume_gym
from resume_gym.arguments import make_edit_env
from resume_gym.editing import EditSession, Rules
from resume_gym.evaluation.comparison import Comparison, Statistics, compare, statistics_of
from resume_gym.evaluation.episodes import episode_seed
from resume_gym.evaluation.figures import Episode, Summary, summarise
from resume_gym.evaluation.loop import Job, play_all
from resume_gym.evaluation.players import Player
from resume_gym.evaluation.results import FORMAT, Results, digest, row_of
from resume_gym.judges import Judge
from resume_gym.tasks import TaskError


@dataclass(frozen=True)
class Contest:
    """What is played.

    Attributes:
        env: id of the environment.
        rules: the limits of an episode.
        source: of the tasks.
        split: of the tasks.
        tasks: all that are played.
        judge_spec: as it was asked for.
        judge: grades.
        rollouts: episodes a task.
        seed: of what is drawn.
        session_type: the class of the sessions.
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
    session_type: type[EditSession[Any, Any]]

    @property
    def settings(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "env": self.env,
            "rules": asdict(self.rules),
            "tasks": self.source,
            "split": self.split,
            "judge": self.judge_spec,
            "rollouts": self.rollouts,
            "seed": self.seed,
        }

    def held_to(self, agents: Mapping[str, Any]) -> dict[str, Any]:
        """What another evaluation in the same folder must have in common; see `Results`."""
        return {**self.settings, "tasks_digest": digest(self.tasks), "agents": dict(agents)}


def make_contest(
    env: str,
    source: str | None,
    split: str,
    judge: str | None,
    rollouts: int,
    seed: int,
) -> Contest:
    """What an environment's registration and a user's wishes come to.

    Args:
        env: id of an environment of editing, or module:id.
        source: of tasks; None for the environment's.
        split: of the tasks.
        judge: a spec of `make_judge`; None for the environment's.
        rollouts: episodes a task.
        seed: of what is drawn.

    Raises:
        TaskError: there is no such environment, or its tasks or its judge cannot be had.
    """
    made = make_edit_env(env, tasks=source, split=split, judge=judge)
    try:
        grades = made.judge
    except ValueError as problem:
        raise TaskError(f"--judge: {str(problem).removeprefix('judge: ')}") from None
    if grades is None:
        raise TaskError(f"--judge: {env} has none of its own")
    registered = made.spec.kwargs if made.spec else {}
    default = inspect.signature(type(made).__init__).parameters["tasks"].default
    named = registered.get("tasks", default), split, made.tasks, judge or grades.name
    return Contest(env, made.rules, *named, grades, rollouts, seed, made.session_type)


class Failure(NamedTuple):
    """An episode without a number."""

    task_id: str
    rollout: int
    why: str


@dataclass
class Entry:
    """One agent, and what it has played.

    Attributes:
        name: by which it is shown.
        spec: what it is, as JSON values.
        make: makes its player; not before there is something left to play.
        episodes: that were graded, by rollout and task.
        failures: why others have no number, likewise.
        waiting: finished before, and not graded yet.
    """

    name: str
    spec: Any
    make: Callable[[], Player]
    episodes: dict[tuple[int, str], Episode] = field(default_factory=dict)
    failures: dict[tuple[int, str], str] = field(default_factory=dict)
    waiting: dict[tuple[int, str], EditSession[Any, Any]] = field(default_factory=dict)

    def left(self, contest: Contest) -> Iterator[Job]:
        """What is to be played or graded, each task once before any again."""
        for rollout, task in product(range(contest.rollouts), contest.tasks):
            key = rollout, task.task_id
            if key not in self.episodes:
                session = self.waiting.get(key) or contest.session_type(task, contest.rules)
                yield Job(rollout, session, episode_seed(contest.seed, rollout, task.task_id))

    def take(self, job: Job) -> Episode | None:
        """Keep what came of an episode; None if it has no number."""
        key = job.rollout, job.session.task.task_id
        if job.failure:
            self.failures[key] = job.failure
            return None
        self.episodes[key] = Episode.of(job.session)
        return self.episodes[key]

    def played(self, contest: Contest) -> list[Episode]:
        """The graded episodes, in the order of rollouts and tasks, however they ended."""
        keys = product(range(contest.rollouts), (task.task_id for task in contest.tasks))
        return [self.episodes[key] for key in keys if key in self.episodes]

    def failed(self) -> list[Failure]:
        """The episodes without a number."""
        return [Failure(task, rollout, why) for (rollout, task), why in self.failures.items()]


def restore(contest: Contest, entries: Sequence[Entry], results: Results) -> None:
    """Give entries what is in a folder; what failed is left to be tried again.

    Raises:
        TaskError: a record comes out differently than it did.
    """
    by_name = {one.name: one for one in entries}
    tasks = {task.task_id: task for task in contest.tasks}
    for row in results.rows():
        entry, task = by_name.get(row["agent"]), tasks.get(row["task_id"])
        if entry is None or task is None:
            raise TaskError(
                f"{results.folder}: nobody asked for {row['agent']} on {row['task_id']}"
            )
        try:
            session = contest.session_type.replay(task, row)
        except (ValueError, KeyError, TypeError) as problem:
            told = f"rollout {row['rollout']} of {row['agent']} cannot be played again"
            raise TaskError(f"{results.folder}: {told}: {problem}") from None
        key = row["rollout"], row["task_id"]
        if row["graded"]:
            entry.episodes[key] = Episode.of(session)
        elif session.done:
            entry.waiting[key] = session


def play_entry(
    contest: Contest,
    entry: Entry,
    at_once: int | None,
    results: Results | None,
    ended: Callable[[Episode | None], object],
) -> None:
    """Play all that an agent has left; raises as `play_all` does.

    Args:
        contest: what is played.
        entry: takes the episodes.
        at_once: episodes side by side; None is the player's own.
        results: where they are kept.
        ended: called after each; with None if it has no number.
    """

    def take(job: Job) -> None:
        episode = entry.take(job)
        if results:
            results.append(row_of(entry.name, job.rollout, job.session, job.failure))
        ended(episode)

    async def run(player: Player) -> None:
        jobs = entry.left(contest)
        try:
            await play_all(player, jobs, contest.judge, at_once or player.at_once, take)
        finally:
            await player.close()

    if next(entry.left(contest), None):
        asyncio.run(run(entry.make()))


class Figures(NamedTuple):
    """What came of it; agents without a graded episode are left out.

    Attributes:
        summaries: means and rates, by agent.
        statistics: over tasks, by agent.
        comparisons: of each pair of agents; empty without scipy.
    """

    summaries: dict[str, Summary]
    statistics: dict[str, Statistics]
    comparisons: Sequence[Comparison]

    @classmethod
    def of(cls, contest: Contest, entries: Sequence[Entry], sure: bool) -> Self:
        """Make them.

        Args:
            contest: what was played.
            entries: who played.
            sure: whether to make intervals and tests, which takes scipy.
        """
        everything = {one.name: one.played(contest) for one in entries}
        played = {name: some for name, some in everything.items() if some}
        failed = {one.name: len(one.failures) for one in entries}
        statistics = {
            name: replace(one, failed=failed[name])
            for name, one in statistics_of(played, sure).items()
        }
        summaries = {name: summarise(some) for name, some in played.items()}
        return cls(summaries, statistics, compare(played) if sure else ())


def evaluation(contest: Contest, entries: Sequence[Entry], figures: Figures) -> dict[str, Any]:
    """All figures as JSON values; an agent without a graded episode has none."""
    agents = {}
    for one in entries:
        summary, statistics = figures.summaries.get(one.name), figures.statistics.get(one.name)
        agents[one.name] = {
            "spec": one.spec,
            "summary": asdict(summary) if summary else None,
            "statistics": asdict(statistics) if statistics else None,
            "failures": [failure._asdict() for failure in one.failed()],
        }
    return {
        "format": FORMAT,
        "resume_gym": resume_gym.__version__,
        **contest.settings,
        "agents": agents,
        "comparisons": [asdict(one) for one in figures.comparisons],
    }
