"""NeMo Gym: the four servers of the package's configuration, around a model that says scripts.

They run in one thread, in the loop of the library's HTTP client.
"""

import asyncio
import atexit
import json
from contextlib import ExitStack
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Thread
from typing import Any

import uvicorn
from environment_servers.single_agent_turn_legacy.app import SingleAgentTurnLegacyEnvironmentServer
from nemo_gym import server_utils
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.global_config import GlobalConfigDictParser, get_first_server_config_dict
from omegaconf import OmegaConf
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.vllm_model.app import VLLMModel
from scripts import as_calls
from verifiers_eval import Messages, served

from resume_gym.integrations.nemo_gym import _OVER, ResumeGymServer, write_rows
from resume_gym.testing import Played, Script

PACKAGE = Path(__file__).parents[2] / "examples" / "packages" / "nemo_gym"
CONFIGS = (
    str(PACKAGE / "resources_servers" / "resume_edit" / "configs" / "resume_edit.yaml"),
    "responses_api_models/vllm_model/configs/vllm_model.yaml",
)
SERVERS: dict[str, Any] = {
    "resume_edit": ResumeGymServer,
    "resume_edit_simple_agent": SimpleAgent,
    "policy_model": VLLMModel,
    "resume_edit_environment_server": SingleAgentTurnLegacyEnvironmentServer,
}
scripts: list[Script] = []  # those that the model says now, each on its own task
_task_index = count()
_running = ExitStack()
atexit.register(_running.close)


def say(messages: Messages) -> dict[str, Any]:
    """Say what is in the task's script; after the end, only that it is the end."""
    (script,) = [one for one in scripts if first(one)[1]["content"] == messages[1]["content"]]
    turn = sum(message["role"] == "assistant" for message in messages)
    if turn < len(script.actions):
        return as_calls(script.actions[turn])
    assert messages[-1]["content"].endswith(_OVER), "asked once more before the end"
    return {"content": "Done."}


@cache
def loop() -> asyncio.AbstractEventLoop:
    """The loop of all servers and of the library's HTTP client, in a thread."""
    made = asyncio.new_event_loop()
    Thread(target=made.run_forever, daemon=True).start()

    async def client() -> Any:
        config = server_utils.GlobalAIOHTTPAsyncClientConfig()
        return server_utils.set_global_aiohttp_client(config)

    def stop() -> None:
        asyncio.run_coroutine_threadsafe(session.close(), made).result()
        server_utils._GLOBAL_AIOHTTP_CLIENT = None  # or the library closes it in another loop

    session = asyncio.run_coroutine_threadsafe(client(), made).result()
    _running.callback(stop)
    return made


@cache
def model() -> str:
    """The URL of the model; it stays."""
    return _running.enter_context(served(lambda messages: say(messages)))


@cache
def running(env_id: str, judge: str, options: str) -> server_utils.ServerClient:
    """A client of four servers."""
    made = {"env_id": env_id, "options": {"judge": judge, **json.loads(options)}}
    policy = {"policy_base_url": model(), "policy_api_key": "-", "policy_model_name": "script"}
    server = {"resume_edit": {"resources_servers": {"resume_edit": made}}}
    chosen = OmegaConf.create({"config_paths": CONFIGS, **policy, **server})
    every = GlobalConfigDictParser().parse_no_environment(chosen)
    head = BaseServerConfig(host="127.0.0.1", port=0)
    client = server_utils.ServerClient(head_server_config=head, global_config_dict=every)
    for name, cls in SERVERS.items():
        settings = OmegaConf.to_container(get_first_server_config_dict(every, name), resolve=True)
        config = cls.model_fields["config"].annotation.model_validate({**settings, "name": name})
        app = cls(config=config, server_client=client).setup_webserver()
        serving = uvicorn.Config(app, config.host, config.port, log_level="warning")
        asyncio.run_coroutine_threadsafe(uvicorn.Server(serving).serve(), loop())
    return client


def post(client: server_utils.ServerClient, name: str, path: str, body: Any) -> tuple[int, str]:
    """The status and the text that a server answers."""

    async def ask() -> tuple[int, str]:
        answer = await client.post(name, path, json=body)
        return answer.status, (await answer.read()).decode()

    return asyncio.run_coroutine_threadsafe(ask(), loop()).result(120)


@cache
def rows(env_id: str, options: str) -> dict[str, Any]:
    """The rows of the dataset by task."""
    with NamedTemporaryFile("r", encoding="utf-8") as file:
        write_rows(file.name, env_id, **json.loads(options))
        return {row["task_id"]: row for row in map(json.loads, file)}


def row_of(script: Script) -> dict[str, Any]:
    """The row of the script's task."""
    row: dict[str, Any] = rows(script.env_id, json.dumps(script.options))[script.task_id]
    return row


def first(script: Script) -> Messages:
    """The messages before the agent's first."""
    messages: Messages = row_of(script)["responses_create_params"]["input"]
    return messages


def play(script: Script, judge: str) -> Any:
    """The row of results, after `/run` of the environment server."""
    client = running(script.env_id, judge, json.dumps(script.options))
    row = {**row_of(script), "_ng_task_index": next(_task_index), "_ng_rollout_index": 0}
    scripts[:] = [script]
    status, text = post(client, "resume_edit_environment_server", "/run", row)
    assert status == 200, text
    return json.loads(text)


def played(result: Any) -> Played:
    """What the library was given."""
    if result.get("mask_sample") or "_ng_failure_class" in result:
        raise RuntimeError(str(result.get("failure_reason") or result))
    session, terms = result["session"], result["reward_components"]
    assert terms == {name: result[f"reward_{name}"] for name in terms}
    rewards = [sum(turn.values()) for turn in session["ledgers"]]
    return Played(session["task_id"], rewards, result["reward"], session["text"], terms)


PLAYERS = {"simple agent": lambda script, judge: played(play(script, judge))}
CALLS_ONLY = ("simple agent",)
