"""Several environments in one run: shares, what belongs to each of them, and resumed runs."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import jobs
import numpy as np
import pytest
from conftest import BEST, WORST, make_task
from guessing import Guessing
from huggingface_hub import ModelCard
from hypothesis import given
from hypothesis import strategies as st
from jobs import computed, episodes, rows
from rich.console import Console
from scripted import EDIT, REVIEW, SUBMIT, FixedJudge, Scripted
from tiny import tiny_tokenizer
from viewer_runs import MIXED, write_mixed_run

from learners import aipo
from learners.build import make_orchestrator, make_workloads
from learners.command_line import parse
from learners.config import Config, ConfigError
from learners.engines import RefusedError
from learners.planning.machine import Machine
from learners.planning.plan import RunPlan
from learners.planning.table import show
from learners.rollouts.batch import Batch
from learners.rollouts.curriculum import Curriculum, places_of
from learners.rollouts.orchestrator import Orchestrator
from learners.rollouts.tokens import ChatTokens
from learners.rollouts.trajectories import Trajectories
from learners.rollouts.workload import Workload
from resume_gym import Rules, Session, Task, TaskError, cli
from resume_gym.apps.viewer.data import FolderContents
from resume_gym.apps.viewer.listing import Listing
from resume_gym.apps.viewer.search import search
from resume_gym.judges import Judge

NET, EVIDENCE = MIXED
GUESSING = f"{Guessing.__module__}:Guessing-v0"
TIERS = '{"name": "tiers", "local": "rubric", "frontier": "rubric"}'
CONFIG = Config(env="A-v0:2,B-v0:1", groups=3, group_size=2, seed=5, timeout_s=30.0)
SEARCHING: Any = gymnasium.make(EVIDENCE).unwrapped


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ("A-v0:1e308,B-v0:1e308", "a share > 0 .at most 1e9. for .*, got 'A-v0:1e308'"),
        ("A-v0:0.7,B-v0", "expected ID:SHARE with a share > 0 .*environments, got 'B-v0'"),
        ("A-v0,B-v0", "got 'A-v0'"),
        ("A-v0:1,B-v0:x", "got 'B-v0:x'"),
        ("A-v0:1,B-v0:0", "got 'B-v0:0'"),
        ("A-v0:1,B-v0:-1", "got 'B-v0:-1'"),
        ("A-v0:1,B-v0:nan", "got 'B-v0:nan'"),
        ("A-v0:1,B-v0:inf", "got 'B-v0:inf'"),
        ("A-v0:1,0.3", "got '0.3'"),
        ("A-v0:1,", "got ''"),
        ("A-v0:1,B-v0:1,a_module:A-v0:1", "expected each environment once, got 'A-v0' twice"),
        ("A-v0:1", "expected a single environment without a share, got 'A-v0:1'"),
    ],
)
def test_invalid_shares_are_named(env: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"^env: .*{told}"):
        Config(env=env)


def test_shares_are_parts_of_their_sum_and_ids_may_name_a_module() -> None:
    assert Config(env=" A-v0:3, a_module:B-v0:1 ").environments == {
        "A-v0": 0.75,
        "a_module:B-v0": 0.25,
    }
    assert Config(env="a_module:B-v0").environments == {"a_module:B-v0": 1.0}


def test_an_unknown_id_among_several_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(["--env", "ResumeEditMini-v0:1,ResumeEditNetMini-v1:1"])
    assert "no environment is called 'ResumeEditNetMini-v1'; did" in capsys.readouterr().err


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 16), st.integers(0, 2**63)
)
def test_each_step_keeps_the_shares_and_no_environment_starves(
    weights: list[int], groups: int, seed: int
) -> None:
    shares = [one / sum(weights) for one in weights]
    counts = [
        [len(place) for place in places_of(shares, groups, seed, step)] for step in range(1, 301)
    ]
    for share, own in zip(shares, zip(*counts, strict=True), strict=True):
        wanted = share * groups
        assert all(wanted - 1 < count < wanted + 1 for count in own)
        assert abs(sum(own) - len(own) * wanted) < 8
        played = [0, *(step for step, count in enumerate(own, 1) if count), len(own)]
        assert all(later - earlier <= 3 / wanted + 1 for earlier, later in pairwise(played))
    assert all(sum(one) == groups for one in counts)


def test_places_lie_side_by_side() -> None:
    places = places_of([0.5, 0.2, 0.3], 10, 1, 7)
    assert [place for one in places for place in one] == [*range(10)]
    assert [*map(len, places)] == [5, 2, 3]


def test_a_single_environment_draws_as_ever() -> None:
    drawn = Curriculum(5, 3, 4, 2).draw(range(20), 7, {}.__getitem__)
    rng = np.random.default_rng([5, 7])
    chosen, seed = rng.choice(20, 3, replace=False).tolist(), int(rng.integers(2**62))
    assert (drawn.tasks, drawn.seed) == (chosen + rng.choice(20, 2).tolist(), seed)


# --- episodes -----------------------------------------------------------------------------------


def workload(
    env: str,
    kind: type[Session],
    judge: Judge,
    turns: int,
    tasks: Sequence[Task],
    held_out: Sequence[Task],
) -> Workload:
    chat = ChatTokens(tiny_tokenizer(), kind.toolbox.schemas)
    return Workload(Rules(max_turns=turns), tasks, held_out, judge, chat, kind, env=env)


def make(engine: Scripted, folder: Path | None = None, **changes: Any) -> Orchestrator:
    """Two environments with the same tasks; the second has the tool `search` and a stern judge."""
    tasks, held_out = [make_task(0)], [make_task(n, split="eval") for n in (7, 8, 9)]
    works = [
        workload("A-v0", Session, FixedJudge([BEST]), 3, tasks, held_out),
        workload("B-v0", SEARCHING.session_type, FixedJudge([WORST]), 4, tasks, held_out[:1]),
    ]
    kept = Trajectories(folder) if folder else None
    return make_orchestrator(replace(CONFIG, **changes), works, engine, kept, print)


def edits() -> Scripted:
    return Scripted(lambda key: (EDIT, SUBMIT))


def batch(made: Orchestrator, step: int = 1) -> Batch:
    return asyncio.run(made.batch(step))


def test_each_environment_has_its_tools_rules_and_judge() -> None:
    made = make(edits())
    one = batch(made)
    assert Counter(rollout.env for rollout in one.rollouts) == {"A-v0": 4, "B-v0": 2}
    texts = {rollout.env: tiny_tokenizer().decode(rollout.prompt) for rollout in one.rollouts}
    assert ["search" in text for text in texts.values()] == [False, True]
    found = {rollout.env: rollout.session for rollout in one.rollouts}
    assert [session.rules.max_turns for session in found.values()] == [3, 4]
    assert [session.verdict for session in found.values()] == [BEST, WORST]


def test_metrics_are_those_of_all_episodes_and_of_each_environment() -> None:
    one = batch(make(edits()))
    metrics, rewards = one.metrics, [rollout.reward for rollout in one.rollouts]
    assert metrics["tasks"] == 2, "the tasks of two environments differ, though their ids are equal"
    assert (metrics["A-v0/reward"], metrics["B-v0/reward"]) == (rewards[0], rewards[-1])
    assert metrics["reward"] == (rewards[0] + rewards[-1]) / 2
    assert (metrics["A-v0/groups"], metrics["B-v0/groups"]) == (2, 1)
    assert (metrics["A-v0/verdict_clarity"], metrics["B-v0/verdict_clarity"]) == (1, -1)
    assert {"A-v0/growth", "B-v0/edits", "growth"} <= metrics.keys()


def test_a_resumed_step_reads_the_same_episodes_and_words(tmp_path: Path) -> None:
    first = [batch(make(edits(), tmp_path), step) for step in (1, 2)]
    records = [*Trajectories(tmp_path).graded(1), *Trajectories(tmp_path).graded(2)]
    assert [one["env"] for one in records] == [
        rollout.env for whole in first for rollout in whole.rollouts
    ]
    engine = edits()
    again = [batch(make(engine, tmp_path), step) for step in (1, 2)]
    assert engine.seeds == [], "nothing is played again"
    for one, other in zip(first, again, strict=True):
        assert [r.record() for r in one.rollouts] == [r.record() for r in other.rollouts]
        assert {**one.metrics, "seconds_lag": 0} == {**other.metrics, "seconds_lag": 0}
    assert first[1].metrics["word_drift"] == 0
    with pytest.raises(ConfigError, match="from another run or step: expected env 'B-v0', got"):
        batch(make(edits(), tmp_path, env="A-v0:1,B-v0:2"))


def test_equal_groups_are_replaced_by_groups_of_their_environment() -> None:
    one = batch(make(edits(), replace_equal=True))
    assert len(one.replaced) == 3
    assert [rollout.group for rollout in one.rollouts[::2]] == [3, 4, 5]
    assert [rollout.env for rollout in one.rollouts[::2]] == ["A-v0", "A-v0", "B-v0"]


def test_with_credit_by_edit_groups_are_equal_only_if_each_turn_earned_the_same() -> None:
    swapped = Scripted(lambda key: (REVIEW, EDIT, SUBMIT) if key % 2 else (EDIT, REVIEW, SUBMIT))
    by_edit = batch(make(swapped, replace_equal=True, credit="edit"))
    assert len({one.reward for one in by_edit.rollouts if one.env == "A-v0"}) == 1
    assert not by_edit.replaced
    assert len(batch(make(swapped, replace_equal=True, credit="episode")).replaced) == 3


def test_drafts_are_graded_by_the_judge_of_their_environment() -> None:
    rollouts = batch(make(Scripted(lambda key: (EDIT, EDIT, SUBMIT)), credit="edit")).rollouts
    assert {one.env for one in rollouts if one.earned is not None} == {"A-v0", "B-v0"}
    # a first edit changes the verdict of the untouched page into that of the judge
    first = {one.env: (one.earned or [{}])[0] for one in rollouts}
    assert first["A-v0"]["hallucination"] == 2.0
    assert "hallucination" not in first["B-v0"]


def test_evaluations_have_the_figures_of_each_environment() -> None:
    found = asyncio.run(make(edits(), eval_rollouts=2).evaluate(3))
    assert (found.summary.episodes, found.summary.tasks) == (8, 4)
    by_env = found.by_env
    assert (by_env["A-v0/tasks"], by_env["B-v0/tasks"]) == (3, 1)
    assert found.summary.reward == (3 * by_env["A-v0/reward"] + by_env["B-v0/reward"]) / 4
    assert by_env["B-v0/verdict_clarity"] == -1
    assert found.summary.errors["A-v0/reward"] == 0
    assert "B-v0/reward" not in found.summary.errors, "a single task has no error"


def test_an_evaluation_needs_three_quarters_of_each_environment() -> None:
    engine = Scripted(lambda key: (RefusedError("too long"),) if key == 3 else (SUBMIT,))
    with pytest.raises(RefusedError, match="1 of 4 episodes failed"):
        asyncio.run(make(engine, eval_rollouts=1).evaluate(3))


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("envs", "changes", "told"),
    [
        (
            (EVIDENCE, NET),
            {"judge": TIERS, "credit": "edit"},
            f"^credit: .*{EVIDENCE} has the judge 'tiers",
        ),
        ((NET, GUESSING), {"judge": "rubric"}, f"^judge: {GUESSING} has no such setting"),
        (
            (EVIDENCE, NET),
            {"judge": TIERS, "credit": "episode"},
            f"^judge: .*; the environment is {NET}",
        ),
    ],
)
def test_an_error_names_the_environment_that_refuses_a_setting(
    envs: tuple[str, ...], changes: Mapping[str, Any], told: str
) -> None:
    env = ",".join(f"{one}:1" for one in envs)
    with pytest.raises((ConfigError, TaskError), match=told):
        make_workloads(Config(env=env, eval_tasks=1, **changes))


def test_a_goal_may_name_an_environment() -> None:
    config = Config(env=f"{NET}:1,{EVIDENCE}:1", goal=f"eval.{NET}/reward >= 1 and eval.reward > 2")
    assert [work.env for work in make_workloads(config)] == [NET, EVIDENCE]
    with pytest.raises(ConfigError, match=r"got 'eval\.verdict_improved'"):
        make_workloads(replace(config, goal="eval.verdict_improved >= 1"))


def test_a_dry_run_names_each_environment_and_its_share(tmp_path: Path) -> None:
    settings = {"steps": 3, "groups": 8, "group_size": 4, "eval_tasks": 10, "credit": "episode"}
    config = Config(env=f"{NET}:2,{EVIDENCE}:1", **settings)  # type: ignore[arg-type]
    plan = RunPlan(config, Machine.here())
    console = Console(file=(tmp_path / "out").open("w"), width=200)
    show(plan, console)
    console.file.close()
    lines = [" ".join(line.split()) for line in (tmp_path / "out").read_text().splitlines()]
    assert f"{NET} 66.7 % of the groups; new tasks in each step, 10 held-out" in " ".join(lines)
    assert f"{EVIDENCE} 33.3 % of the groups" in " ".join(lines)
    assert [one.training for one in plan.verdicts.values()] == [16 * 4, 8 * 4]
    assert f"Verdicts in {NET}" in lines
    assert "an evaluation 20 episodes; before and after, every 10 steps" in lines


# --- readers of a run's folder -------------------------------------------------------------------


def test_the_viewer_names_the_environment_of_each_episode(tmp_path: Path) -> None:
    write_mixed_run(tmp_path / "run")
    results = FolderContents(tmp_path / "run")
    results.refresh()
    assert [row.env for row in results.rows] == [NET, EVIDENCE]
    assert all(row.weakness for row in results.rows)
    prompts = results.index()["system_prompts"]
    assert prompts[EVIDENCE] == SEARCHING.session_type.system_prompt != prompts[NET]
    assert results.episode(1)["task"]
    assert len(search(results, "mini-train-0-000005")["matches"]) == 2
    assert Listing(tmp_path).index()["runs"][0]["env"] == f"{NET}:1,{EVIDENCE}:1"


def test_each_environment_is_graded_again_by_its_own_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_mixed_run(tmp_path / "run")
    assert cli.main(["rejudge", str(tmp_path / "run"), "--judge", "rubric", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [*told] == [NET, EVIDENCE]
    for env, result in told.items():
        assert result["env"] == env
        assert result["moves"] == {"training, again": []}
        assert FolderContents(tmp_path / "run-rejudged" / env).settings["env"] == env
    assert len(Listing(tmp_path).index()["runs"]) == 3


# --- a run --------------------------------------------------------------------------------------

MIX = f"{jobs.SHORT}:1,{NET}:1"
command = partial(
    jobs.command,
    **{"env": MIX, "groups": 2, "group-size": 3, "seed": 5, "temperature": 1.3, "threads": 1},
    **{"save-every": 1, "eval-every": 0},
)


def main(runs: Path, /, steps: int) -> None:
    aipo.main(parse(command(runs, steps=steps)[2:]))


@pytest.mark.slow
def test_a_resumed_run_has_the_result_of_an_uninterrupted_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    main(whole, 2)
    main(parts, 1)
    main(parts, 2)
    assert "resumed after step 1 of 2" in capsys.readouterr().out
    assert computed(parts) == computed(whole)
    assert any(step["gradient_norm"] > 0 for step in computed(whole))
    folders = [runs / "job" / "checkpoints" / "step-000002" for runs in (whole, parts)]
    saved = [{path.name: path.read_bytes() for path in one.iterdir()} for one in folders]
    assert saved[0] == saved[1]
    for step in (1, 2):
        played = episodes(whole, step)
        assert played == episodes(parts, step)
        assert {one["env"] for one in played.values()} == {jobs.SHORT, NET}
    assert rows(parts, "evaluations")[-1] == rows(whole, "evaluations")[-1]

    folder = whole / "job"
    last = rows(whole, "evaluations")[-1]
    told = f"({jobs.SHORT} {last[f'{jobs.SHORT}/reward']:.2f}, {NET} {last[f'{NET}/reward']:.2f})"
    assert told in (folder / "journal.md").read_text()
    assert f"| {NET} | " in ModelCard.load(folder / "model" / "README.md").text
