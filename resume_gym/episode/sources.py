"""Task sources: bundled data, generated tasks, a file, a folder or the Hugging Face Hub."""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

from resume_gym.episode.tasks import SPLITS, Task, read_jsonl
from resume_gym.support.user_errors import TaskError

BUNDLED = ("default", "mini")


class Loader(NamedTuple):
    """The loader of one kind of task source.

    Attributes:
        pattern: regular expression that fully matches each source of this kind.
        entry: MODULE:FUNCTION, imported at the first use. The function takes a source and a split
            and returns tasks in order. It may add tasks of other splits, which `load_tasks` drops.
    """

    pattern: str
    entry: str


LADDER = r"ladder(-(?P<size>mini))?:(?P<seed>[0-9]+)"
LOADERS: Mapping[str, Loader] = {
    "procedural:SEED:COUNT": Loader(
        r"procedural(-mini)?:[0-9]+:[0-9]+", "resume_gym.synthesis.procedural:load"
    ),
    "ladder:SEED": Loader(LADDER, "resume_gym.synthesis.ladder:load"),
    "omission:SEED:COUNT": Loader(
        r"omission(-mini)?:[0-9]+:[0-9]+", "resume_gym.synthesis.omission:load"
    ),
    "hf://OWNER/NAME": Loader("hf://.*", "resume_gym.corpus.hub:load"),
}
"""Loaders of all sources except bundled tasks and files; the keys show how to write a source."""
_FOLDER = LOADERS["hf://OWNER/NAME"]
_DATA = Path(__file__).parents[1] / "data"


def load_tasks(source: str | Path, split: str | None = None) -> tuple[Task, ...]:
    """Load the tasks of a source, in order, and cache them in memory.

    Args:
        source: a bundled name ("default", "mini"); the path of a JSONL file, or of a folder in the
            format of Hugging Face's `datasets`; "hf://OWNER/NAME" for a dataset on the Hub; or a
            generator. "procedural:SEED:COUNT" generates COUNT tasks per split, "ladder:SEED" tasks
            of rising difficulty, and "omission:SEED:COUNT" resumes that lack a figure. A generator
            with "-mini", such as "procedural-mini:0:8", makes short documents.
        split: split of the tasks, "train" or "eval"; None for both.

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
    """Check the form of a source, and that its file exists, without loading tasks.

    Raises:
        TaskError: The source or the split does not exist.
    """
    source = str(source)
    if split is not None and split not in SPLITS:
        raise TaskError(f"split: expected one of {', '.join(SPLITS)}; got {split!r}")
    if not (source in BUNDLED or _loader(source) or Path(source).exists()):
        if Path(source).suffix in (".jsonl", ".json"):
            raise TaskError(f"tasks: there is no file {source!r}")
        names = ", ".join((*BUNDLED, *LOADERS))
        raise TaskError(
            f"tasks: expected {names}, a JSONL file or a `datasets` folder; got {source!r}"
        )


def _loader(source: str) -> Loader | None:
    found = (loader for loader in LOADERS.values() if re.fullmatch(loader.pattern, source))
    return next(found, _FOLDER if Path(source).is_dir() else None)


@lru_cache(maxsize=32)
def _load(source: str, split: str | None) -> tuple[Task, ...]:
    if source in BUNDLED:
        files = [_DATA / f"{source}_{name}.jsonl" for name in SPLITS if split in (None, name)]
        return tuple(task for file in files for task in read_jsonl(file))
    if loader := _loader(source):
        return tuple(resolve_name(loader.entry)(source, split))
    return tuple(read_jsonl(Path(source)))
