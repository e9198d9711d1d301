"""Orchestrator: plays, grades and stores thousands of concurrent episodes in one asyncio loop.

The seed and the number of a step determine its groups, independently of the order in which
episodes end. Slow episodes are waited for: dropping them would bias training towards short ones.
The caller limits staleness by when it starts the episodes of a step.
"""

import asyncio
import time
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from textwrap import indent
from typing import Any, NamedTuple

import numpy as np

from learners.config import Config
from learners.engines import Completion, Engine, RefusedError, Sampling
from learners.rollouts.rollout import NOT_SAMPLED, EpisodeError, Rollout, environment, play
from learners.rollouts.trajectories import Trajectories
from learners.rollouts.workload import Workload
from resume_gym.evaluation import Returns, grade
from resume_gym.judges import AsyncJudge, JudgeError, JudgeMisconfigured
from resume_gym.llm import ModelError, Usage

GROUP_SHARE = 0.75
"""Minimum share of successful episodes in a group (12 of 16); other groups are dropped."""
ALARM_S = 60.0
"""Waiting time in seconds after which the journal reports an episode."""
Store = Callable[[Rollout], None]
"""Stores a finished rollout, and again with its verdict."""
_JUDGE_THREADS = 32
_LAG_S = 0.02


class StepRollouts(NamedTuple):
    """The rollouts of a step.

    Attributes:
        rollouts: rollouts of all groups that were not dropped, group by group.
        dropped_episodes: number of episodes without tokens or verdict, or with an environment that
            failed; not in `rollouts`.
        dropped_groups: number of groups with too few episodes.
        lag_s: maximum delay of the event loop in seconds, while they were played.
        summary: figures of `rollouts`.
        judge_usage: what a model judge was asked since this process started; None for others.
    """

    rollouts: list[Rollout]
    dropped_episodes: int
    dropped_groups: int
    lag_s: float
    summary: Returns
    judge_usage: Usage | None = None


class Evaluation(NamedTuple):
    """Result on the held-out tasks.

    Attributes:
        summary: figures of the episodes.
        versions: the first and the last version of the weights that sampled them.
        dropped_episodes: number of episodes without tokens or verdict, not in the summary.
    """

    summary: Returns
    versions: tuple[int, int]
    dropped_episodes: int


class Orchestrator:
    """Plays the episodes of steps and evaluations, in the event loop of the caller.

    Args:
        config: settings of the run.
        work: tasks, rules and judge.
        engine: samples tokens.
        trajectories: storage of rollouts, those of steps also read by resumed runs; None stores
            nothing.
        note: called with a sentence on dropped and waiting episodes.
    """

    def __init__(
        self,
        config: Config,
        work: Workload,
        engine: Engine,
        trajectories: Trajectories | None,
        note: Callable[[str], object],
    ) -> None:
        self._config = config
        self._work = work
        self._engine = engine
        self._trajectories = trajectories
        self._note = note
        self._threads = ThreadPoolExecutor(_JUDGE_THREADS, thread_name_prefix="judge")
        self._judge: Any = work.judge  # None where no session needs a verdict
        # such judges are slow and may fail, so rollouts are stored before they are graded
        self._judge_waits = isinstance(work.judge, AsyncJudge)
        self._waits: dict[int, tuple[str, float]] = {}
        self._lag_s = 0.0
        self._evaluations = 0
        self._told: set[str] = set()

    def plan(self, step: int) -> tuple[list[Rollout], list[Exception], int]:
        """Return the unplayed rollouts of a step, the errors of those without, and its seed.

        They depend only on the run's seed and the step, so a resumed run draws the same.
        """
        config, work = self._config, self._work
        rng = np.random.default_rng([config.seed, step])
        again = len(work.tasks) < config.groups
        chosen = rng.choice(len(work.tasks), config.groups, replace=again)
        tasks = [work.tasks[i] for i in chosen]
        first = (step - 1) * config.groups
        return *self._fresh(tasks, config.group_size, first), int(rng.integers(2**62))

    def _fresh(
        self, tasks: Sequence[Any], members: int, first: int = 0
    ) -> tuple[list[Rollout], list[Exception]]:
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
                self._report(f"All episodes of {task.task_id} are dropped", error)
        return rollouts, failures

    async def batch(self, step: int) -> StepRollouts:
        """Play the episodes of a step, except those already stored.

        With a repeatable engine, the whole step is played again if any episode is missing.

        Raises:
            EngineError: the engine returned no tokens.
            JudgeError: every group has too few verdicts.
            EpisodeError: the environment failed too often in every group.
            ConfigError: the stored rollouts belong to another run.
        """
        planned, unopened, seed = self.plan(step)
        stored = self._trajectories
        rollouts = stored.restore(step, planned) if stored else planned
        if self._engine.repeatable and not all(rollout.session.done for rollout in rollouts):
            # log-probabilities depend on the batch: a smaller one would sample other tokens
            pairs = zip(planned, rollouts, strict=True)
            rollouts = [replace(rollout, before=played.session) for rollout, played in pairs]
        self._lag_s = 0.0
        size = self._config.group_size
        store = partial(stored.append, step) if stored else _forget
        key = (step - 1) * self._config.groups * size
        graded, failures = await self._play_all(rollouts, key, seed, store)
        failures += unopened
        lag_s = self._lag_s
        groups = [list(members) for _, members in groupby(graded, lambda rollout: rollout.group)]
        complete = [members for members in groups if len(members) >= GROUP_SHARE * size]
        if not complete:
            raise _failed(failures, self._config.groups * size)
        if stored:
            stored.sync(step)
        graded = [rollout for members in complete for rollout in members]
        dropped = self._config.groups - len(complete)
        usage = getattr(self._judge, "usage", None)
        return StepRollouts(graded, len(failures), dropped, lag_s, self._summary(graded), usage)

    async def evaluate(self, step: int) -> Evaluation:
        """Play the held-out tasks, always with the same seeds; evaluations may be concurrent.

        They are stored as the evaluation after this step, which replaces an unfinished one: its
        episodes may be from other weights.

        Raises:
            EngineError: the engine returned no tokens.
            JudgeError, EpisodeError: less than three quarters of the episodes were graded.
        """
        rollouts, unopened = self._fresh(self._work.held_out, self._config.eval_rollouts)
        episodes = len(rollouts) + len(unopened)
        self._evaluations += 1  # negative keys do not collide with those of steps
        key = -self._evaluations * episodes
        stored = self._trajectories and self._trajectories.held_out()
        if stored:
            stored.path(step).unlink(missing_ok=True)
        store = partial(stored.append, step) if stored else _forget
        graded, failures = await self._play_all(rollouts, key, 0, store)
        failures += unopened
        if failures and len(graded) < GROUP_SHARE * episodes:
            raise _failed(failures, episodes)
        if stored:
            stored.sync(step)
        versions = {v for rollout in graded for v in rollout.versions if v != NOT_SAMPLED}
        return Evaluation(self._summary(graded), (min(versions), max(versions)), len(failures))

    def _summary(self, rollouts: Sequence[Rollout]) -> Returns:
        return self._work.summary_type.of(rollout.session for rollout in rollouts)

    async def _play_all(
        self, rollouts: Sequence[Rollout], key: int, seed: int, store: Store
    ) -> tuple[list[Rollout], list[Exception]]:
        """Play and grade rollouts; return those with a reward, and the errors of the others."""
        groups = _Groups(rollouts, getattr(self._judge, "grouped", False))
        limit = self._engine.max_concurrency
        for first in range(0, len(rollouts), limit):
            chunk = enumerate(rollouts[first : first + limit], first)
            await _gather(
                self._play(rollout, key + i, (seed, i), store, groups) for i, rollout in chunk
            )
        outcomes = [(rollout, groups.failures.get(id(rollout))) for rollout in rollouts]
        graded = [rollout for rollout, failure in outcomes if failure is None]
        return graded, [failure for _, failure in outcomes if failure is not None]

    async def _play(
        self,
        rollout: Rollout,
        key: int,
        seed: tuple[int, ...],
        store: Store,
        groups: "_Groups",
    ) -> None:
        """Play and store an episode, and grade all that can then be judged."""
        config, session = self._config, rollout.session
        try:
            try:
                if not session.done:
                    ends = self._work.chat.ends
                    sampling = Sampling(config.temperature, config.max_tokens, ends, seed)
                    await play(rollout, key, self._generate, self._work.chat, sampling)
                    rollout.recall()
                    if self._judge_waits or not session.needs_verdict:
                        store(rollout)
            finally:
                self._engine.release(key)
                with environment():
                    session.close()
        except (RefusedError, EpisodeError) as error:
            self._drop(rollout, error, groups)
        if ready := groups.ready(rollout):
            with self._waiting(key, f"judge {self._judge.name!r}"):
                await self._grade(ready, store, groups)

    async def _grade(self, rollouts: Sequence[Rollout], store: Store, groups: "_Groups") -> None:
        """Grade finished episodes of one task, and store them with their verdicts.

        Raises:
            JudgeMisconfigured: the judge cannot judge any text.
        """
        sessions: list[Any] = [rollout.session for rollout in rollouts]
        errors = await grade(sessions, self._judge, self._config.timeout_s, self._threads)
        for rollout, error in zip(rollouts, errors, strict=True):
            if error is None or not self._judge_waits:
                # without a verdict, it is graded when the run is resumed
                store(rollout)
            if error is not None:
                self._drop(rollout, error, groups)
        for error in errors:
            if isinstance(error, JudgeMisconfigured):
                raise error

    def _drop(self, rollout: Rollout, error: Exception, groups: "_Groups") -> None:
        groups.failures[id(rollout)] = error
        self._report(f"An episode of {rollout.session.task.task_id} is dropped", error)

    def _report(self, event: str, error: Exception) -> None:
        """Note an event with its cause, and the traceback of each fault of a user's code once."""
        cause, details = error.__cause__, ""
        if cause is not None and not isinstance(cause, JudgeError | ModelError):
            place = f"{type(cause)} {traceback.extract_tb(cause.__traceback__)[-1:]}"
            if place not in self._told:
                self._told.add(place)
                lines = "".join(traceback.format_exception(cause)).rstrip()
                details = "\n\n" + indent(lines, "      ") + "\n"
        kind = "no verdict: " if isinstance(error, JudgeError) else ""
        self._note(f"{event}: {kind}{error}{details}")

    async def _generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        with self._waiting(key, "the engine"):
            return await self._engine.generate(key, ids, sampling)

    @contextmanager
    def _waiting(self, key: int, what: str) -> Iterator[None]:
        self._waits[key] = what, time.monotonic()
        try:
            yield
        finally:
            del self._waits[key]

    async def watch(self) -> None:
        """Report episodes that wait too long, and measure the loop's delay, until cancelled."""
        reported: set[int] = set()  # each wait is reported once
        while True:
            before = time.monotonic()
            await asyncio.sleep(_LAG_S)
            now = time.monotonic()
            self._lag_s = max(self._lag_s, now - before - _LAG_S)
            reported &= self._waits.keys()
            late = [key for key, (_, since) in self._waits.items() if now - since > ALARM_S]
            if new := [key for key in late if key not in reported]:
                what, since = self._waits[new[0]]
                more = f" (and {len(late) - 1} more)" if len(late) > 1 else ""
                self._note(f"An episode waits for {what} since {now - since:.0f} s{more}.")
                reported |= set(late)

    def close(self) -> None:
        """Shut down the threads of the judge."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Groups:
    """Tracks which finished episodes can be judged: whole groups, or single episodes.

    Attributes:
        failures: error of each dropped rollout, by `id` of the rollout.
    """

    def __init__(self, rollouts: Sequence[Rollout], grouped: bool) -> None:
        self.failures: dict[int, Exception] = {}
        self._grouped = grouped
        self._members = {
            group: list(members) for group, members in groupby(rollouts, lambda r: r.group)
        }
        self._playing = {group: len(members) for group, members in self._members.items()}

    def ready(self, rollout: Rollout) -> list[Rollout]:
        """Return the rollouts to judge after this one has ended, successfully or not."""
        self._playing[rollout.group] -= 1
        if not self._grouped:
            return [rollout] if rollout.session.needs_verdict else []
        members = self._members[rollout.group]
        if self._playing[rollout.group] or not any(r.session.needs_verdict for r in members):
            return []
        # includes verdicts from before the run was resumed: they depend on the whole group
        return [r for r in members if r.session.needs_verdict or r.session.verdict]


def _forget(rollout: Rollout) -> None:
    """Store nothing."""


def _failed(failures: Sequence[Exception], episodes: int) -> Exception:
    """Return the first failure, with the number of failures in its message."""
    first = failures[0]
    message = f"{len(failures)} of {episodes} episodes failed, the first with: {first}"
    error = type(first)(message)
    error.__cause__ = first
    return error


async def _gather(episodes: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines concurrently; the first exception cancels the others."""
    try:
        async with asyncio.TaskGroup() as group:
            for episode in episodes:
                group.create_task(episode)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
