"""A trained model as a player of `resume-gym eval`: sampled as in training, token in, token out."""

import difflib
import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Self

from safetensors.torch import load_model
from torch import Tensor

from learners import checkpoint, models, ranks, rollout
from learners.backends.step import make_policy, plain
from learners.config import Config, ConfigError, read_toml
from learners.cpu import prepare_cpu
from learners.engines import EngineError, RefusedError, Sampling
from learners.engines.server import Server, transfer
from learners.engines.transformers import TransformersEngine
from learners.engines.vllm import VLLMEngine
from learners.policy import Policy
from learners.tokens import ChatTokens
from resume_gym import EditSession
from resume_gym.llm import Refused, Unavailable

OPTIONS = (
    *("temperature", "max_tokens", "precision", "threads"),
    *("engine", "engine_urls", "engine_procs", "engine_gpus", "patience_s"),
)
"""Fields of `Config` that say how a model is sampled."""
_RECORDED = ("temperature", "max_tokens", "precision", "engine")
_MAX_TOKENS = 512  # a turn, where no run says how many
_SAMPLE_BYTES = 2**20


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
                or of one of its checkpoints; and some of `OPTIONS`, of which a run's own and
                "transformers" are the defaults.

        Raises:
            ConfigError: there is no such option, or its value is wrong.
            FileNotFoundError: there is no such model.
        """
        for name in options:
            if name not in (*OPTIONS, "model"):
                near = difflib.get_close_matches(name, OPTIONS, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ConfigError(
                    f"expected options among {', '.join(OPTIONS)}; got {name!r}{hint}"
                )
        known = {name: value for name, value in options.items() if name != "model"}
        config, weights = _found(str(options["model"]))
        config = replace(config, **known)
        if config.engine == "vllm" and weights:
            raise ConfigError("engine: a checkpoint is sampled by transformers, or export it first")
        folder = models.folder(config.model)
        files = sorted(folder.glob("*.safetensors")) if weights is None else [weights]
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
            return _of_run(config, str(path / "model")), None
        last = checkpoint.latest(path / "checkpoints")
        hint = f"; its last checkpoint is {last[1]}" if last else ""
        raise FileNotFoundError(f"model: the run {name!r} has not ended and exported one{hint}")
    if checkpoints.name == "checkpoints" and (checkpoints.parent / "config.toml").is_file():
        weights = path / "policy.safetensors"
        if not weights.is_file():
            told = "only those of the backend 'local' can be read as they are"
            raise FileNotFoundError(f"model: the checkpoint {name!r} has no {weights.name}: {told}")
        config = read_toml(checkpoints.parent / "config.toml")
        return _of_run(config, config.model), weights
    beside = path.resolve().parent / "config.toml"
    if path.name == "model" and beside.is_file():
        return _of_run(read_toml(beside), name), None
    return _of_name(name), None


def _of_name(name: str) -> Config:
    own = Config(model=name)
    return own if name == "nano" else replace(own, max_tokens=_MAX_TOKENS)


def _of_run(config: Config, model: str) -> Config:
    """A run's configuration with another model; what only trains is left as it was by default."""
    return Config(
        model=model,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        precision=config.precision,
        lora_rank=config.lora_rank,
        lora_alpha=config.lora_alpha,
    )


def _hash(files: Iterable[Path]) -> str:
    """Of the ends of each file: training changes all of it, and large ones take minutes."""
    told = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        told.update(f"{path.name} {size}".encode())
        with path.open("rb") as file:
            told.update(file.read(_SAMPLE_BYTES))
            file.seek(max(0, size - _SAMPLE_BYTES))
            told.update(file.read())
    return told.hexdigest()[:16]


class ModelPlayer:
    """Plays with a model; see `resume_gym.evaluation.players.Player`.

    Draws come from the engine: the transformers engine draws for all conversations that ask at the
    same time, so an episode repeats itself only among the same others, and vLLM's do not at all.

    Args:
        found: the model.
        tools: schemas in OpenAI's format.
    """

    def __init__(self, found: FoundModel, tools: Sequence[Mapping[str, Any]]) -> None:
        config = self._config = found.config
        self._chat = ChatTokens(models.load_tokenizer(config.model), tools)
        self._keys = count()
        self._servers: list[Server] = []
        self._logs: tempfile.TemporaryDirectory[str] | None = None
        self._engine: TransformersEngine | VLLMEngine
        if config.engine == "vllm":
            self._engine = self._serve(found)
        else:
            prepare_cpu(config.threads)
            self._engine = TransformersEngine(_policy(found))
        self.at_once = min(128, self._engine.at_once)

    def _serve(self, found: FoundModel) -> VLLMEngine:
        config = found.config
        self._logs = tempfile.TemporaryDirectory(prefix="resume-gym-")
        for number in range(0 if config.engine_urls else config.engine_procs):
            log = Path(self._logs.name) / f"engine-{number}.log"
            self._servers.append(Server(config, number, log, lambda sentence: None))
        urls = config.engine_urls or [one.url for one in self._servers]
        by_nccl = not config.engine_urls and transfer(config) == "nccl"
        engine = VLLMEngine(urls, config.model, config.precision, config.patience_s, by_nccl)
        try:
            for server in self._servers:
                server.ready()
            # servers of somebody else's may hold other weights, under another number
            version = int(str(found.record["weights"])[:12], 16)
            engine.load_weights(version, lambda: _weights(config))
        except EngineError as problem:
            self._end()
            raise Unavailable(str(problem)) from None
        return engine

    async def play(self, session: EditSession[Any, Any], seed: int) -> None:
        """See `Player`."""
        config, chat, key = self._config, self._chat, next(self._keys)
        prompt = chat.prompt(session.system_prompt, session.prompt)
        one = rollout.Rollout(0, 0, session, prompt)
        sampling = Sampling(config.temperature, config.max_tokens, chat.end, seed)
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

    def _end(self) -> None:
        for server in self._servers:
            server.close()
        if self._logs is not None:
            self._logs.cleanup()


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
