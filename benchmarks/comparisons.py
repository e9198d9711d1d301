"""Measure what scores of a group add to verdicts: agreement with labels, ties broken, cost.

python benchmarks/comparisons.py

Labelled texts: those of `seen_pairs.jsonl` and `blind_pairs.jsonl`, in groups of one task. Of two
texts of a group with equal verdict rewards and unequal labels, which one has the higher score?
Played groups: scripted agents play the held-out mini tasks. What share of groups, and of pairs of
members, have equal rewards for content and layout, without and with the scores? The rubric judge
compares, so this does not show how well a model would. Cost: requests to a model in a step of eight
groups, counted; dollars are estimated at the list price of `MODEL`.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from record import Figure, finish, options

from learners.editors import apprentice
from learners.planning.verdicts import CHARACTERS
from resume_gym import Rules, Session, Task, load_tasks, tool_call
from resume_gym.agents import make_agent
from resume_gym.episode.rewards import TOOL_TERMS, verdict_ledger
from resume_gym.episode.tasks import read_jsonl
from resume_gym.evaluation import play
from resume_gym.judges import make_judge
from resume_gym.judges.prompt import comparison_prompt, ranking_prompt, support_prompt
from resume_gym.judges.vetoes import veto
from resume_gym.llm import Answer, Prompt, dollars
from resume_gym.llm.loop import submit

HERE, MODEL, GROUP = Path(__file__).parent, "gemini-3-flash", 8
RULES = Rules(max_turns=6, page_lines=20)
RUBRIC: Any = make_judge("rubric")
JUDGES: dict[str, Any] = {
    name: make_judge({"name": name, "judge": "rubric"}) for name in ("pairwise", "listwise")
}
MIXES = ("floor", "floor careful", "noop floor careful apprentice", "apprentice", "repairs")
COMPARED, CHECKED, PLACED = 750, 400, 60
"""Assumed output tokens of a comparison, of a claim check, and of a place in a ranking."""


def agreement(name: str, limit: int | None) -> Iterator[Figure]:
    """Yield how often scores order two texts of equal verdicts as their labels do, in percent."""
    tasks = {task.task_id: task for task in read_jsonl(HERE / f"{name}_tasks.jsonl")}
    labelled: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for line in (HERE / f"{name}_pairs.jsonl").read_text(encoding="utf-8").splitlines():
        pair = json.loads(line)
        text = tasks[pair["task_id"]].resume
        for old, new in pair["edits"]:
            text = text.replace(old, new)
        if not veto(tasks[pair["task_id"]], text):
            labelled[pair["task_id"]].append((text, pair["preference"]))
    signs = {judge: Counter[int]() for judge in JUDGES}
    for task_id, rows in list(labelled.items())[:limit]:
        task = tasks[task_id]
        for first in range(0, len(rows), GROUP):
            texts, labels = zip(*rows[first : first + GROUP], strict=True)
            worth = [sum(verdict_ledger(RUBRIC.judge(task, text)).values()) for text in texts]
            found = {x: submit(JUDGES[x].judge_group(task, texts)).result() for x in JUDGES}
            for a, b in combinations(range(len(texts)), 2):
                if worth[a] == worth[b] and labels[a] != labels[b]:
                    for judge, own in found.items():
                        lead = (own[a] - own[b]) * (labels[a] - labels[b])
                        signs[judge][(lead > 0) - (lead < 0)] += 1
    for judge, count in signs.items():
        title = f"{name}, equal verdicts (n = {count.total()} pairs): {judge}"
        for sign, what in ((1, "right"), (-1, "wrong"), (0, "tie")):
            yield Figure(f"{title} {what}, %", 100 * count[sign] / max(1, count.total()))


def repairs(session: Session, rng: Random) -> str:
    """Make random repairs of the task, at least one, and submit."""
    fixes = [fix for fix in session.task.fixes if session.text.count(fix.old) == 1]
    if not fixes or (session.turns and rng.random() < 0.4):
        return tool_call("submit")
    fix = rng.choice(fixes)
    return tool_call("str_replace", old=fix.old, new=fix.new)


def played(task: Task, agents: Sequence[str]) -> list[Session]:
    """Let agents play a task in turn, each with its own seed; return the graded group."""
    group = []
    for seed in range(GROUP):
        name, rng = agents[seed % len(agents)], Random(f"{task.task_id}-{seed}")
        own: Any = {"apprentice": apprentice, "repairs": repairs}
        agent: Any = partial(own[name], rng=rng) if name in own else make_agent(name, seed)
        session = play(agent, Session(task, RULES))
        if session.needs_verdict:
            session.grade(RUBRIC.judge(task, session.text))
        group.append(session)
    return group


def ties(name: str, groups: Sequence[Sequence[Session]]) -> Iterator[Figure]:
    """Yield the shares of equal rewards, in percent, without and with each judge's scores."""
    bare = [[one.reward - sum(one.ledger[k] for k in TOOL_TERMS) for one in x] for x in groups]
    for what, judge in {"verdicts": None, **JUDGES}.items():
        rewards = []
        for group, own in zip(groups, bare, strict=True):
            texts = [one.text for one in group]
            asked = judge and submit(judge.judge_group(group[0].task, texts)).result()
            both = zip(own, asked or [0.0] * GROUP, strict=True)
            rewards.append([round(a + b, 9) for a, b in both])
        pairs = [a == b for group in rewards for a, b in combinations(group, 2)]
        equal = 100 * fmean(len(set(group)) == 1 for group in rewards)
        yield Figure(f"played by {name}: groups of equal rewards, {what}, %", equal)
        yield Figure(f"played by {name}: pairs of equal rewards, {what}, %", 100 * fmean(pairs))


def cost(groups: Sequence[Sequence[Session]]) -> Iterator[Figure]:
    """Yield requests and dollars of a step whose groups these are, by what asks the model."""
    asked: dict[str, list[tuple[Prompt, int]]] = defaultdict(list)  # with output tokens
    for group in groups:
        task, texts = group[0].task, [*{one.text for one in group}]
        edited = [text for text in texts if not veto(task, text)]
        compare = [(comparison_prompt(task, task.resume, task.resume), COMPARED)] * 2
        asked["verdicts"] += [*compare, (support_prompt(task, task.resume), CHECKED)] * len(edited)
        matches = len(submit(JUDGES["pairwise"].rank(task, edited)).result().matches)
        # the verdicts have the matches with the original
        asked["pairwise, beside verdicts"] += compare * (matches - len(edited))
        ranking = ranking_prompt(task, texts), PLACED * len(texts)
        asked["listwise, beside verdicts"] += [ranking] * 2 * (len(texts) > 1)
    for what, requests in asked.items():
        read = round(sum(len(x.system) + len(x.user) for x, _ in requests) / CHARACTERS)
        paid = dollars(MODEL, Answer("", MODEL, read, sum(n for _, n in requests), 0.0))
        yield Figure(f"{len(groups)} groups: requests, {what}", len(requests))
        yield Figure(f"{len(groups)} groups: dollars, {what}", paid or 0.0)


def main() -> int:
    """Run all measurements; print and record the figures."""
    args = options(__doc__ or "")
    tasks = load_tasks("mini", "eval")[: 2 if args.quick else 40]
    figures = [x for name in ("seen", "blind") for x in agreement(name, 2 if args.quick else None)]
    groups = {mix: [played(task, mix.split()) for task in tasks] for mix in MIXES}
    figures += [figure for name, own in groups.items() for figure in ties(name, own)]
    figures += cost(groups["apprentice"][:8])
    return finish("comparisons", args, figures, {}, ("rapidfuzz",))


if __name__ == "__main__":
    sys.exit(main())
