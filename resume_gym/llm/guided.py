"""Guided play, for models that make no tool calls by themselves.

The system prompt describes the tools and shows one demonstration. The first JSON object with a name
in an answer counts as the tool call, even inside a code fence or before other text. Results of
guided and of plain play are not comparable.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from resume_gym.tools import decode, tool_call, with_calls

Prompting = Literal["plain", "guided"]
"""Prompting of a model; "plain" shows the tools only in the format of the model's chat template."""

OPENING = "<tool_call>\n"
"""Start of every call; the engine prefills it, and the model continues the turn."""
CLOSING = "\n</tool_call>"
"""End of every call in the history of a model that continues prefilled turns."""

_DEMONSTRATION = (
    ("the resume is shown", tool_call("review")),
    (
        "the strong verb takes the place of the empty opening",
        tool_call("str_replace", old="Was responsible for repairing pumps", new="Repaired pumps"),
    ),
    (
        "`old` is copied exactly; what says nothing goes",
        tool_call("str_replace", old="timetables and many other things", new="timetables"),
    ),
    ("nothing is left to improve", tool_call("submit")),
)
_GUIDE = f"""

Each turn is one call and nothing else: {OPENING.strip()}, a JSON object with "name" and \
"arguments", and {CLOSING.strip()}. The names are "review" (no arguments), \
"str_replace" (arguments "old" and "new") and "submit" (no arguments).

An example, with a resume of another person:
## Work
- Was responsible for repairing pumps at two waterworks
- Trained 4 apprentices, who all passed
- Made timetables and many other things for the night shift

""" + "\n\n".join(
    f"Turn {number} ({why}):\n{call}" for number, (why, call) in enumerate(_DEMONSTRATION, 1)
)
_OBJECTS = 16  # maximum number of "{" tried; each try may read the rest of the text


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
    """Append descriptions of the tools and a demonstration for resumes to a system prompt."""
    return system + _GUIDE


def find_call(text: str) -> str | None:
    """Return the first JSON object that has a name, as the text of a call; None if none has.

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
