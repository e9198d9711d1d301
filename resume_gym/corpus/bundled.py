"""Cards of the bundled tasks and labelled pairs as Hugging Face data sets, and the pairs' rows."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from resume_gym.corpus.card import front_matter, make_card, table
from resume_gym.episode.rewards import VERDICT_FIELDS
from resume_gym.episode.sources import load_tasks
from resume_gym.episode.tasks import EDITION, SPLITS
from resume_gym.judges.audit import HALVES, PAIRS, LabelledPair, load_pairs

PAIRS_NAME = "pairs"
"""Name of the data set of labelled pairs; "default" and "mini" are data sets of tasks."""

_LICENSE = "apache-2.0"
_ORIGIN = {
    "license": _LICENSE,
    "generator": "procedural",
    "texts": "bullets by language models, after counts of real resumes; all people are invented",
    "edition": EDITION,
    "limits": (
        "The resumes are in English and follow habits of the US.",
        "Language models tell the generated pages from pages that other models wrote: a line is "
        "plausible, but the lines of a page do not add up to one job.",
        "Rewards on different editions of the tasks cannot be compared.",
    ),
}
_SIZES = {
    "default": ("full", "Resume Gym tasks", 55),
    "mini": ("mini", "Resume Gym mini tasks", 20),
}
_PAIRS_ABOUT = (
    "Pairs of a resume and a revision, with the verdict of a careful editor in six fields from -1 "
    "to 1. They measure judges of edits: does a judge find false claims, and does it see which "
    "edits improve a line? `resume-gym judge calibrate` asks a judge about them. A row has the "
    "job, the resume, the revision, the documents that support claims, the kind of the edit and "
    "the labels."
)
_PAIRS_LIMITS = (
    "One author wrote pairs and labels; nobody else has labelled them.",
    "Several pairs share a resume; all pairs of a resume are in one half.",
    "The edits are short and the language is English.",
)


def bundled_card(name: str) -> str:
    """Return the card of "default", "mini" or "pairs" in the format of Hugging Face."""
    if name == PAIRS_NAME:
        return _pairs_card(load_pairs())
    size, title, height = _SIZES[name]
    made = f"resume-gym data generate --generator procedural --seed 0 --size {size}"
    counts = ", ".join(f"--split {one} --count {len(load_tasks(name, one))}" for one in SPLITS)
    origin = {"pretty_name": title, "page_lines": height, "command": made, "and": counts}
    return make_card(name, load_tasks(name), {**origin, **_ORIGIN})


def pair_rows(pairs: Sequence[LabelledPair]) -> Mapping[str, list[dict[str, Any]]]:
    """Return the data-set rows of labelled pairs by half (`HALVES`), all with the same keys."""
    keys = ("task_id", "job", "resume", "fixes", "evidence")
    rows: dict[str, list[dict[str, Any]]] = {half: [] for half in HALVES}
    for pair in pairs:
        task = pair.task.to_row()
        row = {"id": pair.pair_id, "kind": pair.kind, **{key: task.get(key, []) for key in keys}}
        rows[pair.half].append({**row, "revised": pair.revised, "labels": dict(pair.labels)})
    return rows


def _pairs_card(pairs: Sequence[LabelledPair]) -> str:
    with PAIRS.open("rb") as file:
        made = json.loads(file.readline())
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    title = "Resume Gym labelled pairs"
    blocks = [
        front_matter(title, len(pairs), _LICENSE, ["text-classification"]),
        f"# {title}",
        _PAIRS_ABOUT,
        "## What is in it",
        "\n".join(_content(pairs)),
        f"SHA-256 of `{PAIRS.name}`: `{digest}`",
        "## How it was made",
        *made.values(),
        "## Known limits",
        "\n".join(f"- {limit}" for limit in _PAIRS_LIMITS),
    ]
    return "\n\n".join(blocks) + "\n"


def _content(pairs: Sequence[LabelledPair]) -> Iterator[str]:
    """Yield the lines of two tables: pairs by kind and resumes (by half), and pairs by label."""
    counts = Counter((kind, pair.half) for pair in pairs for kind in (pair.kind, "all"))
    kinds = [*dict.fromkeys(pair.kind for pair in pairs), "all"]
    rows = {kind: [counts[kind, half] for half in HALVES] for kind in kinds}
    documents = {(pair.task.task_id, pair.half) for pair in pairs}
    rows["resumes"] = [sum(half == one for _, half in documents) for one in HALVES]
    yield from table(["kind of the edit", *HALVES], rows)
    labels = Counter((field, pair.labels[field]) for pair in pairs for field in VERDICT_FIELDS)
    graded = {field: [labels[field, value] for value in (-1, 0, 1)] for field in VERDICT_FIELDS}
    yield from ("", *table(["label", "-1", "0", "1"], graded))
