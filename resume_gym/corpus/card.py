"""Write the card of a task file, in the format of Hugging Face dataset cards."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from resume_gym.corpus.check import PAGE_LINES, CheckReport, check
from resume_gym.corpus.duplicates import SHINGLE
from resume_gym.episode.tasks import SPLITS, WEAKNESSES, Task
from resume_gym.support.atomic_write import replacing

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
# keys of `origin` that are left out of the card's table "How it was made"
_OF_THE_CARD = ("license", "pretty_name", "language", "page_lines", "limits")
_DIGEST = re.compile(r"SHA-256 of these tasks as JSON lines: `([0-9a-f]{64})`")
_ABOUT = (
    "Tasks for the Gymnasium environment `ResumeEdit-v0`: each is a resume in Markdown with a "
    "weakness, and the job that the resume is for. A language model sees `job` and `resume`, and "
    "revises the resume. `weakness` and `fixes` (ordered edits that repair the weakness, with the "
    "facts that support them) are for judges and oracles. Judges also read `evidence` (documents "
    "about the candidate), which a model can search in `ResumeEditEvidence-v0`. `persona` "
    "describes the owner of the resume."
)
_LIMITS = (
    "Each task names one weakness; its resume may have others, which `fixes` do not repair.",
    "Near-duplicates are found by shared words, so a paraphrased resume is not found.",
)


def card_path(path: Path) -> Path:
    """Return the path of the card of NAME.jsonl: NAME.card.md in the same folder."""
    return path.with_suffix(".card.md")


def write_card(path: Path, tasks: Sequence[Task], origin: Mapping[str, object]) -> Path:
    """Write the card of a task file beside the file; equal arguments give equal cards.

    Args:
        path: path of the JSONL task file, which is not read.
        tasks: the tasks that the file contains.
        origin: how the tasks were made, in display order: generator, seed, versions, model,
            prompts, cost, ... The card shows it as a table, except keys that other
            parts of the card use: `license` (a Hugging Face identifier; default "unknown"),
            `language` (default "en"), `page_lines` (default 55), `pretty_name`, and `limits`
            (sentences on known limits).

    Returns:
        The path of the card.
    """
    target = card_path(path)
    with replacing(target) as draft:
        draft.write_text(make_card(path.stem, tasks, origin), encoding="utf-8")
    return target


def digest(tasks: Sequence[Task]) -> str:
    """Return the hexadecimal SHA-256 of the file that `write_jsonl` writes for the tasks."""
    rows = (json.dumps(task.to_row(), ensure_ascii=False) for task in tasks)
    return hashlib.sha256("".join(f"{row}\n" for row in rows).encode()).hexdigest()


def is_of_others(card: str, tasks: Sequence[Task]) -> bool:
    """Return whether a card contains a digest that differs from the digest of `tasks`."""
    match = _DIGEST.search(card)
    return match is not None and match[1] != digest(tasks)


def make_card(name: str, tasks: Sequence[Task], origin: Mapping[str, Any]) -> str:
    """Return the card text that `write_card` writes; `name` is the default title."""
    report = check(tasks, page_lines=origin.get("page_lines", PAGE_LINES))
    title = origin.get("pretty_name", name)
    sections = {
        "What is in it": _content(tasks, report),
        "How it was made": _origin(origin),
        "Checks": _checks(report),
        "Known limits": [f"- {limit}" for limit in (*_LIMITS, *origin.get("limits", ()))],
    }
    license_, language = origin.get("license", "unknown"), origin.get("language", "en")
    head = front_matter(title, len(tasks), license_, ["text-generation"], language)
    blocks = [head, f"# {title}", _ABOUT]
    for heading, rows in sections.items():
        blocks += [f"## {heading}", "\n".join(rows).strip()]
    return "\n\n".join(blocks) + "\n"


def front_matter(
    title: str, count: int, license_: str, categories: Sequence[str], language: str = "en"
) -> str:
    """Return the YAML head of a card; `license_` and `categories` are the Hub's identifiers."""
    size = next((name for limit, name in _SIZES if count < limit), "n>1M")
    data = {
        "license": license_,
        "task_categories": categories,
        "language": [language],
        "size_categories": [size],
        "pretty_name": title,
        "tags": ["resume", "editing", "reinforcement-learning", "resume-gym"],
    }
    # JSON is valid YAML, so no YAML library is needed.
    rows = (f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in data.items())
    return "\n".join(["---", *rows, "---"])


def _content(tasks: Sequence[Task], report: CheckReport) -> Iterator[str]:
    """Yield task counts, text lengths, the number of tasks with evidence and the tasks' digest."""
    by_split = [(split, report.splits[split]) for split in SPLITS]
    rows = {name: [counts[name] for _, counts in by_split] for name in WEAKNESSES}
    rows["all"] = [sum(counts.values()) for _, counts in by_split]
    yield from table(["weakness", *SPLITS], rows)
    lengths = {
        "resume, characters": [len(task.resume) for task in tasks],
        "job, characters": [len(task.job) for task in tasks],
        "fixes": [len(task.fixes) for task in tasks],
        "evidence documents": [len(task.evidence) for task in tasks],
    }
    least = {name: [min(all_), median(all_), max(all_)] for name, all_ in lengths.items() if all_}
    yield from ("", *table(["per task", "minimum", "median", "maximum"], least))
    yield from ("", f"Tasks with evidence: {report.with_evidence} of {report.tasks}.")
    yield from ("", f"SHA-256 of these tasks as JSON lines: `{digest(tasks)}`")


def table(head: Sequence[str], rows: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yield the lines of a Markdown table of numbers, with a name in front of each row."""
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}"
    for name, numbers in rows.items():
        # The format :g writes a median of 5.0 as 5, but would round more than six digits.
        cells = " | ".join(f"{number:g}" if number < 1e5 else str(number) for number in numbers)
        yield f"| {_cell(name)} | {cells} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _origin(origin: Mapping[str, object]) -> Iterator[str]:
    rows = {key: value for key, value in origin.items() if key not in _OF_THE_CARD}
    if not rows:
        yield "Not known."
        return
    yield "| | |\n|---|---|"
    for key, value in rows.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"| {_cell(key.replace('_', ' '))} | {_cell(text)} |"


def _checks(report: CheckReport) -> Iterator[str]:
    """Yield the result of `resume-gym data check` as Markdown."""
    verdict = "fit" if report.fit else "**not fit**"
    yield (
        f"`resume-gym data check`: {verdict} to train on. Two texts are near-duplicates if they "
        f"share at least {report.threshold:.0%} of their sequences of {SHINGLE} words; names, "
        "contact data and figures in resumes do not count.\n"
    )
    for finding in report.findings:
        yield f"\n{finding.severity.capitalize()}: {finding.text}: {finding.count}"
        if finding.examples:
            yield from ("", "```text", *finding.shown, "```")
