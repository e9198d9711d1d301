"""Where a run's rollouts come from, as its main loop sees it: this process, or one beside it.

`Embedded` plays while the loop waits; nothing is stale then. `Beside` has an orchestrator in a
process of its own, which plays the next steps' episodes while the trainer trains, as far ahead as
`max_staleness` allows.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from learners import ranks
from learners.config import Config
from learners.engines import Engine, EngineError
from learners.engines.vllm import VLLMEngine
from learners.orchestrator import Batch, Evaluation, Orchestrator
from learners.trajectories import Trajectories
from learners.work import Work

SILENT_S = 120.0
"""The process beside the trainer tells that it lives more often than this."""
_BEAT_S = 1.0
_POLL_S = 0.2
_END_S = 5.0


class Sampler(Protocol):
    """Rollouts of one step after the other, and evaluations."""

    def batch(self, step: int) -> Batch:
        """The rollouts of a step; see `Orchestrator.batch`."""
        ...

    def evaluate(self, step: int) -> None:
        """Begin to play the held-out tasks."""
        ...

    def evaluations(self, wait: bool) -> list[tuple[int, Evaluation]]:
        """Those that have ended since the last call, with their steps; or wait for all."""
        ...

    def published(self, version: int) -> None:
        """The engine has these weights now."""
        ...

    def close(self) -> None:
        """Stop playing."""
        ...


class Embedded:
    """Plays in this process, while the caller waits."""

    def __init__(
        self,
        config: Config,
        work: Work,
        engine: Engine,
        trajectories: Trajectories,
        note: Callable[[str], object],
    ) -> None:
        self._runner = asyncio.Runner()
        self._orchestrator = Orchestrator(config, work, engine, trajectories, note)
        self._ended: list[tuple[int, Evaluation]] = []

    def batch(self, step: int) -> Batch:
        """See `Sampler`."""
        return self._runner.run(self._orchestrator.batch(step))

    def evaluate(self, step: int) -> None:
        """See `Sampler`."""
        self._ended.append((step, self._runner.run(self._orchestrator.evaluate())))

    def evaluations(self, wait: bool) -> list[tuple[int, Evaluation]]:
        """See `Sampler`."""
        ended, self._ended = self._ended, []
        return ended

    def published(self, version: int) -> None:
        """Nothing waits for it."""

    def close(self) -> None:
        """See `Sampler`."""
        self._orchestrator.close()
        self._runner.close()


@dataclass(frozen=True)
class _Start:
    """What the process beside needs to begin."""

    config: Config
    urls: Sequence[str]
    trajectories: Trajectories
    done: int
    parent: int


class Beside:
    """Has an orchestrator in a process of its own.

    Args:
        config: of the run.
        urls: of the engine's servers.
        trajectories: where rollouts are kept.
        done: steps done before.
        note: called with a sentence on what hangs.
        idle: called now and then while the caller waits.
    """

    def __init__(
        self,
        config: Config,
        urls: Sequence[str],
        trajectories: Trajectories,
        done: int,
        note: Callable[[str], object],
        idle: Callable[[], object],
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        start = _Start(config, urls, trajectories, done, os.getpid())
        self._process = context.Process(target=_run, args=(start, other), daemon=True)
        self._process.start()
        other.close()
        self._note = note
        self._idle = idle
        self._heard = time.monotonic()
        self._batches: dict[int, Batch] = {}
        self._ended: list[tuple[int, Evaluation]] = []
        self._playing = 0

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid or 0

    def batch(self, step: int) -> Batch:
        """See `Sampler`."""
        while step not in self._batches:
            self._listen()
        return self._batches.pop(step)

    def evaluate(self, step: int) -> None:
        """See `Sampler`."""
        self._playing += 1
        self._tell("evaluate", step)

    def evaluations(self, wait: bool) -> list[tuple[int, Evaluation]]:
        """See `Sampler`."""
        while self._playing and (wait or self._pipe.poll()):
            self._listen()
        ended, self._ended = self._ended, []
        return ended

    def published(self, version: int) -> None:
        """See `Sampler`."""
        self._tell("version", version)

    def _tell(self, kind: str, value: int) -> None:
        try:
            self._pipe.send((kind, value))
        except ConnectionError:
            raise self._gone() from None

    def _gone(self) -> EngineError:
        self._process.join(_END_S)
        return EngineError(f"the rollout process ended with status {self._process.exitcode}")

    def _listen(self) -> None:
        """Take one message, or wait a moment for it.

        Raises:
            EngineError: the process is gone, or says nothing any more.
        """
        try:
            if self._pipe.poll(_POLL_S):
                self._heard = time.monotonic()
                self._take(*self._pipe.recv())
                return
        except (EOFError, ConnectionError):
            raise self._gone() from None
        silent = time.monotonic() - self._heard
        if silent > SILENT_S:
            raise EngineError(f"the rollout process has said nothing for {silent:.0f} s")
        self._idle()

    def _take(self, kind: str, value: Any) -> None:
        if kind == "batch":
            step, batch = value
            self._batches[step] = batch
        elif kind == "evaluation":
            self._playing -= 1
            self._ended.append(value)
        elif kind == "note":
            self._note(value)
        elif kind == "failed":
            raise value

    def close(self) -> None:
        """See `Sampler`."""
        with contextlib.suppress(ConnectionError):
            self._pipe.send(("stop", 0))
        self._process.join(_END_S)
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _run(start: _Start, pipe: Connection) -> None:
    """The process beside the trainer."""
    ranks.die_with_parent(start.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent ends it
    asyncio.run(_Service(start, pipe).serve())


class _Service:
    """Plays ahead and answers, until it is told to stop."""

    def __init__(self, start: _Start, pipe: Connection) -> None:
        config = start.config
        self._config = config
        self._pipe = pipe
        self._done = start.done
        self._engine = VLLMEngine(start.urls, config.model, config.precision, config.patience_s)
        self._orchestrator = Orchestrator(
            config, Work.of(config), self._engine, start.trajectories, self._note
        )
        # nothing is played until the engine has its weights
        self._version = start.done - config.max_staleness - 1
        self._published = asyncio.Condition()
        self._out: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    def _note(self, sentence: str) -> None:
        self._out.put_nowait(("note", sentence))

    async def serve(self) -> None:
        """Until told to stop; what fails here fails there."""
        loop = asyncio.get_running_loop()
        inbox: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
        loop.add_reader(self._pipe.fileno(), self._receive, inbox)
        background = [asyncio.create_task(one) for one in (self._send(), self._beat())]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._hear(inbox, group))
                group.create_task(self._orchestrator.watch())
                group.create_task(self._ahead(group))
        except* _StopError:
            pass
        except* Exception as failed:
            await self._out.put(("failed", failed.exceptions[0]))
            await self._out.join()
        finally:
            for one in background:
                one.cancel()
            await self._engine.leave()
            self._orchestrator.close()

    def _receive(self, inbox: "asyncio.Queue[tuple[str, int]]") -> None:
        try:
            inbox.put_nowait(self._pipe.recv())
        except (EOFError, ConnectionError):  # the trainer is gone, and may have left things unread
            inbox.put_nowait(("stop", 0))

    async def _hear(
        self, inbox: "asyncio.Queue[tuple[str, int]]", group: asyncio.TaskGroup
    ) -> None:
        while True:
            kind, value = await inbox.get()
            if kind == "stop":
                raise _StopError
            if kind == "evaluate":
                group.create_task(self._evaluate(value))
            else:
                async with self._published:
                    self._version = value
                    self._published.notify_all()

    async def _ahead(self, group: asyncio.TaskGroup) -> None:
        """Begin each step as soon as its tokens cannot become too stale.

        A step that ends as version v + 1 trains on tokens of versions v - max_staleness to v.
        """
        config = self._config
        for step in range(self._done + 1, config.steps + 1):
            async with self._published:
                oldest = step - 1 - config.max_staleness
                while self._version < oldest:
                    await self._published.wait()
            group.create_task(self._batch(step))

    async def _batch(self, step: int) -> None:
        await self._out.put(("batch", (step, await self._orchestrator.batch(step))))

    async def _evaluate(self, step: int) -> None:
        await self._out.put(("evaluation", (step, await self._orchestrator.evaluate())))

    async def _beat(self) -> None:
        while True:
            if self._out.empty():  # else the trainer has enough to read
                await self._out.put(("alive", None))
            await asyncio.sleep(_BEAT_S)

    async def _send(self) -> None:
        """Messages one by one, in a thread: the trainer reads them when it has time."""
        while True:
            message = await self._out.get()
            with contextlib.suppress(ConnectionError):  # the trainer is gone, as `_receive` hears
                await asyncio.to_thread(self._pipe.send, message)
            self._out.task_done()


class _StopError(Exception):
    """The trainer wants no more."""
