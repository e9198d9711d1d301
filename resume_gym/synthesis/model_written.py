"""Tasks written by a language model, with validation and feedback.

`write_tasks` requests tasks concurrently; `write_task` retries a task and returns the faults of an
answer (`examine`) to the model. The caller stores the tasks.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, NamedTuple

from resume_gym.llm import Asks, Malformed, Misconfigured, Prompt, Refused
from resume_gym.synthesis.checks import Fault, bullet_keys, find_faults, find_miscounts
from resume_gym.synthesis.content import LEVELS
from resume_gym.synthesis.drafts import LIMITS, PROMPTS, compose, draft_of, read_draft
from resume_gym.synthesis.personas import Persona
from resume_gym.tasks import Task, repaired
from resume_gym.text.lines import parse


class Stopped(Exception):  # noqa: N818
    """A closed `Gate` rejected a request."""


class Gate:
    """Forwards requests to a client until shut; pending requests still complete.

    It caches permanent failures, as the client's store caches answers: a refusal is paid only once.

    Attributes:
        shut: Whether new requests are rejected; may be set from any thread.

    Args:
        client: Client of the model.
        failures: Kind and message of known failures, by label.
        fail: Callback for a new failure: label, kind and message.
    """

    def __init__(
        self,
        client: Asks,
        failures: Mapping[str, tuple[str, str]],
        fail: Callable[[str, str, str], None],
    ) -> None:
        self.shut = False
        self._client, self._failures, self._fail = client, failures, fail

    async def ask(self, prompt: Prompt, label: str) -> str:
        """Return the text of the answer; `label` is the key of the request in the failures.

        Raises:
            Stopped: The gate is shut.
            ModelError: See `Asks.ask`.
        """
        if label in self._failures:
            kind, message = self._failures[label]
            raise (Refused if kind == "refused" else Malformed)(message)
        if self.shut:
            raise Stopped
        try:
            # The client stores only parsed answers; `str` accepts all, since all are paid.
            return await self._client.ask(prompt, str)
        except (Refused, Malformed) as problem:  # permanent; all other errors stop the run
            kind = "refused" if isinstance(problem, Refused) else "malformed"
            self._fail(label, kind, str(problem))
            raise


class Outcome(NamedTuple):
    """The result of the attempts at one task.

    Attributes:
        task: The task; None if no attempt succeeded.
        attempts: Number of requests.
        faults: Number of answers with faults of each kind.
        reason: Why there is no task; empty otherwise.
    """

    task: Task | None
    attempts: int
    faults: dict[str, int]
    reason: str = ""


async def write_tasks(
    personas: Iterable[Persona],
    gate: Gate,
    settle: Callable[[Persona, Outcome], None],
    seen: set[str],
    *,
    attempts: int,
    width: int,
) -> None:
    """Write tasks concurrently and settle them in order.

    Tasks must not share a bullet; the first one keeps it. The result depends on the order of the
    tasks, not on that of the answers.

    Args:
        personas: Specifications of the tasks, in order.
        gate: Gate to the model; when it is shut, pending requests complete.
        settle: Callback for each outcome, in order.
        seen: Keys of bullets in use; updated with the new tasks.
        attempts: Maximum number of requests per task.
        width: Number of concurrent tasks.

    Raises:
        Stopped, Unavailable, Misconfigured: No more answers are available.
    """
    waiting: deque[tuple[Persona, asyncio.Task[Outcome]]] = deque()

    async def settle_first() -> None:
        persona, writing = waiting[0]
        outcome = await writing
        # Concurrent tasks are written without `seen`; repeat those that collide.
        if outcome.task and seen & taken(outcome.task):
            outcome = await write_task(persona, gate, attempts, seen)
        waiting.popleft()
        if outcome.task:
            seen.update(taken(outcome.task))
        settle(persona, outcome)

    try:
        for persona in personas:
            writing = asyncio.create_task(write_task(persona, gate, attempts))
            waiting.append((persona, writing))
            if len(waiting) >= width:
                await settle_first()
        while waiting:
            await settle_first()
    except BaseException as problem:
        gate.shut = True
        pending = [writing for _, writing in waiting]
        if isinstance(problem, Misconfigured | asyncio.CancelledError):
            for writing in pending:
                writing.cancel()
        # Pending requests are paid: wait for their answers to be stored.
        await asyncio.gather(*pending, return_exceptions=True)
        raise


def taken(task: Task) -> frozenset[str]:
    """Return the duplicate keys of a task's bullets, in their good form."""
    return bullet_keys([line.body for line in parse(repaired(task)) if line.kind == "bullet"])


async def write_task(
    persona: Persona, gate: Gate, attempts: int, seen: AbstractSet[str] = frozenset()
) -> Outcome:
    """Request a task until an answer is free of faults.

    Stored answers are not paid for again, so a second call with a different `seen` continues
    where the first one ended.

    Args:
        persona: Specification of the task.
        gate: Gate to the model.
        attempts: Maximum number of requests.
        seen: Keys (`bullet_keys`) of bullets in use.

    Raises:
        Stopped, Unavailable, Misconfigured: There is no outcome.
    """
    kinds: Counter[str] = Counter()
    answer, faults = "", list[Fault]()
    for attempt in range(attempts):
        feedback = [fault.text for fault in faults[: LIMITS["reported_faults"]]] if answer else ()
        try:
            prompt = ask_for(persona, answer, feedback, attempt)
            answer = await gate.ask(prompt, f"{persona.task_id}/{attempt}")
            # In a thread, since all clients share this event loop.
            task, faults = await asyncio.to_thread(examine, persona, answer, seen)
        except Refused as problem:
            kinds["refused"] += 1
            return Outcome(None, attempt + 1, dict(kinds), f"refused: {problem}")
        except Malformed as problem:
            task, faults, answer = None, [Fault("malformed", str(problem))], ""
        kinds.update({fault.kind for fault in faults})
        if not faults:
            return Outcome(task, attempt + 1, dict(kinds))
    return Outcome(None, attempts, dict(kinds), f"{faults[0].kind}: {faults[0].text}")


def examine(
    persona: Persona, answer: str, seen: AbstractSet[str] = frozenset()
) -> tuple[Task | None, list[Fault]]:
    """Return the task of an answer, or None and the faults; a pure function."""
    try:
        draft = read_draft(answer, persona.weakness)
    except ValueError as problem:
        return None, [Fault("shape", line) for line in str(problem).split("\n")]
    if faults := find_miscounts(persona, draft):
        return None, faults
    task = compose(persona, draft)
    faults = find_faults(persona, draft, task, seen)
    return (None if faults else task), faults


@lru_cache(maxsize=8)
def _schema(weakness: str) -> dict[str, Any]:
    schema: dict[str, Any] = _bare(draft_of(weakness).model_json_schema())
    return schema


def _bare(schema: Any) -> Any:
    """Remove titles and descriptions, which come from the code."""
    if isinstance(schema, dict):
        # A property may be called "title", but its schema is no string.
        texts = [key for key in ("title", "description") if isinstance(schema.get(key), str)]
        return {key: _bare(value) for key, value in schema.items() if key not in texts}
    return [_bare(item) for item in schema] if isinstance(schema, list) else schema


def ask_for(
    persona: Persona, answer: str = "", faults: Iterable[str] = (), draw: int = 0
) -> Prompt:
    """Build the prompt for a draft, with the previous `answer` if it has faults.

    `draw`, the number of the attempt, is part of the key in the client's store.
    """
    candidate = persona.candidate
    career = (
        f"- {job.title}, {job.company} ({job.vertical.name}): {share} bullets"
        for job, share in zip(candidate.jobs, persona.shares, strict=True)
    )
    counts = {"padding": persona.padding, "sections": persona.sections}
    user = PROMPTS["task"].format(
        name=candidate.name,
        first_name=candidate.first_name,
        title=candidate.jobs[0].title,
        level=LEVELS[candidate.level],
        vertical=candidate.vertical.name,
        career="\n".join(career),
        wanted_title=candidate.wanted_title,
        wanted_company=candidate.wanted_company,
        words=", ".join(candidate.vertical.words.values()),
        spoiling=PROMPTS["spoiling"][persona.weakness].lstrip("\n"),
        padding=PROMPTS["padding"].format(**counts).lstrip("\n") if persona.padding else "",
    )
    if faults:
        feedback = "\n".join(f"- {fault}" for fault in faults)
        user = PROMPTS["again"].format(task=user.strip(), answer=answer.strip(), faults=feedback)
    return Prompt(
        system=PROMPTS["system"].strip(),
        user=user.strip(),
        schema=_schema(persona.weakness),
        kind=f"task-{PROMPTS['version']}",
        draw=draw,
    )
