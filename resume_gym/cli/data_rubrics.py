"""`resume-gym data rubrics`: let a language model write rubric items for tasks."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from resume_gym.cli.arguments import Commands, positive
from resume_gym.cli.data_generate import add_model, client_options
from resume_gym.episode.sources import load_tasks
from resume_gym.episode.tasks import write_jsonl
from resume_gym.llm import ModelError
from resume_gym.llm.loop import submit
from resume_gym.support.atomic_write import check_new_file, replacing, through_links
from resume_gym.support.printing import amount, say
from resume_gym.support.user_errors import TaskError, number_of


def add_command(commands: Commands) -> None:
    """Add the parser of the command `data rubrics`."""
    command = commands.add_parser(
        "rubrics",
        help="let a language model write rubric items for tasks",
        description="Let a language model write three to five rubric items for each task, which "
        "only a judge that asks a model can grade. The model sees the job and the page alone. Code "
        "and the model, as a judge, check each item. The same command resumes an interrupted run, "
        "and requests only missing answers, which are stored next to NEW.",
        examples=["data rubrics tasks.jsonl --writer gemini --out with_items.jsonl"],
    )
    add = command.add_argument
    add("file", metavar="FILE", help="JSONL file, or another source of tasks: default, mini, ...")
    add("--out", required=True, type=Path, metavar="NEW", help="the JSONL file to write")
    add(
        "--writer",
        required=True,
        choices=("gemini", "openai"),
        help="gemini needs GEMINI_API_KEY, openai needs OPENAI_API_KEY or --base-url",
    )
    add_model(add)
    number: dict[str, Any] = {"type": positive, "metavar": "N"}
    add("--attempts", default=3, help="attempts per task (default: 3)", **number)
    add("--width", default=16, help="tasks written concurrently (default: 16)", **number)
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from resume_gym.judges import bounded
    from resume_gym.synthesis.rubrics import write_rubric
    from resume_gym.synthesis.task_file import client_of

    tasks = load_tasks(options.file)
    check_new_file("--out", options.out)
    if options.out.exists():
        raise TaskError(f"--out: expected a new file, but {str(options.out)!r} exists")
    chosen = client_options("--writer", options.writer, options)
    store = options.out.with_name(options.out.name + ".store.sqlite")
    client = client_of(options.writer, chosen, store, options.width, options.base_url)
    write = partial(write_rubric, client=client, attempts=options.attempts)
    work = submit(bounded(write, tasks, options.width))
    try:
        rubrics = work.result()
    except (ModelError, KeyboardInterrupt):
        work.cancel()
        say(f"{options.out}: answers are stored; repeat the command to continue", error=True)
        raise
    finally:
        submit(client.close()).result()
    for rubric in rubrics:
        if not rubric.written:
            why = rubric.faults[-1] if rubric.faults else "no items"
            say(f"{rubric.task.task_id}: no rubric; {why}", error=True)
    written = [rubric.written for rubric in rubrics if rubric.written]
    if written:
        with replacing(through_links(options.out)) as unfinished:
            write_jsonl(unfinished, [rubric.task for rubric in rubrics])
    refused = number_of(sum(len(rubric.faults) for rubric in rubrics), "refusal")
    places = f"{len(written)} of {number_of(len(tasks), 'task')}"
    items = f"{number_of(sum(written), 'item')} for {places}"
    dollars = client.usage.dollars
    cost = "" if dollars is None else f", ${amount(dollars)}"
    say(f"{options.out}: {items}, {refused}{cost}" + "; nothing is written" * (not written))
    return 0 if written else 1
