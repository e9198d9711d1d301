"""Hedges are true, duties are deeds told weakly, and broken English is damage."""

import json
import re
from pathlib import Path

import pytest

from resume_gym.episode.rewards import Verdict
from resume_gym.episode.tasks import Evidence, Fix, Task
from resume_gym.judges import make_judge
from resume_gym.judges.rubric.grammar import broken
from resume_gym.synthesis import generate_tasks
from resume_gym.text.lines import read

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
JOB = "# Pump Engineer\n\nHousings, tolerances, test benches, audits of suppliers.\n"
PAGE = """\
# Ana Vela

ana@vela.example

## Experience

### Engineer, Kessel Pumps
{dates}

{bullet}
- Tested 40 valve blocks a month on the pressure bench
- Rewrote the drawing index of the foundry

## Education

BSc Mechanical Engineering, Marlow University, 2015
"""
JUDGE = make_judge("rubric")


def verdict(old: str, new: str, **task: object) -> Verdict:
    """The verdict on a page whose first bullet changes; `task` adds evidence or fixes."""
    before = PAGE.format(dates="2019 - 2021", bullet=f"- {old}")
    page = Task("t", JOB, before, "weak_verbs", "eval", **task)  # type: ignore[arg-type]
    return JUDGE.judge(page, before.replace(f"- {old}", f"- {new}" if new else ""))


# Hedges


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Helped with the audit of 12 foundries", "Audited 12 foundries"),
        ("Participated in hiring (about 60 interviews)", "Hired (about 60 interviews)"),
        ("Involved in building the test bench", "Built the test bench"),
        ("Supported the team in designing 3 housings", "Designed 3 housings"),
        ("Was asked to assist in planning audits", "Planned audits"),
        ("Assisted the head of quality with audits", "Led audits"),
    ],
)
def test_a_dropped_hedge_is_a_false_claim(old: str, new: str) -> None:
    found = verdict(old, new)
    assert (found.hallucination, found.preference) == (-1, -1)
    assert "only took part" in found.reasons["hallucination"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Helped with the audit of 12 foundries", "Assisted with the audit of 12 foundries"),
        ("Helped with the audit of 12 foundries", "Took part in the audit of 12 foundries"),
        ("Helped with the audit of 12 foundries", "Audited 12 foundries together with the buyers"),
        ("Helped with the audit of 12 foundries", ""),
        (
            "Contributed to coaching fitters by joining every night shift for a month",
            "Joined every night shift for a month to coach fitters",
        ),
        (
            "Took part in the recall: rewrote the manual and ran 19 briefings",
            "Rewrote the recall manual and ran 19 briefings",
        ),
        ("Helped with rewriting the drawing index of the foundry", "Rewrote the drawing index"),
    ],
)
def test_a_hedge_may_be_exchanged_deleted_or_settled(old: str, new: str) -> None:
    assert verdict(old, new).hallucination == 1


def test_evidence_settles_a_hedge_and_a_fix_alone_does_not() -> None:
    change = ("Helped with auditing 12 foundries", "Audited 12 foundries")
    assert verdict(*change, fixes=(Fix(*change),)).hallucination == -1
    told = Evidence("project_notes", "Notes", "Ana audited 12 foundries herself.\n")
    assert verdict(*change, evidence=(told,)).hallucination == 1
    shared = Evidence("project_notes", "Notes", "Ida audited 12 foundries, and Ana helped.\n")
    assert verdict(*change, evidence=(shared,)).hallucination == -1


def test_generated_tasks_hold_their_own_hedges_against_a_policy() -> None:
    """Every planted hedge that is dropped is a false claim, on any kind of page."""
    dropped = 0
    hedged = r"^- (?:Helped with|Took part in|Participated in|Was involved in) \S+"
    for task in generate_tasks(3, 60, "eval", "mini"):
        for opening in re.findall(hedged, task.resume, re.MULTILINE):
            found = JUDGE.judge(task, task.resume.replace(opening, "- Completed"))
            assert (found.hallucination, found.preference) == (-1, -1)
            dropped += 1
    assert dropped > 3


# Duties and nouns of action


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Mentoring of two junior engineers", "Mentored two junior engineers"),
        ("Design of pump housings", "Designed pump housings"),
        ("Support for customers in case of noise", "Supported customers in case of noise"),
        ("Tolerance analysis of valve blocks", "Analyzed tolerances of valve blocks"),
        (
            "Was responsible for the migration of the drawing archive to Windchill",
            "Migrated the drawing archive to Windchill",
        ),
        ("Preparation of monthly reports for 30 plants", "Prepared monthly reports for 30 plants"),
        ("Kept lists, drawings and so on in order", "Kept lists and drawings in order"),
    ],
)
def test_a_repair_without_a_planted_fix_is_better(old: str, new: str) -> None:
    found = verdict(old, new)
    assert (found.hallucination, found.preference) == (1, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Tasked with the nightly test of six pumps", "Tested six pumps every night"),
        ("Had to go over drawings in the work shop", "Went over drawings in the workshop"),
        ("Contributed to coaching fitters in a workshop", "Coached fitters in a workshop"),
        ("Worked nights with the audit team", "Worked with the audit team"),
    ],
)
def test_good_english_is_no_damage(old: str, new: str) -> None:
    assert not broken(read(old), read(new))


def test_a_lost_quantifier_is_no_gain() -> None:
    found = verdict("Tried several sizes of bearing", "Tried sizes of bearing")
    assert (found.hallucination, found.clarity, found.preference) == (1, 0, 0)


# English


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Attended to the board pack each month", "Prepared to the board pack each month"),
        ("Took care of invoices for 30 plants", "Processed of invoices for 30 plants"),
        ("Responsible for writing the audit brief", "Wrote for the audit brief"),
        ("Logged each leak until somebody fixed it", "Logged each leak untilbody fixed it"),
        ("Tried seals, which were then replaced with rings", "Tried seals, which then with rings"),
        ("Worked on leaks, in time cutting scrap by hand", "Cut on scrap by hand"),
        ("Coached fitters who now run their own teams", "Coached fitters who now their own teams"),
        ("Taught fitters to read a drawing", "Taught fitters to a drawing"),
        ("Chased open actions with reminder emails", "Chased open actions with reminder ema"),
        ("Responsible for writing the audit brief", "Responsible the audit brief"),
        ("Tested pumps in the hall and sold them", "Tested pumps in the the hall and sold them"),
        ("Tested pumps in the hall and shipped them", "Tested pumps in the hall and"),
        ("Checked pumps against the drawings, 30 a day", "Checked pumps against, 30 a day"),
        ("Had the task of cleaning 14 tanks", "Cleaned cleaning 14 tanks"),
    ],
)
def test_broken_english_is_damage(old: str, new: str) -> None:
    found = verdict(old, new)
    assert (found.clarity, found.preference) == (-1, -1)


def test_good_lines_of_others_are_not_called_broken() -> None:
    rows = (BENCHMARKS / "good_lines.jsonl").read_text(encoding="utf-8").splitlines()
    lines = [json.loads(row)["line"].lstrip("-* ") for row in rows]
    accused = [line for line in lines if broken(read("Did it"), read(line))]
    assert len(lines) >= 200
    assert len(accused) <= len(lines) / 100


# Values


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("01.09.2019 – 31.03.2021", "Sep 2019 – Mar 2021"),
        ("Jan ’19 – Feb ’21", "Jan 2019 – Feb 2021"),
        ("2019-09 – 2021-03", "Sep 2019 – Mar 2021"),
        ("1\u202f200 tickets", "1,200 tickets"),
        ("1.200 tickets", "1,200 tickets"),
        ("CHF 3’500’000 of budget", "CHF 3.5M of budget"),
        ("₹12 lakh of budget", "₹1,200,000 of budget"),
        ("EUR 40k of budget", "40,000 euros of budget"),
        ("cut by half", "cut by 50%"),
        ("90 minutes a week", "1.5 hours a week"),
        ("1.5 m of pipe", "150 cm of pipe"),
    ],
)
def test_the_same_value_in_another_notation_is_no_claim(old: str, new: str) -> None:
    before = PAGE.format(dates="2019 - 2021", bullet=f"- Reports on valves, {old}")
    if "20" in new and "–" in new:
        before = PAGE.format(dates=old, bullet="- Reports on valves")
    task = Task("t", JOB, before, "weak_verbs", "eval")
    assert JUDGE.judge(task, before.replace(old, new)).hallucination == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1.200 tickets", "12,000 tickets"),
        ("CHF 3’500’000 of budget", "CHF 35M of budget"),
        ("cut by half", "cut by 60%"),
        ("90 minutes a week", "1.5 days a week"),
        ("30 kg of steel", "30 lb of steel"),
    ],
)
def test_another_value_is_a_claim(old: str, new: str) -> None:
    assert verdict(f"Reports on valves, {old}", f"Reports on valves, {new}").hallucination == -1


def test_a_decimal_is_no_thousand() -> None:
    assert [number.value for number in read("0.125 mm and 1.200 parts").numbers] == [0.125, 1200]
