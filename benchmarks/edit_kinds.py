"""Count the edits of each kind that episodes tried, and how many of them failed.

The kinds are those of `resume_gym.agents.edit_kinds`; a failed edit gets its kind from the call
alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from resume_gym import ToolCall
from resume_gym.agents.edit_kinds import kind_of


class Counts(NamedTuple):
    """Edits by kind, and the failed ones among them."""

    edits: Counter[str]
    failed: Counter[str]


def count(rows: Iterable[Mapping[str, Any]], env: Any) -> Counts:
    """Count the edits in these episodes of an environment."""
    tasks = {task.task_id: task for task in env.tasks}
    found = Counts(Counter(), Counter())
    for row in rows:
        session = env.session_type(tasks[row["task_id"]], env.rules)
        for text in row["actions"]:
            call, before = session.toolbox.read(text), session.resume
            error = session.step(text).error
            if isinstance(call, ToolCall) and call.name == "str_replace":
                old, new = call.arguments["old"], call.arguments["new"]
                kind = kind_of(before, old, new, session.task) if old else "other"
                found.edits[kind] += 1
                found.failed[kind] += error != "none"
    return found
