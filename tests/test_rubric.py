"""The rubric judge's verdicts: what is better, what is worse, what is the same."""

import re
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rubric_cases import (
    FACT,
    JOB,
    RESUME,
    STRONG,
    TASK,
    VAGUE,
    WORKED,
    generated,
    grades,
    judged,
    swap,
)

from resume_gym import load_tasks
from resume_gym.episode.rewards import GRADED_FIELDS, VERDICT_FIELDS, WEAKNESS_METRIC
from resume_gym.episode.tasks import Fix, Task, repaired
from resume_gym.judges import JudgeRefused, make_judge
from resume_gym.judges.rubric import compare
from resume_gym.judges.vetoes import veto
from resume_gym.synthesis import generate_task


def test_a_verdict_explains_each_field_with_a_quotation() -> None:
    verdict = judged(repaired(TASK))
    assert set(verdict.reasons) == set(verdict.confidence) == set(VERDICT_FIELDS)
    assert all(reason.endswith((".", ".)")) for reason in verdict.reasons.values())
    assert all(0.5 <= value <= 1 for value in verdict.confidence.values())
    assert verdict.reasons["clarity"].startswith('States the point plainly: "Rebuilt stock')
    fabricated = judged(swap(WORKED, WORKED + " for 77 stores"))
    assert '"77"' in fabricated.reasons["hallucination"]


def test_a_contact_line_may_lose_a_date_of_birth_but_no_address() -> None:
    contact = "Leeds | priya@example.com | 555-0172"
    born = replace(TASK, resume=swap(contact, f"{contact} | Born 3 May 1990"))
    for old, preference in ((" | Born 3 May 1990", 0), (" | priya@example.com", -1)):
        assert judged(born.resume.replace(old, ""), born).preference == preference
    assert judged(swap("Mar 2021 - Present", "Present")).preference == -1


@pytest.mark.parametrize("task", [TASK, *generated()], ids=lambda task: task.task_id)
def test_an_unchanged_resume_is_the_same(task: Task) -> None:
    verdict = judged(task.resume, task)
    assert verdict.hallucination == 1
    assert not any(grades(verdict).values())


_LINES = sorted({line for task in (TASK, *generated()[:12]) for line in task.resume.split("\n")})
_TEXTS = st.one_of(
    st.text(max_size=200),
    st.lists(
        st.one_of(
            st.sampled_from([*_LINES, *JOB.split("\n"), STRONG, FACT]),
            st.from_regex(r"[-*#]{0,3} ?\w{0,8} \$?[\d,.]{0,6}[%K]? [A-Z]?\w*", fullmatch=True),
        ),
        max_size=30,
    ).map("\n".join),
)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from([TASK, *generated()[:12]]), _TEXTS, _TEXTS)
def test_grades_change_their_sign_with_the_order_of_the_texts(
    task: Task, first: str, second: str
) -> None:
    there, back = compare(task, first, second), compare(task, second, first)
    for field in GRADED_FIELDS:
        assert there[field] == -back[field]
        assert compare(task, first, first)[field] == 0
    if second == task.resume or veto(task, second) is None:
        assert grades(judged(second, task)) == compare(task, task.resume, second)


@pytest.mark.parametrize("task", generated(), ids=lambda task: task.task_id)
def test_undoing_a_repair_is_as_bad_as_the_repair_was_good(task: Task) -> None:
    """The original is another one here, so only the sign of what matters most must turn."""
    undone = judged(task.resume, replace(task, resume=repaired(task)))
    assert undone.preference == -1
    assert getattr(undone, WEAKNESS_METRIC[task.weakness]) <= 0


# Repairs and damage


@pytest.mark.parametrize("task", generated(), ids=lambda task: task.task_id)
def test_the_oracle_is_better_and_honest(task: Task) -> None:
    verdict = judged(repaired(task), task)
    assert verdict.hallucination == 1, verdict.reasons["hallucination"]
    assert verdict.preference == 1
    assert getattr(verdict, WEAKNESS_METRIC[task.weakness]) == 1
    assert min(grades(verdict).values()) >= 0


@pytest.mark.parametrize("size", ["mini", "full"])
def test_a_partial_repair_is_preferred_in_most_tasks(size: str) -> None:
    tasks = [generate_task(5, index, "train", size) for index in range(18)]
    verdicts = [judged(repaired(task, 2 if size == "mini" else 3), task) for task in tasks]
    assert all(verdict.hallucination == 1 for verdict in verdicts)
    assert sum(verdict.preference == 1 for verdict in verdicts) >= 0.6 * len(tasks)


@pytest.mark.parametrize("task", generated(), ids=lambda task: task.task_id)
def test_damage_is_seen(task: Task) -> None:
    lines = task.resume.split("\n")
    bullets = [line for line in lines if re.match(r"[-*+] ", line) and line in repaired(task)]
    line = Random(task.task_id).choice(bullets)
    gone = judged(task.resume.replace(line + "\n", ""), task)
    assert gone.preference <= 0
    assert max(grades(gone).values()) <= 0
    if re.search(r"\d", line):
        assert (gone.quantification, gone.preference) == (-1, -1)
    fake = judged(task.resume.replace(line, line + ", for 7,319 people"), task)
    assert (fake.hallucination, fake.preference) == (-1, -1)


def test_a_single_repair_counts() -> None:
    verb = judged(swap("Responsible for weekly", "Managed weekly"))
    assert (verb.action_verbs, verb.preference) == (1, 1)
    hedge = judged(swap("Helped with moving", "Moved"))
    assert (hedge.hallucination, hedge.action_verbs, hedge.preference) == (-1, 0, -1)
    figure = judged(swap(VAGUE, VAGUE + " that 60 stores use"))
    assert (figure.hallucination, figure.quantification, figure.preference) == (1, 1, 1)
    weaker = judged(swap("Built a markdown", "Did some work on a markdown"))
    assert (weaker.action_verbs, weaker.preference) == (-1, -1)


def test_deleting_padding_is_an_improvement() -> None:
    padded = swap(
        WORKED,
        f"{WORKED}\n- Attended weekly meetings and took notes when asked\n"
        "- Ordered office supplies and watered the plants",
    )
    task = replace(TASK, resume=padded + "\n## Hobbies\n- Hiking and chess\n")
    for shorter in (padded, RESUME + "\n## Hobbies\n- Hiking and chess\n", RESUME):
        verdict = judged(shorter, task)
        assert verdict.hallucination == 1
        assert min(grades(verdict).values()) >= 0
    assert judged(padded, task).clarity == judged(padded, task).preference == 1


def test_the_order_of_bullets_earns_nothing() -> None:
    forecast = "- Forecast parcel volumes for 45 depots, with an error below 8%"
    first = swap(f"{forecast}\n{WORKED}", f"{WORKED}\n{forecast}")
    job = "Data analyst: late scans, SQL checks, scans that nobody caught, checks of scans."
    assert set(grades(judged(first, replace(TASK, job=job))).values()) == {0}


def test_like_lines_that_are_changed_alike_are_not_joined() -> None:
    """The fix of the first line contains the second line, which looked like a merge."""
    demo, figure = (
        "- Hosted a monthly demo for shops",
        "- Monthly demo for shops: from 6 to 63 guests",
    )
    fix = Fix(demo[2:], f"{demo[2:]}, from 6 to 63 guests", ())
    resume = swap(WORKED, f"{demo}\n{WORKED}\n{figure}")
    verdict = judged(
        resume.replace("for shops", "toward shops"), replace(TASK, resume=resume, fixes=(fix,))
    )
    assert set(grades(verdict).values()) == {0}


def test_a_stray_job_word_in_a_repaired_line_is_no_better_fit() -> None:
    """Found by a search over edits: "through" became a word of the job."""
    task = replace(TASK, job="Wine merchant: pricing of wines, pricing of spirits, pricing.")
    honest, stray = (
        swap(VAGUE, STRONG.replace("in dbt", new)) for new in ("in dbt", "pricing dbt")
    )
    assert judged(stray, task).jd_alignment == judged(honest, task).jd_alignment == 0


@pytest.mark.parametrize("words", [("too", "then", "there"), ("too", "too", "too")])
@pytest.mark.parametrize("size", ["mini", "full"])
def test_needless_changes_drown_a_repair(size: str, words: tuple[str, ...]) -> None:
    for index in range(12):
        task = generate_task(5, index, "train", size)
        text = repaired(task, 1)
        bullets = [line for line in text.split("\n") if re.match(r"[-*+] ", line)]
        kept = [line for line in bullets if line in task.resume.split("\n")]
        for line, more in zip(kept, words, strict=False):
            text = text.replace(line, f"{line} {more}")
        assert max(grades(judged(text, task)).values()) <= 0


def test_a_garbled_original_may_stay_so() -> None:
    clumsy = "- Wrote the and SQL checks that caught late scans for of a depot"
    task = replace(TASK, resume=swap(WORKED, clumsy))
    assert judged(task.resume.replace("depot", "hub"), task).clarity == 0


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("\n- Led the team" * 601, "600 lines"),
        ("\n- " + "parcel " * 5_001, "5,000 words"),
        ("\n- " + "1," * 4_000, "1,000 numbers"),
    ],
)
def test_what_takes_too_long_is_refused(more: str, what: str) -> None:
    """The work grows with the square of these numbers."""
    resume = RESUME.rstrip() + more
    long = replace(TASK, resume=resume)
    for text in resume, swap(VAGUE, STRONG, resume):
        with pytest.raises(JudgeRefused, match=f"limit of {what}"):
            make_judge("rubric").judge(long, text)
    with pytest.raises(JudgeRefused, match=what):
        compare(long, RESUME, resume)
    assert judged(resume).preference == -1  # a revision alone cannot avoid its grade


def test_short_lines_beyond_the_limit_are_padding() -> None:
    short = "\n".join(f"{chr(97 + i % 26)}{i}" for i in range(600))
    padded = f"{RESUME.rstrip()}\n{short}"
    assert judged(padded).preference == -1
    # also if it has less than twice the lines of the original
    half = replace(TASK, resume=padded[: padded.index("a390")])
    assert judged(padded, half).preference == -1


def test_without_fixes_a_line_is_better_only_if_the_documents_support_it() -> None:
    tasks = [task for task in load_tasks("mini", "eval") if task.weakness == "no_metrics"]
    judges = [make_judge({"name": "rubric", "fixes": known}) for known in (True, False)]
    told = []
    for task in tasks:
        revised = repaired(task)
        verdicts = [judge.judge(task, revised) for judge in judges]
        told.append([one.hallucination for one in verdicts])
        assert verdicts[1] == judges[0].judge(replace(task, fixes=()), revised)
    assert [1, -1] in told, "a figure that no document has"
    assert all(known == 1 for known, _ in told)
    with pytest.raises(ValueError, match="fixes: expected true or false, got 'no'"):
        make_judge({"name": "rubric", "fixes": "no"})
