"""Load and save tasks as Hugging Face data sets, in a local folder or on the Hub.

The split "eval" is called "test" in the data sets, by the convention of the Hub. The functions
`datasets.load_from_disk` (a folder) and `datasets.load_dataset` (the Hub) read what `push` writes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from resume_gym.episode.rewards import VERDICT_FIELDS
from resume_gym.episode.tasks import SPLITS, Task
from resume_gym.support.user_errors import TaskError, missing

_FROM_HUB = {"train": "train", "test": "eval", "validation": "eval", "eval": "eval"}
_ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+?)(?::([\w.-]+))?")


def load(source: str, split: str | None = None) -> tuple[Task, ...]:
    """Load the tasks of a data set: train, then eval, each in the order of the rows.

    Rows have the fields of `Task`. If the field `split` is missing, the split of the data set
    decides: rows of test, validation or eval are in eval; rows of train are in train, as are all
    rows of a data set without splits.

    Args:
        source: a folder written by `save_to_disk` or `push`, or hf://OWNER/NAME[:CONFIG].
        split: "train" or "eval"; None loads both splits.

    Raises:
        TaskError: the data set cannot be loaded, or has an unknown split, a repeated ID or an
            invalid row. The message names the split, number and field of an invalid row.
        ModuleNotFoundError: `datasets` is not installed; the message names the pip extra.
    """
    datasets = _datasets()
    try:
        if source.startswith("hf://"):
            data = datasets.load_dataset(*_parse_address(source))
        else:
            data = datasets.load_from_disk(source)
    except Exception as problem:  # transport errors have no common base class
        raise TaskError(f"{source}: {_first_line(problem)}") from problem
    # a data set without splits is a single `Dataset`
    named = data if isinstance(data, datasets.DatasetDict) else {"train": data}
    if unknown := [name for name in named if name not in _FROM_HUB]:
        splits = ", ".join(_FROM_HUB)
        raise TaskError(f"{source}: expected only the splits {splits}; got {unknown[0]!r}")
    tasks: dict[str, Task] = {}
    for name, rows in named.items():
        where = f"{source}, split {name}"
        for number, row in enumerate(rows):
            try:
                task = Task.from_row({"split": _FROM_HUB[name], **row})
            except TaskError as problem:
                raise TaskError(f"{where}, row {number}: {problem}") from None
            if task.task_id in tasks:
                raise TaskError(f"{where}: {task.task_id!r} occurs twice")
            tasks[task.task_id] = task
    wanted = [split] if split else SPLITS
    return tuple(task for name in wanted for task in tasks.values() if task.split == name)


def push(tasks: Sequence[Task], to: str, card: str, private: bool = False) -> None:
    """Write tasks to a folder or upload them to the Hub, with their card as README.md.

    Args:
        tasks: tasks to write; splits without tasks are omitted.
        to: an empty or new folder, or hf://OWNER/NAME[:CONFIG], whose old tasks are replaced.
        card: text of the card.
        private: whether to make a new data set on the Hub private.

    Raises:
        TaskError: there are no tasks, the address is invalid, or the folder is not empty.
        ModuleNotFoundError: `datasets` is not installed; the message names the pip extra.
        OSError: the folder cannot be written, or the upload failed.
    """
    if not tasks:
        raise TaskError(f"{to}: there are no tasks to write")
    _write(partial(_to_datasets, tasks), to, card, private)


def push_pairs(
    rows: Mapping[str, Sequence[Mapping[str, Any]]], to: str, card: str, private: bool = False
) -> None:
    """Write the rows of labelled pairs by half; see `push` for the other arguments and errors."""

    def data() -> Any:
        datasets = _datasets()
        texts, documents = _texts(datasets)
        labels = dict.fromkeys(VERDICT_FIELDS, datasets.Value("int8"))
        names = ("id", "kind", "task_id", "job", "resume", "revised")
        features = datasets.Features({**dict.fromkeys(names, texts), **documents, "labels": labels})
        make = datasets.Dataset.from_list
        return datasets.DatasetDict(
            {half: make(list(some), features=features) for half, some in rows.items()}
        )

    _write(data, to, card, private)


def _write(data: Callable[[], Any], to: str, card: str, private: bool) -> None:
    """Write a data set and its card; call `data` only if the data set can be written to `to`."""
    if to.startswith("hf://"):
        _upload(data(), *_parse_address(to), card, private)
        return
    folder = Path(to)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise TaskError(f"{to}: expected a folder that is empty or does not exist")
    data().save_to_disk(folder)
    (folder / "README.md").write_text(card, encoding="utf-8")


def _texts(datasets: Any) -> tuple[Any, dict[str, Any]]:
    """Return the feature type of a text, and those of the columns `fixes` and `evidence`."""
    text, flag = datasets.Value("string"), datasets.Value("bool")
    fix = {"old": text, "new": text, "facts": datasets.List(text), "needs_evidence": flag}
    evidence = datasets.List({"kind": text, "title": text, "text": text})
    return text, {"fixes": datasets.List(fix), "evidence": evidence}


def _to_datasets(tasks: Sequence[Task]) -> Any:
    """Convert tasks to a `datasets.DatasetDict` with the splits train and test."""
    datasets = _datasets()
    text, documents = _texts(datasets)
    features = datasets.Features(
        {
            **dict.fromkeys(("task_id", "job", "resume", "weakness"), text),
            "fixes": documents["fixes"],
            # A column of JSON: a struct would require the same keys in every persona.
            "persona": datasets.Json(),
            "evidence": documents["evidence"],
        }
    )
    if any(task.rubric for task in tasks):
        item = {"text": text, "weight": datasets.Value("float64"), "kind": text, "writer": text}
        features["rubric"] = datasets.List(item)
    made = {}
    for split in SPLITS:
        rows = [task.to_row() for task in tasks if task.split == split]
        for row in rows:  # a struct needs the same keys in every item
            row["rubric"] = [{"writer": "", **item} for item in row.get("rubric", ())]
        columns = {name: [row.get(name, []) for row in rows] for name in features}
        if rows:
            name = "test" if split == "eval" else split
            made[name] = datasets.Dataset.from_dict(columns, features=features)
    return datasets.DatasetDict(made)


def _upload(data: Any, name: str, config: str, card: str, private: bool) -> None:
    """Upload a data set, then its card with the metadata that the data set's upload generated."""
    from huggingface_hub import DatasetCard

    try:
        # None selects the organization's default visibility; False would make the data public.
        data.push_to_hub(name, config, private=private or None)
        made = DatasetCard.load(name)
        merge_cards(str(made), card).push_to_hub(name, repo_type="dataset")
    except Exception as problem:  # transport errors have no common base class
        raise OSError(f"hf://{name}: {_first_line(problem)}") from problem


def merge_cards(there: str, ours: str) -> Any:
    """Return the card `ours` plus the metadata fields that only the card `there` has."""
    from huggingface_hub import DatasetCard

    card = DatasetCard(ours, ignore_metadata_errors=False)
    metadata: dict[str, Any] = DatasetCard(there).data.to_dict()  # type: ignore[no-untyped-call]
    for key, value in metadata.items():
        if card.data.get(key) is None:
            card.data[key] = value
    return card


def _parse_address(address: str) -> tuple[str, str]:
    """Return the repository and the configuration that an address names.

    Raises:
        TaskError: `address` does not have the form hf://OWNER/NAME[:CONFIG].
    """
    match = _ADDRESS.fullmatch(address)
    if not match:
        raise TaskError(f"expected hf://OWNER/NAME or hf://OWNER/NAME:CONFIG, got {address!r}")
    return match[1], match[2] or "default"


def _first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0] or type(problem).__name__


def _datasets() -> Any:
    try:
        import datasets
    except ModuleNotFoundError:
        raise missing("Hugging Face data sets need", "datasets", "data") from None
    return datasets
