"""Generation of task corpora: the command `resume-gym data generate`.

`generate` runs or resumes a `Plan`. Requests run concurrently, but tasks are settled (made or
skipped) in order, so that a resumed run yields the same file. `OUT.partial` is the journal of
settled tasks; the client's store beside it caches every paid answer.
"""

from collections.abc import Coroutine, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resume_gym.atomic_write import check_new_file, replacing
from resume_gym.llm import Misconfigured, ModelError
from resume_gym.llm.loop import submit
from resume_gym.synthesis import procedural
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
from resume_gym.tasks import Task, TaskError, read_jsonl
from resume_gym.terminal import Terminal

if TYPE_CHECKING:
    from resume_gym.llm.client import Client
    from resume_gym.synthesis.model_written import Gate, Outcome

PROCEDURAL = "procedural"
# Client options that affect the answers; all others may change when a run is resumed.
_DECIDES = (
    *("model", "served", "temperature", "extra_body"),
    *("answer_tokens", "thinking_tokens", "thinking", "thinking_field"),
)


@dataclass(frozen=True)
class Plan:
    """The specification of a corpus.

    Attributes:
        generator: "procedural", "gemini" or "openai".
        count: Number of tasks.
        seed: Seed of the task sequence.
        out: Output file; the other files are named after it.
        split: Split of all tasks; None for four of five in train.
        size: Size of procedural tasks, "full" or "mini".
        model: Options of `resume_gym.llm.client.make_client`, with the model's name.
        base_url: URL of the server; None for the provider's default.
        attempts: Maximum number of answers requested per task.
        width: Number of tasks requested concurrently.
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
        """Return `out` with a suffix appended to its name."""
        return self.out.with_name(self.out.name + suffix)

    @property
    def store(self) -> Path | None:
        """Return the path of the answer cache; None for procedural tasks."""
        return None if self.generator == PROCEDURAL else self.beside(".store.sqlite")

    def settings(self) -> dict[str, Any]:
        """Return the settings that determine the tasks.

        Raises:
            Misconfigured: A package of the generator is not installed.
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


def generate(plan: Plan) -> int:
    """Write the corpus, its manifest and its data card; resume an interrupted run.

    Returns:
        Number of tasks in the file.

    Raises:
        TaskError: A file is not from this plan, another run is active, or an option is invalid.
        ModelError: The model is not available; settled tasks are kept.
        KeyboardInterrupt: Likewise, on an interrupt.
    """
    settings = plan.settings()
    check_new_file("--out", plan.out)
    partial, path = plan.beside(".partial"), plan.beside(".manifest.json")
    manifest = find_manifest(path, plan.out, partial, settings, plan.count)
    if manifest and manifest["wanted"] == plan.count and not partial.exists():
        _print(f"{plan.out} is there already, with {counted(manifest)}")
        return int(manifest["tasks"])
    client = _client(plan) if plan.store else None
    files = [partial, *(plan.beside(f".store.sqlite{end}") for end in ("", "-shm", "-wal"))]
    fresh = not any(file.exists() for file in files)
    with closing(Journal(partial, settings)) as journal:
        if journal.count > plan.count:
            expected = f"expected at least as many, got {plan.count}"
            raise TaskError(f"--count: {partial} holds {journal.count} already; {expected}")
        # When a finished corpus grows, its journal is new.
        journal.failures = {**known_failures(path, settings), **journal.failures}
        try:
            _make(plan, client, journal)
        except ModelError:
            if client and fresh and not (journal.count or client.usage.calls):
                for file in files:  # nothing is in them that a resumed run could use
                    file.unlink(missing_ok=True)
            raise
        return _finish(plan, settings, journal)


def _make(plan: Plan, client: "Client | None", journal: Journal) -> None:
    """Settle the remaining tasks and show the progress on stderr."""
    with Meter(plan.generator, plan.out, plan.count, journal) as meter:
        try:
            if client:
                _ask(plan, client, journal, meter)
            else:
                _draw(plan, journal, meter)
        except (ModelError, KeyboardInterrupt):
            paid = f"; paid so far: {price(spent(plan.store))}" if client else ""
            progress = f"{journal.count} of {plan.count} tasks are kept; the same command goes on"
            _print(f"{plan.out}: {progress}{paid}", stderr=True)
            raise


def _draw(plan: Plan, journal: Journal, meter: Meter) -> None:
    """Generate the remaining tasks from the content bank."""
    for index in range(journal.count, plan.count):
        split, number = place(index, plan.split)
        task = procedural.generate_task(plan.seed, number, split, plan.size)
        journal.append(settled(task.task_id, task))
        meter.advance()


def _client(plan: Plan) -> "Client":
    from resume_gym.llm.client import make_client

    server = {"base_url": plan.base_url} if plan.base_url else {}
    options = {"store": plan.store, "concurrency": plan.width, **server}
    if taken := {*options, "provider"} & plan.model.keys():
        raise TaskError(f"--client: {min(taken)} is set by another option")
    try:
        return make_client(plan.generator, **options, **plan.model)
    except ValueError as problem:
        raise TaskError(f"--client: {problem}") from None


def _ask(plan: Plan, client: "Client", journal: Journal, meter: Meter) -> None:
    """Have a model write the remaining tasks."""
    from resume_gym.synthesis.model_written import Gate, taken, write_tasks

    gate = Gate(client, journal.failures, journal.fail)
    earlier = spent(plan.store)
    # A resumed run has to reject the same duplicates.
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
    """Wait for the work; an interrupt lets pending requests finish, a second one cancels them."""
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
    """Write the corpus, the manifest and the data card, and delete the journal."""
    from resume_gym.corpus.card import write_card

    with replacing(plan.out) as unfinished, unfinished.open("wb") as file:
        file.writelines(made(journal.rows()))
    # The journal is deleted last, so that a run after a crash can repeat this step.
    path = plan.beside(".manifest.json")
    manifest = write_manifest(path, plan.out, settings, plan.count, journal, plan.store)
    write_card(plan.out, read_jsonl(plan.out), origin(manifest))
    journal.path.unlink()
    _print(summary(plan.out, manifest))
    return int(manifest["tasks"])


def _print(text: str, *, stderr: bool = False) -> None:
    Terminal(stderr).print(text, highlight=False, soft_wrap=True)
