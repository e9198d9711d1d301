"""Tasks, calls and scripted episodes that the tests of the adapters share."""

import atexit
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from resume_gym import load_tasks, tool_call
from resume_gym.episode.tasks import Item, write_jsonl
from resume_gym.testing import ENV, Script, edits, scripts

TASK = load_tasks("mini", "train")[0]
OTHER = load_tasks("mini", "train")[7]
REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
SCRIPTS = scripts(calls_only=True)
MALFORMED = scripts()[len(SCRIPTS) :]

Parser = Callable[[str], dict[str, Any]]
"""Makes the message of a model's server of what the model says."""
_CALLS = re.compile(r"<tool_call>(.*?)</tool_call>|<tool_call>(.*)", re.DOTALL)


def as_text(text: str) -> dict[str, Any]:
    """A server that leaves calls in the text."""
    return {"content": text}


def as_calls(text: str) -> dict[str, Any]:
    """A server that takes calls out of the text, as vLLM's Hermes parser does."""
    try:
        calls = [json.loads(closed or unclosed) for closed, unclosed in _CALLS.findall(text)]
    except ValueError:
        calls = []
    if not calls:
        return as_text(text)
    wire = [{"name": one["name"], "arguments": json.dumps(one["arguments"])} for one in calls]
    parsed = [{"id": str(i), "type": "function", "function": one} for i, one in enumerate(wire)]
    return {"content": text[: text.index("<tool_call>")] or None, "tool_calls": parsed}


_FOLDER = TemporaryDirectory()
atexit.register(_FOLDER.cleanup)
_ITEMS = Path(_FOLDER.name, "items.jsonl")  # read by servers, too
write_jsonl(_ITEMS, [replace(TASK, rubric=(Item("Rust", -1, "skill"),))])


def _edit(old: str, new: str) -> str:
    return tool_call("str_replace", old=old, new=new)


def _variant(term: str, calls: tuple[str, ...], task_id: str = TASK.task_id, **options: Any) -> Any:
    env_id = options.pop("env_id", ENV)
    return term, Script(env_id, task_id, (*calls, SUBMIT), env_id, options)


VARIANTS: dict[str, tuple[str, Script]] = {
    "pay by the line": _variant("improved", edits(TASK, 2), env_id="ResumeEditNetMini-v0"),
    "continuous layout": _variant(
        "layout",
        (_edit(f"{TASK.fixes[3].old}\n", ""), *edits(TASK, 1)),
        layout_reward="continuous",
        layout_amplitude=0.5,
        page_lines=15,
    ),
    "evidence": _variant(
        "quantification",
        (
            tool_call("search", query="failed runs of the Cypress suite"),
            _edit(
                "Was given the Cypress suite and stabilized it",
                "Stabilized the Cypress suite, with failed runs down from 14% to 3%",
            ),
        ),
        "mini-eval-0-000021",
        env_id="ResumeEditEvidenceMini-v0",
        split="eval",
    ),
    "feedback": _variant(
        "edit",
        (tool_call("feedback"), *edits(TASK, 1)),
        env_id="ResumeEditFeedbackMini-v0",
        feedback_every=1,
    ),
    "rubric items": _variant(
        "rubric", (_edit("analysis, Shift", "analysis, Rust, Shift"),), tasks=str(_ITEMS)
    ),
    "omission": _variant(
        "rubric",
        (
            tool_call("search", query="minutes of the Jenkins builds"),
            _edit("GitHub Actions", "GitHub Actions, 9 minutes instead of 21"),
        ),
        "mini-train-0-000027-omission",
        env_id="ResumeEditEvidenceMini-v0",
        tasks="omission-mini:0:2",
    ),
}
"""Episodes of the optional features of the environment, with a term that each of them earns."""
