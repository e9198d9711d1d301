import asyncio
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from scripted import CHAT, EDIT, SUBMIT, FixedJudge, Scripted
from test_orchestrator import make

from learners.build import make_curricula, make_workloads
from learners.config import Config
from learners.engines import Sampling
from learners.rollouts.curriculum import Curriculum, FreshCurriculum, LadderCurriculum
from learners.rollouts.orchestrator import Orchestrator
from learners.rollouts.trajectories import Trajectories
from learners.rollouts.workload import Workload
from resume_gym import Rules, load_tasks
from resume_gym.episode.document import wrapped_lines
from resume_gym.synthesis.ladder import GROUPS, climb
from resume_gym.synthesis.procedural import PAGE_WIDTH, SIZES, TOP_LEVEL, generate_task

LEVELS = range(1, TOP_LEVEL + 1)


@pytest.mark.parametrize("size", SIZES)
def test_flaws_and_lines_over_the_page_grow_with_the_level(size: str) -> None:
    page, flaws, over = SIZES[size].page_lines, [], []
    for level in LEVELS:
        tasks = [generate_task(3, n, "train", size, level) for n in range(6)]
        flaws.append(fmean(sum(not fix.needs_evidence for fix in one.fixes) for one in tasks))
        long = [one for one in tasks if one.weakness == "too_long"]
        over.append(fmean(wrapped_lines(one.resume, PAGE_WIDTH) - page for one in long))
    assert flaws == sorted(set(flaws))
    assert over[0] < over[-1]
    assert generate_task(3, 0, "train", size) == generate_task(3, 0, "train", size, None)
    with pytest.raises(ValueError, match="level from 1 to 5, got 6"):
        generate_task(3, 0, "train", size, 6)


def test_the_top_level_rises_and_falls() -> None:
    good, poor = [(1, 0.9)] * GROUPS, [(2, 0.3)] * GROUPS
    assert climb([]) == climb(good[1:]) == 1
    assert climb(good) == 2
    assert climb([*good, (1, 0.0), (1, 0.0)]) == 2, "lower levels do not count"
    assert climb(good + poor) == 1
    assert climb(good + [(2, 0.7)] * 5 * GROUPS) == 2, "between the limits it stays"
    assert climb([(level, 1.0) for level in LEVELS for _ in range(GROUPS)]) == TOP_LEVEL


def ladder(**changes: object) -> LadderCurriculum:
    settings = {"seed": 1, "groups": 8, "group_size": 4, "size": "mini", "lag": 1}
    settings["highest"] = lambda task: 6.5
    return LadderCurriculum(**{**settings, **changes})  # type: ignore[arg-type]


def test_levels_follow_a_policy_of_changing_skill() -> None:
    curriculum, tops, seen = ladder(), [], set()
    rewards: dict[int, dict[int, float]] = {}
    for step in range(1, 33):
        drawn = curriculum.draw([], step, rewards.__getitem__)
        tops.append(drawn.level)
        seen |= {one.task_id for one in drawn.tasks}
        reward = 6.0 if step <= 14 else 2.0
        rewards[step] = dict.fromkeys(curriculum.numbers(step), reward)
    assert max(filter(None, tops[:15])) >= 4
    assert tops[-1] == 1
    assert len(seen) == 32 * 8, "no task is played twice"


def test_a_resumed_run_draws_the_same_and_only_final_results_count() -> None:
    rewards = {n: dict.fromkeys(ladder().numbers(n), 6.0) for n in range(1, 9)}
    fresh = [ladder().draw([], step, rewards.__getitem__) for step in range(1, 11)]
    kept = ladder()
    assert fresh == [kept.draw([], step, rewards.__getitem__) for step in range(1, 11)]
    late = {n: dict.fromkeys(ladder().numbers(n), 6.0) for n in (1, 2)}
    assert ladder(lag=2).draw([], 5, late.__getitem__).level


def levels(folder: Path, highest: float, steps: int = 3) -> list[float]:
    """Return the top levels of steps in which all episodes are submitted unedited."""
    work = Workload(Rules(max_turns=3, page_lines=20), (), (), FixedJudge(), CHAT)
    sampling = Sampling(1.0, 64, CHAT.ends, ())
    drawn = ladder(group_size=2, lag=0, highest=lambda task: highest)
    engine, kept = Scripted(lambda key: (SUBMIT,)), Trajectories(folder)
    played = Orchestrator([work], [drawn], 1, sampling, 1.0, 9.0, engine, kept, print)
    return [asyncio.run(played.batch(n)).metrics["level"] for n in range(1, steps + 1)]


def test_a_run_climbs_on_what_it_has_stored(tmp_path: Path) -> None:
    assert levels(tmp_path / "poor", 100.0) == [1, 1, 1]
    climbed = levels(tmp_path / "good", 0.2, 4)
    assert climbed[:2] == [1, 2]
    assert levels(tmp_path / "good", 0.2, 4) == climbed, "read from the folder"


def test_the_source_ladder_makes_a_ladder() -> None:
    tasks = load_tasks("ladder-mini:5", "eval")
    work = Workload(Rules(max_turns=3, page_lines=20), (), tasks, FixedJudge(), CHAT)
    config = Config(tasks="ladder-mini:5", replace_equal=True)
    (made,) = make_curricula(config, [work])
    assert isinstance(made, LadderCurriculum)
    assert (made.size, made.sequence) == ("mini", 5)
    assert made.spare == made.groups == config.groups


def test_a_ladder_compares_each_reward_with_the_highest_of_its_task() -> None:
    config = Config(tasks="ladder-mini:5")  # pays by the line: harder tasks offer more
    (work,) = make_workloads(config)
    (made,) = make_curricula(config, [work])
    assert isinstance(made, LadderCurriculum)
    assert made.highest(generate_task(5, 0, "train", "mini", 5)) > 2 * made.highest(
        generate_task(5, 0, "train", "mini", 1)
    )
    top, rewards = 1, dict[int, dict[int, float]]()
    for step in range(1, 9):  # a policy that always earns what the easiest tasks offer
        drawn = made.draw([], step, rewards.__getitem__)
        rewards[step] = dict.fromkeys(made.numbers(step), 1.25)
        top = max(top, drawn.level or 0)
    assert top < TOP_LEVEL


def test_fresh_tasks_are_new_in_each_step_and_the_same_after_a_restart(tmp_path: Path) -> None:
    config = Config(groups=3, group_size=2, replace_equal=True)
    (work,) = make_workloads(config)
    (made,) = make_curricula(config, [work])
    assert isinstance(made, FreshCurriculum)
    assert made.size == "mini"
    drawn = [made.draw(work.tasks, step, {}.__getitem__) for step in (1, 2, 3)]
    tasks = [task for one in drawn for task in one.tasks]
    assert len({task.resume for task in (*tasks, *work.tasks)}) == 3 * 6 + len(work.tasks)
    assert all(task.split == "train" for task in tasks)
    assert len({one.seed for one in drawn}) == 3
    (again,) = make_curricula(config, make_workloads(config))
    assert again.draw(work.tasks, 2, {}.__getitem__) == drawn[1]
    (changed,) = make_curricula(replace(config, seed=2), [work])
    other = changed.draw(work.tasks, 2, {}.__getitem__)
    assert {task.resume for task in other.tasks}.isdisjoint(task.resume for task in tasks)
    assert [task.split for task in work.held_out] == ["eval"] * 40


def test_tasks_that_are_named_or_not_generated_are_not_replaced_by_fresh_ones(
    tasks_file: str,
) -> None:
    for changes in ({"tasks": tasks_file}, {"tasks": "mini"}, {"env": "guessing:Guessing-v0"}):
        config = Config(**changes)
        (made,) = make_curricula(config, make_workloads(config))
        assert type(made) is Curriculum


def test_equal_groups_are_replaced_and_counted(tmp_path: Path) -> None:
    # groups of four; in the first, all members do the same
    engine = Scripted(lambda key: (EDIT, SUBMIT) if key >= 4 and key % 2 else (SUBMIT,))
    made = make(engine, folder=tmp_path, replace_equal=True)
    one = asyncio.run(made.batch(2))
    assert [r.group for r in one.rollouts[::4]] == [7, 8, 9], "groups 6 to 8, and 9 instead of 6"
    assert one.metrics["replaced_groups"] == 1
    assert one.metrics["replaced_tokens"] > 0
    again = asyncio.run(make(engine, folder=tmp_path, replace_equal=True).batch(2))
    assert [r.record() for r in again.rollouts] == [r.record() for r in one.rollouts]
