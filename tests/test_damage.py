"""Damage is worse, whatever else an edit repairs; good English is no damage."""

import pytest

from resume_gym import load_tasks
from resume_gym.episode.rewards import Verdict
from resume_gym.episode.tasks import Fix, Task
from resume_gym.judges import make_judge
from resume_gym.judges.rubric.damage import doubtful, scarred, torn
from resume_gym.text.lines import read
from resume_gym.text.spelling import forms, is_word, strange

PAGE = """\
# Mira Solt

Leeds | mira@solt.example

## Experience

### Data Engineer, Kelda Energy

January 2019 - present

- {line}
- Wrote the on-call guide
- Trained two new starters

## Education

{degree}
"""
DEGREE = "BSc Physics, University of Bath, 2018"


def verdict(
    old: str, new: str, degree: str = DEGREE, became: str = "", fix: str = "", job: str = "SQL."
) -> Verdict:
    """Judge a page with the line `old`, or with a degree, that becomes `new`, or `became`."""
    resume = PAGE.format(line=old, degree=degree)
    fixes = (Fix(old, fix),) if fix else ()
    task = Task("t", f"Data engineer: {job}", resume, "weak_verbs", "train", fixes=fixes)
    return make_judge("rubric").judge(task, PAGE.format(line=new, degree=became or degree))


SHEET = "Was responsible for moving timesheets to an app, which cut late entries from 20% to 5%"
RENEWALS = "Negotiated multi-year renewals with landlords that had asked to go monthly"
TORN = {
    "cut off": (RENEWALS, "Negotiated multi-year renewals with landlords that had asked"),
    "cut off in a compound": (
        "Responsible for parsing scanned forms from schools with Textract at 92% field accuracy",
        "Parsed scanned forms from schools with Textract at 92% field",
    ),
    "a preposition is gone": (RENEWALS, RENEWALS.replace(" with", "")),
    "a verb is gone": (SHEET, "Moved timesheets to an app, which late entries from 20% to 5%"),
    "half changed": (
        "Responsible for tracing late vans and winning back two lost depots",
        "Traced late vans and winning back two lost depots",
    ),
    "no main verb": (
        "Tracked earned value in a sheet every lead understood, catching an overrun",
        "In a sheet every lead understood, catching an overrun",
    ),
    "no word": ("Was responsible for preparing 12 badges", "Preparated 12 badges"),
    "joined words": (
        "Tried several pressure cushions until heel sores stopped",
        "Tried several pressure cushions untilheel sores stopped",
    ),
    "a capital after I": ("I was responsible for moving 9 racks", "I Moved 9 racks"),
    "doubled words": (RENEWALS, RENEWALS.replace("renewals", "renewals renewals")),
    "a doubled compound": (RENEWALS, RENEWALS.replace("multi-year", "multi-year multi-year")),
    "changed places": (
        "Scheduled interviews and told every applicant the outcome within 2 days",
        "Scheduled interviews and told every the applicant outcome within 2 days",
    ),
    "scrambled": (
        "Agreed service levels with partner schools and published them monthly",
        "Agreed service published partner with schools them levels monthly",
    ),
    "dangling": ("Rearranged the loan covenants after a talk", "Rearranged loan covenants with it"),
    "wrong form": (
        "Recovered $64K in unpaid invoices by finding the missing orders",
        "Recovered $64K in unpaid invoices by find the missing orders",
    ),
    "two verbs": (
        "Undertook the task of consolidating monitoring tools into Grafana",
        "Undertook consolidated monitoring tools into Grafana",
    ),
    "a relative clause without its verb": (
        "Plans lessons which are engaging and suited to all learners",
        "Plans lessons which engaging and suited to all learners",
    ),
    "an object is gone": (
        "Fixed bugs and provided assistance during releases",
        "Fixed bugs and provided during releases",
    ),
    "part of the opening": (
        "Responsible for the build server and for the migration from Subversion to Git",
        "Maintained the build server and for the migration from Subversion to Git",
    ),
}


@pytest.mark.parametrize(("old", "new"), TORN.values(), ids=TORN)
def test_torn_english_is_worse(old: str, new: str) -> None:
    assert verdict(old, new).preference == -1


@pytest.mark.parametrize(
    "scar",
    [
        "[X] nightly jobs", "<number> nightly jobs", "___ nightly jobs", "{{n}} nightly jobs",
        "XX% of nightly jobs", "nightly jobs (TBD)", "nightly jobs\\n", 'nightly \\"jobs\\"',
        "nightly jobs&nbsp;", "nightly \u200bjobs", "nightly\x07 jobs", "nightly jobs,on call",
    ],
)  # fmt: skip
def test_a_blank_or_a_stray_character_is_worse(scar: str) -> None:
    assert verdict("Responsible for running nightly jobs", "Ran nightly jobs").preference == 1
    assert verdict("Responsible for running nightly jobs", f"Ran {scar}").preference == -1


def test_what_the_page_has_already_is_no_scar() -> None:
    assert not scarred("- Ran [Airflow] jobs", "- Responsible for running [Airflow] jobs")
    assert not scarred("- Ran jobs ([code](https://a.example))", "")


GOOD = {
    "a shorter relative clause": (
        "Plans lessons which are suited to all learners",
        "Plans lessons suited to all learners",
    ),
    "an object moved forward": (
        "Filled hard-to-staff roles through referrals, 18 in a year",
        "Filled 18 hard-to-staff roles in a year through referrals",
    ),
    "a whole phrase gone": (RENEWALS, "Negotiated multi-year renewals with landlords"),
    "a noun becomes a verb": (
        "Study of lithium plating on anodes by microscopy",
        "Study lithium plating on anodes by microscopy",
    ),
    "a bare verb after helped": (
        "Was assigned to help with writing the severity scale",
        "Helped write the severity scale",
    ),
    "an adverb": ("Matched balances weekly in Excel", "Matched balances in Excel weekly"),
    "two nouns of a list": ("Wrote letters and reports here", "Wrote reports and letters here"),
    "a trading noun": (
        "Valued a target with multiples and trading data to support better decisions",
        "Valued a target with multiples and trading data",
    ),
    "a British spelling": ("Responsible for labelling 12 crates", "Labelled 12 crates"),
    "a technical word": ("Set up the standby cluster", "Set up failover for the cluster"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), GOOD.values(), ids=GOOD)
def test_good_english_is_not_torn(old: str, new: str) -> None:
    assert verdict(old, new).preference >= 0
    assert not torn(read(old), read(new), ())


def test_a_line_without_a_part_of_its_fix_is_not_better() -> None:
    fix = "Sent new customers to setup with a short list of promises"
    weak = fix.replace("Sent", "Responsible for sending")
    assert verdict(weak, fix, fix=fix).preference == 1
    assert verdict(weak, fix.replace("customers ", ""), fix=fix).preference == -1
    unsure = fix.replace("list of ", "")
    assert verdict(weak, unsure, fix=fix).preference == 0
    assert doubtful(read(weak), read(unsure), [read(fix)])


@pytest.mark.parametrize(
    "new",
    [
        "Converted Jenkins jobs of GitHub Actions for one team",
        "Converted Jenkins jobs another to GitHub Actions for one team",
        "Converted Jenkins jobs to and GitHub Actions for one team",
        "Converted Jenkins, jobs to GitHub Actions for one team",
        "Converted Jenkins jobs to GitHub Actions for one teams",
    ],
)
def test_a_repaired_line_with_a_word_put_in_or_exchanged_is_not_better(new: str) -> None:
    fix = "Converted Jenkins jobs to GitHub Actions for one team"
    weak = fix.replace("Converted", "Was responsible for converting")
    job = "Work with another team."
    assert verdict(weak, fix, fix=fix, job=job).preference == 1
    assert verdict(weak, new, fix=fix, job=job).preference <= 0
    article = fix.replace("to GitHub", "to the GitHub")
    assert verdict(weak, article, fix=fix, job=job).preference == 1


def test_a_line_in_another_language_has_no_strange_words() -> None:
    assert strange(read("Leitete die Umstellung auf wöchentliche Berichte"), frozenset()) == ""
    assert strange(read("Led the formulassistants of two teams"), frozenset()) == "formulassistants"


@pytest.mark.parametrize("word", ["centre", "center", "organise", "runbooks", "onboarded", "kafka"])
def test_english_has_british_and_technical_words(word: str) -> None:
    assert is_word(word)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Recieved the team prize in 2022", "Received the team prize in 2022"),
        ("Implimented single sign-on for 300 staff", "Implemented single sign-on for 300 staff"),
        ("Sent reports to custmers", "Sent reports to customers"),
        ("Kept three seperate lists", "Kept three separate lists"),
    ],
)
def test_a_corrected_spelling_is_better(old: str, new: str) -> None:
    found = verdict(old, new)
    assert (found.hallucination, found.preference) == (1, 1)
    assert verdict(new, old).preference == -1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Axure", "Azure"), ("Gradle", "Cradle"), ("JMeter", "Meter"), ("FAISS", "Fails"),
        ("Accentra", "Accents"), ("axure", "azure"),
    ],
)  # fmt: skip
def test_another_name_is_no_corrected_spelling(old: str, new: str) -> None:
    found = verdict(f"Wrote notes on {old} here", f"Wrote notes on {new} here", job="Azure.")
    assert (found.hallucination, found.preference) == (-1, -1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Wrote reports in Pyhton", "Wrote reports in Python"),
        ("Made 12 pages with Canva", "Made 12 pages with Canvas"),
        ("Canva pages for 12 shops", "Canvas pages for 12 shops"),
        ("Trained tagging with spaCy here", "Trained tagging with space here"),
        ("Wrote notes on digoxin here", "Wrote notes on digitoxin here"),
    ],
)
def test_a_name_spelt_otherwise_is_not_better(old: str, new: str) -> None:
    found = verdict(old, new)
    assert (found.hallucination, found.preference) == (1, 0)


def test_a_word_of_the_job_is_not_misspelt() -> None:
    old, new = "Sent reports to custmers", "Sent reports to customers"
    assert verdict(old, new, job="Serve custmers.").preference == 0


@pytest.mark.parametrize(("old", "new"), [("Java", "Scala"), ("Redis", "Redshift")])
def test_another_tool_is_no_corrected_spelling(old: str, new: str) -> None:
    assert verdict(f"Stored carts in {old}", f"Stored carts in {new}").hallucination == -1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Ph.D. Physics, Bath, 2018", "PhD Physics, Bath, 2018"),
        ("BSc Physics, Bath, 2018", "B.Sc. Physics, Bath, 2018"),
        ("Bachelor of Science, Physics, Bath, 2018", "BSc, Physics, Bath, 2018"),
        ("BSc Physics, Bath, 2018", "BSc in Physics, Bath, 2018"),
    ],
)
def test_another_form_of_a_degree_is_the_same(old: str, new: str) -> None:
    for first, second in ((old, new), (new, old)):
        found = verdict("Tuned SQL", "Tuned SQL", first, second)
        assert (found.hallucination, found.preference) == (1, 0)


def test_a_higher_degree_is_false() -> None:
    assert (
        verdict("Tuned SQL", "Tuned SQL", DEGREE, DEGREE.replace("B", "M", 1)).hallucination == -1
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Led SEO work on 12 sites", "Led search engine optimization (SEO) work on 12 sites"),
        ("Built machine learning models", "Built ML models"),
        ("Built ML models", "Built machine learning models"),
        ("Saved $96,000 p.a. with two carriers", "Saved $96,000 a year with two carriers"),
    ],
)
def test_an_abbreviation_and_its_long_form_are_the_same(old: str, new: str) -> None:
    found = verdict(old, new, job="We need machine learning.")
    assert (found.hallucination, found.preference) == (1, 0)


def test_an_acronym_of_other_words_is_new() -> None:
    assert not forms(read("Built CRM reports"), read("Built customer reports"))
    assert verdict("Built customer reports", "Built CRM reports").hallucination == -1


@pytest.mark.parametrize(
    "line", ["", "!", ") \u2022", "it", "Raised", "them", "with it", "5 %", "the", "by"]
)
@pytest.mark.parametrize("task", load_tasks("mini", "train")[:6], ids=lambda task: task.task_id)
def test_what_is_left_of_a_line_without_words_is_worse(task: Task, line: str) -> None:
    judge = make_judge("rubric")
    bullets = [one for one in task.resume.split("\n") if one.startswith("- ")]
    spare = {fix.old.strip("\n") for fix in task.fixes if not fix.new}
    for bullet in bullets:
        if bullet not in spare:
            assert judge.judge(task, task.resume.replace(bullet, f"- {line}")).preference < 1
