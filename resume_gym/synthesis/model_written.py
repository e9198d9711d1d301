"""Tasks written by a language model, with validation and feedback.

`write_tasks` requests tasks concurrently. `write_task` requests one task: it checks the answer with
`examine`, reports faults to the model and asks again. The client stores the answers in a file.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

from resume_gym.episode.tasks import Task, repaired
from resume_gym.llm import Malformed, Prompt, Refused
from resume_gym.llm.client import Client
from resume_gym.llm.schemas import schema_of
from resume_gym.synthesis.checks import Fault, bullet_keys, find_faults, find_miscounts
from resume_gym.synthesis.content import LEVELS
from resume_gym.synthesis.drafts import LIMITS, PROMPTS, compose, draft_of, read_draft
from resume_gym.synthesis.manifest import Outcome
from resume_gym.synthesis.personas import Persona
from resume_gym.text.lines import parse


async def write_tasks(
    personas: Iterable[Persona],
    client: Client,
    settle: Callable[[Persona, Outcome], None],
    attempts: int,
    width: int,
) -> None:
    """Let a model write tasks concurrently, and report the outcomes in the order of `personas`.

    If two tasks share a bullet, the model writes the later task again. The written tasks depend on
    the order of `personas`, not on the order of the answers.

    Args:
        personas: specifications of the tasks, in order.
        client: client of the model.
        settle: callback that gets each persona and its outcome, in order.
        attempts: maximum number of requests per task.
        width: number of tasks that are written concurrently.

    Raises:
        Unavailable, Misconfigured: The model cannot be reached, or its configuration is wrong.
    """
    seen: set[str] = set()
    waiting: deque[tuple[Persona, asyncio.Task[Outcome]]] = deque()

    async def settle_first() -> None:
        persona, writing = waiting[0]
        outcome = await writing
        # Tasks that are written concurrently may share bullets. If a task repeats a bullet of an
        # earlier one, request it again.
        if outcome.task and seen & taken(outcome.task):
            outcome = await write_task(persona, client, attempts, seen)
        waiting.popleft()
        if outcome.task:
            seen.update(taken(outcome.task))
        settle(persona, outcome)

    try:
        for persona in personas:
            waiting.append((persona, asyncio.create_task(write_task(persona, client, attempts))))
            if len(waiting) >= width:
                await settle_first()
        while waiting:
            await settle_first()
    finally:
        for _, writing in waiting:
            writing.cancel()
        await asyncio.gather(*(writing for _, writing in waiting), return_exceptions=True)


def taken(task: Task) -> frozenset[str]:
    """Return the keys (see `bullet_keys`) of the bullets in a task's repaired resume."""
    return bullet_keys([line.body for line in parse(repaired(task)) if line.kind == "bullet"])


async def write_task(
    persona: Persona, client: Client, attempts: int, seen: AbstractSet[str] = frozenset()
) -> Outcome:
    """Request a task from a model, at most `attempts` times, until an answer is free of faults.

    The client stores answers. A repeated call for the same task, even with a different `seen`,
    reads the stored answers, at no cost, before it requests new ones.

    Args:
        persona: specification of the task.
        client: client of the model.
        attempts: maximum number of requests for the task.
        seen: keys (see `bullet_keys`) of the bullets of other tasks, which must not recur.

    Raises:
        Unavailable, Misconfigured: The model cannot be reached, or its configuration is wrong.
    """
    kinds: Counter[str] = Counter()
    answer, faults = "", list[Fault]()
    for attempt in range(attempts):
        feedback = [fault.text for fault in faults[: LIMITS["reported_faults"]]] if answer else ()
        try:
            prompt = ask_for(persona, answer, feedback, attempt)
            # `ask` stores only answers that its second argument, a parser, accepts. `str` accepts
            # every answer, so that answers with faults are stored, too.
            answer = await client.ask(prompt, str)
            # The check runs in a thread, so as not to block the event loop that all clients share.
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
    """Return the task in a model's answer (None if it has faults), and the faults of the answer."""
    try:
        draft = read_draft(answer, persona.weakness)
    except ValueError as problem:
        return None, [Fault("shape", line) for line in str(problem).split("\n")]
    if faults := find_miscounts(persona, draft):
        return None, faults
    task = compose(persona, draft)
    faults = find_faults(persona, draft, task, seen)
    return (None if faults else task), faults


def ask_for(
    persona: Persona, answer: str = "", faults: Iterable[str] = (), draw: int = 0
) -> Prompt:
    """Build the prompt for a draft; it contains the last `answer` and its `faults`, if any.

    `draw`, the number of the attempt, is part of the client's cache key, so that a new attempt does
    not get the stored answer of an earlier attempt.
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
        schema=schema_of(draft_of(persona.weakness)),
        kind=f"task-{PROMPTS['version']}",
        draw=draw,
    )
