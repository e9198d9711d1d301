"""Task sources: bundled data, generated tasks, a file, a folder or the Hugging Face Hub."""

from functools import lru_cache
from pathlib import Path

from resume_gym.tasks import SPLITS, Task, TaskError, read_jsonl

BUNDLED = ("default", "mini")

_GENERATED = {"procedural": "full", "procedural-mini": "mini"}
_DATA = Path(__file__).parent / "data"


def load_tasks(source: str | Path, split: str | None = None) -> tuple[Task, ...]:
    """Load the tasks of a source, in order; sources are cached in the process.

    Args:
        source: A bundled name ("default", "mini"), the path of a JSONL file or of a folder in the
            format of Hugging Face's `datasets`, "hf://OWNER/NAME" for a dataset on the Hub, or
            "procedural:SEED:COUNT" / "procedural-mini:SEED:COUNT" for COUNT generated tasks per
            split.
        split: "train" or "eval"; None for both.

    Raises:
        TaskError: The source does not exist, a row is invalid (the message names file, line and
            field), or the split is empty.
    """
    check_source(source, split)
    source = str(source)
    tasks = tuple(task for task in _load(source, split) if split in (None, task.split))
    if not tasks:
        count, other = len(_load(source, None)), SPLITS[split == SPLITS[0]]
        hint = f"; split={other!r} (--split {other}) selects {count}" if count else ""
        raise TaskError(f"{source}: no tasks in split {split!r}{hint}")
    return tasks


def check_source(source: str | Path, split: str | None = None) -> None:
    """Check the form of a source, and that a file exists, without loading tasks.

    Raises:
        TaskError: The source or the split does not exist.
    """
    source = str(source)
    if split is not None and split not in SPLITS:
        raise TaskError(f"split: expected one of {', '.join(SPLITS)}; got {split!r}")
    kind, *numbers = source.split(":")
    if kind in _GENERATED:
        if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
            raise TaskError(f"tasks: expected procedural:SEED:COUNT, got {source!r}")
    elif not (source in BUNDLED or source.startswith("hf://") or Path(source).exists()):
        names = ", ".join(BUNDLED)
        raise TaskError(
            f"tasks: expected {names}, procedural:SEED:COUNT, a JSONL file, a folder of datasets "
            f"or hf://OWNER/NAME; got {source!r}"
        )


@lru_cache(maxsize=32)
def _load(source: str, split: str | None) -> tuple[Task, ...]:
    if source in BUNDLED:
        files = [_DATA / f"{source}_{name}.jsonl" for name in SPLITS if split in (None, name)]
        return tuple(task for file in files for task in read_jsonl(file))
    kind, *numbers = source.split(":")
    if kind in _GENERATED:
        seed, count = map(int, numbers)
        return _generate(_GENERATED[kind], seed, count, split)
    path = Path(source)
    if source.startswith("hf://") or path.is_dir():
        from resume_gym.corpus import hub  # requires `datasets`

        return tuple(hub.load(source))
    return tuple(read_jsonl(path))


def _generate(size: str, seed: int, count: int, split: str | None) -> tuple[Task, ...]:
    from resume_gym.synthesis import generate_tasks  # rarely needed

    splits = [split] if split else SPLITS
    return tuple(task for name in splits for task in generate_tasks(seed, count, name, size))
