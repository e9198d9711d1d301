"""Compare the rubric judge with that of another checkout: learning signal and time of a verdict.

    git worktree add ../old 2deecb4
    python benchmarks/judge_beside.py ../old

Both judges grade the same episodes of the hasty editor that the nano policy imitates, in groups of
16 on the held-out mini tasks. They are timed on the careful agent's revisions of the 200 full
tasks, alternately, each time in a new process without cached pages.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from judge import differing, hasty, rank_correlation
from record import Figure, finish, parser

from resume_gym import Session, Task, load_tasks
from resume_gym.agents import careful
from resume_gym.evaluation.attack import SIZES

HERE = Path(__file__).parents[1]
ROUNDS = 5
CHILD = """
import json, sys, time
from pathlib import Path
from resume_gym.judges import make_judge
from resume_gym.rewards import unedited_ledger, verdict_ledger
from resume_gym.tasks import read_jsonl

tasks = {task.task_id: task for task in read_jsonl(Path(sys.argv[1]))}
judge = make_judge("rubric")
for row in sys.stdin:
    task_id, text = json.loads(row)
    task = tasks[task_id]
    began = time.perf_counter()
    verdict = judge.judge(task, text)
    seconds = time.perf_counter() - began
    same = text == task.resume
    ledger = unedited_ledger(task.weakness) if same else verdict_ledger(verdict)
    print(json.dumps([sum(ledger.values()), seconds]))
"""


def verdicts(checkout: Path, texts: Sequence[tuple[Task, str]]) -> list[tuple[float, float]]:
    """Grade texts with the judge of a checkout; return content rewards and seconds per verdict."""
    tasks = {task.task_id: task for task, _ in texts}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tasks.jsonl"
        rows = [task.to_row() for task in tasks.values()]
        for fix in (fix for row in rows for fix in row["fixes"]):
            del fix["needs_evidence"]  # no judge reads it, and older checkouts do not know it
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(path)],
            input="".join(json.dumps([task.task_id, text]) + "\n" for task, text in texts),
            env={**os.environ, "PYTHONPATH": str(checkout)},
            cwd=checkout,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return [tuple(json.loads(row)) for row in done.stdout.splitlines()]


def revised(task: Task) -> str:
    """The careful agent's revision of a resume."""
    session = Session(task, SIZES["full"][1])
    while not session.done:
        session.step(careful(session))
    return session.resume


def main() -> int:
    """Grade, time, print and record; return 1 if a figure misses its bound."""
    reader = parser(__doc__ or "")
    reader.add_argument("checkout", type=Path, help="folder of the other checkout")
    args = reader.parse_args()
    checkouts = {"this": HERE, "other": args.checkout.resolve()}
    limit = 4 if args.quick else None

    episodes = [one for task in load_tasks("mini", "eval")[:limit] for one in hasty(task)]
    texts, repaired = [one[:2] for one in episodes], [fixes for *_, fixes in episodes]
    rewards = {
        name: [reward for reward, _ in verdicts(checkout, texts)]
        for name, checkout in checkouts.items()
    }
    signals = {
        name: (differing(contents), rank_correlation(contents, repaired))
        for name, contents in rewards.items()
    }
    figures: list[Figure] = []
    names = ("share of groups whose content differs", "rank correlation with lines repaired")
    for what, this, other in zip(names, signals["this"], signals["other"], strict=True):
        figures.append(Figure(f"{what}, this judge", this, at_least=other))
        figures.append(Figure(f"{what}, other judge", other))

    pages = [(task, revised(task)) for task in load_tasks("default")[:limit]]
    rounds = [
        {name: _median_ms(verdicts(checkout, pages)) for name, checkout in checkouts.items()}
        for _ in range(1 if args.quick else ROUNDS)
    ]
    ratio = median(one["this"] / one["other"] for one in rounds)
    figures.append(Figure("time of a verdict, p50, this / other", ratio, at_most=0.6))
    figures.append(Figure("ms a verdict, p50, this judge", median(one["this"] for one in rounds)))
    return finish("judge_beside", args, figures, {"rounds, ms": rounds}, ("rapidfuzz",))


def _median_ms(found: Sequence[tuple[float, float]]) -> float:
    return 1000 * median(seconds for _, seconds in found)


if __name__ == "__main__":
    sys.exit(main())
