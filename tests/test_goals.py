"""Goals and budgets: their grammar, and when they end a run."""

from typing import Any

import pytest

from learners.config import Config, ConfigError
from learners.goals import End, budget, check_names, conditions, ended, spent

GOAL = conditions("eval.reward >= 6 and eval.submit_rate > .95", "goal")


def evaluated(*rewards: float, submit_rate: float = 1.0) -> list[dict[str, Any]]:
    """Evaluations after steps 0, 10, 20 and so on."""
    rows = enumerate(rewards)
    return [{"step": 10 * n, "reward": r, "submit_rate": submit_rate} for n, r in rows]


def steps(count: int, **last: float) -> list[dict[str, float]]:
    rows = [{"step": float(n + 1), "sampled_tokens": 100.0} for n in range(count)]
    rows[-1] |= last
    return rows


@pytest.mark.parametrize(
    ("text", "names", "limits"),
    [
        ("", [], []),
        ("eval.reward >= 6", ["eval.reward"], [6]),
        (" tokens<=5e6  and hours < 1.5 ", ["tokens", "hours"], [5e6, 1.5]),
        ("a > -.5 and b >= 5_000", ["a", "b"], [-0.5, 5000]),
        ("a > 1_0.5e-1", ["a"], [1.05]),
    ],
)
def test_conditions_are_joined_by_and(text: str, names: list[str], limits: list[float]) -> None:
    found = conditions(text, "goal")
    assert [one.name for one in found] == names
    assert [one.limit for one in found] == limits


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"goal": "eval.reward"}, "goal: expected conditions such as .* got 'eval.reward'"),
        ({"goal": "eval.reward == 6"}, "got 'eval.reward == 6'"),
        ({"goal": "eval.reward >= nan"}, "got 'eval.reward >= nan'"),
        ({"goal": "eval.reward >= 1e999"}, "got 'eval.reward >= 1e999'"),
        ({"budget": "tokens <= 1e999"}, "got 'tokens <= 1e999'"),
        ({"goal": "eval.reward >= 1__0"}, "got 'eval.reward >= 1__0'"),
        ({"budget": "tokens <= _1"}, "got 'tokens <= _1'"),
        ({"goal": "a > 1 or b > 2"}, "got 'a > 1 or b > 2'"),
        ({"goal": "__import__('os') > 1"}, "expected conditions"),
        ({"goal": "eval.reward > 1", "eval_every": 0}, "expected eval_every >= 1, got 0"),
        ({"budget": "token <= 5"}, "one of tokens, hours, .* got 'token'; did you mean 'tokens'?"),
        ({"budget": "tokens >= 5"}, "expected 'tokens <= NUMBER', got 'tokens >= 5'"),
    ],
)
def test_another_form_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Config(**settings)


def test_an_unknown_figure_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(
        ConfigError, match=r"one of eval.reward, eval.score; got 'eval.submit_rate'"
    ):
        check_names(GOAL, ["eval.reward", "eval.score"], "goal")


def test_a_goal_is_reached_when_it_holds_twice_in_a_row() -> None:
    assert ended(GOAL, (), 50, steps(20), evaluated(1, 6.5, 5, 7)) is None
    text = "the goal is reached: eval.reward >= 6 and eval.submit_rate > 0.95 after steps 10 and 20"
    assert ended(GOAL, (), 50, steps(20), evaluated(1, 6, 7)) == End("goal", text)
    assert ended(GOAL, (), 50, steps(20), evaluated(6, 7, submit_rate=0.9)) is None
    # evaluations may end in another order, and what was reached stays reached
    assert ended(GOAL, (), 50, steps(40), evaluated(1, 6, 7, 2)[::-1]) == End("goal", text)


def test_a_goal_can_be_a_grade_of_the_judge_and_fails_without_a_figure() -> None:
    goal = conditions("eval.verdict_clarity >= 0.5", "goal")
    assert ended(goal, (), 9, [], evaluated(1, 2)) is None
    graded = [{**one, "verdict": {"clarity": 0.5}} for one in evaluated(1, 2)]
    assert ended(goal, (), 9, [], graded)


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ("tokens <= 300", None),
        ("tokens < 300", "300 tokens, expected < 300"),
        ("hours <= 2 and tokens <= 299", "300 tokens, expected <= 299"),
        ("hours <= 1", "1.5 hours, expected <= 1"),
        ("judge_dollars <= 2", "2.25 judge_dollars, expected <= 2"),
        ("judge_tokens <= 1e3", None),
    ],
)
def test_a_budget_ends_a_run_after_the_step_that_exceeds_it(limit: str, told: str | None) -> None:
    rows = steps(3, seconds_total=5400.0, judge_tokens=1e3, judge_dollars=2.25)
    end = ended((), budget(limit), 4, rows, [])
    assert end == (End("budget", f"the budget is used up: {told}") if told else None)
    assert ended((), budget(limit), 3, rows, []) is None, "all steps are done"
    assert ended((), budget(limit), 4, [], []) is None


def test_a_budget_ends_a_run_whose_judge_has_unknown_costs() -> None:
    end = ended((), budget("judge_dollars <= 2"), 4, steps(3, judge_tokens=1e3), [])
    assert end
    assert end.text.startswith("the budget cannot be kept: judge_dollars is unknown")


def test_tokens_of_replaced_groups_are_spent_too() -> None:
    assert spent(steps(2, replaced_tokens=50.0))["tokens"] == 250
