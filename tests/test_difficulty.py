from dataclasses import replace

import pytest
from conftest import make_task

from resume_gym import Fix, Task, load_tasks
from resume_gym.corpus.difficulty import difficulty


def test_weak_bullets_are_those_that_a_fix_rewrites() -> None:
    rewrite = Fix("Helped build", "Built")
    delete = Fix("\n- Worked on reports; Helped with audits", "")
    elsewhere = Fix("Python, SQL", "SQL")  # no bullet
    task = replace(make_task(), fixes=(rewrite, delete, elsewhere))
    assert difficulty(task).weak_bullets == 1
    assert difficulty(make_task()).weak_bullets == 0


def test_lines_over_counts_wrapped_lines() -> None:
    long = make_task(resume="# A\n\n" + "\n".join(["- " + "word " * 40] * 3))  # 2 lines each
    assert difficulty(long, page_lines=8).lines_over == 0
    assert difficulty(long, page_lines=5).lines_over == 3
    assert difficulty(long, page_lines=3, page_width=500).lines_over == 2


def test_distractors_are_what_a_fix_deletes() -> None:
    kept, cut = difficulty(make_task()), "\n- Helped build a booking pipeline for 12 harbours"
    task = replace(make_task(), fixes=(Fix(cut, ""),))
    assert difficulty(task).distractors == kept.distractors + 1


@pytest.mark.parametrize(
    ("job", "distance"),
    [
        ("Booking pipeline for harbours", 0.0),
        ("Bookings, pipelines, a harbour", 0.0),  # other forms of the words
        ("Nursing, surgery, anesthesia", 1.0),
        ("", 1.0),
    ],
)
def test_distance_to_the_job_at_its_ends(job: str, distance: float) -> None:
    assert difficulty(replace(make_task(), job=job)).job_distance == pytest.approx(distance)


def test_a_job_that_is_half_told_is_between() -> None:
    def distance(job: str) -> float:
        return difficulty(replace(make_task(), job=job)).job_distance

    near, far = "Booking pipeline for harbours, surgery", "Booking, nursing, surgery, anesthesia"
    assert 0 < distance(near) < distance(far) < 1


def test_bundled_tasks_differ_as_their_weaknesses_say() -> None:
    def of(weakness: str) -> list[Task]:
        return [task for task in load_tasks("mini", "eval") if task.weakness == weakness]

    long = [difficulty(task, page_lines=20) for task in of("too_long")]
    assert all(one.lines_over and one.distractors and not one.weak_bullets for one in long)
    weak = [difficulty(task, page_lines=20) for task in of("weak_verbs")]
    assert all(4 <= one.weak_bullets <= 7 and not one.lines_over for one in weak)
