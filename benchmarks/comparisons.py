"""Measure what scores of a group add to verdicts: ties broken, agreement with labels, cost.

python benchmarks/comparisons.py

Labelled pairs: the texts of `seen_pairs.jsonl` and `blind_pairs.jsonl`, in groups of one task. Of
two texts of a group with equal verdict rewards and unequal labels, which one has the higher score?
Played groups: scripted agents play the held-out mini tasks; how many groups, and pairs of members,
have equal rewards without and with the comparison? Both parts use only the rubric judge, which does
not show how well a model would compare. Cost: requests to a model judge in a step of the played
groups, counted, and dollars, estimated from the length of prompts at the list price of `MODEL`.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from record import Figure, finish, options

from learners.editors import apprentice
from learners.planning.verdicts import CHARACTERS
from resume_gym import Rules, Session, Task, load_tasks
from resume_gym.agents import make_agent
from resume_gym.episode.rewards import verdict_ledger
from resume_gym.episode.tasks import read_jsonl
from resume_gym.evaluation import play
from resume_gym.judges import make_judge
from resume_gym.judges.prompt import comparison_prompt, ranking_prompt, support_prompt
from resume_gym.judges.vetoes import veto
from resume_gym.llm import Answer, Prompt, dollars
from resume_gym.llm.loop import submit

HERE, MODEL = Path(__file__).parent, "gemini-3-flash"
GROUP, TASKS = 8, 40
RULES = Rules(max_turns=6, page_lines=20)
JUDGES: Mapping[str, Any] = {
    name: make_judge({"name": name, "judge": "rubric", "weight": 1.0})
    for name in ("pairwise", "listwise")
}
RUBRIC = make_judge("rubric")
MIXES = {
    "floor": ["floor"] * 8,
    "careful": ["careful"] * 8,
    "noop, floor": ["noop"] * 4 + ["floor"] * 4,
    "floor, careful": ["floor"] * 4 + ["careful"] * 4,
    "apprentice": ["apprentice"] * 8,
}
WRITTEN = {"compare": 750, "check": 400, "place": 60}
"""Assumed output tokens of a comparison, of a claim check, and of each place of a ranking."""


def content(task: Task, text: str) -> float:
    """Return the reward of the verdict on a text."""
    return sum(verdict_ledger(RUBRIC.judge(task, text)).values())


def scores(judge: Any, task: Task, texts: Sequence[str]) -> list[float]:
    """Return a judge's scores of a group."""
    return submit(judge.judge_group(task, texts)).result()  # type: ignore[no-any-return]


def agreement(name: str, groups: int | None) -> Iterator[Figure]:
    """Yield how often scores order two texts of equal verdicts as their labels do, in percent."""
    tasks = {task.task_id: task for task in read_jsonl(HERE / f"{name}_tasks.jsonl")}
    labelled: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for line in (HERE / f"{name}_pairs.jsonl").read_text(encoding="utf-8").splitlines():
        pair = json.loads(line)
        text = tasks[pair["task_id"]].resume
        for old, new in pair["edits"]:
            text = text.replace(old, new)
        labelled[pair["task_id"]].append((text, pair["preference"]))
    counts = {judge: Counter[str]() for judge in JUDGES}
    for task_id, all_rows in list(labelled.items())[:groups]:
        task = tasks[task_id]
        rows = [row for row in all_rows if veto(task, row[0]) is None]
        for first in range(0, len(rows), GROUP):
            texts, labels = zip(*rows[first : first + GROUP], strict=True)
            rewards = [content(task, text) for text in texts]
            found = {judge: scores(JUDGES[judge], task, texts) for judge in JUDGES}
            for a, b in combinations(range(len(texts)), 2):
                if rewards[a] == rewards[b] and labels[a] != labels[b]:
                    for judge, own in found.items():
                        lead = (own[a] - own[b]) * (labels[a] - labels[b])
                        counts[judge]["right" if lead > 0 else "wrong" if lead < 0 else "tie"] += 1
    for judge, count in counts.items():
        total = count.total()
        for what in ("right", "wrong", "tie"):
            share = 100 * count[what] / max(1, total)
            yield Figure(f"{name} pairs, equal verdicts (n = {total}): {judge} {what}, %", share)


def played(task: Task, agents: Sequence[str]) -> list[Session]:
    """Let agents play a task, each with its own seed; return the graded sessions."""
    group = []
    for seed, name in enumerate(agents):
        rng = Random(f"{task.task_id}-{seed}")
        agent = partial(apprentice, rng=rng) if name == "apprentice" else make_agent(name, seed)
        session = play(agent, Session(task, RULES))
        if session.needs_verdict:
            session.grade(RUBRIC.judge(task, session.text))
        group.append(session)
    return group


def ties(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the shares, in percent, of groups of equal rewards and of pairs of equal rewards."""
    pairs = [a == b for group in groups for a, b in combinations(group, 2)]
    return 100 * fmean(len(set(group)) == 1 for group in groups), 100 * fmean(pairs)


def informative(name: str, groups: Sequence[Sequence[Session]]) -> Iterator[Figure]:
    """Yield the shares of equal rewards without and with each judge's scores."""
    rewards = {"verdicts alone": [[one.reward for one in group] for group in groups]}
    for judge, made in JUDGES.items():
        found = [scores(made, group[0].task, [one.text for one in group]) for group in groups]
        rewards[judge] = [
            [round(one.reward + score, 9) for one, score in zip(group, own, strict=True)]
            for group, own in zip(groups, found, strict=True)
        ]
    for what, values in rewards.items():
        for kind, share in zip(("groups", "pairs of members"), ties(values), strict=True):
            yield Figure(f"played by {name}: {kind} of equal rewards, {what}, %", share)


def price(prompts: Sequence[Prompt], written: int) -> float:
    """Return the estimated cost of requests in dollars, with `written` output tokens in all."""
    read = round(sum(len(one.system) + len(one.user) for one in prompts) / CHARACTERS)
    return dollars(MODEL, Answer("", MODEL, read, written, 0.0)) or 0.0


def cost(groups: Sequence[Sequence[Session]]) -> Iterator[Figure]:
    """Yield requests and dollars of a step whose groups these are, by what asks the model."""
    asked: Counter[str] = Counter()
    paid: Counter[str] = Counter()
    for group in groups:
        task, texts = group[0].task, {one.text: one.needs_verdict or one.verdict for one in group}
        edited = [text for text, changed in texts.items() if changed and not veto(task, text)]
        ranking = submit(JUDGES["pairwise"].rank(task, edited)).result()
        matches = len(ranking.matches) - len(edited)  # those with the original are in the verdicts
        compare = [comparison_prompt(task, task.resume, task.resume)] * 2
        check = [support_prompt(task, task.resume)]
        ranks = [ranking_prompt(task, [*texts])] * 2 * (len(texts) > 1)
        for what, prompts, written in (
            ("verdicts", (compare + check) * len(edited), (2 * 750 + 400) * len(edited)),
            ("pairwise, beside verdicts", compare * matches, 2 * 750 * matches),
            ("listwise, beside verdicts", ranks, 60 * len(texts) * len(ranks)),
        ):
            asked[what] += len(prompts)
            paid[what] += price(prompts, written)
    for what in asked:
        yield Figure(f"a step of {len(groups)} groups: requests, {what}", asked[what])
        yield Figure(f"a step of {len(groups)} groups: dollars, {what}", paid[what])


def main() -> int:
    """Run all measurements; print and record the figures."""
    args = options(__doc__ or "")
    tasks = load_tasks("mini", "eval")[: 4 if args.quick else TASKS]
    figures = [x for name in ("seen", "blind") for x in agreement(name, 2 if args.quick else None)]
    groups = {name: [played(task, mix) for task in tasks] for name, mix in MIXES.items()}
    figures += [figure for name, own in groups.items() for figure in informative(name, own)]
    figures += cost(groups["apprentice"][:8])
    return finish("comparisons", args, figures, {"mixes": MIXES}, ("rapidfuzz",))


if __name__ == "__main__":
    sys.exit(main())
