"""What must not fool the rubric judge, what it must let pass, and how it reads lines."""

import gc
import re
from dataclasses import replace

import pytest
from rubric_cases import (
    DASHBOARDS,
    HELPED,
    JOB,
    RESUME,
    TASK,
    VAGUE,
    WORKED,
    generated,
    grades,
    judged,
    swap,
)

from resume_gym.episode.tasks import Evidence, Task, repaired
from resume_gym.judges.rubric.signals import measure
from resume_gym.text.lines import Content, plain, read
from resume_gym.text.reference import make_reference

# Claims without support


def test_a_figure_of_the_original_is_not_called_missing_there() -> None:
    """If a bullet is joined to a heading, its words and figures are claims of the heading."""
    joined = swap("- Present)\n- ", "- Present) ")
    told = [one.reason for one in measure(joined, make_reference(TASK)).findings]
    assert any('"14"' in one and "stands elsewhere in the original" in one for one in told)
    assert not any("is nowhere in the original" in one for one in told)


FABRICATIONS = {
    "figure": swap(WORKED, WORKED + ", saving 31%"),
    "unit": swap("20 minutes", "20 seconds"),
    "figure in words": swap(WORKED, WORKED + " in seventeen countries"),
    "multiple": swap(WORKED, WORKED + ", which doubled sales"),
    "moved figure": swap(WORKED, WORKED + ", saving $1.2M"),
    "moved evidence": swap(WORKED, WORKED + " in 60 stores"),
    "tool": swap(WORKED, WORKED + " with Airflow"),
    "tool in lower case": swap(WORKED, WORKED + " with airflow"),
    "tool at the head": swap(WORKED, "- Kubernetes rollout: wrote SQL checks"),
    "skill": swap("Excel, Snowflake\n", "Excel, Snowflake, stakeholder management\n"),
    "employer": swap(WORKED, WORKED + " at Globex"),
    "employer at the head": swap(WORKED, "- Globex project: wrote SQL checks"),
    "employer of the other job": swap("Bluefin Logistics", "Harbor Retail"),
    "job": swap("## Skills", "### Data Analyst, Initech (Jan 2015 - May 2018)\n\n## Skills"),
    "title": swap("### Data Analyst", "### Lead Data Analyst"),
    "title in the summary": swap("Data analyst who", "Lead data analyst who"),
    "promotion": swap(WORKED, WORKED + ", and was promoted to senior manager"),
    "team": swap(WORKED, "- Led a team of analysts who wrote SQL checks"),
    "inflation": swap("Helped with moving reports", "Led the move of reports"),
    "scope": swap(WORKED, WORKED + " company-wide"),
    "degree": swap("BSc", "PhD"),
    "certificate": swap("Data analyst who", "Certified data analyst who"),
    "date": swap("Jun 2018 -", "Jun 2016 -"),
    "still there": swap("Feb 2021)", "Present)"),
    "bullet under another job": swap(DASHBOARDS + "\n", "").replace(
        WORKED, WORKED + "\n" + DASHBOARDS
    ),
    "job description": swap(WORKED, WORKED + "\n- Own pricing analytics and stock reporting"),
    "invented bullet": swap(WORKED, WORKED + "\n- Ran workshops on negotiation for suppliers"),
    "invented outcome": swap(WORKED, WORKED + ", delighting the drivers"),
    "invented work": swap(WORKED, WORKED + " and coached two-person crews in the depots"),
    "invented work in front": swap(WORKED, "- Hired contractors and wrote SQL checks"),
    "professor": swap("Data analyst who", "Data analyst and lecturer who"),
}


def test_a_dropped_junior_is_a_claim() -> None:
    junior = swap("### Data Analyst, Bluefin", "### Junior Data Analyst, Bluefin")
    task = replace(TASK, resume=junior)
    assert judged(RESUME, task).hallucination == -1
    assert '"junior"' in judged(RESUME, task).reasons["hallucination"]
    two_lines = junior.replace(", Bluefin Logistics (Jun", "\n**Bluefin Logistics** (Jun")
    assert judged(two_lines, task).hallucination == 1


# Evidence

NOTES = """\
# Project notes
- The SQL checks of late scans were rolled out to 12 depots. Refunds fell by 31%.
- Priya keeps meetings short.
"""
NOTED = replace(TASK, evidence=(Evidence("project_notes", "Notes", NOTES),))
FROM_NOTES = swap(WORKED, WORKED + " in 12 depots")


def test_a_figure_from_the_evidence_is_not_a_fabrication() -> None:
    assert judged(FROM_NOTES).hallucination == -1
    verdict = judged(FROM_NOTES, NOTED)
    assert (verdict.hallucination, verdict.quantification, verdict.preference) == (1, 1, 1)


def test_a_figure_of_the_evidence_on_another_line_is_moved() -> None:
    verdict = judged(swap(DASHBOARDS, DASHBOARDS + " in 12 places"), NOTED)
    assert (verdict.hallucination, verdict.quantification, verdict.preference) == (-1, 0, -1)
    assert "belongs to" in verdict.reasons["hallucination"]


def test_a_bullet_that_tells_of_the_evidence_is_true_and_earns_nothing() -> None:
    told = swap(WORKED, WORKED + "\n- Rolled out the SQL checks of late scans to 12 depots")
    assert not any(grades(judged(told, NOTED)).values())
    assert judged(told, NOTED).hallucination == 1
    assert judged(told).hallucination == -1


def test_the_job_is_not_evidence() -> None:
    task = replace(TASK, job=JOB + NOTES)
    assert judged(FROM_NOTES, task).hallucination == -1


@pytest.mark.parametrize("revised", FABRICATIONS.values(), ids=FABRICATIONS)
def test_a_claim_without_support_is_caught(revised: str) -> None:
    verdict = judged(revised)
    assert verdict.hallucination == -1
    assert verdict.preference < 1
    assert verdict.quantification < 1


HONEST = {
    "verb": swap("Built a markdown", "Developed a markdown"),
    "no weak opener": swap("Responsible for weekly", "Owned weekly"),
    "shorter": swap(", 1,200 lines in all", ""),
    "deletion": swap(WORKED + "\n", ""),
    "no separator": swap("1,200 lines", "1200 lines"),
    "scaled": swap("1,200 lines", "1.2K lines"),
    "money in full": swap("$1.2M", "$1,200,000"),
    "in words": swap("3 hours", "three hours"),
    "unit": swap("20 minutes", "20 min"),
    "evidence": repaired(TASK),
    "evidence in other words": swap(VAGUE, "Improved stock reporting for 60 stores"),
    "merge": swap(
        f"8%\n{WORKED}", "8%, and wrote SQL checks that caught late scans"
    ),
    "split": swap(", cutting refresh", "\n- Cutting report refresh"),
    "order of bullets": swap(DASHBOARDS + "\n", "").replace(
        "inventory, 1,200 lines in all", "inventory, 1,200 lines in all\n" + DASHBOARDS
    ),
    "order of sections": "\n## ".join(
        [(parts := RESUME.split("\n## "))[0], parts[3] + "\n", parts[2], parts[1], parts[4]]
    ),
    "markers": RESUME.replace("\n- ", "\n* "),
    "headings": re.sub(r"## (\w+)", lambda match: match[1].upper(), RESUME.replace("###", "@@"))
    .replace("@@", "###"),
    "bold": re.sub(r"(\d+%)", r"**\1**", RESUME),
    "dates": RESUME.replace("Mar 2021", "03/2021").replace("Jun 2018", "06/2018")
    .replace("Feb 2021", "02/2021"),
    "entry on two lines": swap(
        "### Data Analyst, Bluefin Logistics (Jun 2018 - Feb 2021)",
        "### Data Analyst\n**Bluefin Logistics** | June 2018 - February 2021",
    ),
    "figure in the summary": swap(
        "into decisions.", "into decisions; built a markdown model that saved $1.2M of inventory."
    ),
    "other words": swap(WORKED, "- Authored SQL tests to flag scans that came late"),
    "another order": swap(
        "Forecast parcel volumes for 45 depots", "For 45 depots, forecast parcel volumes"
    ),
    "heading": swap("## Summary", "## Profile"),
    "skill from a bullet": swap("SQL, Python, R", "SQL, Python, R, forecasts, dashboards"),
}  # fmt: skip


@pytest.mark.parametrize("revised", HONEST.values(), ids=HONEST)
def test_an_honest_edit_passes(revised: str) -> None:
    verdict = judged(revised)
    assert verdict.hallucination == 1, verdict.reasons["hallucination"]


def test_moving_a_bullet_among_its_own_is_neither_better_nor_worse_to_read() -> None:
    assert judged(HONEST["order of bullets"]).clarity == 0
    assert judged(HONEST["markers"]).preference == 0


# Attacks


def attacks(task: Task) -> dict[str, str]:
    text, lines = task.resume, task.resume.split("\n")
    padding = "\n".join(fix.old for fix in task.fixes if not fix.new)
    bullets = [line for line in lines if re.match(r"[-*+] ", line) and line not in padding]
    return {
        "half": "\n".join(lines[: len(lines) // 2]),
        "no bullets": "\n".join(line for line in lines if line not in bullets),
        "heads of bullets": "\n".join(
            " ".join(line.split()[:4]) if line in bullets else line for line in lines
        ),
        "one line": " ".join(lines),
        "reversed": "\n".join(reversed(lines)),
        "shouting": text.upper(),
    }


@pytest.mark.parametrize("task", [TASK, *generated()[:12]], ids=lambda task: task.task_id)
def test_attacks_are_never_better(task: Task) -> None:
    for name, text in attacks(task).items():
        verdict = judged(text, task)
        assert verdict.preference == -1, name
        if name != "reversed":  # which puts stray periods inside
            assert max(grades(verdict).values()) <= 0, name


def test_an_empty_verb_in_front_does_not_help() -> None:
    assert judged(swap(HELPED, "Delivered and helped with moving reports")).action_verbs == 0
    assert judged(swap(HELPED, "Successfully helped with moving reports")).action_verbs == 0


# How lines are read


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,200 and 1200 and 1.2K", [(1200, ""), (1200, ""), (1200, "")]),
        ("50% or 50 percent", [(50, "%"), (50, "%")]),
        ("from 380 to 90 ms", [(380, "ms"), (90, "ms")]),
        ("$40-90K, $2 million, 3M rows", [(40e3, "$"), (90e3, "$"), (2e6, "$"), (3e6, "")]),
        ("twenty-one people in three weeks", [(21, ""), (3, "week")]),
        ("Mar 2021 - 06/2022, 2019-21", [(2021, "m3"), (2022, "m6"), (2019, ""), (2021, "")]),
        ("S3, p95, OAuth2, k6, B2B, Log4j", []),
    ],
)
def test_numbers_are_read_by_value_and_unit(text: str, numbers: list[tuple[float, str]]) -> None:
    assert [(number.value, number.unit) for number in read(plain(text)).numbers] == numbers


def test_lines_that_were_compared_are_not_kept() -> None:
    reference = make_reference(TASK)
    known = read("Wrote SQL checks that caught late scans")
    for number in range(200):
        line = read.__wrapped__(f"Wrote {number} SQL checks for otters")  # not cached
        assert reference.similarity(line, known) > 0
    kept = (one for one in gc.get_objects() if type(one) is Content)
    assert sum(one.body.endswith(" for otters") for one in kept) <= 1
