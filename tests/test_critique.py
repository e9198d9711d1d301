"""Feedback for an agent: it points at lines, and gives away neither the reward nor the answer."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_judges import fake, register, revision, verdict
from rubric_cases import FACT, TASK, VAGUE, WORKED, repaired, swap

from resume_gym import llm
from resume_gym.judges import (
    JudgeError,
    JudgeMalformed,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeUnavailable,
    make_judge,
)
from resume_gym.judges.critique import Critique, faults, read_feedback, remarks
from resume_gym.llm import Prompt
from resume_gym.rewards import VERDICT_FIELDS, Verdict
from resume_gym.sources import load_tasks
from resume_gym.tasks import WEAKNESSES, Task

TASKS = (TASK, *load_tasks("default", "eval"))


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


class Critic:
    """A client whose model answers in turn; as `Asks` says, it asks once more."""

    name = "critic"
    usage = llm.Usage(0, 0, 0, 0, None)

    def __init__(self, *answers: str | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[Prompt] = []

    async def ask(self, prompt: Prompt, parse: Callable[[str], Any]) -> Any:
        for _ in range(2):
            self.asked.append(prompt)
            said = self._answers.pop(0)
            if isinstance(said, Exception):
                raise said
            code = re.findall(r"The code is (\w+)\.", prompt.user)[0]
            try:
                return parse(json.dumps({"code": code, "feedback": said}))
            except ValueError as problem:
                fault = str(problem)
        raise llm.Malformed(fault)


def critique(*answers: str | Exception, task: Task = TASK, draft: str = TASK.resume) -> str:
    judge = make_judge({"name": "critique", "judge": "rubric", "critic": Critic(*answers)})
    assert isinstance(judge, Critique)
    return judge.critique(task, draft)


def drafts(task: Task) -> Iterator[str]:
    """The original, each stage of its repair, and drafts with an invented figure."""
    text = task.resume
    yield text
    for fix in task.fixes:
        text = text.replace(fix.old, fix.new, 1)
        yield text
    for number, line in enumerate(text.split("\n")):
        if line.startswith("- ") and number % 5 == 0:
            yield text.replace(line, line + ", up 37% as head of a team of 9")


def test_the_rules_point_at_lines() -> None:
    judge = make_judge({"name": "critique", "judge": "rubric"})
    assert isinstance(judge, Critique)
    said = judge.critique(TASK, TASK.resume)
    assert '"Responsible for weekly Tableau dashboards' in said
    assert "opens without saying what was done" in said
    assert f'"{VAGUE}" says little that is definite.' in said
    claimed = judge.critique(TASK, swap(WORKED, WORKED + " for 77 stores"))
    assert claimed.startswith(
        'Nothing that is known of the candidate supports "77" in "Wrote SQL checks that caught late'
    )


def test_repaired_faults_are_not_reported_again() -> None:
    assert any(VAGUE in remark for remark in remarks(TASK, TASK.resume))
    assert not any("stock reporting" in remark for remark in remarks(TASK, repaired(TASK)))
    fewer = [
        len(remarks(task, list(drafts(task))[len(task.fixes)])) - len(remarks(task, task.resume))
        for task in TASKS
    ]
    assert max(fewer) <= 0
    assert sum(one < 0 for one in fewer) > 0.8 * len(fewer)


@pytest.mark.parametrize("weakness", WEAKNESSES)
def test_each_weakness_is_noticed_and_not_named(weakness: str) -> None:
    tasks = [task for task in TASKS if task.weakness == weakness]
    found = 0
    for task in tasks:
        lines = [line for fix in task.fixes for line in fix.old.split("\n")]
        planted = [text for line in lines if (text := line.strip("-*+# "))]
        quotes = [q.removesuffix("...") for r in remarks(task, task.resume) for q in _quotes(r)]
        found += any(q in text or text in q for q in quotes for text in planted)
    # a point may be buried in more ways than the careful agent's patterns know
    assert found >= (0.6 if weakness == "wrong_emphasis" else 0.8) * len(tasks) > 0


def _quotes(text: str) -> list[str]:
    return re.findall('"([^"]*)"', text)


def test_feedback_gives_nothing_away() -> None:
    judge = Critique()
    for task in TASKS:
        for draft in drafts(task):
            said = asyncio.run(judge.acritique(task, draft))
            assert faults(said, draft) == []
            assert len(said) < 600
            known = set(re.findall(r"\d+", draft))
            assert set(re.findall(r"\d+", said)) <= known
            assert not any(
                fix.new and fix.new in said and fix.new not in draft for fix in task.fixes
            )


@pytest.mark.parametrize(
    "told",
    [
        *VERDICT_FIELDS,
        *WEAKNESSES,
        *(name.replace("_", " ") for name in (*VERDICT_FIELDS, *WEAKNESSES)),
        *(
            "Hallucinations",
            "fabricated",
            "CLARITY",
            "quantify",
            "aligned",
            "action-verbs",
            "verbs",
        ),
        *("preferred", "rubric", "scores", "reward", "judges", "judgement", "graded", "metrics"),
        *("\uff33core", "re\u200bward"),
    ],
)
def test_words_of_the_reward_are_faults_outside_quotations(told: str) -> None:
    assert faults(f"Mind the {told} of this line.", "")
    draft = f"- Led the {told} of a bank"
    assert faults(f'Look at "{draft}" again.', draft) == []


@pytest.mark.parametrize(
    "told", ["upgrade", "unclear", "degraded", "verbatim", "discord", "read it"]
)
def test_ordinary_words_are_not_reported(told: str) -> None:
    assert faults(f"Look at the {told} in this line.", "") == []


def test_quotations_and_figures_are_of_the_draft() -> None:
    draft = "- Built 3 harbours in **Lisbon**, \u201cfast\u201d"
    assert faults('"Built 3 harbours in Lisbon" is fine; so is "Built 3...".', draft) == []
    assert faults("Say more of the 3 harbours.", draft) == []
    assert faults('"Built 4 harbours" is fine.', draft) == [
        "'Built 4 harbours' is not in the draft"
    ]
    assert faults("Say that it saved 40%.", draft) == ["the figure '40' is not in the draft"]


def test_a_critic_words_what_the_rules_find() -> None:
    critic = Critic(f'  "{VAGUE}" could mean\nanything. ')
    judge = make_judge({"name": "critique", "judge": "rubric", "critic": critic})
    assert isinstance(judge, Critique)
    assert judge.name == "critique(rubric, critic)"
    assert judge.critique(TASK, TASK.resume) == f'"{VAGUE}" could mean anything.'
    (prompt,) = critic.asked
    assert f'| "{VAGUE}" says little that is definite.' in prompt.user
    assert FACT not in prompt.user
    assert TASK.fixes[0].new not in prompt.user
    assert not any(name in prompt.system + prompt.user for name in WEAKNESSES)


def test_feedback_on_the_reward_is_asked_for_again() -> None:
    good = "Two bullets open with what the candidate was there for, not with what was done."
    assert critique("The rubric wants stronger verbs.", good) == good
    with pytest.raises(JudgeMalformed, match=r"feedback: expected nothing on how.*'score'"):
        critique("Mind the score.", "The score is low.")
    with pytest.raises(JudgeMalformed, match="expected 1 to 600 characters"):
        critique(" ", "long " * 200)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (llm.Unavailable("busy"), JudgeUnavailable),
        (llm.Refused("no"), JudgeRefused),
        (llm.Malformed("what"), JudgeMalformed),
        (llm.Misconfigured("no key"), JudgeMisconfigured),
    ],
)
def test_a_failed_critic_is_a_failed_judge(failure: Exception, kind: type[JudgeError]) -> None:
    with pytest.raises(kind, match=str(failure)):
        critique(failure)


@pytest.mark.parametrize(
    "answer", ["", "[]", '"x"', '{"feedback": "x"}', '{"code": "c"}', "{", "[" * 99999]
)
def test_a_malformed_answer_is_a_value_error(answer: str) -> None:
    with pytest.raises(ValueError, match=r"expected|Expecting"):
        read_feedback(answer, "c", "draft")
    assert read_feedback('{"code": "c", "feedback": "Fine."}', "c", "draft") == "Fine."


def test_it_judges_as_its_inner_judge(task: Task) -> None:
    said = verdict(1, clarity=-1)
    judge = make_judge({"name": "critique", "judge": fake(says=lambda *_: said)})
    assert isinstance(judge, Critique)
    assert judge.judge(task, revision(0)) == said
    assert not judge.grouped
    ranked = {
        "name": "pairwise",
        "judge": fake(prefers=lambda task, a, b: 1 if a == task.resume else -1),
    }
    judge = make_judge(
        json.dumps({"name": "critique", "judge": {"name": "pairwise", "judge": "rubric"}})
    )
    assert isinstance(judge, Critique)
    assert judge.grouped
    judge = make_judge({"name": "critique", "judge": ranked})
    assert isinstance(judge, Critique)
    said_of_all = asyncio.run(judge.averdicts(task, [revision(0), revision(1)]))
    assert [one.preference for one in said_of_all if isinstance(one, Verdict)] == [1, 1]


def test_specs_without_a_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"critic: expected a name, got only model"):
        make_judge({"name": "critique", "judge": "rubric", "critic": {"model": "x"}})


def test_a_draw_reaches_a_judge_of_groups(task: Task) -> None:
    def says(task: Task, revised: str, draw: int) -> Verdict:
        return verdict(sure=0.9 if revised == revision(1) else 0.1)

    log: list[Any] = []
    tiers = {"name": "tiers", "local": fake(says=says), "frontier": fake(log=log), "audit": 0}
    judge = make_judge({"name": "critique", "judge": tiers})
    assert isinstance(judge, Critique)
    # one member in doubt sends the other along
    asyncio.run(judge.averdicts(task, [revision(0), revision(1)], draw=5))
    asyncio.run(judge.averdict(task, revision(2), draw=6))
    assert sorted(log) == sorted([(revision(0), 5), (revision(1), 5), (revision(2), 6)])
