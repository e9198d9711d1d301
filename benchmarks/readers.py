"""Count the labels that readers (language models) gave to lines changed by agents.

    python benchmarks/main_job.py           # rounds main and known: lines-main.jsonl, page-main.txt
    python benchmarks/smollm2_job.py        # round smollm2
    python benchmarks/readers.py --draw 4   # round 4, with scripted agents only
    python benchmarks/readers.py --strangers 4    # round strangers-4: careful on strangers' pages
    python benchmarks/readers.py            # count the labels in labels-*.jsonl, show five lines

In a numbered round, the careful agent and the oracle play new mini and full-size tasks. In a round
of strangers, the careful agent edits ten resumes of `readers/pages/test`, in up to 60 turns. In the
other rounds, trained policies and the careful agent have played the held-out mini tasks. The lines
that these agents changed are mixed with lines of the floor agent, which only makes harmless edits.
Readers see each line before and after the change, the job, the resume and the page limit, but not
which agent made the change (`readers/brief.txt` holds their instructions). All changes of format in
a resume are shown as one change, and so is a deleted section. A line counts as better, or as bad
(worse or false), if two readers say so. Round main has lines of the start, of the run with AIPO and
of the best control, round known lines of start and end on pages of known phrases. Round pilot has
lines that a policy was paid for as improved. The first row of a labels file names the readers; each
other row is {"line": number, "labels": [one per reader]}.
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

from record import ENVS, Figure, finish, parser

from resume_gym import Rules, Session, Task
from resume_gym.agents import Agent, make_agent
from resume_gym.env import make_edit_env
from resume_gym.episode.document import wrapped_lines
from resume_gym.evaluation import play
from resume_gym.judges.audit import weighted_kappa
from resume_gym.synthesis.procedural import PAGE_WIDTH, generate_tasks

FOLDER = Path(__file__).parent / "readers"
COUNTS = {"careful": 60, "oracle": 60, "floor": 20}
TRAINED = {"trained": 100, "imitated": 100, "careful": 20, "floor": 20}
LIKE = 0.4  # minimum similarity of a line before and after a change
TASKS = 12  # number of tasks of each size in a round: two for each weakness
RANKS = ("false", "worse", "harmless", "better")
BAD = ("worse", "false")
WANTED = {
    "scripted": (0.8, 0.05),
    "strangers": (0.75, 0.05),
    "smollm2": (0.75, 0.15),
    "pilot": (0.85, 0.15),
    "main": (0.75, 0.15),
    "known": (0.75, 0.15),
}
"""Minimum share of better lines and maximum share of bad lines, by kind of round."""
Tasks = Mapping[str, tuple[Task, Rules]]


def changes(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield each changed line as (before, after), then all format changes as one pair."""
    old, new = before.split("\n"), after.split("\n")
    formats = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone = "\n".join(old[a:b]).strip("\n")
        if kind == "delete" and re.search(r"^#|\n\n", gone, re.MULTILINE):
            yield gone, ""  # a deleted section
        elif kind != "equal":
            for pair in _paired(old[a:b], new[c:d]):
                if _words(pair[0]) == _words(pair[1]):
                    formats.append(pair)
                elif any(map(str.strip, pair)):
                    yield pair
    if formats:
        yield "\n".join(one for one, _ in formats), "\n".join(one for _, one in formats)


def _paired(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """Pair each new line with the old line most like it, in order; others are gone or added."""
    for line in new:
        like = [SequenceMatcher(None, _words(one), _words(line)).ratio() for one in old]
        at = like.index(max(like)) if like and max(like) > LIKE else -1
        yield from ((gone, "") for gone in old[: max(at, 0)])
        yield (old[at] if at >= 0 else "", line)
        old = old[at + 1 :]
    yield from ((gone, "") for gone in old)


def _words(line: str) -> str:
    """Return the lower-case words and figures of a line, with each date replaced by "date"."""
    dated = re.sub(r"\b(?:\d{4}-\d\d|\d\d/\d{4}|[A-Z][a-z]+ \d{4}|Present)\b", "date", line)
    return re.sub(r"[^a-z0-9]+", " ", dated.lower()).replace("date to date", "date date").strip()


def agents(seed: int) -> Mapping[str, Callable[[Task], Agent]]:
    """Return functions that make the careful agent, the oracle and the floor agent, by name."""
    return {
        "careful": lambda task: make_agent("careful"),
        "oracle": lambda task: make_agent("oracle"),
        "floor": lambda task: make_agent("floor", seed),
    }


def edited(writer: str, session: Session) -> Iterator[dict[str, str]]:
    """Yield the lines that a finished session has changed."""
    for old, new in changes(session.task.resume, session.resume):
        yield {"writer": writer, "task_id": session.task.task_id, "before": old, "after": new}


def draw(number: int) -> None:
    """Let scripted agents play new tasks for round `number`; draw lines that they changed."""
    seed = 9000 + number
    tasks = {
        task.task_id: (task, make_edit_env(name).rules)
        for size, name in ENVS.items()
        for task in generate_tasks(seed, TASKS, "eval", size)
    }
    lines = [
        line
        for task, rules in tasks.values()
        for writer, make in agents(seed).items()
        for line in edited(writer, play(make(task), Session(task, rules)))
    ]
    mix(str(number), lines, COUNTS, tasks, seed)


def draw_strangers(number: int) -> None:
    """Let the careful agent and the floor agent edit ten resumes of strangers; draw all lines."""
    rules = Rules(max_turns=60)
    tasks = {task.task_id: (task, rules) for task in Random(number).sample(strangers(), 10)}
    lines = [
        line
        for task, _ in tasks.values()
        for writer, agent in (("careful", make_agent("careful")), ("floor", make_agent("floor", 1)))
        for line in edited(writer, play(agent, Session(task, rules)))
    ]
    mix(f"strangers-{number}", lines, {"careful": len(lines), "floor": 20}, tasks, number)


def strangers() -> list[Task]:
    """Return tasks with the resumes of strangers in `readers/pages/test`."""
    tasks = []
    for path in sorted((FOLDER / "pages" / "test").glob("*.md")):
        job, _, resume = path.read_text(encoding="utf-8").partition("\n---\n")
        job = job.removeprefix("POSTING: ").strip()
        tasks.append(Task(path.stem, job, f"{resume.strip()}\n", "vague_bullets", "eval"))
    return tasks


def mix(
    name: str, lines: list[dict[str, str]], counts: Mapping[str, int], tasks: Tasks, seed: int
) -> None:
    """Draw lines of each agent, shuffle them, and write them as JSON and as text for readers.

    If readers have labelled other lines of this name, nothing is written.
    """
    rng = Random(seed)
    drawn: list[dict[str, str]] = []
    for writer, most in counts.items():
        pool = [line for line in lines if line["writer"] == writer]
        drawn += rng.sample(pool, min(most, len(pool)))
    rng.shuffle(drawn)
    numbered = [{"line": n, **one} for n, one in enumerate(drawn)]
    rows = (json.dumps(one, ensure_ascii=False) for one in numbered)
    path, text = FOLDER / f"lines-{name}.jsonl", "\n".join(rows) + "\n"
    labels = FOLDER / f"labels-{name}.jsonl"
    if labels.exists() and path.read_text(encoding="utf-8") != text:
        print(f"no lines drawn: remove {labels.name} first, whose labels are of other lines")
        return
    path.write_text(text, encoding="utf-8")
    page = "\n".join(pages(numbered, tasks)) + "\n"
    (FOLDER / f"page-{name}.txt").write_text(page, encoding="utf-8")


def pages(drawn: list[dict[str, Any]], tasks: Tasks) -> Iterator[str]:
    """Yield the text for readers, task by task; it does not say which agent changed a line."""
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
    """Return the label that two readers share, or "open"; "worse" and "false" count as "bad"."""
    counts = Counter("bad" if label in BAD else label for label in labels)
    said, count = counts.most_common(1)[0]
    return said if count > 1 else "open"


def main() -> int:
    """With --draw, draw lines; else count and record labels, and return 1 on a missed target."""
    reader = parser(__doc__ or "")
    reader.add_argument("--draw", metavar="ROUND", type=int, help="draw the lines of a round")
    reader.add_argument("--strangers", metavar="ROUND", type=int, help="draw a round of strangers")
    args = reader.parse_args()
    if args.draw is None and args.strangers is None:
        return count(args)
    if args.draw is not None:
        draw(args.draw)
    if args.strangers is not None:
        draw_strangers(args.strangers)
    return 0


def count(args: Any) -> int:
    """Count the labels of all rounds; among the numbered rounds, only the newest has targets."""
    figures: list[Figure] = []
    counted: dict[str, Any] = {}
    paths = (path for path in sorted(FOLDER.glob("labels-*.jsonl")) if "plausible" not in path.stem)
    rounds = [path.stem.removeprefix("labels-") for path in paths]
    last = max(filter(str.isdigit, rounds), key=int)
    for number in rounds:
        path = FOLDER / f"labels-{number}.jsonl"
        kind = "scripted" if number.isdigit() else number.split("-", 1)[0]
        least, most = WANTED[kind]
        scripted = number == last or kind == "strangers"
        wanted = ("careful", "oracle") if scripted else ("trained", "aipo")
        lines = {one["line"]: one for one in read(FOLDER / f"lines-{number}.jsonl")}
        who, *labels = read(path)
        said: dict[str, list[str]] = defaultdict(list)
        for one in labels:
            said[lines[one["line"]]["writer"]].append(outcome(one["labels"]))
        if "trained" in said:
            print(f"round {number}, five lines of trained policies:")
            print(*examples(lines, labels), sep="\n")
        for writer, outcomes in said.items():
            for name, *bounds in (("better", least, None), ("bad", None, most)):
                share = outcomes.count(name) / len(outcomes)
                told = f"round {number}: {writer}: {name}"
                figures.append(Figure(told, share, *(bounds if writer in wanted else ())))
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


def examples(
    lines: Mapping[int, dict[str, str]], labels: Iterable[Mapping[str, Any]], seed: int = 0
) -> Iterator[str]:
    """Yield five lines of trained policies, drawn at random, as rows of a Markdown table."""
    outcomes = {one["line"]: outcome(one["labels"]) for one in labels}
    trained = [number for number, line in lines.items() if line["writer"] == "trained"]
    for number in Random(seed).sample(trained, 5):
        line = lines[number]
        yield f"| {line['before']} | {line['after'] or '(deleted)'} | {outcomes[number]} |"


def read(path: Path) -> list[dict[str, Any]]:
    """Return the objects in a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
