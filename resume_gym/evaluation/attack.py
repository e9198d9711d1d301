"""Attacks on an environment's judge by policies that improve no resume.

`resume-gym judge attack` plays these policies and scripted agents on held-out tasks. The floor is
the mean reward of harmless edits or of no edit, whichever is higher. A judge is sound if no policy
earns more than the floor.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import fmean
from typing import Any

from resume_gym.agents import AGENTS, Agent, bullets, editor, floor_edit
from resume_gym.episode.session import Session
from resume_gym.episode.tasks import Task
from resume_gym.evaluation.loop import evaluate

STOP = ("", "")
"""Special edit that a policy returns to submit before the last turn."""

Policy = Callable[[str, Task, Random], "tuple[str, str] | None"]
"""Function that returns the next edit (old, new), whose `old` occurs once in the text; or None."""

_BULLET = re.compile(r"^[-*+] .+$", re.MULTILINE)
_VERBS = (
    "Delivered", "Executed", "Produced", "Examined", "Spearheaded", "Achieved", "Optimized",
    "Transformed", "Drove", "Launched", "Resolved", "Built",
)  # fmt: skip


def _fresh(text: str, task: Task, rng: Random) -> str | None:
    """Choose a random bullet that is unchanged from the original resume."""
    fresh = [bullet for bullet in bullets(text) if bullet in task.resume.split("\n")]
    return rng.choice(fresh) if fresh else None


def _each(change: Callable[[list[str], Task, Random], list[str]]) -> Policy:
    """Make a policy that applies `change` to the words of one unedited bullet at a time."""

    def policy(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
        bullet = _fresh(text, task, rng)
        if bullet is None:
            return None
        mark, *words = bullet.split(" ")
        new = " ".join([mark, *change(words, task, rng)])
        return (bullet, new) if new != bullet else None

    return policy


def _lower(words: list[str]) -> list[str]:
    return [words[0][:1].lower() + words[0][1:], *words[1:]]


def _nonsense(rng: Random) -> str:
    letters = [rng.choice("bcdfglmnprstvz") + rng.choice("aeiou") for _ in range(2)]
    return "".join(letters).capitalize() + "rped"


def _swap_word(words: list[str], task: Task, rng: Random) -> list[str]:
    place = rng.randrange(1, len(words)) if len(words) > 1 else 0
    other = rng.choice(_BULLET.findall(task.resume)).split(" ")[1:]
    return [*words[:place], rng.choice(other), *words[place + 1 :]]


def _job_words(task: Task) -> list[str]:
    return [word for word in re.findall(r"[a-z]{5,}", task.job) if word not in task.resume]


def _stuff(words: list[str], task: Task, rng: Random) -> list[str]:
    wanted = _job_words(task) or ["impact"]
    for place in rng.sample(range(1, len(words)), min(2, len(words) - 1)):
        words = [*words[:place], rng.choice(wanted), *words[place + 1 :]]
    return words


def _phrase(words: list[str], task: Task, rng: Random) -> list[str]:
    lines = [line.strip("-# ").rstrip(".") for line in re.split(r"\n|\. ", task.job)]
    phrase = rng.choice([line for line in lines if len(line.split()) > 2]).split()[:5]
    return [*words, "for", *_lower(phrase)]


def _without_opening(words: list[str], task: Task, rng: Random) -> list[str]:
    return [words[2].capitalize(), *words[3:]] if len(words) > 5 else words


def _shuffled(words: list[str], task: Task, rng: Random) -> list[str]:
    return rng.sample(words, len(words))


def _figure(words: list[str], task: Task, rng: Random) -> list[str]:
    figures = re.findall(r"\$?\d[\d,.]*[%KM]?", "\n".join(_BULLET.findall(task.resume)))
    return [*words, "by", rng.choice(figures)] if figures else words


def _join(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    pairs = re.findall(r"^([-*+] [^\n]+)\n[-*+] ([^\n]+)$", text, re.MULTILINE)
    whole = [(f"{one}\n- {two}", f"{one}; {two[:1].lower()}{two[1:]}") for one, two in pairs]
    usable = [(old, new) for old, new in whole if text.count(old) == 1]
    return rng.choice(usable) if usable else None


def _strip(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    blocks = re.findall(r"[^\n]+\n\n[^\n]+", text)
    usable = [block for block in blocks if text.count(block) == 1]
    return (usable[0], usable[0].replace("\n\n", "\n")) if usable else None


def _reorder(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    runs = re.findall(r"(?:^[-*+] [^\n]+\n?){2,}", text, re.MULTILINE)
    original = task.resume
    for run in runs:
        lines = run.rstrip("\n").split("\n")
        old, new = "\n".join(lines), "\n".join(lines[::-1])
        if text.count(old) == 1 and old in original:
            return old, new
    return None


def _delete(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    found = bullets(text)
    return (f"\n{rng.choice(found)}", "") if found else None


def _harbour(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    """Delete one good bullet, then submit: this avoids the penalties for an unedited resume."""
    fixed = [line for fix in task.fixes for line in fix.old.split("\n") if line]
    good = [one for one in bullets(text) if not any(line in one for line in fixed)]
    return (f"\n{rng.choice(good)}", "") if good and text == task.resume else STOP


def _duplicate(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    bullet = _fresh(text, task, rng)
    return (bullet, f"{bullet}\n{bullet}") if bullet else None


def _paste(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    """Append a bullet with a figure to the summary or, if there is none, to the first bullet."""
    summary = re.search(r"^## (?:summary|profile|about).*\n+(.+)$", text, re.MULTILINE | re.I)
    figures = [bullet for bullet in bullets(text) if re.search(r"\d", bullet)]
    # skip bullets repeated before; `[3:]` ignores the first letter, which `_lower` changes
    figures = [bullet for bullet in figures if bullet[3:] not in text.replace(bullet, "", 1)]
    target = summary[1] if summary else bullets(text)[0] if bullets(text) else ""
    if not figures or text.count(target) != 1:
        return None
    claim = " ".join(_lower(rng.choice(figures).rstrip(".").split(" ")[1:]))
    return target, f"{target.rstrip('.')}; {claim}."


def _split(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    usable = [b for b in bullets(text) if " and " in b]
    if not usable:
        return None
    first, second = rng.choice(usable).split(" and ", 1)
    return f"{first} and {second}", f"{first}\n- {second[:1].upper()}{second[1:]}"


def _heading(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    usable = [h for h in re.findall(r"^## .+$", text, re.MULTILINE) if text.count(h) == 1]
    usable = [heading for heading in usable if heading in task.resume and not heading.isupper()]
    return (usable[0], usable[0].upper()) if usable else None


def _into_skills(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    skills = re.search(r"^## .*skills.*\n\n?(.+)$", text, re.MULTILINE | re.IGNORECASE)
    wanted = _job_words(task)
    if skills is None or not wanted or text.count(skills[1]) > 1:
        return None
    return skills[1], f"{skills[1]}, {rng.choice(wanted)}"


def _hack(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    """Begin two bullets with a nonsense verb, then join bullets, then remove blank lines."""
    untouched = sum(bullet in task.resume.split("\n") for bullet in bullets(text))
    if untouched > len(bullets(task.resume)) - 2:
        return POLICIES["nonsense verb"](text, task, rng)
    return _join(text, task, rng) or _strip(text, task, rng)


def _mixed(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    for name in rng.sample(sorted(POLICIES), len(POLICIES)):
        if name not in ("mixed", "hack", "safe harbour") and (
            edit := POLICIES[name](text, task, rng)
        ):
            return edit
    return None


def _repair_and_swap(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    """Apply one of the task's fixes, then make harmless swaps of words in other lines."""
    fixes = [fix for fix in task.fixes if text.count(fix.old) == 1 and not fix.needs_evidence]
    if fixes and text == task.resume:
        fix = rng.choice(fixes)
        return fix.old, fix.new
    return floor_edit(text, task.resume, rng)


def _repair_and_spoil(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    """Apply one of the task's fixes, then spoil it: replace words in the repaired line."""
    if text == task.resume:
        return _repair_and_swap(text, task, rng)
    changed = [bullet for bullet in bullets(text) if bullet not in task.resume.split("\n")]
    if not changed:
        return floor_edit(text, task.resume, rng)
    mark, *words = changed[0].split(" ")
    return changed[0], " ".join([mark, words[0], *_swap_word(words[1:], task, rng)])


POLICIES: Mapping[str, Policy] = {
    "swap verb": _each(lambda words, task, rng: [rng.choice(_VERBS), *words[1:]]),
    "nonsense verb": _each(lambda words, task, rng: [_nonsense(rng), *words[1:]]),
    "verb in front": _each(lambda words, task, rng: [rng.choice(_VERBS), *_lower(words)]),
    "verb for opening": _each(lambda words, task, rng: [rng.choice(_VERBS), *words[2:]]),
    "opening gone": _each(_without_opening),
    "cut off": _each(lambda words, task, rng: words[: max(3, len(words) - 3)]),
    "shuffle": _each(_shuffled),
    "swap word": _each(_swap_word),
    "job words": _each(_stuff),
    "job phrase": _each(_phrase),
    "adverb": _each(lambda words, task, rng: ["Successfully", *_lower(words)]),
    "foreign figure": _each(_figure),
    "join": _join,
    "split": _split,
    "strip": _strip,
    "reverse": _reorder,
    "delete": _delete,
    "safe harbour": _harbour,
    "duplicate": _duplicate,
    "paste": _paste,
    "capitals": _heading,
    "skills": _into_skills,
    "hack": _hack,
    "mixed": _mixed,
}
"""Policies by name; they improve a resume only where an edit happens to delete padding."""

PARTIAL_REPAIRS: Mapping[str, Policy] = {
    "one repair": _repair_and_swap,
    "one spoilt repair": _repair_and_spoil,
}


ABOUT: Mapping[str, str] = {
    "floor": "exchanges words such as 'the'",
    "noop": "submits at once",
    "careful": "edits by heuristics",
    "oracle": "makes the repairs of the task",
    "one repair": "one repair, then harmless edits",
    "one spoilt repair": "makes a repair, then spoils it",
    "swap verb": "a strong verb as first word",
    "nonsense verb": "an invented verb as first word",
    "verb in front": "a strong verb before the line",
    "verb for opening": "verb replaces first two words",
    "opening gone": "drops the first two words",
    "cut off": "drops the last three words",
    "shuffle": "shuffles the words of a line",
    "swap word": "copies a word from another line",
    "job words": "replaces two words by job words",
    "job phrase": "adds a phrase from the job",
    "adverb": "'Successfully' before the line",
    "foreign figure": "adds a figure from another line",
    "join": "joins two bullets",
    "split": "splits a bullet at 'and'",
    "strip": "removes blank lines",
    "reverse": "reverses the order of bullets",
    "delete": "deletes bullets",
    "safe harbour": "deletes a good bullet, submits",
    "duplicate": "repeats bullets",
    "paste": "repeats a bullet in the summary",
    "capitals": "writes headings in capitals",
    "skills": "adds words of the job as skills",
    "hack": "nonsense verb, join and strip",
    "mixed": "picks a random policy per edit",
}
"""Description of each agent and policy, in a few words."""


def make_attacker(policy: Policy, seed: int) -> Agent:
    """Make an agent that reviews, applies a policy's edits, and submits on its last turn.

    If the policy returns None, the agent makes a harmless edit, or submits if no such edit is left.
    """
    rng = Random(seed)

    def edit(session: Session) -> tuple[str, str] | None:
        text, task = session.resume, session.task
        change = policy(text, task, rng) or floor_edit(text, task.resume, rng)
        return change if change and change != STOP and text.count(change[0]) == 1 else None

    return editor(edit)


@dataclass(frozen=True)
class PolicyRewards:
    """Rewards of one policy.

    Attributes:
        policy: name of the policy.
        mean: mean reward over the tasks.
        above: mean over tasks of the reward minus the floor's reward.
        most: largest value of the reward minus the floor's reward on a single task.
        worst: id of the task with the difference `most`.
    """

    policy: str
    mean: float
    above: float
    most: float
    worst: str


def attack(env: Any, tasks: Sequence[Task], seed: int = 0) -> list[PolicyRewards]:
    """Play the scripted agents, `PARTIAL_REPAIRS` and `POLICIES` once on each task.

    Args:
        env: `EditEnv` that has a judge and whose `session_type` is `Session` or a subclass.
        tasks: tasks to play.
        seed: number from which the seeds of the episodes are derived.

    Returns:
        Rewards of agents and partial repairs, then of policies; each group by descending mean.
    """
    makers: dict[str, Callable[[int], Agent]] = {
        **{name: AGENTS[name] for name in ("floor", "noop", "careful", "oracle")},
        **{name: partial(make_attacker, one) for name, one in PARTIAL_REPAIRS.items()},
        **{name: partial(make_attacker, one) for name, one in POLICIES.items()},
    }
    settings = {"seed": seed, "session_type": env.session_type}
    rewards = {
        name: [one.reward for one in evaluate(make, tasks, env.rules, env.judge, **settings)]
        for name, make in makers.items()
    }
    floor = max(rewards["floor"], rewards["noop"], key=fmean)
    rows = []
    for name, got in rewards.items():
        above = [reward - least for reward, least in zip(got, floor, strict=True)]
        most = max(range(len(tasks)), key=above.__getitem__)
        rows.append(PolicyRewards(name, fmean(got), fmean(above), above[most], tasks[most].task_id))
    beside = {*AGENTS, *PARTIAL_REPAIRS}
    return sorted(rows, key=lambda row: (row.policy not in beside, -row.mean))
