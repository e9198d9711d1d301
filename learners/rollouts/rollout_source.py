"""Graded rollouts for a training loop that runs on every rank.

Rank 0 samples, grades and talks to the engine; the other ranks receive batches and errors from it.
While rank 0 waits for episodes, an engine that was restarted may need the weights again. Gathering
them is a collective operation, so the waiting ranks take part in it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

import torch
from torch import Tensor

from learners.config import Config
from learners.engines import Engine, EngineError, Sampling
from learners.engines.server import Server
from learners.rollouts import orchestrator
from learners.rollouts.orchestrator import Evaluation
from learners.rollouts.rollout import NOT_SAMPLED, Rollout
from learners.rollouts.sampler import Sampler
from learners.rollouts.workload import Workload
from learners.training import ranks
from learners.training.batching import Sample
from learners.training.trainer import Trainer
from resume_gym.llm import Usage

PROBE_TOKENS = 32
PROBE_LIMIT = {"float32": 7e-4, "bfloat16": 0.07}
"""Largest mean difference between engine and trainer log-probabilities that is rounding noise, at
temperature 1; noise of the logits is divided by the temperature."""
_CHECK_EVERY_S = 2.0
_T = TypeVar("_T")


@dataclass(frozen=True)
class Batch:
    """The rollouts of one training step.

    Attributes:
        rewards: [n], the return of each rollout.
        groups: [n], equal for rollouts of the same task.
        metrics: figures of the rollouts: rewards, behaviour, tokens, staleness.
        ledgers: reward terms of each turn of each rollout [n].
        unweighted: training samples [n] whose advantages are 0.
    """

    rewards: Tensor
    groups: Tensor
    metrics: Mapping[str, float]
    ledgers: Sequence[Sequence[Mapping[str, float]]]
    unweighted: Sequence[Sample]

    @classmethod
    def of(cls, batch: orchestrator.StepRollouts, step: int) -> "Batch":
        """Convert the orchestrator's batch of finished rollouts."""
        rollouts = batch.rollouts
        return cls(
            torch.tensor([rollout.session.reward for rollout in rollouts]),
            torch.tensor([rollout.group for rollout in rollouts]),
            {
                **batch.summary.metrics(),
                **_token_figures(rollouts),
                **_staleness(rollouts, step),
                "dropped_episodes": batch.dropped_episodes,
                "dropped_groups": batch.dropped_groups,
                "seconds_lag": batch.lag_s,
                **_spent(batch.judge_usage),
            },
            [rollout.session.ledgers for rollout in rollouts],
            [rollout.sample() for rollout in rollouts],
        )

    @property
    def response_tokens(self) -> int:
        """Tokens after the prompts, sampled or from the environment."""
        return sum(len(sample.response) for sample in self.unweighted)

    @property
    def turns(self) -> list[list[int]]:
        """Number of sampled tokens of each turn of each rollout [n]."""
        return [sample.turns for sample in self.unweighted]

    def samples(self, advantages: Sequence[Sequence[float]]) -> list[Sample]:
        """Return the training samples, given the advantages of each rollout's turns."""
        pairs = zip(self.unweighted, advantages, strict=True)
        return [sample.credited(turns) for sample, turns in pairs]


class RolloutSource:
    """Rollouts of the current policy, on every rank.

    Args:
        config: settings of the run.
        trainer: holds the weights to sample with.
        work: tasks, rules and judge; None on all ranks but 0, like engine and sampler.
        engine: samples tokens.
        sampler: plays and grades episodes with the engine.
        servers: engine servers that rank 0 has started on this machine.
        note: adds a sentence to the run's journal.
    """

    def __init__(
        self,
        config: Config,
        trainer: Trainer,
        work: Workload | None = None,
        engine: Engine | None = None,
        sampler: Sampler | None = None,
        servers: Sequence[Server] = (),
        note: Callable[[str], object] = print,
    ) -> None:
        self._config, self._trainer = config, trainer
        self._work: Any = work
        self._engine: Any = engine
        self._sampler: Any = sampler
        if sampler:
            sampler.idle = self._bring_up_to_date
        self._servers = servers
        # servers hold weights in the precision of the run, the transformers engine in fp32
        served = config.precision if config.engine == "vllm" else "float32"
        self._dtype: torch.dtype = getattr(torch, served)
        self._note = note
        self._version = 0
        self._checked = 0.0

    def batch(self, step: int) -> Batch:
        """Return the graded rollouts of a step.

        Raises:
            EngineError: the engine returned no tokens.
            JudgeError: no group received enough verdicts.
        """
        return self._from_rank_0(lambda: Batch.of(self._sampler.batch(step), step))

    def publish(self, version: int) -> float:
        """Load the trainer's weights into the engine, and check that it samples with them.

        Args:
            version: number of optimizer steps of the weights.

        Returns:
            Mean absolute difference in log-probability between engine and trainer on a few sampled
            tokens; 0 for an in-process engine, since training compares all of its tokens.

        Raises:
            EngineError: the engine did not load the weights, or the difference is too large.
        """
        probes = self._from_rank_0(lambda: self._update(version))
        gap = float(self._trainer.gaps(probes).mean()) if probes else 0.0
        limit = PROBE_LIMIT[self._config.precision] / self._config.temperature
        if not gap <= limit:  # also true for nan
            message = f"sampler and trainer differ by {gap:.3g} in log-probability"
            raise EngineError(f"after weights {version}: {message}, more than {limit:.3g}")
        if self._sampler:
            self._sampler.published(version)
        return gap

    def _update(self, version: int) -> list[Sample]:
        for server in self._servers:
            server.ready()
        self._engine.load_weights(version, self._weights)
        self._version = version
        chat, session = self._work.chat, self._work.session(self._work.held_out[0])
        prompt = chat.prompt(session.system_prompt, session.prompt)
        sampling = Sampling(self._config.temperature, PROBE_TOKENS, chat.ends, (0,))
        probes = asyncio.run(self._engine.probe(prompt, sampling))
        lists = [(one.ids, [True] * len(one.ids), one.logprobs) for one in probes]
        return [Sample(0, prompt, *each, [0.0] * len(each[0])) for each in lists]

    def evaluate(self, step: int) -> None:
        """Start to play the held-out tasks."""
        if self._sampler:
            self._sampler.evaluate(step)

    def evaluations(self, wait: bool) -> list[tuple[int, Evaluation]]:
        """Return (step, evaluation) for each evaluation that ended since the last call.

        Args:
            wait: whether to wait for all evaluations that were started.
        """
        return self._from_rank_0(lambda: self._sampler.evaluations(wait))

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Free the engine's GPU memory for the trainer, where they share a GPU.

        No rank trains before the engine sleeps, and it wakes up when all ranks have made room.

        Raises:
            EngineError: the engine did not free or allocate its memory.
        """
        if not self._config.colocated:
            yield
            return
        self._from_rank_0(lambda: self._engine.sleep())
        yield
        torch.cuda.empty_cache()  # memory cached by PyTorch is not free for the engine
        ranks.barrier()
        self._from_rank_0(lambda: self._engine.wake())

    def close(self) -> None:
        """Stop sampling, and close the engine."""
        if self._sampler:
            self._sampler.close()
            self._engine.close()

    def _from_rank_0(self, produce: Callable[[], _T]) -> _T:
        """Return on every rank what rank 0 produces, or raise its error.

        `produce` may gather weights any number of times; the other ranks take part until rank 0
        announces the result.
        """
        if ranks.rank() == 0:
            value: Any = None
            error: Exception | None = None
            try:
                value = produce()
            except Exception as problem:
                error = problem
            ranks.broadcast((True, value, error))
            if error is not None:
                raise error
            return value  # type: ignore[no-any-return]
        while True:
            finished, value, error = ranks.broadcast(None)
            if error is not None:
                raise error
            if finished:
                return value  # type: ignore[no-any-return]
            # rank 0 gathers weights: take part, and discard them
            deque(self._trainer.iter_weights(self._dtype), maxlen=0)

    def _weights(self) -> Iterable[tuple[str, Tensor]]:
        """Start to gather the weights on all ranks; call on rank 0, within `_from_rank_0`."""
        ranks.broadcast((False, None, None))
        return self._trainer.iter_weights(self._dtype)

    def _bring_up_to_date(self) -> None:
        """Send the weights to servers that were restarted; called while rank 0 waits."""
        for server in self._servers:
            server.check()
        if time.monotonic() - self._checked < _CHECK_EVERY_S:
            return
        if self._engine.behind(self._version):
            self._note(f"An engine is given weights {self._version} again.")
            self._engine.load_weights(self._version, self._weights)
        self._checked = time.monotonic()


def _spent(usage: Usage | None) -> dict[str, float]:
    """Return the tokens and the cost of a model judge so far."""
    if usage is None:
        return {}
    cost = {} if usage.dollars is None else {"judge_dollars": usage.dollars}
    return {"judge_tokens": usage.tokens, **cost}


def _token_figures(rollouts: Sequence[Rollout]) -> dict[str, float]:
    return {
        "turns": fmean(rollout.session.turns for rollout in rollouts),
        "sampled_tokens": sum(sum(rollout.sampled) for rollout in rollouts),
        "tokens": sum(len(rollout.prompt) + len(rollout.response) for rollout in rollouts),
    }


def _staleness(rollouts: Sequence[Rollout], step: int) -> dict[str, float]:
    """Return how many optimizer steps the sampling weights are behind the trained ones."""
    ages = [step - 1 - v for r in rollouts for v in r.versions if v != NOT_SAMPLED]
    return {"staleness": fmean(ages), "staleness_max": max(ages)}
