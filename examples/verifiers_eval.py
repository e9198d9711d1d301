r"""Evaluate a model with verifiers; here, a server with the careful agent acts as the model.

    pip install verifiers==0.4.0 -e . -e examples/packages/verifiers
    python examples/verifiers_eval.py

The command for a real model, for instance behind `vllm serve MODEL --enable-auto-tool-choice
--tool-call-parser hermes`, is

    vf-eval resume-edit --env.taskset.gym-id ResumeEditMini-v0 -n 5 -r 2 --no-push \
        --client.base-url http://localhost:8000/v1 -m MODEL

The example prints

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
    edits            3.40
    score           91.54
"""

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import mean
from threading import Thread
from typing import Any

import gymnasium as gym

from resume_gym.agents import make_agent
from resume_gym.support.command_line import parse_nothing

ENV = "ResumeEditMini-v0"
Messages = list[dict[str, Any]]


@contextmanager
def answering(reply: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[str]:
    """Yield the URL of a server that answers each request with `reply(request)`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(reply(request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        # poll for `shutdown` every 0.02 s instead of every 0.5 s, so that the server stops faster
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()


def served(say: Callable[[Messages], dict[str, Any]]) -> AbstractContextManager[str]:
    """Run a local server that speaks OpenAI's protocol and answers by `say`; yield its URL."""

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": None, **say(request["messages"])}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        chat = {"id": "1", "object": "chat.completion", "created": 1, "model": "careful"}
        return {**chat, "choices": [choice]}

    return answering(reply)


def careful(messages: Messages) -> dict[str, Any]:
    """Return the careful agent's next message in a chat."""
    env: Any = gym.make(ENV).unwrapped
    sessions = [env.new_session(task.task_id) for task in env.tasks]
    session = next(one for one in sessions if one.prompt == messages[1]["content"])
    for message in messages[2::2]:
        session.step(message["content"])
    return {"content": make_agent("careful")(session)}


def evaluate(url: str, folder: str, **options: Any) -> list[Any]:
    """Return the episodes that `vf-eval resume-edit` plays with the given options."""
    from verifiers.v1.cli.eval.runner import run_eval
    from verifiers.v1.configs.cli.eval import EvalConfig

    taskset = {"id": "resume-edit", "gym_id": ENV}
    client = {"base_url": url, "api_key_var": "NO_KEY"}
    local = {"push": False, "rich": None, "output_dir": folder}
    chosen = {"env": {"taskset": taskset}, "client": client, "model": "careful", **local, **options}
    return asyncio.run(run_eval(EvalConfig.model_validate(chosen)))


def main() -> None:
    with served(careful) as url, tempfile.TemporaryDirectory() as folder:
        episodes = evaluate(url, folder, select={"limit": 5}, num_rollouts=2)
    traces = [trace for episode in episodes for trace in episode.traces]
    print(f"{len(traces)} episodes, mean reward {mean(trace.reward for trace in traces):.2f}")
    for name in traces[0].rewards:
        print(f"{name:15}{mean(trace.rewards[name].value for trace in traces):6.2f}")
    for name in ("edits", "score"):
        print(f"{name:15}{mean(trace.metrics[name] for trace in traces):6.2f}")


if __name__ == "__main__":
    parse_nothing(__doc__)
    main()
