"""`resume-gym card`: write the card of an environment, as a page and as JSON."""

import argparse
import json
from collections.abc import Callable
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from resume_gym.agents import AGENTS, ANY_DOMAIN
from resume_gym.cli.arguments import Commands, add_options, find_model
from resume_gym.env import make_edit_env
from resume_gym.episode.session import Session
from resume_gym.evaluation.contest import make_contest
from resume_gym.evaluation.progress import Bar, progress
from resume_gym.evaluation.quality import EPISODES, measure
from resume_gym.evaluation.quality_page import page
from resume_gym.evaluation.specs import make_entry, read_spec
from resume_gym.judges.audit import load_pairs, spread
from resume_gym.support.atomic_write import replacing
from resume_gym.support.printing import say
from resume_gym.support.terminal import Terminal
from resume_gym.support.user_errors import TaskError, missing

_QUICK_TASKS, _QUICK_PAIRS = 6, 56


def add_command(commands: Commands) -> None:
    """Add the parser of the command `card`."""
    command = commands.add_parser(
        "card",
        help="write the quality card of an environment",
        description="Write one page and one JSON file about an environment: how hard it is, by "
        "weakness and agent; the best attack on its judge; what an episode costs; whether a "
        "recorded episode has the same rewards again; how the judge agrees with labelled pairs; "
        "known holes. A judge that calls a model is asked for about 2,300 verdicts on 40 tasks, "
        "and for about 350 with --quick.",
        examples=[
            "card ResumeEditMini-v0",
            "card ResumeEdit-v0 --tasks tasks.jsonl --model runs/nano --quick",
        ],
        done="the card is written",
        failed="failure, or some episodes are not graded",
    )
    add = command.add_argument
    add("env", metavar="ENV", help="editing environment: an ID, or module:ID")
    add_options(add, "--tasks", "--judge")
    add_options(add, "--split", default="eval", help="split of the tasks (default: %(default)s)")
    add(
        "--model",
        metavar="[NAME=]SPEC",
        help=f"also play this agent, {EPISODES} times on each task; forms as for `eval --agent`",
    )
    add(
        "--out",
        type=Path,
        default=Path("cards"),
        metavar="FOLDER",
        help="folder of ENV.md and ENV.json, which are overwritten (default: %(default)s)",
    )
    add(
        "--quick",
        action="store_true",
        help=f"only {_QUICK_TASKS} of the tasks and {_QUICK_PAIRS} labelled pairs",
    )
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if find_spec("scipy") is None:
        raise missing("card: needs", "scipy", "eval")
    quick, where = options.quick, (options.tasks, options.split, options.judge)
    limit = _QUICK_TASKS if quick else None
    contest = make_contest(options.env, *where, EPISODES, seed=0, limit=limit)
    env = make_edit_env(options.env, tasks=where[0], split=where[1], judge=where[2])
    agents = AGENTS if issubclass(contest.session_type, Session) else ANY_DOMAIN
    try:
        specs = [read_spec(text) for text in (*agents, *([options.model] if options.model else []))]
    except ValueError as problem:
        raise TaskError(f"--model: {problem}") from None
    if specs[-1].name in agents and options.model:
        raise TaskError(f"--model: the card has {specs[-1].name!r} anyway; use NAME=SPEC")
    entries = [make_entry("--model", spec, contest, None, find_model) for spec in specs]
    scripted, models = entries[: len(agents)], entries[len(agents) :]
    pairs = spread(load_pairs(), _QUICK_PAIRS if quick else None)
    options.out.mkdir(parents=True, exist_ok=True)
    with progress(Terminal(stderr=True)) as bars:
        tokens, watch = _counter(), lambda one: Bar(bars, one).update
        card = measure(env, contest, scripted, models, pairs, tokens, watch)
    name = options.env.rpartition(":")[2]
    texts = {"md": page(card), "json": json.dumps(card, indent=1, ensure_ascii=False) + "\n"}
    for ending, text in texts.items():
        with replacing(options.out / f"{name}.{ending}") as draft:
            draft.write_text(text, encoding="utf-8")
        say(options.out / f"{name}.{ending}")
    return 1 if any(one.failures for one in entries) else 0


def _counter() -> Callable[[str], int] | None:
    """Return a function that counts a text's tokens by the nano policy's tokenizer.

    Return None if the package `tokenizers` is not installed.
    """
    if find_spec("tokenizers") is None:
        return None
    from tokenizers import Tokenizer

    file = files("learners") / "nano" / "policy" / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    return lambda text: len(tokenizer.encode(text).ids)
