"""Reconstruction of a recorded episode: turns, original document, reward and verdict.

The original document is recovered from the final text by undoing the diffs in the replies, last
diff first. Thus recorded episodes remain readable even if their tasks are missing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from itertools import chain, groupby, repeat
from typing import Any, NamedTuple

from resume_gym.episode import rewards
from resume_gym.episode.document import wrap
from resume_gym.episode.rewards import TOOL_REWARDS
from resume_gym.episode.tools import ERRORS

_META = re.compile(r"turns left: \d+/\d+ \| edits: (\d+)")
_LAYOUT = re.compile(r"lines: \d+/\d+ \| longest line: \d+")
_ERROR = re.compile(rf"error \(({'|'.join(ERRORS)})\): ")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class TurnView(NamedTuple):
    """Turn of an episode: the agent's action and the environment's reply.

    Attributes:
        kind: "edit", "shown" (text is shown), "error", "submit"; "text" if there is no document.
        action: full text of the action.
        said: text of the action outside the tool call.
        tool: name of the called tool; empty if the call cannot be parsed.
        arguments: arguments of the tool call.
        error: error code of the reply; empty on success.
        reply: environment's reply without its lines on layout and turn budget.
        status: lines of the reply on layout and turn budget.
        reward: reward of the tool call; None if not recorded.
    """

    kind: str
    action: str
    said: str
    tool: str
    arguments: Mapping[str, Any]
    error: str
    reply: str
    status: str
    reward: float | None


def turns(
    record: Mapping[str, Any], tool_rewards: Mapping[str, float] = TOOL_REWARDS
) -> list[TurnView]:
    """Return the turns of a recorded episode; `tool_rewards` is keyed by reward term."""
    result: list[TurnView] = []
    edits, reviewed = 0, False
    replies = chain(record.get("observations", []), repeat(""))
    earned = chain(record.get("rewards", []), repeat(None))
    for action, reply, reward in zip(record.get("actions", []), replies, earned, strict=False):
        said, tool, arguments = _call(action)
        body, _, last = reply.rpartition("\n")
        meta = _META.fullmatch(last)
        if not meta:  # the environment has no document
            result.append(TurnView("text", action, said, tool, arguments, "", reply, "", reward))
            continue
        # a turn is a successful edit if the reply counts more edits than the previous reply
        kind, error = _kind(body, int(meta[1]) > edits)
        edits = int(meta[1])
        text, _, layout = body.rpartition("\n")
        shows_layout = _LAYOUT.fullmatch(layout) is not None and kind in ("edit", "shown")
        status = f"{layout} | {last}" if shows_layout else last
        term = {"error": "malformed", "shown": "review"}.get(kind, kind)
        reward = 0.0 if kind == "shown" and reviewed else tool_rewards[term]
        reviewed = reviewed or kind == "shown"
        text = text if shows_layout else body
        result.append(TurnView(kind, action, said, tool, arguments, error, text, status, reward))
    return result


def _kind(body: str, edited: bool) -> tuple[str, str]:
    """Return the `kind` and `error` of a `TurnView`, from the text of the reply."""
    if edited:
        return "edit", ""
    if body == "submitted":
        return "submit", ""
    error = _ERROR.match(body)
    # a document may begin like an error message, but only replies with a document end in `_LAYOUT`
    if error and not _LAYOUT.fullmatch(body.rpartition("\n")[2]):
        return "error", error[1]
    return "shown", ""


def _call(action: str) -> tuple[str, str, Mapping[str, Any]]:
    """Return the text around a tool call, its tool and arguments; all empty for an invalid call."""
    before, opened, rest = action.partition("<tool_call>")
    inside, closed, after = rest.rpartition("</tool_call>")
    try:
        call = json.loads(inside) if opened and closed else None
    except (ValueError, RecursionError):
        call = None
    if isinstance(call, dict) and isinstance(call.get("name"), str):
        arguments = call.get("arguments", {})
        if isinstance(arguments, dict):
            return (before + after).strip(), call["name"], arguments
    return "", "", {}


def undo(text: str, diff: str) -> str:
    """Return the text as it was before a unified diff without context lines was applied.

    Raises:
        ValueError: the diff does not lead to this text.
    """
    lines = text.split("\n")
    hunks: list[tuple[int, dict[str, list[str]]]] = []
    for row in diff.partition("\nfeedback: ")[0].split("\n"):
        if head := _HUNK.fullmatch(row):
            start, length = int(head[3]), int(head[4] or 1)
            # the header of a hunk that adds no lines names the line before the hunk
            hunks.append((start - 1 if length else start, {"-": [], "+": []}))
        elif hunks and row[:1] in ("-", "+"):
            hunks[-1][1][row[0]].append(row[1:])
        else:
            raise ValueError(f"expected a diff without context, got {row[:80]!r}")
    for start, rows in reversed(hunks):  # undo hunks from the end, so that line numbers stay valid
        old, new = rows["-"], rows["+"]
        if lines[start : start + len(new)] != new:
            raise ValueError(f"line {start + 1} does not match the diff")
        lines[start : start + len(new)] = old
    return "\n".join(lines)


def original_text(record: Mapping[str, object], played: Sequence[TurnView]) -> str:
    """Return the document before the first turn of a recorded episode.

    Raises:
        ValueError: the diffs of the record do not lead to its final text.
    """
    text = str(record["text"])
    for turn in reversed(played):
        text = undo(text, turn.reply) if turn.kind == "edit" else text
    return text


def episode(
    record: Mapping[str, Any],
    task: object,
    original: str | None,
    tool_rewards: Mapping[str, float] = TOOL_REWARDS,
) -> dict[str, Any]:
    """Return the data that the page needs to show an episode, as JSON values.

    Args:
        record: stored record of the episode.
        task: task of the episode; None if it is not found.
        original: document of the task before any edit; None if unknown.
        tool_rewards: rewards of tool calls; see `EditSession.tool_rewards`.
    """
    played = turns(record, tool_rewards)
    notes = []
    after: list[str] = []
    if "rules" in record and "text" in record:
        try:
            after = [original_text(record, played), str(record["text"])]
        except ValueError as problem:
            after = [record["text"]] if original is None else [original, record["text"]]
            notes.append(f"The document before the edits cannot be reconstructed: {problem}.")
    if after and original is not None and original != after[0]:
        notes.append("The task's current document differs from that of the recorded episode.")
    rules = record.get("rules") or {}
    return {
        "rules": rules,
        "notes": notes,
        "failure": str(record.get("failure") or ""),
        "turns": [
            {**turn._asdict(), **cost}
            for turn, cost in zip(played, _costs(record, len(played)), strict=True)
        ],
        "asked": record.get("asked") or [],
        "documents": _documents(after, rules.get("page_width")),
        "ledger": _ledger(record),
        "reward": record.get("reward"),
        "graded": bool(record.get("graded")),
        "verdict": _verdict(record.get("verdict")),
        "task": _fields(task, original),
        "text": "" if after else str(record.get("text") or ""),
    }


def _costs(record: Mapping[str, Any], turns: int) -> list[Mapping[str, Any]]:
    """Return, for each turn, a dict of its tokens and seconds, where recorded."""
    sampled = (record.get("tokens") or {}).get("sampled") or []  # whether each token was sampled
    written = [{"tokens_out": sum(1 for _ in run)} for own, run in groupby(sampled) if own]
    costs = record.get("costs") or (written if len(written) == turns else [])
    return [*costs, *repeat({}, turns)][:turns]


def _documents(after: Sequence[str], width: int | None) -> dict[str, Any]:
    """Return the distinct lines, the wrapped long lines, and each text as indices of its lines."""
    numbers: dict[str, int] = {}
    documents = [
        [numbers.setdefault(line, len(numbers)) for line in text.removesuffix("\n").split("\n")]
        for text in after
    ]
    wrapped = {
        number: wrap(line, width)
        for line, number in numbers.items()
        if width is not None and len(line) > width
    }
    return {"lines": list(numbers), "wrapped": wrapped, "after": documents}


def _ledger(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the reward terms, each with the component of the reward that contains the term."""
    # `components` sums terms by component: pass a single term to find its component
    return [
        {"term": term, "value": value, "part": part}
        for term, value in (record.get("ledger") or {}).items()
        for part, share in rewards.components({term: 1.0}).items()
        if share
    ]


def _verdict(verdict: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a verdict's numeric fields with their reasons, and the verdict's other contents."""
    if not verdict:
        return None
    aspects = {name: value for name, value in verdict.items() if isinstance(value, Mapping)}
    fields = [
        {"field": name, "value": value}
        | {aspect: values[name] for aspect, values in aspects.items() if name in values}
        for name, value in {**verdict, **(verdict.get("items") or {})}.items()
        if isinstance(value, int | float)
    ]
    names = {field["field"] for field in fields}
    rest = {name: values for name, values in aspects.items() if set(values) - names}
    other = {name: value for name, value in verdict.items() if isinstance(value, str | list)}
    return {"fields": fields, "other": {**rest, **other}}


def _fields(task: object, original: str | None) -> list[dict[str, Any]] | None:
    """Return the nonempty fields of a task that the page does not show elsewhere."""
    if not is_dataclass(task) or isinstance(task, type):
        return None
    return [
        {"name": name, "value": value}
        for name, value in asdict(task).items()
        if value and value != original and name not in ("task_id", "weakness")
    ]
