"""What readers say of lines that agents have changed.

    python benchmarks/readers.py --draw 4   # round 4: lines-4.jsonl and page-4.txt, for readers
    python benchmarks/readers.py            # counts all labels: labels-*.jsonl

Careful agent and oracle play tasks that nobody has seen, of both sizes; their changed lines are
mixed with those of a policy that swaps small words. Readers see a line before and after, the job,
the page and its limit, but neither who changed it nor any rule (`readers/brief.md`). Changes of
format are one block per page, and a deleted section is one change. A line is better, or bad
(worse or false), if two readers say so. The first row of the labels names the readers; each other
row is {"line": number, "labels": [one per reader]}.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from random import Random
from typing import Any

from record import Figure, finish, parser

from resume_gym import Session, Task
from resume_gym.agents import Agent, make_agent
from resume_gym.document import wrapped_lines
from resume_gym.evaluation.attack import SIZES
from resume_gym.judges.audit.agreement import weighted_kappa
from resume_gym.synthesis.procedural import PAGE_WIDTH, generate_tasks

FOLDER = Path(__file__).parent / "readers"
COUNTS = {"careful": 60, "oracle": 60, "floor": 20}
TASKS = 12  # of each size, two of each weakness
RANKS = ("false", "worse", "harmless", "better")
BAD = ("worse", "false")
WANTED = {"better": (0.8, None), "bad": (None, 0.05)}


def changes(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Changed lines, as they were and as they are; changes of format come last, as one."""
    old, new = before.split("\n"), after.split("\n")
    formats = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "delete" and any(line.startswith("#") for line in old[a:b]):
            yield "\n".join(old[a:b]).strip("\n"), ""  # a section
        elif kind != "equal":
            for n in range(max(b - a, d - c)):
                pair = (old[a + n] if a + n < b else "", new[c + n] if c + n < d else "")
                if _words(pair[0]) == _words(pair[1]):
                    formats.append(pair)
                elif any(map(str.strip, pair)):
                    yield pair
    if formats:
        yield "\n".join(one for one, _ in formats), "\n".join(one for _, one in formats)


def _words(line: str) -> str:
    """The words and figures of a line without its format; dates are all alike."""
    dated = re.sub(r"\b(?:\d{4}-\d\d|\d\d/\d{4}|[A-Z][a-z]+ \d{4}|Present)\b", "date", line)
    return re.sub(r"[^a-z0-9]+", " ", dated.lower()).replace("date to date", "date date").strip()


def agents(seed: int) -> Mapping[str, Callable[[Task], Agent]]:
    """The writers of the lines."""
    return {
        "careful": lambda task: make_agent("careful"),
        "oracle": lambda task: make_agent("oracle"),
        "floor": lambda task: make_agent("floor", seed),
    }


def draw(number: int) -> list[dict[str, str]]:
    """Draw the lines of a round; rounds share no task."""
    seed = 9000 + number
    rng = Random(seed)
    pools: dict[str, list[dict[str, str]]] = defaultdict(list)
    for size, (_, rules) in SIZES.items():
        for task in generate_tasks(seed, TASKS, "eval", size):
            for writer, make in agents(seed).items():
                session, agent = Session(task, rules), make(task)
                while not session.done:
                    session.step(agent(session))
                for old, new in changes(task.resume, session.resume):
                    one = {"writer": writer, "size": size, "task_id": task.task_id}
                    pools[writer].append({**one, "before": old, "after": new})
    drawn = [
        one
        for writer, count in COUNTS.items()
        for one in rng.sample(pools[writer], min(count, len(pools[writer])))
    ]
    rng.shuffle(drawn)
    return drawn


def pages(number: int, drawn: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of a round as readers get them, one task after the other, without their writers."""
    tasks = {
        task.task_id: (task, rules)
        for size, (_, rules) in SIZES.items()
        for task in generate_tasks(9000 + number, TASKS, "eval", size)
    }
    found = defaultdict(list)
    for one in drawn:
        found[one["task_id"]].append(one)
    for place, (task_id, lines) in enumerate(sorted(found.items()), start=1):
        task, rules = tasks[task_id]
        long = wrapped_lines(task.resume, PAGE_WIDTH)
        fits = "it fits" if long <= rules.page_lines else "it is too long"
        yield f"{'=' * 80}\nPAGE {place}: {long} lines, limit {rules.page_lines}: {fits}"
        yield f"--- job\n{task.job}\n--- resume\n{task.resume}\n--- changes, each alone"
        for one in lines:
            after = one["after"] or "(deleted)"
            yield f"LINE {one['line']}\n  before: {one['before']}\n  after:  {after}\n"


def outcome(labels: Iterable[str]) -> str:
    """What at least two readers say; "open" if no two agree."""
    counts = Counter("bad" if label in BAD else label for label in labels)
    said, count = counts.most_common(1)[0]
    return said if count > 1 else "open"


def main() -> int:
    """Draw, show, or count and record; 1 if a figure is not as wanted."""
    reader = parser(__doc__ or "")
    reader.add_argument("--draw", metavar="ROUND", type=int, help="draw the lines of a round")
    args = reader.parse_args()
    if args.draw is None:
        return count(args)
    drawn = [{"line": n, **one} for n, one in enumerate(draw(args.draw))]
    rows = (json.dumps(one, ensure_ascii=False) for one in drawn)
    (FOLDER / f"lines-{args.draw}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    page = "\n".join(pages(args.draw, drawn)) + "\n"
    (FOLDER / f"page-{args.draw}.txt").write_text(page, encoding="utf-8")
    return 0


def count(args: Any) -> int:
    """Count the labels of all rounds; the last one has to be as wanted."""
    figures: list[Figure] = []
    counted: dict[str, Any] = {}
    labelled = sorted(FOLDER.glob("labels-*.jsonl"))
    for path in labelled:
        number = path.stem.removeprefix("labels-")
        lines = {one["line"]: one for one in read(FOLDER / f"lines-{number}.jsonl")}
        who, *labels = read(path)
        said: dict[str, list[str]] = defaultdict(list)
        for one in labels:
            said[lines[one["line"]]["writer"]].append(outcome(one["labels"]))
        for writer, outcomes in said.items():
            for name, bounds in WANTED.items():
                share = outcomes.count(name) / len(outcomes)
                wanted = bounds if path is labelled[-1] and writer != "floor" else (None, None)
                figures.append(Figure(f"round {number}: {writer}: {name}", share, *wanted))
        pairs = [one["labels"][:2] for one in labels]
        same = sum(first == second for first, second in pairs) / len(pairs)
        figures.append(Figure(f"round {number}: first two readers, same label", same))
        ranks = [(RANKS.index(first), RANKS.index(second)) for first, second in pairs]
        if (kappa := weighted_kappa(ranks)) is not None:
            figures.append(Figure(f"round {number}: Cohen's kappa, weighted", kappa))
        counted[number] = {
            "readers": who,
            **{writer: Counter(outcomes) for writer, outcomes in said.items()},
        }
    return finish("readers", args, figures, counted)


def read(path: Path) -> list[dict[str, Any]]:
    """Read a file of one JSON object a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
