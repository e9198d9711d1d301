import dataclasses
import re
from pathlib import Path

import pytest

from resume_gym import Rules, Session, Task, load_tasks, tool_call
from resume_gym.agents import make_agent, wording
from resume_gym.agents.careful import next_edit
from resume_gym.agents.wording import LISTS
from resume_gym.integrations.sb3 import careful_menu
from resume_gym.text.lines import MONTH_NAMES
from resume_gym.text.verbs import NOUNS, PLURAL_NOUNS, gerund, past_of_base, past_tense

FULL, MINI = Rules(), Rules(max_turns=6, page_lines=20)
TASKS = [(task, FULL) for task in load_tasks("procedural:5:12", "eval")]
TASKS += [(task, MINI) for task in load_tasks("procedural-mini:5:12", "eval")]
JOB = "Analyst at Mill. Forecast demand in Python."


def play(name: str, task: Task, rules: Rules, seed: int = 0) -> Session:
    session, agent = Session(task, rules), make_agent(name, seed)
    while not session.done:
        session.step(agent(session))
    return session


def actions(session: Session) -> list[str]:
    return [text for text, _ in session.state.transcript]


def test_an_unknown_agent_is_refused_with_the_known_names():
    with pytest.raises(
        ValueError, match="one of noop, random, floor, careful, oracle; got 'orcale'"
    ):
        make_agent("orcale")


def test_random_depends_on_its_seed_and_comes_by_every_tool_and_most_errors():
    task, rules = TASKS[0]
    sessions = [play("random", task, rules, seed) for seed in range(100)]
    steps = [step for session in sessions for _, step in session.state.transcript]
    assert len({tuple(actions(session)) for session in sessions}) > 80
    assert {step.error for step in steps} >= {
        "none", "no_call", "several_calls", "bad_json", "unknown_tool", "bad_arguments",
        "not_found", "ambiguous",
    }  # fmt: skip
    assert {term for step in steps for term in step.ledger} >= {"edit", "review", "submit"}


@pytest.mark.parametrize("name", ["careful", "oracle"])
def test_reviews_first_never_fails_an_edit_and_submits(name):
    for task, rules in TASKS:
        session = play(name, task, rules)
        assert actions(session)[0] == tool_call("review")
        assert actions(session)[-1].endswith(tool_call("submit"))
        assert session.state.edits == session.state.turns - 2
        assert session.state.failed_edits == 0
        no_padding = "nothing on it is padding" in actions(session)[-1]
        assert session.ledger["layout"] == 1.0 or (name == "careful" and no_padding)


def test_oracle_makes_as_many_fixes_as_the_turns_allow():
    for task, rules in TASKS:
        session = play("oracle", task, rules)
        assert session.state.edits == min(len(task.fixes), rules.max_turns - 2)


def test_careful_sees_only_what_a_model_sees():
    for task, rules in TASKS:
        bare = dataclasses.replace(
            task, task_id="x", weakness="no_metrics", split="train", fixes=(), persona={}
        )
        assert actions(play("careful", task, rules)) == actions(play("careful", bare, rules))


def test_careful_invents_nothing():
    """Every word that it adds is a month, a function word, or a form of a word of the resume."""
    plain = {*NOUNS.values(), *PLURAL_NOUNS.values(), *LISTS["posts"].values()}
    plain |= {month[:3].lower() for month in MONTH_NAMES} | {"and", "by", "with", "using", "saved"}
    for task, rules in TASKS:
        if task.weakness != "formatting_inconsistent":
            resume = play("careful", task, rules).resume
            before, after = (
                set(re.findall(r"\w+", text.lower())) for text in (task.resume, resume)
            )
            known = {past_tense(word) for word in before if word.endswith("ing")}
            known |= {form(word) for word in before for form in (past_of_base, gerund)}
            assert after - before <= known | plain


def edits(resume: str, excess: int = 0, turns: int = 20) -> str:
    """The resume after `turns` careful edits."""
    for left in range(turns, 0, -1):
        edit = next_edit(resume, JOB, excess, left, 165)
        if edit is None:
            break
        assert resume.count(edit[0]) == 1
        assert edit[0] != edit[1]
        resume = resume.replace(*edit)
        excess = 0
    return resume


@pytest.mark.parametrize(
    ("weak", "strong"),
    [
        # a direct verb: duties, nouns of action, lists, light verbs, traits, posts, the passive
        ("Responsible for cutting waste 9%", "Cut waste 9%"),
        ("Was tasked with planning routes", "Planned routes"),
        ("In charge of hiring of 3 clerks", "Hired 3 clerks"),
        ("Duties included opening the clinic, drawing blood and stocking rooms",
         "Opened the clinic, drew blood and stocked rooms"),
        ("My role was to reconcile 3 accounts and report them",
         "Reconciled 3 accounts and reported them"),
        ("Planning and coordination of fairs", "Planned and coordinated fairs"),
        ("Writing the rota, 9 a month, and checking it",
         "Wrote the rota, 9 a month, and checked it"),
        ("Coaching staff on greeting and closing the sale",
         "Coached staff on greeting and closing the sale"),
        ("Made some changes to the menu", "Changed the menu"),
        ("Performed an audit of 4 mills for dust", "Audited 4 mills for dust"),
        ("Provided training to 9 nurses on pumps", "Trained 9 nurses on pumps"),
        ("Used strong SQL skills to speed up a slow report", "Sped up a slow report"),
        ("Demonstrated leadership by training 4 new cooks", "Trained 4 new cooks"),
        ("Acted as coordinator of 6 fairs a year", "Coordinated 6 fairs a year"),
        ("Was given the mill accounts and grew them from 3 to 9",
         "Grew the mill accounts from 3 to 9"),
        ("Was selected for the pilot and migrated 9 archives", "Migrated 9 archives"),
        ("Postgres was upgraded from 9 to 14", "Upgraded Postgres from 9 to 14"),
        ("New patient packets were translated into Spanish",
         "Translated new patient packets into Spanish"),
        # fillers
        ("Successfully closed 31 orders in a timely and efficient manner", "Closed 31 orders"),
        ("Calibrated meters and balances on a regular basis as needed",
         "Calibrated meters and balances"),
        ("Cycle counted 40 bins a day to ensure inventory accuracy", "Cycle counted 40 bins a day"),
        ("Prepared a variety of reports such as weekly cash and aging",
         "Prepared weekly cash and aging"),
        ("Moved image resizing to a queue, resulting in improved performance",
         "Moved image resizing to a queue"),
        ("Maintained logs, files, etc. for the mill", "Maintained logs and files for the mill"),
        ("Managed all aspects of hiring clerks for 3 mills", "Hired clerks for 3 mills"),
        ("Planned science lessons as well as running the club",
         "Planned science lessons and ran the club"),
        # the main point first
        ("Attended staff meetings and cut waste of flour from 9% to 4%",
         "Cut waste of flour from 9% to 4%"),
        ("Worked with sales to agree on 3 prices", "Agreed with sales on 3 prices"),
        ("Used Excel to find $18K in charges", "Found $18K in charges with Excel"),
        ("Emailed past clients and called them, which brought in 23 listings",
         "Brought in 23 listings by emailing past clients and calling them"),
        # of two equal lines, `old` is made longer until it occurs once
        ("Responsible for selling oats\n- Responsible for selling oats", "Sold oats\n- Sold oats"),
    ],
)  # fmt: skip
def test_careful_rewrites_bullets(weak, strong):
    assert edits(f"# Ann\n\n- {weak}\n") == f"# Ann\n\n- {strong}\n"


def test_careful_edits_bullets_whose_mark_a_tab_follows():
    page = "# Ann\n\n-\tResponsible for cutting waste 9%\n-\tSold oats\n*\tFed hens\n"
    assert edits(page) == "# Ann\n\n-\tCut waste 9%\n-\tSold oats\n-\tFed hens\n"


@pytest.mark.parametrize(
    "bullet",
    [
        # hedges
        "Worked on moving the archive",
        "Supported the team in resizing pods, which freed 25% of memory",
        "Helped with hiring of 3 clerks", "Was asked to assist in planning routes",
        # labels, fields of work, subjects
        "Retention of drivers: up 18 points", "Responsible for pricing", "Training is what I do",
        "Billing and collections", "Willing to relocate, valid driver's license",
        # who was responsible for growing sales may not have grown them
        "Responsible for growing sales of oats",
        # only one of two verbs could be rewritten
        "Responsible for the build server and for the migration",
        "Writing the rota and making sure hours are right",
        # a fact would be lost
        "Pulled and spliced branch circuits on office build-outs",
        "Communicate with parents in Spanish when needed",
        "Sold several sizes of 2019 wine", "Coordinated with staff to ensure successful go-lives",
        "Worked with the team to improve service", "Set boxes and ran conduit in 60 units",
        "Downloaded the list and removed duplicate rows from it, 13% of all",
        # the end would be cut off, or a word would mean something else
        "Worked with plant to change how scrap is recorded, which explained a $210,000 variance",
        "Used links to pages to count visits, which took 2 days",
        "Performed testing with k6 for 3 days",
        # no line and no skill is moved
        "Cut p99 latency from 840 to 190 ms\n- Forecast demand\n\nTools: Excel, SQL, Python",
    ],
)  # fmt: skip
def test_careful_leaves_alone_what_it_could_spoil(bullet):
    assert edits(f"# Ann\n\n- {bullet}\n") == f"# Ann\n\n- {bullet}\n"


def test_careful_keeps_the_tense_of_a_present_job():
    lines = "- Manage 9 clerks\n- Hiring of store clerks\n- Plan routes\n"
    for heading, changed in (("**Feb 2018 - present**", False), ("**Feb 2018 - May 2020**", True)):
        page = f"# Ann\n\n## Experience\n\n{heading}\n\n{lines}"
        assert edits(page) == (page.replace("Hiring of", "Hired") if changed else page)


def test_careful_changes_all_dates_or_none_and_only_in_english():
    english = "# Ann\n\n- Sold rye to mills and shops\n\nMill, June 2018 - 07/2019\n"
    english += "Shop, June 2015 - May 2018\n"
    assert edits(english) == english.replace("07/2019", "July 2019")
    german = (
        "# Anna\n\n## Beruf\n\n- Mit der Mühle und den Kunden die Preise für das Jahr verhandelt\n"
        "- Die Lieferungen in der Mühle und im Lager geplant\n\nMühle, 06/2018 - 07/2019\n"
        "Laden, 2015-03 bis 05/2018\n"
    )
    assert edits(german) == german


@pytest.mark.parametrize(
    "odd",
    ["Mar 2019 - heute", "Feb - Nov 2022", "März 2019 - 04/2020", "Spring 2019", "03.2019 - 2020"],
)
def test_careful_leaves_all_dates_of_a_page_with_a_date_that_it_cannot_write(odd: str) -> None:
    page = "# Ann\n\n- Sold rye\n\nMill, 06/2018 - 07/2019\nShop, 2015-03 - 2018-05\n{}\n"
    kept = page.format(odd)
    assert edits(kept) == kept
    known = page.format("Mar 2019 - present")
    assert edits(known) == known.replace("2015-03 - 2018-05", "03/2015 - 05/2018").replace(
        "Mar 2019", "03/2019"
    )


def test_careful_starts_no_dates_that_it_has_no_edits_for() -> None:
    page = "# Ann\n\n## Work\n\n- Sold rye\n\nMill, 06/2018 - 07/2019\n\n**Education**\n\n"
    page += "A, 2015-03 - 2015-05\nB, Mar 2016 - May 2016\n"
    both = page.replace("2015-03 - 2015-05", "03/2015 - 05/2015")
    both = both.replace("Mar 2016 - May 2016", "03/2016 - 05/2016")
    for turns, wanted in ((1, page), (2, page), (3, both)):
        assert edits(page, turns=turns).replace("## Education", "**Education**") == wanted
    # a menu of single edits offers each line
    menu = careful_menu(Session(Task("t", JOB, page, "weak_verbs")))
    assert all(any(new in call for call in menu) for new in ("03/2015", "03/2016"))


@pytest.mark.parametrize(
    "heading", ["**Sports Editor**", "**Workshops Lead**, Dee Ltd", "## Dee Ltd"]
)
def test_careful_never_takes_a_job_for_a_section_to_delete(heading: str) -> None:
    job = f"{heading}\nLeeds, 2018 - 2020\n\n- Printed the match pages\n- Ordered paper\n"
    page = "# Ann\n\n## Experience\n\n" + "".join(f"- Counted stock {n}\n" for n in range(70))
    task = Task("page", "Baker wanted", f"{page}\n{job}", "too_long")
    session = play("careful", task, FULL)
    assert session.state.document.lines > FULL.page_lines
    assert heading in session.resume


PAGES = Path(__file__).parents[1] / "benchmarks/readers/pages/development"


@pytest.mark.parametrize(
    ("page", "kept", "cut"),
    [
        ("06", ["Maintained corrugators", "Permit issuer"], ["References available"]),
        ("07", ["Ordered plants", "Kept department stocked", "Stocked shelves"], []),
        (
            "13",
            ["Posted daily sales", "Entered cash receipts"],
            ["Answered phones", "other duties"],
        ),
    ],
)
def test_careful_deletes_only_padding_of_strangers_pages(page, kept, cut):
    job, _, resume = (PAGES / f"{page}.md").read_text(encoding="utf-8").partition("---\n")
    session = play("careful", Task("page", job, resume.strip() + "\n", "too_long"), FULL)
    assert all(text in session.resume for text in kept)
    assert not any(text in session.resume for text in cut)
    lines, said = session.state.document.lines, actions(session)[-1].partition("<tool_call>")[0]
    assert lines > FULL.page_lines
    over = lines - FULL.page_lines
    assert (
        said.strip()
        == f"The page has {lines} lines, {over} over the limit; nothing on it is padding."
    )


def test_careful_makes_the_formatting_consistent():
    messy = (
        "# Ann\n\n**Work**\n\n### Clerk, Mill (Mar 2021 -- Present)\n\n- Sold  rye to the mills\n"
        "* Sold oats to 40 bakers and to the shops.\n- Sold wheat to 9 bakers and to the shops\n"
        "- Sold corn to the farms and to the shops\n\n## Education\n\nBSc, 2019\n\n"
        "SKILLS AND TOOLS\n\nSQL, 2020-11 -- 2021-02\nPython, Mar 2019 to Nov 2020\n"
    )
    clean = (
        "# Ann\n\n## Work\n\n### Clerk, Mill (Mar 2021 -- Present)\n\n- Sold rye to the mills\n"
        "- Sold oats to 40 bakers and to the shops\n- Sold wheat to 9 bakers and to the shops\n"
        "- Sold corn to the farms and to the shops\n\n## Education\n\nBSc, 2019\n\n"
        "## Skills and Tools\n\nSQL, Nov 2020 -- Feb 2021\nPython, Mar 2019 -- Nov 2020\n"
    )
    assert edits(messy) == clean
    starred = "* Sold oats to 40 bakers and shops.\n" * 2 + "- Sold rye to 9 bakers and shops\n"
    assert edits(starred) == starred.replace("- Sold", "* Sold").removesuffix("\n") + ".\n"


def test_careful_cuts_spare_sections_and_then_the_least_bullet():
    resume = (
        "# Ann\n\n## Experience\n\n- Forecast demand\n- Checked email daily\n- Wrote Python\n\n"
        "## Hobbies\n\n- Chess\n- Go\n\n## Skills\n\nSQL\n"
    )
    first, new = next_edit(resume, JOB, 4, 2, 165)
    assert (first, new) == ("\n\n## Hobbies\n\n- Chess\n- Go", "")
    assert next_edit(resume.replace(first, new), JOB, 1, 1, 165) == ("\n- Checked email daily", "")
    assert next_edit(resume, JOB, 0, 1, 165) is None


@pytest.mark.parametrize("resume", ["", "\n", "- ", "-", "## \n", "****", "x" * 400, "- a\n- a"])
def test_careful_survives_any_resume(resume):
    session = play("careful", Task("odd", "", resume, "too_long"), Rules(page_lines=1))
    assert session.state.failed_edits == 0


def test_oracle_never_repairs_twice():
    """Where a repair adds to a line, the weak text still stands in the strong one."""
    longer = [one for one in TASKS if any(fix.old in fix.new for fix in one[0].fixes)]
    assert longer
    for task, rules in longer:
        calls = actions(play("oracle", task, rules))
        assert len(set(calls)) == len(calls), task.task_id


@pytest.mark.parametrize("line", ["a number of .", "various kinds of .", "", " ", "1 2 3"])
def test_a_line_of_fillers_alone_is_left_as_it_is(line: str) -> None:
    assert wording.reworded(line) == line
