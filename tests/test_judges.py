"""The judges' protocol: specs, verdicts from any thread or loop, failures that stay failures."""

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from conftest import BEST, WORST, make_task
from fake_judges import MODEL
from model_answers import FakeAsks, gullible

from resume_gym import Task, Verdict, load_tasks
from resume_gym.judges import AsyncJudge, JudgeError, JudgeRefused, as_async, make_judge
from resume_gym.judges.llm_judge import ModelJudge
from resume_gym.llm import ModelError
from resume_gym.llm.loop import submit
from resume_gym.testing import check_judge

TASK = make_task()
MINI = load_tasks("mini", "eval")[0]


class Waiting(AsyncJudge):
    """Says what the text tells it to, once all that were asked together are there."""

    name = "waiting"

    def __init__(self, together: int = 1) -> None:
        self.barrier = asyncio.Barrier(together)

    async def averdict(self, task: Task, revised: str) -> Verdict:
        await self.barrier.wait()
        if revised == "refuse":
            raise JudgeRefused("no")
        if revised == "break":
            raise RuntimeError("a mistake in the code")
        return BEST if revised == "good" else WORST


def test_verdicts_run_concurrently_from_any_thread() -> None:
    judge = Waiting(together=40)
    with ThreadPoolExecutor(40) as threads:
        said = list(threads.map(lambda i: judge.judge(TASK, "good" if i % 2 else "bad"), range(40)))
    assert said == [WORST, BEST] * 20


def test_a_group_has_a_verdict_or_an_error_per_member() -> None:
    async def ask(group: Sequence[str]) -> list[Verdict | JudgeError]:
        return await Waiting(len(group)).averdicts(TASK, group)

    good, refused, bad = asyncio.run(ask(["good", "refuse", "bad"]))
    assert (good, bad) == (BEST, WORST)
    assert isinstance(refused, JudgeRefused)
    with pytest.raises(RuntimeError, match="mistake"):
        asyncio.run(ask(["good", "break"]))


def test_an_unknown_error_of_a_model_is_an_error_of_the_judge() -> None:
    asks = FakeAsks(lambda prompt: ModelError("out of order"))
    # a StopIteration in a coroutine would reach the caller as a RuntimeError
    with pytest.raises(JudgeError, match="out of order"):
        ModelJudge(asks).judge(MINI, MINI.resume.replace("the", "a", 1))


def model() -> dict[str, Any]:
    """A model that prefers whatever is not the original."""
    believe = gullible(MINI.resume)
    return {"name": MODEL, "asks": FakeAsks(lambda prompt: believe(prompt.user))}


@pytest.mark.parametrize(
    "spec",
    [
        "rubric",
        model(),
        {"name": "votes", "judge": model()},
        {"name": "tiers", "local": "rubric", "frontier": model()},
        {"name": "pairwise", "judge": model(), "weight": 1.0},
        {"name": "listwise", "judge": model()},
        {"name": "listwise", "judge": "rubric"},
    ],
    ids=lambda spec: spec if isinstance(spec, str) else spec["name"],
)
def test_every_judge_keeps_the_contracts(spec: str | dict[str, Any]) -> None:
    check_judge(make_judge(spec), [MINI])
    check_judge(as_async(make_judge(spec)), [MINI])


def _child(answer: Path) -> None:
    answer.write_text(str(as_async(make_judge("rubric")).judge(TASK, TASK.resume).hallucination))


def test_a_fork_judges_in_a_loop_of_its_own(tmp_path: Path) -> None:
    as_async(make_judge("rubric")).judge(TASK, TASK.resume)  # the parent has a loop now
    file = tmp_path / "said"
    child = get_context("fork").Process(target=_child, args=(file,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert file.read_text() == "1"


def test_specs_may_be_json() -> None:
    assert make_judge('{"name": "rubric"}').name == "rubric"
    with pytest.raises(ValueError, match="expected JSON"):
        make_judge('{"name": "rubric"')
    with pytest.raises(ValueError, match="expected module:name or one of rubric, gemini"):
        make_judge('{"name": "gpt"}')
    with pytest.raises(ValueError, match=r"one of rubric.*did you mean 'rubric'"):
        make_judge("rubrik")
    with pytest.raises(ValueError, match="maximum recursion depth exceeded"):
        make_judge('{"name":' * 9_999)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise SystemExit(0)", "broken0 cannot be imported: SystemExit: 0"),
        ("def (", r"broken1 cannot be imported: SyntaxError: .*broken1.py, line 1"),
        ("import json\nfrom json import nothing", "cannot import name 'nothing'"),
        ("class Judge:\n    def __init__(self): 1 / 0", "': ZeroDivisionError: division"),
        ("def Judge(): raise SystemExit(0)", "': SystemExit: 0"),
    ],
)
def test_a_custom_judge_that_cannot_be_made_is_named(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = next((word for word in message.split() if word.startswith("broken")), "broken")
    (tmp_path / f"{name}.py").write_text(code)
    try:
        with pytest.raises(ValueError, match=f"judge '{name}:Judge.*{message}"):
            make_judge(f"{name}:Judge")
    finally:
        sys.modules.pop(name, None)


def test_a_judge_that_exits_ends_neither_the_process_nor_the_loop() -> None:
    class Exits(AsyncJudge):
        name = "exits"

        async def averdict(self, task: Task, revised: str) -> Verdict:
            raise SystemExit(0)

    for _ in range(2):
        with pytest.raises(RuntimeError, match="SystemExit: 0"):
            submit(Exits().averdicts(TASK, [TASK.resume] * 2)).result(60)
    assert submit(as_async(make_judge("rubric")).averdict(TASK, TASK.resume)).result(60)


def test_a_custom_judge_is_named_by_module() -> None:
    judge = make_judge({"name": "scripted:FixedJudge", "answers": [WORST]})
    assert judge.judge(TASK, TASK.resume) == WORST
    with pytest.raises(ValueError, match=r"no_such_module:Judge': needs no_such_module$"):
        make_judge("no_such_module:Judge")
    with pytest.raises(ValueError, match="expected an attribute `name` and a method `judge`"):
        make_judge("json:JSONDecoder")
    with pytest.raises(ValueError, match="has no attribute 'Nobody'"):
        make_judge("scripted:Nobody")
