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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Worked with a joiner to rebuild the stage", "Owned the rebuild of the stage"),
        ("Supported the harbor office with permits", "Ran the harbor office, permits included"),
        ("Spoke at the spring fair", "Organized the spring fair"),
        ("Member of the works council", "Chaired the works council"),
        ("Sent two apprentices to the finals", "Coached two apprentices who won the finals"),
        ("Tasked with raising attendance", "Raised attendance"),
        ("Charged with reducing waste in the yard", "Reduced waste in the yard"),
        ("Crane licence, class 2 (expired 2019)", "Crane licence, class 2"),
        ("First aid card, not renewed", "First aid card"),
    ],
)
def test_a_part_or_a_task_is_not_the_whole(old: str, new: str) -> None:
    assert verdict(old, new).hallucination < 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Supported the harbor office by running the permit desk", "Ran the permit desk"),
        ("Received first prize for a float", "Won first prize for a float"),
        ("Tasked with writing the rota each week", "Wrote the rota each week"),
        ("Crane licence (expired 2019), forklift card", "Forklift card"),
        ("Closed most files in one round and not three", "Closed most files in one, from three"),
        ("Taught knots to new deckhands, 3 in all", "Taught 3 new deckhands to tie knots"),
        ("Stood in for the QA2 at night", "Stood in for the QAs at night"),
        ("Taught 12 children with autism", "Taught 12 autistic children"),
        ("Was tasked with shifts of porters", "Was responsible for shifts of porters"),
    ],
)
def test_what_the_line_says_is_no_larger_claim(old: str, new: str) -> None:
    assert verdict(old, new).hallucination > 0


@pytest.mark.parametrize("duty", ["Responsible for", "In charge of"])
def test_a_goal_is_a_result_only_with_a_figure(duty: str) -> None:
    assert verdict(f"{duty} reducing overtime", "Reduced overtime").preference == 0
    figure = "overtime from 40 to 12 hours a week"
    assert verdict(f"{duty} reducing {figure}", f"Reduced {figure}").preference > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ola@brandt.example | 515.555.0142", "ola@brandt.example | (515) 555-0142"),
        ("May 2018 to date", "May 2018 to present"),
    ],
)
def test_phones_and_open_ends_may_be_written_otherwise(old: str, new: str) -> None:
    place = "ola@brandt.example" if "@" in old else "May 2018 - Present"
    page = PAGE.format(line="Sold tickets", skills=SKILLS)
    task = Task("t", JOB, page.replace(place, old), "weak_verbs", "eval")
    assert JUDGE.judge(task, page.replace(place, new)).hallucination > 0
