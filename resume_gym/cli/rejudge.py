"""`resume-gym rejudge`: grade stored episodes with another judge."""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from resume_gym.apps.viewer.data import FolderContents as Stored
from resume_gym.apps.viewer.rows import env_of
from resume_gym.cli.arguments import (
    Commands,
    add_options,
    make_async_judge,
    print_json,
)
from resume_gym.cli.eval import check_places, conclude, opened, play_entries, report_failures
from resume_gym.episode.editing import AnySession
from resume_gym.episode.tasks import EDITION
from resume_gym.evaluation import Episode
from resume_gym.evaluation.comparison import Comparison
from resume_gym.evaluation.contest import Contest, Entry, Key
from resume_gym.evaluation.players import Scripted
from resume_gym.evaluation.results import RECORD_ERRORS
from resume_gym.evaluation.table import differences_table
from resume_gym.judges import as_async
from resume_gym.support.printing import say
from resume_gym.support.terminal import Terminal
from resume_gym.support.trust import FLAG, HELP
from resume_gym.support.user_errors import TaskError

T = TypeVar("T")
Sessions = dict[Key, AnySession]
"""Sessions of an agent, by rollout and task ID."""
_CONCURRENCY = 64
_MOVES = 10


def add_command(commands: Commands) -> None:
    """Add the parser of the command `rejudge`."""
    command = commands.add_parser(
        "rejudge",
        help="grade stored episodes with another judge, and compare",
        description="Grade the episodes of a run or an evaluation again. Print how the rewards and "
        "the verdicts change, and which episodes change most. The result, which `plot` and `view` "
        "open, is an evaluation with each agent twice: with the stored and with the new verdicts. "
        "A run of several environments gives one evaluation for each, in separate folders.",
        examples=["rejudge runs/nano --judge gemini", "rejudge result --out again"],
        done="all episodes are graded",
        failed="failure, or some episodes are not graded",
    )
    add = command.add_argument
    add("folder", type=Path, metavar="RUN_OR_RESULT", help="folder of a run or an evaluation")
    add_options(add, "--judge")
    add("--out", type=Path, metavar="FOLDER", help="write here (default: RUN_OR_RESULT-rejudged)")
    add(FLAG, action="store_true", help=f"{HELP}; also load tasks from the Hub")
    add_options(add, "--json")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    folder: Path = options.folder.resolve()
    options.out = options.out or folder.with_name(f"{folder.name}-rejudged")
    check_places(options)
    if options.judge:
        make_async_judge(options.judge)  # reports an unknown judge before the episodes are read
    stored = Stored(folder, options.trust_remote_code)
    stored.refresh()
    if stored.unreadable:
        raise TaskError(f"{folder}: {stored.damage()[0]}")
    for told in stored.damage():
        say(f"{folder}: {told}", error=True)
    played = _replay(stored)
    if not played:
        raise TaskError(f"{folder}: no episode has been graded")
    results: dict[str, Any] = {}
    status = 0
    for env, agents in played.items():
        contest = _contest(stored, env, agents, options.judge)
        out = options.out / env.rpartition(":")[2]
        results[env], failed = _rejudge(stored, contest, agents, out, options.json)
        status = max(status, failed)
    if options.json:
        print_json(results.get("", results))
    return status


def _rejudge(
    stored: Stored, contest: Contest, agents: Mapping[str, Sessions], out: Path, quiet: bool
) -> tuple[dict[str, Any], int]:
    """Grade the sessions of an environment again; return the result and the exit status."""
    judges = {"stored": stored.settings.get("judge"), "again": contest.judge_spec}
    pairs = [
        [_entry(f"{agent}, {name}", stored.path.name, judge) for name, judge in judges.items()]
        for agent in agents
    ]
    for (before, after), sessions in zip(pairs, agents.values(), strict=True):
        before.left = dict(sessions)
        after.left = {key: _ungraded(session) for key, session in sessions.items()}
    with opened(out, contest, [entry for pair in pairs for entry in pair]) as results:
        play_entries(contest, [after for _, after in pairs], _CONCURRENCY, results)
        for before, after in pairs:  # leave out episodes without a new verdict
            before.left = _shared(before.left, after)
            before.episodes = _shared(before.episodes, after)
        play_entries(contest, [before for before, _ in pairs], _CONCURRENCY, results)
        figures, evaluated = conclude(contest, pairs, results)
    moved = {after.name: _moves(before, after)[:_MOVES] for before, after in pairs}
    if not quiet:
        _print(out, figures.comparisons, moved)
    return {**evaluated, "moves": moved}, report_failures([after for _, after in pairs])


def _replay(stored: Stored) -> dict[str, dict[str, Sessions]]:
    """Replay the stored episodes; return the graded sessions by environment and agent.

    Raises:
        TaskError: a record is invalid, differs from its replay, or is of an unknown task or domain.
    """
    kinds: dict[str, type[AnySession]] = {}
    for env, tasks in stored.tasks.items():
        if tasks.session_type is None:
            told = tasks.note or f"expected an editing environment{f', got {env}' * bool(env)}"
            raise TaskError(f"{stored.path}: {told}")
        kinds[env] = tasks.session_type
    played: dict[str, dict[str, Sessions]] = {}
    counts: Counter[tuple[str, str, str]] = Counter()  # a run may play a task at several steps
    for agent, record in _records(stored):
        try:
            task_id, env = record["task_id"], env_of(record)
            session = kinds[env].replay(stored.tasks[env].find(task_id), record)
            if record["graded"]:
                Episode.of(session)  # raises ValueError if the session is not graded
                rollout = int(record.get("rollout", counts[env, agent, task_id]))
                if rollout not in range(2**31):  # a limit far above the rollouts of any evaluation
                    raise ValueError(f"rollout: expected 0 to 2^31 - 1, got {rollout!r:.40}")
                played.setdefault(env, {}).setdefault(agent, {})[rollout, task_id] = session
                counts[env, agent, task_id] += 1
        except RECORD_ERRORS as problem:
            told = f"{type(problem).__name__}: {problem}{_other_edition(stored)}"
            raise TaskError(f"an episode of {agent} cannot be replayed: {told}") from None
    return played


def _other_edition(stored: Stored) -> str:
    """Return a note if the stored `edition` is not this version's `EDITION`; "" if they agree."""
    if stored.edition == EDITION:
        return ""
    return (
        f"; the folder has edition {stored.edition!r:.40} of the tasks and verdicts, and this "
        f"version has edition {EDITION}"
    )


def _records(stored: Stored) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the agent and the record of each stored episode, sorted by step and rollout."""
    rows = sorted(enumerate(stored.rows), key=lambda pair: (pair[1].step or 0, pair[1].member))
    for number, row in rows:
        held_out = "held-out" if "held-out" in row.flags else "training"
        yield row.agent or held_out, stored.record(number)


def _contest(stored: Stored, env: str, agents: Mapping[str, Sessions], spec: str | None) -> Contest:
    """Return the settings of an evaluation in which a judge grades stored episodes again.

    Raises:
        TaskError: the environment, which is named `env` in the records, refuses the judge, or has
            no default judge and `spec` is None.
    """
    made: Any = stored.tasks[env].env
    try:
        own = made.make_judge(spec) if spec else made.judge
    except ValueError as problem:
        raise TaskError(f"--judge: {str(problem).removeprefix('judge: ')}") from None
    if own is None:
        raise TaskError("--judge: expected a judge, since the environment has no default judge")
    sessions = {key: one for sessions in agents.values() for key, one in sessions.items()}
    tasks = list({one.task.task_id: one.task for one in sessions.values()}.values())
    only, source = (str(stored.settings.get(name) or "") for name in ("env", "tasks"))
    rollouts, first = 1 + max(rollout for rollout, _ in sessions), next(iter(sessions.values()))
    split = str(stored.settings.get("split") or "all")
    rest = source, split, tasks, spec or own.name, as_async(own), rollouts, 0, type(first)
    return Contest(env or only, first.rules, *rest, grows=True)


def _entry(agent: str, folder: str, judge: object) -> Entry:
    """Make an empty `Entry`, to be filled with an agent's episodes and one judge's verdicts."""
    # an `Entry` needs a player; this one never plays, since the stored sessions are finished
    return Entry(agent, {"episodes": folder, "judge": judge}, lambda: Scripted(lambda seed: str))


def _ungraded(session: AnySession) -> AnySession:
    """Return a copy of a finished session without its verdict and the verdict's reward."""
    reward = sum(step.reward for _, step in session.state.transcript)
    ungraded = session.fork()
    ungraded.restore(session.state._replace(verdict=None, reward=reward))
    return ungraded


def _shared(of: Mapping[Key, T], entry: Entry) -> dict[Key, T]:
    return {key: value for key, value in of.items() if key in entry.episodes}


def _moves(stored: Entry, again: Entry) -> list[dict[str, Any]]:
    """Return the episodes with changed verdicts, as JSON values; largest change of reward first."""
    rows = []
    for key, new in again.episodes.items():
        old = stored.episodes[key]
        fields = {name: [value, new.verdict[name]] for name, value in old.verdict.items()}
        verdict = {name: pair for name, pair in fields.items() if pair[0] != pair[1]}
        row = {"task_id": key[1], "rollout": key[0], "reward": [old.reward, new.reward]}
        rows += [{**row, "verdict": verdict}] if verdict else []
    rows.sort(key=lambda row: (row["task_id"], row["rollout"]))
    return sorted(rows, key=lambda row: -abs(row["reward"][1] - row["reward"][0]))


def _print(
    out: Path, comparisons: Sequence[Comparison], moved: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    console = Terminal(highlight=False)
    for comparison in comparisons:
        console.print(differences_table(comparison), crop=False)
        for move in moved[comparison.second]:
            verdict = (
                f"{name} {old:+g} to {new:+g}" for name, (old, new) in move["verdict"].items()
            )
            old, new = move["reward"]
            text = f"  {move['task_id']}, rollout {move['rollout']}: {old:z.2f} to {new:z.2f}"
            console.print(f"{text} ({', '.join(verdict)})", soft_wrap=True)
        console.print()
    console.print(f"{out}: evaluation.json, episodes.jsonl", soft_wrap=True)
