"""Graded rollouts for a training loop that runs on every rank.

Rank 0 alone samples, grades and controls the engine; it sends its batches and errors to the other
ranks. If an engine's server restarts while rank 0 waits for episodes, the server needs the weights
again. All ranks must take part in gathering the weights, so they wait together with rank 0.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from learners.engines import Engine, EngineError, Sampling
from learners.engines.server import Server
from learners.rollouts.batch import Batch
from learners.rollouts.journal import Note
from learners.rollouts.sampler import Sampler
from learners.rollouts.summaries import HeldOutResult
from learners.rollouts.workload import Workload
from learners.training import ranks
from learners.training.rows import Sample
from learners.training.trainer import Trainer

PROBE_TOKENS = 32
PROBE_LIMIT = {"float32": 7e-4, "bfloat16": 0.07}
"""Largest mean absolute difference in log-probability between engine and trainer that rounding can
cause at temperature 1, by precision. Dividing logits by the temperature divides their errors."""
_CHECK_EVERY_S = 2.0
_T = TypeVar("_T")


class LeadRank(NamedTuple):
    """Components that rank 0 uses for sampling.

    Attributes:
        work: workload of the run's first environment, with whose prompt `publish` samples.
        engine: samples tokens.
        sampler: plays and grades episodes with the engine.
        servers: vLLM servers that rank 0 has started on this machine.
        note: function that adds a sentence to the run's journal.
    """

    work: Workload
    engine: Engine
    sampler: Sampler
    servers: Sequence[Server]
    note: Note


class RolloutSource:
    """Source of rollouts of the current policy, used on every rank.

    Args:
        trainer: trainer whose weights the engine samples with.
        temperature: sampling temperature.
        precision: precision of the trainer's forward pass, "float32" or "bfloat16".
        dtype: dtype of the weights in the engine.
        colocated: whether engine and trainer take turns on the same GPUs.
        lead: components of rank 0; None on the other ranks.
    """

    def __init__(
        self,
        trainer: Trainer,
        temperature: float,
        precision: str,
        dtype: torch.dtype,
        colocated: bool,
        lead: LeadRank | None,
    ) -> None:
        self._trainer = trainer
        self._temperature, self._dtype, self._colocated = temperature, dtype, colocated
        self._limit = PROBE_LIMIT[precision] / temperature
        self._lead: Any = lead  # used on rank 0 only
        if lead:
            lead.sampler.idle = self._bring_up_to_date
        self._version = 0
        self._checked = 0.0

    def batch(self, step: int, dropped: Collection[str] = ()) -> Batch:
        """Return the graded rollouts of a step, which rank 0 sends to all ranks.

        Args:
            step: number of the step.
            dropped: names of hacks; episodes that show one are left out, see `Batch.without`.

        Raises:
            EngineError: the engine returned no tokens.
            JudgeError, EpisodeError: every group has too few graded episodes.
            RunStopped: every episode shows a hack in `dropped`.
        """
        batch: Batch = self._from_rank_0(lambda: self._lead.sampler.batch(step).without(dropped))
        return batch

    def publish(self, version: int) -> float:
        """Load the trainer's weights into the engine, and check that the engine samples with them.

        Args:
            version: number of optimizer steps that produced the weights.

        Returns:
            Mean absolute difference in log-probability between engine and trainer on a few sampled
            tokens; 0 for an in-process engine, whose tokens are all compared at each training step.

        Raises:
            EngineError: the engine did not load the weights, or the difference is too large.
        """
        probes = self._from_rank_0(lambda: self._update(version))
        gap = float(self._trainer.gaps(probes).mean()) if probes else 0.0
        if not gap <= self._limit:  # written so that it is also true if the gap is nan
            message = f"sampler and trainer differ by {gap:.3g} in log-probability"
            raise EngineError(f"weights of step {version}: {message}, more than {self._limit:.3g}")
        if self._lead:
            self._lead.sampler.published(version)
        return gap

    def _update(self, version: int) -> list[Sample]:
        work, engine, _, servers, _ = self._lead
        for server in servers:
            server.ready()
        engine.load_weights(version, self._weights)
        self._version = version
        session = work.session(work.held_out[0])
        prompt = work.chat.prompt(session.system_prompt, session.prompt)
        sampling = Sampling(self._temperature, PROBE_TOKENS, work.chat.ends, (0,))
        probes = asyncio.run(engine.probe(prompt, sampling))
        lists = [(one.ids, [True] * len(one.ids), one.logprobs) for one in probes]
        return [Sample(0, prompt, *each, [0.0] * len(each[0])) for each in lists]

    def evaluate(self, step: int) -> None:
        """Start to play the held-out tasks, as the evaluation after `step`."""
        if self._lead:
            self._lead.sampler.evaluate(step)

    def evaluation(self) -> str:
        """Return on rank 0 the progress of the running evaluations; empty if none is running."""
        progress: str = self._lead.sampler.evaluation
        return progress

    def evaluations(self, wait: bool) -> list[tuple[int, HeldOutResult]]:
        """Return (step, result) for each evaluation that has ended since the last call.

        Args:
            wait: whether to wait until all started evaluations have ended.
        """
        return self._from_rank_0(lambda: self._lead.sampler.evaluations(wait))

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Free the engine's GPU memory during the block, if engine and trainer share a GPU.

        The engine sleeps before any rank trains, and wakes up after all ranks have freed memory.

        Raises:
            EngineError: the engine did not free its GPU memory, or did not allocate it again.
        """
        if not self._colocated:
            yield
            return
        self._from_rank_0(lambda: self._lead.engine.sleep())
        yield
        torch.cuda.empty_cache()  # the engine cannot use memory that PyTorch caches
        ranks.barrier()
        self._from_rank_0(lambda: self._lead.engine.wake())

    def close(self) -> None:
        """Stop sampling, and close the engine."""
        if self._lead:
            self._lead.sampler.close()
            self._lead.engine.close()

    def _from_rank_0(self, produce: Callable[[], _T]) -> _T:
        """Call `produce` on rank 0, and return its value or raise its error on every rank.

        The other ranks wait, and take part whenever `produce` gathers weights.
        """
        if ranks.rank() == 0:
            try:
                value = produce()
            except Exception as problem:
                ranks.broadcast((True, None, problem))
                raise
            ranks.broadcast((True, value, None))
            return value
        while True:
            message: tuple[bool, Any, Exception | None] = False, None, None
            finished, value, error = ranks.broadcast(message)
            if error is not None:
                raise error
            if finished:
                return value
            # rank 0 gathers weights: take part in the collectives, and discard the weights
            deque(self._trainer.iter_weights(self._dtype), maxlen=0)

    def _weights(self) -> Iterable[tuple[str, Tensor]]:
        """Start to gather the weights on all ranks; called on rank 0, within `_from_rank_0`."""
        ranks.broadcast((False, None, None))
        return self._trainer.iter_weights(self._dtype)

    def _bring_up_to_date(self) -> None:
        """Send the weights to restarted servers; called while rank 0 waits for episodes."""
        _, engine, _, servers, note = self._lead
        for server in servers:
            server.check()
        if time.monotonic() - self._checked < _CHECK_EVERY_S:
            return
        if engine.behind(self._version):
            note(f"The weights of step {self._version} are sent to an engine server again.")
            engine.load_weights(self._version, self._weights)
        self._checked = time.monotonic()
