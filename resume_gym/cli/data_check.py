"""`resume-gym data check`: check whether tasks are fit to train on."""

import argparse
from pathlib import Path

from resume_gym.cli.arguments import add_json, add_parser, positive, print_json
from resume_gym.corpus.check import THRESHOLD, read_rows, report
from resume_gym.corpus.difficulty import PAGE_LINES
from resume_gym.sources import load_tasks
from resume_gym.tasks import TaskError


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `check`."""
    command = add_parser(
        commands,
        "check",
        "say whether tasks are fit to train on",
        "Say whether tasks are fit to train on: bad rows, near-duplicates, leaks between the "
        "splits, pages that do not fit, fixes that do not apply, figures without evidence.",
        ["data check tasks.jsonl", "data check mini --page-lines 20 --json"],
        done="they are fit",
        failed="they are not fit, or it failed",
    )
    add = command.add_argument
    add(
        "files",
        nargs="+",
        metavar="FILE",
        help="JSONL files, checked as one; or one other source of tasks: default, mini, ...",
    )
    add(
        "--threshold",
        type=float,
        default=THRESHOLD,
        metavar="X",
        help="similarity from which texts are near-duplicates (default: %(default)s)",
    )
    add(
        "--page-lines",
        type=positive,
        default=PAGE_LINES,
        metavar="N",
        help="lines of the page; 20 for the small size (default: %(default)s)",
    )
    add_json(add)
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from rich.console import Console

    from resume_gym.corpus.check_table import print_report

    if not 0 < options.threshold <= 1:
        raise TaskError(f"--threshold: expected over 0, at most 1; got {options.threshold:g}")
    files = [Path(file) for file in options.files]
    if len(files) > 1 or files[0].is_file():
        if missing := [file for file in files if not file.is_file()]:
            raise TaskError(f"check: there is no file {str(missing[0])!r}")
        tasks, bad = read_rows(files)
    else:
        tasks, bad = list(load_tasks(options.files[0])), []
    found = report(tasks, bad, options.threshold, options.page_lines)
    if options.json:
        print_json(found.to_json())
    else:
        print_report(Console(), found)
    return 0 if found.fit else 1
