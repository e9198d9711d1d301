"""`resume-gym data generate`: generate a file of tasks."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resume_gym.cli.arguments import Commands, add_options, positive
from resume_gym.support.json_lines import strict_json
from resume_gym.support.printing import say
from resume_gym.support.user_errors import TaskError
from resume_gym.synthesis.task_file import PROCEDURAL, Generation, generate

_GEMINI = "gemini-3-pro-preview"
# high limits for the language model: its usual answer has only about 3,000 tokens
_PATIENT = {
    "answer_tokens": 6144,
    "thinking_tokens": 10_240,
    "timeout_s": 300.0,
    "deadline_s": 1800.0,
}


def add_command(commands: Commands) -> None:
    """Add the parser of the command `data generate`."""
    command = commands.add_parser(
        "generate",
        help="generate tasks, procedurally or with a language model",
        description="Generate tasks, procedurally or with a language model. The same command "
        "resumes an interrupted generation, and requests only missing answers. A manifest, a data "
        "card and the model's answers are written next to FILE.",
        examples=[
            "data generate --generator procedural --count 1000 --out tasks.jsonl",
            "data generate --generator gemini --count 200 --out tasks.jsonl",
        ],
    )
    add = command.add_argument
    add(
        "--generator",
        required=True,
        choices=(PROCEDURAL, "gemini", "openai"),
        help="writer of the tasks: procedural works offline, gemini needs GEMINI_API_KEY, openai "
        "needs OPENAI_API_KEY or --base-url",
    )
    number: dict[str, Any] = {"type": positive, "metavar": "N"}
    add("--count", required=True, help="number of tasks", **number)
    add("--out", required=True, type=Path, metavar="FILE", help="the JSONL file to write")
    add_options(add, "--seed")
    add_options(add, "--split", help="split of all tasks (default: eval for every fifth task)")
    add("--size", default="full", choices=("full", "mini"), help="size of procedural tasks")
    add_model(add)
    add("--attempts", default=4, help="attempts per task (default: 4)", **number)
    add("--width", default=16, help="tasks generated concurrently (default: 16)", **number)
    command.set_defaults(run=_run)


def add_model(add: Callable[..., Any]) -> None:
    """Add the options of the model, which `client_options` reads."""
    add("--model", metavar="NAME", help=f"model (default for gemini: {_GEMINI})")
    add("--base-url", metavar="URL", help="address of a server with the model's API")
    add(
        "--client",
        default={},
        type=_object,
        metavar="JSON",
        help='options of the client, such as {"thinking": "high", "requests_a_minute": 60}',
    )


def client_options(flag: str, provider: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the options for `make_client` that the options of `add_model` set, except the URL.

    Raises:
        TaskError: the provider needs a name of the model; the message names the flag.
    """
    name = options.model or (_GEMINI if provider == "gemini" else None)
    if name is None:
        raise TaskError(f"{flag} {provider}: expected --model NAME")
    return {**_PATIENT, "model": name, **options.client}


def _object(text: str) -> dict[str, Any]:
    try:
        value = strict_json(text)
    except (ValueError, RecursionError) as problem:
        raise argparse.ArgumentTypeError(f"expected JSON, got {text!r}: {problem}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}")
    return value


def _run(options: argparse.Namespace) -> int:
    model: dict[str, Any] = {}
    if options.generator == PROCEDURAL:
        if options.model or options.base_url or options.client:
            raise TaskError("--generator procedural: takes no --model, --base-url or --client")
    else:
        if options.size != "full":
            raise TaskError(f"--size {options.size}: expected --generator procedural")
        model = client_options("--generator", options.generator, options)
    plan = Generation(
        generator=options.generator,
        count=options.count,
        seed=options.seed,
        out=options.out,
        split=options.split,
        size=options.size,
        model=model,
        base_url=options.base_url,
        attempts=options.attempts,
        width=options.width,
    )
    if generate(plan):
        return 0
    say("no task was generated; try another model and another --out", error=True)
    return 1
