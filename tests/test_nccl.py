"""vLLM's own sender of weights, with servers, streams and an NCCL group that are scripts."""

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_vllm import FakeVLLM

from learners.engines import EngineError
from learners.engines.vllm import VLLMEngine
from learners.training import models, ranks

pytestmark = [pytest.mark.slow, pytest.mark.vllm]

SENDER = "vllm.distributed.weight_transfer.nccl_engine"


class Group:
    """An NCCL group that records what is sent, all of it on one device."""

    def __init__(self, calls: list[str], device: str = "cpu") -> None:
        self.calls = calls
        self.device = torch.device(device)
        self.sent: list[torch.Tensor] = []

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        assert src == 0
        assert tensor.device == self.device
        self.calls.append("broadcast")
        self.sent.append(tensor)

    def destroy(self) -> None:
        self.calls.append("destroy")


@pytest.fixture
def server() -> Iterator[FakeVLLM]:
    with FakeVLLM(lambda ids: ids) as one:
        one.version = "3"
        yield one


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls of the stream on which the trainer computes, and of NCCL, in order."""
    calls: list[str] = []
    packed = "vllm.distributed.weight_transfer.packed_tensor"
    idle = SimpleNamespace(synchronize=lambda: None)
    computing = SimpleNamespace(synchronize=lambda: calls.append("synchronize"))
    monkeypatch.setattr(f"{packed}._get_streams", lambda index, count: [idle] * count)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: computing)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.append(f"on {device}"))
    monkeypatch.setattr(ranks, "device", lambda: torch.device("cuda", 3))
    return calls


def engine(server: FakeVLLM) -> VLLMEngine:
    return VLLMEngine([server.url], "nano", "bfloat16", 30.0, by_nccl=True)


def test_what_the_step_has_computed_is_sent_in_the_order_of_the_model(
    server: FakeVLLM, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Group(calls)
    monkeypatch.setattr(f"{SENDER}.open_trainer_endpoint", lambda info: group)
    model, one = models.load("nano"), engine(server)
    for version in (4, 5):
        one.load_weights(version, model.named_parameters)
    one.close()
    updated = ["pause", "start_weight_update", "update_weights", "finish_weight_update", "resume"]
    joined = ["shutdown_weight_transfer_engine", "init_weight_transfer_engine"]
    assert server.calls == [*joined, *updated, *updated]
    sent = ["synchronize", "broadcast"]
    assert calls == ["on cuda:3", *sent, *sent, "destroy"]
    packed = torch.cat([weight.detach().bfloat16().flatten() for weight in model.parameters()])
    assert all(torch.equal(found.view(torch.bfloat16), packed) for found in group.sent)


def test_a_server_that_was_restarted_joins_a_new_group(
    server: FakeVLLM, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights are on a device other than the CPU, where they stay."""
    monkeypatch.setattr(f"{SENDER}.open_trainer_endpoint", lambda info: Group(calls, "meta"))
    model, one = models.skeleton("nano"), engine(server)
    for version in (4, 5):
        one.load_weights(version, model.named_parameters)
        server.version = "default"
    formed = ["on cuda:3", "synchronize", "broadcast"]
    assert calls == [*formed, "destroy", *formed]
    assert server.calls.count("init_weight_transfer_engine") == 2


def test_a_server_that_fails_while_the_group_forms_ends_the_waiting_for_it(
    server: FakeVLLM, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NCCL waits for all members, without end."""
    ended = threading.Event()

    def wait(info: Any) -> None:
        ended.wait()

    monkeypatch.setattr(f"{SENDER}.open_trainer_endpoint", wait)
    server.broken = "init_weight_transfer_engine"
    one = VLLMEngine([server.url], "nano", "bfloat16", 0.5, by_nccl=True)
    with pytest.raises(EngineError, match=f"{server.url} did not load .* step 4: .*it broke"):
        one.load_weights(4, models.load("nano").named_parameters)
    ended.set()


def test_a_rank_that_cannot_form_the_group_is_an_error(
    server: FakeVLLM, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(info: Any) -> None:
        raise RuntimeError("NCCL error: invalid usage")

    monkeypatch.setattr(f"{SENDER}.open_trainer_endpoint", fail)
    with pytest.raises(EngineError, match="step 4: weights could not be sent: NCCL error"):
        engine(server).load_weights(4, models.load("nano").named_parameters)
