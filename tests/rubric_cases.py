"""A task made by hand, others made by the generator, and what the rubric judge says of them."""

from functools import lru_cache

from resume_gym.episode.rewards import GRADED_FIELDS, Verdict
from resume_gym.episode.tasks import SPLITS, WEAKNESSES, Fix, Task
from resume_gym.judges import make_judge
from resume_gym.synthesis import generate_task

RESUME = """\
# Priya Raman
Leeds | priya@example.com | 555-0172

## Summary
Data analyst who turns messy retail data into decisions.

## Experience
### Senior Data Analyst, Harbor Retail (Mar 2021 - Present)
- Responsible for weekly Tableau dashboards for 14 regional managers
- Helped with moving reports from Excel to Snowflake, cutting refresh from 3 hours to 20 minutes
- Made various improvements to stock reporting
- Built a markdown model in Python that saved $1.2M of season inventory, 1,200 lines in all
### Data Analyst, Bluefin Logistics (Jun 2018 - Feb 2021)
- Forecast parcel volumes for 45 depots, with an error below 8%
- Wrote SQL checks that caught late scans

## Skills
SQL, Python, R, Tableau, Excel, Snowflake

## Education
BSc Statistics, Marlow University, 2018
"""
JOB = """\
Lead Data Analyst at Northgate Grocers. Own pricing analytics and stock reporting.
You have: dashboards in Looker; demand forecasting; Airflow pipelines; SQL and Python.
"""
VAGUE = "Made various improvements to stock reporting"
FACT = "At Harbor Retail, Priya rebuilt stock reporting in dbt, so 60 stores order 2 days earlier."
STRONG = "Rebuilt stock reporting in dbt, so 60 stores order 2 days earlier"
HELPED = "Helped with moving reports"
TASK = Task("hand", JOB, RESUME, "vague_bullets", fixes=(Fix(VAGUE, STRONG, (FACT,)),))
JUDGE = make_judge("rubric")

WORKED = "- Wrote SQL checks that caught late scans"
DASHBOARDS = "- Responsible for weekly Tableau dashboards for 14 regional managers"


def swap(old: str, new: str, text: str = RESUME) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def judged(revised: str, task: Task = TASK) -> Verdict:
    return JUDGE.judge(task, revised)


def grades(verdict: Verdict) -> dict[str, int]:
    return {field: getattr(verdict, field) for field in GRADED_FIELDS}


@lru_cache(maxsize=1)
def generated() -> tuple[Task, ...]:
    """One task of each weakness, split and size."""
    return tuple(
        generate_task(3, index, split, size)
        for split in SPLITS
        for size in ("mini", "full")
        for index in range(len(WEAKNESSES))
    )
