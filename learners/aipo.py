"""Train a policy with AIPO: results are in runs/NAME, and the same command resumes them.

    python learners/aipo.py                      # the bundled nano policy, two CPU cores
    python learners/aipo.py --config nano_vllm   # the same, sampled by vLLM while it trains
    python learners/aipo.py --config smollm2     # a real pretrained model, same loop
    python learners/aipo.py --backend fsdp2 --trainer-procs 2     # or deepspeed
    python learners/aipo.py --config qwen3_14b_4xh200 --dry-run   # what it would take
    python learners/aipo.py --help

On several machines, on each: torchrun, its rendezvous flags, `learners/aipo.py` and its own.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from rich.console import Console

from learners import checkpoint, model_card, models, ranks
from learners.advantages import mean_centred, standardised
from learners.batching import Sample
from learners.checkpoint import CheckpointError
from learners.config import Config, ConfigError, dry_run, load, stop
from learners.cpu import prepare_cpu
from learners.engines import EngineError, Sampling
from learners.engines.server import Server, transfer
from learners.engines.transformers import TransformersEngine
from learners.engines.vllm import VLLMEngine
from learners.loggers import Loggers, require
from learners.losses import STANDARDISED
from learners.machine import Machine
from learners.monitors import Progress, RunFolder, describe
from learners.orchestrator import Batch
from learners.plan import make_plan
from learners.plan_table import show
from learners.policy import Policy
from learners.rollout import NOT_SAMPLED, Rollout
from learners.sampler import Beside, Embedded, Sampler
from learners.trainer import Trainer
from learners.work import Work, summarised
from resume_gym import TaskError
from resume_gym.evaluation import Returns, Summary, table
from resume_gym.judges import JudgeError
from resume_gym.report.training import dashboard

PROBE_TOKENS = 32
PROBE_LIMIT = {"float32": 1e-3, "bfloat16": 0.15}
"""Mean difference of an engine's and the trainer's log-probabilities that is still noise."""
_LOOK_S = 2.0


class Job:
    """Everything that rank 0 keeps between steps.

    Args:
        config: of the run.
        run: its folder.
        servers: of this machine, which the job has started.
        urls: of all servers.
        done: steps done before.
    """

    def __init__(
        self,
        config: Config,
        run: RunFolder,
        servers: Sequence[Server],
        urls: Sequence[str],
        done: int,
    ) -> None:
        self.config, self.run = config, run
        self.work = Work.of(config)
        self.version = done
        self.trainer = Trainer(config, run.checkpoints)
        self.engine: TransformersEngine | VLLMEngine
        self.sampler: Sampler
        self._servers = servers
        self._looked = 0.0
        if config.engine == "vllm":
            by_nccl = transfer(config) == "nccl"
            settings = config.model, config.precision, config.patience_s
            self.engine = VLLMEngine(urls, *settings, by_nccl)
            self.sampler = Beside(config, urls, run.trajectories, done, run.note, self.look)
            return
        policy, own = self.trainer.policy, config.backend != "local"
        if own:  # weights that are shared out cannot sample: a whole copy does
            whole: Any = models.load(config.model)
            policy = Policy(whole.to(ranks.device()), config.temperature, config.precision)
        self.engine = TransformersEngine(policy, own)
        self.sampler = Embedded(config, self.work, self.engine, run.trajectories, run.note)

    def publish(self, version: int) -> float:
        """Let the engine sample with what has been trained, and see that it does.

        Returns:
            The mean difference in log-probability of a few tokens; 0 for an embedded engine,
            whose every token is compared while it is trained on.

        Raises:
            EngineError: it cannot, or samples with something else.
        """
        for server in self._servers:
            server.ready()
        self.engine.load_weights(version, self.trainer.iter_weights)
        self.version = version
        gap = self._probe(self.engine) if isinstance(self.engine, VLLMEngine) else 0.0
        self.sampler.published(version)
        return gap

    def _probe(self, engine: VLLMEngine) -> float:
        chat, session = self.work.chat, self.work.session(self.work.held_out[0])
        prompt = chat.prompt(session.system_prompt, session.prompt)
        sampling = Sampling(self.config.temperature, PROBE_TOKENS, chat.end, (0,))
        said = asyncio.run(engine.probe(prompt, sampling))
        samples = [
            Sample(0, prompt, one.ids, [True] * len(one.ids), one.logprobs, 0.0) for one in said
        ]
        gap = float(self.trainer.gaps(samples).mean())
        limit = PROBE_LIMIT[self.config.precision]
        if not gap <= limit:
            told = f"sampler and trainer differ by {gap:.3g} in log-probability, more than {limit}"
            raise EngineError(f"after weights {self.version}: {told}")
        return gap

    def look(self) -> None:
        """Bring servers up to date that have been restarted; called while the trainer waits."""
        for server in self._servers:
            server.check()
        if time.monotonic() - self._looked < _LOOK_S or not isinstance(self.engine, VLLMEngine):
            return
        if self.engine.behind(self.version):
            self.run.note(f"An engine is given weights {self.version} again.")
            self.engine.load_weights(self.version, self.trainer.iter_weights)
        self._looked = time.monotonic()

    def step(self, step: int, batch: Batch, began: float) -> dict[str, float]:
        """Train on a step's rollouts, publish; its metrics, from when they were waited for."""
        config, rollouts = self.config, batch.rollouts
        sampled = time.monotonic()

        rewards = torch.tensor([one.session.reward for one in rollouts])
        groups = torch.tensor([one.group for one in rollouts])
        centre = standardised if config.loss in STANDARDISED else mean_centred
        advantages = centre(rewards, groups).tolist()
        samples = [one.sample(a) for one, a in zip(rollouts, advantages, strict=True)]
        if config.colocated:
            self.engine.sleep()  # type: ignore[union-attr]  # the configuration was checked
        trained = self.trainer.train_step(samples)
        if config.colocated:
            torch.cuda.empty_cache()  # which the engine is to have
            self.engine.wake()  # type: ignore[union-attr]
        updated = time.monotonic()
        probe = self.publish(step)
        ended = time.monotonic()
        return {
            "step": step,
            **_figures(summarised(rollouts)),
            **_token_figures(rollouts),
            **_staleness(rollouts, step),
            "dropped_episodes": batch.dropped_episodes,
            "dropped_groups": batch.dropped_groups,
            **trained,
            "probe": probe,
            "learning_rate": config.learning_rate,
            "seconds_lag": batch.lag_s,
            "seconds_rollout": sampled - began,
            "seconds_train": updated - sampled,
            "seconds_publish": ended - updated,
            "tokens_per_s": sum(len(one.response) for one in rollouts) / (ended - began),
        }

    def export(self, target: Path) -> None:
        """Write the policy in Hugging Face's format."""
        models.export(self.config.model, self.trainer.iter_weights(), target)

    def close(self) -> None:
        """Stop playing, let the other ranks go."""
        self.sampler.close()
        self.trainer.close()
        self.engine.close()


def _figures(summary: Returns) -> dict[str, float]:
    earned = {"reward": summary.reward, "reward_std": summary.reward_sd}
    if not isinstance(summary, Summary):
        return earned
    return {
        **earned,
        "score": summary.score,
        "tool_syntax": summary.tool_syntax,
        "layout": summary.layout,
        "content": summary.content,
        **{f"verdict_{name}": value for name, value in summary.verdict.items()},
        "submit_rate": summary.submit_rate,
        "edits": summary.edits,
        "failed_edits": summary.failed_edits,
        "failed_share": summary.failed_share,
        "malformed": summary.malformed,
        "layout_pass": summary.layout_pass_rate,
        "lines": summary.lines,
        "judged": 1 - summary.unjudged / summary.episodes,
    }


def _token_figures(rollouts: Sequence[Rollout]) -> dict[str, float]:
    return {
        "turns": fmean(one.session.turns for one in rollouts),
        "sampled_tokens": sum(sum(one.sampled) for one in rollouts),
        "tokens": sum(len(one.prompt) + len(one.response) for one in rollouts),
    }


def _staleness(rollouts: Sequence[Rollout], step: int) -> dict[str, float]:
    """Optimizer steps between the weights that sampled and those that train."""
    ages = [step - 1 - v for one in rollouts for v in one.versions if v != NOT_SAMPLED]
    return {"staleness": fmean(ages), "staleness_max": max(ages)}


def train(config: Config, servers: Sequence[Server], urls: Sequence[str]) -> None:
    """Run a job to its end, from its last checkpoint if there is one."""
    console = Console()
    run = RunFolder(config.runs / config.name)
    run.configure(config)
    last = checkpoint.latest(run.checkpoints)
    done = last[0] if last else 0
    job = Job(config, run, servers, urls, done)
    run.truncate(done)
    if last:
        job.trainer.load(last[1])
        run.note(f"Resumed after step {done}.")
        console.print(f"{run.path}: resumed after step {done} of {config.steps}", soft_wrap=True)
    model_card.write_facts(run, config, job.work)
    job.publish(done)
    with Loggers(config, run, done) as loggers:
        before = _evaluation(job, "before", console)
        _tell(job, loggers, console.print)
        _evaluate(job, done)
        if done < config.steps:
            run.set_aside(done)
            _steps(job, loggers, done)
        target = run.path / "model"
        if done < config.steps or not target.is_dir():
            checkpoint.write_folder(target, job.export)
        job.trainer.wait()
        for sentence in _evaluated(job, wait=True):
            run.note(sentence)
            loggers.say(config.steps, sentence)
        after = _evaluation(job, "after", console)
        if not (target / model_card.CARD).exists():
            model_card.write(run, target)
        _tell(job, loggers, console.print)
    job.close()
    console.print(table({"before": before, "after": after}))
    files = "config, metrics, trajectories, checkpoints, journal, model, dashboard.png"
    console.print(f"{run.path}: {files}", soft_wrap=True)


def _steps(job: Job, loggers: Loggers, done: int) -> None:
    config, run = job.config, job.run
    history = run.metrics()
    with Progress(config.steps, done) as progress:
        for step in range(done + 1, config.steps + 1):
            began = time.monotonic()
            try:
                batch = job.sampler.batch(step)
            except (JudgeError, EngineError):
                job.trainer.wait()
                saved = checkpoint.latest(run.checkpoints)
                if step - 1 > (saved[0] if saved else 0):
                    job.trainer.save(step - 1)  # the steps before this one are not lost
                    job.trainer.wait()
                raise
            metrics = job.step(step, batch, began)
            history.append(metrics)
            run.append(metrics)
            progress.update(metrics)
            for sentence in [*describe(history), *_evaluated(job, wait=False)]:
                run.note(sentence)
                progress.say(sentence)
                loggers.say(step, sentence)
            if step % config.save_every == 0 or step == config.steps:
                job.trainer.save(step)
                dashboard(history, run.path / "dashboard.png", f"{config.name}: {config.model}")
            _evaluate(job, step)
            _tell(job, loggers, progress.say)


def _tell(job: Job, loggers: Loggers, show: Callable[[str], None]) -> None:
    """Bring the loggers up to date; what has become of one is kept and shown."""
    for sentence in loggers.update():
        job.run.note(sentence)
        show(sentence)


def _evaluation(job: Job, when: str, console: Console) -> Returns:
    """The figures on held-out tasks; played once a run, then read from its folder."""
    if (known := job.run.result(when)) is not None:
        return known
    episodes = len(job.work.held_out) * job.config.eval_rollouts
    with console.status(f"playing {episodes} held-out episodes {when} training"):
        job.sampler.evaluate(job.version)
        ((_, evaluation),) = job.sampler.evaluations(wait=True)
    summary = evaluation.summary
    if evaluation.dropped_episodes:
        told = f"Held-out episodes left out {when} training: {evaluation.dropped_episodes}."
        job.run.note(told)
    job.run.write_result(when, summary)
    job.run.note(f"Mean reward on held-out tasks {when} training: {summary.reward:.2f}.")
    return summary


def _evaluate(job: Job, step: int) -> None:
    """Begin the evaluation that is due after a step, if it has not ended before."""
    every, ended = job.config.eval_every, [one["step"] for one in job.run.evaluations()]
    if every and step and step % every == 0 and step not in ended:
        job.sampler.evaluate(step)


def _evaluated(job: Job, wait: bool) -> Iterator[str]:
    """Keep the evaluations that have ended, and the checkpoint of the best; a sentence on each."""
    for step, (summary, versions, dropped) in job.sampler.evaluations(wait):
        counts = {"step": step, "versions": versions, "dropped_episodes": dropped}
        job.run.append_evaluation({**counts, **asdict(summary)})
        first = max(job.run.evaluations(), key=lambda one: one["reward"])["step"] == step
        told = ", best so far" if first and checkpoint.mark_best(job.run.checkpoints, step) else ""
        yield f"Step {step}: mean reward {summary.reward:.2f} on held-out tasks{told}."


@contextmanager
def serving(config: Config) -> Iterator[list[Server]]:
    """The servers of this machine, if this process is its first and it is to have any."""
    run, servers = RunFolder(config.runs / config.name), []
    wanted = config.engine == "vllm" and not config.engine_urls and ranks.local_rank() == 0
    try:
        for number in range(config.engine_procs if wanted else 0):
            log = run.logs / f"engine-{ranks.rank()}-{number}.log"
            servers.append(Server(config, number, log, run.note))
        yield servers
    finally:
        for server in servers:
            server.close()


def main() -> None:
    """Train, in as many processes as configured; a mistake of the user's is one line."""
    config = load(sys.argv[1:])
    try:
        models.folder(config.model)
        if (machine := dry_run(sys.argv[1:])) is not None:
            show(make_plan(config, Machine.named(machine)), Console())
            return
        require(config)
    except (ConfigError, TaskError, FileNotFoundError) as error:
        stop(error)
    run = config.runs / config.name
    if config.backend != "local" and not ranks.launched():
        status = ranks.launch(config.trainer_procs, [str(Path(__file__)), *sys.argv[1:]])
        if status == ranks.INTERRUPTED:
            print(f"interrupted; the same command resumes {run}", file=sys.stderr)
        raise SystemExit(status)
    try:
        _run(config)
    except SystemExit as told:
        ranks.end(int(told.code or 0))
        raise
    ranks.end()


def _run(config: Config) -> None:
    """Do this process's part."""
    run = config.runs / config.name
    try:
        own = config.engine == "vllm" and not config.engine_urls and not config.colocated
        ranks.start(config.engine_procs * config.engine_gpus if own else 0)
        prepare_cpu(config.threads or ranks.cores())
        torch.manual_seed(config.seed)
        with serving(config) as servers:
            found = ranks.gather([one.url for one in servers])
            urls = config.engine_urls or [url for each in found for url in each]
            if ranks.rank() == 0:
                train(config, servers, urls)
            else:
                Trainer(config, run / "checkpoints").follow()
    except (ConfigError, TaskError, FileNotFoundError) as error:
        stop(error)
    except JudgeError as error:
        print(f"error: no verdict: {error}; the same command resumes {run}", file=sys.stderr)
        raise SystemExit(1) from None
    except EngineError as error:
        print(f"error: {error}; the same command resumes {run}", file=sys.stderr)
        raise SystemExit(1) from None
    except (CheckpointError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        print(f"interrupted; the same command resumes {run}", file=sys.stderr)
        raise SystemExit(ranks.INTERRUPTED) from None


if __name__ == "__main__":
    main()
