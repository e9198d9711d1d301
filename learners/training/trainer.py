"""The trainer, which updates a policy with a backend, saves checkpoints and exports the model."""

import json
import math
import pickle
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException

from learners.losses import Loss
from learners.training import checkpoint, models, ranks
from learners.training.backends.local import LocalBackend
from learners.training.checkpoint import CheckpointError
from learners.training.rows import PackedRow, Sample, pack

_STATE = "state.json"
_ROLLBACKS = "rollbacks"


class Trainer:
    """Trainer of a policy.

    All methods are collective: every rank calls them with the same arguments.

    Args:
        backend: holds the weights and the optimizer.
        model: name or folder of the model that training started from.
        checkpoints: the folder of all checkpoints, visible to all ranks.
        row_tokens: maximum number of tokens in a packed row.
        rate: returns the learning rate of a step, counted from 1; each rollback halves later rates.
        keep_steps: number of recent steps whose checkpoints are kept for `roll_back`; see
            `checkpoint.finish`.

    Attributes:
        policy: the policy that is trained; its weights may be sharded.
        iter_weights: function that yields all weights; see `LocalBackend.iter_weights`.
        state: JSON values of the training loop, which checkpoints store; empty at first.
    """

    def __init__(
        self,
        backend: LocalBackend,
        model: str,
        checkpoints: Path,
        row_tokens: int,
        rate: Callable[[int], float],
        keep_steps: int = 0,
    ) -> None:
        self._backend, self._model, self._checkpoints = backend, model, checkpoints
        self._row_tokens, self._rate = row_tokens, rate
        self._keep_steps = keep_steps
        self._pending: tuple[int, Future[object] | None] | None = None
        self.policy = backend.prepare()
        self.iter_weights = backend.iter_weights
        self.state: Mapping[str, Any] = {}
        self._rollbacks = 0

    def resume(self) -> int:
        """Load the newest checkpoint, if there is one, and return the number of completed steps.

        Raises:
            CheckpointError: the checkpoint cannot be loaded, or contains more than plain data.
        """
        last = ranks.broadcast(checkpoint.latest(self._checkpoints) if _first() else None)
        if last is None:
            return 0
        step, folder = last
        self._load(folder)
        return int(step)

    def roll_back(self, step: int) -> None:
        """Load the checkpoint of an earlier step, and halve the learning rate from now on.

        Raises:
            CheckpointError: the checkpoint is damaged or cannot be loaded; see `resume`.
        """
        self.wait_for_checkpoint()
        rollbacks = self._rollbacks + 1
        folder = checkpoint.path_of(self._checkpoints, step)
        if damage := checkpoint.damage_of(folder):  # a resumed run checks only newer checkpoints
            raise CheckpointError(f"{folder} is damaged: {damage}; move it away")
        self._load(folder)
        self._rollbacks = rollbacks

    def _load(self, folder: Path) -> None:
        try:
            self._backend.load(folder)
            state = json.loads((folder / _STATE).read_text())
            self._rollbacks = int(state.pop(_ROLLBACKS, 0))
            self.state = state
        # a manipulated file can cause any exception; CheckpointException is not an Exception
        except (Exception, CheckpointException) as error:
            raise CheckpointError(f"{folder} could not be loaded: {_cause(error)}") from error

    def step(self, step: int, samples: Sequence[Sample], loss: Loss) -> Mapping[str, float]:
        """Take optimizer step number `step`, counted from 1; see `LocalBackend.train_step`.

        Args:
            step: number of the step, which determines the learning rate.
            samples: all rollouts of the step.
            loss: policy loss.

        Returns:
            The metrics of the backend, and `learning_rate`.
        """
        rows = pack(samples, self._row_tokens, ranks.world())
        return self.step_rows(rows, loss, self._rate(step) / 2**self._rollbacks)

    def step_rows(self, rows: Sequence[PackedRow], loss: Loss, rate: float) -> Mapping[str, float]:
        """Take one optimizer step on packed rows, with `loss` and the learning rate `rate`."""
        self._backend.set_learning_rate(rate)
        return {"learning_rate": rate, **self._backend.train_step(rows, loss)}

    def gaps(self, samples: Sequence[Sample]) -> Tensor:
        """Return |log p - log q| [n] of sampled tokens; the trainer computes p, the sampler q."""
        tokens = sum(len(sample.prompt) + len(sample.response) for sample in samples)
        (row,) = pack(samples, tokens)
        return (self._backend.score(row).cpu() - row.logprobs).abs()

    def export(self, folder: Path, replace: bool) -> None:
        """Write the policy in Hugging Face format.

        Args:
            folder: folder of the exported model.
            replace: whether to replace an existing model; otherwise, that model is kept.
        """
        if not ranks.broadcast(replace or not folder.is_dir()):
            return
        if _first():
            checkpoint.write_folder(
                folder, lambda path: models.export(self._model, self.iter_weights(), path)
            )
        else:
            deque(self.iter_weights(), maxlen=0)

    def save(self, step: int) -> None:
        """Save a checkpoint. A backend may write it in the background; see `wait_for_checkpoint`.

        Raises:
            CheckpointError: the checkpoint could not be written; earlier checkpoints still exist.
        """
        self.wait_for_checkpoint()
        try:
            folder = self._checkpoints
            if _first():
                folder = checkpoint.begin(folder, step)
                rolled = {_ROLLBACKS: self._rollbacks} if self._rollbacks else {}
                (folder / _STATE).write_text(json.dumps({**self.state, **rolled}) + "\n")
            writing = self._backend.save(ranks.broadcast(folder))
            self._pending = step, writing
        except (OSError, RuntimeError, SafetensorError, CheckpointException) as error:
            raise self._failure(step, error) from error
        if writing is None:
            self.wait_for_checkpoint()

    def save_unsaved(self, step: int) -> None:
        """Save a checkpoint and wait for it, unless this step or a later one has a checkpoint."""
        self.wait_for_checkpoint()
        last = ranks.broadcast(checkpoint.latest(self._checkpoints) if _first() else None)
        if step > (last[0] if last else 0):
            self.save(step)
            self.wait_for_checkpoint()

    def wait_for_checkpoint(self) -> None:
        """Wait until the last checkpoint is complete.

        Raises:
            CheckpointError: the checkpoint could not be written; earlier checkpoints still exist.
        """
        if self._pending is None:
            return
        (step, writing), self._pending = self._pending, None
        try:
            if writing:
                writing.result()
            ranks.barrier()  # the checkpoint is complete once all ranks have written their part
            if _first():
                checkpoint.finish(self._checkpoints, step, self._keep_steps)
            ranks.barrier()  # otherwise, an error on another rank could end rank 0 in `finish`
        except (OSError, RuntimeError, CheckpointException) as error:
            raise self._failure(step, error) from error

    def _failure(self, step: int, error: BaseException) -> CheckpointError:
        if _first():  # the disk may be full, and others need room to say so
            with suppress(OSError):
                checkpoint.remove_unfinished(self._checkpoints)
        last = checkpoint.latest(self._checkpoints)
        latest = f"the last checkpoint is {last[1]}" if last else "there is no checkpoint yet"
        message = f"the checkpoint of step {step} could not be saved: {error}; {latest}"
        return CheckpointError(message)


def learning_rate(step: int, highest: float, schedule: str, warmup: int, steps: int) -> float:
    """Return the learning rate of a step; it is above zero at every step from 1 to `steps`.

    Args:
        step: number of the step.
        highest: learning rate after the warm-up.
        schedule: "constant", or "linear" or "cosine" for a decay to zero at step `steps` + 1.
        warmup: number of steps at the start during which the learning rate rises linearly.
        steps: number of steps of the run.
    """
    done = max(0, step - 1 - warmup) / max(1, steps - warmup)
    factors = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
    return highest * min(1.0, step / (warmup + 1)) * factors[schedule]


def _cause(error: BaseException) -> str:
    """Return the reason why a checkpoint could not be loaded, in one line."""
    while isinstance(error, CheckpointException):
        error = next(iter(error.failures.values()))[0]
    message = str(error)
    # PyTorch's message is not shown, since it recommends loading the file anyway
    if name := re.search(r"GLOBAL ([\w.]+)", message):
        return f"expected tensors and plain values, got {name[1]}"
    if isinstance(error, pickle.UnpicklingError):
        return "expected a pickle of tensors and plain values"
    return next(iter(message.splitlines()), type(error).__name__)


def _first() -> bool:
    return ranks.rank() == 0
