"""Imitation: a supervised warm start of any model on demonstrations of a scripted editor.

    python learners/imitation.py --minutes 150                               # a new nano policy
    python learners/imitation.py --minutes 10 --model smollm2 --lora-rank 32
    python learners/imitation.py --help

Worker processes make demonstrations while the model trains. The same command resumes. For the last
part of the time the editor has the faults that reinforcement learning is there to mend; before and
after it the model plays held-out tasks, so what it can do is measured apart from its habits.
"""

import asyncio
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import count, cycle, islice
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from resume_gym.import_path import leave_current_folder
from resume_gym.user_errors import missing_of

if __name__ == "__main__":
    leave_current_folder()
    if missing := missing_of("training needs", "train"):
        print(f"error: {missing}", file=sys.stderr)
        raise SystemExit(2)

import torch
import tyro
from rich.console import Console

from learners.config import Config, ConfigError, stop, to_toml
from learners.demonstrations import EXPERT, HASTY, Habits, act, demonstrations, renamed
from learners.engines import EngineError
from learners.engines.transformers import TransformersEngine
from learners.losses import likelihood
from learners.nano.model import make_model, make_tokenizer
from learners.rollouts.orchestrator import Orchestrator
from learners.rollouts.rollout_source import PROBE_LIMIT
from learners.rollouts.tokens import ChatTokens
from learners.rollouts.trajectories import Trajectories
from learners.rollouts.workload import Workload
from learners.training import models, ranks
from learners.training.batching import PackedRow, Sample, pack
from learners.training.checkpoint import CheckpointError, write_folder, write_text
from learners.training.cpu import prepare_cpu
from learners.training.trainer import Trainer
from resume_gym import TOOLS, Rules, Session, TaskError
from resume_gym.evaluation import Returns, table
from resume_gym.judges import JudgeError
from resume_gym.synthesis.procedural import generate_task

T = TypeVar("T")
VARIANTS = {"ResumeEditMini-v0": "mini", "ResumeEdit-v0": "full"}
SAVE_EVERY_S = 300.0
_TELL_S = 20.0
_AHEAD = 8  # rows that each worker makes ahead
_BUFFER = 64  # rows that repeated rows are shuffled among
_WARMUP = 20  # optimizer steps
_TASKS = 1000  # per optimizer step
_TEXTS = 600  # tasks from whose demonstrations the tokenizer is learned
_CHECKED = 16  # episodes whose log-probabilities are compared


@dataclass(frozen=True)
class Options:
    """Settings of a warm start; `--help` prints these descriptions.

    Attributes:
        minutes: training time, without the evaluations.
        name: name of the run; its folder is RUNS/NAME, and the same name resumes it.
        runs: folder of all runs.
        model: model to start from, as in `aipo.py`; empty for a new nano model.
        env: environment whose tasks are generated for the demonstrations.
        habits: share of the time, at its end, in which the editor has faults.
        draws: turns that are demonstrated from each state.
        skip_prompt: share of the demonstrations that start at the review instead of the prompt.
        repeats: number of times that each demonstration is seen.
        workers: processes that make demonstrations; 0 makes them in between, best without a GPU.
        rows: packed rows per optimizer step.
        row_tokens: limit of a packed row, in tokens.
        learning_rate: learning rate of AdamW, which decays to zero.
        precision: precision of the forward pass; weights are always float32.
        compile: compile MLPs, norms and rotary embeddings for speed.
        activation_checkpointing: recompute each layer in the backward pass to save memory.
        lora_rank: rank of LoRA adapters on the frozen model; 0 trains all weights.
        lora_alpha: scales the output of the adapters by lora_alpha / lora_rank.
        seed: random seed.
        threads: CPU threads; 0 for all cores.
        temperature: sampling temperature of the evaluations.
        max_tokens: limit of a turn in the evaluations, in tokens.
        eval_tasks: held-out tasks per evaluation.
        eval_rollouts: rollouts per held-out task.
    """

    minutes: float
    name: str = "imitation"
    runs: Path = Path("runs")
    model: str = ""
    env: str = "ResumeEditMini-v0"
    habits: float = 0.1
    draws: int = 32
    skip_prompt: float = 0.0
    repeats: int = 3
    workers: int = 0
    rows: int = 1
    row_tokens: int = 8192
    learning_rate: float = 1e-3
    precision: str = "bfloat16"
    compile: bool = False
    activation_checkpointing: bool = False
    lora_rank: int = 0
    lora_alpha: int = 32
    seed: int = 1
    threads: int = 0
    temperature: float = 0.7
    max_tokens: int = 96
    eval_tasks: int = 40
    eval_rollouts: int = 4

    def config(self, model: str) -> Config:
        """Return the configuration of the trainer.

        Raises:
            ConfigError: a value has the wrong type or is out of range.
        """
        if self.env not in VARIANTS:
            raise ConfigError(f"env: expected {' or '.join(VARIANTS)}, got {self.env!r}")
        for name in ("draws", "repeats", "rows"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not (self.minutes > 0 and 0 <= self.habits <= 1):
            got = f"{self.minutes} and {self.habits}"
            raise ConfigError(f"expected minutes above 0 and habits in [0, 1], got {got}")
        shared = {one.name for one in fields(Config)} & {one.name for one in fields(self)}
        given = {name: getattr(self, name) for name in shared}
        return Config(**{**given, "model": model, "temperature": 1.0})


def make_rows(
    options: Options, model: str, habits: Habits, start: int, worker: int
) -> Iterator[bytes]:
    """Yield packed rows of one worker's demonstrations without end, pickled.

    Args:
        options: settings.
        model: model whose tokenizer encodes them.
        habits: habits of the editor.
        start: number of optimizer steps done, which determines the tasks.
        worker: number of the worker.
    """
    config = options.config(model)
    rules, chat = Workload.of(config).rules, ChatTokens(models.load_tokenizer(model), TOOLS)
    # a step sees fewer new tasks than that, so each start has its own
    numbers = count(_TASKS * start + worker, max(1, options.workers))
    tasks = (generate_task(options.seed, n, "train", VARIANTS[options.env]) for n in numbers)
    strange = (renamed(task, Random(f"{options.seed}:{task.task_id}")) for task in tasks)
    sessions = (Session(task, rules) for task in strange)
    groups = demonstrations(
        chat,
        sessions,
        partial(act, habits=habits),
        options.draws,
        f"{options.seed}:{start}:{worker}",
        options.skip_prompt,
    )
    row: list[Sample] = []
    tokens = 0
    for group in groups:
        more = len(group[0].prompt) + sum(len(sample.response) for sample in group)
        if row and tokens + more > options.row_tokens:
            for packed in pack(row, options.row_tokens):
                # on average 1, so the loss is that of a token
                weights = packed.advantages / packed.advantages.mean()
                yield pickle.dumps(replace(packed, advantages=weights))
            row, tokens = [], 0
        row, tokens = [*row, *group], tokens + more


def work(queue: Any, parent: int, *arguments: Any) -> None:
    """Put rows on a queue, as a process of its own."""
    ranks.die_with_parent(parent)
    torch.set_num_threads(1)
    for row in make_rows(*arguments):
        queue.put(row)


@contextmanager
def rows_of(
    options: Options, model: str, habits: Habits, start: int
) -> Iterator[Iterator[PackedRow]]:
    """Make rows in worker processes; the iterator repeats and shuffles them."""
    context = multiprocessing.get_context("spawn")  # a fork of threads that hold locks may hang
    queues = [context.Queue(_AHEAD) for _ in range(options.workers)]
    arguments = options, model, habits, start
    processes = [
        context.Process(target=work, args=(queue, os.getpid(), *arguments, number), daemon=True)
        for number, queue in enumerate(queues)
    ]
    for process in processes:
        process.start()
    # in turn, so that the same rows come in the same order
    made = (queue.get() for queue in cycle(queues)) if queues else make_rows(*arguments, 0)
    try:
        yield map(pickle.loads, shuffled(made, options.repeats, _BUFFER, Random(options.seed)))
    finally:
        for process in processes:
            process.kill()


def shuffled(items: Iterable[T], repeats: int, size: int, rng: Random) -> Iterator[T]:
    """Yield each item several times, in random order among `size` others."""
    buffer: list[T] = []
    for item in items:
        buffer += [item] * repeats
        while len(buffer) > size:
            chosen = rng.randrange(len(buffer))
            buffer[chosen], buffer[-1] = buffer[-1], buffer[chosen]
            yield buffer.pop()


def imitate(options: Options, trainer: Trainer, rows: Iterator[PackedRow], until: float) -> None:
    """Train until so many seconds of training, and save.

    `trainer.state` has the seconds and steps done; the learning rate depends on the seconds.
    """
    whole = 60 * options.minutes
    state = {"seconds": 0.0, "steps": 0, "tokens": 0, **trainer.state}
    told = saved = began = time.monotonic()
    waited, loss = 0.0, None
    while state["seconds"] < until:
        start = time.monotonic()
        batch = list(islice(rows, options.rows))
        waited += time.monotonic() - start
        rate = options.learning_rate * min(1.0, (state["steps"] + 1) / _WARMUP)
        rate *= max(0.0, 1 - state["seconds"] / whole)
        trained = trainer.step_rows(batch, likelihood, rate)
        now = time.monotonic()
        state["seconds"] += now - start
        state["steps"] += 1
        state["tokens"] += trained["trained_tokens"]
        loss = trained["loss"] if loss is None else 0.95 * loss + 0.05 * trained["loss"]
        trainer.state = state
        done = state["seconds"] >= until
        if done or now - told > _TELL_S:
            told = now
            print(
                f"{state['seconds'] / 60:6.1f} min, step {state['steps']}: loss {loss:.3f}, "
                f"{state['tokens'] / 1e6:.2f} M tokens, {trained['trained_tokens_per_s']:,.0f}/s, "
                f"{100 * waited / (now - began):.0f} % waited for demonstrations",
                flush=True,
            )
        if done or now - saved > SAVE_EVERY_S:
            trainer.save(state["steps"])
            saved = time.monotonic()
    trainer.wait_for_checkpoint()


def evaluate(options: Options, trainer: Trainer, work: Workload, folder: Path) -> Returns:
    """Play the held-out tasks, and check that training computes the probabilities of sampling.

    Raises:
        EngineError: the log-probabilities differ by more than rounding.
    """
    policy, step = trainer.policy, trainer.state["steps"]
    config = replace(options.config(""), temperature=options.temperature)
    trajectories = Trajectories(folder)
    policy.temperature = options.temperature
    orchestrator = Orchestrator(config, work, TransformersEngine(policy), trajectories, print)
    summary = asyncio.run(orchestrator.evaluate(step)).summary
    orchestrator.close()
    tokens = [record["tokens"] for record in trajectories.held_out().graded(step)[:_CHECKED]]
    for one in tokens:
        del one["versions"]
    samples = [Sample(n, **one, advantages=one["logprobs"]) for n, one in enumerate(tokens)]
    gap = float(trainer.gaps(samples).mean())
    limit = PROBE_LIMIT[config.precision] / options.temperature
    policy.temperature = 1.0
    print(f"log-probabilities of training and sampling differ by {gap:.2g} on average")
    if not gap <= limit:  # also true for nan
        raise EngineError(f"sampler and trainer differ by {gap:.3g}, more than {limit:.3g}")
    return summary


def new_model(options: Options, folder: Path) -> str:
    """Write a random nano model and a tokenizer learned from demonstrations; return the folder."""
    if not folder.is_dir():
        torch.manual_seed(options.seed)
        bytes_only = make_tokenizer([])
        chat = ChatTokens(bytes_only, TOOLS)
        rules = Rules(max_turns=6, page_lines=20)
        tasks = (generate_task(options.seed, n, "train", "mini") for n in range(_TEXTS))
        groups = demonstrations(chat, (Session(task, rules) for task in tasks), act, 4, 0)
        texts = (
            str(bytes_only.decode(group[0].prompt + one.response))
            for group in groups
            for one in group
        )
        tokenizer = make_tokenizer(texts)
        model = make_model(tokenizer).bfloat16()  # trained in float32, and exported like this

        def write(path: Path) -> None:
            model.save_pretrained(path)
            tokenizer.save_pretrained(path)

        write_folder(folder, write)
    return str(folder)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate and export a policy."""
    options = tyro.cli(Options, prog="imitation.py", description=__doc__, args=arguments)
    try:
        run(options)
    except (ConfigError, TaskError, FileNotFoundError) as error:
        stop(error)
    except (CheckpointError, EngineError, JudgeError) as error:
        raise SystemExit(f"error: {error}") from None


def run(options: Options) -> None:
    """Train, evaluate and export a policy.

    Raises:
        ConfigError: an option is invalid.
        EngineError: training computes other log-probabilities than sampling.
    """
    folder = options.runs / options.name
    options.config("")
    prepare_cpu(options.threads)
    config = options.config(options.model or new_model(options, folder / "start"))
    config.check_packages()
    models.download(config.model)
    work = Workload.of(config)
    trainer = Trainer(config, folder / "checkpoints")
    trainer.resume()
    whole = 60 * options.minutes
    faultless = whole * (1 - options.habits)
    for name, habits, until in (("off", EXPERT, faultless), ("on", HASTY, whole)):
        if trainer.state.get("seconds", 0.0) < until:
            print(f"habits {name}, until minute {until / 60:.1f}", flush=True)
            with rows_of(options, config.model, habits, trainer.state.get("steps", 0)) as rows:
                imitate(options, trainer, rows, until)
            summary = evaluate(options, trainer, work, folder / "trajectories")
            Console().print(table({f"habits {name}": summary}))
    trainer.export(folder / "model", replace=True)
    # `resume-gym eval` and training sample the model as this configuration says
    write_text(folder / "config.toml", to_toml(replace(config, temperature=options.temperature)))
    print(f"the model is in {folder / 'model'}")


if __name__ == "__main__":
    main()
