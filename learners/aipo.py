"""Train a policy with AIPO: results are in runs/NAME, and the same command resumes them.

    python learners/aipo.py                      # the bundled nano policy, two CPU cores
    python learners/aipo.py --config smollm2     # a real pretrained model, same loop
    python learners/aipo.py --backend fsdp2 --trainer-procs 2     # or deepspeed
    python learners/aipo.py --help

On several machines, on each: torchrun, its rendezvous flags, `learners/aipo.py` and its own.
Rank 0 samples, then all ranks train, so no token is stale. Left out here: engines in servers,
evaluation while training.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium
import numpy as np
import torch
from rich.console import Console

from learners import checkpoint, models, ranks
from learners.advantages import mean_centred, standardised
from learners.checkpoint import CheckpointError
from learners.config import Config, ConfigError, load, stop
from learners.cpu import prepare_cpu
from learners.engines import Sampling
from learners.engines.transformers import TransformersEngine
from learners.losses import STANDARDISED
from learners.monitors import Progress, RunFolder, dashboard, describe
from learners.policy import Policy
from learners.rollout import Rollout, play
from learners.tokens import ChatTokens
from learners.trainer import Trainer
from resume_gym import TOOLS, Rules, Task, TaskError, load_tasks
from resume_gym.evaluation import Episode, Summary, summarise, table
from resume_gym.judges import JudgeError, make_judge
from resume_gym.rewards import VERDICT_WEIGHTS


class Job:
    """Everything that rank 0 keeps between steps."""

    def __init__(self, config: Config, run: RunFolder) -> None:
        settings = gymnasium.spec(config.env).kwargs
        source = config.tasks or settings.get("tasks", "default")
        limits = ("max_turns", "page_lines", "page_width", "match")
        self.config, self.run = config, run
        self.rules = Rules(**{name: settings[name] for name in limits if name in settings})
        self.tasks = load_tasks(source, "train")
        self.held_out = load_tasks(source, "eval")[: config.eval_tasks]
        try:
            self.judge = make_judge(config.judge)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        self.trainer = Trainer(config, run.checkpoints)
        self.chat = ChatTokens(models.load_tokenizer(config.model), TOOLS)
        self.policy = self.trainer.policy
        if config.backend != "local":  # whose weights are shared out: sample from a whole copy
            whole: Any = models.load(config.model)
            whole.to(ranks.device())
            self.policy = Policy(whole, config.temperature, config.precision)
        self.engine = TransformersEngine(self.policy)

    def load(self, folder: Path) -> None:
        """Go on from a checkpoint."""
        self.trainer.load(folder)
        self.sync(0)

    def sync(self, version: int) -> None:
        """Sample from what has been trained."""
        if self.policy is not self.trainer.policy:
            own = dict(self.policy.model.named_parameters())
            with torch.no_grad():
                for name, weight in self.trainer.iter_weights():
                    own[name].copy_(weight)
        self.engine.load_weights(version)

    def play(self, tasks: Sequence[Task], each: int, seed: int) -> list[Rollout]:
        """`each` rollouts of every task."""
        config = self.config
        sampling = Sampling(config.temperature, config.max_tokens, self.chat.end, seed)
        repeated = [task for task in tasks for _ in range(each)]
        return play(repeated, self.rules, self.engine, self.chat, self.judge, sampling)

    def evaluate(self) -> Summary:
        """Play the held-out tasks, always with the same draws."""
        rollouts = self.play(self.held_out, self.config.eval_rollouts, seed=0)
        return summarise(Episode.of(one.session) for one in rollouts)

    def step(self, step: int) -> dict[str, float]:
        """Sample, grade, train; the step's metrics. All draws come from the seed and the step."""
        config = self.config
        began = time.monotonic()
        rng = np.random.default_rng([config.seed, step])
        chosen = rng.choice(len(self.tasks), config.groups, replace=len(self.tasks) < config.groups)
        seed = int(rng.integers(2**62))
        rollouts = self.play([self.tasks[i] for i in chosen], config.group_size, seed)
        sampled = time.monotonic()

        rewards = torch.tensor([one.session.reward for one in rollouts])
        groups = torch.tensor([one.group for one in rollouts])
        centre = standardised if config.loss in STANDARDISED else mean_centred
        advantages = centre(rewards, groups).tolist()
        samples = [one.sample(a) for one, a in zip(rollouts, advantages, strict=True)]
        trained = self.trainer.train_step(samples)
        self.sync(step)
        ended = time.monotonic()

        self.run.write_trajectories(step, map(_record, rollouts))
        return {
            "step": step,
            **_figures(summarise(Episode.of(one.session) for one in rollouts)),
            **_token_figures(rollouts),
            **trained,
            "learning_rate": config.learning_rate,
            "seconds_rollout": sampled - began,
            "seconds_train": ended - sampled,
            "tokens_per_s": sum(len(one.response) for one in rollouts) / (ended - began),
        }

    def export(self, target: Path) -> None:
        """Write the policy in Hugging Face's format."""
        models.export(self.config.model, self.trainer.iter_weights(), target)


def _figures(summary: Summary) -> dict[str, float]:
    return {
        "reward": summary.reward,
        "reward_std": summary.reward_sd,
        "score": summary.score,
        "tool_syntax": summary.tool_syntax,
        "layout": summary.layout,
        "content": summary.content,
        **{name: weight * summary.verdict[name] for name, weight in VERDICT_WEIGHTS.items()},
        "submit_rate": summary.submit_rate,
        "edits": summary.edits,
        "failed_edits": summary.failed_edits,
        "failed_share": summary.failed_share,
        "malformed": summary.malformed,
        "layout_pass": summary.layout_pass_rate,
        "judged": 1 - summary.unjudged / summary.episodes,
    }


def _token_figures(rollouts: Sequence[Rollout]) -> dict[str, float]:
    return {
        "turns": fmean(one.session.state.turns for one in rollouts),
        "lines": fmean(one.session.state.document.lines for one in rollouts),
        "sampled_tokens": sum(sum(one.sampled) for one in rollouts),
        "tokens": sum(len(one.prompt) + len(one.response) for one in rollouts),
    }


def _record(rollout: Rollout) -> dict[str, Any]:
    tokens = {
        name: getattr(rollout, name) for name in ("prompt", "response", "sampled", "logprobs")
    }
    return {"group": rollout.group, **rollout.session.record(), "tokens": tokens}


def train(config: Config) -> None:
    """Run a job to its end, from its last checkpoint if there is one."""
    console = Console()
    run = RunFolder(config.runs / config.name)
    run.configure(config)
    job = Job(config, run)
    last = checkpoint.latest(run.checkpoints)
    done = last[0] if last else 0
    run.truncate(done)
    if last:
        job.load(last[1])
        run.note(f"Resumed after step {done}.")
        console.print(f"{run.path}: resumed after step {done} of {config.steps}", soft_wrap=True)
    before = _evaluation(job, run.path / "before.json", "before training", console)

    history = run.metrics()
    with Progress(config.steps, done, console) as progress:
        for step in range(done + 1, config.steps + 1):
            try:
                metrics = job.step(step)
            except JudgeError:
                job.trainer.wait()
                saved = checkpoint.latest(run.checkpoints)
                if step - 1 > (saved[0] if saved else 0):
                    job.trainer.save(step - 1)  # the steps before this one are not lost
                raise
            history.append(metrics)
            run.append(metrics)
            progress.update(metrics)
            for sentence in describe(history):
                run.note(sentence)
                progress.say(sentence)
            if step % config.save_every == 0 or step == config.steps:
                job.trainer.save(step)
                dashboard(history, run.path / "dashboard.png", f"{config.name}: {config.model}")

    if done < config.steps or not (run.path / "model").is_dir():
        checkpoint.write_folder(run.path / "model", job.export)
    job.trainer.close()
    after = _evaluation(job, run.path / "after.json", "after training", console)
    console.print(table({"before": before, "after": after}))
    files = "config, metrics, trajectories, checkpoints, journal, model, dashboard.png"
    console.print(f"{run.path}: {files}", soft_wrap=True)


def _evaluation(job: Job, file: Path, when: str, console: Console) -> Summary:
    """The figures on held-out tasks; played once a run, then read from its folder."""
    if file.exists():
        return Summary(**json.loads(file.read_text()))
    episodes = len(job.held_out) * job.config.eval_rollouts
    with console.status(f"playing {episodes} held-out episodes {when}"):
        summary = job.evaluate()
    checkpoint.write_text(file, json.dumps(asdict(summary), indent=1) + "\n")
    job.run.note(f"Mean reward on held-out tasks {when}: {summary.reward:.2f}.")
    return summary


def main() -> None:
    """Train, in as many processes as configured; a mistake of the user's is one line."""
    config = load(sys.argv[1:])
    if config.backend != "local" and not ranks.launched():
        raise SystemExit(ranks.launch(config.trainer_procs, [str(Path(__file__)), *sys.argv[1:]]))
    try:
        ranks.start()
        prepare_cpu(config.threads or ranks.cores())
        torch.manual_seed(config.seed)
        if ranks.rank() == 0:
            train(config)
        else:
            Trainer(config, config.runs / config.name / "checkpoints").follow()
        ranks.end()
    except (ConfigError, TaskError, FileNotFoundError) as error:
        stop(error)
    except JudgeError as error:
        run = config.runs / config.name
        print(f"error: no verdict: {error}; the same command resumes {run}", file=sys.stderr)
        raise SystemExit(1) from None
    except (CheckpointError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
