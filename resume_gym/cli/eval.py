"""`resume-gym eval`: play agents on tasks and print their statistics side by side."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from resume_gym.agents import AGENTS
from resume_gym.cli.arguments import add_json, add_parser, positive, print_json
from resume_gym.evaluation.contest import (
    Contest,
    Entry,
    Figures,
    evaluation,
    make_contest,
    play_entry,
    restore,
)
from resume_gym.evaluation.entries import ENDPOINT_AT_ONCE, FindModel, make_entry
from resume_gym.evaluation.progress import Bar, progress
from resume_gym.evaluation.results import Results
from resume_gym.evaluation.specs import AgentSpec, read_spec
from resume_gym.evaluation.table import comparison_table, markdown, table
from resume_gym.judges import JudgeError
from resume_gym.llm import ModelError
from resume_gym.tasks import SPLITS, TaskError
from resume_gym.user_errors import missing

ROLLOUTS = 16
_ABOUT = """\
Agents play tasks, a judge grades them, and their figures are printed side by side. With --out the \
same command goes on where it stopped, and agents and rollouts may be added. An agent is

  noop, random, careful, oracle   a scripted one
  runs/NAME                       the model of a training run
  runs/NAME/checkpoints/step-...  one of its checkpoints (backend local)
  FOLDER, nano, smollm2           any model in Hugging Face's format
  MODEL@http://HOST:PORT/v1       a server with OpenAI's protocol and native
                                  calls of tools; MODEL@openai is OpenAI's own;
                                  the key is in OPENAI_API_KEY, or in the
                                  variable that the option key_name names
  {"model": ..., ...}             either with options, as JSON: temperature,
                                  max_tokens, engine; base_url, key_name,
                                  answer_tokens, extra_body, store, ..."""
_EXAMPLES = (
    "eval --agent careful --agent oracle --env ResumeEditMini-v0",
    "eval --agent before=nano --agent after=runs/nano --out result",
    "eval --agent runs/qwen --agent gpt=gpt-5-mini@openai --judge gemini",
    "eval --json > figures.json",
)


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", find_model: FindModel
) -> None:
    """Add `eval`.

    Args:
        commands: subparsers of the command line.
        find_model: locates local models.
    """
    command = add_parser(
        commands,
        "eval",
        "play agents on tasks and print their figures side by side",
        _ABOUT,
        _EXAMPLES,
        done="all episodes have a number",
        failed="some have none, or it failed",
    )
    add = command.add_argument
    add(
        "--agent",
        action="append",
        metavar="[NAME=]SPEC",
        help="see above; repeat to compare (default: all scripted ones)",
    )
    add(
        "--env",
        default="ResumeEdit-v0",
        metavar="ID",
        help="environment of editing, or module:ID (default: %(default)s)",
    )
    add(
        "--tasks",
        metavar="SOURCE",
        help="for resumes default, mini, procedural:SEED:COUNT, a JSONL file, a folder of "
        "datasets or hf://OWNER/NAME (default: the environment's)",
    )
    add("--split", default="eval", choices=SPLITS, help="of the tasks (default: %(default)s)")
    add(
        "--judge",
        metavar="SPEC",
        help="who grades: a name, or JSON with a name and options (default: the environment's, "
        "for resumes rubric)",
    )
    add(
        "--rollouts",
        type=positive,
        metavar="N",
        help=f"episodes a task (default: {ROLLOUTS}; 1 if all agents are scripted)",
    )
    add("--seed", default=0, type=int, metavar="N", help="of what is drawn (default: 0)")
    add(
        "--at-once",
        type=positive,
        metavar="N",
        help=f"episodes side by side (default: {ENDPOINT_AT_ONCE} of an endpoint, 128 of a model)",
    )
    add("--out", type=Path, metavar="FOLDER", help="keep every episode and all figures here")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print for a paper or a README")
    add_json(form.add_argument)
    command.set_defaults(run=partial(_run, find_model=find_model))


def _run(options: argparse.Namespace, find_model: FindModel) -> int:
    specs = _specs(options.agent or list(AGENTS))
    scripted = all(one.kind == "scripted" for one in specs)
    rollouts = options.rollouts or (1 if scripted else ROLLOUTS)
    given = options.env, options.tasks, options.split, options.judge
    contest = make_contest(*given, rollouts, options.seed)
    _check_places(options)
    entries = [
        make_entry(f"--agent {one.name}", one, contest, options.at_once, find_model)
        for one in specs
    ]
    agents = {one.name: one.spec for one in entries}
    folder = Results(options.out, contest.held_to(agents)) if options.out else nullcontext()
    with folder as results:
        if results:
            restore(contest, entries, results)
        try:
            _play(contest, entries, options.at_once, results)
        except (KeyboardInterrupt, JudgeError, ModelError) as problem:
            if not results:
                raise
            told = f"{str(problem) or 'interrupted'}; the same command goes on with {options.out}"
            print(f"resume-gym: {told}", file=sys.stderr)
            return 130 if isinstance(problem, KeyboardInterrupt) else 1
        figures = Figures.of(contest, entries, sure=find_spec("scipy") is not None)
        found = evaluation(contest, entries, figures)
        if results:
            created = datetime.now(UTC).isoformat(timespec="seconds")
            results.finish({**found, "created": created}, contest.session_type.terms)
    if options.json:
        _print_json(found, contest, entries)
    else:
        _print(options, contest, figures)
    return _tell_failures(entries)


def _play(
    contest: Contest, entries: Sequence[Entry], at_once: int | None, results: Results | None
) -> None:
    with progress(Console(stderr=True)) as bars:
        for one in entries:
            bar = Bar(bars, one.name, len(contest.tasks) * contest.rollouts)
            for episode in one.episodes.values():
                bar.count(episode)
            play_entry(contest, one, at_once, results, bar.count)


def _specs(texts: Sequence[str]) -> list[AgentSpec]:
    try:
        specs = [read_spec(text) for text in dict.fromkeys(texts)]
    except ValueError as problem:
        raise TaskError(f"--agent: {problem}") from None
    names = [one.name for one in specs]
    for name in names:
        if names.count(name) > 1:
            raise TaskError(f"--agent: two are called {name!r}; name them: --agent NAME=SPEC")
    return specs


def _check_places(options: argparse.Namespace) -> None:
    """Check `--out` and the packages that it needs before any episode is played."""
    if options.out and options.out.exists() and not options.out.is_dir():
        raise TaskError(f"--out: expected a folder, {str(options.out)!r} is a file")
    for package in ("pyarrow", "scipy") if options.out else ():
        if find_spec(package) is None:
            raise missing("--out: needs", package, "eval")


def _print_json(found: Mapping[str, Any], contest: Contest, entries: Sequence[Entry]) -> None:
    """Print statistics and episodes, without a date, so that equal seeds print equal output."""
    for one in entries:
        found["agents"][one.name]["episodes"] = [asdict(some) for some in one.played(contest)]
    print_json(found)


def _print(options: argparse.Namespace, contest: Contest, figures: Figures) -> None:
    if not figures.summaries:
        return
    console = Console()
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    say(
        f"{contest.env} | tasks: {contest.source}, {contest.split} | "
        f"judge: {contest.judge_spec} | seed: {contest.seed}\n"
    )
    if options.markdown:
        say(markdown(*figures), end="")
    else:
        # do not crop wide lines: a terminal wraps them, and a file receives them whole
        console.print(table(figures.summaries, figures.statistics), crop=False)
        if figures.comparisons:
            console.print(comparison_table(figures.comparisons), crop=False)
            console.print(figures.comparisons[0].method, style="dim", highlight=False)
    if len(figures.summaries) > 1 and not figures.comparisons:
        hint = "no paired tests: they need pip install resume-gym[eval], and tasks in common"
        print(f"resume-gym: {hint}", file=sys.stderr)
    if options.out:
        say(f"{options.out}: evaluation.json, episodes.jsonl, episodes.parquet")


def _tell_failures(entries: Sequence[Entry]) -> int:
    """Report agents with failed episodes on stderr; return the exit status."""
    for one in entries:
        failed = one.failed()
        if failed:
            total = len(failed) + len(one.episodes)
            first = f"{failed[0].task_id}, rollout {failed[0].rollout}: {failed[0].why}"
            told = f"{len(failed)} of {total} episodes have no number; the first is {first}"
            print(f"resume-gym: {one.name}: {told}", file=sys.stderr)
    return 1 if any(one.failures for one in entries) else 0
