"""verifiers 0.3: its evaluation, rollout loop and client; the model is a server on 127.0.0.1."""

import asyncio
from typing import Any

import verifiers as vf
from players_verifiers import Parser, as_calls, as_text, script_of
from verifiers_eval import served

from resume_gym.testing.adapters import ENV, Played, Script

SAVED = ["record", "trajectory"]


def play(script: Script, judge: str, parser: Parser = as_text, members: int = 1) -> list[Any]:
    """A group of episodes on the script's task."""
    env: Any = vf.load_environment("resume-edit", gym_id=ENV, judge=judge)
    rows = env.get_dataset().filter(lambda row: row["info"]["task_id"] == script.task_id)
    with served(script_of(script, parser)) as url:
        client = vf.ClientConfig(api_base_url=url, api_key_var="NO_KEY")
        group = rows.to_list() * members
        results = asyncio.run(env.generate(group, client, "scripted", state_columns=SAVED))
    return list(results["outputs"])


def played(output: Any) -> Played:
    """What the library was given."""
    if output["error"]:
        raise RuntimeError(str(output["error"]))
    record, metrics = output["record"], output["metrics"]
    assert metrics["num_turns"] == len(output["trajectory"])
    ledger = {name: metrics[name] for name in record["ledger"]}
    rewards = [turn["reward"] for turn in output["trajectory"]]
    task_id = output["info"]["task_id"]
    return Played(task_id, rewards, output["reward"], record["text"], ledger)


PLAYERS = {
    "calls in the text": lambda script, judge: played(*play(script, judge)),
    "calls parsed": lambda script, judge: played(*play(script, judge, as_calls)),
}
