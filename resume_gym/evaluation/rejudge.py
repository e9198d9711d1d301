"""Grade stored episodes again, with another judge or another version of one."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from resume_gym.editing import EditSession
from resume_gym.evaluation.contest import Contest, Entry
from resume_gym.evaluation.loop import Job, play_all
from resume_gym.evaluation.players import Scripted
from resume_gym.evaluation.results import RECORD_ERRORS, Results, row_of
from resume_gym.evaluation.summary import Episode
from resume_gym.tasks import TaskError

Sessions = dict[tuple[int, str], EditSession[Any, Any]]
"""Sessions of an agent, by rollout and task ID."""
_CONCURRENCY = 64


def replay(
    records: Iterable[tuple[str, Mapping[str, Any]]],
    tasks: Mapping[str, Any],
    session_type: type[EditSession[Any, Any]],
) -> dict[str, Sessions]:
    """Return the sessions of graded records by agent; a record comes with the agent's name.

    Raises:
        TaskError: a record is invalid or of an unknown task, or its replay ends differently.
    """
    agents: dict[str, Sessions] = {}
    counts: Counter[tuple[str, str]] = Counter()  # training plays a task in several steps
    for agent, record in records:
        try:
            task_id = record["task_id"]
            session = session_type.replay(tasks[task_id], record)
            if record["graded"]:
                Episode.of(session)  # raises if it is not
                rollout = int(record.get("rollout", counts[agent, task_id]))
                if rollout not in range(2**31):  # Parquet has 32 bits for it
                    raise ValueError(f"rollout: expected 0 to 2^31 - 1, got {rollout!r:.40}")
                agents.setdefault(agent, {})[rollout, task_id] = session
                counts[agent, task_id] += 1
        except RECORD_ERRORS as problem:
            told = f"{type(problem).__name__}: {problem}"
            raise TaskError(f"an episode of {agent} cannot be played again: {told}") from None
    return agents


def make_entry(agent: str, folder: str, judge: Any) -> Entry:
    """Make the entry of an agent's episodes with the verdicts of a judge."""
    # the sessions are over, so the player plays nothing
    return Entry(agent, {"episodes": folder, "judge": judge}, lambda: Scripted(lambda seed: str))


def moves(stored: Entry, again: Entry) -> list[dict[str, Any]]:
    """Return the differences of each episode that moved, as JSON values; the largest first."""
    rows = []
    for key, new in again.episodes.items():
        old = stored.episodes[key]
        fields = {name: [value, new.verdict[name]] for name, value in old.verdict.items()}
        verdict = {name: pair for name, pair in fields.items() if pair[0] != pair[1]}
        row = {"task_id": key[1], "rollout": key[0], "reward": [old.reward, new.reward]}
        rows += [{**row, "verdict": verdict}] if verdict else []
    rows.sort(key=lambda row: (row["task_id"], row["rollout"]))
    return sorted(rows, key=lambda row: -abs(row["reward"][1] - row["reward"][0]))


def rejudge(
    contest: Contest,
    sessions: Sessions,
    stored: Entry,
    again: Entry,
    results: Results,
    ended: Callable[[], object],
) -> None:
    """Grade sessions again; add the episodes to two entries and to the results.

    Args:
        contest: settings, with the judge.
        sessions: graded sessions of an agent.
        stored: receives the episodes with their stored verdicts, where there is a new one.
        again: receives the same episodes with the new verdicts, and the failures.
        results: receives both.
        ended: callback after each episode.

    Raises:
        GivenUpError: there was no verdict on many episodes in a row.
        JudgeMisconfigured: the judge can grade no episode.
    """
    jobs = []
    for (rollout, _), session in sessions.items():
        reward = sum(step.reward for _, step in session.state.transcript)  # without the verdict
        ungraded = session.fork()
        ungraded.restore(session.state._replace(verdict=None, reward=reward))
        jobs.append(Job(rollout, ungraded, 0))

    def take(job: Job) -> None:
        key = job.rollout, job.session.task.task_id
        if again.take(job):
            stored.episodes[key] = Episode.of(sessions[key])
            results.append(row_of(stored.name, job.rollout, sessions[key]))
        results.append(row_of(again.name, job.rollout, job.session, job.failure))
        ended()

    asyncio.run(play_all(again.make(), jobs, contest.judge, _CONCURRENCY, take))
