"""A stand-in for a language model that writes tasks: it takes its words from the content bank.

writer = BankWriter(make_persona(0, number, "train") for number in range(12))
with gemini_server(writer.reply) as server: ...
"""

import json
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from loopback import user_text

from resume_gym.synthesis.candidates import Job
from resume_gym.synthesis.content import (
    BANDS,
    FORMS,
    fill,
    load_general,
    load_padding,
    tell,
    without_metric,
)
from resume_gym.synthesis.model_written import ask_for
from resume_gym.synthesis.personas import Persona
from resume_gym.text.lines import read
from resume_gym.text.style import is_weak

Answer = dict[str, Any]
COLOURS = ("amber", "azure", "coral", "cyan", "ebony", "green", "ivory", "ochre", "olive", "teal")
PLACES = ("anchor", "bridge", "canyon", "delta", "forest", "harbor", "island", "meadow", "valley")
CHAT = "Colleagues like the calm way of working and the short updates, and nobody wished for more."


def write(persona: Persona) -> Answer:
    """A draft without faults."""
    rng = Random(f"draft-{persona.task_id}")
    candidate = persona.candidate
    role, words = candidate.role, {**candidate.vertical.words, "years": "6"}
    lines = role.lines[persona.split]
    deeds = [
        deed
        for deed in (*role.deeds, *load_general())
        if deed.split == persona.split and not is_weak(read(deed.told))
    ]
    if persona.weakness == "no_metrics":
        deeds = [deed for deed in deeds if deed.has_metric]
    if persona.weakness == "weak_verbs":
        deeds = [deed for deed in deeds if deed.one_verb]
    spare = iter(rng.sample(deeds, len(deeds)))
    band = BANDS[candidate.level]
    number = int(persona.task_id.rpartition("-")[2])
    team = f"for the {COLOURS[number % 10]} {PLACES[number // 10 % 9]} team"

    def bullet(job: Job) -> Answer:
        story = tell(next(spare), job.vertical.words, rng)
        vague = persona.weakness == "vague_bullets"
        strong = f"{story.plain if vague else story.told} {team}"
        deed = strong[0].lower() + strong[1:]
        made: Answer = {
            "facts": [f"At {job.company}, {candidate.first_name} {deed}."],
            "strong": strong,
        }
        weak = story.plain if persona.weakness == "no_metrics" else ""
        if persona.weakness in FORMS:
            form = story.deed.forms[persona.weakness][0][0]
            weak = story.text(without_metric(form) if vague else form)
        if persona.weakness == "weak_verbs":
            weak = f"Responsible for {story.deed.gerund} {story.told.split(' ', 1)[1]}"
        if vague:
            weak += " in various ways"
        if persona.weakness == "no_metrics":
            made["result"] = f"{story.text(story.deed.figure)} {team}"
            made["facts"] += [f"{made['result']} at {job.company}."]
        return made | ({"weak": f"{weak} {team}"} if weak else {})

    jobs: list[Answer] = [
        {"company": job.company, "bullets": [bullet(job) for _ in range(share)]}
        for job, share in zip(candidate.jobs, persona.shares, strict=True)
    ]
    facts = [fact for job in jobs for one in job["bullets"] for fact in one["facts"]]
    padded: Answer = {}
    if persona.padding:
        bullets, sections = load_padding(persona.split)
        longest = sorted(sections, key=lambda one: len(one[1]))[-persona.sections :]
        padded = {
            "padding": rng.sample(bullets, persona.padding),
            "sections": [{"heading": name, "lines": lines} for name, lines in longest],
        }
    return {
        "about": candidate.vertical.about[persona.split].replace(
            "{company}", candidate.wanted_company
        ),
        "duties": [fill(duty, words) for duty in rng.sample(lines.duties[band], 5)],
        "requirements": [
            *(fill(one, words) for one in rng.sample(lines.must, 4)),
            *(f"Daily use of {', '.join(items)}" for _, items in lines.skills[:2]),
        ],
        "jobs": jobs,
        "project_notes": "\n".join(f"- {fact}" for fact in (*facts[::3], CHAT, CHAT)),
        "performance_review": " ".join([candidate.first_name, "did well.", *facts[1::3], CHAT]),
        "portfolio": " ".join([CHAT, *facts[2::3], CHAT]),
        "summary": fill(rng.choice(lines.summary[band]), words),
        "skills": [
            {"name": name, "items": ", ".join(items)} for name, items in _four(lines.skills)
        ],
        **padded,
    }


def _four(skills: Iterable[tuple[str, Sequence[str]]]) -> list[tuple[str, Sequence[str]]]:
    return [*skills, ("Languages spoken", ("English", "French", "Spanish"))][:4]


class BankWriter:
    """Answers prompts about known personas; what it answers depends on the prompt alone.

    Args:
        personas: those it knows.
        spoil: changes an answer, given the persona and whether it is asked again.
        before: called with the number of each request, from 1, before it is answered.

    Attributes:
        asked: the personas' task_ids, in the order of the requests.
    """

    def __init__(
        self,
        personas: Iterable[Persona],
        spoil: Callable[[Persona, bool, Answer], Answer | str] = lambda _, __, answer: answer,
        before: Callable[[int], object] = lambda number: None,
    ) -> None:
        self._personas = {ask_for(persona).user: persona for persona in personas}
        self._spoil, self._before = spoil, before
        self.asked: list[str] = []

    def reply(self, body: dict[str, Any]) -> str:
        """What `loopback` servers call."""
        text = user_text(body)
        persona = next(one for task, one in self._personas.items() if text.startswith(task))
        self.asked.append(persona.task_id)
        self._before(len(self.asked))
        answer = self._spoil(persona, "YOUR EARLIER ANSWER" in text, write(persona))
        return answer if isinstance(answer, str) else json.dumps(answer)
