"""verifiers 0.4: its evaluation, agents, proxy and client; the model is a server on 127.0.0.1."""

import tempfile
from collections.abc import Callable
from typing import Any

from scripts import Parser, as_calls, as_text
from verifiers_eval import Messages, evaluate, served

from resume_gym.testing import Played, Script


def script_of(script: Script, parser: Parser) -> Callable[[Messages], dict[str, Any]]:
    """A model that says what is in the script."""

    def say(messages: Messages) -> dict[str, Any]:
        turn = sum(message["role"] == "assistant" for message in messages)
        assert turn < len(script.actions), "asked once more after the end"
        assert turn == 0 or messages[-1]["content"].splitlines()[-1].startswith("turns left:")
        return parser(script.actions[turn])

    return say


def play(script: Script, judge: str, parser: Parser = as_text, **options: Any) -> list[Any]:
    """The episodes of `vf-eval` on the script's task."""
    made = {"gym_id": script.env_id, "gym_kwargs": {"judge": judge, **script.options}}
    taskset = {"id": "resume-edit", **made}
    env = {"taskset": taskset, **options.pop("env", {})}
    chosen = {"select": {"include": {"names": [script.task_id]}}, "env": env, **options}
    with served(script_of(script, parser)) as url, tempfile.TemporaryDirectory() as folder:
        return evaluate(url, folder, **chosen)


def played(episode: Any) -> Played:
    """What the library was given."""
    if not episode.ok:
        raise RuntimeError(str([*episode.errors, *(each.errors for each in episode.traces)]))
    (trace,) = episode.traces
    session, turns = trace.info["session"], trace.info["rewards"]
    assert len(turns) == trace.num_turns
    terms = {name: one.value for name, one in trace.rewards.items()}
    ledger = {name: terms.pop(name) for name in session["ledger"]}
    assert set(terms.values()) <= {0.0}
    return Played(trace.task.data.task_id, turns, trace.reward, session["text"], ledger)


PLAYERS = {
    "calls in the text": lambda script, judge: played(*play(script, judge)),
    "calls parsed": lambda script, judge: played(*play(script, judge, as_calls)),
}
