"""Tasks in the format of Hugging Face's `datasets`, in a local folder or on their hub.

Split eval is called test there, as its users expect. A folder is what `save_to_disk` writes, so
`datasets.load_from_disk` reads it; on the hub `datasets.load_dataset` does.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from resume_gym.arguments import add_parser, positive
from resume_gym.corpus.card import card_path, is_of_others, make_card
from resume_gym.corpus.difficulty import PAGE_LINES
from resume_gym.mistakes import missing
from resume_gym.tasks import SPLITS, Task, TaskError, load_tasks

_TO_HUB = {"train": "train", "eval": "test"}
_FROM_HUB = {"train": "train", "test": "eval", "validation": "eval", "eval": "eval"}
_ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+?)(?::([\w.-]+))?")


class Address(NamedTuple):
    """A data set on the hub.

    Attributes:
        name: OWNER/NAME.
        config: one of its configurations.
    """

    name: str
    config: str = "default"


def load(source: str) -> tuple[Task, ...]:
    """Tasks of a data set: those to train on, then those held out, each in order.

    Rows have the fields of `Task`. Without a field `split` the name of their split counts: train,
    or one of test, validation and eval, which are all eval; the rows of a data set without
    splits are to train on.

    Args:
        source: a folder that `save_to_disk` or `push` made, or hf://OWNER/NAME[:CONFIG].

    Raises:
        TaskError: there is no such data set, or a row is bad; names split, row and field.
        ModuleNotFoundError: `datasets` is not installed; names the extra.
    """
    datasets = _datasets()
    try:
        if source.startswith("hf://"):
            address = parse_address(source)
            data = datasets.load_dataset(address.name, address.config)
        else:
            data = datasets.load_from_disk(source)
    except Exception as problem:  # what its transports raise has no common kind
        raise TaskError(f"{source}: {_first_line(problem)}") from problem
    named = data if isinstance(data, datasets.DatasetDict) else {"train": data}
    if unknown := [name for name in named if name not in _FROM_HUB]:
        known = ", ".join(_FROM_HUB)
        raise TaskError(f"{source}: expected splits of {known}; got {unknown[0]!r}")
    tasks: dict[str, Task] = {}
    for name, rows in named.items():
        for task in _read(rows, _FROM_HUB[name], f"{source}, split {name}"):
            if task.task_id in tasks:
                raise TaskError(f"{source}, split {name}: {task.task_id!r} stands twice")
            tasks[task.task_id] = task
    return tuple(sorted(tasks.values(), key=lambda task: SPLITS.index(task.split)))


def _read(rows: Any, split: str, where: str) -> Iterator[Task]:
    for number, row in enumerate(rows):
        try:
            yield Task.from_row({"split": split, **row})
        except TaskError as problem:
            raise TaskError(f"{where}, row {number}: {problem}") from None


def push(tasks: Sequence[Task], to: str, card: str, private: bool = False) -> None:
    """Write tasks to a folder, or upload them to the hub, with their card as README.md.

    Args:
        tasks: what to write; splits without a task are left out.
        to: a folder that does not exist or is empty, or hf://OWNER/NAME[:CONFIG], whose tasks are
            replaced.
        card: text of the card.
        private: whether a data set that is new on the hub is private.

    Raises:
        TaskError: nothing can be written there.
        ModuleNotFoundError: `datasets` is not installed; names the extra.
        OSError: writing or uploading failed.
    """
    if not tasks:
        raise TaskError(f"{to}: there are no tasks to write")
    if to.startswith("hf://"):
        _upload(to_datasets(tasks), parse_address(to), card, private)
        return
    folder = Path(to)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise TaskError(f"{to}: expected a folder that is empty or does not exist")
    to_datasets(tasks).save_to_disk(folder)
    (folder / "README.md").write_text(card, encoding="utf-8")


def to_datasets(tasks: Sequence[Task]) -> Any:
    """A `datasets.DatasetDict` of tasks, with the splits train and test."""
    datasets = _datasets()
    text = datasets.Value("string")
    flag = datasets.Value("bool")
    fix = {"old": text, "new": text, "facts": datasets.List(text), "needs_evidence": flag}
    features = datasets.Features(
        {
            **dict.fromkeys(("task_id", "job", "resume", "weakness"), text),
            "fixes": datasets.List(fix),
            # personas need not have the same keys, which a struct would give them
            "persona": datasets.Json(),
            "evidence": datasets.List({"kind": text, "title": text, "text": text}),
        }
    )
    made = {}
    for split in SPLITS:
        rows = [task.to_row() for task in tasks if task.split == split]
        columns = {name: [row[name] for row in rows] for name in features}
        if rows:
            made[_TO_HUB[split]] = datasets.Dataset.from_dict(columns, features=features)
    return datasets.DatasetDict(made)


def _upload(data: Any, address: Address, card: str, private: bool) -> None:
    """Upload a data set, then its card, which keeps what the hub needs to read the files."""
    from huggingface_hub import DatasetCard

    try:
        data.push_to_hub(address.name, address.config, private=private or None)
        made = DatasetCard.load(address.name)
        merge_cards(str(made), card).push_to_hub(address.name, repo_type="dataset")
    except Exception as problem:  # what its transports raise has no common kind
        raise OSError(f"hf://{address.name}: {_first_line(problem)}") from problem


def merge_cards(there: str, ours: str) -> Any:
    """Our card, a `huggingface_hub.DatasetCard`, with the metadata of the other that ours lacks."""
    from huggingface_hub import DatasetCard

    card = DatasetCard(ours, ignore_metadata_errors=False)
    known: dict[str, Any] = DatasetCard(there).data.to_dict()  # type: ignore[no-untyped-call]
    for key, value in known.items():
        if card.data.get(key) is None:
            card.data[key] = value
    return card


def parse_address(address: str) -> Address:
    """The parts of hf://OWNER/NAME[:CONFIG].

    Raises:
        TaskError: it is no such address.
    """
    match = _ADDRESS.fullmatch(address)
    if not match:
        raise TaskError(f"expected hf://OWNER/NAME or hf://OWNER/NAME:CONFIG, got {address!r}")
    return Address(match[1], match[2] or "default")


def _first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0] or type(problem).__name__


def _datasets() -> ModuleType:
    try:
        import datasets
    except ModuleNotFoundError:
        raise missing("Hugging Face data sets need", "datasets", "data") from None
    module: ModuleType = datasets
    return module


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
