"""`resume-gym data push`: write tasks as a Hugging Face dataset."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from resume_gym.cli.arguments import Commands, add_options
from resume_gym.corpus.bundled import PAIRS_NAME, bundled_card, pair_rows
from resume_gym.corpus.card import card_path, is_of_others, make_card
from resume_gym.corpus.hub import push, push_pairs
from resume_gym.episode.sources import BUNDLED, load_tasks
from resume_gym.episode.tasks import Task
from resume_gym.judges.audit import load_pairs
from resume_gym.support.printing import say
from resume_gym.support.user_errors import number_of
from resume_gym.synthesis.manifest import find_page_lines


def add_command(commands: Commands) -> None:
    """Add the parser of the command `data push`."""
    command = commands.add_parser(
        "push",
        help="write tasks as a Hugging Face dataset, to a folder or to the hub",
        description="Write tasks as a Hugging Face dataset. The dataset card is NAME.card.md next "
        "to FILE; if this file is missing or describes other tasks, a new card is generated. "
        "Bundled data has its own cards. Uploads to the hub need the token that `hf auth login` "
        "stores.",
        examples=[
            "data push tasks.jsonl --to folder",
            "data push tasks.jsonl --to hf://OWNER/NAME",
            "data push pairs --to folder",
        ],
    )
    add = command.add_argument
    add(
        "file",
        metavar="FILE",
        help="JSONL file, or another source of tasks: default, mini, ...; or pairs, the bundled "
        "labelled pairs for judges",
    )
    add("--to", required=True, metavar="PLACE", help="new folder, or hf://OWNER/NAME[:CONFIG]")
    add("--private", action="store_true", help="if the dataset is new on the hub, make it private")
    add_options(
        add,
        "--page-lines",
        help="page height in lines, for checks in a generated card (default: as for `data check`)",
    )
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.file == PAIRS_NAME:
        pairs = load_pairs()
        push_pairs(pair_rows(pairs), options.to, bundled_card(PAIRS_NAME), options.private)
        say(f"{number_of(len(pairs), 'labelled pair')} in {options.to}")
        return 0
    tasks = load_tasks(options.file)
    push(tasks, options.to, _card(options, tasks), options.private)
    say(f"{number_of(len(tasks), 'task')} in {options.to}")
    return 0


def _card(options: argparse.Namespace, tasks: Sequence[Task]) -> str:
    if options.file in BUNDLED:
        return bundled_card(options.file)
    path = Path(options.file)
    card_file = card_path(path)
    if card_file.is_file():
        card = card_file.read_text(encoding="utf-8")
        if not is_of_others(card, tasks):
            return card
        say(f"{card_file} describes other tasks than {path}; a new card is used", error=True)
    height = options.page_lines or find_page_lines(options.file)
    return make_card(path.stem, tasks, {"page_lines": height})
