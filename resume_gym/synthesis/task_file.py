"""Generation of a file of tasks: the command `resume-gym data generate`.

A SQLite file (the store) beside the output file keeps the answers of the model. After an
interruption, the same command reads the stored answers and requests only the missing answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resume_gym.episode.tasks import write_jsonl
from resume_gym.llm import Misconfigured, ModelError
from resume_gym.llm.loop import submit
from resume_gym.llm.store import summarise
from resume_gym.support.atomic_write import check_new_file, replacing, through_links
from resume_gym.support.printing import say
from resume_gym.support.user_errors import TaskError, install, number_of
from resume_gym.synthesis import procedural
from resume_gym.synthesis.manifest import (
    Outcome,
    counted,
    find_manifest,
    origin,
    price,
    summary,
    write_manifest,
)
from resume_gym.synthesis.personas import Persona, make_persona, place

if TYPE_CHECKING:
    from resume_gym.llm.client import Client

PROCEDURAL = "procedural"
# Client options that affect the answers. A resumed run must not change these options.
_DECIDES = (
    *("model", "served", "temperature", "extra_body"),
    *("answer_tokens", "thinking_tokens", "thinking", "thinking_field"),
)
# About `_LINES` progress lines are printed, but at most one per `_OFTEN` tasks.
_LINES, _OFTEN = 20, 10


@dataclass(frozen=True)
class Generation:
    """The specification of a corpus.

    Attributes:
        generator: name of the generator: "procedural", "gemini" or "openai".
        count: number of tasks.
        seed: seed of the task sequence.
        out: output file; manifest, card and store are named after this file.
        split: split of all tasks; with None, every fifth task is in eval and all others are in
            train.
        size: size of procedural tasks, "full" or "mini".
        model: options of `resume_gym.llm.client.make_client`, including the model's name.
        base_url: URL of the model's server; None for the provider's default.
        attempts: maximum number of answers requested per task.
        width: number of tasks requested concurrently.
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
        """Return the path of the store; None for procedural tasks."""
        return None if self.generator == PROCEDURAL else self.beside(".store.sqlite")

    def settings(self) -> dict[str, Any]:
        """Return the settings that determine the tasks.

        Raises:
            Misconfigured: A package that the generator needs is not installed.
        """
        chosen = {"generator": self.generator, "seed": self.seed, "split": self.split}
        if self.generator == PROCEDURAL:
            return {**chosen, "size": self.size}
        try:
            from resume_gym.synthesis.drafts import PROMPTS
        except ImportError as problem:
            how = install(self.generator)
            raise Misconfigured(f"{self.generator}: {problem}; {how}") from None
        wording = {"prompt": PROMPTS["version"], "attempts": self.attempts}
        model = {name: self.model[name] for name in _DECIDES if name in self.model}
        return {**chosen, **wording, "model": model}


def generate(plan: Generation) -> int:
    """Write the corpus, its manifest and its data card; continue an interrupted run.

    Returns:
        Number of tasks in the corpus.

    Raises:
        TaskError: `plan.out` cannot be extended (see `find_manifest`), or an option is invalid.
        ModelError: The model is not available; the answers that it gave before are stored.
        KeyboardInterrupt: The user interrupts; the answers that the model gave before are stored.
    """
    from resume_gym.corpus.card import write_card

    settings = plan.settings()
    check_new_file("--out", plan.out)
    path = plan.beside(".manifest.json")
    manifest = find_manifest(path, plan.out, settings, plan.count)
    if manifest and manifest["wanted"] == plan.count:
        say(f"{plan.out} already exists, with {counted(manifest)}")
        return int(manifest["tasks"])
    outcomes = _ask(plan) if plan.store else _draw(plan)
    tasks = [outcome.task for outcome in outcomes.values() if outcome.task]
    with replacing(through_links(plan.out)) as unfinished:
        write_jsonl(unfinished, tasks)
        # `replacing` creates `plan.out` after the manifest and the card exist. If a crash prevents
        # that, the next run finds no corpus and writes all three files again.
        manifest = write_manifest(path, unfinished, settings, outcomes, plan.store)
        write_card(plan.out, tasks, origin(manifest))
    say(summary(plan.out, manifest))
    return len(tasks)


def _draw(plan: Generation) -> dict[str, Outcome]:
    """Generate all tasks from the content bank."""
    outcomes: dict[str, Outcome] = {}
    for index in range(plan.count):
        split, number = place(index, plan.split)
        task = procedural.generate_task(plan.seed, number, split, plan.size)
        outcomes[task.task_id] = Outcome(task, 1, {})
        _report(plan, len(outcomes))
    return outcomes


def client_of(
    provider: str, model: Mapping[str, Any], store: Path | None, width: int, base_url: str | None
) -> "Client":
    """Make the client of a model that writes tasks or rubric items; see `make_client`.

    Raises:
        TaskError: an option of `model` is unknown, invalid or set by another argument.
    """
    from resume_gym.llm.client import make_client

    server = {"base_url": base_url} if base_url else {}
    options = {"store": store, "concurrency": width, **server}
    if taken := {*options, "provider"} & model.keys():
        raise TaskError(f"--client: {min(taken)} is set by another option")
    try:
        return make_client(provider, **options, **model)
    except ValueError as problem:
        raise TaskError(f"--client: {problem}") from None


def _ask(plan: Generation) -> dict[str, Outcome]:
    """Have a model write all tasks; stored answers are not requested again."""
    from resume_gym.synthesis.model_written import write_tasks

    client = client_of(plan.generator, plan.model, plan.store, plan.width, plan.base_url)
    outcomes: dict[str, Outcome] = {}
    earlier = summarise(plan.store)["dollars"] if plan.store and plan.store.exists() else 0.0

    def paid() -> str:
        now = client.usage.dollars
        return price(None if now is None or earlier is None else now + earlier)

    def settle(persona: Persona, outcome: Outcome) -> None:
        outcomes[persona.task_id] = outcome
        _report(plan, len(outcomes), f", {paid()}")

    places = (place(index, plan.split) for index in range(plan.count))
    personas = (make_persona(plan.seed, number, split) for split, number in places)
    work = submit(write_tasks(personas, client, settle, plan.attempts, plan.width))
    try:
        work.result()
    except (ModelError, KeyboardInterrupt):
        work.cancel()
        kept = f"answers for {len(outcomes)} of {number_of(plan.count, 'task')} are stored"
        goes_on = f"repeat the command to continue; paid so far: {paid()}"
        say(f"{plan.out}: {kept}; {goes_on}", error=True)
        raise
    finally:
        submit(client.close()).result()
    return outcomes


def _report(plan: Generation, settled: int, cost: str = "") -> None:
    """Print on stderr, at intervals, how many tasks are finished or skipped."""
    if settled % max(_OFTEN, plan.count // _LINES) == 0 and settled < plan.count:
        say(f"{plan.out}: {settled} of {number_of(plan.count, 'task')}{cost}", error=True)
