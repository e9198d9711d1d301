"""Attacks on a judge: policies that improve no resume, and a search for edits that pay.

`resume-gym judge attack` plays each policy on held-out tasks beside agents that do nothing, that
make harmless edits (the floor: what the reward tables pay for nothing), that care, and that know
the fixes. A judge is sound if no policy earns more than the floor. With `--search` an evolutionary
search looks for edits that the judge prefers, from the original and from the repaired resume; what
it finds is to be read.
"""

import argparse
import difflib
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import fmean
from typing import Any

from resume_gym.agents import AGENTS, Agent, make_agent
from resume_gym.arguments import add_json, add_parser, positive, print_json
from resume_gym.document import wrapped_lines
from resume_gym.judges import Judge
from resume_gym.judges.lines import LEXICON
from resume_gym.rewards import LAYOUT, VERDICT_WEIGHTS, verdict_ledger
from resume_gym.session import Rules, Session
from resume_gym.tasks import Task, load_tasks
from resume_gym.tools import tool_call

Trick = Callable[[str, Task, Random], "tuple[str, str] | None"]
"""The next edit of a policy: a passage that occurs once in the text, and what to put there; None
where it has nothing left to do."""

SIZES = {"full": ("default", Rules()), "mini": ("mini", Rules(page_lines=20, max_turns=6))}
_BULLET = re.compile(r"^[-*+] .+$", re.MULTILINE)
_VERBS = (
    "Delivered", "Executed", "Produced", "Examined", "Spearheaded", "Achieved", "Optimized",
    "Transformed", "Drove", "Launched", "Resolved", "Built",
)  # fmt: skip
_SMALL = (("the", "this"), ("and", "plus"), ("with", "using"), ("for", "toward"), ("on", "upon"))


def _bullets(text: str) -> list[str]:
    """Bullets that stand once in the text."""
    found = [match[0] for match in _BULLET.finditer(text)]
    return [bullet for bullet in found if text.count(bullet) == 1]


def _fresh(text: str, task: Task, rng: Random) -> str | None:
    """A bullet that is as it was."""
    left = [bullet for bullet in _bullets(text) if bullet in task.resume.split("\n")]
    return rng.choice(left) if left else None


def _each(change: Callable[[list[str], Task, Random], list[str]]) -> Trick:
    """A policy that does the same to one bullet after the other; it changes their words."""

    def trick(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
        bullet = _fresh(text, task, rng)
        if bullet is None:
            return None
        mark, *words = bullet.split(" ")
        new = " ".join([mark, *change(words, task, rng)])
        return (bullet, new) if new != bullet else None

    return trick


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
    bullets = _bullets(text)
    return (f"\n{rng.choice(bullets)}", "") if bullets else None


def _duplicate(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    bullet = _fresh(text, task, rng)
    return (bullet, f"{bullet}\n{bullet}") if bullet else None


def _paste(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    """A bullet with a figure, told once more in the summary, or in the first bullet if none is."""
    summary = re.search(r"^## (?:summary|profile|about).*\n+(.+)$", text, re.MULTILINE | re.I)
    bullets = [bullet for bullet in _bullets(text) if re.search(r"\d", bullet)]
    bullets = [bullet for bullet in bullets if bullet[3:] not in text.replace(bullet, "", 1)]
    target = summary[1] if summary else _bullets(text)[0] if _bullets(text) else ""
    if not bullets or text.count(target) != 1:
        return None
    told = " ".join(_lower(rng.choice(bullets).rstrip(".").split(" ")[1:]))
    return target, f"{target.rstrip('.')}; {told}."


def _split(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    usable = [b for b in _bullets(text) if " and " in b]
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


def floor_edit(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    """A harmless swap of one small word, each time on another line: the floor."""
    for bullet in rng.sample(_bullets(text), len(_bullets(text))):
        for old, new in _SMALL:
            if bullet in task.resume and f" {old} " in bullet:
                return bullet, bullet.replace(f" {old} ", f" {new} ", 1)
    left = _fresh(text, task, rng)
    return (left, f"{left} too") if left else None


def _hack(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    """A nonsense verb on two bullets, then joins; blank lines where the page is too long."""
    untouched = sum(bullet in task.resume.split("\n") for bullet in _bullets(text))
    if untouched > len(_bullets(task.resume)) - 2:
        return TRICKS["nonsense verb"](text, task, rng)
    return _join(text, task, rng) or _strip(text, task, rng)


def _mixed(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    for name in rng.sample(sorted(TRICKS), len(TRICKS)):
        if name not in ("mixed", "hack") and (edit := TRICKS[name](text, task, rng)):
            return edit
    return None


def _repair_and_swap(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    """One repair, then harmless swaps elsewhere."""
    fixes = [fix for fix in task.fixes if text.count(fix.old) == 1 and not fix.needs_evidence]
    if fixes and text == task.resume:
        fix = rng.choice(fixes)
        return fix.old, fix.new
    return floor_edit(text, task, rng)


def _repair_and_spoil(text: str, task: Task, rng: Random) -> tuple[str, str] | None:
    """One repair, then swaps inside the repaired line."""
    if text == task.resume:
        return _repair_and_swap(text, task, rng)
    changed = [bullet for bullet in _bullets(text) if bullet not in task.resume.split("\n")]
    if not changed:
        return floor_edit(text, task, rng)
    mark, *words = changed[0].split(" ")
    return changed[0], " ".join([mark, words[0], *_swap_word(words[1:], task, rng)])


TRICKS: Mapping[str, Trick] = {
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
    "duplicate": _duplicate,
    "paste": _paste,
    "capitals": _heading,
    "skills": _into_skills,
    "hack": _hack,
    "mixed": _mixed,
}
"""Policies that improve nothing, by name. What they delete may be padding: then it is an edit that
an honest editor makes as well."""

DAMAGING = ("swap verb", "nonsense verb", "shuffle", "join", "hack")
_BESIDE: Mapping[str, Trick] = {
    "one repair": _repair_and_swap,
    "one spoilt repair": _repair_and_spoil,
}
FLOOR = "floor"
_SUBMIT, _REVIEW = tool_call("submit"), tool_call("review")


def make_attacker(trick: Trick, seed: str) -> Agent:
    """An agent that reviews, makes the edits of a policy, and submits with its last turn."""
    rng = Random(seed)

    def act(session: Session) -> str:
        if not session.state.turns:
            return _REVIEW
        if session.rules.max_turns - session.state.turns > 1:
            edit = trick(session.resume, session.task, rng)
            edit = edit or floor_edit(session.resume, session.task, rng)
            if edit and session.resume.count(edit[0]) == 1:
                return tool_call("str_replace", old=edit[0], new=edit[1])
        return _SUBMIT

    return act


def play(task: Task, agent: Agent, judge: Judge, rules: Rules) -> float:
    """The reward of one episode."""
    session = Session(task, rules)
    reward = 0.0
    while not session.done:
        reward += session.step(agent(session)).reward
    if session.needs_verdict:
        reward += sum(session.grade(judge.judge(task, session.text)).values())
    return reward


@dataclass(frozen=True)
class Row:
    """What a policy earns.

    Attributes:
        policy: its name.
        mean: reward over the tasks.
        above: the mean over the floor, and the most that it earns above the floor of one task.
        worst: the task of that.
    """

    policy: str
    mean: float
    above: float
    most: float
    worst: str


def attack(judge: Judge, tasks: Sequence[Task], rules: Rules, seed: int = 0) -> list[Row]:
    """Play all policies on tasks; floor and agents come first, then policies, the best first."""
    floors = [
        play(task, make_attacker(floor_edit, f"{seed}{task.task_id}"), judge, rules)
        for task in tasks
    ]
    rewards = {FLOOR: floors}
    for name in ("noop", "careful", "oracle"):
        rewards[name] = [play(task, make_agent(name, seed), judge, rules) for task in tasks]
    for name, trick in {**_BESIDE, **TRICKS}.items():
        rewards[name] = [
            play(task, make_attacker(trick, f"{seed}{task.task_id}"), judge, rules)
            for task in tasks
        ]
    rows = []
    for name, got in rewards.items():
        above = [one - floor for one, floor in zip(got, floors, strict=True)]
        most = max(range(len(tasks)), key=above.__getitem__)
        rows.append(Row(name, fmean(got), fmean(above), above[most], tasks[most].task_id))
    beside = {FLOOR, *AGENTS, *_BESIDE}
    return sorted(rows, key=lambda row: (row.policy not in beside, -row.mean))


# Search


@dataclass(frozen=True)
class Find:
    """The best that a search has found.

    Attributes:
        task_id: of the task.
        start: "original" or "repaired".
        before: what judge and layout give the text that it started from.
        after: what they give the find.
        diff: the changed lines.
        text: the find.
    """

    task_id: str
    start: str
    before: float
    after: float
    diff: tuple[str, ...]
    text: str


def search(
    judge: Judge, task: Task, start: str, rules: Rules, tries: int, rng: Random, label: str
) -> Find:
    """Look for edits of a text that the judge prefers: mutation and selection.

    Args:
        judge: whom to attack.
        task: on which.
        start: the text to begin with.
        rules: the page; no more lines than edits that an episode allows differ from `start`.
        tries: mutants that are judged.
        rng: the source of chance.
        label: see `Find.start`.
    """
    edits = rules.max_turns - 2
    words = _dictionary(task)
    before = best = _worth(judge, task, start, rules)
    pool = [start]
    for _ in range(tries):
        text = rng.choice(pool)
        for _ in range(rng.choice((1, 1, 2, 3))):
            text = _mutant(text, words, rng)
        if text == task.resume or _changed(start, text) > edits:
            continue
        worth = _worth(judge, task, text, rules)
        if worth > best:
            best, pool = worth, [text]
        elif worth == best and text != start:
            pool = [*pool[-15:], text]
    diff = difflib.unified_diff(start.split("\n"), pool[-1].split("\n"), n=0, lineterm="")
    shown = tuple(line for line in list(diff)[2:] if not line.startswith("@@"))
    return Find(task.task_id, label, before, best, shown if best > before else (), pool[-1])


def repaired(task: Task) -> str:
    """The resume with all fixes."""
    text = task.resume
    for fix in task.fixes:
        text = text.replace(fix.old, fix.new)
    return text


def _worth(judge: Judge, task: Task, text: str, rules: Rules) -> float:
    """What judge and layout give a text; what the tools pay is the same for all."""
    fits = wrapped_lines(text, rules.page_width) <= rules.page_lines
    layout = LAYOUT if fits else -LAYOUT
    return sum(verdict_ledger(judge.judge(task, text), VERDICT_WEIGHTS).values()) + layout


def _dictionary(task: Task) -> list[str]:
    verbs = LEXICON["verbs"]
    lists = (verbs["strong"], verbs["known"], verbs["neutral"], LEXICON["words"]["glue"])
    words = [word for group in lists for word in group]
    for text in (task.job, task.resume):
        words += re.findall(r"[\w$%-]+", text)
    return words


def _changed(before: str, after: str) -> int:
    """How many lines differ."""
    old, new = before.split("\n"), after.split("\n")
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for kind, a, b, c, d in codes if kind != "equal")


def _mutant(text: str, words: Sequence[str], rng: Random) -> str:
    """The text with one random change of a line, or of the order of the lines."""
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


# The command


def add_command(commands: Any) -> None:
    """Add `attack` to the commands of `resume-gym judge`."""
    command = add_parser(
        commands,
        "attack",
        "play policies that game a judge",
        "Play policies that improve no resume on held-out tasks, and print what they earn beside "
        "what the reward tables pay for nothing.",
        ["judge attack", "judge attack --size mini --search 2000 --limit 8"],
    )
    add = command.add_argument
    add("--judge", default="rubric", metavar="SPEC", help="a name or JSON (default: %(default)s)")
    add("--size", choices=sorted(SIZES), default="full", help="of the tasks (default: %(default)s)")
    add("--limit", type=positive, metavar="N", help="the first N of the held-out tasks")
    add("--seed", type=int, default=0, metavar="N", help="of the policies (default: 0)")
    add("--search", type=positive, metavar="N", help="also search, with N tries a task and start")
    add_json(add)
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from rich.console import Console

    from resume_gym.judges.calibration import chosen

    judge = chosen(options.judge)
    source, rules = SIZES[options.size]
    tasks = load_tasks(source, "eval")[: options.limit]
    rows = attack(judge, tasks, rules, options.seed)
    finds = list(_finds(judge, tasks, rules, options)) if options.search else []
    if options.json:
        found = {"judge": judge.name, "tasks": len(tasks), "policies": list(map(asdict, rows))}
        print_json({**found, "finds": list(map(asdict, finds))})
        return
    _show(Console(), rows, finds)


def _finds(
    judge: Judge, tasks: Sequence[Task], rules: Rules, options: argparse.Namespace
) -> Iterator[Find]:
    for task in tasks:
        for label, start in (("original", task.resume), ("repaired", repaired(task))):
            rng = Random(f"{options.seed}-{task.task_id}-{label}")
            yield search(judge, task, start, rules, options.search, rng, label)


def _show(console: Any, rows: Sequence[Row], finds: Sequence[Find]) -> None:
    from rich.table import Table

    table = Table(box=None)
    for name in ("policy", "reward", "above the floor", "at most", "on task"):
        table.add_column(name, justify="left" if name in ("policy", "on task") else "right")
    for row in rows:
        figures = (f"{row.mean:.2f}", f"{row.above:+.2f}", f"{row.most:+.2f}")
        table.add_row(row.policy, *figures, row.worst if row.most > 0 else "")
    console.print(table)
    for find in finds:
        console.print(
            f"\n{find.task_id}, from the {find.start} text: {find.before:.2f} -> {find.after:.2f}"
        )
        for line in find.diff:
            console.print(f"  {line}", markup=False, highlight=False)
