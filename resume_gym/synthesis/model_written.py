"""Tasks written by a language model: it is asked, checked, and asked again with what was wrong."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, NamedTuple

from resume_gym.judges.lines import parse
from resume_gym.llm import Asks, Malformed, Misconfigured, ModelError, Prompt, Refused
from resume_gym.synthesis.checks import Fault, bullet_keys, find_faults, find_miscounts, repaired
from resume_gym.synthesis.content import LEVELS
from resume_gym.synthesis.drafts import LIMITS, PROMPTS, compose, draft_of, read_draft
from resume_gym.synthesis.personas import Persona
from resume_gym.tasks import Task

_KINDS: Mapping[str, type[ModelError]] = {"refused": Refused, "malformed": Malformed}


class Stopped(Exception):  # noqa: N818
    """No more is asked, since somebody said so."""


class Gate:
    """Lets questions pass until it is shut; those on their way are still answered.

    What has no answer is remembered, as the client's store remembers answers, so that nobody
    pays for a refusal twice.

    Attributes:
        shut: set it from any thread.

    Args:
        client: who is asked.
        failures: what has no answer: kind and message, by label.
        fail: called with label, kind and message of what has none now.
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
        """The text of the answer; any text, since whatever was paid for is to be stored.

        Raises:
            Stopped: the gate is shut.
            ModelError: see `Asks.ask`.
        """
        if label in self._failures:
            kind, message = self._failures[label]
            raise _KINDS[kind](message)
        if self.shut:
            raise Stopped
        try:
            return await self._client.ask(prompt, str)
        except tuple(_KINDS.values()) as problem:
            self._fail(label, type(problem).__name__.lower(), str(problem))
            raise


class Outcome(NamedTuple):
    """What came of the attempts at one task.

    Attributes:
        task: None if there is none.
        attempts: how often the model was asked.
        faults: how many faults of each kind its answers had.
        reason: why there is no task.
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
    """Ask for several tasks at the same time and settle them in their order.

    A bullet may stand in one task only; the first that has it keeps it. So what comes of a task
    depends on the tasks before it, and not on which answer came first.

    Args:
        personas: who the tasks are about.
        gate: who is asked; when it is shut, those on their way come to an end.
        settle: called for each task in order.
        seen: keys of bullets that are taken; those of the new tasks are added.
        attempts: at most so many answers for a task.
        width: tasks at the same time.

    Raises:
        Stopped, Unavailable, Misconfigured: no more answers are to be had.
    """
    waiting: deque[tuple[Persona, asyncio.Task[Outcome]]] = deque()

    async def settle_first() -> None:
        persona, writing = waiting[0]
        outcome = await writing
        if outcome.task and seen & taken(outcome.task):
            outcome = await write_task(persona, gate, attempts, seen)
        waiting.popleft()
        if outcome.task:
            seen.update(taken(outcome.task))
        settle(persona, outcome)

    try:
        for persona in personas:
            one = asyncio.create_task(write_task(persona, gate, attempts))
            waiting.append((persona, one))
            if len(waiting) >= width:
                await settle_first()
        while waiting:
            await settle_first()
    except BaseException as problem:
        gate.shut = True
        tasks = [writing for _, writing in waiting]
        if isinstance(problem, Misconfigured | asyncio.CancelledError):
            for writing in tasks:
                writing.cancel()
        # what is on its way is paid for: wait, so that it gets stored
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def taken(task: Task) -> frozenset[str]:
    """Keys of the bullets that a task uses up, each in its good form."""
    return bullet_keys([line.body for line in parse(repaired(task)) if line.kind == "bullet"])


async def write_task(
    persona: Persona, gate: Gate, attempts: int, seen: AbstractSet[str] = frozenset()
) -> Outcome:
    """Ask for a task until an answer has no fault.

    Answers that are stored are not paid for again, so a second call with other `seen` goes on
    where the first one ended.

    Args:
        persona: who the task is about.
        gate: who is asked.
        attempts: at most so many answers are asked for.
        seen: keys (`checks.bullet_keys`) of bullets that are taken.

    Raises:
        Stopped, Unavailable, Misconfigured: nothing is known of the task.
    """
    kinds: Counter[str] = Counter()
    answer, faults = "", list[Fault]()
    for attempt in range(attempts):
        told = [fault.text for fault in faults[: LIMITS["reported_faults"]]] if answer else ()
        try:
            prompt = ask_for(persona, answer, told, attempt)
            answer = await gate.ask(prompt, f"{persona.task_id}/{attempt}")
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
    """The task of an answer, or its faults; a pure function."""
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
    """The schema without titles and docstrings, which are for readers of the code."""
    if isinstance(schema, dict):
        told = ("title", "description")
        return {k: _bare(v) for k, v in schema.items() if not (k in told and isinstance(v, str))}
    return [_bare(one) for one in schema] if isinstance(schema, list) else schema


def ask_for(
    persona: Persona, answer: str = "", faults: Iterable[str] = (), draw: int = 0
) -> Prompt:
    """The prompt for a draft.

    Args:
        persona: who it is about.
        answer: the answer before, if it has faults.
        faults: what is wrong with it, a sentence each.
        draw: number of the attempt.
    """
    candidate = persona.candidate
    career = (
        f"- {job.title}, {job.company} ({job.vertical.name}): {share} bullets"
        for job, share in zip(candidate.jobs, persona.shares, strict=True)
    )
    counts = {"padding": persona.padding, "sections": persona.sections}
    user = PROMPTS["task"].format(
        name=candidate.persona["name"],
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
        told = "\n".join(f"- {fault}" for fault in faults)
        user = PROMPTS["again"].format(task=user.strip(), answer=answer.strip(), faults=told)
    return Prompt(
        system=PROMPTS["system"].strip(),
        user=user.strip(),
        schema=_schema(persona.weakness),
        kind=f"task-{PROMPTS['version']}",
        draw=draw,
    )
