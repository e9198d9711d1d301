"""Evolutionary search for edits that a judge prefers to the original or repaired resume.

python benchmarks/attack_search.py [--env ResumeEditNet-v0]

The search starts from the original or the repaired resume of a task. People must decide whether the
text with the highest reward is an exploit or an improvement.
"""

import difflib
import re
import string
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import fmean
from typing import Any

from record import ENVS, Figure, finish, parser

from resume_gym.env import make_edit_env
from resume_gym.episode.rewards import TOOL_TERMS
from resume_gym.episode.tasks import Task, repaired
from resume_gym.episode.tools import tool_call
from resume_gym.text.lines import LEXICON

SEARCHED, TRIES = {"original": 4, "repaired": 8}, 20_000
"""Number of held-out tasks by starting text, and number of mutants of each."""


@dataclass(frozen=True)
class SearchResult:
    """Best text that a search found for a task.

    Attributes:
        task_id: id of the task.
        start: text that the search started from: "original" or "repaired".
        before: content and layout reward of the starting text.
        after: content and layout reward of the best text.
        diff: changed lines; empty if no text is better than the starting text.
        text: best text that the search found.
    """

    task_id: str
    start: str
    before: float
    after: float
    diff: tuple[str, ...]
    text: str


def main() -> int:
    """Search an environment's held-out tasks; return 1 if a repaired resume gains."""
    reader = parser(__doc__ or "")
    reader.add_argument("--env", default=ENVS["full"], help="environment (default: %(default)s)")
    args = reader.parse_args()
    env = make_edit_env(args.env, split="eval")
    figures, found = searches(env, args.quick)
    for finds in found.values():
        for find in finds:
            print("\n".join((f"{find['task_id']}, {find['start']}:", *find["diff"])))
    return finish(f"attack_search-{args.env}", args, figures, found)


def searches(env: Any, quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Search from the originals and the repaired resumes of some held-out tasks.

    Returns:
        The mean gains as figures, and the results as dicts, by starting text.
    """
    figures, found = [], {}
    for label, searched in SEARCHED.items():
        finds = [
            search(
                env,
                task,
                task.resume if label == "original" else repaired(task),
                500 if quick else TRIES,
                Random(f"{task.task_id}-{label}"),
                label,
            )
            for task in env.tasks[: 1 if quick else searched]
        ]
        gain = fmean(find.after - find.before for find in finds)
        most = 0.05 if label == "repaired" else None
        figures.append(Figure(f"search from the {label} page: gain", gain, at_most=most))
        found[f"search, {label}"] = [asdict(find) for find in finds]
    return figures, found


def search(env: Any, task: Task, start: str, tries: int, rng: Random, label: str) -> SearchResult:
    """Search for edits that the judge prefers, by random mutation and selection.

    Args:
        env: an `EditEnv` whose judge is attacked; at most `max_turns - 2` lines may change.
        task: task that the judge is given.
        start: text from which the search starts.
        tries: number of mutants; mutants with too many changed lines are not judged.
        rng: random generator of the mutations.
        label: value of `SearchResult.start`.
    """
    edits = env.rules.max_turns - 2
    words = _dictionary(task)
    before = best = _reward(env, task, start)
    pool = [start]
    for _ in range(tries):
        text = rng.choice(pool)
        for _ in range(rng.choice((1, 1, 2, 3))):
            text = _mutant(text, words, rng)
        if text == task.resume or _changed(start, text) > edits:
            continue
        reward = _reward(env, task, text)
        # mutate any of the newest 16 texts with the best reward, to move across plateaus
        if reward > best:
            best, pool = reward, [text]
        elif reward == best and text != start:
            pool = [*pool[-15:], text]
    diff = difflib.unified_diff(start.split("\n"), pool[-1].split("\n"), n=0, lineterm="")
    shown = tuple(line for line in list(diff)[2:] if not line.startswith("@@"))
    return SearchResult(task.task_id, label, before, best, shown if best > before else (), pool[-1])


def _reward(env: Any, task: Task, text: str) -> float:
    """Return the content and layout reward of a text, without the rewards for tool calls."""
    session = env.session_type(task, env.rules)
    if text != task.resume:
        session.step(tool_call("str_replace", old=task.resume, new=text))
    session.step(tool_call("submit"))
    if session.needs_verdict:
        session.grade(env.judge.judge(task, text))
    return float(sum(value for name, value in session.ledger.items() if name not in TOOL_TERMS))


def _dictionary(task: Task) -> list[str]:
    verbs = LEXICON["verbs"]
    lists = (verbs["strong"], verbs["known"], verbs["neutral"], LEXICON["words"]["glue"])
    words = [word for group in lists for word in group]
    for text in (task.job, task.resume):
        words += re.findall(r"[\w$%-]+", text)
    return words


def _changed(before: str, after: str) -> int:
    """Count the lines that differ between two texts."""
    old, new = before.split("\n"), after.split("\n")
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for kind, a, b, c, d in codes if kind != "equal")


def _mutant(text: str, words: Sequence[str], rng: Random) -> str:
    """Apply one random mutation: change the words of a line, or join, move or delete lines."""
    lines = text.split("\n")
    places = [n for n, line in enumerate(lines) if len(line.split()) > 2]
    n = rng.choice(places)
    tokens = lines[n].split(" ")
    at = rng.randrange(1, len(tokens))
    span = rng.randint(1, 4)
    move = rng.randrange(9)
    if move == 0:
        tokens[at] = _cased(rng.choice(words), tokens[at])
    elif move == 1:
        tokens.insert(at, rng.choice(words))
    elif move in (2, 3):
        del tokens[at : at + span]
    elif move == 4:
        other = lines[rng.choice(places)].split(" ")
        start = rng.randrange(len(other))
        tokens[at:at] = other[start : start + span]
    elif move == 5:
        tokens[at:], lines[n] = rng.sample(tokens[at:], len(tokens[at:])), ""
    elif move == 6 and n + 1 < len(lines):
        tokens += ["and", *lines.pop(n + 1).split(" ")[1:]]
    elif move == 7:
        lines.insert(rng.choice(places), lines.pop(n))
        return "\n".join(lines)
    else:
        del lines[n]
        return "\n".join(lines)
    lines[min(n, len(lines) - 1)] = " ".join(tokens)
    return "\n".join(lines)


def _cased(word: str, like: str) -> str:
    return word.capitalize() if like[:1] in string.ascii_uppercase else word


if __name__ == "__main__":
    sys.exit(main())
