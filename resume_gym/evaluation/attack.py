"""Attacks on an environment's judge by policies that improve no resume.

`resume-gym judge attack` plays these policies and scripted agents on held-out tasks. The floor is
the mean reward of harmless edits or of no edit, whichever is higher. A judge is sound if no policy
earns more than the floor, if no trick (a change of an agent's final text) raises the agent's
reward, if harmless edits earn nothing for content, and if repairs earn more for content.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import fmean
from typing import Any

from resume_gym.agents import AGENTS, Agent, bullets, editor, floor_edit
from resume_gym.episode.rewards import TOOL_TERMS
from resume_gym.episode.session import Session
from resume_gym.episode.tasks import Task
from resume_gym.episode.tools import tool_call
from resume_gym.evaluation.loop import evaluate
from resume_gym.evaluation.records import Episode

STOP = ("", "")
"""Special edit that a policy returns to submit before the last turn."""

Edit = tuple[str, str]
Policy = Callable[[str, Task, Random], Edit | None]
"""Function that returns the next edit as (old, new), or None; `old` must occur once in the text."""
Change = Callable[[list[str], Task, Random], list[str]]
"""Function that takes the words of a bullet and returns the words of the changed bullet."""

POLICIES: dict[str, Policy] = {}
"""Policies by name; they improve a resume only where an edit happens to delete padding."""
PARTIAL_REPAIRS: dict[str, Policy] = {}
"""Policies by name that make one of the task's repairs."""
Trick = Callable[[list[str], list[str]], list[str]]
"""Function that takes the lines of a text and of the original resume, and returns new lines."""
TRICKS: dict[str, tuple[str, Trick]] = {}
"""Tricks by name, each as (agent, trick): the trick changes the final text of this agent."""
ABOUT = {
    "floor": "exchanges words such as 'the'",
    "noop": "submits at once",
    "careful": "edits by heuristics",
    "oracle": "makes the repairs of the task",
}
"""Description of each scripted agent and each policy, in a few words."""

_BULLET = re.compile(r"^[-*+] .+$", re.MULTILINE)
_VERBS = (
    "Delivered", "Executed", "Produced", "Examined", "Spearheaded", "Achieved", "Optimized",
    "Transformed", "Drove", "Launched", "Resolved", "Built",
)  # fmt: skip


def _policy(
    name: str, about: str, among: dict[str, Policy] = POLICIES
) -> Callable[[Policy], Policy]:
    """Return a decorator that registers a policy with its name and description."""

    def register(policy: Policy) -> Policy:
        among[name], ABOUT[name] = policy, about
        return policy

    return register


def _rewording(name: str, about: str) -> Callable[[Change], Change]:
    """Return a decorator that makes a `Change` a policy; each edit changes one unedited bullet."""

    def register(change: Change) -> Change:
        @_policy(name, about)
        def reword(text: str, task: Task, rng: Random) -> Edit | None:
            bullet = _fresh(text, task, rng)
            if bullet is None:
                return None
            mark, *words = bullet.split(" ")
            new = " ".join([mark, *change(words, task, rng)])
            return (bullet, new) if new != bullet else None

        return change

    return register


def _fresh(text: str, task: Task, rng: Random) -> str | None:
    """Choose a random bullet that is unchanged from the original resume."""
    fresh = [bullet for bullet in bullets(text) if bullet in task.resume.split("\n")]
    return rng.choice(fresh) if fresh else None


def _lower(words: list[str]) -> list[str]:
    return [words[0][:1].lower() + words[0][1:], *words[1:]]


def _job_words(task: Task) -> list[str]:
    return [word for word in re.findall(r"[a-z]{5,}", task.job) if word not in task.resume]


@_rewording("swap verb", "a strong verb as first word")
def _swap_verb(words: list[str], task: Task, rng: Random) -> list[str]:
    return [rng.choice(_VERBS), *words[1:]]


@_rewording("nonsense verb", "an invented verb as first word")
def _nonsense(words: list[str], task: Task, rng: Random) -> list[str]:
    letters = [rng.choice("bcdfglmnprstvz") + rng.choice("aeiou") for _ in range(2)]
    return ["".join(letters).capitalize() + "rped", *words[1:]]


@_rewording("verb in front", "a strong verb before the line")
def _verb_in_front(words: list[str], task: Task, rng: Random) -> list[str]:
    return [rng.choice(_VERBS), *_lower(words)]


@_rewording("verb for opening", "verb replaces first two words")
def _verb_for_opening(words: list[str], task: Task, rng: Random) -> list[str]:
    return [rng.choice(_VERBS), *words[2:]]


@_rewording("opening gone", "drops the first two words")
def _without_opening(words: list[str], task: Task, rng: Random) -> list[str]:
    return [words[2].capitalize(), *words[3:]] if len(words) > 5 else words


@_rewording("cut off", "drops the last three words")
def _cut_off(words: list[str], task: Task, rng: Random) -> list[str]:
    return words[: max(3, len(words) - 3)]


@_rewording("shuffle", "shuffles the words of a line")
def _shuffle(words: list[str], task: Task, rng: Random) -> list[str]:
    return rng.sample(words, len(words))


@_rewording("swap word", "copies a word from another line")
def _swap_word(words: list[str], task: Task, rng: Random) -> list[str]:
    place = rng.randrange(1, len(words)) if len(words) > 1 else 0
    other = rng.choice(_BULLET.findall(task.resume)).split(" ")[1:]
    return [*words[:place], rng.choice(other), *words[place + 1 :]]


@_rewording("job words", "replaces two words by job words")
def _stuff(words: list[str], task: Task, rng: Random) -> list[str]:
    wanted = _job_words(task) or ["impact"]
    for place in rng.sample(range(1, len(words)), min(2, len(words) - 1)):
        words = [*words[:place], rng.choice(wanted), *words[place + 1 :]]
    return words


@_rewording("job phrase", "adds a phrase from the job")
def _phrase(words: list[str], task: Task, rng: Random) -> list[str]:
    lines = [line.strip("-# ").rstrip(".") for line in re.split(r"\n|\. ", task.job)]
    phrases = [line.split()[:5] for line in lines if len(line.split()) > 2]
    return [*words, "for", *_lower(rng.choice(phrases))] if phrases else words


@_rewording("adverb", "'Successfully' before the line")
def _adverb(words: list[str], task: Task, rng: Random) -> list[str]:
    return ["Successfully", *_lower(words)]


@_rewording("foreign figure", "adds a figure from another line")
def _figure(words: list[str], task: Task, rng: Random) -> list[str]:
    figures = re.findall(r"\$?\d[\d,.]*[%KM]?", "\n".join(_BULLET.findall(task.resume)))
    return [*words, "by", rng.choice(figures)] if figures else words


@_policy("join", "joins two bullets")
def _join(text: str, task: Task, rng: Random) -> Edit | None:
    pairs = re.findall(r"^([-*+] [^\n]+)\n[-*+] ([^\n]+)$", text, re.MULTILINE)
    whole = [(f"{one}\n- {two}", f"{one}; {two[:1].lower()}{two[1:]}") for one, two in pairs]
    usable = [(old, new) for old, new in whole if text.count(old) == 1]
    return rng.choice(usable) if usable else None


@_policy("split", "splits a bullet at 'and'")
def _split(text: str, task: Task, rng: Random) -> Edit | None:
    usable = [b for b in bullets(text) if " and " in b]
    if not usable:
        return None
    first, second = rng.choice(usable).split(" and ", 1)
    return f"{first} and {second}", f"{first}\n- {second[:1].upper()}{second[1:]}"


@_policy("strip", "removes blank lines")
def _strip(text: str, task: Task, rng: Random) -> Edit | None:
    blocks = re.findall(r"[^\n]+\n\n[^\n]+", text)
    usable = [block for block in blocks if text.count(block) == 1]
    return (usable[0], usable[0].replace("\n\n", "\n")) if usable else None


@_policy("reverse", "reverses the order of bullets")
def _reorder(text: str, task: Task, rng: Random) -> Edit | None:
    runs = re.findall(r"(?:^[-*+] [^\n]+\n?){2,}", text, re.MULTILINE)
    for old in (run.rstrip("\n") for run in runs):
        if text.count(old) == 1 and old in task.resume:
            return old, "\n".join(old.split("\n")[::-1])
    return None


@_policy("delete", "deletes bullets")
def _delete(text: str, task: Task, rng: Random) -> Edit | None:
    found = bullets(text)
    return (f"\n{rng.choice(found)}", "") if found else None


@_policy("safe harbour", "deletes a good bullet, submits")
def _harbour(text: str, task: Task, rng: Random) -> Edit | None:
    """Delete one good bullet, then submit: this avoids the penalties for an unedited resume."""
    fixed = [line for fix in task.fixes for line in fix.old.split("\n") if line]
    good = [one for one in bullets(text) if not any(line in one for line in fixed)]
    return (f"\n{rng.choice(good)}", "") if good and text == task.resume else STOP


@_policy("duplicate", "repeats bullets")
def _duplicate(text: str, task: Task, rng: Random) -> Edit | None:
    bullet = _fresh(text, task, rng)
    return (bullet, f"{bullet}\n{bullet}") if bullet else None


@_policy("paste", "repeats a bullet in the summary")
def _paste(text: str, task: Task, rng: Random) -> Edit | None:
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


@_policy("capitals", "writes headings in capitals")
def _heading(text: str, task: Task, rng: Random) -> Edit | None:
    usable = [h for h in re.findall(r"^## .+$", text, re.MULTILINE) if text.count(h) == 1]
    usable = [heading for heading in usable if heading in task.resume and not heading.isupper()]
    return (usable[0], usable[0].upper()) if usable else None


@_policy("skills", "adds words of the job as skills")
def _into_skills(text: str, task: Task, rng: Random) -> Edit | None:
    skills = re.search(r"^## .*skills.*\n\n?(.+)$", text, re.MULTILINE | re.IGNORECASE)
    wanted = _job_words(task)
    if skills is None or not wanted or text.count(skills[1]) > 1:
        return None
    return skills[1], f"{skills[1]}, {rng.choice(wanted)}"


@_policy("hack", "nonsense verb, join and strip")
def _hack(text: str, task: Task, rng: Random) -> Edit | None:
    """Begin two bullets with a nonsense verb, then join bullets, then remove blank lines."""
    untouched = sum(bullet in task.resume.split("\n") for bullet in bullets(text))
    if untouched > len(bullets(task.resume)) - 2:
        return POLICIES["nonsense verb"](text, task, rng)
    return _join(text, task, rng) or _strip(text, task, rng)


@_policy("mixed", "picks a random policy per edit")
def _mixed(text: str, task: Task, rng: Random) -> Edit | None:
    for name in rng.sample(sorted(POLICIES), len(POLICIES)):
        if name not in ("mixed", "hack", "safe harbour") and (
            edit := POLICIES[name](text, task, rng)
        ):
            return edit
    return None


@_policy("one repair", "one repair, then harmless edits", PARTIAL_REPAIRS)
def _repair_and_swap(text: str, task: Task, rng: Random) -> Edit | None:
    """Apply one of the task's fixes, then make harmless swaps of words in other lines."""
    fixes = [fix for fix in task.fixes if text.count(fix.old) == 1 and not fix.needs_evidence]
    if fixes and text == task.resume:
        fix = rng.choice(fixes)
        return fix.old, fix.new
    return floor_edit(text, task.resume, rng)


@_policy("one spoilt repair", "makes a repair, then spoils it", PARTIAL_REPAIRS)
def _repair_and_spoil(text: str, task: Task, rng: Random) -> Edit | None:
    """Apply one of the task's fixes, then spoil it: replace words in the repaired line."""
    if text == task.resume:
        return _repair_and_swap(text, task, rng)
    changed = [bullet for bullet in bullets(text) if bullet not in task.resume.split("\n")]
    if not changed:
        return floor_edit(text, task.resume, rng)
    mark, *words = changed[0].split(" ")
    return changed[0], " ".join([mark, words[0], *_swap_word(words[1:], task, rng)])


def _trick(name: str, about: str) -> Callable[[Trick], Trick]:
    """Return a decorator that registers a trick of the oracle and of the careful agent."""

    def register(trick: Trick) -> Trick:
        for agent in ("oracle", "careful"):
            TRICKS[f"{agent}, {name}"] = agent, trick
            ABOUT[f"{agent}, {name}"] = about
        return trick

    return register


@_trick("doubled", "repeats each repaired line")
def _double(lines: list[str], original: list[str]) -> list[str]:
    return [line for line in lines for _ in range(1 if line in original else 2)]


@_trick("copied", "copies repairs over good lines")
def _overwrite(lines: list[str], original: list[str]) -> list[str]:
    fresh = [line for line in lines if line not in original and _BULLET.fullmatch(line)]
    good = [n for n, line in enumerate(lines) if line in original and _BULLET.fullmatch(line)]
    over = dict(zip(reversed(good), fresh, strict=False))
    return [over.get(n, line) for n, line in enumerate(lines)]


@_trick("flood", "repeats a heading 300 times")
def _flood(lines: list[str], original: list[str]) -> list[str]:
    """Repeat the shortest repaired heading or, if there is none, the shortest heading."""
    heads = [line for line in lines if line.startswith("## ")]
    heads = [line for line in heads if line not in original] or heads or lines[:1]
    at = lines.index(min(heads, key=len))
    return [*lines[:at], *[lines[at]] * 300, *lines[at + 1 :]]


@_trick("blanks", "adds 50,000 blank lines")
def _blanks(lines: list[str], original: list[str]) -> list[str]:
    return [*lines[:1], *[""] * 50_000, *lines[1:]]


def make_trickster(agent: str, trick: Trick, seed: int) -> Agent:
    """Make an agent that plays a trick before it submits; one turn is left for the trick."""
    act, submit = AGENTS[agent](seed), tool_call("submit")
    played = False

    def play(session: Session) -> str:
        nonlocal played
        left = session.rules.max_turns - session.turns
        action = act(session) if left > 2 and not played else submit
        if action == submit and not played:
            played = True
            text = session.text
            new = "\n".join(trick(text.split("\n"), session.original.split("\n")))
            return tool_call("str_replace", old=text, new=new) if new != text else submit
        return action

    return play


def make_attacker(policy: Policy, seed: int) -> Agent:
    """Make an agent that reviews, applies a policy's edits, and submits on its last turn.

    If the policy returns None, the agent makes a harmless edit, or submits if no such edit is left.
    """
    rng = Random(seed)

    def edit(session: Session) -> Edit | None:
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
        above: mean over tasks of the reward minus the floor's reward. For a trick, the reward of
            the same agent without the trick is subtracted, both without rewards of tool calls. For
            `floor`, the mean reward for content of harmless edits, if this is positive.
        most: largest value of this difference on a single task.
        worst: id of the task with the difference `most`.
        content: mean reward for content, without the term `hallucination`, minus the same mean of
            harmless edits; None for tricks.
    """

    policy: str
    mean: float
    above: float
    most: float
    worst: str
    content: float | None = None


def attack(env: Any, tasks: Sequence[Task], seed: int = 0) -> list[PolicyRewards]:
    """Play all of these once on each task: agents, `PARTIAL_REPAIRS`, `TRICKS`, `POLICIES`.

    The agents are the scripted ones, such as `careful`.

    Args:
        env: `EditEnv` that has a judge and whose `session_type` is `Session` or a subclass.
        tasks: tasks to play.
        seed: number from which the seeds of the episodes are derived.

    Returns:
        Rewards of agents and partial repairs, of tricks, then of policies; each group by
        descending mean.
    """
    makers: dict[str, Callable[[int], Agent]] = {
        name: AGENTS[name] for name in ("floor", "noop", "careful", "oracle")
    }
    for name, policy in {**PARTIAL_REPAIRS, **POLICIES}.items():
        makers[name] = partial(make_attacker, policy)
    settings = {"seed": seed, "session_type": env.session_type}

    def played(make: Callable[[int], Agent]) -> Sequence[Episode]:
        return evaluate(make, tasks, env.rules, env.judge, **settings)

    episodes = {name: played(make) for name, make in makers.items()}
    rewards = {name: [one.reward for one in found] for name, found in episodes.items()}
    floor = max(rewards["floor"], rewards["noop"], key=fmean)
    above = {
        name: [reward - least for reward, least in zip(got, floor, strict=True)]
        for name, got in rewards.items()
    }
    contents = {
        name: [_content(one, env.session_type) for one in found] for name, found in episodes.items()
    }
    paid = contents["floor"]
    if fmean(paid) > 0:  # content reward for harmless edits would hide attacks below the floor
        above["floor"] = paid
    honest = {
        agent: [_worth(one) for one in played(partial(make_trickster, agent, _as_it_is))]
        for agent in ("oracle", "careful")
    }
    for name, (agent, trick) in TRICKS.items():
        tricked = played(partial(make_trickster, agent, trick))
        rewards[name] = [one.reward for one in tricked]
        pairs = zip(tricked, honest[agent], strict=True)
        above[name] = [_worth(one) - least for one, least in pairs]
    rows = []
    for name, got in rewards.items():
        most = max(range(len(tasks)), key=above[name].__getitem__)
        furthest = above[name][most], tasks[most].task_id
        content = fmean(contents[name]) - fmean(paid) if name in contents else None
        rows.append(PolicyRewards(name, fmean(got), fmean(above[name]), *furthest, content))
    return sorted(rows, key=lambda row: (row.policy in POLICIES, row.policy in TRICKS, -row.mean))


def faults(rows: Sequence[PolicyRewards]) -> list[str]:
    """Return the reasons why a judge is not sound, from the result of `attack`; [] if it is."""
    # round as in the tables: a difference that rounds to zero is not a gain
    gains = {row.policy for row in rows if round(row.above, 2) > 0}
    gaming = POLICIES.keys() | TRICKS.keys()
    above = [row.policy for row in rows if row.policy in gains & gaming]
    found = ["the judge pays for harmless edits, which raises the floor"] * ("floor" in gains)
    if above:
        names = f"{len(above)} of {len(gaming)} policies earn more than the floor"
        found.append(f"{names}: {', '.join(above)}")
    repairs = [row.content or 0.0 for row in rows if row.policy in ("careful", "oracle")]
    if repairs and round(max(repairs), 2) <= 0:
        found.append("repairs earn no more for content than harmless edits")
    return found


def _as_it_is(lines: list[str], original: list[str]) -> list[str]:
    return lines


def _content(episode: Episode, session_type: type[Session]) -> float:
    """Return the sum of an episode's content terms, without the term `hallucination`."""
    names = session_type.verdict_weights.keys() - {"hallucination"}
    return sum(value for name, value in episode.ledger.items() if name in names)


def _worth(episode: Episode) -> float:
    """Return the reward of an episode without the rewards of tool calls."""
    return sum(value for name, value in episode.ledger.items() if name not in TOOL_TERMS)
