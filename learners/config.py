"""Configuration of a training run: a flat, validated dataclass, which TOML files can represent.

`command_line.py` parses a command line that has a flag for each field.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import gymnasium
from pydantic import ConfigDict, Field, ValidationError, create_model
from pydantic.types import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

import resume_gym  # noqa: F401  registers the environments
from learners import goals
from learners.errors import ConfigError
from resume_gym.episode.hints import KINDS, Kind
from resume_gym.llm.settings import check_url
from resume_gym.support import trust
from resume_gym.support.shares import read_shares
from resume_gym.support.user_errors import did_you_mean, install

PRESETS = Path(__file__).parent / "presets"
# pydantic converts only fields with this mark: a TOML list to a tuple, or a string to a path
_CONVERTED = Field(strict=False)
# logits divided by a smaller temperature may overflow
_Temperature = Annotated[float, Field(ge=1e-3)]


@dataclass(frozen=True)
class Config:
    """Settings of a run; `--help` prints the descriptions of the attributes.

    Attributes:
        name: name of the run, which is stored in RUNS/NAME; reuse the name to resume the run.
        runs: folder of all runs.
        model: "nano", "smollm2", "smollm2-editor", a folder in Hugging Face format, or OWNER/NAME
            of a model on the Hugging Face Hub, which is downloaded.
        env: environment id, or module:id to import the module that registers the id; or several
            ids, each with its share of the groups of a step, such as ID:0.7,ID:0.3.
        tasks: source of the tasks; empty for each environment's default source.
        fresh_tasks: if tasks is empty and the default source is generated, train on new generated
            tasks in each step; the held-out tasks remain those of the default source.
        judge: judge that grades final documents: a name, or JSON with a name and options; empty
            for each environment's default judge.
        seed: random seed.
        steps: number of optimizer steps.
        goal: condition such as "eval.reward >= 1.5 and eval.submit_rate >= 0.95"; the run ends when
            the condition holds in two evaluations in a row. Empty for no goal.
        budget: limits such as "tokens <= 5e6 and hours <= 2 and judge_dollars <= 10"; the run ends
            after the first step that exceeds a limit. Empty for no budget.
        groups: number of tasks per step, each with one group of rollouts.
        group_size: number of rollouts per task.
        replace_equal: replace each group whose rollouts all earn the same (with credit by edit, in
            each turn), which gives no gradient, by a group of another task; a replacement is kept
            even if its rollouts earn the same, too.
        temperature: sampling temperature in training.
        max_tokens: maximum number of tokens that the policy samples in a turn.
        learning_rate: maximum learning rate of the optimizer. The default suits the nano policy;
            pretrained models need about 1e-5, and LoRA adapters about 1e-4.
        learning_rate_schedule: schedule of the learning rate: constant, or a linear or cosine decay
            that reaches zero after the last step.
        warmup_steps: number of steps at the start in which the learning rate rises linearly.
        max_grad_norm: maximum norm of the gradient; larger gradients are scaled down to this norm.
        weight_decay: weight decay of the optimizer.
        engine: sampling engine: transformers runs in the trainer process between training steps,
            vllm in separate servers.
        engine_urls: URLs of running vllm servers, whose API key is read from the environment
            variable VLLM_API_KEY; if empty, the run starts its own servers.
        engine_procs: number of vllm servers to start on each machine.
        engine_gpus: number of GPUs per vllm server; servers get the first GPUs of a machine, and
            trainers the remaining ones.
        colocated: sample and train alternately on the same GPUs; the vllm servers free their GPU
            memory during training.
        max_staleness: maximum number of optimizer steps between the weights that sample a token
            and the weights that are trained on it; with 0, sampling and training alternate.
        timeout_s: timeout in seconds of one completion, verdict or weight update, including its
            retries; judges that call models have a separate timeout.
        loss: policy loss; grpo uses standardised advantages, all other losses mean-centred ones.
        credit: how rewards become advantages: edit rewards each edit by how much it changes the
            reward for the document, which takes verdicts on all drafts, so it needs a judge that
            calls no model; episode gives all turns of a rollout the same advantage; none trains on
            no reward, only on the feedback that feedback_weight weights.
        feedback_weight: weight of targeted textual feedback: the policy also predicts each bad turn
            after a hint, and the loss draws its probabilities without the hint towards those with
            it; 0 for no feedback. It needs the loss aipo and credit edit or none, and ends when the
            difference between the two no longer falls.
        feedback_form: full compares the probabilities of all tokens of the vocabulary, sampled only
            those of the sampled tokens, as an addition to their advantages.
        feedback_turns: maximum number of turns of an episode that get a hint.
        feedback_kinds: kinds of hints; leave out those that your policy does not read.
        teacher: another model with the policy's tokenizer, whose probabilities of all sampled
            tokens replace those after hints: a name or folder as for model, or the URL of its vllm
            server, which needs feedback_form sampled and temperature 1. With feedback_weight 0, the
            only effect is the metric ref_kl. The policy's initial model as teacher gives a KL
            penalty.
        precision: data type of the forward pass; the trained weights are always float32.
        row_tokens: maximum number of tokens in a packed row of training sequences; smaller rows
            need less memory.
        activation_checkpointing: recompute each layer in the backward pass to save memory.
        compile: compile MLPs, norms and rotary embeddings for speed; for the backends local and
            fsdp2.
        lora_rank: rank of LoRA adapters on the frozen model; 0 trains all weights.
        lora_alpha: the output of LoRA adapters is multiplied by lora_alpha / lora_rank.
        optimizer: adamw, or muon, which learns faster from random weights; muon needs the backend
            local.
        backend: training backend: local trains in one process; fsdp2 and deepspeed shard the
            weights over several processes.
        trainer_procs: training processes per machine, for the backends fsdp2 and deepspeed.
        replicas: number of copies of the weights, each sharded over an equal part of the training
            processes; for the backend fsdp2.
        offload: keep weights and optimizer state in CPU memory; for the backends fsdp2 and
            deepspeed.
        save_every: number of steps between checkpoints.
        async_save: write checkpoints while the next step runs; for the backend fsdp2.
        eval_every: number of steps between evaluations on held-out tasks; evaluated steps also
            save a checkpoint. With 0, evaluations run only before and after training.
        eval_tasks: number of held-out tasks per evaluation, of each environment.
        eval_rollouts: number of rollouts per held-out task.
        eval_temperature: sampling temperature in evaluations; also the default of the commands that
            play the trained model.
        on_collapse: reaction to an alarm about a collapse of training: note writes the alarm to the
            journal; warn also prints it; rollback returns to the last healthy checkpoint with half
            the learning rate; stop ends the run.
        on_hack: reaction to an alarm about reward hacking: warn prints the alarm; drop also leaves
            episodes with the hack out of training while the alarm lasts; stop ends the run.
        second_judge: additional judge, in the format of `judge`, that grades a sample of final
            documents but never affects rewards; empty for no second judge.
        second_judge_every: number of steps between two samples that second_judge grades.
        threads: number of CPU threads per process; 0 divides all cores among the trainers.
        heartbeat_s: seconds between heartbeats; 0 disables them. A heartbeat writes heartbeat.json,
            and prints a line if nothing was printed since the last heartbeat; a terminal shows this
            line all the time.
        log_to: additional loggers: tensorboard, wandb, trackio.

    Raises:
        ConfigError: a value has the wrong type or is out of range.
    """

    name: str = "nano"
    runs: Annotated[Path, _CONVERTED] = Path("runs")
    model: str = "nano"
    env: str = "ResumeEditNetMini-v0"
    tasks: str = ""
    fresh_tasks: bool = True
    judge: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    steps: PositiveInt = 30
    goal: str = ""
    budget: str = ""
    groups: PositiveInt = 8
    group_size: Annotated[int, Field(ge=2)] = 8
    replace_equal: bool = False
    temperature: _Temperature = 0.7
    max_tokens: PositiveInt = 96
    learning_rate: PositiveFloat = 5e-4
    learning_rate_schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: NonNegativeInt = 0
    max_grad_norm: PositiveFloat = 1.0
    weight_decay: NonNegativeFloat = 0.0
    engine: Literal["transformers", "vllm"] = "transformers"
    engine_urls: Annotated[tuple[str, ...], _CONVERTED] = ()
    engine_procs: PositiveInt = 1
    engine_gpus: PositiveInt = 1
    colocated: bool = False
    max_staleness: NonNegativeInt = 1
    timeout_s: PositiveFloat = 600.0
    loss: Literal["aipo", "ipo", "dppo_kl", "grpo", "dr_grpo", "raft"] = "aipo"
    credit: Literal["edit", "episode", "none"] = "edit"
    feedback_weight: NonNegativeFloat = 0.0
    feedback_form: Literal["full", "sampled"] = "full"
    feedback_turns: PositiveInt = 1
    feedback_kinds: Annotated[tuple[Kind, ...], Field(strict=False, min_length=1)] = KINDS
    teacher: str = ""
    precision: Literal["float32", "bfloat16"] = "float32"
    row_tokens: PositiveInt = 16384
    activation_checkpointing: bool = False
    compile: bool = False
    lora_rank: NonNegativeInt = 0
    lora_alpha: PositiveInt = 32
    optimizer: Literal["adamw", "muon"] = "adamw"
    backend: Literal["local", "fsdp2", "deepspeed"] = "local"
    trainer_procs: PositiveInt = 1
    replicas: PositiveInt = 1
    offload: bool = False
    save_every: PositiveInt = 5
    async_save: bool = False
    eval_every: NonNegativeInt = 10
    eval_tasks: PositiveInt = 40
    eval_rollouts: PositiveInt = 1
    eval_temperature: _Temperature = 0.3
    on_collapse: Literal["note", "warn", "rollback", "stop"] = "warn"
    on_hack: Literal["warn", "drop", "stop"] = "warn"
    second_judge: str = ""
    second_judge_every: PositiveInt = 2
    threads: NonNegativeInt = 0
    heartbeat_s: NonNegativeFloat = 30.0
    log_to: Annotated[tuple[Literal["tensorboard", "wandb", "trackio"], ...], _CONVERTED] = ()

    def __post_init__(self) -> None:
        try:
            checked = _SCHEMA.model_validate(vars(self))
        except ValidationError as error:
            raise ConfigError(message_of(error)) from None
        vars(self).update(checked)  # not setattr(): the dataclass is frozen
        odd = set(self.name) & set("/\\") or not self.name.isprintable()
        if odd or self.name in ("", ".", ".."):
            raise ConfigError(f"name: expected the name of a folder, got {self.name!r}")
        if len(set(self.log_to)) < len(self.log_to):
            raise ConfigError(f"log_to: expected each name once, got {', '.join(self.log_to)}")
        urls = [("engine_urls", url) for url in self.engine_urls]
        urls += [("teacher", self.teacher)] if is_served(self.teacher) else []
        for setting, url in urls:
            try:
                check_url(url, setting, "http://HOST:PORT")
            except ValueError as error:
                raise ConfigError(str(error)) from None
        _ = self.environments  # reports invalid shares
        goals.budget(self.budget)
        if goals.conditions(self.goal, "goal") and not self.eval_every:
            raise ConfigError("goal: evaluations check the goal; expected eval_every >= 1, got 0")
        self._check_combinations()

    @property
    def environments(self) -> Mapping[str, float]:
        """The share of each environment in the groups of a step, by id or module:id; sums to 1.

        Raises:
            ConfigError: `env` is not a list of environments with shares; see `read_shares`.
        """
        try:
            return read_shares(self.env)
        except ValueError as error:
            raise ConfigError(f"env: {error}") from None

    @property
    def starts_servers(self) -> bool:
        """Whether the run starts its own vLLM servers, and ends them when it ends."""
        return self.engine == "vllm" and not self.engine_urls

    @property
    def hinted(self) -> bool:
        """Whether the run trains on hints; with a teacher, it trains on the teacher instead."""
        return self.feedback_weight > 0 and not self.teacher

    @property
    def grades_drafts(self) -> bool:
        """Whether the judge grades all drafts of an episode, to find what each edit earns."""
        return self.credit == "edit" or self.hinted

    def _check_combinations(self) -> None:
        for name, (setting, allowed) in _ONLY_WITH.items():
            value, actual = getattr(self, name), getattr(self, setting)
            if value != getattr(Config, name) and actual not in allowed:
                expected = f"{setting} {' or '.join(map(repr, allowed))}"
                raise ConfigError(f"{name}: {value} needs {expected}, got {actual!r}")
        if self.credit != "episode" and self.loss == "grpo":
            told = f"expected episode, got {self.credit}"
            raise ConfigError(f"credit: grpo needs per-episode credit; {told}")
        if self.feedback_weight and self.teacher and self.loss != "aipo":
            raise ConfigError(f"feedback_weight: expected loss aipo, got {self.loss}")
        if self.optimizer == "muon" and self.lora_rank:
            raise ConfigError("optimizer: expected adamw, since lora_rank is above 0, got muon")
        if self.hinted and (self.loss != "aipo" or self.credit not in ("edit", "none")):
            told = f"expected loss aipo and credit edit or none, got {self.loss} and {self.credit}"
            raise ConfigError(f"feedback_weight: {told}")
        if self.credit == "none" and not self.feedback_weight:
            raise ConfigError("credit: none needs feedback_weight above 0, got 0")
        given = self.feedback_form, self.temperature
        if is_served(self.teacher) and given != ("sampled", 1.0):
            expected = "feedback_form sampled and temperature 1 for a teacher on a server"
            raise ConfigError(f"teacher: expected {expected}, got {given[0]} and {given[1]:g}")
        if self.colocated and self.max_staleness:
            expected = "max_staleness 0, since engine and trainer take turns"
            raise ConfigError(f"colocated: expected {expected}; got {self.max_staleness}")

    def check_packages(self) -> None:
        """Check that the packages that the settings need are installed; a dry run needs none.

        Raises:
            ConfigError: a package is missing; the message names the pip extra to install.
        """
        for extra, package, needed in (
            ("vllm", "vllm", self.starts_servers),
            ("deepspeed", "deepspeed", self.backend == "deepspeed"),
            ("lora", "peft", self.lora_rank > 0),
            *((name, name, True) for name in self.log_to),
        ):
            if needed and find_spec(package) is None:
                on_cpu = " (without a GPU: `make vllm`)" if extra == "vllm" else ""
                raise ConfigError(f"{extra}: needs `{install(extra)}`{on_cpu}")


_VLLM, _FSDP2 = ("engine", ("vllm",)), ("backend", ("fsdp2",))
_SHARDED = ("backend", ("fsdp2", "deepspeed"))
# setting A: (another setting B, values of B with which A has an effect)
_ONLY_WITH: Mapping[str, tuple[str, Sequence[str]]] = {
    **dict.fromkeys(("engine_urls", "engine_procs", "engine_gpus", "colocated"), _VLLM),
    **dict.fromkeys(("trainer_procs", "offload"), _SHARDED),
    **dict.fromkeys(("replicas", "async_save"), _FSDP2),
    "compile": ("backend", ("local", "fsdp2")),
    "optimizer": ("backend", ("local",)),
}
_TYPES: Mapping[str, Any] = {
    name: (kind, ...) for name, kind in get_type_hints(Config, include_extras=True).items()
}
_SCHEMA = create_model(
    "ConfigSchema", __config__=ConfigDict(strict=True, allow_inf_nan=False), **_TYPES
)
# by pydantic's error type: the expected value, in clearer words than pydantic's own message
_EXPECTED = {
    "bool_type": "true or false",
    "greater_than": "a number > {gt:g}",
    "greater_than_equal": "a number >= {ge:g}",
    "less_than": "a number < {lt:g}",
    "less_than_equal": "a number <= {le:g}",
    "path_type": "a path",
    "tuple_type": "a list",
}


def is_served(teacher: str) -> bool:
    """Return whether a teacher is the URL of a server, and not a model's name or folder."""
    return teacher.startswith(("http://", "https://"))


def message_of(error: ValidationError) -> str:
    """Format the first error of a pydantic `ValidationError` as one line of text."""
    first = error.errors()[0]
    expected = _EXPECTED.get(first["type"], first["msg"].removeprefix("Input should be "))
    context = first.get("ctx", {})
    return f"{first['loc'][0]}: expected {expected.format_map(context)}, got {first['input']!r}"


def check_envs(envs: Iterable[str]) -> None:
    """Import the modules of environments `module:id`, and check that the ids are registered.

    Raises:
        ConfigError: a module cannot be imported, or an id is not registered.
    """
    for env in envs:
        module, _, name = env.rpartition(":")
        if module:
            try:
                trust.import_named(module)
            except (ImportError, TypeError) as error:
                raise ConfigError(f"env: cannot import {module!r}: {error}") from None
        if name not in gymnasium.registry:
            near = did_you_mean(name, gymnasium.registry)
            raise ConfigError(f"env: no environment is called {name!r}{near}")


def read_toml(path: Path) -> Config:
    """Read a configuration file; settings that are not in the file have their defaults.

    Raises:
        ConfigError: the file cannot be read, or has an unknown name or an invalid value.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: expected less deeply nested TOML") from None
    for name in values:
        if name not in _SCHEMA.model_fields:
            near = did_you_mean(name, _SCHEMA.model_fields)
            raise ConfigError(f"{path}: unknown name {name!r}{near}")
    try:
        return Config(**values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def to_dict(config: Config) -> dict[str, Any]:
    """Return the settings as values that JSON and TOML can represent."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(config).items()
    }


def to_toml(config: Config) -> str:
    """Format a configuration as TOML that `read_toml` can read."""
    import tomli_w

    return tomli_w.dumps(to_dict(config))


def differences(before: Config, after: Config) -> Mapping[str, tuple[Any, Any]]:
    """Return the settings that differ between two configurations, with both values."""
    new = vars(after)
    return {name: (value, new[name]) for name, value in vars(before).items() if value != new[name]}
