"""What Gymnasium asks of an environment, and each pitfall of one whose texts are its spaces."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from conftest import BEST
from gymnasium.envs.registration import EnvSpec

from resume_gym import TaskError, tool_call
from resume_gym.env import ResumeEditEnv
from resume_gym.episode import rewards
from resume_gym.judges import JudgeUnavailable
from resume_gym.testing import check_env

ID, FULL_ID = "ResumeEdit-v0", "resume_gym:ResumeEdit-v0"
REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
BUILT = tool_call("str_replace", old="Helped build", new="Built")
# every warning but that of forking beside other libraries' threads, and but those of connections
# that judges of other tests have left to the garbage collector
pytestmark = pytest.mark.filterwarnings(
    "error", "ignore:This process .* is multi-threaded", "ignore:unclosed:ResourceWarning"
)


def judged(options: dict[str, Any], failures: int = 0) -> Any:
    """The best verdict, after some failures."""
    answers = [*[JudgeUnavailable("no answer")] * failures, BEST]
    return gym.make(ID, **{**options, "judge": {"name": "scripted:FixedJudge", "answers": answers}})


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# Registration


def test_spec_with_a_judge_and_its_options_survives_json(tasks_file: str) -> None:
    env = gym.make(FULL_ID, tasks=tasks_file, judge={"name": "rubric"}, match="fuzzy")
    assert env.spec
    spec = EnvSpec.from_json(json.dumps(json.loads(env.spec.to_json())))
    assert spec == env.spec
    assert gym.make(spec).reset(seed=4) == env.reset(seed=4)


def test_the_entry_point_is_lazy() -> None:
    heavy = "{'torch', 'rich', 'PIL', 'transformers', 'matplotlib', 'rapidfuzz', 'tomllib', "
    heavy += "'resume_gym.env', 'resume_gym.judges', 'resume_gym.synthesis', 'resume_gym.cli'}"
    assert python(f"import resume_gym, sys; print({heavy} & set(sys.modules))") == "set()\n"


def test_construction_is_cheap_and_reads_no_tasks(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text("no task\n")
    gym.make(ID, tasks="hf://no/such", judge="no such judge").close()
    env = gym.make(ID, tasks=str(file), judge="no such judge")
    with pytest.raises(TaskError, match=r"bad.jsonl"):
        env.reset()
    env.close()
    env.close()
    with pytest.raises(ValueError, match=r"judge: expected module:name or .*got 'rubik'"):
        gym.make(ID, judge="rubik").reset()


def test_tasks_of_which_none_fits_the_page_are_warned_of() -> None:
    made = gym.make("ResumeEditMini-v0", tasks="procedural:7:6")
    with pytest.warns(UserWarning, match="procedural:7:6 has fewer than .* but page_lines is 20"):
        made.reset()
    gym.make("ResumeEditMini-v0", tasks="procedural-mini:7:6").reset()
    gym.make("ResumeEdit-v0", tasks="procedural:7:6").reset()


def test_bad_arguments_are_errors_at_construction() -> None:
    with pytest.raises(TaskError, match="tasks: expected default, mini, procedural:SEED:COUNT"):
        gym.make(ID, tasks="nope")
    with pytest.raises(ValueError, match="render_mode: expected None, ansi, human, rgb_array"):
        ResumeEditEnv(render_mode="html")
    with pytest.raises(ValueError, match="judge: expected a name, a mapping or None"):
        ResumeEditEnv(judge=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("env_id", "split"), [(ID, "train"), ("ResumeEditMini-v0", "eval")])
def test_the_defaults_work(env_id: str, split: str) -> None:
    with gym.make(env_id, split=split) as env:
        observation, info = env.reset(seed=0)
        assert info["resume"].rstrip() in observation
        env.step(tool_call("str_replace", old=info["resume"], new=info["resume"] + "x"))
        assert env.step(SUBMIT)[4]["graded"]


# Pitfalls


@pytest.mark.parametrize("judge", [None, "rubric"])
def test_the_environment_keeps_its_contracts(tasks_file: str, judge: str | None) -> None:
    check_env(gym.make(ID, tasks=tasks_file, judge=judge))


@pytest.mark.parametrize(
    "env_id",
    [
        *(f"ResumeEdit{kind}Mini-v0" for kind in ("Evidence", "Feedback", "Net")),
        "examples.release_notes:ReleaseNotes-v0",
    ],
)
def test_the_other_environments_keep_the_contracts(env_id: str) -> None:
    check_env(env_id)


def test_the_last_info_has_the_verdict(options: dict[str, Any]) -> None:
    env = judged(options)
    env.reset()
    for action in ("hello", REVIEW, REVIEW, BUILT, SUBMIT):
        info = env.step(action)[4]
    assert info["graded"]
    assert info["episode_reward"] == -0.25 + 1.0 + 0.25 + 1.0 + 1.0 + 3.0
    assert info["verdict_clarity"] == 1.0


def test_an_unknown_task_is_named(env: gym.Env[str, str]) -> None:
    with pytest.raises(TaskError, match=r"'hand-3' is not among the 3 tasks of .*, split train"):
        env.reset(options={"task_id": "hand-3"})
    with pytest.raises(TaskError, match=r"task_id: \['hand-0'\] is not among the 3 tasks"):
        env.reset(options={"task_id": ["hand-0"]})


def test_a_step_before_the_first_reset_asks_for_it(env: gym.Env[str, str]) -> None:
    with pytest.raises(TypeError, match="action: expected a string, got 3"):
        env.unwrapped.step(3)
    with pytest.raises(ValueError, match="options: expected a dict, got 3"):
        gym.make(ID).reset(options=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="options: expected task_id, got 'tsk'"):
        env.reset(options={"tsk": "hand-0"})
    with pytest.raises(gym.error.ResetNeeded, match="call reset first"):
        env.unwrapped.step(REVIEW)


def test_a_pickled_copy_makes_its_judge_again(options: dict[str, Any]) -> None:
    env = judged(options)
    env.reset(seed=2)
    env.step(BUILT)
    twin = pickle.loads(pickle.dumps(env))
    assert twin.step(SUBMIT) == env.step(SUBMIT)


def test_a_failing_judge_raises_and_the_episode_is_graded_later(options: dict[str, Any]) -> None:
    env = judged(options, failures=2)
    env.reset()
    env.step(BUILT)
    with pytest.raises(JudgeUnavailable):
        env.step(SUBMIT)
    finished: ResumeEditEnv = env.unwrapped
    assert finished.session
    assert finished.session.needs_verdict
    with pytest.raises(gym.error.ResetNeeded):
        env.step(SUBMIT)
    with pytest.raises(JudgeUnavailable):
        finished.grade()
    assert finished.grade() == rewards.verdict_ledger(BEST)
    assert finished.session.reward == 0.25 + 1 + 1 + 3
    assert finished.grade() == {}


def test_without_a_judge_an_edited_episode_stays_ungraded(env: gym.Env[str, str]) -> None:
    env.reset()
    env.step(BUILT)
    info = env.step(SUBMIT)[4]
    assert (info["graded"], info["score"]) == (False, 0.0)
