"""What two readers say of lines that trained policies have changed.

    python benchmarks/main_job.py               # samples lines: nano_lines.jsonl
    python benchmarks/smollm2_job.py            # samples lines: smollm2_lines.jsonl
    python benchmarks/written_lines.py nano     # counts the labels: nano_labels.jsonl

The lines are mixed with lines of the careful agent and of a policy that swaps small words. A reader
sees a line before and after, its resume and the job, but not who changed it, and labels it better,
harmless, worse, or false (it says what the resume does not). The first row of the labels names the
readers; each other row is {"line": number, "labels": [first reader's, second reader's]}.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from random import Random
from typing import Any

from record import Figure, finish, parser

from resume_gym import Session, Task, load_tasks
from resume_gym.agents import make_agent
from resume_gym.evaluation.attack import SIZES
from resume_gym.judges.audit.agreement import weighted_kappa

HERE = Path(__file__).parent
JOBS = {"nano": (0.7, 0.1), "smollm2": (0.6, 0.15)}
"""Lines wanted of each job's policy: the least share of better ones, the greatest of bad ones."""
COUNTS = {"trained": 100, "careful": 20, "floor": 20}
RANKS = ("false", "worse", "harmless", "better")
GOOD, BAD = ("better",), ("worse", "false")


def changed(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Lines that differ, as they were and as they are; empty where there is none."""
    old, new = before.split("\n"), after.split("\n")
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for n in range(max(b - a, d - c) if kind != "equal" else 0):
            pair = (old[a + n] if a + n < b else "", new[c + n] if c + n < d else "")
            if any(line.strip() for line in pair):
                yield pair


def sample(episodes: Path, job: str, seed: int = 0) -> None:
    """Draw lines from an evaluation of trained policies and the careful agent, and mix them.

    Args:
        episodes: `episodes.jsonl` of `resume-gym eval --out`.
        job: what trained them, among `JOBS`.
        seed: of the draw.
    """
    source, rules = SIZES["mini"]
    tasks = {task.task_id: task for task in load_tasks(source, "eval")}
    pools: dict[str, list[dict[str, str]]] = {name: [] for name in COUNTS}

    def add(writer: str, task: Task, actions: Iterable[str]) -> None:
        session = Session(task, rules)
        for action in actions:
            session.step(action)
        for old, new in changed(task.resume, session.text):
            pools[writer].append({"task_id": task.task_id, "before": old, "after": new})

    for line in episodes.read_text(encoding="utf-8").splitlines():
        episode = json.loads(line)
        writer = "careful" if episode["agent"] == "careful" else "trained"
        add(writer, tasks[episode["task_id"]], episode["actions"])
    for task in tasks.values():
        agent, session = make_agent("floor", seed), Session(task, rules)
        while not session.done:
            session.step(agent(session))
        add("floor", task, [text for text, _ in session.state.transcript])

    rng = Random(seed)
    drawn = [
        {**one, "writer": writer}
        for writer, count in COUNTS.items()
        for one in rng.sample(pools[writer], min(count, len(pools[writer])))
    ]
    rng.shuffle(drawn)
    rows = (json.dumps({"line": n, **one}, ensure_ascii=False) for n, one in enumerate(drawn))
    (HERE / f"{job}_lines.jsonl").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def main() -> int:
    """Count, print, record; 1 if a figure is not as wanted."""
    reader = parser(__doc__ or "")
    reader.add_argument("job", choices=list(JOBS))
    args = reader.parse_args()
    drawn, labelled = (HERE / f"{args.job}_{what}.jsonl" for what in ("lines", "labels"))
    for path in (drawn, labelled):
        if not path.exists():
            sys.exit(f"expected {path.name} beside this script; see --help for what makes it")
    lines = {one["line"]: one for one in _rows(drawn)}
    who, *labels = _rows(labelled)
    least, most = JOBS[args.job]
    figures: list[Figure] = []
    for writer in COUNTS:
        said = [one["labels"] for one in labels if lines[one["line"]]["writer"] == writer]
        every = [label for pair in said for label in pair]
        trained = writer == "trained"
        for name, group, bounds in (
            ("better", GOOD, (least, None)),
            ("worse or false", BAD, (None, most)),
        ):
            share = sum(label in group for label in every) / len(every)
            figures.append(Figure(f"{writer}: {name}", share, *(bounds if trained else ())))
    pairs = [(first, second) for first, second in (one["labels"] for one in labels)]
    figures.append(Figure("readers: same label", sum(a == b for a, b in pairs) / len(pairs)))
    ranks = [(RANKS.index(first), RANKS.index(second)) for first, second in pairs]
    if (kappa := weighted_kappa(ranks)) is not None:
        figures.append(Figure("readers: Cohen's kappa, weighted", kappa))
    repetitions = {"readers": who, "lines": len(labels)}
    return finish(f"written_lines_{args.job}", args, figures, repetitions)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
