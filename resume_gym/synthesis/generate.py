"""`resume-gym data generate`: a file of tasks of any size, by the content bank or by a model.

Tasks are asked for at the same time and settled in their order, so that a run that was cut off
and one that was not end with the same file. `OUT.partial` holds what is settled, the client's
store beside it every answer that was paid for; the same command goes on from both.
"""

import argparse
import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from resume_gym.llm import Misconfigured, ModelError
from resume_gym.llm.loop import submit
from resume_gym.synthesis.journal import Journal, check_settings, settled, write_whole
from resume_gym.synthesis.manifest import (
    origin,
    price,
    read_manifest,
    spent,
    summary,
    write_manifest,
)
from resume_gym.synthesis.personas import Persona, make_persona, place
from resume_gym.tasks import SPLITS, Task, TaskError, read_jsonl

if TYPE_CHECKING:
    from resume_gym.llm.client import Client
    from resume_gym.synthesis.model_written import Gate, Outcome

PROCEDURAL = "procedural"
_GEMINI = "gemini-3-pro-preview"
# an answer is about 3,000 tokens, and thinking comes on top
_PATIENT = {"max_output_tokens": 16_384, "timeout_s": 300.0, "deadline_s": 1800.0}
# options of a client that decide on what it answers; others may change when a run goes on
_DECIDES = ("model", "thinking", "max_output_tokens", "temperature", "extra_body", "served")


@dataclass(frozen=True)
class Plan:
    """A corpus to be made.

    Attributes:
        generator: "procedural", "gemini" or "openai".
        count: tasks.
        seed: chooses the sequence.
        out: the file; others are named after it.
        split: of all tasks; None for four of five in train.
        size: of procedural tasks, "full" or "mini".
        model: options of `resume_gym.llm.client.make_client`, the model's name among them.
        base_url: of the server; None for the provider's own.
        attempts: at most so many answers for a task.
        width: tasks that are asked for at the same time.
    """

    generator: str
    count: int
    seed: int
    out: Path
    split: str | None = None
    size: str = "full"
    model: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None
    attempts: int = 4
    width: int = 16

    def beside(self, suffix: str) -> Path:
        """A file named after `out`."""
        return self.out.with_name(self.out.name + suffix)

    @property
    def store(self) -> Path | None:
        """The file of answers, if any are asked for."""
        return None if self.generator == PROCEDURAL else self.beside(".store.sqlite")

    def settings(self) -> dict[str, Any]:
        """What decides on the content of every task.

        Raises:
            Misconfigured: a package is missing.
        """
        chosen = {"generator": self.generator, "seed": self.seed, "split": self.split}
        if self.generator == PROCEDURAL:
            return {**chosen, "size": self.size}
        try:
            from resume_gym.synthesis.drafts import PROMPTS
        except ImportError as problem:
            extra = f"pip install resume-gym[{self.generator}]"
            raise Misconfigured(f"{self.generator}: {problem}; {extra}") from None
        wording = {"prompt": PROMPTS["version"], "attempts": self.attempts}
        model = {name: self.model[name] for name in _DECIDES if name in self.model}
        return {**chosen, **wording, "model": model}


def add_command(commands: Any) -> None:
    """Add `generate` to the subcommands of `resume-gym data`."""
    command: argparse.ArgumentParser = commands.add_parser(
        "generate",
        help="make a file of tasks, procedurally or with a language model",
        description="Make a file of tasks, procedurally or with a language model. What was cut "
        "off goes on with the same command, and pays for no answer twice. Beside FILE: its "
        "manifest, its data card, and the model's answers.",
    )
    add = command.add_argument
    add(
        "--generator",
        required=True,
        choices=(PROCEDURAL, "gemini", "openai"),
        help="who writes: procedural is offline, gemini wants a key in GEMINI_API_KEY, openai "
        "one in OPENAI_API_KEY or a --base-url",
    )
    number: dict[str, Any] = {"type": _positive, "metavar": "N"}
    add("--count", required=True, help="tasks", **number)
    add("--out", required=True, type=Path, metavar="FILE", help="the JSONL file to write")
    add("--seed", default=0, type=int, metavar="N", help="another seed, other tasks (default: 0)")
    add("--split", choices=SPLITS, help="of all tasks (default: every fifth is eval)")
    add("--size", default="full", choices=("full", "mini"), help="of procedural tasks")
    add("--model", metavar="NAME", help=f"the model (default for gemini: {_GEMINI})")
    add("--base-url", metavar="URL", help="of a server that speaks the provider's protocol")
    add(
        "--client",
        default={},
        type=_object,
        metavar="JSON",
        help='more options of the client, as {"thinking": "high", "requests_a_minute": 60}',
    )
    add("--attempts", default=4, help="answers for a task (default: 4)", **number)
    add("--width", default=16, help="tasks asked for at the same time (default: 16)", **number)
    command.set_defaults(run=_run)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"expected JSON, got {text!r}: {problem}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}")
    return found


def _run(options: argparse.Namespace) -> None:
    model: dict[str, Any] = {}
    if options.generator == PROCEDURAL:
        if options.model or options.base_url or options.client:
            raise TaskError("--generator procedural asks no model: it takes no option of one")
    else:
        if options.size != "full":
            raise TaskError(f"--size {options.size}: expected --generator procedural")
        name = options.model or (_GEMINI if options.generator == "gemini" else None)
        if name is None:
            raise TaskError("--generator openai: expected --model, the name that the server knows")
        model = {**_PATIENT, "model": name, **options.client}
    generate(
        Plan(
            generator=options.generator,
            count=options.count,
            seed=options.seed,
            out=options.out,
            split=options.split,
            size=options.size,
            model=model,
            base_url=options.base_url,
            attempts=options.attempts,
            width=options.width,
        )
    )


def generate(plan: Plan) -> None:
    """Make the file of a plan, its manifest and its data card; go on where a run was cut off.

    Raises:
        TaskError: the file is there already, with other settings, or an option is wrong.
        ModelError: the model cannot be asked; what is settled is kept.
        KeyboardInterrupt: likewise.
    """
    settings = plan.settings()
    if _is_complete(plan, settings):
        _print(f"{plan.out} is there already, with its {plan.count} tasks")
        return
    client = _client(plan) if plan.store else None
    journal = Journal(plan.beside(".partial"), settings)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[cost]}"),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        bar.add_task(plan.generator, total=plan.count, completed=journal.count, cost="")
        try:
            if client:
                _ask(plan, client, journal, bar)
            else:
                _draw(plan, journal, bar)
        except (ModelError, KeyboardInterrupt):
            told = f"{journal.count} of {plan.count} tasks are kept; the same command goes on"
            _print(f"{plan.out}: {told}", stderr=True)
            raise
    _finish(plan, settings, journal)


def _is_complete(plan: Plan, settings: Mapping[str, Any]) -> bool:
    """Whether the file is there already, as it would be made.

    Raises:
        TaskError: another file is there, or there is no folder for it.
    """
    if not plan.out.parent.is_dir():
        raise TaskError(f"--out: there is no folder {str(plan.out.parent)!r}")
    if not plan.out.exists() or plan.beside(".partial").exists():
        return False
    path = plan.beside(".manifest.json")
    if not path.is_file():
        raise TaskError(f"--out: {plan.out} exists, and no manifest says how it was made")
    manifest = read_manifest(path)
    check_settings(plan.out, manifest["settings"], settings)
    return bool(manifest["wanted"] == plan.count)


def _draw(plan: Plan, journal: Journal, bar: Progress) -> None:
    """Tasks of the content bank."""
    from resume_gym.synthesis.procedural import generate_task

    for index in range(journal.count, plan.count):
        split, number = place(index, plan.split)
        task = generate_task(plan.seed, number, split, plan.size)
        journal.append(settled(task.task_id, task))
        bar.update(bar.task_ids[0], advance=1)


def _client(plan: Plan) -> "Client":
    from resume_gym.llm.client import make_client

    server = {"base_url": plan.base_url} if plan.base_url else {}
    own = {"store": plan.store, "concurrency": plan.width, **server}
    if taken := own.keys() & plan.model.keys():
        raise TaskError(f"--client: {min(taken)} is set by another option")
    try:
        return make_client(plan.generator, **own, **plan.model)
    except ValueError as problem:
        raise TaskError(f"--client: {problem}") from None


def _ask(plan: Plan, client: "Client", journal: Journal, bar: Progress) -> None:
    """Tasks of a model."""
    from resume_gym.synthesis.model_written import Gate, taken, write_tasks

    gate = Gate(client, journal.failures, journal.fail)
    earlier = spent(plan.store)
    made = (Task.from_row(row["task"]) for row in journal.rows() if row["task"])
    seen = {key for task in made for key in taken(task)}

    def settle(persona: Persona, outcome: "Outcome") -> None:
        journal.append(settled(persona.task_id, *outcome))
        now = client.usage.dollars
        total = None if now is None or earlier is None else now + earlier
        bar.update(bar.task_ids[0], advance=1, cost=price(total))

    places = (place(index, plan.split) for index in range(journal.count, plan.count))
    personas = (make_persona(plan.seed, number, split) for split, number in places)
    work = write_tasks(personas, gate, settle, seen, attempts=plan.attempts, width=plan.width)
    try:
        _wait(work, gate)
    finally:
        submit(client.close()).result()


def _wait(work: Coroutine[Any, Any, None], gate: "Gate") -> None:
    """Wait for the work; an interruption lets what is on its way arrive, a second one does not."""
    running = submit(work)
    try:
        running.result()
    except KeyboardInterrupt:
        gate.shut = True
        _print("waiting for the answers that are on their way; again drops them", stderr=True)
        try:
            running.exception()
        except KeyboardInterrupt:
            running.cancel()
        raise


def _finish(plan: Plan, settings: Mapping[str, Any], journal: Journal) -> None:
    """Write the file, and what is to be known of it; only the answers stay as well."""
    from resume_gym.corpus.card import write_card

    made = (row["task"] for row in islice(journal.rows(), plan.count) if row["task"])
    write_whole(plan.out, (json.dumps(task, ensure_ascii=False).encode() + b"\n" for task in made))
    path = plan.beside(".manifest.json")
    manifest = write_manifest(path, plan.out, settings, plan.count, journal, plan.store)
    try:
        write_card(plan.out, read_jsonl(plan.out), origin(manifest))
    except ModuleNotFoundError as problem:
        _print(f"{plan.out}: no data card: {problem}", stderr=True)
    journal.path.unlink()
    _print(summary(plan.out, manifest))


def _print(text: str, *, stderr: bool = False) -> None:
    Console(stderr=stderr).print(text, highlight=False, markup=False, soft_wrap=True)
