"""`resume-gym eval`: play agents on tasks and print their statistics side by side."""

import argparse
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from resume_gym.agents import AGENTS
from resume_gym.cli.arguments import (
    Commands,
    add_options,
    find_model,
    positive,
    print_json,
)
from resume_gym.evaluation.contest import (
    Contest,
    Entry,
    Figures,
    evaluation,
    make_contest,
    play_entry,
    restore,
)
from resume_gym.evaluation.progress import Bar, progress
from resume_gym.evaluation.results import Results
from resume_gym.evaluation.specs import (
    ENDPOINT_MAX_CONCURRENCY,
    AgentSpec,
    make_entry,
    read_spec,
)
from resume_gym.evaluation.table import COLUMN, LABELS, comparison_table, markdown, table
from resume_gym.judges import JudgeError, group_weight
from resume_gym.llm import ModelError
from resume_gym.support.printing import say
from resume_gym.support.terminal import Terminal
from resume_gym.support.trust import remember
from resume_gym.support.user_errors import TaskError, install, missing, number_of

ROLLOUTS = 16
_ABOUT = """\
Agents play tasks, a judge grades the episodes, and the statistics of the agents are printed side \
by side. With --out, the same command resumes an interrupted evaluation, and later commands may \
add agents and rollouts. An agent is one of

  noop, random, floor, careful, oracle
                                  a scripted agent
  runs/NAME                       the model of a training run
  runs/NAME/checkpoints/step-...  a checkpoint of a run (backend local)
  FOLDER, nano, smollm2-editor    a model in Hugging Face's format
  OWNER/NAME                      a model of the Hugging Face Hub
  MODEL@http://HOST:PORT/v1       a server with OpenAI's protocol that supports
                                  tool calls; MODEL@openai for OpenAI itself.
                                  The API key is read from OPENAI_API_KEY, or
                                  from the variable that key_name names
  {"model": ..., ...}             a model or server with options, as JSON:
                                  temperature, max_tokens, engine (models);
                                  base_url, key_name, answer_tokens, store,
                                  extra_body (servers); "prompting": "guided"
                                  for models that make no calls by themselves
  {"local": ..., "frontier": ..., "after_failures": 2}
                                  two servers that share the turns by a rule:
                                  after_failures, difficulty, budget_dollars"""
_EXAMPLES = (
    "eval --agent careful --agent oracle --env ResumeEditMini-v0",
    "eval --agent before=nano --agent after=runs/nano --out result",
    "eval --agent runs/qwen --agent gpt=gpt-5-mini@openai --judge gemini",
    "eval --json > figures.json",
)


def add_command(commands: Commands) -> None:
    """Add the parser of the command `eval`."""
    command = commands.add_parser(
        "eval",
        help="play agents on tasks and print their statistics side by side",
        description=_ABOUT,
        examples=_EXAMPLES,
        done="all episodes are graded",
        failed="failure, or some episodes are not graded",
    )
    add = command.add_argument
    add(
        "--agent",
        action="append",
        metavar="[NAME=]SPEC",
        help="agent, as above; repeat to compare agents (default: all scripted agents)",
    )
    add_options(add, "--env", "--tasks", "--judge", "--seed")
    add_options(add, "--split", default="eval", help="split of the tasks (default: %(default)s)")
    add(
        "--limit",
        type=positive,
        metavar="N",
        help="play N of the tasks, the same ones for all agents and seeds (default: all)",
    )
    add(
        "--rollouts",
        type=positive,
        metavar="N",
        help=f"episodes per task (default: {ROLLOUTS}; 1 if all agents are scripted)",
    )
    add(
        "--best-of",
        type=positive,
        nargs="+",
        default=(),
        metavar="K",
        help="add the expected highest reward of K episodes of a task, for each K",
    )
    add(
        "--at-once",
        dest="max_concurrency",
        type=positive,
        metavar="N",
        help=f"concurrent episodes (default: {ENDPOINT_MAX_CONCURRENCY} with a server, 128 with a "
        "local model)",
    )
    add("--out", type=Path, metavar="FOLDER", help="store all episodes and statistics here")
    add("--details", action="store_true", help="print all figures of each agent")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the tables in Markdown")
    add_options(form.add_argument, "--json")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    specs = _specs(options.agent or list(AGENTS))
    scripted = all(spec.kind == "scripted" for spec in specs)
    rollouts = options.rollouts or (1 if scripted else ROLLOUTS)
    if (most := max(options.best_of, default=1)) > rollouts:
        raise TaskError(f"--best-of: expected at most {rollouts}, the --rollouts; got {most}")
    where = options.env, options.tasks, options.split, options.judge
    contest = make_contest(*where, rollouts, options.seed, options.limit)
    check_places(options)
    entries = [
        make_entry(f"--agent {spec.name}", spec, contest, options.max_concurrency, find_model)
        for spec in specs
    ]
    for entry in entries:  # rollout 0 of all tasks, then rollout 1, and so on
        keys = product(range(rollouts), (task.task_id for task in contest.tasks))
        entry.left = dict.fromkeys(keys)
    with opened(options.out, contest, entries) as results:
        play_entries(contest, entries, options.max_concurrency, results)
        figures, evaluated = conclude(contest, [entries], results, options.best_of)
    if options.json:
        _print_json(evaluated, contest, entries)
    else:
        _print(options, contest, entries, figures)
    return report_failures(entries)


@contextmanager
def opened(
    out: Path | None, contest: Contest, entries: Sequence[Entry]
) -> Iterator[Results | None]:
    """Open the output folder, if any, and load the episodes that an earlier command stored there.

    If the evaluation ends early, the error says how to resume it.
    """
    if not out:
        yield None
        return
    hint = f"the same command resumes {out}"
    with Results(out, contest.held_to(entries), contest.tasks) as results:
        if results.is_new:
            remember(out, contest.settings)
        restore(contest, entries, results)
        try:
            yield results
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; {hint}") from None
        except (JudgeError, ModelError) as problem:
            raise ModelError(f"{problem}; {hint}") from None


def play_entries(
    contest: Contest,
    entries: Iterable[Entry],
    max_concurrency: int | None,
    results: Results | None,
) -> None:
    """Play and grade the episodes that are left, one agent after the other, and show progress."""
    with progress(Terminal(stderr=True)) as bars:
        for entry in entries:
            bar = Bar(bars, entry)
            play_entry(contest, entry, max_concurrency, results, bar.update)


def conclude(
    contest: Contest,
    groups: Sequence[Sequence[Entry]],
    results: Results | None,
    best_of: Collection[int] = (),
) -> tuple[Figures, dict[str, Any]]:
    """Compute the figures, write `evaluation.json`, and return the figures and its content."""
    figures = Figures.of(contest, groups, best_of)
    evaluated = evaluation(contest, [entry for group in groups for entry in group], figures)
    if results:
        results.finish(evaluated)
    return figures, evaluated


def _specs(texts: Sequence[str]) -> list[AgentSpec]:
    try:
        specs = [read_spec(text) for text in dict.fromkeys(texts)]
    except ValueError as problem:
        raise TaskError(f"--agent: {problem}") from None
    for text, times in Counter(texts).items():
        if times > 1:
            told = f"given {times} times, played once; NAME={text} plays it under another name"
            say(f"--agent {text}: {told}", error=True)
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise TaskError(f"--agent: two agents are called {name!r}; use --agent NAME=SPEC")
    return specs


def check_places(options: argparse.Namespace) -> None:
    """Check that `--out` is not a file and that scipy, which `--out` needs, is installed."""
    if options.out and options.out.exists() and not options.out.is_dir():
        raise TaskError(f"--out: expected a folder; {str(options.out)!r} is a file")
    if options.out and find_spec("scipy") is None:
        raise missing("--out: needs", "scipy", "eval")


def _print_json(evaluated: Mapping[str, Any], contest: Contest, entries: Sequence[Entry]) -> None:
    """Print statistics and episodes as JSON; without a date, so equal seeds give equal output."""
    for entry in entries:
        episodes = [asdict(episode) for episode in entry.played(contest)]
        evaluated["agents"][entry.name]["episodes"] = episodes
    print_json(evaluated)


def _print(
    options: argparse.Namespace, contest: Contest, entries: Sequence[Entry], figures: Figures
) -> None:
    if not figures.summaries:
        return
    # without the row of the floor if the floor agent has a column
    floor = all(entry.spec != "floor" for entry in entries)
    console = Terminal()
    show = partial(console.print, highlight=False, soft_wrap=True)
    show(
        f"{contest.env} | tasks: {contest.source}, {contest.split} | "
        f"judge: {contest.judge_spec} | seed: {contest.seed}\n"
    )
    if options.markdown:
        show(markdown(*figures, options.details, floor), end="")
    else:
        # do not crop wide lines: a terminal wraps them, and a file receives them whole
        names = list(figures.summaries)
        fitting = max(1, (console.width - LABELS) // COLUMN)
        for first in range(0, len(names), fitting):
            shown = {name: figures.summaries[name] for name in names[first : first + fitting]}
            columns = shown, figures.statistics, figures.spent
            console.print(table(*columns, options.details, floor), crop=False)
        if figures.comparisons:
            console.print(comparison_table(figures.comparisons), crop=False)
            console.print(figures.comparisons[0].method, style="dim", highlight=False)
    if len(figures.summaries) > 1 and not figures.comparisons:
        hint = f"no paired tests: they need scipy ({install('eval')}) and tasks in common"
        say(f"resume-gym: {hint}", error=True)
    if group_weight(contest.judge):
        unused = "not in these figures, since they compare only the members of one group"
        say(f"resume-gym: scores of groups by {contest.judge.name}: {unused}", error=True)
    if options.out:
        show(f"{options.out}: evaluation.json, episodes.jsonl")


def report_failures(entries: Sequence[Entry]) -> int:
    """Report agents with failed episodes on stderr; return the exit status."""
    for entry in entries:
        failed = entry.failed()
        if failed:
            total = number_of(len(failed) + len(entry.episodes), "episode")
            first = "{task_id}, rollout {rollout}: {why}".format_map(failed[0])
            message = f"no reward for {len(failed)} of {total}; the first is {first}"
            say(f"resume-gym: {entry.name}: {message}", error=True)
    return 1 if any(entry.failures for entry in entries) else 0
