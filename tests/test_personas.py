"""Personas of model-written tasks: balanced, of one split only, and the same every time."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resume_gym.episode.tasks import SPLITS, WEAKNESSES
from resume_gym.synthesis.content import load_people, load_roles, load_verticals
from resume_gym.synthesis.personas import (
    BULLETS,
    KEPT,
    MEASURED,
    SECTIONS,
    SPOILING,
    Persona,
    make_persona,
    place,
)

personas = st.builds(
    make_persona,
    seed=st.integers(0, 10**6),
    number=st.integers(0, 5000),
    split=st.sampled_from(SPLITS),
)


@pytest.mark.parametrize("split", SPLITS)
def test_every_block_of_numbers_is_balanced(split: str) -> None:
    roles = len(load_roles())
    made = [make_persona(5, number, split) for number in range(6 * roles)]
    assert [one.weakness for one in made] == [WEAKNESSES[n % 6] for n in range(len(made))]
    for name, block in (("role", roles), ("level", 6)):
        for start in range(0, len(made) - block + 1, block):
            values = {one.candidate.persona[name] for one in made[start : start + block]}
            assert len(values) == block, name
    nurses = [one.candidate.vertical for one in made if one.candidate.role.key == "nurse"]
    assert len(set(map(id, nurses))) == 6, "the verticals of a role are balanced, too"
    assert len({one.task_id for one in made}) == len(made)


@given(personas)
@settings(max_examples=60, deadline=None)
def test_names_and_companies_are_of_the_split(persona: Persona) -> None:
    candidate, people = persona.candidate, load_people(persona.split)
    assert any(candidate.name in region.people for region in people.regions)
    known = {name for one in load_verticals() for name in one.companies[persona.split]}
    employers = [job.company for job in candidate.jobs]
    assert {*employers, candidate.wanted_company} <= known
    assert candidate.wanted_company not in employers


@given(personas)
@settings(max_examples=60, deadline=None)
def test_sizes_and_weak_bullets(persona: Persona) -> None:
    total = sum(persona.shares)
    assert len(persona.shares) == len(persona.candidate.jobs)
    assert min(persona.shares) >= 2
    assert persona.shares[0] == max(persona.shares)
    if persona.weakness == "too_long":
        assert KEPT[0] <= total <= KEPT[1]
        assert 0.55 <= persona.padding / (persona.padding + total) <= 0.65
        assert SECTIONS[0] <= persona.sections <= SECTIONS[1]
    else:
        least, most = MEASURED if persona.weakness == "no_metrics" else BULLETS
        assert least <= total <= most
        assert persona.padding == persona.sections == 0
    share = 0.6 if persona.weakness in SPOILING else 0.0
    assert abs(len(persona.weak) / total - share) < 0.05
    assert persona.weak <= set(range(total))


def test_a_persona_depends_on_its_arguments_alone() -> None:
    state = random.getstate()
    one = make_persona(3, 17, "eval")
    make_persona(3, 16, "eval")
    assert make_persona(3, 17, "eval") == one
    assert random.getstate() == state
    assert one.task_id == "model-eval-3-000017"
    others = [(4, 17, "eval"), (3, 18, "eval"), (3, 17, "train")]
    assert all(make_persona(*other).candidate.persona != one.candidate.persona for other in others)


def test_every_fifth_task_is_held_out() -> None:
    places = [place(index) for index in range(3000)]
    assert Counter(split for split, _ in places) == {"train": 2400, "eval": 600}
    for split in SPLITS:
        numbers = [number for one, number in places if one == split]
        assert numbers == list(range(len(numbers)))
    assert [place(index, "eval") for index in range(3)] == [("eval", 0), ("eval", 1), ("eval", 2)]


@pytest.mark.parametrize("bad", [(-1, "train"), (0, "test")])
def test_wrong_arguments_are_named(bad: tuple[int, str]) -> None:
    with pytest.raises(ValueError, match="expected a split from"):
        make_persona(0, *bad)
