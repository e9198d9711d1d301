"""`resume-gym data generate`: generate a file of tasks."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from resume_gym.cli.arguments import add_parser, positive
from resume_gym.synthesis.generate import PROCEDURAL, Plan, generate
from resume_gym.tasks import SPLITS, TaskError

_GEMINI = "gemini-3-pro-preview"
# an answer takes about 3,000 tokens
_PATIENT = {
    "answer_tokens": 6144,
    "thinking_tokens": 10_240,
    "timeout_s": 300.0,
    "deadline_s": 1800.0,
}


def add_command(commands: Any) -> None:
    """Add `generate` to the subcommands of `resume-gym data`."""
    command = add_parser(
        commands,
        "generate",
        "make a file of tasks, procedurally or with a language model",
        "Make a file of tasks, procedurally or with a language model. What was cut off goes on "
        "with the same command, and pays for no answer twice. Beside FILE: its manifest, its data "
        "card, and the model's answers.",
        [
            "data generate --generator procedural --count 1000 --out tasks.jsonl",
            "data generate --generator gemini --count 200 --out tasks.jsonl",
        ],
    )
    add = command.add_argument
    add(
        "--generator",
        required=True,
        choices=(PROCEDURAL, "gemini", "openai"),
        help="who writes: procedural is offline, gemini wants a key in GEMINI_API_KEY, openai "
        "one in OPENAI_API_KEY or a --base-url",
    )
    number: dict[str, Any] = {"type": positive, "metavar": "N"}
    add("--count", required=True, help="tasks", **number)
    add("--out", required=True, type=Path, metavar="FILE", help="the JSONL file to write")
    add("--seed", default=0, type=int, metavar="N", help="another seed, other tasks (default: 0)")
    add("--split", choices=SPLITS, help="of all tasks (default: every fifth is eval)")
    add("--size", default="full", choices=("full", "mini"), help="of procedural tasks")
    add("--model", metavar="NAME", help=f"the model (default for gemini: {_GEMINI})")
    add("--base-url", metavar="URL", help="of a server that speaks the provider's protocol")
    add(
        "--client",
        default={},
        type=_object,
        metavar="JSON",
        help='more options of the client, as {"thinking": "high", "requests_a_minute": 60}',
    )
    add("--attempts", default=4, help="answers for a task (default: 4)", **number)
    add("--width", default=16, help="tasks asked for at the same time (default: 16)", **number)
    command.set_defaults(run=_run)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as problem:
        raise argparse.ArgumentTypeError(f"expected JSON, got {text!r}: {problem}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}")
    return found


def _run(options: argparse.Namespace) -> int:
    model: dict[str, Any] = {}
    if options.generator == PROCEDURAL:
        if options.model or options.base_url or options.client:
            raise TaskError("--generator procedural asks no model: it takes no option of one")
    else:
        if options.size != "full":
            raise TaskError(f"--size {options.size}: expected --generator procedural")
        name = options.model or (_GEMINI if options.generator == "gemini" else None)
        if name is None:
            raise TaskError("--generator openai: expected --model, the name that the server knows")
        model = {**_PATIENT, "model": name, **options.client}
    plan = Plan(
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
    print("no task was made; another model may do better, with another --out", file=sys.stderr)
    return 1
