"""Inspect: what users of the library see of the environment."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import inspect_eval
import pytest
from inspect_ai import score
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.tool import ToolCall
from players_inspect import play
from scripts import MALFORMED, SCRIPTS, as_calls
from verifiers_eval import served

from resume_gym.integrations.inspect import ledger
from resume_gym.testing import ENV, play_bare


def test_the_example_prints_what_it_says() -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        inspect_eval.main()
    lines, document = said.getvalue().splitlines(), (inspect_eval.__doc__ or "").splitlines()
    assert [f"    {line}" for line in lines] == document[-len(lines) :]


def test_the_command_finds_the_task_by_its_name_and_scores_its_log_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_API_KEY", "none")
    script = SCRIPTS[0]

    def say(messages: list[dict[str, Any]]) -> dict[str, Any]:
        return as_calls(script.actions[sum(one["role"] == "assistant" for one in messages)])

    with served(say) as url:
        told = f"eval resume_gym/resume_edit -T env_id={ENV} -T split=train -T judge=rubric"
        told += f" --sample-id {script.task_id} --epochs 2 --log-dir logs --display plain"
        told += f" --model openai-api/local/m --model-base-url {url}"
        command = [str(Path(sys.executable).parent / "inspect"), *told.split()]
        # not in the checkout, whose metadata would hide that the package is installed
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    (path,) = tmp_path.glob("logs/*.eval")
    log, wanted = read_eval_log(path), play_bare(script)
    found = {one.name: one.metrics for one in log.results.scores} if log.results else {}
    assert {name: one["mean"].value for name, one in found.items() if name != "score"} == {
        "reward": wanted.total,
        **wanted.ledger,
    }
    assert found["reward"]["stderr"].value == 0
    again = score(log, ledger(ENV, split="train"), action="overwrite", display="none")
    assert again.results
    assert {one.name: one.metrics for one in again.results.scores} == found


def test_a_score_explains_itself() -> None:
    script = SCRIPTS[0]
    (sample,) = play(script, "rubric").samples or ()
    one = (sample.scores or {})["ledger"]
    assert one.answer == play_bare(script).text
    lines = (one.explanation or "").splitlines()
    assert any(line.startswith("- clarity: ") for line in lines)
    diff = lines[lines.index("```diff") : -1]
    assert {line[0] for line in diff[1:]} >= {"-", "+"}


def test_the_model_reads_the_tools_and_the_reply_to_its_call() -> None:
    (sample,) = play(MALFORMED[0], "rubric").samples or ()
    roles = [message.role for message in sample.messages]
    assert roles[:4] == ["system", "user", "assistant", "user"]
    assert "expected one <tool_call>" in sample.messages[3].text
    event = next(one for one in sample.events if one.event == "model")
    assert [tool.name for tool in event.tools] == ["str_replace", "review", "submit"]


def test_a_call_that_inspect_could_not_read_is_malformed() -> None:
    def say(*_: object) -> ModelOutput:
        output = ModelOutput.from_content("mock", "")
        output.usage = ModelUsage()
        bad = ToolCall(id="1", function="submit", arguments={}, parse_error="no JSON")
        output.message.tool_calls = [bad]
        return output

    log = inspect_eval.evaluate(get_model("mockllm/model", custom_outputs=say), limit=1)
    (sample,) = log.samples or ()
    value: Any = (sample.scores or {})["ledger"].value
    assert value["malformed"] == -0.25 * 6
    assert value["submit"] == 0


def test_an_episode_that_is_cut_off_has_no_score() -> None:
    log = play(SCRIPTS[0], "rubric", message_limit=4)
    (sample,) = log.samples or ()
    assert (sample.scores or {})["ledger"].explanation == "The episode was cut off."
    assert log.results
    assert all(one.scored_samples == 0 for one in log.results.scores)
