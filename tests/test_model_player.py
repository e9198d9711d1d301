"""Models of one's own, sampled in this process or by servers, as players."""

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_vllm import FakeVLLM
from safetensors.torch import load_file, save_file, save_model
from scripted import SUBMIT

from learners.config import Config, ConfigError, to_toml
from learners.engines import Completion, EngineError, Sampling
from learners.rollouts.model_player import FoundModel
from learners.rollouts.tokens import ChatTokens
from learners.training import models
from learners.training.policy import Policy
from resume_gym import TOOLS, Rules, Session, load_tasks, tool_call
from resume_gym.cli import main
from resume_gym.evaluation.guided import OPENING, demonstration, guide
from resume_gym.llm import Unavailable

TASKS = load_tasks("mini", "eval")[:3]
RULES = Rules(max_turns=6, page_lines=20)
RUN = Config(name="short", max_tokens=40, eval_temperature=0.5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose weights after four steps are not those that it began with."""
    folder: Path = tmp_path_factory.mktemp("runs") / "short"
    checkpoint = folder / "checkpoints" / "step-000004"
    checkpoint.mkdir(parents=True)
    (folder / "config.toml").write_text(to_toml(RUN))
    policy = Policy(models.load("nano"), 1.0, "float32")
    for weight in policy.parameters():
        # what is exported has 16 bits; weights that it rounds could tip a sampled token
        weight.data.mul_(0.9).copy_(weight.data.bfloat16())
    save_model(policy, str(checkpoint / "policy.safetensors"))
    (folder / "model").mkdir()
    models.export("nano", policy.model.named_parameters(), folder / "model")
    return folder


def played(options: dict[str, object], seed: int = 0) -> list[list[str]]:
    """The actions of an episode on each task, side by side."""
    player = FoundModel.of({**options, "threads": 1}).player(TOOLS)
    sessions = [Session(task, RULES) for task in TASKS]

    async def play() -> None:
        await asyncio.gather(*(player.play(one, seed) for one in sessions))
        await player.close()

    asyncio.run(play())
    assert all(one.done for one in sessions)
    return [[text for text, _ in one.state.transcript] for one in sessions]


@pytest.mark.slow
def test_a_seed_gives_the_episodes_of_a_model() -> None:
    first = played({"model": "nano"})
    assert played({"model": "nano"}) == first
    assert played({"model": "nano"}, seed=1) != first
    assert any("<tool_call>" in text for actions in first for text in actions)


class Rambler:
    """An engine whose model writes more than a call, sixteen tokens at a time."""

    max_concurrency = 1

    def __init__(self, texts: list[str], chat: ChatTokens) -> None:
        self.texts, self.chat = texts, chat
        self.asked: list[list[int]] = []

    async def generate(self, key: int, ids: list[int], sampling: Sampling) -> Completion:
        self.asked.append(ids)
        turn, done = sampling.seed[-2:]
        said = self.chat.write(self.texts[turn])[done : done + sampling.max_tokens]
        return Completion(said, [0.0] * len(said), [0] * len(said))

    def release(self, key: int) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_guided_model_is_opened_a_call_which_ends_with_its_json() -> None:
    texts = [
        'review", "arguments": {}} and then' + " on and on" * 40,
        "no call" * 60,
        'submit", "arguments": {}}',
    ]
    found = FoundModel.of({"model": "nano", "prompting": "guided", "threads": 1})
    assert found.record["prompting"] == "guided"
    player = found.player(TOOLS)
    engine = player._engine = Rambler(texts, player._chat)  # type: ignore[assignment]
    session = Session(TASKS[0], RULES)
    asyncio.run(player.play(session, 7))
    assert [text for text, _ in session.state.transcript] == [
        tool_call("review"),
        OPENING + player._chat.read(player._chat.write(texts[1])[: found.config.max_tokens]),
        SUBMIT,
    ]
    first, *_, last = (player._chat.read(ids) for ids in engine.asked)
    assert guide(session.system_prompt) in first
    task, turns = demonstration()
    assert [first.count(part) for part in (task, session.prompt, *turns[0])] == [1, 1, 1, 1]
    assert first.endswith(f"assistant\n{OPENING}")
    assert "on and on" not in last, "the history has the call alone"
    assert '```json\n{"name": "review", "arguments": {}}\n```<|im_end|>' in last
    with pytest.raises(ValueError, match="prompting: expected 'plain' or 'guided', got 'x'"):
        FoundModel.of({"model": "nano", "prompting": "x"})


@pytest.mark.slow
def test_a_checkpoint_plays_as_the_model_that_was_exported_from_it(run: Path) -> None:
    exported = played({"model": str(run)})
    assert played({"model": str(run / "checkpoints" / "step-000004")}) == exported
    assert played({"model": "nano", "max_tokens": 40, "temperature": 0.5}) != exported


def test_a_run_says_how_its_model_is_sampled(run: Path) -> None:
    found = FoundModel.of({"model": str(run)})
    assert (found.config.temperature, found.config.max_tokens) == (0.5, 40)
    hotter = FoundModel.of({"model": str(run), "temperature": 2})
    assert (hotter.record["temperature"], hotter.record["max_tokens"]) == (2.0, 40)
    assert found.record["engine"] == "transformers"
    assert found.record["weights"] != FoundModel.of({"model": "nano"}).record["weights"]


def test_a_run_that_is_called_as_a_bundled_model_does_not_hide_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nano").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    bundled, trained = (FoundModel.of({"model": name}).record for name in ("nano", "./nano"))
    assert bundled["weights"] == FoundModel.of({"model": str(models.NANO)}).record["weights"]
    assert trained["weights"] == FoundModel.of({"model": str(run)}).record["weights"]
    assert bundled["weights"] != trained["weights"]


@pytest.mark.vllm
def test_the_engine_of_the_training_run_is_the_default(run: Path, tmp_path: Path) -> None:
    served = replace(RUN, engine="vllm", engine_procs=2, engine_urls=("http://h:1",))
    shutil.copytree(run, tmp_path, dirs_exist_ok=True)
    (tmp_path / "config.toml").write_text(to_toml(served))
    found = FoundModel.of({"model": str(tmp_path)})
    assert (found.record["engine"], found.config.engine_procs) == ("vllm", 2)
    assert found.config.engine_urls == (), "those servers are the run's"
    here = FoundModel.of({"model": str(tmp_path), "engine": "transformers"})
    assert (here.record["engine"], here.config.engine_procs) == ("transformers", 1)
    step = str(tmp_path / "checkpoints" / "step-000004")
    assert FoundModel.of({"model": step}).record["engine"] == "transformers"


def test_other_weights_are_another_model(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "model", tmp_path, dirs_exist_ok=True)
    before = FoundModel.of({"model": str(tmp_path)}).record
    (file,) = tmp_path.glob("*.safetensors")
    tensors = load_file(file)
    tensors["model.layers.1.mlp.up_proj.weight"] *= 1.5  # somewhere in the middle of the file
    save_file(tensors, file, {"format": "pt"})
    after = FoundModel.of({"model": str(tmp_path)}).record
    assert {**before, "weights": ""} == {**after, "weights": ""}
    assert before["weights"] != after["weights"]


def test_a_folder_without_a_model_is_an_error(run: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(to_toml(RUN))
    with pytest.raises(FileNotFoundError, match=r"a folder in Hugging Face's format .*/model'$"):
        FoundModel.of({"model": str(tmp_path)})
    sharded = tmp_path / "checkpoints" / "step-000002"
    sharded.mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="only checkpoints of the backend 'local'"):
        FoundModel.of({"model": str(sharded)})
    step = str(run / "checkpoints" / "step-000004")
    with pytest.raises(ConfigError, match="vllm cannot load checkpoints"):
        FoundModel.of({"model": step, "engine": "vllm", "engine_urls": ["http://h"]})


@pytest.mark.parametrize("damage", ["cut", "pointer"])
def test_damaged_weights_are_an_error(damage: str, tmp_path: Path) -> None:
    shutil.copytree(models.NANO, tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    whole = file.read_bytes()
    # what a clone without Git LFS has in its place
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    file.write_bytes(whole[:-1] if damage == "cut" else pointer)
    with pytest.raises(ConfigError, match=r"model: expected weights in .*model.safetensors: "):
        FoundModel.of({"model": str(file.parent)})
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"expected weights \(.*\) in .*model$"):
        FoundModel.of({"model": str(file.parent)})


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config.json", {"hidden_size": 7}),
        ("config.json", {"num_attention_heads": 0}),
        ("config.json", {"model_type": "qwen99"}),
        ("config.json", {"quantization_config": {"quant_method": "gptq"}}),
        ("config.json", {"layer_types": 3}),
        ("config.json", {"vocab_size": 100}),
        ("generation_config.json", {"eos_token_id": "end", "max_length": "x"}),
        ("tokenizer_config.json", {"tokenizer_class": 3}),
        ("tokenizer.json", None),
    ],
)
def test_an_unusable_model_is_one_line(
    file: str, changes: dict[str, Any] | None, tmp_path: Path
) -> None:
    shutil.copytree(models.NANO, tmp_path / "model")
    path = tmp_path / "model" / file
    path.unlink() if changes is None else path.write_text(
        json.dumps(json.loads(path.read_text()) | changes)
    )
    with pytest.raises(ConfigError, match=r"^model: expected .*") as refused:
        FoundModel.of({"model": str(tmp_path / "model"), "threads": 1}).player(TOOLS)
    assert "\n" not in str(refused.value)


def test_servers_sample_with_the_models_weights(run: Path) -> None:
    chat = ChatTokens(models.load_tokenizer("nano"), TOOLS)
    with FakeVLLM(lambda ids: chat.write(SUBMIT)) as server:
        options = {"model": str(run), "engine": "vllm", "engine_urls": [server.url]}
        assert played(options) == [[SUBMIT]] * len(TASKS)
        own = dict(models.load(str(run / "model")).named_parameters())
        assert server.weights.keys() == own.keys()
        assert all((server.weights[name] == one).all() for name, one in own.items())


@pytest.mark.vllm
def test_servers_of_its_own_sample_with_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = ChatTokens(models.load_tokenizer("nano"), TOOLS)
    with FakeVLLM(lambda ids: chat.write(SUBMIT)) as server:

        class Started:
            url = server.url
            closed = 0

            def __init__(self, *_: object) -> None: ...
            def ready(self) -> None: ...
            def close(self) -> None:
                Started.closed += 1

        monkeypatch.setattr("learners.engines.server.Server", Started)
        assert played({"model": "nano", "engine": "vllm"}) == [[SUBMIT]] * len(TASKS)
        assert Started.closed == 1
        assert server.calls == [], "no weights were sent"


@pytest.mark.vllm
def test_a_server_that_does_not_start_leaves_nothing_but_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs: list[Path] = []

    class Stillborn:
        url = "http://127.0.0.1:9"

        def __init__(self, config: Config, number: int, log: Path, note: object) -> None:
            logs.append(log)
            log.write_text("no memory")

        def ready(self) -> None:
            raise EngineError(f"it ended; see {logs[0]}")

        def close(self) -> None:
            logs.append(Path("closed"))

    monkeypatch.setattr("learners.engines.server.Server", Stillborn)
    with pytest.raises(Unavailable, match="it ended; see "):
        FoundModel.of({"model": "nano", "engine": "vllm"}).player(TOOLS)
    assert logs[1:] == [Path("closed")]
    assert logs[0].read_text() == "no memory"
    shutil.rmtree(logs[0].parent)


def test_the_command_plays_models_beside_others(run: Path, tmp_path: Path) -> None:
    words = ["--agent", "noop", "--agent", f"before={run}", "--env", "ResumeEditMini-v0"]
    tasks = ["--tasks", "procedural:5:1", "--rollouts", "2", "--out", str(tmp_path)]
    assert main(["eval", *words, *tasks, "--split", "train"]) == 0
    found = json.loads((tmp_path / "evaluation.json").read_text())["agents"]
    assert found["before"]["summary"]["episodes"] == 2
    assert found["before"]["spec"]["model"] == str(run)
    assert found["before"]["summary"]["words"] > 0
