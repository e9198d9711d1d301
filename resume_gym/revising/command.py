"""What `resume-gym revise` does, from the words of its command line to the exit status."""

import argparse
import asyncio
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from resume_gym.arguments import print_json
from resume_gym.corpus.diagnosis import diagnose
from resume_gym.evaluation.command import FindModel, make_entry
from resume_gym.evaluation.contest import Contest, Entry, make_contest
from resume_gym.evaluation.specs import read_spec
from resume_gym.judges import Judge
from resume_gym.llm import ModelError
from resume_gym.revising.files import Source, check_places, read_source, write_files
from resume_gym.revising.report import as_json, report
from resume_gym.revising.revision import Revision, graded, play
from resume_gym.revising.summary import print_summary
from resume_gym.session import Session
from resume_gym.tasks import Task, TaskError

FLAGGED = 3


def run(options: argparse.Namespace, find_model: FindModel) -> int:
    """Revise a resume; the command's exit status.

    Args:
        options: of the command line.
        find_model: for models of one's own.

    Raises:
        TaskError: it cannot be done; no agent was asked.
        ModelError: the agent failed; nothing was written.
    """
    resume, job = read_source(options.resume), read_source(options.job)
    out: Path = options.out or resume.path.with_name(f"{resume.path.stem}.revised{resume.suffix}")
    told: Path = options.report or out.parent / f"{out.stem}.diff.md"
    read = [options.resume, options.job]
    check_places({"--out": out, "--report": told}, read, force=options.force)
    contest = make_contest(options.env, None, "eval", options.judge, 1, options.seed)
    kind = contest.session_type
    if not issubclass(kind, Session):
        raise TaskError(f"--env: expected an environment of resumes; {options.env} edits others")
    session = kind(_task(resume, job), contest.rules)
    agent = _agent(options.model, contest, find_model)
    _play(agent, session, options.seed)
    revision = _compared(session, contest.judge)
    names = {"resume": str(options.resume), "job": str(options.job), "model": agent.name}
    notes = [f"{one.path}: {note}" for one in (resume, job) for note in one.notes]
    written = {"out": str(out), "report": str(told)}
    if revision.changed:
        text = report(revision, names | written, notes)
        # what a model says may hold half of a character
        contents = {told: text.encode("utf-8", "replace"), out: resume.encoded(session.text)}
        write_files(contents, options.resume, force=options.force)
    if options.json:
        where = written if revision.changed else dict.fromkeys(written)
        about = {**names, **where, "spec": agent.spec, "env": options.env, "seed": options.seed}
        print_json({**about, **as_json(revision, notes)})
    elif revision.changed:
        print_summary(revision, notes, written.values())
    return _status(revision, agent.name)


def _task(resume: Source, job: Source) -> Task:
    """The resume and the job; the weakness, which no agent is shown, is named as in an import."""
    weakness = diagnose(resume.text, job.text).weakness
    return Task("revise", job.text, resume.text, weakness, "eval")


def _agent(text: str, contest: Contest, find_model: FindModel) -> Entry:
    """The agent of a spec; nothing is loaded, and nobody is asked anything yet."""
    try:
        spec = read_spec(text)
    except ValueError as problem:
        raise TaskError(f"--model: {problem}") from None
    return make_entry("--model", spec, contest, 1, find_model)


def _play(agent: Entry, session: Session, seed: int) -> None:
    """Play the episode, with a bar of its turns on a terminal."""
    name, console = agent.name, Console(stderr=True)
    player = agent.make()
    limit = session.rules.max_turns
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task(f"{escape(name)} revises", total=limit)
        try:
            asyncio.run(play(player, session, seed, lambda n: bars.update(bar, completed=n)))
        except ModelError as problem:
            done = f"after {session.turns} of {limit} turns (edits: {session.state.edits})"
            why = f"{type(problem).__name__}: {problem}"
            raise ModelError(f"{name} failed {done}, nothing is written: {why}") from None


def _compared(session: Session, judge: Judge) -> Revision:
    """Have it graded, and every edit looked at: seconds for a long resume, minutes for a book."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bars.add_task("comparing it with your resume", total=None)
        revision = graded(session, judge)
        _ = revision.changes  # kept
    return revision


def _status(revision: Revision, name: str) -> int:
    """The command's exit status; says what came of it if there is no revision."""
    if revision.changed:
        return FLAGGED if revision.warnings else 0
    session = revision.session
    what = "changed nothing that a reader would see" if session.state.edits else "made no edit"
    spent = (
        f"{session.turns} of {session.rules.max_turns} turns, {revision.failed_calls} failed calls"
    )
    print(f"resume-gym: {name} {what} ({spent}); nothing is written", file=sys.stderr)
    return 1
