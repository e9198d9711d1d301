r"""Imitation: train any model on demonstrations of a scripted editor, as a start for `aipo.py`.

    python learners/imitation.py --tokens 48e6 --compile     # a new nano policy, two CPU cores
    python learners/imitation.py --tokens 1e5 --model smollm2 --lora-rank 32 \
        --optimizer adamw --learning-rate 2e-4
    python learners/aipo.py --model runs/imitation/model

Flags below "config" are shared with `aipo.py`, which has others that would have no effect here. To
resume an interrupted run, repeat its command; with more tokens, it continues a finished one. At the
end, the model plays the held-out tasks.
"""

import asyncio
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, count, cycle, islice
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, NamedTuple

from resume_gym.support.import_path import leave_current_folder
from resume_gym.support.user_errors import missing_of

if __name__ == "__main__":
    leave_current_folder()
    if missing := missing_of("training needs", "train"):
        print(f"resume-gym: {missing}", file=sys.stderr)
        raise SystemExit(2)

import torch
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.types import NonNegativeInt, PositiveInt
from transformers import PreTrainedTokenizerBase

from learners.build import make_orchestrator, make_trainer, make_workloads
from learners.command_line import parse, stop
from learners.config import Config, message_of
from learners.demonstrations import drills, renamed
from learners.editors import chat_of, edits_of_pages, episodes, samples, session_for, session_of
from learners.engines import EngineError, Sampling
from learners.engines.transformers import TransformersEngine
from learners.errors import ConfigError
from learners.losses import likelihood
from learners.nano.model import make_model, make_tokenizer
from learners.rollouts.rollout import EpisodeError, Rollout, play
from learners.rollouts.rollout_source import PROBE_LIMIT
from learners.rollouts.workload import Workload
from learners.run.folder import RunFolder
from learners.run.heartbeat import interrupted
from learners.training import models, ranks
from learners.training.checkpoint import CheckpointError, set_damaged_aside, write_folder
from learners.training.cpu import has_bfloat16, prepare_cpu, return_memory
from learners.training.models import load_tokenizer
from learners.training.policy import Policy
from learners.training.rows import PackedRow, Sample, pack, tree_tokens
from learners.training.trainer import Trainer
from resume_gym import Rules, Session, TaskError
from resume_gym.evaluation import Returns, table
from resume_gym.judges import JudgeError
from resume_gym.support.command_line import complain
from resume_gym.support.printing import say
from resume_gym.support.terminal import Terminal
from resume_gym.synthesis.procedural import generate_task

Tokens = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
VARIANTS = {
    "ResumeEditMini-v0": "mini",
    "ResumeEditNetMini-v0": "mini",
    "ResumeEdit-v0": "full",
    "ResumeEditNet-v0": "full",
}
NEW = "new"
"""Name of a model that does not exist yet: a nano policy with random weights."""
DEFAULTS = Config(
    name="imitation",
    model=NEW,
    precision="bfloat16" if has_bfloat16() else "float32",
    row_tokens=4096,
    optimizer="muon",
    learning_rate=4e-3,
    credit="episode",  # no drafts are graded, so the judge may ask a model
)
SAVE_EVERY_S = 300.0
SHARED = (
    *("name", "runs", "model", "env", "tasks", "judge", "seed", "max_tokens"),
    *("learning_rate", "max_grad_norm", "weight_decay", "optimizer", "timeout_s", "threads"),
    *("precision", "row_tokens", "activation_checkpointing", "compile", "lora_rank", "lora_alpha"),
    *("eval_tasks", "eval_rollouts", "eval_temperature"),
)
"""The settings of `Config` that imitation uses; only these have flags."""
_TELL_S = 20.0
_AHEAD = 8  # packed rows that each worker process prepares in advance
_WARMUP = 20  # number of optimizer steps in which the learning rate rises
_TASKS = 1000  # maximum tasks per optimizer step, so that a resumed run starts with new tasks
_TEXTS = 600  # tasks from whose demonstrations the tokenizer is learned
_PAGES = 5  # in the phase "pages", one sample in `_PAGES` is a whole episode
_OWN = 512  # the model plays an episode for each `_OWN` tokens of an optimizer step
_OWN_TASKS = 1_000_000_000  # the first number of the tasks that it plays; others are below
_AT_ONCE = 128  # maximum number of episodes that it plays at once
_CHECKED = 16  # number of episodes in which sampling and training are compared


@dataclass(frozen=True)
class Dose:
    """Number of training tokens of imitation, and settings of its demonstrations.

    Attributes:
        tokens: number of tokens to train on, in all.
        editor: scripted editor that is imitated; see `learners.editors`.
        drill: share of the tokens, at the start, with which a new model learns to copy text.
        pages: share of the tokens after which all samples are whole episodes; before, four of five
            samples are edits of a page without instructions.
        own: share of the rows, in the last phase, whose episodes the model plays itself. The editor
            shows in each state what to do next, so the model learns to go on after its own errors
            (DAgger, Ross et al. 2011, arXiv 1011.0686).
        draws: number of times that the editor is asked for its next action in each state.
        replies: loss weight of a token of a tool reply, relative to a token of an action that the
            editor gives in all draws. Replies have more tokens than actions, which have a fifth of
            this weight on average: with 0.3, two thirds of the loss are about replies.
        workers: number of processes that create demonstrations, for training on GPUs; 0 creates
            them in the training process, between optimizer steps.
        rows: number of packed rows per optimizer step.
        keep: number of trained tokens between two exports of the model; 0 exports only the final
            model.
    """

    tokens: Annotated[Tokens, Field(gt=0)]
    editor: Literal["apprentice", "repairs", "careful", "fixes"] = "apprentice"
    drill: Share = 0.04
    pages: Share = 0.8
    own: Share = 0.5
    draws: PositiveInt = 6
    replies: Share = 0.05
    workers: NonNegativeInt = 0
    rows: PositiveInt = 4
    keep: Tokens = 0.0


class Phase(NamedTuple):
    """Part of imitation, in which all samples are of one kind.

    Attributes:
        title: name of the phase.
        until: share of the tokens at which the phase ends.
    """

    title: Literal["drill", "pages", "episodes"]
    until: float


def phases_of(dose: Dose, drill: float) -> tuple[Phase, ...]:
    """Return the phases of a dose of imitation; `drill` is the share of the first phase."""
    return Phase("drill", drill), Phase("pages", dose.pages), Phase("episodes", 1.0)


def make_rows(dose: Dose, config: Config, phase: Phase, start: int, worker: int) -> Iterator[bytes]:
    """Yield an endless sequence of pickled packed rows, from the demonstrations of one worker.

    Args:
        dose: settings of the demonstrations.
        config: settings of the run.
        phase: phase of imitation, which determines what is demonstrated.
        start: number of completed optimizer steps, which determines the tasks.
        worker: number of the worker; each worker uses every `workers`-th task.
    """
    seed = f"{config.seed}:{start}:{worker}"
    # with 1 added, a resumed run does not begin with a page of full size
    numbers = count(_TASKS * start + 1 + worker, max(1, dose.workers))
    yield from map(pickle.dumps, _packed(_episodes(dose, config, phase, numbers, seed), config))


def _packed(episodes: Iterable[list[Sample]], config: Config) -> Iterator[PackedRow]:
    row: list[Sample] = []
    for episode in episodes:
        if row and tree_tokens([*row, *episode]) > config.row_tokens:
            for packed in pack(row, config.row_tokens):
                # scaled to a mean weight of 1, so that tokens of all rows count equally in the loss
                weights = packed.advantages / packed.advantages.mean()
                yield replace(packed, advantages=weights)
            row = []
        row += episode


def _episodes(
    dose: Dose, config: Config, phase: Phase, numbers: Iterable[int], seed: str
) -> Iterator[list[Sample]]:
    """Return an iterator over the samples of each episode; `numbers` are the task numbers."""
    (work,), size = make_workloads(config), VARIANTS[config.env]
    if phase.title == "drill":
        tasks = (generate_task(config.seed, n, "train", size) for n in numbers)
        strange = (renamed(task, Random(f"{config.seed}:{task.task_id}")) for task in tasks)
        return drills(work.chat, (task.resume for task in strange), seed)
    numbers = iter(numbers)
    played = episodes(
        dose.editor,
        numbers,
        config.seed,
        size,
        work.rules,
        config.model,
        dose.draws,
        dose.replies,
    )
    if phase.title == "episodes" or dose.editor not in ("apprentice", "repairs"):
        return played
    pages = edits_of_pages(dose.editor, numbers, config.seed, size, config.model)
    return (next(pages if number % _PAGES else played) for number in count())


def _own_episodes(
    dose: Dose, config: Config, trainer: Trainer, work: Workload
) -> Iterator[list[Sample]]:
    """Yield samples of episodes that the model plays itself, each time with its newest weights.

    The temperature is that of evaluations or that of training.
    """
    tokenizer = load_tokenizer(config.model)
    new = partial(
        session_of, dose.editor, seed=config.seed, size=VARIANTS[config.env], rules=work.rules
    )
    wanted = min(_AT_ONCE, max(1, dose.rows * config.row_tokens // _OWN))
    for first in count(_OWN_TASKS + 1 + _TASKS * trainer.state.get("steps", 0), wanted):
        numbers = range(first, first + wanted)
        playing = _play_all(map(new, numbers), tokenizer, config, trainer.policy, first)
        with torch.compiler.set_stance("force_eager"):  # the shapes of sampling are not compiled
            texts = asyncio.run(playing)
        for number, played in zip(numbers, texts, strict=True):
            settings = dose.draws, 0.0, f"{config.seed}", played
            yield from samples(dose.editor, tokenizer, new(number), *settings)


async def _play_all(
    sessions: Iterable[Session],
    tokenizer: PreTrainedTokenizerBase,
    config: Config,
    policy: Policy,
    seed: int,
) -> list[list[str]]:
    """Let a policy play sessions, and return the texts of its turns in each session."""
    engine = TransformersEngine(policy)

    async def played(key: int, session: Session) -> list[str]:
        chat = chat_of(tokenizer, type(session))
        seeds = config.seed, seed, key
        temperature = (config.eval_temperature, config.temperature)[key % 2]
        sampling = Sampling(temperature, config.max_tokens, chat.ends, seeds)
        rollout = Rollout(key, 0, session, chat.prompt(session.system_prompt, session.prompt))
        await play(rollout, key, engine.generate, chat, sampling)
        return [text for text, _ in session.state.transcript]

    return await asyncio.gather(*(played(*one) for one in enumerate(sessions)))


def _mixed(
    rows: Iterator[PackedRow], own: Iterator[PackedRow], share: float, rng: Random
) -> Iterator[PackedRow]:
    while True:
        yield next(own if rng.random() < share else rows)


def _work(sender: Connection, parent: int, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent reports an interruption
    ranks.die_with_parent(parent)
    torch.set_num_threads(1)
    with ThreadPoolExecutor(1) as sending:
        ahead: deque[Future[None]] = deque()
        for row in make_rows(*arguments):
            ahead.append(sending.submit(sender.send_bytes, row))
            if len(ahead) > _AHEAD:
                ahead.popleft().result()


def _receive(receiver: Connection, worker: int) -> bytes:
    try:
        return receiver.recv_bytes()
    except (EOFError, OSError):  # the other end is closed: the process has ended
        told = "has ended; the same command resumes the run"
        raise EngineError(f"worker {worker}, which makes demonstrations, {told}") from None


@contextmanager
def rows_of(dose: Dose, config: Config, phase: Phase, start: int) -> Iterator[Iterator[PackedRow]]:
    """Provide an endless iterator over rows; end the workers on exit.

    Entering the context waits for the first row, so training time excludes the workers' start.
    """
    context = multiprocessing.get_context("spawn")  # fork may hang: threads can hold locks
    pipes = [context.Pipe(duplex=False) for _ in range(dose.workers)]
    processes = [
        context.Process(
            target=_work, args=(sender, os.getpid(), dose, config, phase, start, worker)
        )
        for worker, (_, sender) in enumerate(pipes)
    ]
    for process, (_, sender) in zip(processes, pipes, strict=True):
        process.start()
        sender.close()  # only the worker has this end now, so its death closes the pipe
    # take rows from the workers in turn, so that the order of the rows is reproducible
    receivers = [(receiver, worker) for worker, (receiver, _) in enumerate(pipes)]
    made = (_receive(*one) for one in cycle(receivers))
    rows = made if pipes else make_rows(dose, config, phase, start, 0)
    try:
        yield map(pickle.loads, chain([next(rows)], rows))
    finally:
        for process in processes:
            process.kill()


def imitate(
    dose: Dose,
    config: Config,
    trainer: Trainer,
    rows: Iterator[PackedRow],
    until: float,
    folder: RunFolder,
) -> None:
    """Train until `until` tokens have been trained; save checkpoints meanwhile and at the end.

    `trainer.state` counts steps and tokens of training. After a warm-up, the learning rate falls
    linearly with the number of tokens.
    """
    state = {"steps": 0, "tokens": 0, **trainer.state}
    told = saved = began = time.monotonic()
    waited, loss = 0.0, None
    while state["tokens"] < until:
        start = time.monotonic()
        batch = list(islice(rows, dose.rows))
        waited += time.monotonic() - start
        rate = config.learning_rate * min(1.0, (state["steps"] + 1) / _WARMUP)
        trained = trainer.step_rows(batch, likelihood, rate * (1 - state["tokens"] / dose.tokens))
        now = time.monotonic()
        loss = trained["loss"] if loss is None else 0.95 * loss + 0.05 * trained["loss"]
        before = state["tokens"]
        state = {"steps": state["steps"] + 1, "tokens": before + trained["trained_tokens"]}
        trainer.state = state
        done = state["tokens"] >= until
        if done or now - told > _TELL_S:
            told = now
            print(
                f"step {state['steps']}: loss {loss:.3f}, {state['tokens'] / 1e6:.2f} of "
                f"{dose.tokens / 1e6:g} M tokens, {trained['trained_tokens_per_s']:,.0f}/s, "
                f"{100 * waited / (now - began):.0f} % of the time waiting for data",
                flush=True,
            )
        if done or now - saved > SAVE_EVERY_S:
            trainer.save(state["steps"])
            return_memory()
            saved = time.monotonic()
        if dose.keep and state["tokens"] // dose.keep > before // dose.keep:
            trainer.export(folder.path / f"model-{state['tokens'] / 1e6:.3g}m", replace=True)
    trainer.wait_for_checkpoint()


def evaluate(config: Config, trainer: Trainer, work: Workload, folder: RunFolder) -> Returns:
    """Play the held-out tasks, and check that training computes the same probabilities as sampling.

    Raises:
        EngineError: log-probabilities of sampling and training differ by more than rounding errors.
    """
    policy, step = trainer.policy, trainer.state.get("steps", 0)
    trajectories = folder.trajectories
    policy.temperature = config.eval_temperature
    orchestrator = make_orchestrator(
        config, [work], TransformersEngine(policy), trajectories, print
    )
    summary = asyncio.run(orchestrator.evaluate(step)).summary
    orchestrator.close()
    played = []
    for number, record in enumerate(trajectories.held_out().graded(step)[:_CHECKED]):
        one = record["tokens"]
        columns = one["prompt"], one["response"], one["sampled"], one["logprobs"], one["logprobs"]
        played.append(Sample(number, *columns))
    gap = float(trainer.gaps(played).mean())
    policy.temperature = 1.0
    limit = PROBE_LIMIT[config.precision] / config.eval_temperature
    print(f"log-probabilities of training and sampling differ by {gap:.2g} on average")
    if not gap <= limit:  # also true for nan
        raise EngineError(f"log-probabilities differ by {gap:.3g}, expected at most {limit:.3g}")
    return summary


def new_model(seed: int, folder: Path) -> None:
    """Write a random nano model, with a tokenizer that is learned from demonstrations."""
    torch.manual_seed(seed)
    bytes_only = make_tokenizer([])
    rules = Rules(max_turns=6, page_lines=20)
    groups = (
        group
        for task in (generate_task(seed, n, "train", "mini") for n in range(_TEXTS))
        for group in samples(
            "apprentice",
            bytes_only,
            session_for(task, rules, Random(f"{seed}:{task.task_id}")),
            2,
            0.0,
            f"{seed}",
        )
    )
    ids = (group[0].prompt + group[-1].response for group in groups)
    tokenizer = make_tokenizer(str(bytes_only.decode(one)) for one in ids)
    model = make_model(tokenizer).bfloat16()  # the exported dtype; training uses float32

    def write(path: Path) -> None:
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)

    write_folder(folder, write)


def run(dose: Dose, config: Config) -> None:
    """Train, evaluate and export a policy.

    Raises:
        ConfigError: a setting is not supported.
        EngineError: training and sampling compute different log-probabilities.
    """
    if config.env not in VARIANTS:
        raise ConfigError(f"env: expected {' or '.join(VARIANTS)}, got {config.env!r}")
    if config.backend != "local":
        raise ConfigError(f"backend: expected 'local', got {config.backend!r}")
    config.check_packages()
    prepare_cpu(config.threads)
    folder = RunFolder(config.runs / config.name)
    try:
        with folder.lock():
            _run(dose, config, folder)
    except KeyboardInterrupt:
        interrupted(folder, 0)  # the number of steps is unknown
        raise SystemExit(ranks.INTERRUPTED) from None


def _run(dose: Dose, config: Config, folder: RunFolder) -> None:
    settings = {**asdict(dose), "model": config.model}  # as given: the folder of a start may move
    drill = dose.drill if config.model == NEW else 0.0
    start = folder.path / "start"
    if is_made := config.model == NEW:
        config = replace(config, model=str(start))
    is_new = folder.check(config, settings)
    if is_made and (is_new or not start.is_dir()):
        new_model(config.seed, start)
    models.download(config.model)
    (work,) = make_workloads(config)
    # `resume-gym eval` reads the sampling settings of models and checkpoints from this file
    folder.configure(config, settings)
    for sentence in set_damaged_aside(folder.checkpoints):
        say(f"warning: {sentence}", error=True)
    trainer = make_trainer(replace(config, temperature=1.0), folder.checkpoints)
    trainer.resume()
    trained = float(trainer.state.get("tokens", 0))
    if trained < dose.tokens:
        folder.set_aside(trainer.state.get("steps", 0))
    for phase in phases_of(dose, drill):
        until = phase.until * dose.tokens
        if trainer.state.get("tokens", 0) < until:
            print(f"{phase.title}, until {until / 1e6:.3g} M tokens", flush=True)
            steps = trainer.state.get("steps", 0)
            with rows_of(dose, config, phase, steps) as rows:
                own = _packed(_own_episodes(dose, config, trainer, work), config)
                share = dose.own if phase.title == "episodes" else 0.0
                mixed = _mixed(rows, own, share, Random(f"{config.seed}:{steps}"))
                imitate(dose, config, trainer, mixed, until, folder)
    if trained < dose.tokens or folder.result("after") is None:
        summary = evaluate(config, trainer, work, folder)
        Terminal().print(table({"after imitation": summary}))
        folder.write_result("after", summary)
    trainer.export(folder.path / "model", replace=True)
    print(f"the model is in {folder.path / 'model'}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train by imitation with command-line arguments, by default those of this process."""
    try:
        words = sys.argv[1:] if arguments is None else arguments
        parsed = parse(words, DEFAULTS, "imitation.py", __doc__ or "", (), Dose, SHARED)
        run(TypeAdapter(Dose).validate_python(parsed.given), parsed.config)
    except ValidationError as error:
        stop(ConfigError(message_of(error)))
    except (ConfigError, TaskError, FileNotFoundError) as error:
        stop(error)
    except (CheckpointError, EngineError, EpisodeError, FloatingPointError, JudgeError) as error:
        raise SystemExit(complain(error, 1)) from None
    except OSError as error:  # such as a full disk
        if error.filename is None:
            raise
        raise SystemExit(complain(f"{error.filename}: {error.strerror}", 1)) from None


if __name__ == "__main__":
    main()
