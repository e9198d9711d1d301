"""Player for `resume-gym eval` that samples a local model, and handles tokens as training does.

`FoundModel.of` finds a model, run or checkpoint; `ModelPlayer` loads the model and plays episodes.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_model
from torch import Tensor

from learners.config import Config, read_toml
from learners.engines import EngineError, RefusedError, Sampling
from learners.engines.command import ServerSettings
from learners.engines.server import serving
from learners.engines.transformers import TransformersEngine
from learners.engines.vllm import VLLMEngine, unreachable
from learners.errors import ConfigError
from learners.rollouts import rollout
from learners.rollouts.rollout import PlayableSession
from learners.rollouts.tokens import ChatTokens
from learners.training import models, ranks
from learners.training.backends.settings import BackendSettings, make_policy
from learners.training.cpu import prepare_cpu
from learners.training.policy import Policy
from resume_gym.evaluation.guided import (
    CLOSING,
    OPENING,
    Prompting,
    demonstration,
    find_call,
    guide,
    read_prompting,
)
from resume_gym.llm import Refused, Unavailable
from resume_gym.support.user_errors import did_you_mean

OPTIONS = (
    *("temperature", "max_tokens", "precision", "threads"),
    *("engine", "engine_urls", "engine_procs", "engine_gpus", "timeout_s"),
)
"""Fields of `Config` that control sampling, and that `FoundModel.of` accepts as options."""
_RECORDED = ("temperature", "max_tokens", "precision", "engine")
# settings that are copied from the run that trained the model, besides engine settings
_KEPT = ("model", "max_tokens", "precision", "lora_rank", "lora_alpha")
# maximum number of tokens of a turn, for models without a run's configuration
_MAX_TOKENS = {"nano": Config.max_tokens, "smollm2-editor": 128}
_SAMPLE_BYTES = 2**14
_GUIDED_TOKENS = 16  # number of sampled tokens between two checks for the end of a guided call


@dataclass(frozen=True)
class FoundModel:
    """The files and the sampling options of a model, whose weights are not loaded yet.

    Attributes:
        config: sampling options; `config.model` is the model, or the base model of a checkpoint.
        weights: weights file of a checkpoint; None to use the weights of `config.model`.
        record: entries for the results file: sampling options and a hash of the weights.
        prompting: "plain", or "guided" for models that need help to call tools; see `guided.py`.
    """

    config: Config
    weights: Path | None
    record: Mapping[str, Any]
    prompting: Prompting = "plain"

    @classmethod
    def of(cls, options: Mapping[str, object]) -> Self:
        """Find a model's files and settings, without loading the weights.

        Args:
            options: `model`, and optionally `prompting` and fields of `OPTIONS`. If a run trained
                the model, missing fields take the run's values, except that `threads`,
                `engine_urls` and `timeout_s` take their defaults. `temperature` is by default the
                run's `eval_temperature`. `model` is "nano", "smollm2" or "smollm2-editor"; a folder
                in Hugging Face format; a model on the Hub, which is downloaded; a run's folder; or
                a checkpoint, which needs the transformers engine.

        Raises:
            ConfigError: an option is unknown, a value is invalid, or the weights are damaged.
            FileNotFoundError: the model does not exist.
            ValueError: `prompting` is neither "plain" nor "guided".
        """
        known = (*OPTIONS, "prompting")
        for name in options:
            if name not in (*known, "model"):
                message = f"expected options among {', '.join(known)}; got {name!r}"
                raise ConfigError(message + did_you_mean(name, known))
        prompting = read_prompting(options)
        settings = {name: value for name, value in options.items() if name in OPTIONS}
        trained, weights = _found(str(options["model"]))
        if settings.get("engine") == "vllm" and weights:
            raise ConfigError(
                "engine: vllm cannot load checkpoints; use transformers, or RUN/model as the model"
            )
        # the run's engine settings apply, unless the options select another engine
        if trained.engine == settings.get("engine", "vllm") and not weights:
            names = ("engine", "engine_procs", "engine_gpus")
            settings = {name: getattr(trained, name) for name in names} | settings
        kept = {name: getattr(trained, name) for name in _KEPT}
        kept["temperature"] = trained.eval_temperature
        config = Config(**kept | settings)
        config.check_packages()
        models.download(config.model)
        folder = models.folder(config.model)
        files = sorted(folder.glob("*.safetensors")) if weights is None else [weights]
        if not files and not any(folder.glob("*.bin")):
            raise FileNotFoundError(f"model: expected weights (*.safetensors) in {folder}")
        sampled = {name: getattr(config, name) for name in _RECORDED}
        record = {"model": options["model"], **sampled, "weights": _hash(files)}
        if prompting != "plain":
            record["prompting"] = prompting
        return cls(config, weights, record, prompting)

    def player(self, tools: Sequence[Mapping[str, object]]) -> "ModelPlayer":
        """Load the model, and return a player that samples the model.

        Raises:
            ConfigError: no server runs at an address of `engine_urls`.
            ModelError: the vLLM servers do not start, or do not load the weights.
            TemplateError: the chat template is not supported.
        """
        return ModelPlayer(self, tools)


def _found(name: str) -> tuple[Config, Path | None]:
    """Return the configuration of a model, and its weights file if `name` is a checkpoint."""
    if name in models.NAMES:  # the path of a folder with this name needs the prefix "./"
        return _of_name(name), None
    path = Path(name)
    checkpoints = path.resolve().parent
    if (path / "config.toml").is_file():
        return replace(read_toml(path / "config.toml"), model=str(path / "model")), None
    if checkpoints.name == "checkpoints" and (checkpoints.parent / "config.toml").is_file():
        weights = path / "policy.safetensors"
        if not weights.is_file():
            hint = "only checkpoints of the backend 'local' can be loaded directly"
            raise FileNotFoundError(f"model: the checkpoint {name!r} has no {weights.name}: {hint}")
        return read_toml(checkpoints.parent / "config.toml"), weights
    # for RUN/model, the folder to which a run exports its policy, the run's settings apply
    beside = path.resolve().parent / "config.toml"
    if path.name == "model" and beside.is_file():
        return replace(read_toml(beside), model=name), None
    return _of_name(name), None


def _of_name(name: str) -> Config:
    return replace(Config(model=name), max_tokens=_MAX_TOKENS.get(name, 512))


def _hash(files: Iterable[Path]) -> str:
    """Hash the first bytes of every tensor, since hashing whole tensors takes minutes."""
    digest = hashlib.sha256()
    for path in files:
        try:
            safe_open(path, "pt")  # validates the file's length against its header
        except SafetensorError as problem:  # a truncated file, or a Git LFS pointer
            raise ConfigError(f"model: expected weights in {path}: {problem}") from None
        with path.open("rb") as file:
            length = file.read(8)
            header = file.read(int.from_bytes(length, "little"))
            digest.update(header)
            tensors = json.loads(header)
            tensors.pop("__metadata__", None)
            for begin, end in sorted(tensor["data_offsets"] for tensor in tensors.values()):
                file.seek(8 + len(header) + begin)
                digest.update(file.read(min(end - begin, _SAMPLE_BYTES)))
    return digest.hexdigest()[:16]


class ModelPlayer:
    """Player that samples a model; see `resume_gym.evaluation.players.Player`.

    With the transformers engine, each episode has its own seed, and the other episodes in the batch
    affect only the last bits of its probabilities. Sampling with vLLM is not reproducible.

    Args:
        model: the resolved model.
        tools: tool schemas in OpenAI format.
    """

    def __init__(self, model: FoundModel, tools: Sequence[Mapping[str, object]]) -> None:
        config = self._config = model.config
        self._guided = model.prompting == "guided"
        self._chat = ChatTokens.of(config.model, () if self._guided else tools)
        self._keys = count()
        self._open = ExitStack()
        self._engine: TransformersEngine | VLLMEngine
        if config.engine == "vllm":
            self._engine = self._serve(model)
        else:
            prepare_cpu(config.threads)
            self._engine = TransformersEngine(_policy(model))
        self.max_concurrency = min(128, self._engine.max_concurrency)

    def _serve(self, model: FoundModel) -> VLLMEngine:
        config = model.config
        named = config.model, config.precision, config.timeout_s
        if absent := unreachable(config.engine_urls):
            raise ConfigError(f"engine_urls: no server runs at {' and '.join(absent)}")
        try:
            if config.engine_urls:
                engine = VLLMEngine(config.engine_urls, *named)
                # external servers may hold other weights, so load those of this model, with their
                # hash as the version number
                version = int(str(model.record["weights"])[:12], 16)
                engine.load_weights(version, lambda: _weights(config))
                return engine
            logs = Path(tempfile.mkdtemp(prefix="resume-gym-"))
            settings = ServerSettings(
                config.model,
                config.precision,
                config.seed,
                config.engine_gpus,
                False,
                config.threads,
            )
            start = serving(settings, config.engine_procs, logs, lambda sentence: None)
            # this context ends the servers if Ctrl-C interrupts their start, which takes a minute
            with ExitStack() as started:
                servers = started.enter_context(start)
                for server in servers:
                    server.ready()
                # if a server does not start, the logs are kept: the error message refers to them
                self._open.callback(shutil.rmtree, logs)
                self._open.push(started.pop_all())
        except EngineError as problem:
            raise Unavailable(str(problem)) from None
        return VLLMEngine([server.url for server in servers], *named, as_read=True)

    async def play(self, session: PlayableSession, seed: int) -> None:
        """Play a session to its end; see `Player`."""
        config, chat, key = self._config, self._chat, next(self._keys)
        sampling = Sampling(config.temperature, config.max_tokens, chat.ends, (seed,))
        try:
            if self._guided:
                await self._play_guided(session, key, sampling)
            else:
                prompt = chat.prompt(session.system_prompt, session.prompt)
                episode = rollout.Rollout(0, 0, session, prompt)
                await rollout.play(episode, key, self._engine.generate, chat, sampling)
        except (RefusedError, rollout.EpisodeError) as problem:
            raise Refused(str(problem)) from None
        except EngineError as problem:
            raise Unavailable(str(problem)) from None
        finally:
            self._engine.release(key)

    async def _play_guided(self, session: PlayableSession, key: int, sampling: Sampling) -> None:
        """Play with an example episode in the prompt; every turn begins with the text `OPENING`."""
        chat, opening = self._chat, self._chat.write(OPENING)[:-1]
        task, turns = demonstration()
        ids = chat.prompt(guide(session.system_prompt), task)
        for number, (shown, reply) in enumerate(turns, 1):
            # the last reply of the example ends with the prompt of the session to play
            reply += f"\n\n{session.prompt}" if number == len(turns) else ""
            ids += [*chat.write(shown), *chat.reply(reply)]
        while not session.done:
            ids += opening
            said: list[int] = []
            call = None
            while call is None and len(said) < sampling.max_tokens and not chat.ends & {*said[-1:]}:
                part = min(_GUIDED_TOKENS, sampling.max_tokens - len(said))
                seed = (*sampling.seed, session.turns, len(said))
                sampled = await self._engine.generate(
                    key, ids + said, replace(sampling, max_tokens=part, seed=seed)
                )
                said += sampled.ids
                call = find_call(OPENING + chat.read(said))
            turn = said if said[-1] == chat.end else [*said, chat.end]
            if call is not None:
                # do not put text after the call into the chat, since the model would imitate such
                # text in later turns
                written = (OPENING + chat.read(said[:n]) for n in range(len(said) + 1))
                end, text = next((n, text) for n, text in enumerate(written) if find_call(text))
                turn = [*said[:end], *chat.write(CLOSING.lstrip() if text[-1] == "\n" else CLOSING)]
                if turn[: len(said)] != said:
                    self._engine.release(key)
            ids += turn
            ids += chat.reply(session.step(call or OPENING + chat.read(said)).observation)

    async def close(self) -> None:
        """Close the engine and stop the servers; see `Player`."""
        if isinstance(self._engine, VLLMEngine):
            await self._engine.leave()
        self._engine.close()
        self._open.close()


def _policy(found: FoundModel) -> Policy:
    config = found.config
    model = models.load(config.model, ranks.device())
    if found.weights is None:
        return Policy(model, config.temperature, config.precision).eval()
    adapters = config.lora_rank, config.lora_alpha
    settings = BackendSettings(config.model, config.temperature, config.precision, *adapters)
    policy = make_policy(settings, model, config.precision)
    load_model(policy, str(found.weights))
    return policy.eval()


def _weights(config: Config) -> Iterable[tuple[str, Tensor]]:
    model = models.load(config.model)
    return ((name, weight.detach()) for name, weight in model.named_parameters())
