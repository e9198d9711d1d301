"""Engine and trainers that take turns on the same GPUs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from learners import launch
from learners.config import Config
from learners.engines import EngineError
from learners.rollouts.rollout_source import RolloutSource
from learners.training import ranks

Calls = list[str]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls: Calls = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty cache"))
    monkeypatch.setattr(ranks, "barrier", lambda: calls.append("all ranks"))
    return calls


def source(calls: Calls, rank: int, monkeypatch: pytest.MonkeyPatch) -> RolloutSource:
    """Rollouts of a rank, with an engine on rank 0."""

    def broadcast(value: Any) -> Any:
        calls.append("rank 0 is done")
        return value if value[0] else (True, None, None)

    monkeypatch.setattr(ranks, "rank", lambda: rank)
    monkeypatch.setattr(ranks, "broadcast", broadcast)
    engine = SimpleNamespace(
        sleep=lambda: calls.append("sleep"), wake=lambda: calls.append("wake up")
    )
    lead: Any = SimpleNamespace(engine=engine, sampler=SimpleNamespace()) if rank == 0 else None
    trainer: Any = SimpleNamespace()
    return RolloutSource(trainer, 0.7, "float32", torch.float32, True, lead)


@pytest.mark.parametrize("rank", [0, 1])
def test_no_rank_trains_beside_an_engine_that_is_awake(
    rank: int, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    with source(calls, rank, monkeypatch).asleep():
        calls.append("train")
    expected = ["sleep", "rank 0 is done", "train", "empty cache", "all ranks", "wake up"]
    expected.append("rank 0 is done")
    assert calls == [call for call in expected if rank == 0 or call not in ("sleep", "wake up")]


def test_an_engine_that_does_not_sleep_ends_all_ranks(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollouts = source(calls, 1, monkeypatch)
    told = (True, None, EngineError("it broke"))
    monkeypatch.setattr(ranks, "broadcast", lambda value: told)
    with pytest.raises(EngineError, match="it broke"), rollouts.asleep():
        calls.append("train")
    assert calls == []


@pytest.mark.vllm
def test_trainers_start_when_the_engine_has_measured_the_free_memory(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def server(*_: object) -> SimpleNamespace:
        return SimpleNamespace(
            url="http://127.0.0.1:1",
            ready=lambda: calls.append("the engine is ready"),
            close=lambda: calls.append("the engine is closed"),
        )

    def trainer(*_: object) -> None:
        calls.append("a trainer starts")
        raise EngineError("far enough")

    monkeypatch.setattr("learners.engines.server.Server", server)
    monkeypatch.setattr(launch, "make_trainer", trainer)
    config = Config(engine="vllm", colocated=True, max_staleness=0, runs=tmp_path)
    with pytest.raises(EngineError, match="far enough"):
        launch._run(config, lambda *_: None)
    assert calls == ["the engine is ready", "all ranks", "a trainer starts", "the engine is closed"]
