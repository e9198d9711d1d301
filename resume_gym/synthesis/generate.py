"""`resume-gym data generate`: a file of tasks of any size, by the content bank or by a model.

Tasks are asked for at the same time and settled in their order, so that a run that was cut off
and one that was not end with the same file. `OUT.partial` holds what is settled, the client's
store beside it every answer that was paid for; the same command goes on from both.
"""

import argparse
import json
from collections.abc import Coroutine, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from resume_gym.arguments import add_parser, check_new_file, positive
from resume_gym.llm import Misconfigured, ModelError
from resume_gym.llm.loop import submit
from resume_gym.replacing import replacing
from resume_gym.synthesis.journal import Journal, Meter, made, settled
from resume_gym.synthesis.manifest import (
    counted,
    find_manifest,
    known_failures,
    origin,
    price,
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
# an answer is about 3,000 tokens
_PATIENT = {
    "answer_tokens": 6144,
    "thinking_tokens": 10_240,
    "timeout_s": 300.0,
    "deadline_s": 1800.0,
}
# options of a client that decide on what it answers; others may change when a run goes on
_DECIDES = (
    *("model", "served", "temperature", "extra_body"),
    *("answer_tokens", "thinking_tokens", "thinking", "thinking_field"),
)


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
    command = add_parser(
        commands,
        "generate",
        "make a file of tasks, procedurally or with a language model",
        "Make a file of tasks, procedurally or with a language model. What was cut off goes on "
        "with the same command, and pays for no answer twice. Beside FILE: its manifest, its data "
        "card, and the model's answers.",
        [
            "data generate --generator procedural --count 1000 --out tasks.jsonl",
            "data generate --generator gemini --count 200 --out tasks.jsonl",
        ],
    )
    add = command.add_argument
    add(
        "--generator",
        required=True,
        choices=(PROCEDURAL, "gemini", "openai"),
        help="who writes: procedural is offline, gemini wants a key in GEMINI_API_KEY, openai "
        "one in OPENAI_API_KEY or a --base-url",
    )
    number: dict[str, Any] = {"type": positive, "metavar": "N"}
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


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as problem:
        raise argparse.ArgumentTypeError(f"expected JSON, got {text!r}: {problem}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}")
    return found


def _run(options: argparse.Namespace) -> int:
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
    plan = Plan(
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
    if generate(plan):
        return 0
    _print("no task was made; another model may do better, with another --out", stderr=True)
    return 1


def generate(plan: Plan) -> int:
    """Make the file of a plan, its manifest and its data card; go on where a run was cut off.

    Returns:
        How many tasks the file has.

    Raises:
        TaskError: a file is there that is not this run's, another run is at it, or an option is
            wrong.
        ModelError: the model cannot be asked; what is settled is kept.
        KeyboardInterrupt: likewise.
    """
    settings = plan.settings()
    check_new_file("--out", plan.out)
    partial, path = plan.beside(".partial"), plan.beside(".manifest.json")
    manifest = find_manifest(path, plan.out, partial, settings, plan.count)
    if manifest and manifest["wanted"] == plan.count and not partial.exists():
        _print(f"{plan.out} is there already, with {counted(manifest)}")
        return int(manifest["tasks"])
    client = _client(plan) if plan.store else None
    with closing(Journal(partial, settings)) as journal:
        if journal.count > plan.count:
            told = f"expected at least as many, got {plan.count}"
            raise TaskError(f"--count: {partial} holds {journal.count} already; {told}")
        journal.failures = {**known_failures(path, settings), **journal.failures}
        _make(plan, client, journal)
        return _finish(plan, settings, journal)


def _make(plan: Plan, client: "Client | None", journal: Journal) -> None:
    """All tasks, into the journal, with the progress on stderr."""
    with Meter(plan.generator, plan.out, plan.count, journal) as meter:
        try:
            if client:
                _ask(plan, client, journal, meter)
            else:
                _draw(plan, journal, meter)
        except (ModelError, KeyboardInterrupt):
            paid = f"; paid so far: {price(spent(plan.store))}" if client else ""
            told = f"{journal.count} of {plan.count} tasks are kept; the same command goes on"
            _print(f"{plan.out}: {told}{paid}", stderr=True)
            raise


def _draw(plan: Plan, journal: Journal, meter: Meter) -> None:
    """Tasks of the content bank."""
    from resume_gym.synthesis.procedural import generate_task

    for index in range(journal.count, plan.count):
        split, number = place(index, plan.split)
        task = generate_task(plan.seed, number, split, plan.size)
        journal.append(settled(task.task_id, task))
        meter.advance()


def _client(plan: Plan) -> "Client":
    from resume_gym.llm.client import make_client

    server = {"base_url": plan.base_url} if plan.base_url else {}
    own = {"store": plan.store, "concurrency": plan.width, **server}
    if taken := {*own, "provider"} & plan.model.keys():
        raise TaskError(f"--client: {min(taken)} is set by another option")
    try:
        return make_client(plan.generator, **own, **plan.model)
    except ValueError as problem:
        raise TaskError(f"--client: {problem}") from None


def _ask(plan: Plan, client: "Client", journal: Journal, meter: Meter) -> None:
    """Tasks of a model."""
    from resume_gym.synthesis.model_written import Gate, taken, write_tasks

    gate = Gate(client, journal.failures, journal.fail)
    earlier = spent(plan.store)
    tasks = (Task.from_row(row["task"]) for row in journal.rows() if row["task"])
    seen = {key for task in tasks for key in taken(task)}

    def settle(persona: Persona, outcome: "Outcome") -> None:
        journal.append(settled(persona.task_id, *outcome))
        now = client.usage.dollars
        total = None if now is None or earlier is None else now + earlier
        meter.advance(price(total))

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


def _finish(plan: Plan, settings: Mapping[str, Any], journal: Journal) -> int:
    """Write the file, and what is to be known of it; only the answers stay as well."""
    from resume_gym.corpus.card import write_card

    with replacing(plan.out) as unfinished, unfinished.open("wb") as file:
        file.writelines(made(journal.rows()))
    path = plan.beside(".manifest.json")
    manifest = write_manifest(path, plan.out, settings, plan.count, journal, plan.store)
    try:
        write_card(plan.out, read_jsonl(plan.out), origin(manifest))
    except ModuleNotFoundError as problem:
        _print(f"{plan.out}: no data card: {problem}", stderr=True)
    journal.path.unlink()
    _print(summary(plan.out, manifest))
    return int(manifest["tasks"])


def _print(text: str, *, stderr: bool = False) -> None:
    Console(stderr=stderr).print(text, highlight=False, markup=False, soft_wrap=True)
