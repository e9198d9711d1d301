"""`resume-gym data push`: write tasks as a Hugging Face dataset."""

import argparse
import sys
from pathlib import Path

from resume_gym.cli.arguments import add_parser, positive
from resume_gym.corpus.card import card_path, is_of_others, make_card
from resume_gym.corpus.difficulty import PAGE_LINES
from resume_gym.corpus.hub import push
from resume_gym.sources import load_tasks


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `push`."""
    command = add_parser(
        commands,
        "push",
        "write tasks as a Hugging Face data set, to a folder or to the hub",
        "Write tasks as a Hugging Face data set. Its card is FILE's NAME.card.md; one is made if "
        "there is none, or if it is of other tasks. The hub wants the token that `hf auth login` "
        "keeps.",
        ["data push tasks.jsonl --to folder", "data push tasks.jsonl --to hf://OWNER/NAME"],
    )
    add = command.add_argument
    add("file", metavar="FILE", help="JSONL file, or another source of tasks: default, mini, ...")
    add("--to", required=True, metavar="PLACE", help="a new folder, or hf://OWNER/NAME[:CONFIG]")
    add("--private", action="store_true", help="make a data set that is new on the hub private")
    add(
        "--page-lines",
        type=positive,
        default=PAGE_LINES,
        metavar="N",
        help="lines of the page, for a card that is made; 20 for the small size "
        "(default: %(default)s)",
    )
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    tasks = load_tasks(options.file)
    path = Path(options.file)
    beside = card_path(path)
    card = beside.read_text(encoding="utf-8") if beside.is_file() else None
    if card and is_of_others(card, tasks):
        print(f"{beside} is of other tasks than {path} has now; another is made", file=sys.stderr)
        card = None
    card = card or make_card(path.stem, tasks, {"page_lines": options.page_lines})
    push(tasks, options.to, card, options.private)
    print(f"{len(tasks)} tasks in {options.to}")
    return 0
