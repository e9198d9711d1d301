import pickle
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path, PosixPath
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from rank_worker import exploding, payloads
from tiny import ARCHITECTURES, make_sample, save_tiny, tiny_group, tiny_policy
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from transformers import LlamaConfig, LlamaForCausalLM

from learners.aipo import aipo_loss, feedback_loss
from learners.build import backend_settings, make_backend, make_trainer
from learners.config import Config
from learners.training import lora, ranks
from learners.training.backends.fsdp2 import MetadataReader
from learners.training.backends.local import LocalBackend
from learners.training.backends.settings import make_optimizer
from learners.training.checkpoint import CheckpointError
from learners.training.muon import Muon
from learners.training.rows import Hinted, pack
from learners.training.trainer import learning_rate


@cache
def folder(architecture: str, seed: int) -> Path:
    return save_tiny(architecture, Path(mkdtemp()), seed)


def make(architecture: str = "qwen3", seed: int = 0, **changes: object) -> LocalBackend:
    settings = {"learning_rate": 1e-3, "weight_decay": 0.01, "temperature": 1.0, **changes}
    config = Config(model=str(folder(architecture, seed)), **settings)  # type: ignore[arg-type]
    backend: Any = make_backend(config)
    backend.prepare()
    return backend  # type: ignore[no-any-return]


def weights(backend: LocalBackend) -> list[Tensor]:
    return [one.detach().clone() for one in backend._policy.parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(map(torch.equal, one, other))


def timeless(metrics: Mapping[str, float]) -> dict[str, float]:
    return {k: v for k, v in metrics.items() if k not in ("trained_tokens_per_s", "tflops")}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_step_raises_the_probability_of_good_rollouts(architecture: str) -> None:
    backend = make(architecture)
    samples = tiny_group(backend._policy)
    batches = pack(samples, 1000)
    seen = backend.train_step(batches, aipo_loss)
    moved = backend._policy(batches[0])[0].detach() - batches[0].logprobs
    for rollout in range(len(samples)):
        own = batches[0].sequences == rollout
        assert float(moved[own].sum() * batches[0].advantages[own][0]) > 0
    assert seen["ratio"] == pytest.approx(1, abs=1e-5)
    assert seen["ratio_std"] == pytest.approx(0, abs=1e-5)
    assert seen["gap"] == pytest.approx(0, abs=1e-5)
    assert seen["masked"] == seen["skipped"] == 0
    assert 0 < seen["entropy"] < 4.2
    assert seen["gradient_norm"] > 0
    assert seen["trained_tokens"] == len(batches[0].tokens)


def gradient(backend: LocalBackend, folder: Path) -> Tensor:
    """The clipped gradient of the first step: AdamW's first moment is a tenth of it."""
    backend.save(folder)
    state = torch.load(folder / "optimizer.pt")["state"].values()
    return 10 * torch.cat([one["exp_avg"].flatten() for one in state])


def test_checkpointing_computes_layers_again() -> None:
    """Otherwise the comparison in test_ranks.py shows nothing."""
    calls = {}
    for checkpointing in (False, True):
        backend = make(activation_checkpointing=checkpointing)
        seen: list[None] = []
        norm = backend._policy.model.model.layers[0].input_layernorm
        norm.register_forward_hook(lambda *_, seen=seen: seen.append(None))
        backend.train_step(pack(tiny_group(backend._policy), 1000), aipo_loss)
        calls[checkpointing] = len(seen)
    assert calls[True] == calls[False] + 1


def rates(**changes: Any) -> list[float]:
    settings = {"highest": 1.0, "schedule": "constant", "warmup": 0, "steps": 6, **changes}
    return [round(learning_rate(step, **settings), 3) for step in range(1, 7)]


def test_the_learning_rate_rises_and_decays() -> None:
    assert rates(schedule="constant") == [1.0] * 6
    assert rates(warmup=3) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert rates(schedule="linear") == [1.0, 0.833, 0.667, 0.5, 0.333, 0.167]
    both = rates(schedule="cosine", warmup=2)
    assert both == [0.333, 0.667, 1.0, 0.854, 0.5, 0.146]
    assert all(rates(schedule="linear", warmup=8))  # never reaches its maximum


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [("qwen3", {}), ("llama", {"lora_rank": 4}), ("qwen3", {"optimizer": "muon"})],
)
def test_a_loaded_backend_continues_bit_for_bit(
    architecture: str, changes: dict[str, object], tmp_path: Path
) -> None:
    backend = make(architecture, **changes)
    batches = pack(tiny_group(backend._policy), 1000)
    backend.train_step(batches, aipo_loss)
    backend.save(tmp_path)
    saved = weights(backend)
    backend.set_learning_rate(5e-4)
    first = timeless(backend.train_step(batches, aipo_loss))
    other = make(architecture, seed=1, **changes)
    assert not same(weights(other), saved)
    other.load(tmp_path)
    assert same(weights(other), saved)
    other.set_learning_rate(5e-4)
    assert timeless(other.train_step(batches, aipo_loss)) == first
    assert same(weights(other), weights(backend))


def test_a_checkpoint_holds_the_state_of_the_algorithm(tmp_path: Path) -> None:
    config = Config(model=str(folder("qwen3", 0)))
    trainer = make_trainer(config, tmp_path)
    assert trainer.state == {}
    trainer.state = {"tools": 0.1 + 0.2, "layout": 0.0}
    trainer.save(3)
    resumed = make_trainer(config, tmp_path)
    assert resumed.resume() == 3
    assert resumed.state == trainer.state
    (tmp_path / "step-000003" / "state.json").write_text("{")
    with pytest.raises(CheckpointError, match="step-000003 could not be loaded: Expecting"):
        resumed.resume()


def test_a_checkpoint_of_another_gpu_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = make()
    backend.train_step(pack(tiny_group(backend._policy), 1000), aipo_loss)
    with monkeypatch.context() as patch:
        patch.setattr("torch.serialization.location_tag", lambda storage: "cuda:7")
        backend.save(tmp_path)
    other = make()
    other.load(tmp_path)
    states = [one._optimizer.state_dict()["state"] for one in (backend, other)]
    for number, state in states[0].items():
        assert all(torch.equal(state[name], states[1][number][name]) for name in state)


def test_speed_counts_what_the_device_has_not_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU updates the weights after the call that starts it."""
    now = [0.0]
    monkeypatch.setattr("learners.training.backends.local.time.monotonic", lambda: now[0])
    monkeypatch.setattr(ranks, "synchronize", lambda: now.append(now.pop() + 2))
    backend = make()
    batches = pack(tiny_group(backend._policy), 1000)
    seen = backend.train_step(batches, aipo_loss)
    assert seen["trained_tokens_per_s"] == len(batches[0].tokens) / 2


@pytest.mark.parametrize(("device", "fused"), [("cpu", None), ("cuda", True)])
def test_adamw_is_fused_on_gpus_only(device: str, fused: bool | None) -> None:
    settings = backend_settings(Config())
    with FakeTensorMode():
        optimizer = make_optimizer([nn.Parameter(torch.ones(2, device=device))], settings)
    assert optimizer.param_groups[0]["fused"] is fused


def test_loading_a_checkpoint_executes_nothing(tmp_path: Path) -> None:
    """As for the other backends, in test_ranks.py."""
    trainer = make_trainer(Config(model=str(folder("qwen3", 0))), tmp_path)
    trainer.save(1)
    saved = tmp_path / "step-000001"
    for name, payload in payloads(tmp_path / "executed").items():
        state = torch.load(saved / "optimizer.pt", weights_only=False)
        torch.save({**state, "more": payload}, tmp_path / "optimizer.pt")
        (saved / "optimizer.pt").rename(tmp_path / "whole")
        (tmp_path / "optimizer.pt").rename(saved / "optimizer.pt")
        with pytest.raises(CheckpointError, match="expected tensors and plain values, got") as told:
            trainer.resume()
        (tmp_path / "whole").rename(saved / "optimizer.pt")
        assert name.endswith(str(told.value).rpartition(" ")[2])
        assert not (tmp_path / "executed").exists()
    assert trainer.resume() == 1


def test_metadata_of_a_distributed_checkpoint_are_data(tmp_path: Path) -> None:
    properties = TensorProperties(dtype=torch.bfloat16)
    tensor = TensorStorageMetadata(properties, torch.Size([2]), [])
    found = Metadata({"a": tensor}, storage_data={MetadataIndex("a"): _StorageInfo("f", 0, 1)})
    reader, file = MetadataReader(tmp_path), tmp_path / ".metadata"
    file.write_bytes(pickle.dumps(found))
    assert reader.read_metadata().state_dict_metadata == found.state_dict_metadata
    calls = [*payloads(tmp_path / "executed").values(), torch.nn.Linear, torch.hub.load]
    for payload in calls:
        file.write_bytes(pickle.dumps(replace(found, planner_data=payload)))
        with pytest.raises(pickle.UnpicklingError, match="GLOBAL "):
            reader.read_metadata()
    assert not (tmp_path / "executed").exists()


def test_metadata_change_no_class_and_no_function(tmp_path: Path) -> None:
    for name in ("pathlib PosixPath", "torch Size", "torch.serialization _get_layout"):
        found = b"c" + name.replace(" ", "\n").encode() + b"\n"
        for state in (b"}Vprobe\nI1\ns", b"(N}Vprobe\nI1\nst"):
            (tmp_path / ".metadata").write_bytes(found + state + b"b.")
            with pytest.raises(pickle.UnpicklingError, match="BUILD "):
                MetadataReader(tmp_path).read_metadata()
    for target in (PosixPath, torch.Size, torch.serialization._get_layout):
        assert not hasattr(target, "probe")


def test_weights_in_pickles_are_refused(tmp_path: Path) -> None:
    shutil.copy(folder("qwen3", 0) / "config.json", tmp_path)
    torch.save(tiny_policy("qwen3")[1].state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match=r"expected \*\.safetensors in .*, found none"):
        make_backend(Config(model=str(tmp_path))).prepare()


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    backend, calm = make(), make()
    batches = pack(tiny_group(backend._policy), 1000)
    before = weights(backend)
    with pytest.raises(FloatingPointError, match=r"the gradient norm is (nan|inf)"):
        backend.train_step(batches, exploding)
    assert same(weights(backend), before)
    # nor does it leave anything behind
    first, second = (timeless(one.train_step(batches, aipo_loss)) for one in (backend, calm))
    assert first == second
    assert same(weights(backend), weights(calm))


def test_a_batch_without_sampled_tokens_is_refused() -> None:
    backend = make()
    silent = pack([make_sample(0, [4], [2], sampled=[False])], 100)
    for batches in (silent, []):
        with pytest.raises(ValueError, match="without sampled tokens"):
            backend.train_step(batches, aipo_loss)
    batches = pack(tiny_group(backend._policy), 1000)
    alone = make().train_step(batches, aipo_loss)
    beside = backend.train_step([*silent, *batches], aipo_loss)
    assert beside["loss"] == alone["loss"]
    assert beside["gradient_norm"] == alone["gradient_norm"]


def test_groups_without_variance_change_nothing_but_are_measured() -> None:
    """Not even by the momentum of the steps before."""
    backend = make()
    samples = tiny_group(backend._policy)
    backend.train_step(pack(samples, 1000), aipo_loss)
    before = weights(backend)
    flat = [replace(one, advantages=[0.0] * len(one.response)) for one in samples]
    seen = backend.train_step(pack(flat, 1000), aipo_loss)
    assert same(weights(backend), before)
    assert (seen["skipped"], seen["gradient_norm"]) == (1, 0)
    assert seen["gap"] > 0
    assert seen["entropy"] > 0


@pytest.mark.parametrize("form", ["full", "sampled"])
def test_hints_alone_draw_the_policy_towards_what_it_says_after_them(form: str) -> None:
    backend = make()
    first, *rest = tiny_group(backend._policy)
    hint = Hinted(0, [*first.prompt, 17, 3])
    samples = [replace(first, hinted=(hint,)), *rest]
    flat = [replace(one, advantages=[0.0] * len(one.response)) for one in samples]
    loss = partial(feedback_loss, weight=1.0, form=form)
    seen = [backend.train_step(pack(flat, 1000), loss) for _ in range(12)]
    assert seen[0]["skipped"] == 0
    assert seen[0]["feedback_gap"] > 0
    assert "feedback_tokens" not in seen[0]
    # the teacher moves with the policy, so the gap falls slowly
    assert seen[-1]["feedback_gap"] < seen[0]["feedback_gap"]


def test_the_gradient_is_clipped(tmp_path: Path) -> None:
    told, kept = [], []
    for limit in (1e9, 1e-3):
        backend = make(max_grad_norm=limit)
        batches = pack(tiny_group(backend._policy), 1000)
        told.append(backend.train_step(batches, aipo_loss)["gradient_norm"])
        kept.append(float(gradient(backend, tmp_path).norm()))
    assert told[0] == told[1] > 0.01, "the norm before clipping is told"
    assert kept == pytest.approx([told[0], 1e-3], rel=1e-3)


def test_muon_moves_matrices_in_all_directions_alike() -> None:
    backend = make("wide", optimizer="muon", weight_decay=0.0)
    (layer,) = backend._policy.model.get_decoder().layers[:1]
    before = layer.mlp.up_proj.weight.detach().clone()
    embedding = backend._policy.model.get_input_embeddings().weight
    embedded = embedding.detach().clone()
    backend.set_learning_rate(1e-2)
    backend.train_step(pack(tiny_group(backend._policy), 1000), aipo_loss)
    values = torch.linalg.svdvals(layer.mlp.up_proj.weight.detach() - before)
    assert values[0] / values[4] < 1.5, "its step is about orthogonal"
    # AdamW's first step is as long as its rate
    assert float((embedding.detach() - embedded).abs().max()) == pytest.approx(1e-2, rel=0.05)


def test_muon_in_float32_does_what_torch_does_in_bfloat16() -> None:
    torch.manual_seed(0)
    for shape in ((16, 16), (16, 48), (48, 16)):
        ours, theirs = (torch.nn.Parameter(torch.zeros(shape)) for _ in range(2))
        mine = Muon([ours], 1e-2, 0.0, torch.float32)
        other = torch.optim.Muon([theirs], 1e-2, 0.0, adjust_lr_fn="match_rms_adamw")
        for _ in range(3):
            ours.grad = torch.randn(shape)
            theirs.grad = ours.grad.clone()
            mine.step()
            other.step()
        torch.testing.assert_close(ours, theirs, atol=5e-4, rtol=0)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_adapters_train_alone_and_merge_into_the_model(architecture: str) -> None:
    backend, plain = make(architecture, lora_rank=4, lora_alpha=8), make(architecture)
    batches = pack(tiny_group(plain._policy), 1000)
    torch.testing.assert_close(backend._policy(batches[0]), plain._policy(batches[0]))
    begun = dict(backend.iter_weights())
    base = dict(plain.iter_weights())
    assert begun.keys() == base.keys()
    assert all(torch.equal(begun[name], base[name]) for name in base)
    for _ in range(2):
        backend.train_step(batches, aipo_loss)
    trained = dict(backend.iter_weights())
    changed = {name for name in base if not torch.equal(trained[name], base[name])}
    assert changed == {name for name in base if "proj" in name}
    policy, _ = tiny_policy(architecture)
    policy.model.load_state_dict(trained, strict=False)
    torch.testing.assert_close(policy(batches[0]), backend._policy(batches[0]))


def test_merged_weights_are_in_the_order_of_the_model() -> None:
    """vLLM's sender refuses another order; adapted layers name their bias before the adapters."""
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "vocab_size": 9}
    biases = {"attention_bias": True, "mlp_bias": True, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **biases))
    plain = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    lora.inject(model, 2, 4)
    merged = dict(lora.merged(model.named_parameters(), 2, 4))
    assert list(merged) == list(plain)
    assert all(torch.equal(merged[name], plain[name]) for name in plain)


@pytest.mark.gpu
def test_a_step_on_a_gpu_is_that_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for device in ("cpu", "cuda"):
        monkeypatch.setattr(
            "learners.training.ranks.device", lambda device=device: torch.device(device)
        )
        backend = make()
        batches = pack(tiny_group(tiny_policy("qwen3")[0]), 1000)
        metrics = timeless(backend.train_step(batches, aipo_loss))
        metrics.pop("mfu", None)
        seen.append((metrics, [weight.cpu() for weight in weights(backend)]))
    (metrics, trained), (expected, after) = seen
    assert metrics == pytest.approx(expected, abs=1e-4)
    torch.testing.assert_close(trained, after, atol=1e-4, rtol=0)
