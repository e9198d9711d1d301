"""Samplers, which play the episodes of training steps and evaluations.

`InProcessSampler` plays while the training loop waits, so all rollouts are sampled with the current
weights. `BackgroundSampler` runs an orchestrator in another process, which plays the episodes of
later steps during training, as far ahead as `max_staleness` allows.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from learners.engines import EngineError
from learners.engines.vllm import VLLMEngine
from learners.rollouts.batch import Batch
from learners.rollouts.journal import Note
from learners.rollouts.orchestrator import Orchestrator
from learners.rollouts.summaries import HeldOutResult
from learners.training import ranks

SILENT_S = 120.0
"""Maximum time in seconds between messages of the rollout process, which sends heartbeats."""
_BEAT_S = 1.0
_POLL_S = 0.2
_END_S = 5.0


class InProcessSampler:
    """Sampler that plays episodes in this process while the caller waits.

    Attributes:
        idle: function that `BackgroundSampler` calls while it waits; not called by this class.
    """

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._runner = asyncio.Runner()
        self._orchestrator = orchestrator
        self._ended: list[tuple[int, HeldOutResult]] = []
        self.idle: Callable[[], None] = lambda: None

    def batch(self, step: int) -> Batch:
        """Return the graded rollouts of a step; see `Orchestrator.batch`."""
        return self._runner.run(self._orchestrator.batch(step))

    def evaluate(self, step: int) -> None:
        """Play the held-out tasks with the current weights, as the evaluation after `step`."""
        self._ended.append((step, self._runner.run(self._orchestrator.evaluate(step))))

    def evaluations(self, wait: bool) -> list[tuple[int, HeldOutResult]]:
        """Return (step, result) of each evaluation that was played since the last call."""
        ended, self._ended = self._ended, []
        return ended

    @property
    def evaluation(self) -> str:
        """Progress of the running evaluation; see `Orchestrator.evaluation`."""
        return self._orchestrator.evaluation

    def published(self, version: int) -> None:
        """Do nothing: episodes start only when `batch` or `evaluate` is called."""

    def close(self) -> None:
        """Stop playing, and shut down the orchestrator."""
        self._orchestrator.close()
        self._runner.close()


Build = Callable[[Note], tuple[Orchestrator, VLLMEngine]]
"""Picklable function that takes a `Note` and returns an orchestrator and its engine."""


class BackgroundSampler:
    """Sampler that runs an orchestrator in a separate process.

    Args:
        build: creates the orchestrator in the separate process.
        steps: number of steps of the run, including steps that earlier processes have completed.
        max_staleness: maximum age of the sampling weights, in optimizer steps.
        note: called with sentences for the run's journal.

    Attributes:
        evaluation: progress of the running evaluations, as the process last reported it.
        idle: function that this class calls while it waits.
    """

    def __init__(self, build: Build, steps: int, max_staleness: int, note: Note) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        arguments = build, steps, max_staleness, os.getpid(), other
        self._process = context.Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        other.close()
        self._note = note
        self.evaluation = ""
        self.idle: Callable[[], None] = lambda: None
        self._heard = time.monotonic()
        self._batches: dict[int, Batch] = {}
        self._ended: list[tuple[int, HeldOutResult]] = []
        self._playing = 0

    def batch(self, step: int) -> Batch:
        """Return the graded rollouts of a step; see `InProcessSampler.batch`."""
        while step not in self._batches:
            self._listen()
        return self._batches.pop(step)

    def evaluate(self, step: int) -> None:
        """Start to play the held-out tasks, as the evaluation after `step`."""
        self._playing += 1
        self._tell("evaluate", step)

    def evaluations(self, wait: bool) -> list[tuple[int, HeldOutResult]]:
        """Return (step, result) of newly ended evaluations; if `wait`, first wait for all."""
        while self._playing and (wait or self._pipe.poll()):
            self._listen()
        ended, self._ended = self._ended, []
        return ended

    def published(self, version: int) -> None:
        """Announce new engine weights to the rollout process, so that it can start more steps."""
        self._tell("version", version)

    def _tell(self, kind: str, value: int) -> None:
        # ignore an exit of the process: `_listen` raises the error that the process may have sent
        with contextlib.suppress(ConnectionError):
            self._pipe.send((kind, value))

    def _listen(self) -> None:
        """Handle one message, or call `idle` if none arrives within `_POLL_S` seconds.

        Raises:
            EngineError: the process has exited, or has sent nothing for `SILENT_S` seconds.
        """
        try:
            if self._pipe.poll(_POLL_S):
                self._heard = time.monotonic()
                self._take(*self._pipe.recv())
                return
        except (EOFError, ConnectionError):
            self._process.join(_END_S)
            status = self._process.exitcode
            raise EngineError(f"the rollout process ended with status {status}") from None
        silent = time.monotonic() - self._heard
        if silent > SILENT_S:
            raise EngineError(f"the rollout process has sent nothing for {silent:.0f} s")
        self.idle()

    def _take(self, kind: str, value: Any) -> None:
        if kind == "batch":
            step, batch = value
            self._batches[step] = batch
        elif kind == "evaluation":
            self._playing -= 1
            self._ended.append(value)
            self.evaluation = ""  # another evaluation reports within `_BEAT_S` seconds
        elif kind == "alive":
            self.evaluation = value
        elif kind == "note":
            self._note(value)
        elif kind == "failed":
            raise value

    def close(self) -> None:
        """End the rollout process."""
        self._tell("stop", 0)
        self._process.join(_END_S)
        self._process.kill()
        self._process.join()
        self._pipe.close()


Sampler = InProcessSampler | BackgroundSampler


def _run(build: Build, steps: int, max_staleness: int, parent: int, pipe: Connection) -> None:
    """Run the event loop of the rollout process."""
    ranks.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    asyncio.run(_Service(build, steps, max_staleness, pipe).serve())


class _Service:
    """Event loop of the rollout process."""

    def __init__(self, build: Build, steps: int, max_staleness: int, pipe: Connection) -> None:
        self._steps, self._max_staleness, self._pipe = steps, max_staleness, pipe
        self._out: asyncio.Queue[tuple[str, object]] = asyncio.Queue()
        self._published: asyncio.Queue[int] = asyncio.Queue()
        self._stopped = asyncio.Event()
        self._orchestrator, self._engine = build(self._note)

    def _note(self, sentence: str) -> None:
        self._out.put_nowait(("note", sentence))

    async def serve(self) -> None:
        """Serve until the trainer sends "stop", or until an error, which is sent to the trainer."""
        loop = asyncio.get_running_loop()
        background = [asyncio.create_task(coroutine) for coroutine in (self._send(), self._beat())]
        try:
            async with asyncio.TaskGroup() as group:
                loop.add_reader(self._pipe.fileno(), self._receive, group)
                group.create_task(self._stop())
                group.create_task(self._orchestrator.watchdog.watch())
                group.create_task(self._ahead(group))
        except* _StopError:
            pass
        except* Exception as failed:
            await self._out.put(("failed", failed.exceptions[0]))
            await self._out.join()
        finally:
            for task in background:
                task.cancel()
            await self._engine.leave()
            self._orchestrator.close()

    def _receive(self, group: asyncio.TaskGroup) -> None:
        try:
            kind, value = self._pipe.recv()
        except (EOFError, ConnectionError):  # the trainer has exited, perhaps with unread messages
            kind, value = "stop", 0
        if kind == "stop":
            self._stopped.set()
        elif kind == "evaluate":
            group.create_task(self._evaluate(value))
        else:
            self._published.put_nowait(value)

    async def _stop(self) -> None:
        await self._stopped.wait()
        raise _StopError

    async def _ahead(self, group: asyncio.TaskGroup) -> None:
        """Start the episodes of each step as soon as the weights are new enough for that step.

        The step that produces version v + 1 trains on tokens of versions v - max_staleness to v.
        The first published version is 0, or the number of completed steps if the run is resumed.
        """
        version = await self._published.get()
        for step in range(version + 1, self._steps + 1):
            while version < step - 1 - self._max_staleness:
                version = await self._published.get()
            group.create_task(self._batch(step))

    async def _batch(self, step: int) -> None:
        await self._out.put(("batch", (step, await self._orchestrator.batch(step))))

    async def _evaluate(self, step: int) -> None:
        await self._out.put(("evaluation", (step, await self._orchestrator.evaluate(step))))

    async def _beat(self) -> None:
        while True:
            if self._out.empty():  # no heartbeat is needed while other messages are waiting
                await self._out.put(("alive", self._orchestrator.evaluation))
            await asyncio.sleep(_BEAT_S)

    async def _send(self) -> None:
        """Send messages in a thread, since `send` blocks while the trainer does not read."""
        while True:
            message = await self._out.get()
            with contextlib.suppress(ConnectionError):  # `_receive` notices that the trainer exited
                await asyncio.to_thread(self._pipe.send, message)
            self._out.task_done()


class _StopError(Exception):
    """The trainer has sent "stop" or exited."""
