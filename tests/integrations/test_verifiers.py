"""verifiers 0.4: what users and trainers of the library see of the environment."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
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

PACKAGE = Path(__file__).parents[2] / "examples" / "packages" / "verifiers"


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


class Hub(ThreadingHTTPServer):
    """A stand-in for the Environments Hub, which keeps what `prime env push` uploads."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Desk)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked: dict[str, Any] = {}
        self.files: list[bytes] = []


class Desk(BaseHTTPRequestHandler):
    server: Hub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked[self.path.rpartition("/")[2]] = json.loads(body or b"{}")
        ids = {"id": "e", "wheel_id": "w", "version_id": "v", "owner": {"name": "owner"}}
        answer = {**ids, "created": True, "upload_url": self.server.url, "success": True}
        self.reply(json.dumps({"data": answer}).encode())

    def do_PUT(self) -> None:
        self.server.files.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply(b"")

    def reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def test_the_hub_would_get_the_package_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "resume_edit"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with Hub() as hub:
        Thread(target=hub.serve_forever, args=(0.02,), daemon=True).start()
        command = [Path(sys.executable).parent / "prime", "env", "push", "--path", folder]
        place = {"HOME": str(tmp_path), "PRIME_API_BASE_URL": hub.url, "PRIME_API_KEY": "none"}
        variables = {**os.environ, **place, "PRIME_DISABLE_VERSION_CHECK": "1"}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
        hub.shutdown()
    assert done.returncode == 0, done.stdout + done.stderr
    assert hub.asked["resolve"]["name"] == "resume-edit"
    for asked in (hub.asked["wheels"], hub.asked["versions"]):
        assert asked["runtime_hint"] == "VERIFIERS_V1"
        about = asked["metadata"]
        assert about["license"] == "Apache-2.0"
        assert {"train", "eval"} <= set(about["tags"])
        assert set(about["requires_dist"]) == {"resume-gym", "verifiers>=0.4"}
    wheel, source = map(io.BytesIO, hub.files)
    assert "resume_edit.py" in zipfile.ZipFile(wheel).namelist()
    with tarfile.open(fileobj=source) as archive:
        assert set(archive.getnames()) == {"README.md", "pyproject.toml", "resume_edit.py"}
