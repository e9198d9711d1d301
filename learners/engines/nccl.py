"""Weight transfer from rank 0's GPU to the GPUs of vLLM servers, with vLLM's NCCL sender."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, as_completed
from typing import TypeVar

import requests
import torch
from torch import Tensor, dtype
from vllm.distributed.weight_transfer import ParamMeta, WeightSource, WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

from learners.engines.api_key import headers
from learners.engines.control import Control
from learners.engines.server import free_port
from learners.training import models, ranks
from learners.training.policy import Policy

_T = TypeVar("_T")


class _Source(WeightSource):
    """Weights in the form that vLLM's sender expects: metadata of all tensors, and the tensors."""

    def __init__(self, model: str, kind: dtype) -> None:
        named = Policy(models.skeleton(model), 1.0, "float32").model.named_parameters()
        self._metadata = [ParamMeta(name, kind, tuple(weight.shape)) for name, weight in named]
        self.tensors: Iterable[tuple[str, Tensor]] = ()

    def metadata(self) -> list[ParamMeta]:
        return self._metadata

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return iter(self.tensors)


class NCCLSender:
    """Sender of weights over an NCCL group of the trainer's rank 0 and the workers of all servers.

    Args:
        control: client of the servers' endpoints for weight updates.
        model: name of the model, which determines the names and shapes of the weights.
        kind: dtype of the transferred weights.
        address: address at which all servers can reach this machine.

    Raises:
        RequestException: a server did not join the group.
    """

    def __init__(self, control: Control, model: str, kind: dtype, address: str) -> None:
        sizes = [_workers(url) for url in control.urls]
        # NCCL rank 0 is the trainer; the workers of each server follow
        offsets = [1 + sum(sizes[:i]) for i in range(len(sizes))]
        self._source = _Source(model, kind)
        info = NCCLTrainerInitInfo(
            master_address=address,
            master_port=free_port(),
            world_size=1 + sum(sizes),
            rank=0,
        )
        control.offsets = offsets
        self._sender = _join_or_fail(
            control.failure,
            lambda: WeightTransferTrainerFactory.trainer_init(
                info, client=control, source=self._source
            ),
        )

    def send(self, control: Control, tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Send all weights, as (name, full tensor), to the servers that `control` calls."""
        self._source.tensors = tensors
        self._sender.client = control
        # vLLM copies the weights on its own stream, which does not wait for the optimizer step
        torch.cuda.current_stream().synchronize()
        self._sender.send_weights()

    def close(self) -> None:
        """Leave the NCCL group."""
        self._sender.shutdown()


def _join_or_fail(failure: Future[object], join: Callable[[], _T]) -> _T:
    """Return `join()`; if a server fails first, raise its error, since `join` would then hang."""
    joined: Future[_T] = Future()

    def run() -> None:
        try:
            torch.cuda.set_device(ranks.device())  # each thread has its own current device
            joined.set_result(join())
        except BaseException as error:
            joined.set_exception(error)

    # a daemon thread, which does not keep the process alive: joining the NCCL group may hang
    threading.Thread(target=run, daemon=True).start()
    next(as_completed((joined, failure))).result()
    return joined.result()


def _workers(url: str) -> int:
    answer = requests.get(f"{url}/get_world_size", headers=headers(), timeout=30)
    return int(answer.json()["world_size"])
