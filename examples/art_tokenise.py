"""Play groups of episodes on two tasks, and make the tensors that ART would train on.

    pip install torch==2.13.0 transformers==5.19.0
    pip install openpipe-art==0.5.18 -e .
    python examples/art_tokenise.py

A local server with OpenAI's protocol stands in for the model: the server answers as the careful
agent does, and names tokens by id, as vLLM does. One rollout of each group submits at its first
turn, another rollout at its second turn, and so on, so that rewards within a group differ: equal
rewards would give advantages of zero. ART's backends, which train on such tensors, need a GPU or a
remote service. The example prints

    task                 turns  reward  advantage  tokens  trained
    mini-train-0-000000      1    0.75      -1.20     695        2
    mini-train-0-000000      2    1.75      -0.77    1018        4
    mini-train-0-000000      3    5.50       0.88    1124       38
    mini-train-0-000000      4    6.00       1.09    1252       82
    mini-train-0-000001      1   -1.25      -1.29     758        2
    mini-train-0-000001      2   -0.25      -0.66    1146        4
    mini-train-0-000001      3    2.25       0.90    1224       24
    mini-train-0-000001      4    2.50       1.05    1292       39
    tokens: torch.int64, (3, 2048)
    assistant_mask: torch.bool, (3, 2048)
    logprobs: torch.float32, (3, 2048)
    advantages: torch.float32, (3, 2048)
    trained: <tool_call> {"name": "review", "arguments": {}} </tool_call><|im_end|><tool_call> ...
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import art
from aiohttp import web
from art.preprocessing.pack import packed_tensors_from_tokenized_results
from art.preprocessing.tokenize import TokenizedResult, tokenize_trajectory_groups
from transformers import AutoTokenizer

from resume_gym.agents import make_agent
from resume_gym.integrations.art import Episodes
from resume_gym.support.command_line import parse_nothing

TOKENIZER = AutoTokenizer.from_pretrained(
    Path(__file__).parents[1] / "learners" / "nano" / "policy"
)
Request = dict[str, Any]


def in_content(text: str) -> dict[str, Any]:
    return {"content": text}


@asynccontextmanager
async def served(
    say: Callable[[Request], str], message: Callable[[str], dict[str, Any]] = in_content
) -> AsyncIterator[art.Model]:
    """Yield a model on a local server that replies `say(request)`; its log-probabilities are 0."""

    async def answer(http: web.Request) -> web.Response:
        text = say(await http.json())
        ids = [*TOKENIZER.encode(text), TOKENIZER.eos_token_id]
        tokens = [{"token": f"token_id:{one}", "logprob": 0.0, "top_logprobs": []} for one in ids]
        choice = {"index": 0, "finish_reason": "stop", "logprobs": {"content": tokens}}
        choice["message"] = {"role": "assistant", **message(text)}
        return web.json_response({"object": "chat.completion", "choices": [choice]})

    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = "http://{}:{}/v1".format(*runner.addresses[0])
    try:
        yield art.Model(name="m", project="p", inference_base_url=url, inference_api_key="none")
    finally:
        await runner.cleanup()


def careful(episodes: Episodes) -> Callable[[Request], str]:
    sessions = [episodes.env.new_session(task.task_id) for task in episodes.env.tasks]
    been = Counter[str]()

    def say(request: Request) -> str:
        _, task, *turns = request["messages"]
        session = next(one for one in sessions if one.prompt == task["content"]).fork()
        for turn in turns[::2]:
            session.step(turn["content"])
        point = json.dumps(request["messages"])
        been[point] += 1
        return make_agent("noop" if been[point] == 1 else "careful")(session)

    return say


def tokenised(groups: list[art.TrajectoryGroup]) -> list[TokenizedResult]:
    """Tokenise groups as ART's `LocalBackend` does, with the tool schemas in vLLM's format."""
    tools = {"chat_template_tool_schema_format": "vllm_openai"}
    results = tokenize_trajectory_groups(TOKENIZER, groups, False, scale_rewards=True, **tools)
    return sorted(results, key=lambda one: (one.trajectory.metadata["scenario_id"], one.advantage))


async def main() -> None:
    episodes = Episodes("ResumeEditMini-v0")
    task_ids = [task.task_id for task in episodes.env.tasks[:2]]
    async with served(careful(episodes)) as model:
        groups = await episodes.gather(model, task_ids, size=4)
    results = tokenised(groups)
    print("task                 turns  reward  advantage  tokens  trained")
    for one in results:
        task_id, reward = one.trajectory.metadata["scenario_id"], one.trajectory.reward
        count = f"{len(one.token_ids):8}{sum(one.assistant_mask):9}"
        print(f"{task_id}{len(one.choice_offsets):7}{reward:8.2f}{one.advantage:11.2f}{count}")
    packed = packed_tensors_from_tokenized_results(results, 2048, TOKENIZER.eos_token_id)
    for name in ("tokens", "assistant_mask", "logprobs", "advantages"):
        print(f"{name}: {packed[name].dtype}, {tuple(packed[name].shape)}")
    trained = [token for token, on in zip(one.tokens, one.assistant_mask, strict=True) if on]
    print(f"trained: {' '.join(''.join(trained).split())[:81]} ...")


if __name__ == "__main__":
    parse_nothing(__doc__)
    asyncio.run(main())
