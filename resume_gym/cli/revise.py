"""`resume-gym revise`: revise the user's resume with an agent."""

import argparse
import asyncio
import sys
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from resume_gym.apps.revise.files import Source, check_places, read_source, write_files
from resume_gym.apps.revise.report import as_json, report
from resume_gym.apps.revise.revision import Revision, graded, play
from resume_gym.apps.revise.summary import print_summary
from resume_gym.cli.arguments import add_json, add_parser, print_json
from resume_gym.corpus.diagnosis import diagnose
from resume_gym.evaluation.contest import Contest, Entry, make_contest
from resume_gym.evaluation.entries import FindModel, make_entry
from resume_gym.evaluation.specs import read_spec
from resume_gym.judges import Judge
from resume_gym.llm import ModelError
from resume_gym.session import Session
from resume_gym.tasks import Task, TaskError

FLAGGED = 3
_ABOUT = """\
An agent revises your resume for a job. Beside it are written

  RESUME.revised.md        the revision
  RESUME.revised.diff.md   each edit with its reason, every new claim that your
                           resume does not support, and what a judge says

Your resume is Markdown or plain text, and stays in that format, with its line ends; of Word, PDF \
and JSON Resume the revision is in Markdown. It is only read, as the job description is. The agent \
is one that `resume-gym eval --agent` takes:

  runs/NAME, FOLDER, nano      a model of your own, or one of its checkpoints
  MODEL@http://HOST:PORT/v1    a server, which is sent both documents
  MODEL@openai                 OpenAI's own
  careful                      a scripted agent, which gives no reasons
  {"model": ..., ...}          a model or a server with options, as JSON

Flagged is a revision with a claim that has no support, one that the agent did not hand in, and \
one to which the judge objects or gives no verdict.
"""
_EXAMPLES = (
    "revise ada.md --job job.txt --model careful",
    "revise ada.md --job job.txt --model runs/qwen --out second.md",
    "revise ada.docx --job job.pdf --model gpt-5-mini@openai",
)


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", find_model: FindModel
) -> None:
    """Add `revise`.

    Args:
        commands: subparsers of the command line.
        find_model: locates local models.
    """
    command = add_parser(
        commands,
        "revise",
        "have an agent revise your own resume",
        _ABOUT,
        _EXAMPLES,
        done="it is revised, and nothing is flagged",
        failed="nothing is written: the agent failed, or changed nothing",
        flagged="it is revised, and flagged: see above",
    )
    add = command.add_argument
    add("resume", type=Path, metavar="RESUME", help="your resume: .md, .txt, .docx, .pdf, .json")
    add("--job", type=Path, required=True, metavar="FILE", help="the job description")
    add("--model", required=True, metavar="SPEC", help="the agent: see above")
    add(
        "--env",
        default="ResumeEdit-v0",
        metavar="ID",
        help="whose turns, page and judge, or module:ID (default: %(default)s)",
    )
    add("--judge", metavar="SPEC", help="who grades, as in eval (default: the environment's)")
    add("--seed", default=0, type=int, metavar="N", help="of what is drawn (default: 0)")
    add("--out", type=Path, metavar="FILE", help="the revision (default: RESUME.revised.md)")
    add("--report", type=Path, metavar="FILE", help="the changes (default: OUT.diff.md)")
    add("--force", action="store_true", help="replace these two if they exist; never the resume")
    add_json(add)
    command.set_defaults(run=partial(_run, find_model=find_model))


def _run(options: argparse.Namespace, find_model: FindModel) -> int:
    """Revise a resume; return the exit status.

    Raises:
        TaskError: an option or file is invalid; no agent has run.
        ModelError: the agent failed; nothing has been written.
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
        # model output may contain lone surrogates, which UTF-8 cannot encode
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
    """Make the task; its weakness, hidden from agents, is diagnosed as in `data import`."""
    weakness = diagnose(resume.text, job.text).weakness
    return Task("revise", job.text, resume.text, weakness, "eval")


def _agent(text: str, contest: Contest, find_model: FindModel) -> Entry:
    """Make the agent of a spec, without loading a model or sending a request."""
    try:
        spec = read_spec(text)
    except ValueError as problem:
        raise TaskError(f"--model: {problem}") from None
    return make_entry("--model", spec, contest, 1, find_model)


def _play(agent: Entry, session: Session, seed: int) -> None:
    """Play the episode, with a progress bar of its turns on a terminal."""
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
    """Grade the revision and analyse each edit; takes seconds for a long resume."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bars.add_task("comparing it with your resume", total=None)
        revision = graded(session, judge)
        _ = revision.changes  # computed here, under the progress bar, and cached
    return revision


def _status(revision: Revision, name: str) -> int:
    """Return the exit status; report on stderr if there is no revision."""
    if revision.changed:
        return FLAGGED if revision.warnings else 0
    session = revision.session
    what = "changed nothing that a reader would see" if session.state.edits else "made no edit"
    spent = (
        f"{session.turns} of {session.rules.max_turns} turns, {revision.failed_calls} failed calls"
    )
    print(f"resume-gym: {name} {what} ({spent}); nothing is written", file=sys.stderr)
    return 1
