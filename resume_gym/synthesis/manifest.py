"""JSON manifests of generated corpora: settings, versions, skipped tasks, faults and cost.

`find_manifest` protects an existing corpus from being overwritten; `origin` formats a manifest for
the data card, `summary` for the terminal.
"""

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import resume_gym
from resume_gym.episode.tasks import Task
from resume_gym.llm.store import summarise
from resume_gym.support.atomic_write import replacing
from resume_gym.support.printing import amount
from resume_gym.support.user_errors import TaskError, number_of
from resume_gym.synthesis.procedural import SIZES

_SDKS = {"gemini": "google-genai", "openai": "openai"}


class Outcome(NamedTuple):
    """The result of the attempts to generate one task.

    Attributes:
        task: the task; None if no attempt succeeded.
        attempts: number of requests to the model for this task; 1 for a procedural task.
        faults: for each kind of fault, the number of answers with such a fault.
        reason: why there is no task; empty if there is a task.
    """

    task: Task | None
    attempts: int
    faults: Mapping[str, int]
    reason: str = ""


def write_manifest(
    path: Path,
    corpus: Path,
    settings: Mapping[str, Any],
    outcomes: Mapping[str, Outcome],
    store: Path | None = None,
) -> dict[str, Any]:
    """Write and return the manifest of a finished corpus.

    Args:
        path: path of the manifest.
        corpus: path of the corpus.
        settings: settings that determine the tasks; see `Generation.settings`.
        outcomes: outcome of each requested task, by task id.
        store: path of the store of the model's answers; None for procedural tasks.
    """
    tasks = [outcome.task for outcome in outcomes.values() if outcome.task]
    faults: Counter[str] = Counter()
    for outcome in outcomes.values():
        faults.update(outcome.faults)
    sdk = _SDKS.get(settings["generator"])
    manifest = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "resume-gym": resume_gym.__version__,
            "python": platform.python_version(),
            **({sdk: version(sdk)} if sdk else {}),
        },
        "settings": dict(settings),
        "wanted": len(outcomes),
        "tasks": len(tasks),
        "splits": dict(sorted(Counter(task.split for task in tasks).items())),
        "weaknesses": dict(sorted(Counter(task.weakness for task in tasks).items())),
        "attempts": sum(outcome.attempts for outcome in outcomes.values()),
        "faults": dict(sorted(faults.items())),
        "skipped": [
            {"task_id": task_id, "reason": outcome.reason}
            for task_id, outcome in outcomes.items()
            if not outcome.task
        ],
        "usage": summarise(store) if store else None,
        "sha256": _sha256(corpus),
    }
    with replacing(path) as file:
        file.write_bytes(json.dumps(manifest, ensure_ascii=False, indent=1).encode() + b"\n")
    return manifest


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of a corpus.

    Raises:
        TaskError: The file is not a manifest.
    """
    try:
        manifest = json.loads(path.read_bytes())
    except ValueError as problem:
        raise TaskError(f"{path}: {problem}") from None
    needed = ("settings", "wanted", "tasks", "sha256")
    if not isinstance(manifest, dict) or not manifest.keys() >= set(needed):
        raise TaskError(f"{path}: expected a manifest with the keys {', '.join(needed)}")
    return manifest


def find_page_lines(source: str) -> int:
    """Return the lines per page of a task source, inferred from its manifest or its name."""
    path = Path(f"{source}.manifest.json")
    kind, colon, _ = source.partition(":")
    small = source == "mini" or (colon and kind.endswith("-mini"))
    size = read_manifest(path)["settings"].get("size") if path.is_file() else None
    return SIZES[size or ("mini" if small else "full")].page_lines


def find_manifest(
    path: Path, out: Path, settings: Mapping[str, object], wanted: int
) -> dict[str, Any] | None:
    """Check that a run may create or extend a corpus, and return the existing manifest.

    Args:
        path: path of the manifest.
        out: path of the corpus.
        settings: settings of the new run; see `Generation.settings`.
        wanted: number of tasks requested.

    Returns:
        The manifest; None if there is no corpus.

    Raises:
        TaskError: The corpus was modified or has no manifest, or was generated with settings other
            than `settings` or with a larger number of tasks than `wanted`.
    """
    if not out.exists():
        return None
    if not path.is_file():
        raise TaskError(f"--out: {out} exists, but has no manifest that says how it was made")
    manifest = read_manifest(path)
    if manifest["sha256"] != _sha256(out):
        raise TaskError(
            f"--out: {out} was modified: its SHA-256 is not the one in {path.name}; "
            "move the file away and repeat the command to generate it again"
        )
    there = manifest["settings"]
    # Compare the generator first, since it determines which other settings there are.
    for name in sorted(
        there.keys() | settings.keys(), key=lambda name: (name != "generator", name)
    ):
        if there.get(name) != settings.get(name):
            raise TaskError(
                f"{out} was made with {name} {there.get(name)!r}, not {settings.get(name)!r}; "
                "choose another --out, or delete the file"
            )
    if wanted < manifest["wanted"]:
        raise TaskError(
            f"--count: {out} was made with --count {manifest['wanted']}; expected at least this "
            f"number, got {wanted}; choose another --out for fewer tasks"
        )
    return manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def origin(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the argument `origin` of `corpus.card.write_card`: how the tasks were generated."""
    settings = {name: value for name, value in manifest["settings"].items() if value is not None}
    model = settings.pop("model", {}).get("model")
    rows = {"command": "resume-gym data generate", **settings, "versions": manifest["versions"]}
    if usage := manifest["usage"]:
        rows |= {
            "model": model,
            "served by": ", ".join(usage["served"]),
            "answers": manifest["attempts"],
            "answers with faults": manifest["faults"],
            "skipped tasks": len(manifest["skipped"]),
            "cost": price(usage["dollars"]),
        }
    if "size" in settings:
        rows["page_lines"] = SIZES[settings["size"]].page_lines
    return rows


def counted(manifest: Mapping[str, Any]) -> str:
    """Return the numbers of generated and requested tasks as text: "9 of 10 tasks"."""
    return f"{manifest['tasks']} of {number_of(manifest['wanted'], 'task')}"


def summary(out: Path, manifest: Mapping[str, Any]) -> str:
    """Summarize a manifest in a few lines, which list at most ten skipped tasks."""
    splits = ", ".join(f"{count} {split}" for split, count in manifest["splits"].items())
    lines = [f"{out}: {counted(manifest)}" + f" ({splits})" * bool(splits)]
    if faults := manifest["faults"]:
        kinds = ", ".join(f"{kind} {count}" for kind, count in faults.items())
        lines.append(f"{number_of(manifest['attempts'], 'answer')}; with faults: {kinds}")
    if skipped := manifest["skipped"]:
        lines.append(f"skipped: {len(skipped)}")
        lines += [f"  {task['task_id']}: {task['reason']}" for task in skipped[:10]]
    if usage := manifest["usage"]:
        requests = number_of(sum(usage["outcomes"].values()), "request")
        counts = usage["tokens_in"], usage["tokens_out"]
        tokens = "tokens unknown" if None in counts else "{:,} tokens in, {:,} out".format(*counts)
        lines.append(f"{requests}, {tokens}, {price(usage['dollars'])}")
    return "\n".join(lines)


def price(dollars: float | None) -> str:
    """Format a cost in dollars."""
    return "price unknown" if dollars is None else f"${amount(dollars)}"
