"""The trainer: a backend on all ranks, which rank 0 drives.

Rank 0 calls the methods; each tells the other ranks, which are in `follow`, to do the same.
"""

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException

from learners import checkpoint, ranks
from learners.backends import make_backend
from learners.batching import Sample, pack
from learners.checkpoint import CheckpointError
from learners.config import Config
from learners.losses import LOSSES

_ORPHANED_S = 10.0


class Trainer:
    """Made on all ranks at once; rank 0 then drives, the others `follow`.

    Args:
        config: of the run.
        checkpoints: the folder of all checkpoints, which all ranks see.

    Attributes:
        policy: the one that is trained; its weights may be shared out.
    """

    def __init__(self, config: Config, checkpoints: Path) -> None:
        self._config = config
        self._checkpoints = checkpoints
        self._backend = make_backend(config)
        self._pending: tuple[int, Future[Any]] | None = None
        self.policy = self._backend.prepare(config)

    def follow(self) -> None:
        """Do what rank 0 says until it closes.

        Raises:
            SystemExit: it is gone.
        """
        while True:
            try:
                name, *arguments = ranks.tell(None)
            except RuntimeError as problem:
                time.sleep(_ORPHANED_S)  # who started rank 0 says why it is gone, and ends this one
                print(f"error: process 0 does not answer: {problem}", file=sys.stderr)
                raise SystemExit(1) from None
            if name == "_close":
                return
            getattr(self, name)(*arguments)

    def train_step(self, samples: Sequence[Sample]) -> Mapping[str, float]:
        """One optimizer step; see `Backend.train_step`."""
        ranks.tell(("_train_step", samples))
        return self._train_step(samples)

    def _train_step(self, samples: Sequence[Sample]) -> Mapping[str, float]:
        rows = pack(samples, self._config.row_tokens, ranks.world())
        return self._backend.train_step(rows, LOSSES[self._config.loss])

    def gaps(self, samples: Sequence[Sample]) -> Tensor:
        """By how much the sampler's log-probabilities [n] are off, for a few samples' tokens."""
        ranks.tell(("_gaps", samples))
        return self._gaps(samples)

    def _gaps(self, samples: Sequence[Sample]) -> Tensor:
        (row,) = pack(samples, sum(len(one.prompt) + len(one.response) for one in samples))
        return (self._backend.score(row).cpu() - row.logprobs).abs()

    def iter_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Names and full tensors of the model in Hugging Face's format; to be used up."""
        ranks.tell(("_pass_weights",))
        return self._backend.iter_weights()

    def _pass_weights(self) -> None:
        deque(self._backend.iter_weights(), maxlen=0)

    def save(self, step: int) -> None:
        """Save a checkpoint; with `async_save` it is there after the next save, or the end.

        Raises:
            CheckpointError: it could not be written; the one before is still there.
        """
        ranks.tell(("_save", step))
        self._save(step)

    def _save(self, step: int) -> None:
        self._finish_save()
        try:
            begun = checkpoint.begin(self._checkpoints, step) if ranks.rank() == 0 else None
            self._pending = step, self._backend.save(ranks.tell(begun)) or _done()
        except (OSError, RuntimeError, SafetensorError, CheckpointException) as error:
            raise self._torn(step, error) from error
        if not self._config.async_save:
            self._finish_save()

    def _finish_save(self) -> None:
        if self._pending is None:
            return
        (step, writing), self._pending = self._pending, None
        try:
            writing.result()
            ranks.barrier()
            if ranks.rank() == 0:
                checkpoint.finish(self._checkpoints, step)
        except (OSError, RuntimeError, CheckpointException) as error:
            raise self._torn(step, error) from error

    def _torn(self, step: int, error: BaseException) -> CheckpointError:
        last = checkpoint.latest(self._checkpoints)
        kept = f"{last[1]} is the last one" if last else "there is none yet"
        return CheckpointError(f"the checkpoint of step {step} could not be saved: {error}; {kept}")

    def wait(self) -> None:
        """Until the last checkpoint is there.

        Raises:
            CheckpointError: it could not be written; the one before is still there.
        """
        ranks.tell(("_finish_save",))
        self._finish_save()

    def load(self, folder: Path) -> None:
        """Go on from a checkpoint."""
        ranks.tell(("_load", folder))
        self._load(folder)

    def _load(self, folder: Path) -> None:
        self._backend.load(folder)

    def close(self) -> None:
        """Finish what is being written, and let the other ranks go."""
        self.wait()
        ranks.tell(("_close",))


def _done() -> "Future[None]":
    future: Future[None] = Future()
    future.set_result(None)
    return future
