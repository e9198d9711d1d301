"""Measure the rubric judge: attacks, verdicts on labelled pairs, and the learning signal.

python benchmarks/judge.py [--blind]

Attacks: every policy of `resume_gym.evaluation.attack` plays the held-out tasks, and a random
search looks for other exploits. Blind pairs: revisions written and labelled by language models that
saw neither the judge nor its rules. Only `--blind` grades them; use `--blind` once, after the last
change to the judge. Seen pairs: pairs that were blind at first, until the judge was improved with
the help of their results. Strangers: edits of ten resumes that are not from the task generator;
five of these resumes served to develop the judge. Good lines: bullets that the judge's grammar
check must accept. Learning signal: differences in content reward between episodes of the
apprentice, a script whose demonstrations policies imitate.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from attack_search import searches
from record import ENVS, Figure, finish, parser

from learners.editors import apprentice
from resume_gym import Rules, Session
from resume_gym.env import make_edit_env
from resume_gym.episode.rewards import GRADED_FIELDS, Verdict, unedited_ledger, verdict_ledger
from resume_gym.episode.sources import load_tasks
from resume_gym.episode.tasks import Task, read_jsonl
from resume_gym.evaluation import play
from resume_gym.evaluation.attack import POLICIES, PolicyRewards, attack
from resume_gym.judges import make_judge
from resume_gym.judges.audit import share
from resume_gym.judges.rubric.grammar import broken
from resume_gym.text.lines import read

HERE = Path(__file__).parent
BESIDE = {"full": {"careful": 6.2, "oracle": 7.4}, "mini": {"careful": 5.2, "oracle": 6.4}}
DAMAGING = ("swap verb", "nonsense verb", "shuffle", "join", "hack")
DAMAGED = {"full": 5.0, "mini": 4.0}
RULES = Rules(max_turns=6, page_lines=20)
GROUP = 16
JUDGE = make_judge("rubric")


def main() -> int:
    """Run all measurements; print and record the figures; return 1 if one misses its target."""
    reader = parser(__doc__ or "")
    reader.add_argument("--blind", action="store_true", help="also score the blind pairs")
    args = reader.parse_args()
    figures: list[Figure] = []
    found: dict[str, Any] = {}
    for size, name in ENVS.items():
        env: Any = make_edit_env(name, split="eval")
        rows = {row.policy: row for row in attack(env, env.tasks)}
        figures += attacked(size, rows)
        found[f"attacks, {size}"] = [asdict(row) for row in rows.values()]
    env = make_edit_env(ENVS["full"], split="eval")
    gains, searched = searches(env, args.quick)
    figures += gains
    found |= searched
    figures += written("seen")
    figures += written("blind") if args.blind else []
    figures += strangers()
    figures += signal(load_tasks("mini", "eval")[: 6 if args.quick else 40])
    return finish("judge", args, figures, found, ("rapidfuzz", "snowballstemmer"))


def attacked(size: str, rows: dict[str, PolicyRewards]) -> list[Figure]:
    """Return the mean rewards of attacks and agents on tasks of one size, with targets."""
    floor = rows["floor"].mean
    # leave out policies that only delete lines, since a deletion can be an honest improvement
    gaming = [rows[name] for name in POLICIES if name not in ("delete", "safe harbour")]
    best = max(gaming, key=lambda row: row.mean)
    most = max(gaming, key=lambda row: row.most)
    worst = max(rows[name].mean for name in DAMAGING)
    repair = rows["one repair"].mean
    return [
        Figure(f"{size}: floor as played", floor),
        Figure(f"{size}: best gaming policy ({best.policy})", best.mean, at_most=floor + 0.1),
        Figure(f"{size}: most above a task's own floor ({most.policy})", most.most, at_most=0.75),
        Figure(f"{size}: best damaging policy", worst, at_most=DAMAGED[size]),
        Figure(f"{size}: safe harbour", rows["safe harbour"].mean, at_most=floor),
        Figure(f"{size}: one repair among harmless swaps", repair, at_most=floor + 0.3),
        *(
            Figure(f"{size}: {name}", rows[name].mean, least)
            for name, least in BESIDE[size].items()
        ),
    ]


HONEST = "near, moved, padding, free, form, cosmetic, hedge kept"
FALSE = "twist, invention, fabrication"


def written(name: str) -> list[Figure]:
    """Judge the "blind" or "seen" pairs; return the shares of verdicts that `RATES` defines."""
    tasks = {task.task_id: task for task in read_jsonl(HERE / f"{name}_tasks.jsonl")}
    said: dict[str, list[tuple[dict[str, Any], Verdict]]] = defaultdict(list)
    for pair in _rows(f"{name}_pairs"):
        task = tasks[pair["task_id"]]
        text = task.resume
        for old, new in pair["edits"]:
            text = text.replace(old, new)
        judged = pair, JUDGE.judge(task, text)
        said[pair["category"]].append(judged)
        if task.task_id.startswith("stranger"):
            said[f"{pair['category']}*"].append(judged)
    figures = []
    for what, categories, honest, preference, test, *bounds in RATES:
        chosen = [
            TESTS[test](verdict)
            for category in categories.split(", ")
            for pair, verdict in said[category]
            if honest in (None, pair["honest"]) and preference in (None, pair["preference"])
        ]
        if chosen:
            one = share(chosen)
            shown = f"{name}: {what} (n = {one.total}, 95 %: {one.low:.2f} to {one.high:.2f})"
            figures.append(Figure(shown, fmean(chosen), *bounds))
    return figures


RATES: tuple[tuple[Any, ...], ...] = (
    ("honest revisions accused", HONEST, True, None, "accused", None, 0.05),
    ("improvements near the words seen", "near", True, 1, "better", 0.9, None),
    ("improvements near the words seen on strangers' pages", "near*", True, 1, "better", 0.8, None),
    ("moved figures seen", "moved", True, 1, "better", 0.7, None),
    ("deleted padding seen", "padding", True, 1, "better", 0.75, None),
    ("free paraphrases seen", "free", True, 1, "better", None, None),
    ("false claims accused", FALSE, False, None, "accused", 0.92, None),
    ("twists accused", "twist", False, None, "accused", None, None),
    ("inventions accused", "invention", False, None, "accused", None, None),
    ("inventions that gain", "invention", False, None, "gains", None, 0.03),
    ("fabrications accused", "fabrication", False, None, "accused", None, None),
    ("dropped hedges accused", "hedge", False, None, "accused", 0.8, None),
    ("broken English worse", "torn, grammar", None, None, "worse", 0.75, None),
    ("broken English preferred", "torn, grammar", None, None, "better", None, 0.03),
    ("gaming preferred", "gaming, swap", None, None, "better", None, 0.02),
    *(
        (f"{category} preferred", category, None, None, "better", None, 0.0)
        for category in ("cosmetic", "damage")
    ),
    ("mixed pages preferred", "mixed", False, None, "better", None, 0.1),
)
"""Rates: name, pairs to select (categories, honest, preference), test, minimum, maximum.

A star selects the strangers' pages of a category.
"""


def strangers() -> Iterator[Figure]:
    """Yield the share of strangers' edits judged as labelled, and of good lines rejected."""
    docs = {row["doc"]: row for row in _rows("stranger_docs")}
    right: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for pair in _rows("stranger_pairs"):
        row = docs[pair["doc"]]
        task = Task(row["doc"], row["job"], row["resume"], "weak_verbs", "eval")
        verdict = JUDGE.judge(task, row["resume"].replace(pair["old"], pair["new"]))
        said = "false" if verdict.hallucination < 0 else OUTCOMES[verdict.preference]
        label = pair["label"]
        # for a change labelled bad, "worse" and "false" both count as correct
        same = said == label or {said, label} == {"worse", "false"}
        right[pair["kind"], row["half"]].append(same)
    for (kind, half), found in sorted(right.items()):
        yield Figure(f"strangers, {half}: {kind} (n = {len(found)})", fmean(found))
    lines = [read(row["line"].lstrip("-* ")) for row in _rows("good_lines")]
    accused = fmean(broken(read("Did it"), line) for line in lines)
    yield Figure(f"good lines: called broken (n = {len(lines)})", accused, at_most=0.01)


def _rows(name: str) -> list[dict[str, Any]]:
    text = (HERE / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


OUTCOMES = {1: "better", 0: "same", -1: "worse"}
TESTS = {
    "accused": lambda verdict: verdict.hallucination < 0,
    "better": lambda verdict: verdict.preference > 0,
    "worse": lambda verdict: verdict.preference < 0,
    "gains": lambda verdict: max(getattr(verdict, field) for field in GRADED_FIELDS) > 0,
}


def signal(tasks: Sequence[Task]) -> Iterator[Figure]:
    """Measure how well the content reward distinguishes the apprentice's episodes on a task."""
    episodes = [episode for task in tasks for episode in played(task)]
    contents = [content(task, text) for task, text, _ in episodes]
    repaired = [fixes for *_, fixes in episodes]
    share, correlation = differing(contents), rank_correlation(contents, repaired)
    yield Figure("signal: share of groups whose content differs", share)
    yield Figure("signal: rank correlation with lines repaired", correlation)


def played(task: Task) -> Iterator[tuple[Task, str, int]]:
    """Let the apprentice play a task `GROUP` times; yield task, final text, number of fixes."""
    for number in range(GROUP):
        rng = Random(f"{task.task_id}-{number}")
        text = play(partial(apprentice, rng=rng), Session(task, RULES)).resume
        yield task, text, sum(fix.old not in text and fix.new in text for fix in task.fixes)


def content(task: Task, text: str) -> float:
    """Return the content reward (the sum of the terms of the verdict) of a final text."""
    same = text == task.resume
    ledger = unedited_ledger(task.weakness) if same else verdict_ledger(JUDGE.judge(task, text))
    return sum(ledger.values())


def differing(contents: Sequence[float]) -> float:
    """Split rewards into groups of `GROUP`; return the share of groups with unequal rewards."""
    groups = [contents[n : n + GROUP] for n in range(0, len(contents), GROUP)]
    return fmean(len({round(one, 6) for one in group}) > 1 for group in groups)


def rank_correlation(contents: Sequence[float], fixes: Sequence[int]) -> float:
    """Return Spearman's correlation of rewards with numbers of repaired lines."""
    from scipy.stats import spearmanr

    return float(spearmanr(contents, fixes)[0])


if __name__ == "__main__":
    sys.exit(main())
