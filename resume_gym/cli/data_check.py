"""`resume-gym data check`: check whether tasks are fit to train on."""

import argparse
from pathlib import Path

from resume_gym.cli.arguments import Commands, add_options, print_json
from resume_gym.corpus.check import THRESHOLD, check, print_report, read_rows
from resume_gym.episode.sources import load_tasks
from resume_gym.support.user_errors import TaskError
from resume_gym.synthesis.manifest import find_page_lines


def add_command(commands: Commands) -> None:
    """Add the parser of the command `data check`."""
    command = commands.add_parser(
        "check",
        help="check whether tasks are suitable for training",
        description="Check whether tasks are suitable for training. Report invalid rows, "
        "near-duplicates, leaks between splits, wrong page lengths, fixes that do not apply, and "
        "figures without evidence.",
        examples=["data check tasks.jsonl", "data check mini --json"],
        done="the tasks are suitable",
        failed="failure, or the tasks are not suitable",
    )
    add = command.add_argument
    add(
        "files",
        nargs="+",
        metavar="FILE",
        help="JSONL files, checked together; or one other source of tasks: default, mini, ...",
    )
    add(
        "--threshold",
        type=float,
        default=THRESHOLD,
        metavar="X",
        help="minimum similarity of near-duplicates (default: %(default)s)",
    )
    add_options(
        add,
        "--page-lines",
        help="page height in lines (default: 20 for mini tasks, which the manifest beside FILE or "
        "the name of the source identifies; 55 for all others)",
    )
    add_options(add, "--json")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from resume_gym.support.terminal import Terminal

    if not 0 < options.threshold <= 1:
        raise TaskError(f"--threshold: expected a number > 0 and <= 1, got {options.threshold:g}")
    files = [Path(file) for file in options.files]
    if len(files) > 1 or files[0].is_file():
        if missing := [file for file in files if not file.is_file()]:
            raise TaskError(f"check: there is no file {str(missing[0])!r}")
        tasks, bad = read_rows(files)
    else:
        tasks, bad = list(load_tasks(options.files[0])), []
    heights = {options.page_lines} if options.page_lines else {*map(find_page_lines, options.files)}
    if len(heights) > 1:
        raise TaskError("check: the files differ in page height; choose one with --page-lines")
    checked = check(tasks, bad, options.threshold, heights.pop())
    if options.json:
        print_json(checked.to_json())
    else:
        print_report(Terminal(), checked)
    return 0 if checked.fit else 1
