"""verifiers 0.3: what users and trainers of the library see of the environment."""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import verifiers as vf
import verifiers_classic_eval
from players_verifiers import as_calls, as_text, script_of
from players_verifiers_classic import play, played
from scripts import SCRIPTS
from verifiers_eval import served

from resume_gym.testing.adapters import ENV, UNAVAILABLE, play_bare


def test_the_example_prints_what_it_says() -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        verifiers_classic_eval.main()
    document = (verifiers_classic_eval.__doc__ or "").splitlines()
    lines = said.getvalue().splitlines()
    assert [f"    {line}" for line in lines] == document[-len(lines) :]


def test_the_command_evaluates_and_saves_results(tmp_path: Path) -> None:
    script = SCRIPTS[0]
    with served(script_of(script, as_calls)) as url:
        command = [str(Path(sys.executable).parent / "vf-eval"), "resume-edit", "-m", "m"]
        command += ["-a", json.dumps({"gym_id": ENV}), "-n", "1", "-r", "2", "-b", url]
        command += ["-k", "NO_KEY", "-s", "-d", "-o", str(tmp_path), "-C", "record"]
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    (results,) = tmp_path.rglob("results.jsonl")
    outputs = [json.loads(line) for line in results.read_text().splitlines()]
    assert [output["reward"] for output in outputs] == [play_bare(script).total] * 2
    assert [output["info"]["task_id"] for output in outputs] == [script.task_id] * 2


def test_the_members_of_a_group_share_the_task_and_run_at_once() -> None:
    script = SCRIPTS[1]
    outputs = play(script, "rubric", members=16)
    assert [played(output) for output in outputs] == [play_bare(script)] * 16


def test_the_model_reads_the_tools_and_the_last_reply_is_kept() -> None:
    (output,) = play(SCRIPTS[0], "rubric", as_calls)
    assert [tool.name for tool in output["tool_defs"]] == ["str_replace", "review", "submit"]
    roles = [message["role"] for message in output["completion"]]
    assert roles == ["assistant", "tool"] * len(SCRIPTS[0].actions)
    assert output["completion"][-1]["content"] == output["record"]["observations"][-1]
    assert output["stop_condition"] == "has_final_env_response"


def test_an_episode_that_is_cut_off_is_an_error() -> None:
    env = vf.load_environment("resume-edit", gym_id=ENV)
    env.max_turns = 2
    with served(script_of(SCRIPTS[0], as_text)) as url:
        client = vf.ClientConfig(api_base_url=url, api_key_var="NO_KEY")
        results = env.evaluate_sync(client, "m", num_examples=1, rollouts_per_example=1)
    (output,) = results["outputs"]
    assert "cut off: max_turns_reached" in str(output["error"])
    assert output["reward"] == 0.0


def test_a_failed_judge_is_no_score_among_others() -> None:
    with pytest.raises(Exception, match="the judge is down"):
        play(SCRIPTS[0], UNAVAILABLE, members=4)
