"""What a domain of editing may be, and what it is told when it is not."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from resume_gym import EditSession, Rules, ToolCall, tool_call
from resume_gym.episode.document import rewrite
from resume_gym.episode.editing import Ledger, Shown
from resume_gym.episode.tools import Toolbox, schema

TOOLBOX = Toolbox(
    schema("add", "Add words.", {"words": {"type": "string"}}, ["words"]),
    schema("look", "Show it.", {}, []),
    schema("submit", "Hand it in.", {}, []),
)
TASK: Any = SimpleNamespace(task_id="one", weakness="short", text="a")


@dataclass(frozen=True)
class Taste:
    taste: float


class Adding(EditSession[Any, Taste]):
    """Words are added to a text."""

    noun = "text"
    system_prompt = "Add words."
    toolbox = TOOLBOX
    editors = frozenset({"add"})
    verdict_type = Taste
    verdict_weights = {"taste": 0.5}  # noqa: RUF012
    missing: Ledger = {}  # noqa: RUF012

    @property
    def original(self) -> str:
        return str(self.task.text)

    @property
    def brief(self) -> str:
        return self.original

    def act(self, call: ToolCall) -> Any:
        if call.name == "look":
            return Shown(self.text)
        text = self.text + call.arguments["words"]
        return rewrite(self.state.document, text, 80)

    def unchanged(self) -> Ledger:
        return self.missing


def add(words: str) -> str:
    return tool_call("add", words=words)


def test_only_edits_that_change_the_document_are_rewarded() -> None:
    session = Adding(TASK, Rules(page_lines=3))
    assert session.step(add("b")).reward == 0.25
    step = session.step(add(""))
    assert (step.error, step.reward, session.state.failed_edits) == ("unchanged", -0.25, 1)
    assert session.step(tool_call("look")).reward == 1.0
    session.step(tool_call("submit"))
    unjudged = session.ledgers
    session.grade(Taste(0.5))
    turns = [{"edit": 0.25}, {"failed_edit": -0.25}, {"review": 1.0}]
    assert unjudged == [*turns, {"submit": 1.0, "layout": 1.0}]
    assert session.ledgers == [*turns, {"submit": 1.0, "layout": 1.0, "taste": 0.25}]
    assert sum(sum(turn.values()) for turn in session.ledgers) == session.reward
    assert session.ledger["taste"] == 0.25
    assert session.info()["verdict_taste"] == 0.5
    assert session.info()["text"] == session.text == "ab"


def test_no_document_outgrows_the_rules() -> None:
    session = Adding(TASK, Rules(max_chars=100))
    for _ in range(4):
        assert session.step(add("b" * 20)).error == "none"
    step = session.step(add("b" * 20))
    assert step.error == "too_large"
    assert "the text would have 101 characters, the limit is 100" in step.observation
    with pytest.raises(ValueError, match="one: the text has 101 characters"):
        Adding(SimpleNamespace(task_id="one", text="a" * 101), Rules(max_chars=100))


@pytest.mark.parametrize("outcome", [None, "done", ToolCall("submit")])
def test_an_invalid_result_of_act_does_not_submit(outcome: object) -> None:
    class Wrong(Adding):
        def act(self, call: ToolCall) -> Any:
            return outcome

    with pytest.raises(TypeError, match=r"act\(look\): expected Edit, Shown or FailedCall, got"):
        Wrong(TASK).step(tool_call("look"))


def test_an_unchanged_document_has_all_terms() -> None:
    session = Adding(TASK)
    session.step(tool_call("submit"))
    info = session.info()
    assert info["graded"]
    assert (info["score"], info["reward_taste"]) == (session.score, 0.0)

    class Misspelt(Adding):
        missing: Ledger = {"tatse": -1.0}  # noqa: RUF012

    with pytest.raises(ValueError, match="unchanged: expected taste; got tatse"):
        Misspelt(TASK).step(tool_call("submit"))


@pytest.mark.parametrize("taste", [2.0, -1.5, float("nan")])
def test_verdicts_lie_between_minus_one_and_one(taste: float) -> None:
    session = Adding(TASK)
    session.step(add("b"))
    session.step(tool_call("submit"))
    with pytest.raises(ValueError, match="verdict: taste: expected -1 to 1"):
        session.grade(Taste(taste))
    assert session.needs_verdict


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"editors": frozenset({"ad"})}, "editors: expected names of tools in `toolbox`; got ad"),
        ({"verdict_weights": {"tast": 1.0}}, "expected fields of the verdict; got tast"),
        ({"verdict_weights": {"taste": 0.0}}, "taste: expected a positive multiple of 0.25"),
        ({"noun": "lines"}, "noun: expected a name that `info` does not use; got lines"),
    ],
)
def test_an_invalid_domain_is_an_error_at_its_definition(
    parts: dict[str, object], told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        type("Wrong", (Adding,), parts)


def test_missing_parts_of_a_domain_are_named() -> None:
    with pytest.raises(TypeError, match="Bare: expected the attributes editors, noun, system_p"):
        type("Bare", (EditSession,), {})


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        (schema("a", "", {"b": {"type": "boolean"}}, []), "expected type 'string' or 'integer'"),
        (schema("a", "", {}, ["b"]), "a: b is required, but is not in properties"),
        (schema("submit", "", {}, []), "submit occurs twice"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused(tool: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Toolbox(schema("submit", "", {}, []), tool)
