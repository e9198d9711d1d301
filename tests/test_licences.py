"""What licenses a rewritten line: evidence, other lines, clauses; and which words are protected."""

from dataclasses import replace

import pytest
from rubric_cases import TASK, WORKED, grades, judged, swap

from resume_gym.episode.rewards import Verdict
from resume_gym.episode.tasks import Evidence, Fix

LETTER = """\
The queries that Priya added flagged packages that had not been scanned in time; 19 drivers were
retrained on the strength of that.

Her models of parcel volumes for the depots were never off by more than 6%.
"""
WITH_LETTER = replace(TASK, evidence=(Evidence("review", "Review", LETTER),))
MODEL = (
    "- Built a markdown model in Python that saved $1.2M of season inventory, 1,200 lines in all"
)
FORECAST = "- Forecast parcel volumes for 45 depots, with an error below 8%"
SUMMARY = "Data analyst who turns messy retail data into decisions."


def edited(old: str, new: str) -> Verdict:
    return judged(swap(old, new), WITH_LETTER)


def test_a_document_may_tell_the_deed_in_other_words() -> None:
    retold = (
        "- Added queries that flagged packages not scanned in time, and 19 drivers were retrained"
    )
    verdict = edited(WORKED, retold)
    assert (verdict.hallucination, verdict.preference) == (1, 1)
    assert judged(swap(WORKED, retold)).hallucination == -1


def test_a_document_may_correct_a_figure() -> None:
    corrected = swap(FORECAST, FORECAST.replace("8%", "6%"))
    assert judged(corrected, WITH_LETTER).hallucination == 1
    assert judged(corrected, WITH_LETTER).quantification == 1
    assert judged(corrected).hallucination == -1


def test_a_figure_of_another_deed_is_no_correction() -> None:
    assert edited(FORECAST, FORECAST.replace("45", "19")).hallucination == -1


def test_figures_of_a_like_line_are_no_correction() -> None:
    like = "- Forecast parcel volumes for 30 shops, with an error below 5%"
    resume = swap(WORKED, f"{WORKED}\n{like}")
    letter = "Priya forecast parcel volumes for 45 depots and, later, for 30 shops with 5% error."
    task = replace(TASK, resume=resume, evidence=(Evidence("review", "Review", letter),))
    text = swap("45 depots, with an error below 8%", "30 depots, with an error below 5%", resume)
    assert max(grades(judged(text, task)).values()) <= 0


def test_a_list_may_change_its_order() -> None:
    task = replace(TASK, resume=swap(WORKED, "- Cleaned scans and routes for new depots"))
    text = swap("scans and routes", "routes and scans", task.resume)
    assert judged(text, task).hallucination == 1


def test_a_heading_keeps_a_name() -> None:
    assert edited("## Skills", "## Chosen posted shops").preference == -1
    assert edited("## Skills", "## Technical Skills").preference == 0
    assert edited("## Experience", "## Employment").preference == 0


@pytest.mark.parametrize(
    "clause",
    [
        "saved $1.2M of season inventory with a markdown model",
        "forecast parcel volumes for 45 depots",
    ],
)
def test_a_summary_may_draw_on_bullets_and_earns_nothing_by_it(clause: str) -> None:
    verdict = edited(SUMMARY, f"{SUMMARY[:-1]}; {clause}.")
    assert verdict.hallucination == 1
    assert set(grades(verdict).values()) == {0}


@pytest.mark.parametrize(
    "summary",
    [
        "Data analyst who turns 45 depots messy retail data into decisions.",
        "Data analyst who turns messy retail data into decisions; saved 45 depots of inventory.",
        "Data analyst who turns messy retail data into decisions; inventory 45 season model.",
        "Data analyst, forecast parcel volumes for 45 depots.",
    ],
)
def test_figures_in_a_summary_without_their_deed_earn_nothing(summary: str) -> None:
    verdict = edited(SUMMARY, summary)
    assert max(grades(verdict).values()) <= 0


def test_a_heap_of_words_with_a_figure_earns_nothing() -> None:
    old = (
        "Assisted in administrative proceedings of sorts, bringing a building permit forward by "
        "means of visiting the town office and similar"
    )
    told = "Brought a building permit forward by visiting the town office"
    letter = f"Priya {told.lower()}, 7 weeks before the date that had been announced."
    task = replace(
        TASK,
        resume=swap(WORKED, f"- {old}"),
        fixes=(Fix(old, told, (f"Priya {told.lower()}.",)),),
        evidence=(Evidence("review", "Review", letter),),
    )
    whole = judged(swap(old, f"{told}, 7 weeks early", task.resume), task)
    heap = judged(swap(old, "Brought visiting or forward with 7 by town", task.resume), task)
    assert (whole.quantification, whole.preference) == (1, 1)
    assert heap.quantification == 0


def test_a_shortened_line_in_another_order_is_damage() -> None:
    line = "- saved inventory model Python lines markdown $1.2M all season 1,200 in"
    assert edited(MODEL, line).clarity == -1


def test_a_line_of_results_may_go_where_its_figure_stands_with_the_deed() -> None:
    resume = swap("\n## Skills", "- Parcel volumes forecast error: below 8%\n\n## Skills")
    resume = swap(FORECAST, FORECAST.removesuffix(", with an error below 8%"), resume)
    task = replace(TASK, resume=resume)
    told = swap("45 depots", "45 depots, with an error below 8%", resume)
    both = judged(told, task)
    moved = judged(swap("- Parcel volumes forecast error: below 8%\n", "", told), task)
    assert (both.preference, moved.preference) == (1, 1)
    lost = judged(swap("- Parcel volumes forecast error: below 8%\n", "", resume), task)
    assert lost.preference == -1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from Excel to Snowflake", "from Snowflake to Excel"),
        ("that caught late scans", "that never caught late scans"),
        ("who turns messy retail data", "who never turns messy retail data"),
        ("caught late scans", "caught early scans"),
    ],
)
def test_a_twist_is_a_false_claim(old: str, new: str) -> None:
    assert edited(old, new).hallucination == -1


def test_a_rate_without_a_figure_is_protected() -> None:
    task = replace(TASK, resume=swap(WORKED, "- Checked late scans in SQL every month"))
    assert judged(swap("every month", "every week", task.resume), task).hallucination == -1
    assert judged(swap("every month", "each month", task.resume), task).hallucination == 1


def test_words_that_end_like_superlatives_are_none() -> None:
    line = "- Wrote SQL checks that caught late scans at the request of drivers"
    reasons = edited(WORKED, line).reasons
    assert "rank" not in reasons["hallucination"]


def test_a_clause_may_change_its_place() -> None:
    turned = (
        "- In Python, built a markdown model, 1,200 lines in all, that saved $1.2M of inventory"
    )
    assert edited(MODEL, turned).hallucination == 1
