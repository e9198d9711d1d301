"""`resume-gym revise`: revise the user's resume with an agent."""

import argparse
import asyncio
import sys
from pathlib import Path

from rich.markup import escape

from resume_gym.apps.revise.files import Source, check_places, read_source, write_files
from resume_gym.apps.revise.report import as_json, report
from resume_gym.apps.revise.revision import Revision, graded, play
from resume_gym.apps.revise.summary import print_summary
from resume_gym.cli.arguments import (
    Commands,
    add_options,
    add_parser,
    find_model,
    print_json,
    progress_bars,
)
from resume_gym.corpus.diagnosis import diagnose
from resume_gym.evaluation.contest import Contest, Entry, make_contest
from resume_gym.evaluation.entries import make_entry
from resume_gym.evaluation.specs import read_spec
from resume_gym.judges import Judge
from resume_gym.llm import ModelError
from resume_gym.session import Session
from resume_gym.tasks import Task, TaskError

FLAGGED = 3
_ABOUT = """\
An agent revises your resume for a job. Two files are written next to the resume:

  RESUME.revised.md        the revision
  RESUME.revised.diff.md   a report: each edit with its reason, new claims that
                           your resume does not support, and the judge's verdict

A resume in Markdown or plain text keeps its format and line ends; the revision of a Word, PDF or \
JSON Resume file is in Markdown. The resume itself is never changed. The agent is one of

  runs/NAME, FOLDER, nano      a local model, or one of its checkpoints
  OWNER/NAME                   a model of the Hugging Face Hub
  MODEL@http://HOST:PORT/v1    a server, to which both documents are sent
  MODEL@openai                 OpenAI, likewise
  careful                      a scripted agent, which gives no reasons
  {"model": ..., ...}          a model or server with options, as JSON

A revision is flagged if it has a claim without support, if the agent ran out of turns, or if the \
judge objects or gives no verdict.
"""
_EXAMPLES = (
    "revise ada.md --job job.txt --model careful",
    "revise ada.md --job job.txt --model runs/qwen --out second.md",
    "revise ada.docx --job job.pdf --model gpt-5-mini@openai",
)


def add_command(commands: Commands) -> None:
    """Add `revise`."""
    command = add_parser(
        commands,
        "revise",
        "have an agent revise your own resume",
        _ABOUT,
        _EXAMPLES,
        done="revised, and not flagged",
        failed="nothing written: the agent failed, or changed nothing",
        flagged="revised, but flagged: see above",
    )
    add = command.add_argument
    add("resume", type=Path, metavar="RESUME", help="your resume: .md, .txt, .docx, .pdf, .json")
    add("--job", type=Path, required=True, metavar="FILE", help="the job description")
    add("--model", required=True, metavar="SPEC", help="the agent, as above")
    add_options(add, "--env", "--judge", "--seed", "--json")
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the revision here (default: RESUME.revised.md)",
    )
    add("--report", type=Path, metavar="FILE", help="write the report here (default: OUT.diff.md)")
    add("--force", action="store_true", help="replace existing output files; never the resume")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    """Revise a resume; return the exit status.

    Raises:
        TaskError: an option or file is invalid; no agent has run.
        ModelError: the agent failed; nothing has been written.
    """
    resume, job = read_source(options.resume), read_source(options.job)
    out: Path = options.out or resume.path.with_name(f"{resume.path.stem}.revised{resume.suffix}")
    report_path: Path = options.report or out.parent / f"{out.stem}.diff.md"
    inputs = [options.resume, options.job]
    check_places({"--out": out, "--report": report_path}, inputs, force=options.force)
    contest = make_contest(options.env, None, "eval", options.judge, 1, options.seed)
    session_type = contest.session_type
    if not issubclass(session_type, Session):
        raise TaskError(f"--env: expected an environment for resumes, got {options.env}")
    session = session_type(_task(resume, job), contest.rules)
    agent = _agent(options.model, contest)
    _play(agent, session, options.seed)
    revision = _compared(session, contest.judge)
    names = {"resume": str(options.resume), "job": str(options.job), "model": agent.name}
    notes = [f"{source.path}: {note}" for source in (resume, job) for note in source.notes]
    outputs = {"out": str(out), "report": str(report_path)}
    if revision.changed:
        text = report(revision, names | outputs, notes)
        # model output may contain lone surrogates, which UTF-8 cannot encode
        contents = {report_path: text.encode("utf-8", "replace"), out: resume.encoded(session.text)}
        write_files(contents, options.resume, force=options.force)
    if options.json:
        files = outputs if revision.changed else dict.fromkeys(outputs)
        settings = {"spec": agent.spec, "env": options.env, "seed": options.seed}
        print_json({**names, **files, **settings, **as_json(revision, notes)})
    elif revision.changed:
        print_summary(revision, notes, outputs.values())
    return _status(revision, agent.name)


def _task(resume: Source, job: Source) -> Task:
    """Make the task; its weakness, hidden from agents, is diagnosed as in `data import`."""
    weakness = diagnose(resume.text, job.text).weakness
    return Task("revise", job.text, resume.text, weakness, "eval")


def _agent(text: str, contest: Contest) -> Entry:
    """Make the agent of a spec, without loading a model or sending a request."""
    try:
        spec = read_spec(text)
    except ValueError as problem:
        raise TaskError(f"--model: {problem}") from None
    return make_entry("--model", spec, contest, 1, find_model)


def _play(agent: Entry, session: Session, seed: int) -> None:
    """Play the episode, with a progress bar of its turns on a terminal."""
    player, limit = agent.make(), session.rules.max_turns
    with progress_bars() as bars:
        bar = bars.add_task(f"{escape(agent.name)} revises", total=limit)
        try:
            asyncio.run(play(player, session, seed, lambda n: bars.update(bar, completed=n)))
        except ModelError as problem:
            done = f"after {session.turns} of {limit} turns (edits: {session.state.edits})"
            reason = f"{type(problem).__name__}: {problem}"
            raise ModelError(f"{agent.name} failed {done}, nothing is written: {reason}") from None


def _compared(session: Session, judge: Judge) -> Revision:
    """Grade the revision and analyse each edit; takes seconds for a long resume."""
    with progress_bars() as bars:
        bars.add_task("comparing it with your resume", total=None)
        revision = graded(session, judge)
        _ = revision.changes  # computed here, under the progress bar, and cached
    return revision


def _status(revision: Revision, name: str) -> int:
    """Return the exit status; report on stderr if there is no revision."""
    if revision.changed:
        return FLAGGED if revision.warnings else 0
    session = revision.session
    outcome = "changed nothing that a reader would see" if session.state.edits else "made no edit"
    turns = f"{session.turns} of {session.rules.max_turns} turns"
    effort = f"{turns}, {revision.failed_calls} failed calls"
    print(f"resume-gym: {name} {outcome} ({effort}); nothing is written", file=sys.stderr)
    return 1
