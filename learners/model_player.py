"""A trained model as a player of `resume-gym eval`: sampled as in training, token in, token out."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_model
from torch import Tensor

from learners import checkpoint, models, ranks, rollout
from learners.backends.step import make_policy, plain
from learners.config import Config, ConfigError, read_toml
from learners.cpu import prepare_cpu
from learners.engines import EngineError, RefusedError, Sampling
from learners.engines.server import Server
from learners.engines.transformers import TransformersEngine
from learners.engines.vllm import VLLMEngine
from learners.policy import Policy
from learners.tokens import ChatTokens
from resume_gym import EditSession
from resume_gym.llm import Refused, Unavailable
from resume_gym.mistakes import did_you_mean

OPTIONS = (
    *("temperature", "max_tokens", "precision", "threads"),
    *("engine", "engine_urls", "engine_procs", "engine_gpus", "patience_s"),
)
"""Fields of `Config` that say how a model is sampled."""
_RECORDED = ("temperature", "max_tokens", "precision", "engine")
_MAX_TOKENS = 512  # a turn, where no run says how many
_SAMPLE_BYTES = 2**14


@dataclass(frozen=True)
class FoundModel:
    """A model, and how it is to be sampled.

    Attributes:
        config: `model` is what it is, or began as.
        weights: of a checkpoint that was trained from it; None for the model's own.
        record: what results say of it: the options, and a short hash of its weights.
    """

    config: Config
    weights: Path | None
    record: Mapping[str, Any]

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Look for a model; nothing is loaded.

        Args:
            options: `model`, "nano", "smollm2", a folder in Hugging Face's format, that of a run,
                or of one of its checkpoints; and some of `OPTIONS`, of which a run's own are the
                defaults. Checkpoints are sampled by transformers, whoever sampled in training.

        Raises:
            ConfigError: there is no such option, or its value is wrong.
            FileNotFoundError: there is no such model.
        """
        for name in options:
            if name not in (*OPTIONS, "model"):
                told = f"expected options among {', '.join(OPTIONS)}; got {name!r}"
                raise ConfigError(told + did_you_mean(name, OPTIONS))
        known = {name: value for name, value in options.items() if name != "model"}
        trained, weights = _found(str(options["model"]))
        if known.get("engine") == "vllm" and weights:
            raise ConfigError("engine: a checkpoint is sampled by transformers, or export it first")
        if trained.engine == known.get("engine", "vllm") and not weights:
            names = ("engine", "engine_procs", "engine_gpus")
            known = {name: getattr(trained, name) for name in names} | known
        config = replace(_untrained(trained), **known)
        folder = models.folder(config.model)
        files = sorted(folder.glob("*.safetensors")) if weights is None else [weights]
        if not files and not any(folder.glob("*.bin")):
            raise FileNotFoundError(f"model: expected weights in {folder}, *.safetensors")
        sampled = {name: getattr(config, name) for name in _RECORDED}
        record = {"model": options["model"], **sampled, "weights": _hash(files)}
        return cls(config, weights, record)

    def player(self, tools: Sequence[Mapping[str, Any]]) -> "ModelPlayer":
        """Load it.

        Raises:
            ModelError: its servers do not start.
            TemplateError: its chat template cannot be used.
        """
        return ModelPlayer(self, tools)


def _found(name: str) -> tuple[Config, Path | None]:
    """The configuration of what a name or folder says, and a checkpoint's weights."""
    if name in models.NAMES:  # a folder that is called so is "./nano"
        return _of_name(name), None
    path = Path(name)
    checkpoints = path.resolve().parent
    if (path / "config.toml").is_file():
        config = read_toml(path / "config.toml")
        if (path / "model").is_dir():
            return replace(config, model=str(path / "model")), None
        last = checkpoint.latest(path / "checkpoints")
        hint = f"; its last checkpoint is {last[1]}" if last else ""
        raise FileNotFoundError(f"model: the run {name!r} has not ended and exported one{hint}")
    if checkpoints.name == "checkpoints" and (checkpoints.parent / "config.toml").is_file():
        weights = path / "policy.safetensors"
        if not weights.is_file():
            told = "only those of the backend 'local' can be read as they are"
            raise FileNotFoundError(f"model: the checkpoint {name!r} has no {weights.name}: {told}")
        return read_toml(checkpoints.parent / "config.toml"), weights
    beside = path.resolve().parent / "config.toml"
    if path.name == "model" and beside.is_file():
        return replace(read_toml(beside), model=name), None
    return _of_name(name), None


def _of_name(name: str) -> Config:
    own = Config(model=name)
    return own if name == "nano" else replace(own, max_tokens=_MAX_TOKENS)


def _untrained(config: Config) -> Config:
    """A run's configuration, where what only trains, and who samples, is as it is by default."""
    return Config(
        model=config.model,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        precision=config.precision,
        lora_rank=config.lora_rank,
        lora_alpha=config.lora_alpha,
    )


def _hash(files: Iterable[Path]) -> str:
    """Of the beginning of each tensor: large files take minutes, and training may spare some."""
    told = hashlib.sha256()
    for path in files:
        try:
            safe_open(path, "pt")  # also sees that no tensor is missing
        except SafetensorError as problem:  # half a file, or what Git LFS left in its place
            raise ConfigError(f"model: expected weights in {path}: {problem}") from None
        with path.open("rb") as file:
            length = file.read(8)
            header = file.read(int.from_bytes(length, "little"))
            told.update(header)
            tensors = json.loads(header)
            tensors.pop("__metadata__", None)
            for begin, end in sorted(one["data_offsets"] for one in tensors.values()):
                file.seek(8 + len(header) + begin)
                told.update(file.read(min(end - begin, _SAMPLE_BYTES)))
    return told.hexdigest()[:16]


class ModelPlayer:
    """Plays with a model; see `resume_gym.evaluation.players.Player`.

    With the transformers engine the noise is the episode's own; whoever is sampled beside it only
    changes the last bits of probabilities. vLLM draws as it happens.

    Args:
        found: the model.
        tools: schemas in OpenAI's format.
    """

    def __init__(self, found: FoundModel, tools: Sequence[Mapping[str, Any]]) -> None:
        config = self._config = found.config
        self._chat = ChatTokens(models.load_tokenizer(config.model), tools)
        self._keys = count()
        self._servers: list[Server] = []
        self._logs: Path | None = None
        self._engine: TransformersEngine | VLLMEngine
        if config.engine == "vllm":
            try:
                self._engine = self._serve(found)
            except BaseException:  # also Ctrl-C while they start, which takes a minute
                self._end()
                raise
        else:
            prepare_cpu(config.threads)
            self._engine = TransformersEngine(_policy(found))
        self.at_once = min(128, self._engine.at_once)

    def _serve(self, found: FoundModel) -> VLLMEngine:
        config = found.config
        named = config.model, config.precision, config.patience_s
        try:
            if config.engine_urls:
                engine = VLLMEngine(config.engine_urls, *named)
                # servers of somebody else's may hold other weights, under another number
                version = int(str(found.record["weights"])[:12], 16)
                engine.load_weights(version, lambda: _weights(config))
                return engine
            self._logs = Path(tempfile.mkdtemp(prefix="resume-gym-"))
            for number in range(config.engine_procs):
                log = self._logs / f"engine-{number}.log"
                self._servers.append(Server(config, number, log, lambda sentence: None))
            for server in self._servers:
                server.ready()
        except EngineError as problem:
            raise Unavailable(str(problem)) from None
        return VLLMEngine([one.url for one in self._servers], *named, as_read=True)

    async def play(self, session: EditSession[Any, Any], seed: int) -> None:
        """See `Player`."""
        config, chat, key = self._config, self._chat, next(self._keys)
        prompt = chat.prompt(session.system_prompt, session.prompt)
        one = rollout.Rollout(0, 0, session, prompt)
        sampling = Sampling(config.temperature, config.max_tokens, chat.end, (seed,))
        try:
            await rollout.play(one, key, self._engine.generate, chat, sampling)
        except RefusedError as problem:
            raise Refused(str(problem)) from None
        except EngineError as problem:
            raise Unavailable(str(problem)) from None
        finally:
            self._engine.release(key)

    async def close(self) -> None:
        """See `Player`."""
        if isinstance(self._engine, VLLMEngine):
            await self._engine.leave()
        self._engine.close()
        self._end()
        if self._logs is not None:  # errors while they start name them, so then they stay
            shutil.rmtree(self._logs)

    def _end(self) -> None:
        for server in self._servers:
            server.close()


def _policy(found: FoundModel) -> Policy:
    config = found.config
    model: Any = models.load(config.model)
    model = model.to(ranks.device())
    if found.weights is None:
        return Policy(model, config.temperature, config.precision).eval()
    policy = make_policy(config, model, config.precision)
    load_model(policy, str(found.weights))
    return policy.eval()


def _weights(config: Config) -> Iterable[tuple[str, Tensor]]:
    model: Any = models.load(config.model)
    named = ((name, one.detach()) for name, one in model.named_parameters())
    return plain(replace(config, lora_rank=0), named)
