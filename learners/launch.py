"""Start a training run with its processes and servers; print expected errors as one line each.

`learners/aipo.py` contains the training loop, which runs in every process.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial

import torch

from learners.build import (
    make_distant_orchestrator,
    make_orchestrator,
    make_trainer,
    make_vllm_engine,
    make_workloads,
    server_settings,
)
from learners.command_line import Arguments, stop
from learners.config import Config, is_served, to_dict
from learners.engines import EngineError
from learners.engines.command import transfer
from learners.engines.server import Server, serving
from learners.engines.transformers import TransformersEngine
from learners.engines.vllm import unreachable
from learners.errors import STOPPED, ConfigError, RunStopped
from learners.planning.machine import Machine
from learners.planning.plan import RunPlan, check_gpus, first_trainer
from learners.planning.table import show
from learners.rollouts.rollout import EpisodeError
from learners.rollouts.rollout_source import LeadRank, RolloutSource
from learners.rollouts.sampler import BackgroundSampler, InProcessSampler
from learners.rollouts.workload import Workload
from learners.run.alarms import WINDOW, span_of
from learners.run.folder import RunFolder
from learners.run.heartbeat import Heartbeat, interrupted
from learners.run.report import RunReport
from learners.training import checkpoint, models, ranks
from learners.training.checkpoint import CheckpointError
from learners.training.cpu import prepare_cpu
from learners.training.policy import Policy
from learners.training.trainer import Trainer
from resume_gym import TaskError
from resume_gym.judges import Judge, JudgeError
from resume_gym.support import trust
from resume_gym.support.command_line import complain
from resume_gym.support.printing import say
from resume_gym.support.terminal import Terminal

Train = Callable[[Config, Trainer, RolloutSource, RunReport], int]
"""A training loop that every rank runs; returns the exit status of the process."""


def main(train: Train, script: str, arguments: Arguments) -> None:
    """Train with the settings of a command line, in as many processes as the settings request.

    Args:
        train: function that runs the training loop.
        script: path of the program that calls this function; additional processes run it, too.
        arguments: the command line, which additional processes get, too.

    Raises:
        SystemExit: the exit status is not 0, or other processes did the training.
    """
    config = arguments.config
    try:
        if arguments.machine is not None:
            show(RunPlan(config, Machine.named(arguments.machine)), Terminal())
            return
        config.check_packages()
        trainers = int(os.environ.get("LOCAL_WORLD_SIZE", config.trainer_procs))
        check_gpus(config, torch.cuda.device_count(), trainers)
        models.download(config.model)  # once, before further processes are started
        if config.teacher and not is_served(config.teacher):
            models.download(config.teacher)
    except (ConfigError, TaskError, FileNotFoundError) as error:
        stop(error)
    run = config.runs / config.name
    if config.backend != "local" and not ranks.launched():
        status = ranks.launch(config.trainer_procs, [script, *arguments.words])
        if status == ranks.INTERRUPTED:
            interrupted(RunFolder(run), config.steps)
        raise SystemExit(status)
    try:
        _run_or_explain(config, train)
    except SystemExit as exiting:
        ranks.end(int(exiting.code or 0))
        raise
    ranks.end()


def _run_or_explain(config: Config, train: Train) -> None:
    """Run the training of this process; print an expected error as one line, and exit."""
    resumes = f"; the same command resumes {config.runs / config.name}"
    try:
        _run(config, train)
    except (ConfigError, TaskError, FileNotFoundError) as error:
        stop(error)
    except (JudgeError, EngineError, EpisodeError, RunStopped) as error:
        if ranks.rank() > 0:  # rank 0 prints the error, which is raised on all ranks
            ranks.wait_for_end()
        if isinstance(error, RunStopped):
            raise SystemExit(complain(f"an alarm stopped the run at {error}", STOPPED)) from None
        prefix = "no verdict: " if isinstance(error, JudgeError) else ""
        raise SystemExit(complain(f"{prefix}{error}{resumes}", 1)) from None
    except (CheckpointError, FloatingPointError) as error:
        raise SystemExit(complain(error, 1)) from None
    except RuntimeError:  # such as a failed collective after another rank has died
        ranks.wait_for_end()
        raise
    except OSError as error:  # such as a full disk
        if error.filename is None:
            raise
        raise SystemExit(complain(f"{error.filename}: {error.strerror}{resumes}", 1)) from None
    except KeyboardInterrupt:
        raise SystemExit(complain(f"interrupted{resumes}", ranks.INTERRUPTED)) from None


def _run(config: Config, train: Train) -> None:
    ranks.start(reserved=first_trainer(config))
    prepare_cpu(config.threads or ranks.cores())
    torch.manual_seed(config.seed)
    works, first = list[Workload](), ranks.rank() == 0
    if first:  # check settings before a folder is created or a server is started
        works = make_workloads(config)
        for name, urls in (
            ("engine_urls", config.engine_urls),
            ("teacher", [config.teacher] if is_served(config.teacher) else []),
            ("judge", _servers(work.judge for work in works)),
            ("second_judge", _servers(work.second_judge for work in works)),
        ):
            if absent := unreachable(urls):
                raise ConfigError(f"{name}: no server runs at {' and '.join(absent)}")
    folder = RunFolder(config.runs / config.name)
    heart = Heartbeat(folder, config.steps, config.heartbeat_s)
    with ExitStack() as opened:
        if first:
            opened.enter_context(folder.lock())
            if folder.configure(config):
                trust.remember(folder.path, to_dict(config))
            opened.enter_context(heart)
        count = config.engine_procs if config.starts_servers else 0
        starting = serving(server_settings(config), count, folder.logs, folder.note)
        servers = opened.enter_context(starting)
        if config.colocated:  # a starting server measures the free memory of its GPU
            for server in servers:
                server.ready()
        started = [url for urls in ranks.gather([server.url for server in servers]) for url in urls]
        if first:
            for sentence in checkpoint.set_damaged_aside(folder.checkpoints):
                folder.note(sentence)
                say(f"warning: {sentence}", error=True)
        ranks.barrier()  # rank 0 may read large checkpoints for longer than a collective's timeout
        # a rollback needs a checkpoint from before the steps whose mean raised the alarm
        back = config.on_collapse == "rollback"
        steps = max(WINDOW, span_of(config.groups)) if back else 0
        trainer = make_trainer(config, folder.checkpoints, steps)
        urls = config.engine_urls or started
        rollouts = _make_rollouts(config, trainer, works, folder, servers, urls)
        heart.evaluation = rollouts.evaluation
        with RunReport(config, folder, works, heart) as report:
            status = train(config, trainer, rollouts, report)
        rollouts.close()
    if status:
        ranks.barrier()  # when one process exits, the launcher ends the others
        raise SystemExit(status)


def _servers(judges: Iterable[Judge | None]) -> list[str]:
    """Return the addresses of the servers that judges send requests to, each once."""
    parts = (part for judge in judges for part in (judge, *getattr(judge, "parts", ())))
    urls = (str(url) for part in parts if (url := getattr(part, "base_url", None)))
    return list(dict.fromkeys(urls))


def _make_rollouts(
    config: Config,
    trainer: Trainer,
    works: Sequence[Workload],
    folder: RunFolder,
    servers: Sequence[Server],
    urls: Sequence[str],
) -> RolloutSource:
    # dtype of the engine's weights: vLLM uses the run's precision, the transformers engine fp32
    dtype = getattr(torch, config.precision if config.engine == "vllm" else "float32")
    make = partial(
        RolloutSource, trainer, config.temperature, config.precision, dtype, config.colocated
    )
    if not works:
        return make(None)
    if config.engine == "vllm":
        engine = make_vllm_engine(config, urls, transfer(config.colocated) == "nccl")
        build = partial(make_distant_orchestrator, config, urls, folder.trajectories)
        sampler = BackgroundSampler(build, config.steps, config.max_staleness, folder.note)
        return make(LeadRank(works[0], engine, sampler, servers, folder.note))
    policy, copied = trainer.policy, config.backend != "local"
    if copied:  # the engine cannot sample from sharded weights
        model = models.load(config.model, ranks.device())
        policy = Policy(model, config.temperature, config.precision)
    local = TransformersEngine(policy, copied)
    orchestrator = make_orchestrator(config, works, local, folder.trajectories, folder.note)
    return make(LeadRank(works[0], local, InProcessSampler(orchestrator), servers, folder.note))
