"""Guided play, for models that make no tool calls by themselves.

The system prompt describes the tools, and the chat begins with an example episode on an invented
resume, since weak models follow earlier turns better than instructions. In an answer, the first
JSON object that has a "name" counts as the tool call, even inside a code fence or before other
text. Rewards with "guided" prompting and rewards with "plain" prompting are not comparable.

Calls are shown as fenced JSON, which every instruction-tuned model has seen. The tag <tool_call> is
a single token in some vocabularies whose models were never trained on it: after this token,
Qwen2.5-Coder-1.5B ends its turn or repeats the resume.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from resume_gym.episode.session import Rules, Session
from resume_gym.episode.tasks import Task
from resume_gym.episode.tools import decode, tool_call, with_calls

Prompting = Literal["plain", "guided"]
"""Kind of prompt: "guided", as above, or "plain", in which only the chat template lists tools."""

OPENING = '```json\n{"name": "'
"""Start of every tool call; the engine prefills this text, and the model continues the turn."""
CLOSING = "\n```"
"""End of every tool call in the chat history of a model that continues prefilled turns."""


def fenced(call: str) -> str:
    """Return the text of a tool call as fenced JSON; return any other text unchanged.

    >>> print(fenced(tool_call("submit")))
    ```json
    {"name": "submit", "arguments": {}}
    ```
    """
    tags = r"\A<tool_call>(\n\{.*\}\n)</tool_call>\Z"
    return re.sub(tags, r"```json\1```", call, flags=re.DOTALL)


_GUIDE = """

Each turn is one call and nothing else: a fenced JSON object with "name" and "arguments". The \
names are "review" (no arguments), "str_replace" (arguments "old" and "new") and "submit" (no \
arguments). The resume is shown to you, so a review is needed only after many edits. Edit weak \
lines, each once, then submit."""
_TASK = Task(
    "guide",
    "Head of maintenance at Brook Mill. Keep pumps and lifts running. Lead 6 people.",
    """\
# Mona Ferrar
Leeds | mona.ferrar@example.org

## Work
### Fitter, Holm Waterworks (Mar 2019 - Present)
- Was responsible for repairing pumps at two waterworks
- Trained 4 apprentices, who all passed
- Took part in moving the old control desk, and so on, without a day of standstill
- Made timetables and many other things for the night shift
- Sang in the choir of the works on Fridays
""",
    "weak_verbs",
)
# each `old` includes the bullet's "- ": otherwise, models quote lines of the job
_CALLS = (
    tool_call("str_replace", old="- Was responsible for repairing pumps", new="- Repaired pumps"),
    tool_call("str_replace", old="- Took part in moving", new="- Moved"),
    tool_call(
        "str_replace", old="- Made timetables and many other things", new="- Made timetables"
    ),
    tool_call("str_replace", old="\n- Sang in the choir of the works on Fridays", new=""),
    tool_call("submit"),
)
_OBJECTS = 16  # maximum number of "{" tried as start of a call, since each try may read to the end


def read_prompting(options: Mapping[str, Any]) -> Prompting:
    """Return the option `prompting` of an agent, which is "plain" by default.

    Raises:
        ValueError: the option is neither "plain" nor "guided".
    """
    prompting = options.get("prompting", "plain")
    if prompting not in get_args(Prompting):
        raise ValueError(f"prompting: expected 'plain' or 'guided', got {prompting!r}")
    return prompting  # type: ignore[no-any-return]


def guide(system: str) -> str:
    """Append a description of the resume tools to a system prompt."""
    return system + _GUIDE


def demonstration() -> tuple[str, list[tuple[str, str]]]:
    """Play the example episode that precedes the real task in the chat.

    Returns:
        The prompt of the invented task, and a pair (call as fenced JSON, observation) per turn.
        In the chat, the prompt of the real task follows the last observation.
    """
    session = Session(_TASK, Rules(max_turns=6))
    return session.prompt, [(fenced(call), session.step(call).observation) for call in _CALLS]


def find_call(text: str) -> str | None:
    """Find the first JSON object with a "name"; return it as the text of a tool call, or None.

    >>> find_call('Sure! {"name": "submit", "arguments": {}} Done.') == tool_call("submit")
    True
    """
    for match in list(re.finditer(r"\{", text))[:_OBJECTS]:
        try:
            value, _ = decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            arguments = json.dumps(value.get("arguments", {}), ensure_ascii=False)
            return with_calls("", [(value["name"], arguments)])
    return None
