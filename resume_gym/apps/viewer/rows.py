"""Rows of the viewer's table, one per episode, for all environments."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from resume_gym.apps.viewer.tasks import Tasks
from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.rewards import LINE_WEIGHTS


class EpisodeRow(NamedTuple):
    """Row of the table, for one episode.

    Attributes:
        agent: name of the agent; empty in a run.
        step: training step; None in an evaluation.
        group: key shared by the episodes on the same task and, in a run, at the same step.
        member: index within the group; in an evaluation, index of the agent's rollout.
        task: ID of the task.
        env: name of the environment if the run has several environments; empty otherwise.
        weakness: weakness of the task; empty if unknown.
        outcome: "submitted", "out of turns", "ended" (no submission needed), or "not graded".
        reward: reward of the episode; None if the episode is not graded.
        score: score of the episode from 0 to 100; None if not recorded.
        turns: number of the agent's actions.
        edits: number of successful edits; None if not recorded.
        failed_edits: number of failed edits; None if not recorded.
        lines: number of wrapped lines of the final document; None if there is no page.
        page_lines: maximum number of lines of the page; None if there is no page.
        flags: labels of notable events of the episode.
    """

    agent: str
    step: int | None
    group: str
    member: int
    task: str
    env: str
    weakness: str
    outcome: str
    reward: float | None
    score: float | None
    turns: int
    edits: int | None
    failed_edits: int | None
    lines: int | None
    page_lines: int | None
    flags: tuple[str, ...]


def env_of(record: Mapping[str, Any]) -> str:
    """Return the name of an episode's environment; empty if the run has only one environment."""
    return str(record.get("env") or "")


def make_row(record: Mapping[str, Any], step: int | None, tasks: Tasks) -> EpisodeRow:
    """Return the row of a recorded episode; `step` is None in an evaluation."""
    task = str(record["task_id"])
    ledger = record.get("ledger") or {}
    rules = record.get("rules") or {}
    if rules and rules["page_width"] < 1:
        raise ValueError(f"page_width: expected at least 1, got {rules['page_width']}")
    turns = record.get("ledgers")  # earlier versions did not record them
    graded = bool(record["graded"])
    outcome = "ended" if not ledger else "submitted" if ledger.get("submit") else "out of turns"
    return EpisodeRow(
        agent=str(record.get("agent") or ""),
        step=step,
        group=task if step is None else f"{step}/{int(record['group'])}",
        member=int(record.get("rollout", 0) if step is None else record["member"]),
        task=task,
        env=env_of(record),
        weakness=str(record.get("weakness") or tasks.weakness(task)),
        outcome=outcome if graded else "not graded",
        reward=_figure(record.get("reward")) if graded else None,
        score=_figure(record.get("score")) if graded else None,
        turns=len(record.get("actions") or ()),
        edits=None if turns is None else sum("edit" in turn for turn in turns),
        failed_edits=None if turns is None else sum("failed_edit" in turn for turn in turns),
        lines=wrapped_lines(record["text"], rules["page_width"]) if rules else None,
        page_lines=int(rules["page_lines"]) if rules else None,
        flags=tuple(_flags(record, ledger)),
    )


def _flags(record: Mapping[str, Any], ledger: Mapping[str, float]) -> Iterator[str]:
    verdict = record.get("verdict")
    if ledger.get("malformed"):
        yield "malformed"
    if "several_calls" in record.get("errors", ()):
        yield "several calls"
    if ledger.get("failed_edit"):
        yield "failed edits"
    if ledger.get("no_submit"):
        yield "no submit"
    if ledger.get("layout", 0) < 0:
        yield "too long"
    if ledger and record["graded"] and not verdict:
        yield "not judged"
    if not record["graded"]:
        yield "not graded"
    for name, value in (verdict or {}).items():
        if isinstance(value, int | float) and value < 0:
            # a flag must name a defect: "hallucination" does, but "clarity" becomes "worse clarity"
            states_it = name == "hallucination" or name in LINE_WEIGHTS
            yield name if states_it else f"worse {name.replace('_', ' ')}"


def _figure(value: float | None) -> float | None:
    return None if value is None else round(float(value), 6)
