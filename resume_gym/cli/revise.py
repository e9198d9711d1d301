"""`resume-gym revise`: revise the user's resume with an agent."""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.markup import escape

from resume_gym.apps.revise.console import print_summary
from resume_gym.apps.revise.edits import words
from resume_gym.apps.revise.files import (
    Source,
    check_format,
    check_places,
    read_source,
    write_files,
)
from resume_gym.apps.revise.report import as_json, report
from resume_gym.apps.revise.revision import Revision, graded, play
from resume_gym.cli.arguments import (
    Commands,
    add_options,
    find_model,
    positive,
    print_json,
    progress_bars,
)
from resume_gym.corpus.diagnosis import NO_BULLETS, diagnose
from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.header import CANDIDATE, Anonymous, anonymise, put_back
from resume_gym.corpus.outline import CHECK
from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.editing import Rules
from resume_gym.episode.rewards import Verdict
from resume_gym.episode.session import Session
from resume_gym.episode.tasks import Task
from resume_gym.evaluation.contest import Contest, Entry, make_contest
from resume_gym.evaluation.specs import make_entry, read_spec
from resume_gym.evaluation.tiers import TIERS
from resume_gym.judges import Judge
from resume_gym.judges.rubric.signals import excess
from resume_gym.llm import ModelError, Usage
from resume_gym.support.printing import amount, say
from resume_gym.support.trust import is_local
from resume_gym.support.user_errors import TaskError, number_of
from resume_gym.text.lines import parse

FLAGGED = 3
_ABOUT = """\
An agent revises your resume for a job. Two files are written next to the resume:

  RESUME.revised.md        the revision
  RESUME.revised.diff.md   a report: each edit with its reason, new claims that
                           your resume does not support, and the judge's verdict

Plain text stays plain text; Word and PDF become Markdown. The resume itself is never changed. The \
agent is one of

  careful                      a scripted agent: fast, but gives no reasons;
                               with --page-lines, it says if nothing on a page
                               that is too long is padding
  OWNER/NAME                   a model of the Hugging Face Hub, downloaded
  MODEL@http://HOST:PORT/v1    a server, such as Ollama or vLLM; it receives
                               both documents
  MODEL@openai                 the same with OpenAI and your OPENAI_API_KEY
  runs/NAME, FOLDER            a model that you trained, or a checkpoint
  {"model": ..., ...}          a model or server with options, as JSON
  {"local": ..., "frontier": ..., "after_failures": 2}
                               two servers that share the turns, as in eval

A revision is flagged if it has a claim without support, if the agent ran out of turns, if the \
judge objects or gives no verdict, or if more lines are gone than two or a tenth. Lines that \
--page-lines leaves no room for may go.
"""
_EXAMPLES = (
    "revise ada.md --job job.txt --agent careful",
    "revise ada.md --job job.txt --agent Qwen/Qwen3-4B",
    "revise ada.md --job job.txt --agent qwen3@http://127.0.0.1:11434/v1",
    "revise ada.docx --job job.pdf --agent gpt-5-mini@openai --anonymous",
)


def add_command(commands: Commands) -> None:
    """Add the parser of the command `revise`."""
    command = commands.add_parser(
        "revise",
        help="have an agent revise your own resume",
        description=_ABOUT,
        examples=_EXAMPLES,
        done="revised, and not flagged",
        failed="nothing written: the agent failed or changed nothing",
        flagged="revised, but flagged (see above)",
    )
    add = command.add_argument
    add("resume", type=Path, metavar="RESUME", help="your resume: .md, .txt, .docx, .pdf")
    add("--job", type=Path, required=True, metavar="FILE", help="the job description")
    add("--agent", required=True, metavar="SPEC", help="the agent, as above")
    add_options(
        add,
        "--anonymous",
        help="show the agent and the judge '# Candidate' instead of everything above the first "
        "section heading; the rest stays as it is, and the revision has the original header",
    )
    add_options(
        add,
        "--page-lines",
        help="have the agent cut the resume to N lines (default: nothing is cut for length)",
    )
    add(
        "--max-turns",
        type=positive,
        metavar="N",
        help="turns of the agent, 3 or more (default: those of the environment)",
    )
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
        TaskError: an option or file is invalid; raised before the agent runs.
        ModelError: the agent failed; raised before any file is written.
    """
    resume, job = read_source(options.resume), read_source(options.job)
    out: Path = options.out or resume.path.with_name(f"{resume.path.stem}.revised{resume.suffix}")
    report_path: Path = options.report or out.parent / f"{out.stem}.diff.md"
    inputs = [options.resume, options.job]
    if over := excess(resume.text):
        raise TaskError(f"{options.resume}: the resume exceeds the limit of {over}")
    check_format(out)
    check_places({"--out": out, "--report": report_path}, inputs, force=options.force)
    contest = make_contest(options.env, None, "eval", options.judge, 1, options.seed)
    contest = replace(contest, rules=_rules(contest.rules, options))
    agent = _agent(options.agent, contest)
    notes = _notes(resume, job)
    anonymous = _anonymous(resume) if options.anonymous else None
    if anonymous:
        notes.append(f"{resume.path}: {anonymous.note}")
    elif _is_hosted(agent.spec):
        advice = "--anonymous replaces what stands above the first section"
        print(f"resume-gym: {agent.name} is sent the whole resume; {advice}", file=sys.stderr)
    session = _session(contest, resume.text, anonymous.text if anonymous else resume.text, job.text)
    _play(agent, session, options.seed)
    revision = _compared(session, contest.judge)
    notes += _shares(agent.spent())
    if agent.spec == "careful" and (said := words(session.state.transcript[-1][0])[1]):
        notes.append(said)
    text = session.text
    if anonymous:
        text, kept = put_back(anonymous.header, text)
        if not kept:
            notes.append(f'the agent changed the line "{CANDIDATE}": check the top of {out}')
    names = {"resume": str(options.resume), "job": str(options.job), "agent": agent.name}
    outputs = {"out": str(out), "report": str(report_path)}
    if revision.changed:
        changes = report(revision, names | outputs, notes)
        # model output may contain lone surrogates, which UTF-8 cannot encode
        contents = {report_path: changes.encode("utf-8", "replace"), out: resume.encoded(text)}
        write_files(contents, options.resume, force=options.force)
    if options.json:
        files = outputs if revision.changed else dict.fromkeys(outputs)
        spent = {who: asdict(usage) for who, usage in agent.spent().items()}
        settings = {"spec": agent.spec, "env": options.env, "seed": options.seed, "spent": spent}
        settings["anonymous"] = options.anonymous
        created = {"created": datetime.now(UTC).isoformat(timespec="seconds")}
        print_json({**names, **files, **created, **settings, **as_json(revision, notes)})
    elif revision.changed:
        print_summary(revision, notes, outputs.values())
    return _status(revision, agent.name, notes)


def _rules(rules: Rules, options: argparse.Namespace) -> Rules:
    """Return the environment's rules with the user's limits; a page without limit has no end."""
    height = options.page_lines or rules.max_chars  # no text has more lines than characters
    try:
        return replace(rules, page_lines=height, max_turns=options.max_turns or rules.max_turns)
    except ValueError as problem:
        raise TaskError(f"--max-turns: {str(problem).removeprefix('max_turns: ')}") from None


def _anonymous(resume: Source) -> Anonymous:
    try:
        return anonymise(resume.text)
    except DocumentError as problem:
        raise TaskError(f"--anonymous: {resume.path}: {problem}") from None


def _is_hosted(spec: object) -> bool:
    """Return whether an agent, or one model of a two-model agent, runs on another machine."""
    return isinstance(spec, Mapping) and (
        any(_is_hosted(spec.get(tier)) for tier in TIERS)
        or not is_local(spec.get("base_url", "http://localhost"))
    )


def _session(contest: Contest, original: str, shown: str, job: str) -> Session:
    """Make the session; the task's weakness is diagnosed for reports and hidden from the agent.

    Args:
        contest: settings, with the environment's session type and rules.
        original: the user's resume.
        shown: the resume that the agent sees, perhaps without its header.
        job: the job description.
    """
    session_type, rules = contest.session_type, contest.rules
    if not issubclass(session_type, Session):
        raise TaskError(f"--env: expected an environment for resumes, got {contest.env}")
    if session_type.verdict_type is not Verdict:
        told = "whose judge grades the whole resume, such as ResumeEdit-v0"
        raise TaskError(f"--env: expected an environment {told}; got {contest.env}")
    if not rules.endless:
        # the page of the agent ends where the page with the original header ends
        hidden = wrapped_lines(original, rules.page_width) - wrapped_lines(shown, rules.page_width)
        rules = replace(rules, page_lines=max(1, rules.page_lines - hidden))
    weakness = diagnose(shown, job).weakness
    return session_type(Task("revise", job, shown, weakness, "eval"), rules)


def _notes(resume: Source, job: Source) -> list[str]:
    """Return the notes on the input files, as `data import` prints them."""
    notes = [f"{source.path}: {note}" for source in (resume, job) for note in source.notes]
    if not any(line.kind == "bullet" for line in parse(resume.text)):
        notes.append(f"{resume.path}: {NO_BULLETS}")
    return sorted(notes, key=lambda note: note.endswith(CHECK))  # the last notes say what to do


def _shares(spent: Mapping[str, Usage]) -> list[str]:
    """Return a list with a note on the usage of an agent's two models; [] if it has only one."""
    parts = []
    for tier in TIERS:
        if usage := spent.get(tier):
            cost = "" if usage.dollars is None else f" for ${amount(usage.dollars, 4)}"
            read = "" if usage.tokens is None else f", {number_of(usage.tokens, 'token')}"
            parts.append(f"{tier} model: {number_of(usage.answers, 'answer')}{read}{cost}")
    return ["; ".join(parts)] if parts else []


def _agent(text: str, contest: Contest) -> Entry:
    """Make the agent of a spec, without loading a model or sending a request."""
    try:
        spec = read_spec(text)
    except ValueError as problem:
        raise TaskError(f"--agent: {problem}") from None
    return make_entry("--agent", spec, contest, 1, find_model)


def _play(agent: Entry, session: Session, seed: int) -> None:
    """Play the episode; show its progress as a bar on a terminal, or as lines elsewhere."""
    limit = session.rules.max_turns
    with progress_bars() as bars:
        bar = bars.add_task("", total=None)

        def show(told: str, turns: int, total: int | None = limit) -> None:
            # no progress lines for scripted agents, which finish at once
            if bars.disable and isinstance(agent.spec, Mapping):
                say(told, error=True)
            bars.update(bar, description=escape(told), completed=turns, total=total)

        def turn(turns: int) -> None:
            if turns != bars.tasks[bar].completed:
                told = f"{agent.name}: turn {turns} of {limit}, edits: {session.state.edits}"
                show(told, turns)

        show(f"{agent.name} starts", 0, None)
        player = agent.make()
        try:
            asyncio.run(play(player, session, seed, turn))
        except ModelError as problem:
            done = f"after {session.turns} of {limit} turns (edits: {session.state.edits})"
            reason = f"{type(problem).__name__}: {problem}"
            raise ModelError(f"{agent.name} failed {done}; nothing is written: {reason}") from None


def _compared(session: Session, judge: Judge) -> Revision:
    """Grade the revision and analyse each edit, which takes seconds for a long resume."""
    with progress_bars() as bars:
        bars.add_task("comparing the revision with your resume", total=None)
        return graded(session, judge)


def _status(revision: Revision, name: str, notes: list[str]) -> int:
    """Return the exit status; report on stderr, with the notes, if there is no revision."""
    if revision.changed:
        return FLAGGED if revision.warnings else 0
    session = revision.session
    outcome = "changed nothing that a reader would see" if session.state.edits else "made no edit"
    turns = f"{session.turns} of {number_of(session.rules.max_turns, 'turn')}"
    effort = f"{turns}, {number_of(revision.failed_calls, 'failed call')}"
    errors = [step.observation for _, step in session.state.transcript if step.error != "none"]
    effort += "".join(f"; the last one: {error.splitlines()[0]}" for error in errors[-1:])
    say(f"resume-gym: {name} {outcome} ({effort}); nothing is written", error=True)
    for note in notes:
        say(f"note: {note}", error=True)
    return 1
