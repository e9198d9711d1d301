"""Functions that build the parts of a run from its configuration."""

import re
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from learners.config import Config, check_envs, is_served
from learners.engines import Engine, Sampling
from learners.engines.command import ServerSettings
from learners.engines.vllm import VLLMEngine
from learners.errors import ConfigError
from learners.goals import JUDGE_COSTS, budget, check_names, conditions
from learners.rollouts.curriculum import Curriculum, FreshCurriculum, LadderCurriculum
from learners.rollouts.feedback import hinted
from learners.rollouts.journal import Note
from learners.rollouts.orchestrator import Orchestrator
from learners.rollouts.trajectories import Trajectories
from learners.rollouts.workload import Workload
from learners.training import models
from learners.training.backends.local import LocalBackend
from learners.training.backends.settings import BackendSettings
from learners.training.trainer import Trainer, learning_rate
from resume_gym import Session, TaskError
from resume_gym.episode.sources import LADDER
from resume_gym.judges import AsyncJudge


def make_workloads(config: Config) -> list[Workload]:
    """Load the tasks, the rules and the judge of each environment of a run.

    Raises:
        ConfigError: an environment, its judge or the model's chat template is not supported, or the
            goal or the budget names a metric that the run does not have.
        TaskError: the tasks cannot be loaded.
    """
    check_envs(config.environments)
    works = [_make_workload(config, env) for env in config.environments]
    if config.teacher and not is_served(config.teacher):
        _check_teacher(config)
    figures = {work.env: _figures(work) for work in works}
    first, *rest = figures.values()
    known = [f"eval.{name}" for name in first if all(name in one for one in rest)]
    if rest:
        known += [f"eval.{env}/{name}" for env, names in figures.items() for name in names]
    check_names(conditions(config.goal, "goal"), known, "goal")
    return works


def _make_workload(config: Config, env: str) -> Workload:
    try:
        work = Workload.of(
            env,
            config.tasks,
            config.judge,
            config.model,
            config.eval_tasks,
            config.second_judge,
            config.second_judge_every,
        )
    except (ConfigError, TaskError) as error:
        if env in str(error) or len(config.environments) == 1:
            raise
        raise type(error)(f"{error}; the environment is {env}") from None
    if config.grades_drafts and isinstance(work.judge, AsyncJudge):
        expected = "episode, or a judge that asks no model, such as rubric"
        told = f"got {config.credit}, and {env} has the judge {work.judge.name!r}"
        raise ConfigError(f"credit: expected {expected}; {told}")
    if config.hinted and not issubclass(work.session_type, Session):
        raise ConfigError(f"feedback_weight: hints are about resumes; got {env}")
    _check_budget(config, work)
    return work


def _check_teacher(config: Config) -> None:
    """Check that the teacher fits the policy, if both are downloaded (a dry run needs neither).

    Raises:
        ConfigError: the vocabularies differ, or for `feedback_form` "full", the numbers of logits.
    """
    if not (models.is_here(config.teacher) and models.is_here(config.model)):
        return
    names = config.model, config.teacher
    one, other = (models.load_tokenizer(name).get_vocab() for name in names)
    if one != other:
        raise ConfigError(f"teacher: expected the tokenizer of {config.model!r}, got another one")
    sizes = [models.read_config(name).vocab_size for name in names]
    if config.feedback_form == "full" and len(set(sizes)) > 1:
        expected = f"{sizes[0]} logits, or feedback_form sampled"
        raise ConfigError(f"teacher: expected {expected}, got {sizes[1]} logits")


def _figures(work: Workload) -> list[str]:
    """Return the names of the metrics in an evaluation of an environment."""
    names = [one.name for one in fields(work.summary_type) if one.type in (int, float)]
    if work.judge:  # without a judge, a session opens a separate environment, which is slow
        session: Any = work.session(work.held_out[0])
        names += [f"verdict_{name}" for name in session.weights]
    return names


def _check_budget(config: Config, work: Workload) -> None:
    """Check that the judge reports each cost that the budget limits.

    Raises:
        ConfigError: the budget limits a cost that the judge does not report.
    """
    usage, limited = getattr(work.judge, "usage", None), {one.name for one in budget(config.budget)}
    needs = dict(zip(JUDGE_COSTS, ("that asks a model", "with a list price"), strict=True))
    for name in JUDGE_COSTS:
        known = getattr(usage, name.removeprefix("judge_"), None) is not None
        if name in limited and not known:
            judge = work.judge.name if work.judge else "none"
            raise ConfigError(f"budget: {name} needs a judge {needs[name]}, got {judge}")


def make_orchestrator(
    config: Config,
    works: Sequence[Workload],
    engine: Engine,
    trajectories: Trajectories | None,
    note: Note,
) -> Orchestrator:
    """Create the orchestrator that plays episodes with an engine; see `Orchestrator`."""
    return Orchestrator(
        works=works,
        curricula=make_curricula(config, works),
        eval_rollouts=config.eval_rollouts,
        sampling=Sampling(config.temperature, config.max_tokens, works[0].chat.ends, ()),
        eval_temperature=config.eval_temperature,
        timeout_s=config.timeout_s,
        engine=engine,
        trajectories=trajectories,
        note=note,
        by_edit=config.grades_drafts,
        hinted=partial(hinted, most=config.feedback_turns, kinds=config.feedback_kinds)
        if config.hinted
        else None,
        teacher_url=config.teacher if is_served(config.teacher) else "",
    )


def make_curricula(config: Config, works: Sequence[Workload]) -> list[Curriculum]:
    """Create one curriculum per environment, which draws the environment's tasks of each step."""
    return [_make_curriculum(config, work, index) for index, work in enumerate(works)]


def _make_curriculum(config: Config, work: Workload, index: int) -> Curriculum:
    spare = config.groups if config.replace_equal else 0
    drawn = config.seed, config.groups, config.group_size, spare
    place: dict[str, Any] = {"shares": tuple(config.environments.values()), "index": index}
    if size := fresh_size(config, work):
        return FreshCurriculum(*drawn, size, **place)
    if not (ladder := re.fullmatch(LADDER, config.tasks)):
        return Curriculum(*drawn, **place)

    def highest(task: Any) -> float:
        session: Any = work.session(task)
        return float(session.scale[1])

    size, sequence = ladder["size"] or "full", int(ladder["seed"])
    return LadderCurriculum(*drawn, size, sequence, config.max_staleness, highest, **place)


def fresh_size(config: Config, work: Workload) -> str:
    """Return the size of the tasks generated for each step, "full" or "mini"; empty for none."""
    return work.generated if config.fresh_tasks and not config.tasks else ""


def make_distant_orchestrator(
    config: Config, urls: Sequence[str], trajectories: Trajectories, note: Note
) -> tuple[Orchestrator, VLLMEngine]:
    """Create an orchestrator and its vLLM engine for the rollout process of `BackgroundSampler`."""
    engine = make_vllm_engine(config, urls)
    return make_orchestrator(config, make_workloads(config), engine, trajectories, note), engine


def make_vllm_engine(config: Config, urls: Sequence[str], by_nccl: bool = False) -> VLLMEngine:
    """Create an engine that samples from the vLLM servers at these URLs."""
    return VLLMEngine(urls, config.model, config.precision, config.timeout_s, by_nccl)


def server_settings(config: Config) -> ServerSettings:
    """Return the settings of the run's vLLM servers."""
    return ServerSettings(
        model=config.model,
        precision=config.precision,
        seed=config.seed,
        gpus=config.engine_gpus,
        colocated=config.colocated,
        threads=config.threads,
    )


def make_backend(config: Config) -> LocalBackend:
    """Create the training backend, which loads the model in its method `prepare`.

    Raises:
        ImportError: the backend's library is not installed.
    """
    settings = backend_settings(config)
    if config.backend == "fsdp2":
        from learners.training.backends.fsdp2 import FSDP2Backend

        return FSDP2Backend(settings)
    if config.backend == "deepspeed":
        from learners.training.backends.deepspeed import DeepSpeedBackend

        return DeepSpeedBackend(settings)
    return LocalBackend(settings)


def backend_settings(config: Config) -> BackendSettings:
    """Return the settings of the training backend."""
    values = {one.name: getattr(config, one.name) for one in fields(BackendSettings)}
    if is_served(config.teacher):  # the rollouts have its log-probabilities
        values["teacher"] = ""
    return BackendSettings(**values)


def make_trainer(config: Config, checkpoints: Path, keep_steps: int = 0) -> Trainer:
    """Create the trainer of the run's policy.

    Args:
        config: settings of the run.
        checkpoints: folder of all checkpoints.
        keep_steps: number of recent steps whose checkpoints are kept for rollbacks; see `finish` in
            `training/checkpoint.py`.
    """
    rate = partial(
        learning_rate,
        highest=config.learning_rate,
        schedule=config.learning_rate_schedule,
        warmup=config.warmup_steps,
        steps=config.steps,
    )
    backend = make_backend(config)
    return Trainer(backend, config.model, checkpoints, config.row_tokens, rate, keep_steps)
