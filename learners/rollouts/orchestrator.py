"""Orchestrator: plays, grades and stores thousands of concurrent episodes in one asyncio loop.

The loop is that of `resume_gym.evaluation.loop`, in which `resume-gym eval` plays agents, too.

A step waits for all its episodes, since dropping slow episodes would bias training towards short
episodes. The caller limits staleness by choosing when it requests the episodes of a step.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from itertools import count, groupby
from statistics import fmean
from types import MappingProxyType
from typing import Any

from learners.engines import Completion, Engine, RefusedError, Sampling
from learners.rollouts import comparisons, drafts, second_judge, summaries, teacher
from learners.rollouts.batch import Batch
from learners.rollouts.curriculum import (
    Curriculum,
    Planned,
    first_of,
    planned_groups,
)
from learners.rollouts.journal import Faults, Note, Watchdog
from learners.rollouts.measures import vocabulary
from learners.rollouts.rollout import EpisodeError, Rollout, environment, play
from learners.rollouts.summaries import HeldOutResult
from learners.rollouts.tokens import ChatTokens
from learners.rollouts.trajectories import Trajectories
from learners.rollouts.workload import Workload
from learners.training.rows import Hinted
from resume_gym.evaluation import Loop, grade
from resume_gym.judges import AsyncJudge, JudgeMisconfigured, group_weight, together
from resume_gym.support.user_errors import number_of

GROUP_SHARE = 0.75
"""Minimum share of graded episodes in a group, such as 12 of 16; a group with fewer is dropped."""
_JUDGE_THREADS = 32
Store = Callable[[Rollout], Awaitable[None]]
"""Function that stores a finished rollout."""


class Orchestrator:
    """Player of the episodes of steps and evaluations; runs in the event loop of the caller.

    Args:
        works: tasks, rules and judge of each environment.
        curricula: draw the tasks of a step, one for each of `works`.
        eval_rollouts: number of rollouts per held-out task.
        sampling: sampling parameters in training, except the seed, which is set for each turn.
        eval_temperature: sampling temperature in evaluations.
        timeout_s: time limit for a verdict in seconds, including retries; see `grade`.
        engine: samples tokens.
        trajectories: storage of rollouts, from which a resumed run restores unfinished steps; None
            to store nothing.
        note: called with sentences for the journal about dropped or waiting episodes.
        by_edit: whether the judge grades all drafts of training episodes; see `drafts`.
        hinted: makes the contexts with hints of a training episode, such as `feedback.hinted`,
            which needs `by_edit`; None for no hints.
        teacher_url: URL of a server whose model scores the sampled tokens; empty for none.

    Attributes:
        watchdog: reports waiting episodes while its method `watch` runs.
    """

    def __init__(
        self,
        works: Sequence[Workload],
        curricula: Sequence[Curriculum],
        eval_rollouts: int,
        sampling: Sampling,
        eval_temperature: float,
        timeout_s: float,
        engine: Engine,
        trajectories: Trajectories | None,
        note: Note,
        by_edit: bool = False,
        hinted: Callable[[Rollout, ChatTokens], tuple[Hinted, ...]] | None = None,
        teacher_url: str = "",
    ) -> None:
        names = [work.env if len(works) > 1 else "" for work in works]
        self._works = dict(zip(names, works, strict=True))
        self._curricula = dict(zip(names, curricula, strict=True))
        self._group_size, self._numbers = curricula[0].group_size, curricula[0].numbers
        self._eval_rollouts = eval_rollouts
        self._sampling, self._timeout_s = sampling, timeout_s
        self._eval_sampling = replace(sampling, temperature=eval_temperature)
        self._engine = engine
        self._trajectories = trajectories
        self._evaluated: dict[int, list[Rollout]] = {}  # rollouts of running evaluations, by step
        self.watchdog, self._faults = Watchdog(note), Faults(note)
        self._threads = ThreadPoolExecutor(_JUDGE_THREADS, thread_name_prefix="judge")
        limits = timeout_s, self._threads, self._faults
        self._graders = {
            env: drafts.Drafts(work.judge, *limits) if work.judge else None
            for env, work in self._works.items()
            if by_edit
        }
        self._hinted, self._teacher_url = hinted, teacher_url
        self._keys = count()
        self._words: Mapping[str, int] | None = None
        self._playing: set[int] = set()  # steps whose episodes are not all stored
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
        drawn = {
            env: self._curricula[env].draw(work.tasks, step, self._means)
            for env, work in self._works.items()
        }
        groups, spares = planned_groups(step, self._curricula, drawn)
        seed = next(iter(drawn.values())).seed
        self._playing.add(step)
        self.watchdog.lag_s = 0.0
        complete, failures = await self._play_groups(step, groups, seed)
        equal = [group for group in complete if len({_earned(one) for one in group}) == 1]
        replaced: list[list[Rollout]] = []
        if equal and spares:
            wanted = Counter(map(_env_of, equal))
            instead = first_of(spares, lambda one: one.env, wanted)
            more, failed = await self._play_groups(step, instead, seed)
            failures += failed
            replaced = first_of(equal, _env_of, Counter(map(_env_of, more)))
            complete = [group for group in complete if group not in replaced] + more
        if not complete:
            raise _failed(failures, len(groups) * self._group_size)
        if self._trajectories:
            self._trajectories.sync(step)
        self._playing.discard(step)
        kept = [rollout for group in complete for rollout in group]
        if self._teacher_url:
            await teacher.ask(kept, self._teacher_url, self._of(kept[0]).chat, self._timeout_s)
        marked, words = {}, self._first_words(step)
        if self._hinted:
            for rollout in kept:
                rollout.hinted = self._hinted(rollout, self._of(rollout).chat)
            marked = {"marked_turns": sum(len(rollout.hinted) for rollout in kept)}
        return Batch(
            step=step,
            rollouts=kept,
            summary=summaries.summary(self._works, kept),
            dropped_episodes=len(failures),
            dropped_groups=len(groups) - len(complete),
            lag_s=self.watchdog.lag_s,
            judge_usage=summaries.usage(self._works),
            replaced=replaced,
            level=drawn[""].level if "" in drawn else None,
            measures={
                **summaries.measures_of(complete, words),
                **marked,
                **await self._second_opinion(step, kept),
                **summaries.by_env(self._works, complete, drawn, words),
            },
        )

    def _of(self, rollout: Rollout) -> Workload:
        return self._works[rollout.env]

    async def _second_opinion(self, step: int, rollouts: Sequence[Rollout]) -> Mapping[str, float]:
        """Return the metrics of the second judge; empty if it does not grade this step."""
        judges = {env: work.second_judge for env, work in self._works.items() if work.second_judge}
        every = next(iter(self._works.values())).second_judge_every
        if not judges or (step - 1) % every:
            return {}
        limits = self._timeout_s, self._threads
        return await second_judge.compare(rollouts, judges, *limits, self._faults)

    def _first_words(self, step: int) -> Mapping[str, int]:
        """Return the counts of the words written in the first step; empty until it has ended."""
        if self._words is None and self._trajectories and step > 1 and 1 not in self._playing:
            words = Counter[str]()
            for record in self._trajectories.graded(1):
                kind = self._works[record.get("env", "")].session_type
                if toolbox := getattr(kind, "toolbox", None):
                    words += vocabulary(toolbox, record["actions"])
            self._words = words
        return self._words or {}

    async def _play_groups(
        self, step: int, planned: Sequence[Planned], seed: int
    ) -> tuple[list[list[Rollout]], list[Exception]]:
        """Play groups; return those with enough graded episodes, and all errors."""
        numbers, size = self._numbers(step), self._group_size
        rollouts, unopened = self._open(planned, size)
        stored = self._trajectories
        if stored:
            rollouts = stored.restore(step, rollouts, numbers, whole=self._engine.repeatable)
        seeded = [
            replace(self._sampling, seed=(seed, size * numbers.index(one.group) + one.member))
            for one in rollouts
        ]
        store = partial(self._store, step=step, stored=stored, graders=self._graders)
        graded, failures = await self._play_all(rollouts, seeded, store)
        complete = _complete(graded, size)
        scored = [group for group in complete if group_weight(self._of(group[0]).judge)]
        if scored:
            failures += await self._compare(scored, step, stored)
            compared = (one for group in complete for one in group if one.error is None)
            complete = _complete(compared, size)
        return complete, failures + unopened

    async def _compare(
        self, groups: Sequence[Sequence[Rollout]], step: int, stored: Trajectories | None
    ) -> list[Exception]:
        """Compare and store the members of each group; drop those that fail, and return errors."""

        async def work(group: Sequence[Rollout]) -> list[Exception]:
            judge: Any = self._of(group[0]).judge
            with self.watchdog.waiting(id(group[0]), f"judge {judge.name!r}"):
                errors = await comparisons.compare(group, judge, self._timeout_s)
            for rollout, error in zip(group, errors, strict=True):
                if isinstance(error, JudgeMisconfigured):
                    raise error
                if error is not None:
                    self._drop(rollout, error)
                elif stored:
                    stored.append(step, rollout)
            return [error for error in errors if error is not None]

        # a resumed run compares a group anew unless all members were stored with a comparison
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
        planned = [(env, task) for env, work in self._works.items() for task in work.held_out]
        groups = [Planned(number, *one) for number, one in enumerate(planned)]
        rollouts, unopened = self._open(groups, self._eval_rollouts)
        stored = self._trajectories and self._trajectories.held_out()
        if stored:
            stored.path(step).unlink(missing_ok=True)
        seeded = [replace(self._eval_sampling, seed=(0, i)) for i in range(len(rollouts))]
        store = partial(self._store, step=step, stored=stored)
        self._evaluated[step] = rollouts
        graded, failures = await self._play_all(rollouts, seeded, store)
        del self._evaluated[step]
        failures += unopened
        kept = Counter(one.env for one in graded)
        for env, work in self._works.items():
            episodes = len(work.held_out) * self._eval_rollouts
            if failures and kept[env] < GROUP_SHARE * episodes:
                raise _failed(failures, len(groups) * self._eval_rollouts)
        if stored:
            stored.sync(step)
        seconds = time.monotonic() - began
        return HeldOutResult.of(self._works, graded, len(failures), seconds)

    @property
    def evaluation(self) -> str:
        """Progress of the running evaluations, as text; empty if none is running.

        Concurrent episodes end at about the same time, so the text also has the number of turns.
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
        self, planned: Iterable[Planned], members: int
    ) -> tuple[list[Rollout], list[Exception]]:
        """Return the unplayed rollouts of groups, and an error for each rollout not created."""
        rollouts: list[Rollout] = []
        failures: list[Exception] = []
        for group, env, task in planned:
            work = self._works[env]
            try:
                with environment():
                    session = work.session(task)
                    prompt = work.chat.prompt(session.system_prompt, session.prompt)
                    rollouts += [
                        Rollout(group, i, session.fork(), prompt, env=env) for i in range(members)
                    ]
            except EpisodeError as error:
                failures += [error] * members
                self._faults.report(f"All episodes of {task.task_id} are dropped", error)
        return rollouts, failures

    async def _play_all(
        self,
        rollouts: Sequence[Rollout],
        samplings: Sequence[Sampling],
        store: Store,
    ) -> tuple[list[Rollout], list[Exception]]:
        """Play and grade rollouts; return the successful rollouts, and the errors of the others."""
        groups = [
            members
            for members in _groups(rollouts)
            if getattr(self._of(members[0]).judge, "grouped", False)
        ]
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
        session, key, work = rollout.session, next(self._keys), self._of(rollout)
        try:
            try:
                if not session.done:
                    await play(rollout, key, self._generate, work.chat, sampling)
                    rollout.recall()
                    if _waits(work.judge) or not session.needs_verdict:
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
        judge: Any = self._of(rollouts[0]).judge
        with self.watchdog.waiting(id(rollouts[0]), f"judge {judge.name!r}"):
            errors = await grade(sessions, judge, self._timeout_s, self._threads)
        for rollout, error in zip(rollouts, errors, strict=True):
            if error is None or not _waits(judge):
                # a rollout that is stored without a verdict is graded when the run is resumed
                await store(rollout)
            if error is not None:
                self._drop(rollout, error)

    async def _store(
        self,
        rollout: Rollout,
        step: int,
        stored: Trajectories | None,
        graders: Mapping[str, drafts.Drafts | None] = MappingProxyType({}),
    ) -> None:
        """Store a finished rollout and, if it is graded, what each of its turns earned."""
        session: Any = rollout.session
        if rollout.env in graders and not session.needs_verdict:
            grader = graders[rollout.env]
            rollout.earned = await grader.earned(session) if grader else session.ledgers
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
    return [group for group in _groups(rollouts) if len(group) >= GROUP_SHARE * size]


def _groups(rollouts: Iterable[Rollout]) -> list[list[Rollout]]:
    return [list(group) for _, group in groupby(rollouts, lambda rollout: rollout.group)]


def _waits(judge: object) -> bool:
    # async judges are slow and may fail, so rollouts are stored before and after grading
    return isinstance(judge, AsyncJudge)


def _env_of(group: Sequence[Rollout]) -> str:
    return group[0].env


def _earned(rollout: Rollout) -> tuple[float, ...]:
    """Return all that advantages depend on: the reward and, with credit by edit, each turn's."""
    turns = rollout.earned or ()
    return rollout.reward, *(round(sum(turn.values()), 9) for turn in turns)


def _failed(failures: Sequence[Exception], episodes: int) -> Exception:
    """Return an error of the first failure's type, with the number of failures in its message."""
    first = failures[0]
    message = f"{len(failures)} of {number_of(episodes, 'episode')} failed, the first with: {first}"
    error = type(first)(message)
    error.__cause__ = first
    return error
