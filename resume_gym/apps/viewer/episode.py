"""Data of a recorded episode for the viewer's page: turns, documents, reward and verdict."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from itertools import groupby, repeat
from typing import Any, NamedTuple

from resume_gym.episode import rewards
from resume_gym.episode.document import wrap
from resume_gym.episode.rewards import TOOL_TERMS


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
        change: effect of the edit on the reward for the document's content and layout; None if not
            recorded. Only training with `credit="edit"` records it.
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
    change: float | None = None


def turns(record: Mapping[str, Any]) -> list[TurnView]:
    """Return the turns of a recorded episode.

    The turns are of the kind "text" if the record has no errors or ledgers, because the environment
    edits nothing or an earlier version wrote the record.
    """
    actions = record.get("actions", [])
    replies, none = record.get("observations", [""] * len(actions)), [None] * len(actions)
    columns = (record.get(name, none) for name in ("errors", "ledgers", "rewards"))
    played = [_turn(*turn) for turn in zip(actions, replies, *columns, strict=True)]
    changes = map(_change, record.get("earned", none))
    return [one._replace(change=change) for one, change in zip(played, changes, strict=True)]


def _change(earned: Mapping[str, float] | None) -> float | None:
    if earned is None or "edit" not in earned:
        return None
    return sum(value for term, value in earned.items() if term not in TOOL_TERMS)


def _turn(
    action: str,
    reply: str,
    error: str | None,
    ledger: Mapping[str, float] | None,
    reward: float | None,
) -> TurnView:
    said, tool, arguments = _call(action)
    if error is None or ledger is None:
        return TurnView("text", action, said, tool, arguments, "", reply, "", reward)
    failed = error != "none"
    done = next((kind for kind in ("edit", "submit") if kind in ledger), "shown")
    kind = "error" if failed else done
    # the last line has the turns left; after a document or its diff, the line before has the layout
    *lines, last = reply.rsplit("\n", 2 if kind in ("edit", "shown") else 1)
    text, status = lines[0], " | ".join([*lines[1:], last])
    reward = sum(ledger.get(term, 0.0) for term in TOOL_TERMS if term != "no_submit")
    return TurnView(
        kind, action, said, tool, arguments, error if failed else "", text, status, reward
    )


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


def episode(record: Mapping[str, Any], task: object) -> dict[str, Any]:
    """Return the data that the page needs to show an episode, as JSON values.

    Args:
        record: stored record of the episode.
        task: task of the episode; None if it is not found.
    """
    played = turns(record)
    rules, original = record.get("rules") or {}, record.get("original")
    after = [str(text) for text in (original, record.get("text")) if rules and text is not None]
    old = rules and original is None
    notes = (
        ["The record, of an earlier version, lacks the document before the edits."] if old else []
    )
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
        "comparison": record.get("comparison"),
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
    """Return the texts as a dict without repeated lines.

    `lines` has the distinct lines of all texts, `wrapped` the page lines of each line longer than
    `width`, by its index in `lines`, and `after` each text as a list of indices into `lines`.
    """
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
    """Return a dict: `fields`, the numeric fields with their reasons, and `other`, the rest."""
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


def _fields(task: object, original: object) -> list[dict[str, Any]] | None:
    """Return the nonempty fields of a task that the page does not show elsewhere."""
    if not is_dataclass(task) or isinstance(task, type):
        return None
    return [
        {"name": name, "value": value}
        for name, value in asdict(task).items()
        if value and value != original and name not in ("task_id", "weakness")
    ]
