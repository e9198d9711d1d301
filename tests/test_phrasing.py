"""Repairs that keep the words of a line are better; torn lines and false repairs are not."""

import pytest

from resume_gym.episode.rewards import Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import make_judge

PAGE = """\
# Robin Hale

robin@hale.example

{summary}

## Experience

### Foreman, Brightwater Council

May 2018 - Present

- Painted the railings of the pier before the season
- {line}
- Sold season tickets at the harbor kiosk

## Skills

Forklift, first aid
"""
JOB = "# Depot supervisor\n\n- Plan shifts and routes for drivers\n"
SUMMARY = "Foreman with 9 years in parks."
JUDGE = make_judge("rubric")


def verdict(old: str, new: str) -> Verdict:
    """Judge a change of the summary if the line ends with a period, or else of a bullet."""
    if old.endswith("."):
        before, after = (PAGE.format(summary=one, line="Cut hedges") for one in (old, new))
    else:
        before, after = (PAGE.format(summary=SUMMARY, line=one) for one in (old, new))
        after = after.replace("- \n", "")
    return JUDGE.judge(Task("t", JOB, before, "weak_verbs", "eval"), after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the figure stands with its noun
        (
            "Groomed dogs and cats by appointment, 15 a day",
            "Groomed 15 dogs and cats a day by appointment",
        ),
        (
            "Recovered unpaid rent, $18,500 in all, by visiting tenants",
            "Recovered $18,500 in unpaid rent by visiting tenants",
        ),
        # the result comes first
        (
            "Rerouted the vans, which cut fuel from 900 litres to 700",
            "Cut fuel from 900 litres to 700 by rerouting the vans",
        ),
        (
            "Labelled the tools by color; search fell from 15 minutes to 4",
            "Cut search from 15 minutes to 4 by labelling the tools by color",
        ),
        # a phrase gets a verb that claims no more
        (
            "Monthly stock report for the three warehouses",
            "Prepare the monthly stock report for the three warehouses",
        ),
        ("92% and 95% of target in two seasons", "Reached 92% and 95% of target in two seasons"),
        ("Provide advice on wound care to trainees", "Advise trainees on wound care"),
        (
            "Responsible for the map room and its 120 atlases",
            "Looked after the map room and its 120 atlases",
        ),
        (
            "Broken seats were replaced and the hall was repainted",
            "Replaced broken seats and repainted the hall",
        ),
        ("Assembly of gearboxes from drawings", "Assembled gearboxes from drawings"),
        # praise and empty phrases go
        ("Loaded trailers in a safe and efficient way", "Loaded trailers"),
        (
            "Dependable driver with 9 years in cold storage and a positive attitude.",
            "Driver with 9 years in cold storage.",
        ),
        ("Team player with great people skills. Writes open textbooks.", "Writes open textbooks."),
    ],
)
def test_a_repair_that_keeps_the_words_is_better(old: str, new: str) -> None:
    found = verdict(old, new)
    assert (found.preference, found.hallucination) == (1, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the figure counts something else, the result has no figure, the verb claims more
        (
            "Groomed dogs and cats by appointment, 15 a day",
            "Groomed dogs and cats by 15 appointments a day",
        ),
        ("Rerouted the vans, which cut fuel", "Cut fuel by rerouting the vans"),
        (
            "Monthly stock report for the three warehouses",
            "Led the monthly stock report for the three warehouses",
        ),
        (
            "Search went from 4 minutes to 15 after we moved",
            "Cut search from 4 minutes to 15 after we moved",
        ),
        ("Dependable driver with 9 years in cold storage.", "Driver in cold storage."),
    ],
)
def test_what_only_looks_like_such_a_repair_is_not_better(old: str, new: str) -> None:
    assert verdict(old, new).preference <= 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "Cut build time with a cache, which greatly improved efficiency",
            "Cut build time with a cache, greatly efficiency",
        ),
        (
            "As part of the yard crew, welded 9 gates and a ramp",
            "As of the yard crew, welded 9 gates and a ramp",
        ),
        (
            "Traced pallets with a script in order to keep records",
            "Traced pallets with a script in to keep records",
        ),
        (
            "Traced pallets with a script in order to keep records",
            "Traced pallets with a script keep records",
        ),
        ("Met the drivers on an ongoing basis", "Met the drivers on basis"),
        (
            "Handled all aspects of event planning and organized a user group",
            "Handled all organized a user group",
        ),
        (
            "Was given the list of late payers and collected 40 bills",
            "Was the list of late payers and collected 40 bills",
        ),
    ],
)
def test_a_torn_filler_is_worse(old: str, new: str) -> None:
    assert verdict(old, new).preference == -1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Loaded vans in a timely manner in the yard", "Loaded vans in the yard"),
        (
            "Traced pallets with a script in order to keep records",
            "Traced pallets with a script to keep records",
        ),
        (
            "Cut build time with a cache, which greatly improved efficiency",
            "Cut build time with a cache",
        ),
        ("Over-utilized vans were sold in order to pay", "Over-utilized vans were sold to pay"),
        ("Lent tools for a period of 3 weeks", "Lent tools for 3 weeks"),
    ],
)
def test_a_whole_filler_may_go(old: str, new: str) -> None:
    assert verdict(old, new).preference == 1


TALKS = "Scheduled talks with speakers of the toy industry, 35 in three days"


@pytest.mark.parametrize(
    "new",
    [
        TALKS.replace(",", ";"),
        TALKS.replace(",", ""),
        "Scheduled 35 in three days talks with speakers of the toy industry",
        "Scheduled talks with speakers of the 35 in three days industry",
        "Scheduled talks with 35 speakers of the toy industry in three days",
        "Scheduled 35 talks with speakers of the in three days toy industry",
        "Scheduled 35 talks with speakers of the toy industry",
    ],
)
def test_a_figure_stands_only_with_the_noun_that_it_counts(new: str) -> None:
    assert verdict(TALKS, new).preference <= 0
    good = "Scheduled 35 talks in three days with speakers of the toy industry"
    assert verdict(TALKS, good).preference == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Responsible for pressing dress shirts", "Responsible for Pressed dress shirts"),
        (
            "Was asked by the vicar to repaint the hall",
            "Was asked by the vicar to Repainted the hall",
        ),
        (
            "Take blood samples and label them at the bedside",
            "Take blood samples and labelling them at the bedside",
        ),
        ("Filing of claims and checking of policies", "Filed claims and checking of policies"),
        (
            "A loading ramp was welded for the depot",
            "Welded a loading ramp was welded for the depot",
        ),
        ("Worked with the kitchen to ensure food safety", "Worked with the kitchen to ensure"),
        (
            "Sewed sails for yachts and repaired tents",
            "Sewed sails for yachts and repaired tents drawers",
        ),
        (
            "Sewed sails for yachts and repaired tents",
            "Sewed sails for yachts and tents repaired with it",
        ),
        (
            "Calmed guests by offering longer layovers instead of refunds",
            "Calmed guests by offering longer instead of refunds",
        ),
        ("Spoke to growers who had lost crops", "Spoke to growers who crops"),
        (
            "Checked the brakes and tires of every bus before service",
            "Checked of the brakes with during service every bus before and tires",
        ),
        (
            "Oversaw the line to meet and maintain hygiene rules",
            "Oversaw the line, which fills bottles, and maintain hygiene rules",
        ),
        (
            "References on request. Own van and climbing gear.",
            "References on Own van and climbing gear.",
        ),
        (
            "Piano tuner, able to work without supervision. Based in Leeds.",
            "Piano tuner, able to work without. Based in Leeds.",
        ),
        (
            "Suggested a shared shelf, which cut searches by 30%",
            "Cut searches by 30% by suggested a shared shelf",
        ),
        ("Claims fell from 40 to 12 a year", "Reduced claims fell from 40 to 12 a year"),
        (
            "Was responsible for lowering breakage with a new packing rule, leading to a calm dock",
            "Lowered breakage with a new, in a calm dock",
        ),
        ("The yard was closing, so I moved parts", "Moved parts, the yard was closing so"),
        (
            "Kept tool boards tidy and passed the first audit with no findings",
            "Passed tool boards the first audit with no findings",
        ),
        (
            "I work well in a crew, have two licences and I want day shifts.",
            "I and I want day shifts.",
        ),
    ],
)
def test_a_torn_line_is_worse(old: str, new: str) -> None:
    assert verdict(old, new).preference < 0


@pytest.mark.parametrize(
    "line",
    [
        "Opened and locked up the building on assigned days",
        "Time management",
        "Fast learner",
        "Updated contact lists and filed paperwork",
        "Organized birthday lunches and the Christmas party",
        "Able to work well with people from all walks of life",
        "Sorted incoming mail and answered the phone",
        "Referees: on request",
    ],
)
def test_padding_may_go(line: str) -> None:
    assert verdict(line, "").preference > 0


@pytest.mark.parametrize(
    "line",
    [
        "Opened a second clinic in the harbor",
        "Filed patents for two valve designs",
        "Driving license class C",
        "Updated the drug database from recall notices",
        "Sorted fossils by layer for the museum",
    ],
)
def test_work_may_not_go(line: str) -> None:
    assert verdict(line, "").preference <= 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2012 – 2016", "2012 to 2016"),
        ("08/2012 to 10/2016", "August 2012 to October 2016"),
        ("Sept 2012 to October 2016", "September 2012 to October 2016"),
    ],
)
def test_a_date_written_like_the_others_is_better(old: str, new: str) -> None:
    page = "# Jo Lee\n\n## Experience\n\nWelder, Ash Ltd, June 2018 to now\n\nHelper, Oak Ltd, {}\n"
    page += "\nBoy, Elm Ltd, March 2009 to April 2011\n"
    task = Task("t", JOB, page.format(old), "formatting_inconsistent", "eval")
    assert JUDGE.judge(task, page.format(new)).preference > 0


@pytest.mark.parametrize(
    "praise",
    [
        "Highly motivated individual with a keen eye for detail.",
        "A reliable and flexible person who gets on with people at all levels.",
        "I have great communication skills, work well alone and take pride in my work.",
    ],
)
def test_a_sentence_of_praise_may_go(praise: str) -> None:
    assert verdict(f"{SUMMARY} {praise}", SUMMARY).preference > 0


@pytest.mark.parametrize("deed", ["Led a team of highly skilled cooks.", "Excellent Polish."])
def test_a_sentence_of_work_may_not_go(deed: str) -> None:
    assert verdict(f"{SUMMARY} {deed}", SUMMARY).preference <= 0


def test_a_vague_word_may_go_and_a_duty_may_open_a_text_with_its_verb() -> None:
    assert verdict("Repaired various gates and pumps", "Repaired gates and pumps").preference > 0
    duty = "Responsible for all aspects of the night crew of a park."
    assert verdict(duty, "Run the night crew of a park.").preference > 0
