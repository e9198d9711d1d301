import dataclasses
import re

import pytest

from resume_gym import Rules, Session, Task, load_tasks, tool_call
from resume_gym.agents import make_agent
from resume_gym.agents.careful import next_edit
from resume_gym.text.lines import MONTH_NAMES
from resume_gym.text.verbs import NOUNS, PLURAL_NOUNS, past_tense

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
        assert actions(session)[-1] == tool_call("submit")
        assert session.state.edits == session.state.turns - 2
        assert session.state.failed_edits == 0
        assert session.ledger["layout"] == 1.0


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
    """Every word that it adds is a month, or the past tense of a word of the resume."""
    plain = {verb.capitalize() for verb in (*NOUNS.values(), *PLURAL_NOUNS.values())}
    plain |= {month[:3] for month in MONTH_NAMES}
    for task, rules in TASKS:
        if task.weakness != "formatting_inconsistent":
            resume = play("careful", task, rules).resume
            before, after = (set(re.findall(r"\w+", text)) for text in (task.resume, resume))
            known = {past_tense(word).capitalize() for word in before if word.endswith("ing")}
            known |= {past_tense(word) for word in before if word.endswith("ing")}
            known |= {word.capitalize() for word in before}
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
        ("Responsible for cutting waste 9%", "Cut waste 9%"),
        ("Was tasked with planning routes", "Planned routes"),
        ("In charge of hiring of 3 clerks", "Hired 3 clerks"),
        ("Made some changes to the menu", "Changed the menu"),
        ("Was responsible for the migration of 3 archives", "Migrated 3 archives"),
        ("Planning and coordination of fairs", "Planned and coordinated fairs"),
        ("Various bug fixes in the till", "Fixed bugs in the till"),
        ("Was asked to assist in planning routes", "Was asked to assist in planning routes"),
        ("Helped with hiring of 3 clerks", "Helped with hiring of 3 clerks"),
        ("Worked on moving the archive", "Worked on moving the archive"),
        ("Responsible for pricing", "Responsible for pricing"),
        ("Retention of drivers: up 18 points", "Retention of drivers: up 18 points"),
        (
            "Responsible for planning shifts, ordering supplies and training staff",
            "Responsible for planning shifts, ordering supplies and training staff",
        ),
        (
            "Duties included planning shifts for 9 sites, cutting overtime by 20%",
            "Planned shifts for 9 sites, cutting overtime by 20%",
        ),
        ("Training is what I do", "Training is what I do"),
        # fillers
        ("Sold several sizes of 2019 wine", "Sold several sizes of 2019 wine"),
        ("Updated lists, forms and so on in time", "Updated lists and forms in time"),
        # the point of a later clause
        (
            "Sat in on the cost calls, where the bill was cut by 40% and the reports split",
            "Cut the bill by 40% and split the reports",
        ),
        (
            "Printed the sales figures and trained four apprentices on the lathe",
            "Trained four apprentices on the lathe",
        ),
        # of two equal lines, `old` is made longer until it occurs once
        ("Responsible for selling oats\n- Responsible for selling oats", "Sold oats\n- Sold oats"),
        # no line and no skill is moved
        (
            "Cut p99 latency from 840 to 190 ms\n- Forecast demand\n\nTools: Excel, SQL, Python",
            "Cut p99 latency from 840 to 190 ms\n- Forecast demand\n\nTools: Excel, SQL, Python",
        ),
    ],
)
def test_careful_rewrites_bullets(weak, strong):
    assert edits(f"# Ann\n\n- {weak}\n") == f"# Ann\n\n- {strong}\n"


def test_careful_makes_the_formatting_consistent():
    messy = (
        "# Ann\n\n**Work**\n\n### Clerk, Mill (03/2021 -- Present)\n\n- Sold  rye\n* Sold oats.\n"
        "- Sold wheat\n\n## Education\n\nBSc, 2019\n\nSKILLS\n\nSQL, 2020-11 to 2021-02\n"
    )
    clean = (
        "# Ann\n\n## Work\n\n### Clerk, Mill (Mar 2021 - Present)\n\n- Sold rye\n- Sold oats\n"
        "- Sold wheat\n\n## Education\n\nBSc, 2019\n\n## Skills\n\nSQL, Nov 2020 - Feb 2021\n"
    )
    assert edits(messy) == clean
    starred = "# Ann\n\n* Sold rye.\n* Sold oats.\n- Sold wheat\n"
    assert edits(starred) == "# Ann\n\n* Sold rye.\n* Sold oats.\n* Sold wheat.\n"


def test_careful_cuts_spare_sections_and_then_the_least_bullet():
    resume = (
        "# Ann\n\n## Experience\n\n- Forecast demand\n- Sat around\n- Wrote Python\n\n"
        "## Hobbies\n\n- Chess\n- Go\n\n## Skills\n\nSQL\n"
    )
    first, new = next_edit(resume, JOB, 4, 2, 165)
    assert (first, new) == ("\n\n## Hobbies\n\n- Chess\n- Go", "")
    assert next_edit(resume.replace(first, new), JOB, 1, 1, 165) == ("\n- Sat around", "")


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
