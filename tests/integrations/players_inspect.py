"""Inspect: its `eval` with its mock model, which says what is in the script."""

import json
import tempfile
from typing import Any

from inspect_ai import eval as evaluate
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model
from inspect_ai.tool import ToolCall
from scripts import Parser, as_calls, as_text

from resume_gym.integrations.inspect import resume_edit
from resume_gym.testing import Played, Script


def model_of(script: Script, parser: Parser) -> Any:
    """A model that says what is in the script."""

    def say(messages: list[ChatMessage], *_: object) -> ModelOutput:
        turn = sum(message.role == "assistant" for message in messages)
        assert turn < len(script.actions), "asked once more after the end"
        assert turn == 0 or messages[-1].text.splitlines()[-1].startswith("turns left:")
        said = parser(script.actions[turn])
        output = ModelOutput.from_content("mock", said["content"] or "")
        output.usage = ModelUsage()  # or the mock model would download a tokenizer to count
        calls = [(one["id"], one["function"]) for one in said.get("tool_calls", ())]
        output.message.tool_calls = [
            ToolCall(id=name, function=one["name"], arguments=json.loads(one["arguments"]))
            for name, one in calls
        ]
        return output

    return get_model("mockllm/model", custom_outputs=say, memoize=False)


def play(script: Script, judge: Any, parser: Parser = as_text, **options: Any) -> EvalLog:
    """The log of an evaluation on the script's task."""
    chosen = {"split": "train", **script.options}
    asked = resume_edit(script.env_id, judge=judge, **chosen)
    with tempfile.TemporaryDirectory() as folder:
        (log,) = evaluate(
            asked,
            model=model_of(script, parser),
            sample_id=script.task_id,
            display="none",
            log_dir=folder,
            **options,
        )
        assert log.samples, "read while the log's file exists"
    return log


def played(log: EvalLog) -> Played:
    """What the library was given."""
    (sample,) = log.samples or ()
    if sample.error or log.status != "success":
        raise RuntimeError(str(sample.error or log.error))
    score = (sample.scores or {})["ledger"]
    value, session = dict(score.as_dict()), (score.metadata or {})["session"]
    total = value.pop("reward")
    del value["score"]
    rewards = [sum(turn.values()) for turn in session["ledgers"]]
    return Played(str(sample.id), rewards, total, score.answer or "", value)


PLAYERS = {
    "calls in the text": lambda script, judge: played(play(script, judge)),
    "calls parsed": lambda script, judge: played(play(script, judge, as_calls)),
}
