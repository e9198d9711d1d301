"""Evaluate a model with NeMo Gym; here, a server with the careful agent acts as the model.

    pip install nemo-gym==0.7.0 -e .  # Python 3.13; tox.toml has the packages for Python 3.11
    python examples/nemo_gym_eval.py

The example starts the servers by `gym env start` and plays ten episodes by `gym eval run`. The
servers use the Python of the example, so NeMo Gym installs no packages for them. It prints

    10 episodes, mean reward 5.90
    edit             0.85
    failed_edit      0.00
    malformed        0.00
    review           1.00
    submit           1.00
    no_submit        0.00
    layout           0.60
    hallucination    1.00
    clarity          0.25
    quantification   0.00
    jd_alignment     0.05
    action_verbs     0.15
    preference       1.00
"""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import gymnasium
from verifiers_eval import Messages, served

from resume_gym import Session
from resume_gym.agents import make_agent
from resume_gym.episode.tools import TOOLBOX, ToolCall, with_calls
from resume_gym.integrations.nemo_gym import write_rows
from resume_gym.support.command_line import parse_nothing

ENV = "ResumeEditMini-v0"
PACKAGE = Path(__file__).parent / "packages" / "nemo_gym"
SERVERS = (
    "resources_servers/resume_edit",
    "responses_api_agents/simple_agent",
    "responses_api_models/vllm_model",
    "environment_servers/single_agent_turn_legacy",
)


def careful(messages: Messages) -> dict[str, Any]:
    """Return the careful agent's next message in a chat."""
    env: Any = gymnasium.make(ENV).unwrapped
    sessions = (env.new_session(task.task_id) for task in env.tasks)
    session: Session = next(one for one in sessions if one.prompt == messages[1]["content"])
    for message in messages[2::2]:
        call = message["tool_calls"][0]["function"]
        session.step(with_calls("", [(call["name"], call["arguments"])]))
    if session.done:
        return {"content": "Done."}
    call = TOOLBOX.read(make_agent("careful")(session))
    assert isinstance(call, ToolCall)
    function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
    return {"tool_calls": [{"id": str(session.turns), "type": "function", "function": function}]}


def collect(url: str, folder: Path, tasks: int, repeats: int) -> list[dict[str, Any]]:
    """Return the results of the first tasks, each played `repeats` times by the model at `url`."""
    for name in SERVERS:
        (folder / "venvs" / name).mkdir(parents=True)
        (folder / "venvs" / name / ".venv").symlink_to(sys.prefix)
    write_rows(folder / "tasks.jsonl", ENV)
    gym, log = Path(sys.executable).with_name("gym"), folder / "log"
    with socket.create_server(("127.0.0.1", 0)) as free:
        head = f"++head_server.port={free.getsockname()[1]}"
    start = ["--search-dir", str(PACKAGE), "--resources-server", "resume_edit"]
    start += ["--model-type", "vllm_model", "--model", "careful", "--model-url", url]
    start += ["--model-api-key", "none"]
    start += ["++skip_venv_if_present=true", f"++uv_venv_dir={folder / 'venvs'}"]
    start += [f"++resume_edit.resources_servers.resume_edit.env_id={ENV}", head]
    run = ["--no-serve", "--agent", "resume_edit_simple_agent", "--input", "tasks.jsonl"]
    run += ["--output", "results.jsonl", "--limit", str(tasks), "--num-repeats", str(repeats), head]
    with log.open("w") as out:
        told: dict[str, Any] = {"cwd": folder, "stdout": out, "stderr": out}
        servers = subprocess.Popen([gym, "env", "start", *start], **told)
        try:
            while "servers ready!" not in log.read_text():
                assert servers.poll() is None, log.read_text()
                time.sleep(1)
            subprocess.run([gym, "eval", "run", *run], check=True, **told)
        finally:
            servers.send_signal(signal.SIGINT)
            servers.wait()
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def report(rows: list[dict[str, Any]]) -> str:
    """Return the mean of the reward and of each of its terms."""
    lines = [f"{len(rows)} episodes, mean reward {mean(row['reward'] for row in rows):.2f}"]
    for name in rows[0]["reward_components"]:
        lines.append(f"{name:15}{mean(row['reward_components'][name] for row in rows):6.2f}")
    return "\n".join(lines)


def main() -> None:
    with served(careful) as url, tempfile.TemporaryDirectory() as folder:
        print(report(collect(url, Path(folder), tasks=5, repeats=2)))


if __name__ == "__main__":
    parse_nothing(__doc__)
    main()
