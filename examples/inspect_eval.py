"""Evaluate a model with Inspect; here, the careful agent acts as the model.

    pip install inspect-ai==0.3.285 -e .
    python examples/inspect_eval.py

The command for a real model is

    inspect eval resume_gym/resume_edit --model openai/gpt-5 -T env_id=ResumeEditMini-v0 --limit 5

and `inspect view` shows the episodes. The example prints

    reward           5.90 +- 0.42
    score           91.54 +- 3.19
    edit             0.70 +- 0.12
    failed_edit      0.00 +- 0.00
    malformed        0.00 +- 0.00
    review           1.00 +- 0.00
    submit           1.00 +- 0.00
    no_submit        0.00 +- 0.00
    layout           1.00 +- 0.00
    hallucination    1.00 +- 0.00
    clarity          0.20 +- 0.05
    quantification   0.00 +- 0.00
    jd_alignment     0.05 +- 0.05
    action_verbs     0.15 +- 0.06
    preference       0.80 +- 0.20
"""

import tempfile
from typing import Any

import gymnasium as gym
from inspect_ai import eval as run
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, Model, ModelOutput, ModelUsage, get_model

from resume_gym.agents import make_agent
from resume_gym.integrations.inspect import resume_edit
from resume_gym.support.command_line import parse_nothing

ENV = "ResumeEditMini-v0"


def careful(messages: list[ChatMessage], *_: object) -> ModelOutput:
    """Return the careful agent's next message in a chat."""
    env: Any = gym.make(ENV, split="eval").unwrapped
    sessions = (env.new_session(task.task_id) for task in env.tasks)
    session = next(one for one in sessions if one.prompt == messages[1].text)
    for message in messages[2::2]:
        session.step(message.text)
    output = ModelOutput.from_content("careful", make_agent("careful")(session))
    output.usage = ModelUsage()  # the mock model would count tokens with a tokenizer from the web
    return output


def evaluate(model: Model, **options: Any) -> EvalLog:
    """Return the log of Inspect's `eval` on held-out tasks, with these further options of it."""
    with tempfile.TemporaryDirectory() as folder:
        (log,) = run(resume_edit(ENV), model=model, display="none", log_dir=folder, **options)
        assert log.samples, "read while the log's file exists"
    return log


def main() -> None:
    log = evaluate(get_model("mockllm/model", custom_outputs=careful, memoize=False), limit=5)
    for one in log.results.scores if log.results else ():
        mean, error = (one.metrics[name].value for name in ("mean", "stderr"))
        print(f"{one.name:15}{mean:6.2f} +- {error:.2f}")


if __name__ == "__main__":
    parse_nothing(__doc__)
    main()
