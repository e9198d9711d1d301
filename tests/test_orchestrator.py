import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from conftest import BEST, WORST, make_task
from scripted import CHAT, EDIT, REVIEW, SUBMIT, FixedJudge, Scripted

from learners.build import make_orchestrator
from learners.config import Config
from learners.engines import Engine, EngineError, RefusedError
from learners.rollouts import journal
from learners.rollouts.batch import Batch
from learners.rollouts.orchestrator import Orchestrator
from learners.rollouts.trajectories import Trajectories
from learners.rollouts.workload import Workload, floor_of
from resume_gym import Rules, Task, Verdict, tool_call
from resume_gym.judges import (
    AsyncJudge,
    Judge,
    JudgeError,
    JudgeMalformed,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeUnavailable,
    as_async,
)
from resume_gym.llm import Usage

CONFIG = Config(groups=3, group_size=4, seed=5, timeout_s=30.0, eval_rollouts=2)
TASKS = [make_task(number) for number in range(6)]


def make(
    engine: Engine,
    judge: Judge | None = None,
    folder: Path | None = None,
    note: Callable[[str], object] = print,
    **changes: Any,
) -> Orchestrator:
    held_out = [make_task(9, split="eval")]
    work = Workload(Rules(max_turns=3), TASKS, held_out, judge or FixedJudge(), CHAT)
    kept = Trajectories(folder) if folder else None
    return make_orchestrator(replace(CONFIG, **changes), [work], engine, kept, note)


def says(*script: str | Exception) -> Scripted:
    return Scripted(lambda key: script)


def batch(made: Orchestrator, step: int = 1) -> Batch:
    return asyncio.run(made.batch(step))


def texts(one: Batch) -> list[tuple[int, int, str]]:
    return [(r.group, r.member, r.session.task.task_id) for r in one.rollouts]


def test_a_step_and_the_seed_determine_the_episodes() -> None:
    first, again = batch(make(says(SUBMIT)), 3), batch(make(says(SUBMIT)), 3)
    assert texts(first) == texts(again)
    assert [group for group, _, _ in texts(first)] == [6] * 4 + [7] * 4 + [8] * 4
    assert len({task for _, _, task in texts(first)}) == 3, "no task twice in a step"
    assert texts(first)[::4] != texts(batch(make(says(SUBMIT)), 4))[::4]
    assert texts(first) != texts(batch(make(says(SUBMIT), seed=6), 3))


def test_all_episodes_are_played_at_once_and_come_back_in_order() -> None:
    engine = Scripted(lambda key: (REVIEW, EDIT, SUBMIT), lambda key: 0.04 * (11 - key % 12))
    one = batch(make(engine))
    assert engine.most == 12
    assert sorted(engine.gone, reverse=True) == engine.gone, "the last ones ended first"
    assert [r.member for r in one.rollouts] == [0, 1, 2, 3] * 3
    assert all(r.session.state.verdict == BEST for r in one.rollouts)
    assert engine.heard == {}


def test_an_engine_may_take_fewer_at_once() -> None:
    engine = says(REVIEW, SUBMIT)
    engine.max_concurrency = 5
    assert len(batch(make(engine)).rollouts) == 12
    assert engine.most == 5
    assert len(set(engine.seeds)) == 12 * 2, "each turn of each episode draws its own"


def test_refused_members_are_dropped_and_counted() -> None:
    refused = RefusedError("too long")
    engine = Scripted(lambda key: (refused,) if key in (0, 4, 5) else (SUBMIT,))
    one = batch(make(engine))
    # one of four may fail; of the second group two did
    assert [r.group for r in one.rollouts] == [0] * 3 + [2] * 4
    assert (one.dropped_episodes, one.dropped_groups) == (3, 1)
    assert one.metrics["tasks"] == 2


def test_a_step_without_any_group_raises_the_first_error_and_counts_them() -> None:
    engine = Scripted(lambda key: (RefusedError(f"too long: {key}"),) if key % 4 < 2 else (SUBMIT,))
    with pytest.raises(RefusedError, match="6 of 12 episodes failed, the first with: too long: 0"):
        batch(make(engine))


def test_an_engine_that_is_gone_ends_all() -> None:
    with pytest.raises(EngineError, match="gone"):
        batch(make(Scripted(lambda key: (EngineError("gone"),) if key == 7 else (SUBMIT,))))


@pytest.mark.parametrize(
    ("judge", "kind", "told"),
    [
        (FixedJudge([JudgeUnavailable("busy")]), JudgeUnavailable, "busy"),
        (FixedJudge([JudgeMalformed("no verdict")]), JudgeMalformed, "no verdict"),
        (FixedJudge(seconds=1.5), JudgeUnavailable, "has not answered in time"),
    ],
)
def test_a_judge_failure_is_not_a_number(
    judge: FixedJudge, kind: type[JudgeError], told: str, tmp_path: Path
) -> None:
    notes: list[str] = []
    changes = {"groups": 1, "group_size": 2, "timeout_s": 0.4}
    made = make(says(EDIT, SUBMIT), judge, tmp_path, notes.append, **changes)
    with pytest.raises(kind, match=told):
        batch(made)
    assert len(notes) == 2
    # what was played is graded later, and not played again
    engine = says()
    again = batch(make(engine, FixedJudge(), tmp_path, groups=1, group_size=2))
    assert [r.session.state.verdict for r in again.rollouts] == [BEST] * 2
    assert engine.seeds == []


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda: {}["clarity"], "raised KeyError: 'clarity'"),
        (lambda: None, "expected a Verdict, got None"),
        (lambda: Verdict(1, 5, 0, 0, 0, 0), "raised ValueError: clarity: expected -1, 0 or +1"),
    ],
)
def test_a_judge_with_a_fault_loses_the_episode_only(
    answer: Callable[[], Any], told: str, asynchronous: bool
) -> None:
    times = count()

    class Faulty(FixedJudge):
        def judge(self, task: Task, revised: str) -> Verdict:
            return answer() if next(times) in (2, 7) else BEST

    notes: list[str] = []
    judge = as_async(Faulty()) if asynchronous else Faulty()
    one = batch(make(says(EDIT, SUBMIT), judge, note=notes.append))
    assert len(one.rollouts) + one.dropped_episodes + 2 * one.dropped_groups == 12
    assert one.dropped_episodes == 2
    assert [told in note for note in notes] == [True, True]
    assert ["Traceback" in note for note in notes] == ["raised" in told, False], "each fault once"


def cut(folder: Path) -> tuple[Path, list[bytes]]:
    """Leave what a process writes that is killed at its eighth line; the file and all its lines."""
    path = Trajectories(folder).path(1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:7]) + lines[7][:50])
    return path, lines


def test_stored_episodes_are_not_played_again(tmp_path: Path) -> None:
    whole = batch(make(says(EDIT, SUBMIT), folder=tmp_path))
    path, lines = cut(tmp_path)
    assert len(lines) == 12
    engine, judge = says(EDIT, SUBMIT), FixedJudge()
    again = batch(make(engine, judge, tmp_path))
    assert [r.record() for r in again.rollouts] == [r.record() for r in whole.rollouts]
    assert len(engine.seeds) == 5 * 2
    assert len(judge.asked) == 5
    keys = {tuple(texts(again)[i][:2]) for i in range(12)}
    assert len(keys) == len(path.read_bytes().splitlines()) == 12, "nothing is there twice"


def repeating(*script: str) -> Scripted:
    engine = says(*script)
    engine.repeatable = True
    return engine


def test_an_engine_that_repeats_itself_repeats_an_interrupted_step(tmp_path: Path) -> None:
    """As a whole, since the others in a batch decide last bits; no verdict is asked again."""
    once = repeating(EDIT, SUBMIT)
    whole = batch(make(once, folder=tmp_path))
    path, lines = cut(tmp_path)
    engine, judge = repeating(EDIT, SUBMIT), FixedJudge()
    again = batch(make(engine, judge, tmp_path))
    assert [r.record() for r in again.rollouts] == [r.record() for r in whole.rollouts]
    assert engine.seeds == once.seeds
    assert len(judge.asked) == 5
    assert sorted(path.read_bytes().splitlines(keepends=True)) == sorted(lines)
    assert path.read_bytes().startswith(b"".join(lines[:7])), "the first ones stay as they were"
    idle = repeating()
    batch(make(idle, FixedJudge([WORST]), tmp_path))
    assert idle.seeds == [], "a step that has ended is not repeated"


def test_a_group_that_was_judged_is_not_judged_again_when_a_step_is_repeated(
    tmp_path: Path,
) -> None:
    whole = batch(make(repeating(EDIT, SUBMIT), Ranking(), tmp_path))
    path = Trajectories(tmp_path).path(1)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 24, "before their verdicts and with them"
    # of the last group two have ended
    path.write_bytes(b"".join(lines[:10] + lines[12:20]))
    judge = Ranking()
    again = batch(make(repeating(EDIT, SUBMIT), judge, tmp_path))
    assert [r.record() for r in again.rollouts] == [r.record() for r in whole.rollouts]
    assert judge.asked == [(again.rollouts[-1].session.task.task_id, 4)]
    assert sorted(path.read_bytes().splitlines(keepends=True)) == sorted(lines)


def test_a_verdict_on_another_text_does_not_count(tmp_path: Path) -> None:
    batch(make(says(EDIT, SUBMIT), folder=tmp_path))
    cut(tmp_path)
    other = tool_call("str_replace", old="Helped build", new="Made")
    again = batch(make(repeating(other, SUBMIT), FixedJudge([WORST]), tmp_path))
    assert all(r.session.state.verdict == WORST for r in again.rollouts)
    later = batch(make(says(), folder=tmp_path)).rollouts
    assert [r.record() for r in later] == [r.record() for r in again.rollouts]


def test_an_evaluation_plays_the_held_out_tasks_with_the_same_seeds() -> None:
    engine = says(EDIT, SUBMIT)
    engine.version = 6
    made = make(engine)

    async def twice() -> list[Any]:
        return list(await asyncio.gather(made.evaluate(2), made.evaluate(4), made.batch(1)))

    one, other, _ = asyncio.run(twice())
    assert one._replace(seconds=0) == other._replace(seconds=0)
    assert len(engine.gone) == len(set(engine.gone)) == 2 + 2 + 12, "no two have one key"
    assert one.summary.episodes == 2
    assert one.versions == (6, 6)


def test_an_evaluation_counts_its_turns_and_the_episodes_that_are_graded_or_failed() -> None:
    seen: list[str] = []

    def script(key: int) -> Sequence[str | Exception]:
        seen.append(made.evaluation)
        return (RefusedError("too long"),) if key == 0 else (EDIT, SUBMIT)

    made = make(Scripted(script, lambda key: 0.02 * key), eval_rollouts=4)
    assert asyncio.run(made.evaluate(2)).dropped_episodes == 1
    assert seen[0] == "evaluation: 0 of 4 episodes, 0 turns"
    assert seen[-1] == "evaluation: 3 of 4 episodes, 5 turns"
    assert made.evaluation == ""


def test_the_floor_costs_no_verdict_of_a_judge_that_may_ask_a_model() -> None:
    judge = FixedJudge()
    held_out = [make_task(9, split="eval")]
    work = Workload(Rules(max_turns=3), TASKS, held_out, judge, CHAT)
    floor = floor_of([work])
    assert floor is not None
    assert (floor.episodes, len(judge.asked)) == (1, 1)
    assert floor_of([replace(work, judge=as_async(judge))]) is None
    assert len(judge.asked) == 1


def test_an_evaluation_has_its_own_temperature() -> None:
    engine = says(SUBMIT)
    made = make(engine, temperature=0.9, eval_temperature=0.2)
    asyncio.run(made.evaluate(2))
    assert engine.temperatures == {0.2}
    asyncio.run(made.batch(1))
    assert engine.temperatures == {0.2, 0.9}


def test_the_episodes_of_an_evaluation_are_kept_once(tmp_path: Path) -> None:
    made = make(says(EDIT, SUBMIT), folder=tmp_path)
    asyncio.run(made.evaluate(20))
    file = tmp_path / "eval-000020.jsonl"
    lines = file.read_text().splitlines()
    records = [json.loads(line) for line in lines]
    # in the order in which verdicts arrive
    assert sorted((one["group"], one["member"]) for one in records) == [(0, 0), (0, 1)]
    assert all(one["graded"] and one["task_id"] == make_task(9).task_id for one in records)
    file.write_text(f"{lines[0]}\n{lines[1][:50]}")  # killed while it wrote the second
    asyncio.run(make(says(SUBMIT), folder=tmp_path).evaluate(20))
    again = [json.loads(line) for line in file.read_text().splitlines()]
    assert [len(one["actions"]) for one in again] == [1, 1], "none is from other weights"
    assert not list(tmp_path.glob("step-*"))


def test_an_evaluation_leaves_out_what_got_no_verdict_unless_it_is_much() -> None:
    refused = JudgeRefused("no")
    few, many = [refused, BEST, BEST, BEST], [refused, refused, BEST, BEST]
    made = make(says(EDIT, SUBMIT), Ranking(few), eval_rollouts=4)
    one = asyncio.run(made.evaluate(0))
    assert (one.summary.episodes, one.dropped_episodes) == (3, 1)
    made = make(says(EDIT, SUBMIT), Ranking(many), eval_rollouts=4)
    with pytest.raises(JudgeRefused, match="2 of 4 episodes failed, the first with: no"):
        asyncio.run(made.evaluate(0))


async def watched(made: Orchestrator) -> Batch:
    watch = asyncio.create_task(made.watchdog.watch())
    one = await made.batch(1)
    watch.cancel()
    return one


def test_judges_do_not_block_the_event_loop() -> None:
    """And while episodes wait for the engine; it is measured by the loop itself."""
    judge = FixedJudge(seconds=0.6)
    made = make(Scripted(lambda key: (EDIT, SUBMIT), lambda key: 0.05), judge)
    one = asyncio.run(watched(made))
    assert 0 < one.lag_s < 0.3, "a judge on the loop would hold it for 0.6 s"


def test_what_a_model_judge_has_cost_is_a_metric() -> None:
    judge = FixedJudge()
    judge.usage = Usage(9, 0, 800, 200, 1.5)  # type: ignore[attr-defined]
    metrics = batch(make(says(EDIT, SUBMIT), judge)).metrics
    assert (metrics["judge_tokens"], metrics["judge_dollars"]) == (1000, 1.5)
    judge.usage = Usage(9, 0, 800, 200, None)  # type: ignore[attr-defined]
    assert "judge_dollars" not in batch(make(says(EDIT, SUBMIT), judge)).metrics
    assert "judge_tokens" not in batch(make(says(EDIT, SUBMIT))).metrics
    judge.usage = Usage(9, 0, None, None, None)  # type: ignore[attr-defined]
    assert "judge_tokens" not in batch(make(says(EDIT, SUBMIT), judge)).metrics


def test_a_hanging_request_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "ALARM_S", 0.1)
    notes: list[str] = []
    slow = Scripted(lambda key: (EDIT, SUBMIT), lambda key: 0.5 if key < 2 else 0.0)
    asyncio.run(watched(make(slow, note=notes.append, groups=1)))
    assert all(one.startswith("An episode has waited") and "for the engine" in one for one in notes)
    assert any("(other waiting episodes: 1)" in one for one in notes)
    assert 1 <= len(notes) <= 4, "each wait is told once, of two turns of two episodes"


class Ranking(AsyncJudge):
    """Judges groups: what it is told to say of their members, call by call."""

    name = "ranking"
    grouped = True

    def __init__(self, *says: list[Verdict | JudgeError]) -> None:
        self.says = list(says)
        self.asked: list[tuple[str, int]] = []

    async def averdict(self, task: Task, revised: str) -> Verdict:
        raise AssertionError("members are not judged alone")

    async def averdicts(self, task: Task, group: Sequence[str]) -> list[Verdict | JudgeError]:
        self.asked.append((task.task_id, len(group)))
        return self.says.pop(0) if self.says else [BEST] * len(group)


def test_a_judge_of_groups_hears_of_all_members_at_once() -> None:
    judge = Ranking()
    engine = says(EDIT, SUBMIT)
    engine.max_concurrency = 5  # less than two groups
    one = batch(make(engine, judge))
    assert sorted(judge.asked) == sorted((r.session.task.task_id, 4) for r in one.rollouts[::4])
    assert all(r.session.state.verdict == BEST for r in one.rollouts)


def test_a_group_is_judged_again_as_a_whole_while_the_judge_is_busy(tmp_path: Path) -> None:
    refused = JudgeRefused("no")
    judge = Ranking([BEST, JudgeUnavailable("busy"), refused, BEST], [BEST, BEST, refused, BEST])
    one = batch(make(says(EDIT, SUBMIT), judge, tmp_path, groups=1))
    assert [number for _, number in judge.asked] == [4, 4]
    assert [r.member for r in one.rollouts] == [0, 1, 3]
    assert one.dropped_episodes == 1
    # the one without a verdict is kept, and judged later, with its group
    later = Ranking()
    again = batch(make(says(), later, tmp_path, groups=1))
    assert len(again.rollouts) == 4
    assert [number for _, number in later.asked] == [4]


def test_a_judge_that_cannot_judge_anything_ends_the_run_and_loses_nothing(tmp_path: Path) -> None:
    wrong = JudgeMisconfigured("401: check the key")
    for judge in (Ranking([wrong] * 2), FixedJudge([wrong])):
        folder = tmp_path / judge.name
        settings: dict[str, Any] = {"groups": 1, "group_size": 2}
        with pytest.raises(JudgeMisconfigured, match="check the key"):
            batch(make(says(EDIT, SUBMIT), judge, folder, **settings))
        engine = says(EDIT, SUBMIT)
        assert len(batch(make(engine, FixedJudge(), folder, **settings)).rollouts) == 2
        # at most the episode that was with a judge in a thread is played again
        assert len(engine.seeds) <= (2 if judge.name == "fixed" else 0)


def test_a_second_judge_measures_a_sample_and_changes_no_reward() -> None:
    def found(second: Judge | None, step: int = 1, every: int = 1) -> Batch:
        made = make(says(EDIT, SUBMIT), FixedJudge(), timeout_s=60.0)
        changes = {"second_judge": second, "second_judge_every": every}
        made._works[""] = replace(made._works[""], **changes)  # type: ignore[arg-type]
        return batch(made, step)

    alone, beside = found(None), found(FixedJudge([WORST]))
    # from the best to the worst of all verdicts is the whole range
    assert beside.measures == {
        **alone.measures,
        "second_judge_lead": 1.0,
        "second_judge_failed": 0,
    }
    assert beside.rewards.tolist() == alone.rewards.tolist()
    assert found(FixedJudge()).measures["second_judge_lead"] == 0.0
    due = (found(FixedJudge(), step, 3).measures for step in range(1, 8))
    assert ["second_judge_lead" in one for one in due] == [True, False, False] * 2 + [True]


def test_a_second_judge_that_fails_is_counted_and_never_a_number() -> None:
    notes: list[str] = []

    class Failing(FixedJudge):
        def judge(self, task: Task, revised: str) -> Verdict:
            if task.task_id in failing:
                raise JudgeUnavailable("busy")
            return WORST

    def found() -> Batch:
        made = make(says(EDIT, SUBMIT), FixedJudge(), note=notes.append, timeout_s=2.0)
        made._works[""] = replace(made._works[""], second_judge=Failing())
        return batch(made)

    failing = {task for _, _, task in texts(batch(make(says(SUBMIT))))[:1]}
    some = found()
    assert some.measures["second_judge_failed"] == 4, "all on one of three tasks"
    assert some.measures["second_judge_lead"] == 1.0, "of the others"
    failing = {task.task_id for task in TASKS}
    every = found()
    assert every.measures["second_judge_failed"] == 12
    assert "second_judge_lead" not in every.measures
    assert len(every.rollouts) == 12
    assert "The second judge failed on" in notes[0]
    assert "no verdict: busy" in notes[0]
