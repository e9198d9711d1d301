"""Orchestrator: plays, grades and stores thousands of concurrent episodes in one asyncio loop.

The seed and the number of a step determine its groups, independently of the order in which
episodes end. Slow episodes are waited for: dropping them would bias training towards short ones.
The caller limits staleness by when it starts the episodes of a step.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from statistics import pstdev
from typing import Any, NamedTuple

import numpy as np

from learners.config import Config
from learners.engines import Completion, Engine, RefusedError, Sampling
from learners.rollouts.curriculum import LOOK_BACK, Spreads, weights
from learners.rollouts.rollout import NOT_SAMPLED, Rollout, play
from learners.rollouts.text_env import TextSession
from learners.rollouts.trajectories import Trajectories
from learners.rollouts.workload import Work, summarised
from resume_gym.evaluation import Returns
from resume_gym.judges import (
    AsyncJudge,
    JudgeError,
    JudgeMisconfigured,
    JudgeUnavailable,
)
from resume_gym.llm.loop import submit

GROUP_SHARE = 0.75
"""Minimum share of successful episodes in a group (12 of 16); other groups are dropped."""
ALARM_S = 60.0
"""Waiting time in seconds after which the journal reports an episode."""
_JUDGE_THREADS = 32
_RETRY_S, _RETRY_MOST_S = 0.5, 30.0
_LAG_S = 0.02


class Batch(NamedTuple):
    """The rollouts of a step.

    Attributes:
        rollouts: rollouts of all groups that were not dropped, group by group.
        dropped_episodes: number of episodes without tokens or verdict, not in `rollouts`.
        dropped_groups: number of groups with too few episodes.
        lag_s: maximum delay of the event loop in seconds, while they were played.
    """

    rollouts: list[Rollout]
    dropped_episodes: int
    dropped_groups: int
    lag_s: float


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
        trajectories: storage of rollouts, also read by resumed runs; None stores nothing.
        note: called with a sentence on dropped and waiting episodes.
    """

    def __init__(
        self,
        config: Config,
        work: Work,
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
        self._spread: dict[int, Spreads] = {}
        self._waits: dict[object, tuple[str, float]] = {}
        self._lag_s = 0.0
        self._evaluations = 0

    def plan(self, step: int) -> tuple[list[Rollout], int]:
        """Return the unplayed rollouts of a step, and its seed.

        They depend only on the run's seed and, with informative task sampling, on the rewards of
        steps that are certain to be over when this one begins, so a resumed run draws the same.
        """
        config, work = self._config, self._work
        rng = np.random.default_rng([config.seed, step])
        again = len(work.tasks) < config.groups
        chances = None
        if config.task_sampling == "informative":
            over = range(max(1, step - LOOK_BACK), step - config.max_staleness)
            history = [(before, self._spreads(before)) for before in over]
            chances = weights(history, len(work.tasks), step)
            chances /= chances.sum()
        chosen = rng.choice(len(work.tasks), config.groups, replace=again, p=chances)
        tasks = [work.tasks[i] for i in chosen]
        first = (step - 1) * config.groups
        return self._fresh(tasks, config.group_size, first), int(rng.integers(2**62))

    def _spreads(self, step: int) -> Spreads:
        """Return the reward spread of each group of a finished step, cached."""
        if step not in self._spread and self._trajectories:
            numbers = {task.task_id: number for number, task in enumerate(self._work.tasks)}
            groups: dict[str, list[float]] = {}
            for task, reward in self._trajectories.rewards(step):
                groups.setdefault(task, []).append(reward)
            spreads = [(numbers[task], pstdev(some)) for task, some in groups.items()]
            self._spread[step] = spreads
        return self._spread.get(step, ())

    def _fresh(self, tasks: Sequence[Any], each: int, first: int = 0) -> list[Rollout]:
        made = []
        for group, task in enumerate(tasks, first):
            session = self._work.session(task)
            prompt = self._work.chat.prompt(session.system_prompt, session.prompt)
            made += [Rollout(group, member, session.fork(), prompt) for member in range(each)]
        return made

    async def batch(self, step: int) -> Batch:
        """Play the episodes of a step, except those already stored.

        With a repeatable engine, the whole step is played again if any episode is missing.

        Raises:
            EngineError: the engine returned no tokens.
            JudgeError: every group has too few verdicts.
            ValueError: the stored rollouts belong to another run.
        """
        planned, seed = self.plan(step)
        kept = self._trajectories
        rollouts = kept.restore(step, planned) if kept else planned
        if self._engine.repeatable and not all(one.session.done for one in rollouts):
            # log-probabilities depend on the batch: a smaller one would sample other tokens
            both = zip(planned, rollouts, strict=True)
            rollouts = [replace(one, before=played.session) for one, played in both]
        self._lag_s = 0.0
        first = planned[0].group * self._config.group_size
        failures = await self._all(rollouts, first, seed, step)
        lag = self._lag_s
        size, groups = self._config.group_size, []
        for at in range(0, len(rollouts), size):
            pairs = zip(rollouts[at : at + size], failures[at : at + size], strict=True)
            left = [one for one, failure in pairs if failure is None]
            groups += [left] if len(left) >= GROUP_SHARE * size else []
        lost = [one for one in failures if one is not None]
        if not groups:
            raise lost[-1]
        left = [one for group in groups for one in group]
        return Batch(left, len(lost), self._config.groups - len(groups), lag)

    async def evaluate(self) -> Evaluation:
        """Play the held-out tasks, always with the same seeds; evaluations may be concurrent.

        Raises:
            EngineError: the engine returned no tokens.
            JudgeError: less than three quarters of the episodes received a verdict.
        """
        rollouts = self._fresh(self._work.held_out, self._config.eval_rollouts)
        self._evaluations += 1  # negative keys do not collide with those of steps
        failures = await self._all(rollouts, -self._evaluations * len(rollouts), 0, None)
        pairs = zip(rollouts, failures, strict=True)
        left = [one for one, failure in pairs if failure is None]
        lost = [one for one in failures if one is not None]
        if lost and len(left) < GROUP_SHARE * len(rollouts):
            raise lost[-1]
        summary = summarised(left)
        versions = [max(one.versions) for one in left]
        first = min(v for one in left for v in one.versions if v != NOT_SAMPLED)
        return Evaluation(summary, (first, max(versions)), len(lost))

    async def _all(
        self, rollouts: Sequence[Rollout], key: int, seed: int, step: int | None
    ) -> list[Exception | None]:
        """Play and grade rollouts; return the error of each, or None."""
        failures: list[Exception | None] = []
        at_once = self._engine.at_once
        groups = _Groups(rollouts, getattr(self._judge, "grouped", False))
        for first in range(0, len(rollouts), at_once):
            some = rollouts[first : first + at_once]
            numbered = enumerate(some, first)
            tasks = [self._one(one, key + i, (seed, i), step, groups) for i, one in numbered]
            failures += await _gather(tasks)
        pairs = zip(rollouts, failures, strict=True)
        return [groups.failures.get(id(one), failure) for one, failure in pairs]

    async def _one(
        self,
        rollout: Rollout,
        key: int,
        seed: tuple[int, ...],
        step: int | None,
        groups: "_Groups",
    ) -> Exception | None:
        """Play and store an episode, and grade all that can then be judged."""
        config, session = self._config, rollout.session
        failure: Exception | None = None
        try:
            if not session.done:
                stop = self._work.chat.end
                sampling = Sampling(config.temperature, config.max_tokens, stop, seed)
                await play(rollout, key, self._generate, self._work.chat, sampling)
                rollout.recall()
                if self._judge_waits or not session.needs_verdict:
                    self._keep(step, rollout)
        except RefusedError as error:
            self._note(f"An episode of {session.task.task_id} is dropped: {error}")
            failure = error
        finally:
            self._engine.release(key)
            if isinstance(session, TextSession):
                session.close()
        if ready := groups.ready(rollout):
            with self._waiting(key, f"judge {self._judge.name!r}"):
                await self._grade(ready, step, groups)
        return failure

    def _keep(self, step: int | None, rollout: Rollout) -> None:
        if step is not None and self._trajectories is not None:
            self._trajectories.append(step, rollout)

    async def _generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        with self._waiting(key, "the engine"):
            return await self._engine.generate(key, ids, sampling)

    async def _grade(
        self, rollouts: Sequence[Rollout], step: int | None, groups: "_Groups"
    ) -> None:
        """Grade finished episodes of one task, with retries while the judge is unavailable.

        Raises:
            JudgeMisconfigured: the judge cannot judge any text.
        """
        deadline, pause = time.monotonic() + self._config.patience_s, _RETRY_S
        said = await self._ask(rollouts, deadline)
        while any(isinstance(one, JudgeUnavailable) for one in said):
            if time.monotonic() + pause > deadline:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, _RETRY_MOST_S)
            said = await self._ask(rollouts, deadline)
        for rollout, one in zip(rollouts, said, strict=True):
            if not isinstance(one, JudgeError):
                session: Any = rollout.session
                session.grade(one)
                self._keep(step, rollout)
                continue
            if not self._judge_waits:  # otherwise it is already stored, to be graded later
                self._keep(step, rollout)
            task = rollout.session.task.task_id
            self._note(f"An episode of {task} is dropped: no verdict: {one}")
            groups.failures[id(rollout)] = one
        if broken := next((one for one in said if isinstance(one, JudgeMisconfigured)), None):
            raise broken

    async def _ask(self, rollouts: Sequence[Rollout], deadline: float) -> list[Any]:
        judge = self._judge
        task: Any = rollouts[0].session.task
        texts = [one.session.text for one in rollouts]
        try:
            if isinstance(judge, AsyncJudge):  # has timeouts, which exclude time in its queue
                return await asyncio.wrap_future(submit(judge.averdicts(task, texts)))
            async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                loop, (text,) = asyncio.get_running_loop(), texts
                return [await loop.run_in_executor(self._threads, judge.judge, task, text)]
        except TimeoutError:
            told = f"has not answered for {self._config.patience_s:.0f} s"
            return [JudgeUnavailable(f"the judge {judge.name!r} {told}")] * len(texts)
        except JudgeError as error:
            return [error] * len(texts)

    @contextmanager
    def _waiting(self, who: object, what: str) -> Iterator[None]:
        self._waits[who] = what, time.monotonic()
        try:
            yield
        finally:
            del self._waits[who]

    async def watch(self) -> None:
        """Report episodes that wait too long, and measure the loop's delay, until cancelled."""
        told: set[object] = set()  # each wait is reported once
        while True:
            before = time.monotonic()
            await asyncio.sleep(_LAG_S)
            now = time.monotonic()
            self._lag_s = max(self._lag_s, now - before - _LAG_S)
            told &= self._waits.keys()
            late = [one for one in self._waits if now - self._waits[one][1] > ALARM_S]
            if new := [one for one in late if one not in told]:
                what, since = self._waits[new[0]]
                more = f" (and {len(late) - 1} more)" if len(late) > 1 else ""
                self._note(f"An episode waits for {what} since {now - since:.0f} s{more}.")
                told |= set(late)

    def close(self) -> None:
        """Shut down the threads of the judge."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Groups:
    """Tracks which finished episodes can be judged: whole groups, or single episodes.

    Attributes:
        failures: error of each rollout without a verdict, by `id` of the rollout.
    """

    def __init__(self, rollouts: Sequence[Rollout], grouped: bool) -> None:
        self.failures: dict[int, JudgeError] = {}
        self._grouped = grouped
        self._members = {key: list(some) for key, some in groupby(rollouts, lambda r: r.group)}
        self._left = {key: len(some) for key, some in self._members.items()}

    def ready(self, rollout: Rollout) -> list[Rollout]:
        """Return the rollouts to judge after this one has ended, successfully or not."""
        self._left[rollout.group] -= 1
        if not self._grouped:
            return [rollout] if rollout.session.needs_verdict else []
        some: list[Any] = self._members[rollout.group]
        if self._left[rollout.group] or not any(one.session.needs_verdict for one in some):
            return []
        # includes verdicts from before the run was resumed: they depend on the whole group
        return [one for one in some if one.session.needs_verdict or one.session.state.verdict]


async def _gather(tasks: Sequence[Coroutine[Any, Any, Exception | None]]) -> list[Exception | None]:
    """Return all results; the first exception cancels the others."""
    try:
        async with asyncio.TaskGroup() as group:
            made = [group.create_task(one) for one in tasks]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [one.result() for one in made]
