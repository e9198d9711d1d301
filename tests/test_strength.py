"""A line that claims more than its original is a false claim; one that claims less is not."""

import pytest

from resume_gym.episode.rewards import Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import make_judge

PAGE = """\
# Ola Brandt

ola@brandt.example

## Experience

### Foreman, Quayside Works

May 2018 - Present

- Painted the railings of the pier before the season
- {line}
- Measured noise at six sites for the planning office

## Skills

{skills}
"""
JOB = "# Depot supervisor\n\n- Plan shifts and routes\n"
SKILLS = "Forklift, some Polish, Git basics"
JUDGE = make_judge("rubric")


def verdict(old: str, new: str, skills: str = SKILLS) -> Verdict:
    page = PAGE.format(line=old, skills=SKILLS)
    task = Task("t", JOB, page, "weak_verbs", "eval")
    return JUDGE.judge(task, PAGE.format(line=new, skills=skills))


LESS_AND_MORE = [
    ("Cut scrap in the press shop by up to 40%", "Cut scrap in the press shop by 40%"),
    ("Taught about 60 swimmers a term", "Taught 60 swimmers a term"),
    ("Checked most of the lifts in the tower", "Checked all of the lifts in the tower"),
    ("Often closed the shop alone", "Always closed the shop alone"),
    ("Inspected the crane weekly", "Inspected the crane daily"),
    ("Restored two of the altars", "Restored several of the altars"),
    ("Won a prize of the district for order", "Won a prize of the country for order"),
    ("Planned an online booking page", "Launched an online booking page"),
    ("Recommended replacing the old boilers", "Replaced the old boilers"),
    ("Shadowed the manager on viewings", "Conducted viewings for the manager"),
    ("Estimated the cost of errors, $35K a month", "Cut the cost of errors by $35K a month"),
    ("Proposed a bicycle plan to the board", "Set up a bicycle plan"),
    ("Learned to operate the crane", "Operated the crane"),
    ("Prepared slides for the annual meeting", "Presented at the annual meeting"),
    ("Co-wrote the fire plan of the hotel", "Wrote the fire plan of the hotel"),
    ("Served as assistant coach of the rowers", "Served as coach of the rowers"),
    ("Designed a route expected to save 8 hours", "Designed a route saving 8 hours"),
    ("Took payment in cash or by card", "Took payment in cash and by card"),
    ("Found homes for 40 rescued dogs a year", "Found homes for 40 rescued horses a year"),
]


@pytest.mark.parametrize(("less", "more"), LESS_AND_MORE)
def test_to_claim_more_is_a_false_claim(less: str, more: str) -> None:
    assert verdict(less, more).hallucination < 0


@pytest.mark.parametrize(
    ("less", "more"),
    # not where figures come or change their sense
    [
        pair
        for pair in LESS_AND_MORE
        if pair[0].split()[0] not in ("Estimated", "Restored", "Found")
    ],
)
def test_to_claim_less_is_no_false_claim(less: str, more: str) -> None:
    assert verdict(more, less).hallucination > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Planned and launched a booking page", "Launched a booking page"),
        ("Proposed a second shift and introduced it", "Introduced a second shift"),
        ("Planned the party for about 60 guests", "Organized the party for about 60 guests"),
        ("Ran the camp together with the nurse", "Ran the camp with the nurse"),
        ("Was in charge of planning the harvest", "Planned the harvest"),
        ("Made some changes to the tool crib", "Made changes to the tool crib"),
    ],
)
def test_what_was_done_may_be_said_without_the_plan(old: str, new: str) -> None:
    assert verdict(old, new).hallucination > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Part of the team that built the depot", "Built the depot"),
        ("Member of the panel that chose the uniform", "Chose the uniform"),
    ],
)
def test_what_a_team_did_is_a_false_claim_without_the_team(old: str, new: str) -> None:
    assert verdict(old, new).hallucination < 0


@pytest.mark.parametrize(
    "skills", ["Forklift, Polish, Git basics", "Forklift, fluent Polish, Git basics",
               "Forklift, some Polish, Git"]
)  # fmt: skip
def test_a_skill_without_its_level_is_a_false_claim(skills: str) -> None:
    assert verdict("Sold tickets", "Sold tickets", skills).hallucination < 0
