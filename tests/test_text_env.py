"""Learners play any environment of texts, and domains of editing other than resumes."""

import asyncio
import json
import pickle
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from guessing import Failing, Guessing
from scripted import Scripted
from tiny import tiny_tokenizer

from learners import aipo
from learners.build import make_orchestrator, make_workloads
from learners.command_line import parse
from learners.config import Config, ConfigError
from learners.rollouts.batch import Batch
from learners.rollouts.rollout import EpisodeError
from learners.rollouts.text_env import Start, TextSession, opening
from learners.rollouts.tokens import ChatTokens
from learners.rollouts.trajectories import Trajectories
from learners.rollouts.workload import Workload
from resume_gym import Rules
from resume_gym.evaluation import Returns, Summary

CHAT = ChatTokens(tiny_tokenizer(), ())
GUESSING = "guessing:Guessing-v0"
NOTES = "examples.release_notes:ReleaseNotes-v0"
CONFIG = Config(
    env=GUESSING, groups=2, group_size=3, eval_tasks=2, eval_rollouts=2, max_staleness=0
)


def played(*actions: str, seed: int = 3) -> TextSession:
    session = TextSession(Start(GUESSING, seed), Rules(max_turns=4))
    for text in actions:
        session.step(text)
    return session


def test_an_episode_earns_what_its_environment_says() -> None:
    session = played()
    assert session.prompt == "Which digit?"
    assert session.system_prompt == "Guess the digit."
    heard = [session.step(text) for text in ("what", *map(str, range(10))) if not session.done]
    assert heard[0] == ("A digit, please.", -0.25, False)
    assert session.done
    assert session.turns == len(heard) <= 4
    assert session.reward == sum(one.reward for one in heard)
    assert session.ledgers == [{"reward": one.reward} for one in heard]
    with pytest.raises(RuntimeError, match="the episode is over"):
        session.step("1")


def test_forks_part_ways() -> None:
    session = played("what")
    twin = session.fork()
    twin.step("what")
    assert (session.turns, twin.turns, twin.reward) == (1, 2, -0.5)
    assert twin.prompt == session.prompt


def test_records_are_replayed_and_checked() -> None:
    record = json.loads(json.dumps(played("what", "0", "9", "what").record()))
    again = TextSession.replay(Start(GUESSING, 3), record)
    assert again.record() == record
    assert record["graded"]
    for changed in ({"text": "x"}, {"rewards": [9.0]}, {"task_id": "other"}):
        with pytest.raises(ValueError, match=rf"{GUESSING}/3"):
            TextSession.replay(Start(GUESSING, 3), {**record, **changed})


def test_environments_are_made_late_and_closed() -> None:
    Guessing.open = 0
    session = played()
    twin = session.fork()
    assert Guessing.open == 0
    session.step("what")
    twin.step("what")
    assert Guessing.open == 2
    twin.close()
    while not session.done:
        session.step("what")
    assert Guessing.open == 0
    json.dumps(session.record())


def test_a_played_session_can_be_pickled() -> None:
    session = played("what", "what", "what", "what")
    assert pickle.loads(pickle.dumps(session)).record() == session.record()


def test_groups_share_the_task_and_are_found_again(tmp_path: Path) -> None:
    (work,) = make_workloads(CONFIG)
    assert work.judge is None
    work = replace(work, chat=CHAT)  # the engine's own tokenizer speaks

    def batch(*turns: str) -> Batch:
        engine, kept = Scripted(lambda key: turns), Trajectories(tmp_path)
        config = replace(CONFIG, credit="edit")
        return asyncio.run(make_orchestrator(config, [work], engine, kept, print).batch(1))

    made = batch("what", "3", "what", "what")
    rollouts, figures = made.rollouts, made.summary
    assert len(rollouts) == 6
    for group in (rollouts[:3], rollouts[3:]):
        assert len({one.session.task.task_id for one in group}) == 1
        assert len({tuple(one.session.rewards) for one in group}) == 1  # type: ignore[attr-defined]
    assert type(figures) is Returns
    assert (figures.episodes, figures.tasks) == (6, 2)
    # without a judge, credit by edit has nothing to grade
    assert made.earned == [one.session.rewards for one in rollouts]  # type: ignore[attr-defined]
    assert [one.record() for one in batch().rollouts] == [one.record() for one in rollouts]
    assert len(Trajectories(tmp_path).graded(1)) == 6


def failing(
    faults: dict[int, Any],
    notes: list[str],
    seeds: range = range(4),
    kept: Trajectories | None = None,
) -> Batch:
    """A step of two groups of four episodes, of one turn each, with the faults of some steps."""
    Failing.faults, Failing.times = faults, count()
    opening.cache_clear()
    tasks = [Start("guessing:Failing-v0", seed) for seed in seeds]
    work = Workload(Rules(max_turns=3), tasks, tasks[:1], None, CHAT, TextSession, Returns)
    config = replace(CONFIG, env="guessing:Failing-v0", group_size=4)
    return asyncio.run(
        make_orchestrator(config, [work], Scripted(lambda key: ["yes"]), kept, notes.append).batch(
            1
        )
    )


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ConnectionError("gone"), "ConnectionError: gone"),
        (("Yes.", float("nan"), True, False, {}), "expected a finite reward"),
        ((3, 1.0, True, False, {}), "expected string observations"),
        (("half \ud83d", 0.0, False, False, {}), "surrogate"),
        (None, "TypeError"),
    ],
)
def test_an_environment_that_fails_loses_its_episode_only(fault: Any, told: str) -> None:
    notes: list[str] = []
    made = failing({2: fault, 5: fault}, notes)
    assert (len(made.rollouts), made.dropped_episodes, made.dropped_groups) == (6, 2, 0)
    assert [told in note for note in notes] == [True, True]
    assert ["Traceback" in note for note in notes] == [True, False], "each fault once"


def test_an_environment_that_cannot_start_loses_its_group_only() -> None:
    notes: list[str] = []
    made = failing({-1: {0}}, notes, range(2))
    assert (len(made.rollouts), made.dropped_episodes, made.dropped_groups) == (4, 4, 1)
    assert ["TimeoutError: no sandbox" in note for note in notes] == [True]


def test_an_episode_whose_environment_fails_in_a_resumed_run_is_played_again(
    tmp_path: Path,
) -> None:
    notes: list[str] = []
    whole = failing({}, notes, kept=Trajectories(tmp_path))
    again = failing({2: ConnectionError("gone")}, notes, kept=Trajectories(tmp_path, notes.append))
    assert [r.record() for r in again.rollouts] == [r.record() for r in whole.rollouts]
    assert ["played again: ConnectionError: gone" in note for note in notes] == [True]


def test_a_step_in_which_every_environment_fails_ends_with_its_fault() -> None:
    gone = dict.fromkeys(range(8), ConnectionError("gone"))
    with pytest.raises(EpisodeError, match=r"8 of 8 episodes failed, .* ConnectionError: gone"):
        failing(gone, [])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"env": "guessing:Guesing-v0"}, "'Guesing-v0'; did you mean 'Guessing-v0'"),
        ({"env": "no_such_module:X-v0"}, "cannot import 'no_such_module'"),
        ({"env": "CartPole-v1"}, "expected string actions"),
        ({"env": "guessing:Changing-v0"}, "expected equal results for equal seeds and actions"),
        ({"env": "guessing:Numbers-v0"}, "expected string observations, got type int"),
        ({"env": "guessing:Wanting-v0"}, "Wanting-v0 cannot be created: .*words"),
        ({"judge": "rubric"}, "judge: guessing:Guessing-v0 has no such setting"),
        ({"tasks": "mini"}, "tasks: guessing:Guessing-v0 has no such setting"),
        ({"env": NOTES, "tasks": "mini"}, "tasks: expected 'made', got 'mini'"),
        ({"env": NOTES, "judge": "editor"}, "judge: expected module:name or one of"),
    ],
)
def test_unsupported_environments_are_named(changes: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make_workloads(replace(CONFIG, **changes))


@pytest.mark.slow
@pytest.mark.parametrize(("env", "fields"), [(GUESSING, Returns), (NOTES, Summary)])
def test_the_main_job_trains_on_it(env: str, fields: type, tmp_path: Path) -> None:
    argv = ["--env", env, "--runs", str(tmp_path), "--name", "other", "--steps", "1", "--threads=1"]
    sizes = ["--groups", "2", "--group-size", "2", "--eval-tasks", "1", "--eval-rollouts", "2"]
    aipo.main(parse([*argv, *sizes, "--max-tokens", "12"]))
    after = json.loads((tmp_path / "other" / "after.json").read_text())
    fields(**after)
    # the run was started here, so its configuration is trusted
    assert parse(["--config", str(tmp_path / "other" / "config.toml")]).config.env == env
    (metrics,) = map(json.loads, (tmp_path / "other" / "metrics.jsonl").read_text().splitlines())
    assert ("verdict_coverage" in metrics) == (fields is Summary)
    assert ("submit_rate" in metrics) == (fields is Summary)
