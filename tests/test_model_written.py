"""Drafts of tasks by a language model: what code makes of good ones, and finds in bad ones."""

import json
import re
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache

import pytest
from bank_writer import Answer, write

from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.rewards import WEAKNESS_METRIC
from resume_gym.episode.tasks import SPLITS, WEAKNESSES, Task, repair, repaired
from resume_gym.judges import make_judge
from resume_gym.synthesis.checks import bullet_keys
from resume_gym.synthesis.content import load_forms
from resume_gym.synthesis.drafts import draft_of, read_draft
from resume_gym.synthesis.model_written import ask_for, examine, taken
from resume_gym.synthesis.personas import SPOILING, Persona, make_persona
from resume_gym.text.lines import parse

VAGUE, LONG, MESSY, BARE, ASIDE, VERBS = range(6)
ALL = [make_persona(0, number, split) for split in SPLITS for number in range(6)]


@lru_cache(maxsize=32)
def made(persona_id: str) -> tuple[Persona, Task]:
    persona = next(one for one in ALL if one.task_id == persona_id)
    task, faults = examine(persona, json.dumps(write(persona)))
    assert not faults, faults
    assert task is not None
    return persona, task


@pytest.fixture(params=[one.task_id for one in ALL])
def good(request: pytest.FixtureRequest) -> tuple[Persona, Task]:
    return made(request.param)


def bullets(text: str) -> list[str]:
    work = load_forms()["headings"]["experience"]
    lines = [line for line in parse(text) if line.kind == "bullet"]
    return [line.body for line in lines if line.section.title() in work]


# Good drafts


def test_a_task_keeps_the_rules(good: tuple[Persona, Task]) -> None:
    _, task = good
    assert (wrapped_lines(task.resume, 165) > 55) == (task.weakness == "too_long")
    assert 35 <= wrapped_lines(repaired(task), 165) <= 55
    assert wrapped_lines(repaired(task, 8), 165) <= 55
    assert {count for count, _ in repair(task)} == {1}
    assert Task.from_row(json.loads(json.dumps(task.to_row()))) == task
    verdict = make_judge("rubric").judge(task, repaired(task))
    assert (verdict.hallucination, getattr(verdict, WEAKNESS_METRIC[task.weakness])) == (1, 1)


def test_sixty_percent_of_the_bullets_are_weak(good: tuple[Persona, Task]) -> None:
    persona, task = good
    if persona.weakness in SPOILING:
        told, strong = bullets(task.resume), bullets(repaired(task))
        differ = [number for number, (a, b) in enumerate(zip(told, strong, strict=True)) if a != b]
        assert set(differ) == persona.weak
        assert [fix.new for fix in task.fixes] == [strong[number].rstrip(".") for number in differ]
        assert all(fix.facts for fix in task.fixes)
    elif persona.weakness == "too_long":
        padding = len(bullets(task.resume)) - sum(persona.shares)
        assert padding == persona.padding
        assert len(task.fixes) == persona.padding + persona.sections
    else:
        # an earlier job, with its dates, and headings
        assert len(task.fixes) >= min(persona.shares) + 2


def test_names_dates_and_schools_are_the_personas(good: tuple[Persona, Task]) -> None:
    persona, task = good
    candidate = persona.candidate
    text = repaired(task)
    name = f"{candidate.first_name} {candidate.last_name}"
    assert text.startswith(f"# {name}\n\n{candidate.contact}\n")
    for job in candidate.jobs:
        assert job.company in text
        assert job.title in text
    assert candidate.education in text
    assert task.job.startswith(f"# {candidate.wanted_title}, {candidate.wanted_company}\n")
    assert task.persona == candidate.persona


def test_evidence_holds_every_figure_behind_a_fix(good: tuple[Persona, Task]) -> None:
    _, task = good
    documents = "\n".join(document.text for document in task.evidence)
    for fix in task.fixes:
        for fact in fix.facts:
            assert set(re.findall(r"\d[\d,.]*\d|\d", fact)) <= set(
                re.findall(r"\d[\d,.]*\d|\d", documents)
            )


# Bad drafts

Spoil = Callable[[Answer], object]


def faults_of(
    number: int, spoil: Spoil, seen: frozenset[str] = frozenset()
) -> list[tuple[str, str]]:
    persona = ALL[number]
    answer = deepcopy(write(persona))
    spoil(answer)
    task, faults = examine(persona, json.dumps(answer), seen)
    assert task is None
    return [tuple(fault) for fault in faults]


def weak_places(number: int) -> list[tuple[int, int]]:
    shares = ALL[number].shares
    places = [(job, place) for job, share in enumerate(shares) for place in range(share)]
    return [places[index] for index in sorted(ALL[number].weak)]


def rewrite(number: int, form: str, text: str, which: int = 0) -> Spoil:
    job, place = weak_places(number)[which]

    def spoil(answer: Answer) -> None:
        bullet = answer["jobs"][job]["bullets"][place]
        bullet[form] = text.format(**{k: v for k, v in bullet.items() if isinstance(v, str)})

    return spoil


def put(name: str, value: object) -> Spoil:
    return lambda answer: answer.__setitem__(name, value)


def forget_the_review(answer: Answer) -> None:
    answer["performance_review"] = "A calm and reliable colleague. " * 20


def cut_padding(answer: Answer) -> None:
    answer["sections"] = [{"heading": "Hobbies", "lines": ["Chess"]} for _ in answer["sections"]]
    answer["padding"] = answer["padding"][:3]


def other_job(answer: Answer) -> None:
    breads = ("rye", "spelt", "corn", "barley", "sesame", "olive")
    answer["duties"] = [f"Bake {one} loaves in a wood-fired brick oven" for one in breads[:5]]
    answer["requirements"] = [f"Years of kneading {one} dough at dawn" for one in breads]
    answer["about"] = f"{ALL[VAGUE].candidate.wanted_company} bakes bread. " * 8


def repeat_a_weak_line(answer: Answer) -> None:
    (a, b), (c, d) = weak_places(VAGUE)[:2]
    answer["jobs"][a]["bullets"][b]["weak"] = answer["jobs"][c]["bullets"][d]["weak"]


def repair_nothing(answer: Answer) -> None:
    for job in answer["jobs"]:
        for bullet in job["bullets"]:
            bullet["strong"] = f"{bullet['weak'][:100]} and so on"
            bullet["facts"] = ["It was done in the usual way."]
    for name in ("project_notes", "performance_review", "portfolio"):
        answer[name] = f"{ALL[VAGUE].candidate.first_name} went on as before. " * 12


@pytest.mark.parametrize(
    ("number", "spoil", "kind", "text"),
    [
        (VAGUE, rewrite(VAGUE, "weak", "Improved some reports by 30%"), "weakness", "30%"),
        (VAGUE, rewrite(VAGUE, "weak", "{strong} etc"), "weakness", "no filler"),
        (VAGUE, rewrite(VAGUE, "strong", "Helped with {strong}"), "weakness", "a weak verb"),
        (BARE, rewrite(BARE, "weak", "{strong}"), "weakness", "the same as its strong form"),
        (BARE, rewrite(BARE, "weak", "Answered phones for a clinic"), "weakness", "another deed"),
        (BARE, rewrite(BARE, "strong", "{weak}"), "weakness", "without a figure"),
        (VERBS, rewrite(VERBS, "weak", "{strong}"), "weakness", "does not open with a duty"),
        (VERBS, rewrite(VERBS, "weak", "Helped with 3 things"), "weakness", "other figures"),
        (ASIDE, rewrite(ASIDE, "weak", "Ran 7777 of them"), "weakness", "other figures"),
        (VAGUE, rewrite(VAGUE, "strong", "{strong} within 7777 days"), "facts", "7777"),
        (VERBS, put("project_notes", "Kick-off was fine. " * 20), "facts", "none of the documents"),
        (VAGUE, put("portfolio", "I saved $987,654 once. " * 12), "facts", "in no fact"),
        (VAGUE, put("summary", "Formerly of Larkfield Bank"), "names", "Larkfield Bank"),
        (VAGUE, put("about", "Cairnmoor Bank has clerks"), "names", "Cairnmoor Bank"),
        (VAGUE, lambda a: a["skills"][0].update(items="SQL, Larkfield Bank"), "names", "Larkfield"),
        (LONG, lambda a: a["padding"].insert(0, a["padding"].pop() + " at Tidewell Savings"),
         "names", "Tidewell Savings"),
        (LONG, lambda a: a["sections"][0].update(heading="Tidewell Savings"), "names", "Tidewell"),
        (VAGUE, forget_the_review, "names", "does not name"),
        (VAGUE, put("summary", "A vague summary of work"), "leak", "vague"),
        (VAGUE, put("summary", "An engineer [insert name]"), "shape", "holds '['"),
        (VAGUE, put("duties", ["Do it", "Do more"]), "shape", "duties: 5 are wanted, not 2"),
        (VAGUE, lambda a: a["jobs"].pop(), "shape", "jobs: 3 are wanted, not 2"),
        (VAGUE, lambda a: a["jobs"][0].update(company="Acme"), "names", "not 'Acme'"),
        (VAGUE, rewrite(VAGUE, "strong", "Built " + "very " * 60), "shape", "at most 240"),
        (LONG, cut_padding, "shape", "padding: 13 are wanted, not 3"),
        (MESSY, put("duties", ["Do it"] * 5), "shape", "duties: a line occurs twice"),
        (MESSY, put("about", "It is big. " * 150), "length", "The job description has"),
        (LONG, put("summary", "Knows the trade and its people. " * 70), "length", "After 8 edits"),
        (VAGUE, other_job, "match", "of what the job description asks for"),
        (VAGUE, repeat_a_weak_line, "fixes", "stands 2 times"),
        (VAGUE, repair_nothing, "weakness", ""),
    ],
)  # fmt: skip
def test_faults_are_reported(number: int, spoil: Spoil, kind: str, text: str) -> None:
    found = faults_of(number, spoil)
    assert any(one == kind and text in told for one, told in found), found


def test_a_bullet_of_another_task_is_a_duplicate_whatever_its_figures() -> None:
    _, task = made("model-train-0-000000")
    found = faults_of(VAGUE, lambda answer: None, taken(task))
    assert {kind for kind, _ in found} == {"duplicate"}
    assert len(found) == sum(ALL[VAGUE].shares)
    assert bullet_keys(["Cut 12% in 3 days"]) == bullet_keys(["cut 7% in 14 days"])
    assert not {one for one in taken(task) if one.startswith("languages:")}


@pytest.mark.parametrize("text", ["{", "[]", '{"about": 1}'])
def test_an_invalid_draft_is_a_fault(text: str) -> None:
    task, faults = examine(ALL[0], text)
    assert task is None
    assert faults
    assert {fault.kind for fault in faults} == {"shape"}


def test_numbered_lists_and_years_are_no_figures() -> None:
    persona = ALL[VAGUE]
    answer = deepcopy(write(persona))
    answer["portfolio"] = f"1. In 2021 it began.\n2) Then it ended.\n{answer['portfolio']}"
    assert examine(persona, json.dumps(answer))[1] == []


def test_typography_becomes_plain() -> None:
    answer = write(ALL[MESSY])
    answer["summary"] = "Reads “logs” – all of them ​daily"
    draft = read_draft(json.dumps(answer), "formatting_inconsistent")
    assert draft.summary == "Reads “logs” - all of them daily"
    answer["duties"][0] = "- **Own** the `cache`."
    assert read_draft(json.dumps(answer), "formatting_inconsistent").duties[0] == "Own the cache"


# Prompts


@pytest.mark.parametrize("number", range(6))
def test_a_prompt_describes_the_task(number: int) -> None:
    persona = ALL[number]
    prompt = ask_for(persona)
    candidate = persona.candidate
    for job, share in zip(candidate.jobs, persona.shares, strict=True):
        assert f"{job.title}, {job.company} ({job.vertical.name}): {share} bullets" in prompt.user
    assert candidate.wanted_company in prompt.user
    assert ('"weak"' in prompt.user) == (persona.weakness in SPOILING)
    assert ('"padding"' in prompt.user) == (persona.weakness == "too_long")
    assert not re.search(r"[{}]|\n\n\n", prompt.user)
    assert not any(name in prompt.user for name in WEAKNESSES)
    assert prompt.kind.startswith("task-")


@pytest.mark.parametrize("weakness", WEAKNESSES)
def test_the_schema_is_strict_and_in_the_order_of_writing(weakness: str) -> None:
    persona = next(one for one in ALL if one.weakness == weakness)
    schema = ask_for(persona).schema
    assert list(schema["properties"]) == list(draft_of(weakness).model_fields)
    job = schema["properties"]["jobs"]["items"]
    bullet = job["properties"]["bullets"]["items"]
    for table in (schema, job, bullet):
        assert table["additionalProperties"] is False
        assert table["required"] == list(table["properties"])
    wanted = ["facts", "strong", *["weak"] * (weakness in SPOILING)]
    assert list(bullet["properties"]) == wanted + ["result"] * (weakness == "no_metrics")
    assert "description" not in json.dumps(schema)
    assert weakness not in json.dumps(schema)
