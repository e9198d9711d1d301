"""verifiers 0.4: what users and trainers of the library see of the environment."""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import verifiers_eval
from players_verifiers import play, played, script_of
from scripts import MALFORMED, REVIEW, SCRIPTS, as_text
from transformers import AutoTokenizer
from verifiers.v1.utils import loaders
from verifiers.v1.utils.trace_store import TRACES_FILE
from verifiers_eval import evaluate, served

from resume_gym.testing import ENV, UNAVAILABLE, Script, play_bare


def test_the_installed_package_is_found_by_its_name() -> None:
    assert loaders.taskset_class("resume-edit").__name__ == "GymTaskset"
    assert loaders.environment_class("resume-edit").__name__ == "GymEnv"
    assert loaders.default_harness_id("owner/resume-edit@0.1.0") == "owner/resume-edit@0.1.0"


def test_the_example_prints_what_it_says() -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        verifiers_eval.main()
    lines, document = said.getvalue().splitlines(), (verifiers_eval.__doc__ or "").splitlines()
    assert [f"    {line}" for line in lines] == document[-len(lines) :]


def test_the_command_evaluates_and_writes_traces(tmp_path: Path) -> None:
    script = SCRIPTS[0]
    with served(script_of(script, as_text)) as url:
        told = f"resume-edit --env.taskset.gym-id {ENV} -n 1 -r 2 --no-push --no-rich -m m"
        where = f"--client.base-url {url} --client.api-key-var NO_KEY -o {tmp_path} --run.name one"
        command = [str(Path(sys.executable).parent / "vf-eval"), *told.split(), *where.split()]
        kwargs = ["--env.taskset.gym-kwargs", '{"judge": "rubric"}']
        subprocess.run([*command, *kwargs], check=True, capture_output=True)
    lines = (tmp_path / "one" / TRACES_FILE).read_text().splitlines()
    (first, second) = (json.loads(line)["traces"][0] for line in lines)
    assert first["task"]["data"]["task_id"] == second["task"]["data"]["task_id"] == script.task_id
    for trace in (first, second):
        rewards = [one["score"] * one["weight"] for one in trace["rewards"].values()]
        assert sum(rewards) == sum(trace["info"]["rewards"]) == play_bare(script).total
        assert trace["metrics"]["edits"] == 2


def test_the_members_of_a_group_share_the_task_and_run_at_once() -> None:
    script = SCRIPTS[1]
    episodes = play(script, "rubric", num_rollouts=16)
    assert [played(episode) for episode in episodes] == [play_bare(script)] * 16
    assert len({episode.task.hash for episode in episodes}) == 1


def test_the_model_reads_the_tools_and_the_reply_to_its_call() -> None:
    (episode,) = play(MALFORMED[0], "rubric")
    (trace,) = episode.traces
    assert [tool.name for tool in trace.tools] == ["str_replace", "review", "submit"]
    (branch,) = trace.branches
    roles = ["system", "user", "assistant", "user", "assistant", "user", "assistant"]
    assert [message.role for message in branch.messages] == roles
    assert "expected one <tool_call>" in branch.messages[3].content


def test_an_episode_without_a_verdict_is_an_error_that_can_be_graded_later() -> None:
    (episode,) = play(SCRIPTS[0], UNAVAILABLE)
    (trace,) = episode.traces
    assert not episode.ok
    assert trace.has_error
    assert trace.rewards == {}
    assert trace.info["session"]["actions"] == list(SCRIPTS[0].actions)
    assert not trace.info["session"]["graded"]


def test_an_episode_that_is_cut_off_is_an_error() -> None:
    (episode,) = play(SCRIPTS[0], "rubric", env={"agent": {"max_turns": 2}})
    (trace,) = episode.traces
    assert trace.has_error
    assert trace.rewards == {}
    assert "cut off" in str(trace.last_error)


def test_another_environment_is_chosen_by_its_id() -> None:
    taskset = {"id": "resume-edit", "gym_id": ENV, "gym_kwargs": {"max_turns": 3, "split": "eval"}}
    loaded = loaders.load_taskset(loaders.taskset_config_type("resume-edit")(**taskset))
    tasks = list(loaded)
    assert len(tasks) == 40
    assert tasks[0].data.prompt.splitlines()[-1] == "turns left: 3/3 | edits: 0"
    assert REVIEW not in tasks[0].data.prompt


@pytest.mark.parametrize("script", [SCRIPTS[1], *MALFORMED[:2]], ids=lambda script: script.name)
def test_a_trainer_gets_the_sampled_tokens_and_their_reward(script: Script, tmp_path: Path) -> None:
    nano = Path(__file__).parents[2] / "learners" / "nano" / "policy"
    tokenizer: Any = AutoTokenizer.from_pretrained(nano)
    names = ["<think>", "</think>", "<tool_response>", "</tool_response>", "<|endoftext|>"]
    tokenizer.add_tokens(names, special_tokens=True)  # which the renderer of Qwen3 asks for
    tokenizer.save_pretrained(tmp_path)
    said = [[*tokenizer.encode(action), tokenizer.eos_token_id] for action in script.actions]

    def vllm(request: dict[str, Any]) -> dict[str, Any]:
        turn = tokenizer.decode(request["token_ids"]).count("<|im_start|>assistant") - 1
        tokens = [{"token": f"token_id:{one}", "logprob": -0.5} for one in said[turn]]
        choice = {"token_ids": said[turn], "finish_reason": "stop", "logprobs": {"content": tokens}}
        return {"request_id": "1", "choices": [choice]}

    names = [script.task_id]
    with verifiers_eval.answering(vllm) as url:
        model = {"renderer_model_name": str(tmp_path), "renderer": {"name": "qwen3"}}
        client = {"type": "train", "base_url": url, "api_key_var": "NO_KEY", **model}
        (episode,) = evaluate(
            url, str(tmp_path), client=client, select={"include": {"names": names}}
        )
    (trace,) = episode.traces
    assert (trace.reward, trace.info["rewards"]) == (
        play_bare(script).total,
        play_bare(script).rewards,
    )
    sampled = {tuple(node.token_ids) for node in trace.nodes if node.sampled}
    assert all(any(node[-len(turn) :] == tuple(turn) for node in sampled) for turn in said)
