"""Orchestrator: plays, grades and stores thousands of concurrent episodes in one asyncio loop.

The loop is that of `resume_gym.evaluation.loop`, in which `resume-gym eval` plays agents, too.

A step waits for all its episodes, since dropping slow episodes would bias training towards short
episodes. The caller limits staleness by choosing when it requests the episodes of a step.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from itertools import count, groupby
from statistics import fmean
from typing import Any, NamedTuple

from learners.engines import Completion, Engine, RefusedError, Sampling
from learners.rollouts import comparisons, drafts, feedback, second_judge, teacher
from learners.rollouts.batch import Batch
from learners.rollouts.curriculum import Curriculum, Drawn
from learners.rollouts.journal import Faults, Note, Watchdog
from learners.rollouts.measures import measures, vocabulary
from learners.rollouts.rollout import NOT_SAMPLED, EpisodeError, Rollout, environment, play
from learners.rollouts.trajectories import Trajectories
from learners.rollouts.workload import Workload
from resume_gym.evaluation import Loop, Returns, grade
from resume_gym.judges import AsyncJudge, JudgeMisconfigured, group_weight, together
from resume_gym.support.user_errors import number_of

GROUP_SHARE = 0.75
"""Minimum share of graded episodes in a group, such as 12 of 16; a group with fewer is dropped."""
_JUDGE_THREADS = 32
Store = Callable[[Rollout], Awaitable[None]]
"""Function that stores a finished rollout."""


class HeldOutResult(NamedTuple):
    """Result of an evaluation on the held-out tasks.

    Attributes:
        summary: figures of the graded episodes.
        versions: oldest and newest version of the weights that sampled the episodes.
        dropped_episodes: number of failed episodes, which are not in the summary.
        seconds: duration of the evaluation in seconds.
    """

    summary: Returns
    versions: tuple[int, int]
    dropped_episodes: int
    seconds: float


class Orchestrator:
    """Player of the episodes of steps and evaluations; runs in the event loop of the caller.

    Args:
        work: tasks, rules and judge.
        curriculum: draws the tasks of a step.
        eval_rollouts: number of rollouts per held-out task.
        sampling: sampling parameters in training, except the seed, which is set for each turn.
        eval_temperature: sampling temperature in evaluations.
        timeout_s: time limit for a verdict in seconds, including retries; see `grade`.
        engine: samples tokens.
        trajectories: storage of rollouts, from which a resumed run restores unfinished steps; None
            to store nothing.
        note: called with sentences for the journal about dropped or waiting episodes.
        by_edit: whether the judge grades all drafts of training episodes; see `drafts`.
        feedback_turns: maximum number of turns of a training episode that get a hint; see
            `feedback`. A number above 0 needs `by_edit`.
        teacher_url: server of a teacher of the sampled tokens; empty for none.

    Attributes:
        watchdog: reports waiting episodes while its method `watch` runs.
    """

    def __init__(
        self,
        work: Workload,
        curriculum: Curriculum,
        eval_rollouts: int,
        sampling: Sampling,
        eval_temperature: float,
        timeout_s: float,
        engine: Engine,
        trajectories: Trajectories | None,
        note: Note,
        by_edit: bool = False,
        feedback_turns: int = 0,
        teacher_url: str = "",
    ) -> None:
        self._work, self._curriculum, self._eval_rollouts = work, curriculum, eval_rollouts
        self._sampling, self._timeout_s = sampling, timeout_s
        self._eval_sampling = replace(sampling, temperature=eval_temperature)
        self._engine = engine
        self._trajectories = trajectories
        self._evaluated: dict[int, list[Rollout]] = {}  # those of the running evaluations, by step
        self.watchdog, self._faults = Watchdog(note), Faults(note)
        self._threads = ThreadPoolExecutor(_JUDGE_THREADS, thread_name_prefix="judge")
        self._judge: Any = work.judge  # None if no session needs a verdict
        limits = timeout_s, self._threads, self._faults
        self._grader = drafts.Drafts(work.judge, *limits) if by_edit and work.judge else None
        self._feedback_turns, self._teacher_url = feedback_turns, teacher_url
        # async judges are slow and may fail, so rollouts are stored before and after grading
        self._judge_waits = isinstance(work.judge, AsyncJudge)
        self._keys = count()
        self._words: Mapping[str, int] | None = None
        self._means = cache(self._read_means)

    async def batch(self, step: int) -> Batch:
        """Play and grade the episodes of a step, except those already stored.

        If the engine is repeatable and some episodes are not stored, all episodes are played again,
        since the sampled tokens depend on the whole batch.

        Raises:
            EngineError: the engine returned no tokens.
            JudgeError, EpisodeError: every group has too few graded episodes.
            ConfigError: the stored rollouts belong to another run.
        """
        groups, size = self._curriculum.groups, self._curriculum.group_size
        drawn = self._curriculum.draw(self._work.tasks, step, self._means)
        self.watchdog.lag_s = 0.0
        complete, failures = await self._play_groups(step, drawn, range(groups))
        equal = [group for group in complete if len({one.reward for one in group}) == 1]
        replaced: list[list[Rollout]] = []
        if equal and self._curriculum.spare:
            more, failed = await self._play_groups(step, drawn, range(groups, groups + len(equal)))
            failures += failed
            if more:
                replaced = equal
                complete = [group for group in complete if group not in equal] + more
        if not complete:
            raise _failed(failures, groups * size)
        if self._trajectories:
            self._trajectories.sync(step)
        kept = [rollout for group in complete for rollout in group]
        if self._teacher_url:
            await teacher.ask(kept, self._teacher_url, self._work.chat, self._timeout_s)
        marked = {}
        if turns := self._feedback_turns:
            for rollout in kept:
                rollout.hinted = feedback.hinted(rollout, self._work.chat, turns)
            marked = {"marked_turns": sum(len(rollout.hinted) for rollout in kept)}
        return Batch(
            step=step,
            rollouts=kept,
            summary=self._summary(kept),
            dropped_episodes=len(failures),
            dropped_groups=groups - len(complete),
            lag_s=self.watchdog.lag_s,
            judge_usage=getattr(self._judge, "usage", None),
            replaced=replaced,
            level=drawn.level,
            measures={
                **measures(kept, self._first_words(step, kept)),
                **drafts.measures([one.earned or () for one in kept]),
                **comparisons.measures(complete),
                **marked,
                **await self._second_opinion(step, kept),
            },
        )

    async def _second_opinion(self, step: int, rollouts: Sequence[Rollout]) -> Mapping[str, float]:
        """Return the metrics of the second judge; empty if it does not grade this step."""
        judge, every = self._work.second_judge, self._work.second_judge_every
        if judge is None or (step - 1) % every:
            return {}
        limits = self._timeout_s, self._threads
        return await second_judge.compare(rollouts, judge, *limits, self._faults)

    def _first_words(self, step: int, rollouts: Sequence[Rollout]) -> Mapping[str, int]:
        """Return the counts of the words written in the first step; empty in that step itself."""
        toolbox = getattr(rollouts[0].session, "toolbox", None)
        if self._words is None and self._trajectories and toolbox and step > 1:
            records = self._trajectories.graded(1)
            actions = (action for record in records for action in record["actions"])
            self._words = vocabulary(toolbox, actions)
        return self._words or {}

    async def _play_groups(
        self, step: int, drawn: Drawn, places: range
    ) -> tuple[list[list[Rollout]], list[Exception]]:
        """Play `drawn.tasks[places]`; return groups with enough graded episodes, and all errors."""
        numbers, size = self._curriculum.numbers(step), self._curriculum.group_size
        tasks = [drawn.tasks[place] for place in places]
        rollouts, unopened = self._open(tasks, size, numbers[places.start])
        stored = self._trajectories
        if stored:
            rollouts = stored.restore(step, rollouts, numbers, whole=self._engine.repeatable)
        first = size * places.start
        seeded = [
            replace(self._sampling, seed=(drawn.seed, first + i)) for i in range(len(rollouts))
        ]
        store = partial(self._store, step=step, stored=stored, grader=self._grader)
        graded, failures = await self._play_all(rollouts, seeded, store)
        complete = _complete(graded, size)
        if group_weight(self._judge):
            failures += await self._compare(complete, step, stored)
            compared = (one for group in complete for one in group if one.error is None)
            complete = _complete(compared, size)
        return complete, failures + unopened

    async def _compare(
        self, groups: Sequence[Sequence[Rollout]], step: int, stored: Trajectories | None
    ) -> list[Exception]:
        """Compare the members of each group, and store them; drop and return those that failed."""

        async def work(group: Sequence[Rollout]) -> list[Exception]:
            with self.watchdog.waiting(id(group[0]), f"judge {self._judge.name!r}"):
                errors = await comparisons.compare(group, self._judge, self._timeout_s)
            for rollout, error in zip(group, errors, strict=True):
                if isinstance(error, JudgeMisconfigured):
                    raise error
                if error is not None:
                    self._drop(rollout, error)
                elif stored:
                    stored.append(step, rollout)
            return [error for error in errors if error is not None]

        # a resumed run compares a group anew unless all of its members were stored after it
        new = [group for group in groups if any(one.comparison is None for one in group)]
        return [error for errors in await together(map(work, new)) for error in errors]

    def _read_means(self, step: int) -> dict[int, float]:
        """Return the mean reward of each group of an earlier step, from the stored rollouts."""
        records = self._trajectories.graded(step) if self._trajectories else []
        groups = groupby(records, lambda record: int(record["group"]))
        return {n: fmean(float(one["reward"]) for one in group) for n, group in groups}

    async def evaluate(self, step: int) -> HeldOutResult:
        """Play the held-out tasks, always with the same seeds; evaluations may be concurrent.

        The episodes are stored in the trajectory file of the evaluation after `step`. An existing
        file is deleted first, since other weights may have sampled its episodes.

        Raises:
            EngineError: the engine returned no tokens.
            JudgeError, EpisodeError: fewer than three quarters of the episodes were graded.
        """
        began = time.monotonic()
        rollouts, unopened = self._open(self._work.held_out, self._eval_rollouts)
        episodes = len(rollouts) + len(unopened)
        stored = self._trajectories and self._trajectories.held_out()
        if stored:
            stored.path(step).unlink(missing_ok=True)
        seeded = [replace(self._eval_sampling, seed=(0, i)) for i in range(len(rollouts))]
        store = partial(self._store, step=step, stored=stored)
        self._evaluated[step] = rollouts
        graded, failures = await self._play_all(rollouts, seeded, store)
        del self._evaluated[step]
        failures += unopened
        if failures and len(graded) < GROUP_SHARE * episodes:
            raise _failed(failures, episodes)
        if stored:
            stored.sync(step)
        versions = {v for rollout in graded for v in rollout.versions if v != NOT_SAMPLED}
        limits, seconds = (min(versions), max(versions)), time.monotonic() - began
        return HeldOutResult(self._summary(graded), limits, len(failures), seconds)

    @property
    def evaluation(self) -> str:
        """Progress of the running evaluations, as text; empty if none is running.

        Episodes that are played in step with each other end together, so turns count, too.
        """
        rollouts = [one for played in [*self._evaluated.values()] for one in played]
        if not rollouts:
            return ""
        sessions = [one.session for one in rollouts if one.error is None]
        left = sum(not one.done or one.needs_verdict for one in sessions)
        episodes = number_of(len(rollouts), "episode")
        turns = number_of(sum(one.session.turns for one in rollouts), "turn")
        return f"evaluation: {len(rollouts) - left:,} of {episodes}, {turns}"

    def _open(
        self, tasks: Sequence[Any], members: int, first: int = 0
    ) -> tuple[list[Rollout], list[Exception]]:
        """Return unplayed rollouts, a group per task, and an error for each rollout not created."""
        rollouts: list[Rollout] = []
        failures: list[Exception] = []
        for group, task in enumerate(tasks, first):
            try:
                with environment():
                    session = self._work.session(task)
                    prompt = self._work.chat.prompt(session.system_prompt, session.prompt)
                    rollouts += [Rollout(group, i, session.fork(), prompt) for i in range(members)]
            except EpisodeError as error:
                failures += [error] * members
                self._faults.report(f"All episodes of {task.task_id} are dropped", error)
        return rollouts, failures

    def _summary(self, rollouts: Sequence[Rollout]) -> Returns:
        return self._work.summary_type.of(rollout.session for rollout in rollouts)

    async def _play_all(
        self,
        rollouts: Sequence[Rollout],
        samplings: Sequence[Sampling],
        store: Store,
    ) -> tuple[list[Rollout], list[Exception]]:
        """Play and grade rollouts; return the successful rollouts, and the errors of the others."""
        groups: list[list[Rollout]] = []
        if getattr(self._judge, "grouped", False):
            groups = [list(members) for _, members in groupby(rollouts, lambda one: one.group)]
        seeded = dict(zip(map(id, rollouts), samplings, strict=True))
        loop = Loop(
            lambda rollout: self._play(rollout, seeded[id(rollout)], store),
            partial(self._grade, store=store),
            groups=groups,
        )
        limit = self._engine.max_concurrency
        for first in range(0, len(rollouts), limit):
            chunk = rollouts[first : first + limit]
            await loop.run(chunk, len(chunk))
        graded = [rollout for rollout in rollouts if rollout.error is None]
        return graded, [rollout.error for rollout in rollouts if rollout.error is not None]

    async def _play(self, rollout: Rollout, sampling: Sampling, store: Store) -> None:
        """Play and store an episode; drop it if only this episode fails."""
        session, key = rollout.session, next(self._keys)
        try:
            try:
                if not session.done:
                    await play(rollout, key, self._generate, self._work.chat, sampling)
                    rollout.recall()
                    if self._judge_waits or not session.needs_verdict:
                        await store(rollout)
            finally:
                self._engine.release(key)
                with environment():
                    session.close()
        except (RefusedError, EpisodeError) as error:
            self._drop(rollout, error)

    async def _grade(self, rollouts: Sequence[Rollout], store: Store) -> None:
        """Grade finished episodes of one task, and store them with their verdicts."""
        sessions: list[Any] = [rollout.session for rollout in rollouts]
        with self.watchdog.waiting(id(rollouts[0]), f"judge {self._judge.name!r}"):
            errors = await grade(sessions, self._judge, self._timeout_s, self._threads)
        for rollout, error in zip(rollouts, errors, strict=True):
            if error is None or not self._judge_waits:
                # a rollout that is stored without a verdict is graded when the run is resumed
                await store(rollout)
            if error is not None:
                self._drop(rollout, error)

    async def _store(
        self,
        rollout: Rollout,
        step: int,
        stored: Trajectories | None,
        grader: drafts.Drafts | None = None,
    ) -> None:
        """Store a finished rollout and, if it is graded, what each of its turns earned."""
        session: Any = rollout.session
        if grader and not session.needs_verdict:
            rollout.earned = await grader.earned(session)
        if stored:
            stored.append(step, rollout)

    def _drop(self, rollout: Rollout, error: Exception) -> None:
        rollout.error = error
        self._faults.report(f"An episode of {rollout.session.task.task_id} is dropped", error)

    async def _generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        with self.watchdog.waiting(key, "the engine"):
            return await self._engine.generate(key, ids, sampling)

    def close(self) -> None:
        """Shut down the threads in which synchronous judges run."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _complete(rollouts: Iterable[Rollout], size: int) -> list[list[Rollout]]:
    """Return the groups that have at least `GROUP_SHARE` of their `size` members."""
    groups = [list(group) for _, group in groupby(rollouts, lambda rollout: rollout.group)]
    return [group for group in groups if len(group) >= GROUP_SHARE * size]


def _failed(failures: Sequence[Exception], episodes: int) -> Exception:
    """Return an error of the first failure's type, with the number of failures in its message."""
    first = failures[0]
    message = f"{len(failures)} of {number_of(episodes, 'episode')} failed, the first with: {first}"
    error = type(first)(message)
    error.__cause__ = first
    return error
